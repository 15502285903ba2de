"""Requests to a store: how many a listing and a lookup take, as the server counts them."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog import ReadOptions, storage
from kafkalog.reader import plan_ranges
from s3_server import CLIENTS, S3Server
from tiers import pick

if TYPE_CHECKING:
    from pathlib import Path

TOPICS, PARTITIONS = 250, 40
SEGMENTS, STEP = 5, 1000


@pytest.mark.full
@pytest.mark.release
@pytest.mark.parametrize("client", CLIENTS)
def test_ten_thousand_partitions_are_listed_by_two_hundred_requests(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200,000 keys, a page of a thousand each; no other request is made for any of them."""
    kinds = ("index", "log", "snapshot", "timeindex")
    objects = {
        f"logs/t{topic}-{partition}/{segment * STEP:020}.{kind}": b""
        for topic in range(TOPICS)
        for partition in range(PARTITIONS)
        for segment in range(SEGMENTS)
        for kind in kinds
    }
    assert len(objects) == 200_000
    server = S3Server({"logs/meta.properties": b"version=1\n", **objects})
    try:
        given = {**server.options_for(client, monkeypatch, 3), **server.storage_options}
        url = storage.located("s3://bkt/logs", given)
        assert len(plan_ranges(url)) == TOPICS * PARTITIONS
        assert server.counts["LIST"] <= 210
        assert server.counts["HEAD"] == 0
        # What is not empty: the log dir's own files.
        assert server.counts["GET"] <= 1
        server.reset()
        # The names in the log dir, and one page for each folder of the topic.
        assert len(plan_ranges(storage.located("s3://bkt/logs", given), ReadOptions(topics="t7"))) == PARTITIONS
        assert server.counts["LIST"] <= 11 + PARTITIONS
        assert server.counts["HEAD"] == 0
        # All at once, where that takes less: at most the names in the log dir come first.
        for topics, most in ((5, 11 + 5 * PARTITIONS), (6, 11 + 201), (200, 201), (249, 201)):
            server.reset()
            given_topics = [f"t{number}" for number in range(topics)]
            located = storage.located("s3://bkt/logs", given)
            assert len(plan_ranges(located, ReadOptions(topics=given_topics))) == topics * PARTITIONS
            assert server.counts["LIST"] <= most
            assert server.counts["HEAD"] == 0
    finally:
        server.close()


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition of several segments with indexes."""
    made = tmp_path_factory.mktemp("lookups") / "L"
    with kafkalog.LogWriter(made, "t", 0, config={"segment.bytes": "1048576"}) as log:
        for second in range(60):
            times = pa.array([1_700_000_000_000 + second * 1000 + n for n in range(100)], pa.timestamp("ms", "UTC"))
            log.append(pa.table({"value": pa.array([bytes(1000)] * 100, pa.binary()), "timestamp": times}))
    assert len(list((made / "t-0").glob("*.log"))) > 3
    return made


@pytest.mark.parametrize("client", CLIENTS)
def test_a_lookup_by_time_takes_four_round_trips(log_dir: Path, client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time index, offset index, the batch that confirms both, the one that is found: 64 KiB of the log at most.

    Segments are asked at the same time, as any of them may have later records than the next one.
    """
    server = S3Server()
    server.put_folder(log_dir, "L/")
    segments = len(list((log_dir / "t-0").glob("*.log")))
    local = kafkalog.PartitionLog(log_dir / "t-0")
    asked: list[tuple[str, str]] = []

    def slow(kind: str, key: str, number: int) -> None:
        asked.append((kind, key.rpartition("/")[2].partition(".")[0]))
        time.sleep(0.05)

    try:
        given: Any = server.options_for(client, monkeypatch, 3)
        chance = random.Random(1)  # noqa: S311 - of a test
        for _ in range(pick(3, 20, 20)):
            at = 1_700_000_000_000 + chance.randrange(60) * 1000 + chance.randrange(200)
            log = kafkalog.PartitionLog("s3://bkt/L/t-0", storage_options=given)
            server.reset()
            asked.clear()
            server.fault = slow
            assert log.offset_for_timestamp(at) == local.offset_for_timestamp(at)
            # Those of one segment follow each other. pyarrow asks for the length of each object before it reads.
            by_segment = Counter(segment for kind, segment in asked if kind == "GET")
            assert max(by_segment.values()) <= 4
            assert len(by_segment) == segments
            assert server.counts["LIST"] == 0
            assert server.counts["HEAD"] <= (server.counts["GET"] if client == "pyarrow" else 0)
            assert server.most_at_once >= segments // 2
            assert server.bytes <= 2 * segments * (64 << 10)
    finally:
        server.close()
