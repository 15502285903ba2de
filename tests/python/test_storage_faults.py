"""Faults of a store, as a reader sees them: the right answer or one named error within its limit."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from s3_server import CLIENTS, S3Server
from tiers import pick

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_DIR = corpus.GOLDEN / "clean-restarts" / "data-1"
URL = "s3://bkt/L"
PASSING = ("slow-down", "throttle", "internal", "reset", "truncate", "short")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(LOG_DIR, "L/")
    yield made
    made.close()


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {**server.options_for(request.param, monkeypatch, 2), "timeout": "2s"}


def read(options: dict[str, Any]) -> Any:
    return kafkalog.read_table(URL, threads=1, storage_options=options)


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_not_seen(server: S3Server, options: dict[str, Any], fault: str) -> None:
    broken: set[tuple[str, str]] = set()

    def once(kind: str, key: str, number: int) -> str | None:
        if (kind, key) in broken or fault == "short" and kind == "LIST":  # noqa: RUF021
            return None
        broken.add((kind, key))
        return fault if kind != "HEAD" or fault not in {"short", "truncate"} else None

    server.fault = once
    with kafkalog.scan(URL, "orders", storage_options=options) as reader:
        assert reader.read_all().equals(kafkalog.read_table(LOG_DIR, "orders"))
    # The AWS SDK opens a connection again by itself, and of a short answer pyarrow's client asks again.
    assert broken


@pytest.mark.parametrize(
    ("fault", "expected", "said"),
    [
        ("slow-down", OSError, "503"),
        ("throttle", OSError, "429"),
        ("internal", OSError, "500"),
        ("reset", OSError, "bytes 0 to"),
        ("truncate", OSError, "bytes 0 to"),
        ("short", OSError, "of 14162 bytes|less than the 14162 bytes"),
        ("denied", PermissionError, "bytes 0 to"),
        ("missing", FileNotFoundError, "there is no such object"),
    ],
)
def test_a_lasting_fault_is_one_error_that_names_the_object(
    server: S3Server, options: dict[str, Any], fault: str, expected: type[Exception], said: str
) -> None:
    server.fault = lambda kind, key, number: fault if key.endswith(f"orders-0/{0:020}.log") else None  # noqa: ARG005
    begun = time.monotonic()
    with pytest.raises(expected, match=said) as raised:
        read(options)
    assert f"L/orders-0/{0:020}.log" in str(raised.value)
    passes = fault not in {"denied", "missing"}
    assert (f"tried {options['max_retries'] + 1} times" in str(raised.value)) == passes
    assert time.monotonic() - begun < 20


def test_a_stalled_answer_times_out(server: S3Server, options: dict[str, Any]) -> None:
    server.fault = lambda kind, key, number: "stall" if kind == "GET" and key.endswith(".log") else None  # noqa: ARG005
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 2 s; tried 2 times"):
        kafkalog.read_table(URL, "orders", threads=1, storage_options={**options, "timeout": "2s"})
    assert time.monotonic() - begun < 10


def test_an_object_that_changed_is_refused(server: S3Server, options: dict[str, Any]) -> None:
    key, before, modified = f"L/orders-0/{0:020}.log", dict(server.objects), server.modified
    try:
        for changed in (before[key] + b"more", before[key][:-1] + b"x"):
            with kafkalog.scan(URL, "orders", storage_options=options) as reader:
                server.objects[key], server.modified = changed, modified + 60
                with pytest.raises(OSError, match="plan again"):
                    reader.read_all()
            server.objects, server.modified = dict(before), modified
    finally:
        server.objects, server.modified = before, modified


def test_random_mixtures_of_faults(server: S3Server, options: dict[str, Any]) -> None:
    expected = kafkalog.read_table(LOG_DIR)
    for seed in range(pick(3, 100, 300)):
        chance = random.Random(seed)  # noqa: S311 - of a test
        rate = chance.choice([0.02, 0.1, 0.4])

        def fault(kind: str, key: str, number: int, chance: random.Random = chance, rate: float = rate) -> str | None:
            chosen = chance.choice(PASSING) if chance.random() < rate else None
            return None if chosen == "short" and kind != "GET" else chosen

        server.fault = fault
        begun = time.monotonic()
        try:
            found = read(options)
        except OSError as error:
            assert "tried" in str(error), seed  # noqa: PT017 - either outcome is right
        else:
            assert found.equals(expected), seed
        assert time.monotonic() - begun < 60, seed
        server.reset()
