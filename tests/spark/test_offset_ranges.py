"""Bounds beyond the committed records or outside the log; tests/interop compares with Spark's own source."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog.spark import stream_offsets
from kafkalog.spark.offset_ranges import plan_ranges
from kafkalog.spark.planner import splits_of
from kafkalog.spark.source_options import parse
from kafkalog.spark.topics import TopicPartition
from spark.growing import Growing

if TYPE_CHECKING:
    from pathlib import Path

# A transaction that is open from 708 on; the log ends at 948.
OPEN = {"path": corpus.GOLDEN / "txn" / "data-1", "subscribe": "txn-open", "isolation.level": "read_committed"}


def at(offset: int) -> str:
    return json.dumps({"txn-open": {"0": offset}})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": at(709)}, "txn-open-0 starts at offset 709, which is above its end 708"),
        ({"startingOffsets": at(5000)}, "txn-open-0 starts at offset 5000, which is above its end 708"),
        ({"endingOffsets": at(800)}, "requested up to offset 800, but its committed records end at 708"),
    ],
)
def test_bounds_beyond_the_committed_records(
    given: dict[str, str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises((ValueError, kafkalog.OffsetOutOfRangeError), match=says):
        plan_ranges(parse({**OPEN, **given}))
    # without failing, the committed records are read
    with caplog.at_level(logging.WARNING):
        (planned,) = plan_ranges(parse({**OPEN, **given, "failOnDataLoss": "false"}))
    assert planned.end_offset == 708
    assert says in caplog.text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscribe": "nowhere,txn-open,gone"}, "not in the log dirs: nowhere, gone"),
        ({"subscribe": None, "assign": {"txn-open": [0, 9]}}, "not in the log dirs: txn-open-9"),
    ],
)
def test_missing_topics_and_partitions_are_reported(
    given: dict[str, Any], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(plan_ranges(parse({**OPEN, **given, "failOnDataLoss": "false"}))) == 1
    assert f"kafkalog: data loss: {says}" in caplog.text


@pytest.mark.parametrize(("last", "says"), [(5, None), (6, "orders-0 was requested from offset 5, but its log")])
def test_an_empty_range_below_the_log_start_is_no_loss(tmp_path: Path, last: int, says: str | None) -> None:
    orders = Growing(corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0", tmp_path / "orders-0")
    orders.grow(500)
    assert orders.retain(300) > last
    options = parse({"path": tmp_path, "startingOffsets": {"orders": {0: 5}}, "endingOffsets": {"orders": {0: last}}})
    if says is None:
        assert splits_of(plan_ranges(options), options) == []
        return
    with pytest.raises(kafkalog.OffsetOutOfRangeError, match=says):
        plan_ranges(options)


@pytest.mark.parametrize("given", [{"startingOffsets": at(708)}, {"endingOffsets": at(708)}])
def test_bounds_at_the_end_of_the_committed_records(given: dict[str, str]) -> None:
    (planned,) = plan_ranges(parse({**OPEN, **given}))
    assert (planned.start_offset, planned.end_offset) == (708 if "startingOffsets" in given else 0, 708)


@pytest.mark.parametrize("use", ["batch", "stream"])
@pytest.mark.parametrize("name", ["startingOffsetsByTimestamp", "startingTimestamp"])
def test_a_time_that_no_committed_record_reaches(use: Any, name: str) -> None:
    """Under read_committed a broker finds no record at or above the last stable offset."""
    path = corpus.GOLDEN / "log" / "recover" / "_base" / "open-transaction"
    # The one record of the transaction is the latest, and the last.
    time, stable = 1_700_000_000_900, 27
    start = {name: json.dumps({"orders": {"0": time}}) if name != "startingTimestamp" else str(time)}

    def started(level: str, **given: str) -> int:
        options = parse({"path": path, "isolation.level": level, **start, **given}, use)
        if use == "stream":
            return stream_offsets.initial(options)[TopicPartition("orders", 0)]
        (planned,) = plan_ranges(options)
        return planned.start_offset

    with pytest.raises(ValueError, match=f"no record of orders-0 has a timestamp of {time} or later"):
        started("read_committed")
    assert started("read_committed", startingOffsetsByTimestampStrategy="latest") == stable
    assert started("read_uncommitted") == stable
    start = {name: value.replace(str(time), str(time - 800)) for name, value in start.items()}
    assert started("read_committed") < stable


# When offsets 10 and 500 of orders-0 were written; each is the only one of its time or later that matters here.
TENTH, FIVE_HUNDREDTH = 1_700_030_345_198, 1_700_030_374_585


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"startingTimestamp": FIVE_HUNDREDTH, "endingOffsets": {"orders": {0: 10}}},
            "offset 500, which is above its end 10",
        ),
        (
            {"startingOffsetsByTimestamp": {"orders": {0: FIVE_HUNDREDTH}}, "endingOffsets": {"orders": {0: 10}}},
            "offset 500, which is above its end 10",
        ),
        ({"startingOffsets": {"orders": {0: 500}}, "endingTimestamp": TENTH}, "offset 500, which is above its end 10"),
        (
            {"startingOffsets": {"orders": {0: 500}}, "endingOffsetsByTimestamp": {"orders": {0: TENTH}}},
            "offset 500, which is above its end 10",
        ),
        ({"startingTimestamp": FIVE_HUNDREDTH, "endingTimestamp": TENTH}, "offset 500, which is above its end 10"),
    ],
)
def test_a_start_above_the_end_by_time(given: dict[str, Any], says: str) -> None:
    path = corpus.GOLDEN / "clean-restarts" / "data-1"
    with pytest.raises(ValueError, match=f"orders-0 starts at {says}"):
        plan_ranges(parse({"path": path, "subscribe": "orders", **given}))


def test_both_ends_beyond_the_log_are_one_loss(caplog: pytest.LogCaptureFixture) -> None:
    options = {"path": corpus.GOLDEN / "clean-restarts" / "data-1", "subscribe": "orders"}
    given = {"startingOffsets": {"orders": {0: 1000}}, "endingOffsets": {"orders": {0: 2000}}}
    with pytest.raises(kafkalog.OffsetOutOfRangeError, match="requested up to offset 2000, but its log ends at 880"):
        plan_ranges(parse({**options, **given}))
    plan_ranges(parse({**options, **given, "failOnDataLoss": "false"}))
    assert [record.args for record in caplog.records] == [
        ("orders-0 was requested up to offset 2000, but its log ends at 880",)
    ]
