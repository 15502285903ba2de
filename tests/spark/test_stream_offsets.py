"""The offsets of each batch of a stream: Spark's numbers, without Spark."""

from __future__ import annotations

import logging
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog.spark import stream_offsets
from kafkalog.spark.source_options import parse
from kafkalog.spark.topics import TopicPartition
from spark.growing import Growing

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog.spark.source_options import SourceOptions

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
ORDERS, EVENTS, GONE = TopicPartition("orders", 0), TopicPartition("events", 1), TopicPartition("gone", 0)


def stream(path: Path, **given: Any) -> SourceOptions:
    return parse({"path": path, **given}, "stream")


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Growing, Growing]:
    found = Growing(DATA / "orders-0", tmp_path / "orders-0"), Growing(DATA / "events-1", tmp_path / "events-1")
    found[0].grow(500)
    found[1].grow(60)
    return found


def test_offsets_are_written_as_spark_writes_them() -> None:
    offsets = {TopicPartition("b", 10): 3, TopicPartition("b", 2): 4, TopicPartition("a", 0): 1 << 40}
    written = stream_offsets.to_json(offsets)
    assert list(written.items()) == [("a", {"0": 1 << 40}), ("b", {"2": 4, "10": 3})]
    assert stream_offsets.from_json(written) == offsets


@pytest.mark.parametrize(
    ("limit", "start", "latest", "expected"),
    [
        # KafkaMicroBatchStream.rateLimit: in proportion, rounded down, but nothing below one
        (10, {0: 0, 1: 0}, {0: 90, 1: 10}, {0: 9, 1: 1}),
        (10, {0: 0, 1: 0}, {0: 1000, 1: 1}, {0: 9, 1: 1}),
        (10, {0: 5, 1: 7}, {0: 5, 1: 107}, {0: 5, 1: 17}),
        (1000, {0: 0, 1: 3}, {0: 90, 1: 10}, {0: 90, 1: 10}),
        (7, {0: 0, 1: 0, 2: 0}, {0: 3, 1: 3, 2: 3}, {0: 2, 1: 2, 2: 2}),
        (5, {0: 9}, {0: 9}, {0: 9}),
        # a partition that ends below its start is reported by the planning
        (5, {0: 9, 1: 0}, {0: 7, 1: 100}, {0: 7, 1: 5}),
    ],
)
def test_rate_limit(limit: int, start: Any, latest: Any, expected: Any, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    found = stream_offsets.rate_limited(limit, places(start), places(latest), stream(tmp_path))
    assert found == places(expected)


def places(offsets: dict[int, int]) -> dict[TopicPartition, int]:
    return {TopicPartition("t", partition): offset for partition, offset in offsets.items()}


def test_a_new_partition_is_limited_from_its_start(logs: tuple[Growing, Growing]) -> None:
    orders, events = logs
    options = stream(orders.folder.parent)
    latest = stream_offsets.available(options, {})
    assert latest == {ORDERS: orders.end, EVENTS: events.end}
    limited = stream_offsets.rate_limited(10, {ORDERS: orders.end}, latest, options)
    assert limited == {ORDERS: orders.end, EVENTS: 10}


def test_a_new_partition_that_starts_later_is_limited_from_there(logs: tuple[Growing, Growing]) -> None:
    orders, events = logs
    start = orders.retain(300)
    assert start > 10
    options = stream(orders.folder.parent)
    latest = stream_offsets.available(options, {})
    limited = stream_offsets.rate_limited(10, {EVENTS: events.end}, latest, options)
    assert limited == {ORDERS: start + 10, EVENTS: events.end}


@pytest.mark.parametrize(("least", "expected"), [(12, False), (13, True)])
def test_what_a_batch_waits_for(least: int, expected: bool) -> None:  # noqa: FBT001
    """KafkaMicroBatchStream.delayBatch: a new partition counts from offset 0 on."""
    assert stream_offsets.is_delayed(least, places({0: 5}), places({0: 10, 1: 7})) == expected


def test_a_deleted_topic_is_reported_when_a_batch_is_planned(logs: tuple[Growing, Growing]) -> None:
    orders, events = logs
    options = stream(orders.folder.parent, subscribe="orders,events")
    start = stream_offsets.available(options, {})
    shutil.rmtree(events.folder)
    end = stream_offsets.available(options, start)
    assert end == {ORDERS: orders.end}
    with pytest.raises(kafkalog.OffsetOutOfRangeError, match="partitions are gone: events-1;"):
        stream_offsets.plan_batch(options, start, end)


@pytest.mark.parametrize("back", [2, 3, 4])
def test_an_end_below_the_start_is_looked_up_again(
    logs: tuple[Growing, Growing], monkeypatch: pytest.MonkeyPatch, back: int
) -> None:
    """A broker swaps files with two renames, and between them one is missing."""
    orders, _ = logs
    end, last = orders.end, max(orders.folder.glob("*.log"))
    away = last.rename(orders.folder.parent / last.name)
    looks = [1]

    def wait(_: float) -> None:
        looks.append(1)
        if len(looks) == back:
            away.rename(last)

    monkeypatch.setattr(time, "sleep", wait)
    latest = stream_offsets.available(stream(orders.folder.parent), {ORDERS: end})
    assert len(looks) == min(back, 3)
    assert (latest[ORDERS] == end) == (back <= 3)
    assert away.exists() == (back > 3)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "ends"),
        ({"startingOffsets": "earliest"}, {ORDERS: 0, EVENTS: 0}),
        ({"startingOffsets": '{"orders": {"0": 7}, "events": {"1": -2}}'}, {ORDERS: 7, EVENTS: 0}),
        (
            {"startingOffsets": '{"orders": {"0": 5000}, "events": {"1": -1}}'},
            {ORDERS: 5000, EVENTS: None},
        ),
        ({"startingTimestamp": 0}, {ORDERS: 0, EVENTS: 0}),
        ({"startingTimestamp": 1 << 45, "startingOffsetsByTimestampStrategy": "latest"}, "ends"),
    ],
)
def test_where_a_new_query_starts(logs: tuple[Growing, Growing], given: Any, expected: Any) -> None:
    ends = {ORDERS: logs[0].end, EVENTS: logs[1].end}
    wanted = ends if expected == "ends" else {place: ends[place] if n is None else n for place, n in expected.items()}
    assert stream_offsets.initial(stream(logs[0].folder.parent, **given)) == wanted


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"startingOffsets": '{"orders": {"0": 7}}'},
            "option startingOffsets must name every partition that is read; add events-1",
        ),
        (
            {"startingOffsetsByTimestamp": '{"orders": {"0": 7}}'},
            "option startingOffsetsByTimestamp must name every partition that is read; add events-1",
        ),
        ({"startingOffsets": '{"orders": {"0": 7, "1": 7}, "events": {"1": 0}}'}, "that are not read; remove orders-1"),
        ({"startingTimestamp": 1 << 45}, "no record of events-1 has a timestamp of"),
        ({"subscribe": "nowhere"}, "topic"),
    ],
)
def test_a_start_that_makes_no_sense(logs: tuple[Growing, Growing], given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        stream_offsets.initial(stream(logs[0].folder.parent, **given))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": "latest"}, 300),
        ({"startingTimestamp": 5}, 300),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 5}}'}, 300),
        ({"startingOffsets": '{"t": {"0": -2}}'}, 300),
        # an offset beyond the end is reported when the batch is planned
        ({"startingOffsets": '{"t": {"0": 500}}'}, 500),
    ],
)
def test_where_a_repeated_first_batch_started(given: Any, expected: int, tmp_path: Path) -> None:
    """A later end and another partition, added since the batch was chosen, are not part of it."""
    found = stream_offsets.restarted(stream(tmp_path, **given), places({0: 500, 1: 0}), places({0: 300}))
    assert found == places({0: expected})


def offsets(ranges: Any) -> list[tuple[str, int]]:
    import pyarrow as pa

    from kafkalog import _core

    table = pa.table(_core.scan_ranges(ranges, columns=["topic", "offset"]))
    return [(row["topic"], row["offset"]) for row in table.to_pylist()]


def test_a_batch_has_the_records_between_two_offsets(logs: tuple[Growing, Growing]) -> None:
    orders, events = logs
    options = stream(orders.folder.parent)
    planned = stream_offsets.plan_batch(options, {ORDERS: 7}, {ORDERS: 20, EVENTS: 3})
    wanted = offsets(planned)
    assert wanted == [("events", 0), EVENTS, ("events", 2), *(("orders", n) for n in range(7, 20))]
    assert stream_offsets.plan_batch(options, {ORDERS: 7}, {ORDERS: 7}) == []
    # and the same again with more records, in more segments, and a later log start
    orders.grow(880)
    orders.retain(7)
    events.grow(400)
    assert offsets(stream_offsets.plan_batch(options, {ORDERS: 7}, {ORDERS: 20, EVENTS: 3})) == wanted


@pytest.mark.parametrize(
    ("batch", "says", "left"),
    [
        (
            ({ORDERS: 0}, {ORDERS: 500}),
            "orders-0 must be read from offset 0, but its log starts at",
            1,
        ),
        (({ORDERS: 490}, {ORDERS: 900}), "must be read up to offset 900, but its log ends at", 1),
        (({ORDERS: 490}, {ORDERS: "end + 1"}), "must be read up to offset 5.., but its log ends at 5", 1),
        (({ORDERS: 490}, {ORDERS: 480}), "orders-0 was read up to offset 490, but now ends at 480", 0),
        (({ORDERS: 490}, {EVENTS: 0}), "partitions are gone: orders-0", 0),
        (({GONE: 490}, {GONE: 495}), "partitions are gone: gone-0", 0),
    ],
)
def test_data_loss(logs: tuple[Growing, Growing], batch: Any, says: str, left: int, caplog: Any) -> None:
    assert logs[0].retain(300) > 0
    path = logs[0].folder.parent
    batch = (batch[0], {place: logs[0].end + 1 if end == "end + 1" else end for place, end in batch[1].items()})
    with pytest.raises(kafkalog.OffsetOutOfRangeError, match=says):
        stream_offsets.plan_batch(stream(path), *batch)
    with caplog.at_level(logging.WARNING):
        ranges = stream_offsets.plan_batch(stream(path, failOnDataLoss="false"), *batch)
    assert re.search(f"kafkalog: data loss: .*{says}", caplog.text)
    assert (len(offsets(ranges)) > 0) == bool(left)


def test_the_high_watermark_bounds_a_stream(logs: tuple[Growing, Growing]) -> None:
    path = logs[0].folder.parent
    (path / "replication-offset-checkpoint").write_text("0\n1\norders 0 123\n")
    latest = stream_offsets.available(stream(path, endingOffsets="high_watermark"), {})
    assert latest == {ORDERS: 123, EVENTS: 0}
