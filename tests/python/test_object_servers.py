"""Real object stores give what a disk gives, and faults before one are the right answer or one named error."""

from __future__ import annotations

import importlib.util
import io
import itertools
import os
import random
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import forked_read
import kafkalog
from clone import SHARED_CORPUS
from kafkalog.storage import _clients
from object_servers import ObjectServer, serving
from s3_server import CLIENTS
from tiers import pick

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.full, pytest.mark.release]

CORPORA = {"golden": corpus.GOLDEN, **{name: SHARED_CORPUS / name for name in ("modern", "old", "v44", "found")}}
# The emulator of GCS does not answer obstore's listing. fsspec reads S3 by a package that is not everywhere.
READERS = {
    "s3": (*CLIENTS, *(["fsspec"] if importlib.util.find_spec("s3fs") else [])),
    "azure": CLIENTS,
    "gcs": ("pyarrow",),
}
_FOLDER = re.compile(r".+-\d+(\..+)?")
LOG_DIR = corpus.GOLDEN / "clean-restarts" / "data-1"


def log_dirs(root: Path) -> list[Path]:
    """Every folder that has a partition's folder with a segment."""
    found = {log.parents[1] for log in root.rglob("*.log") if _FOLDER.fullmatch(log.parent.name)}
    return sorted(each for each in found if "expected" not in each.parts)


def put_together(to: Path, step: int) -> Path:
    """Copy the log dirs of all corpora into one folder, or each so many of them."""
    for name, root in CORPORA.items():
        for log_dir in log_dirs(root)[::step]:
            shutil.copytree(log_dir, to / name / log_dir.relative_to(root), dirs_exist_ok=True)
    return to


def given_to(server: ObjectServer, client: str, monkeypatch: pytest.MonkeyPatch, **more: Any) -> dict[str, Any]:
    """Have a client read, and return its options: other retries are another mount."""
    monkeypatch.setattr(_clients, "_has_obstore", lambda: client == "obstore")
    return {**server.storage_options, "max_retries": 3 + CLIENTS.index(client) if client in CLIENTS else 5, **more}


def answer(path: str, told: str, **given: Any) -> tuple[str, bytes]:
    """Return the rows of a read as Arrow IPC, or its error, in which the place is named in one way."""
    try:
        table = kafkalog.read_table(path, **given)
    except (kafkalog.KafkaLogError, OSError, ValueError) as error:
        text = re.sub(rf"{re.escape(told)}(#\d+)?/", "", str(error))
        return type(error).__name__, text.encode()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return "", sink.getvalue()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", ["s3", "azure", "gcs"])
def test_the_corpora_in_a_store_are_read_as_from_a_disk(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Uploads to the emulators, one by one, take most of the time.
    folder = put_together(tmp_path / "all", {"s3": 1, "azure": 6}.get(store, 20))
    if store == "gcs":
        # The emulator refuses empty objects.
        for file in [each for each in folder.rglob("*") if each.is_file() and not each.stat().st_size]:
            file.unlink()
    found = log_dirs(folder)
    assert len(found) > 20
    kinds: list[dict[str, Any]] = [{"columns": "*"}, {"isolation_level": "read_committed", "threads": 2}]
    expected = {each: [answer(str(each), str(folder), **kind) for kind in kinds] for each in found}
    assert sum(not fault for answers in expected.values() for fault, _ in answers) > len(found)
    with serving(store, folder) as server:
        for client in READERS[store]:
            options = given_to(server, client, monkeypatch)
            root = f"fsspec::{server.url}" if client == "fsspec" else server.url
            # The others take several times as long as obstore.
            step = {"pyarrow": 3, "fsspec": 12}.get(client, 1) if store == "s3" else 1
            for each in found[::step]:
                url = f"{root}/{each.relative_to(folder).as_posix()}"
                for kind, wanted in zip(kinds, expected[each], strict=True):
                    assert answer(url, server.url, **kind, storage_options=options) == wanted, (client, url, kind)


# Rules of the proxy. What passes is broken once for each object; what does not is one error of this class and text.
PASSING = (
    {"fault": "slow-down", "count": 1, "per_key": True},
    {"fault": "throttle", "count": 1, "per_key": True},
    {"fault": "internal", "count": 1, "per_key": True},
    {"fault": "reset-before", "count": 1, "per_key": True},
    {"fault": "close-before", "count": 1, "per_key": True},
    {"fault": "stall-before", "count": 1, "seconds": 9, "key": "00\\.log$"},
    {"fault": "reset-after", "count": 1, "per_key": True, "key": "\\.log$"},
    {"fault": "truncate", "count": 1, "per_key": True},
    {"fault": "stall", "count": 1, "seconds": 9, "key": "00\\.log$"},
    {"fault": "short", "count": 1, "kind": ["GET", "GET range"], "per_key": True},
    {"fault": "slow", "per_second": 20_000, "count": 3},
)
READS = ["GET", "GET range"]
LASTING: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    ({"fault": "slow-down"}, OSError, "503|SLOW_DOWN"),
    ({"fault": "throttle"}, OSError, "429"),
    ({"fault": "internal"}, OSError, "500|INTERNAL_FAILURE"),
    ({"fault": "denied"}, PermissionError, "s3://"),
    ({"fault": "expired"}, PermissionError, "ExpiredToken"),
    ({"fault": "missing", "kind": READS}, FileNotFoundError, "there is no such object"),
    ({"fault": "reset-before"}, OSError, "tried"),
    ({"fault": "close-before"}, OSError, "tried"),
    ({"fault": "stall-before", "kind": READS}, TimeoutError, "no answer within 6 s"),
    ({"fault": "reset-after", "kind": READS}, OSError, "tried"),
    ({"fault": "truncate", "kind": READS}, OSError, "tried"),
    ({"fault": "stall", "kind": READS}, TimeoutError, "no answer within 6 s"),
    ({"fault": "short", "kind": READS}, OSError, "less than|of 14162 bytes"),
    ({"fault": "changed", "after": 1}, OSError, "plan again"),
)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """A real S3 behind the proxy, with one small log dir."""
    made = tmp_path_factory.mktemp("faults")
    shutil.copytree(LOG_DIR, made / "L")
    with serving("s3", made, proxied=True) as server:
        yield server


class Reader:
    """Reads a topic, and says how often."""

    def __init__(self, server: ObjectServer, options: dict[str, Any]) -> None:
        self.url, self.options = f"{server.url}/L", options
        self.wanted = kafkalog.read_table(LOG_DIR, "orders")

    def read(self, limit: float = 60) -> Any:
        begun = time.monotonic()
        try:
            return kafkalog.read_table(self.url, "orders", threads=1, storage_options=self.options)
        finally:
            assert time.monotonic() - begun < limit


@pytest.fixture(params=CLIENTS)
def reader(request: pytest.FixtureRequest, broken: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Reader:
    retries = 1 + CLIENTS.index(request.param)
    return Reader(broken, given_to(broken, request.param, monkeypatch, timeout="6s", max_retries=retries))


@pytest.mark.parametrize("rule", PASSING, ids=lambda rule: rule["fault"])
def test_a_fault_that_passes(broken: ObjectServer, reader: Reader, rule: dict[str, Any]) -> None:
    broken.plan(rule)
    assert reader.read().equals(reader.wanted)
    assert broken.counts()["faults"][rule["fault"]] >= 1


@pytest.mark.parametrize(("rule", "kind", "said"), LASTING, ids=[each["fault"] for each, _, _ in LASTING])
def test_a_fault_that_lasts(
    broken: ObjectServer, reader: Reader, rule: dict[str, Any], kind: type[Exception], said: str
) -> None:
    broken.plan({**rule, "key": "orders-0/0+\\.log$" if rule.get("kind") == READS else ""})
    with pytest.raises(kind, match=said) as raised:
        reader.read()
    assert "s3://" in str(raised.value)
    assert broken.storage_options["aws_secret_access_key"] not in str(raised.value)
    counts = broken.counts()
    # Those of a few objects that are asked for at once, each tried so often, and some clients try a connection again.
    assert counts["faults"][rule["fault"]] <= 16 * (reader.options["max_retries"] + 1), counts
    assert counts["most_at_once"] <= 16


@pytest.mark.timeout(600)
def test_random_mixtures(broken: ObjectServer, reader: Reader) -> None:
    answered = 0
    rounds = pick(3, 20, 200)
    for seed in range(rounds):
        chance = random.Random(seed)  # noqa: S311 - of a test
        kinds = chance.sample([each["fault"] for each in PASSING if "stall" not in str(each["fault"])], 3)
        rate = chance.choice([0.01, 0.05, 0.2])
        kept = {"short": READS}
        broken.plan(*({"fault": each, "rate": rate, "kind": kept.get(str(each))} for each in kinds), seed=seed)
        try:
            found = reader.read()
        except OSError as error:
            assert "tried" in str(error), (seed, kinds)  # noqa: PT017 - either outcome is right
        else:
            assert found.equals(reader.wanted), (seed, kinds)
            answered += 1
    assert answered > rounds // 10


def test_s3fs(broken: ObjectServer) -> None:
    """An object of s3fs, with a URL and with a path in it, and URLs of fsspec with the options of either."""
    s3fs = pytest.importorskip("s3fs")
    broken.plan()
    given = broken.storage_options
    names = {"key": given["aws_access_key_id"], "secret": given["aws_secret_access_key"]}
    filesystem = s3fs.S3FileSystem(**names, endpoint_url=given["aws_endpoint_url"])
    bucket = broken.url.removeprefix("s3://")
    wanted = kafkalog.read_table(LOG_DIR, "orders")
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        (f"s3://{bucket}/L", {"filesystem": filesystem}),
        (f"{bucket}/L", {"filesystem": filesystem}),
        (f"fsspec::s3://{bucket}/L", {"storage_options": given}),
        (f"fsspec::s3://{bucket}/L", {"storage_options": {**names, "endpoint_url": given["aws_endpoint_url"]}}),
    )
    for path, how in ways:
        assert kafkalog.read_table(path, "orders", **how).equals(wanted), path
    for passing in ("throttle", "short", "truncate"):
        broken.plan({"fault": passing, "count": 1, "per_key": True, "kind": READS})
        assert kafkalog.read_table(ways[0][0], "orders", filesystem=filesystem).equals(wanted), passing
    for lasting, kind in (("denied", PermissionError), ("missing", FileNotFoundError)):
        broken.plan({"fault": lasting, "kind": READS})
        with pytest.raises(kind, match=rf"s3://{bucket}(#\d+)?/L") as raised:
            kafkalog.read_table(ways[0][0], "orders", filesystem=filesystem)
        assert names["secret"] not in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("store", ["s3", "azure", "gcs"])
def test_a_process_is_forked_while_a_store_answers(store: str, tmp_path: Path) -> None:
    # The emulator of GCS gives pyarrow no answer for large objects.
    records = corpus.write_long(tmp_path / "orders-0", 400_000 if store == "gcs" else 16 << 20, 2)
    with serving(store, tmp_path) as server:
        for client, how in itertools.product(READERS[store], forked_read.WAYS):
            said, failure = forked_read.run(f"{server.url}/orders-0", client, server.storage_options, how)
            wanted = forked_read.expected(how, records)
            if (store, client) == ("azure", "pyarrow") and how != "end":
                assert "shares connections to Azure with the process" in said.pop(0)
                del wanted[0]
            assert (said, failure) == (wanted, "")
