"""Ctrl-C while a store does not answer: heard at once, and the same process reads on afterwards."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from s3_server import CLIENTS, S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no signals to the process itself")

LOG_DIR = corpus.GOLDEN / "clean-restarts" / "data-1"
URL = "s3://bkt/L"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(LOG_DIR, "L/")
    yield made
    made.close()


JOBS: dict[str, Callable[..., Any]] = {
    "read": kafkalog.read_table,
    "threads": lambda url, **given: kafkalog.read_table(url, threads=2, **given),
    "partitions": lambda url, **given: list(kafkalog.LogDir(url, **given)),
    "checkpoints": lambda url, **given: kafkalog.LogDir(url, **given).checkpoints,
    "meta": lambda url, **given: kafkalog.LogDir(url, **given).meta,
    "epochs": lambda url, **given: kafkalog.PartitionLog(f"{url}/orders-0", **given).leader_epochs,
    "topic_id": lambda url, **given: kafkalog.PartitionLog(f"{url}/orders-0", **given).topic_id,
    "table": kafkalog.tables.consumer_offsets,
    "index": lambda url, **given: kafkalog.OffsetIndex(f"{url}/orders-0/{0:020}.index", **given),
}


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("client", CLIENTS)
def test_it_ends_the_first_request(
    server: S3Server, client: str, name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    options = {**server.options_for(client, monkeypatch, 8), "timeout": "3s"}
    release, asked = threading.Event(), threading.Event()
    request.addfinalizer(release.set)
    tries: dict[str, int] = {}

    def silent(kind: str, key: str, number: int) -> None:
        if kind == stalls:
            # By object: others may be read ahead.
            tries[key] = tries.get(key, 0) + 1
            asked.set()
            release.wait(30)

    def interrupt() -> None:
        if asked.wait(30):
            os.kill(os.getpid(), signal.SIGINT)

    for stalls in ("LIST", "GET"):
        kafkalog._core.forget_listings(URL)
        release.clear()
        asked.clear()
        tries.clear()
        if stalls == "GET" and name == "table":
            # There are no consumer offsets here.
            continue
        server.fault = silent
        sender = threading.Thread(target=interrupt)
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            JOBS[name](URL, storage_options=options)
        # An attempt without an answer is given up after three seconds, and made again.
        assert set(tries.values()) == {1}
        sender.join()
        server.reset()
        release.set()
    found = kafkalog.read_table(URL, threads=2, storage_options=options)
    assert found.equals(kafkalog.read_table(LOG_DIR))
