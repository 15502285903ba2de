"""Every option of Spark's Kafka source that a stream has, in a query on Spark."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

import corpus
import kafkalog
from spark.growing import Growing
from spark.queries import Stream, offsets_reader, places
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
TXN = corpus.GOLDEN / "txn" / "data-0"
pytestmark = needs_data_sources
LARGE = 1 << 45
# A time among the records of orders.
SOME_TIME = 1_700_030_360_000

Place = tuple[str, int, int]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Growing, Growing]:
    root = tmp_path_factory.mktemp("logs")
    found = Growing(DATA / "orders-0", root / "orders-0"), Growing(DATA / "events-1", root / "events-1")
    found[0].grow(500)
    found[1].grow(60)
    return found


def since(growing: Growing, timestamp: int) -> int:
    """The offset that Kafka finds for a time, from every record; the end if there is none."""
    with kafkalog.scan(growing.source, columns=["offset", "timestamp"]) as reader:
        rows = reader.read_all().to_pylist()
    late: list[int] = [row["offset"] for row in rows if row["timestamp"].timestamp() * 1000 >= timestamp]
    return min([growing.end, *late])


def wanted(logs: tuple[Growing, Growing], orders: int | None, events: int | None) -> list[Place]:
    """Rows from an offset of each partition; None is no row."""
    found = [] if events is None else places(logs[1], "events", 1, events)
    return found + ([] if orders is None else places(logs[0], "orders", 0, orders))


EARLIEST = {"startingOffsets": "earliest"}
BY_TIME = {"orders": {"0": SOME_TIME}, "events": {"1": LARGE}}


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ({}, (None, None)),
        ({"startingOffsets": "latest"}, (None, None)),
        (EARLIEST, (0, 0)),
        ({**EARLIEST, "subscribe": "events, "}, (None, 0)),
        ({**EARLIEST, "subscribePattern": "^ord"}, (0, None)),
        ({**EARLIEST, "assign": '{"orders": [0]}'}, (0, None)),
        ({"startingOffsets": '{"orders": {"0": 7}, "events": {"1": -2}}'}, (7, 0)),
        ({"startingOffsets": '{"orders": {"0": -1}, "events": {"1": 5}}'}, (None, 5)),
        ({"startingTimestamp": "0"}, (0, 0)),
        ({"startingTimestamp": str(SOME_TIME), "startingOffsetsByTimestampStrategy": "latest"}, (-1, -1)),
        (
            {"startingOffsetsByTimestamp": json.dumps(BY_TIME), "startingOffsetsByTimestampStrategy": "latest"},
            (-1, None),
        ),
        ({**EARLIEST, "minPartitions": "7"}, (0, 0)),
        ({**EARLIEST, "maxRecordsPerPartition": "50"}, (0, 0)),
        ({**EARLIEST, "splitBytes": "20k", "checkCrcs": "false"}, (0, 0)),
        ({**EARLIEST, "groupIdPrefix": "mine", "kafkaConsumer.pollTimeoutMs": "5"}, (0, 0)),
    ],
    ids=str,
)
def test_what_a_query_reads(
    spark: SparkSession,
    logs: tuple[Growing, Growing],
    tmp_path: Path,
    options: dict[str, str],
    starts: tuple[int | None, int | None],
) -> None:
    stream = Stream(spark, logs[0].folder.parent, tmp_path / "c", **options)
    rows = [row for batch in stream.run() for row in batch]
    orders, events = (since(log, SOME_TIME) if start == -1 else start for log, start in zip(logs, starts, strict=True))
    assert sorted(rows) == wanted(logs, orders, events)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_isolation(spark: SparkSession, tmp_path: Path, level: str) -> None:
    options = {**EARLIEST, "kafka.isolation.level": level, "subscribe": "txn-aborts"}
    stream = Stream(spark, TXN, tmp_path / "c", **options)
    partition = next(each for each in corpus.partitions() if each.folder == TXN / "txn-aborts-0")
    if level == "read_committed":
        offsets = [line["offset"] for line in partition.lines("committed") if line["type"] == "record"]
    else:
        records = corpus.expected_records(partition)
        rows = zip(records["offset"], records["isControl"], strict=True)
        offsets = [offset for offset, is_control in rows if not is_control]
    stream.run()
    assert stream.offsets == offsets


def test_the_high_watermark(spark: SparkSession, tmp_path: Path) -> None:
    orders = Growing(DATA / "orders-0", tmp_path / "data" / "orders-0")
    orders.grow(500)
    checkpoint = orders.folder.parent / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 123\n")
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", endingOffsets="high_watermark", **EARLIEST)
    stream.run()
    assert stream.offsets == list(range(123))
    checkpoint.write_text("0\n1\norders 0 321\n")
    stream.run()
    assert stream.offsets == list(range(321))


@pytest.mark.parametrize(
    ("named", "missing"),
    [
        ({"subscribe": "orders,nowhere"}, "nowhere"),
        ({"assign": '{"orders": [0, 9], "nowhere": [1]}'}, "orders-9, nowhere-1"),
    ],
)
def test_topics_and_partitions_that_never_existed(
    logs: tuple[Growing, Growing], named: dict[str, str], missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also in a query that continues: Spark's own source looks for its topics at every start."""
    path = logs[0].folder.parent
    with pytest.raises(ValueError, match=r"nowhere|orders-9|partition 9"):
        offsets_reader(path, **named).initialOffset()
    reader = offsets_reader(path, **named)
    with pytest.raises(
        kafkalog.OffsetOutOfRangeError, match=f"^not in the log dirs: {missing}; set failOnDataLoss=false"
    ):
        reader.latestOffset({"orders": {"0": 50}})
    end = {"orders": {"0": logs[0].end}}
    lax = {**named, "failOnDataLoss": "false", "startingOffsets": "earliest"}
    for given in (None, {"orders": {"0": 50}}):
        caplog.clear()
        reader = offsets_reader(path, **lax)
        start = given or reader.initialOffset()
        assert reader.latestOffset(start) == end
        assert reader.latestOffset(end) == end
        # once in each run
        assert caplog.messages == [f"kafkalog: data loss: not in the log dirs: {missing}"]
        caplog.clear()
        assert len(reader.partitions(start, end)) == 1
        assert caplog.messages == []
    # partitions that were read are reported with the batch that lacks them
    reader = offsets_reader(path, **lax)
    start = {"orders": {"0": 50, "9": 5}, "nowhere": {"1": 7}}
    assert reader.latestOffset(start) == end
    assert caplog.messages == []
    reader.partitions(start, end)
    assert caplog.messages == ["kafkalog: data loss: partitions are gone: nowhere-1, orders-9"]


@pytest.mark.usefixtures("limits")
def test_tasks_of_a_batch(logs: tuple[Growing, Growing]) -> None:
    reader = offsets_reader(logs[0].folder.parent, subscribe="orders", maxRecordsPerPartition="50")
    splits = reader.partitions({"orders": {"0": 100}}, {"orders": {"0": 333}})
    found = [[n for batch in reader.read(split) for n in batch.column("offset").to_pylist()] for split in splits]
    # KafkaOffsetRangeCalculator.getDividedPartition: the fewest parts within the limit, of the same size
    assert list(map(len, found)) == [46, 47, 46, 47, 47]
    assert [n for each in found for n in each] == list(range(100, 333))


@pytest.mark.usefixtures("limits")
def test_lag(spark: SparkSession, logs: tuple[Growing, Growing], tmp_path: Path) -> None:
    """As the guide says: the latest offset minus the end offset, in the progress of each batch."""
    stream = Stream(spark, logs[0].folder, tmp_path / "c", startingOffsets="earliest", maxOffsetsPerTrigger="200")
    query = stream.start(availableNow=True)
    assert query.awaitTermination(120)
    lags = []
    for progress in query.recentProgress:
        (source,) = json.loads(progress.json)["sources"]
        latest, end = (
            offsets if isinstance(offsets := source[name], dict) else json.loads(offsets)
            for name in ("latestOffset", "endOffset")
        )
        lags.append(latest["orders"]["0"] - end["orders"]["0"])
    last = logs[0].end
    assert lags[:3] == [last - 200, last - 400, 0]


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_limits_need_a_spark_that_passes_them(
    logs: tuple[Growing, Growing], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("kafkalog.spark.stream_reader._limits", None)
    with pytest.raises(
        ValueError, match=f"^option {name} needs Spark 4.2: older versions pass no limit to a Python data source$"
    ):
        offsets_reader(logs[0].folder.parent, **{name: "5"})
    assert offsets_reader(logs[0].folder.parent).initialOffset() is not None


@pytest.mark.usefixtures("limits")
def test_a_batch_after_the_delay_may_be_small(spark: SparkSession, tmp_path: Path) -> None:
    orders = Growing(DATA / "orders-0", tmp_path / "data" / "orders-0")
    orders.grow(100)
    first = orders.end
    options = {**EARLIEST, "minOffsetsPerTrigger": "100000", "maxTriggerDelay": "3s", "maxOffsetsPerTrigger": "200000"}
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", **options)
    query = stream.start(processingTime="0 seconds")
    try:
        stream.until(query, first)
        begun = time.monotonic()
        orders.grow(200)
        stream.until(query, orders.end)
        assert time.monotonic() - begun > 1
    finally:
        query.stop()
    assert [len(batch) for batch in stream.batches if batch] == [first, orders.end - first]
    # a run with an end cannot wait for more
    orders.grow(300)
    (batch,) = stream.run()
    assert batch == places(orders, "orders", 0, stream.offsets[-1] + 1 - len(batch))
    assert stream.offsets == list(range(orders.end))


@pytest.mark.usefixtures("limits")
def test_smallest_and_largest_batch(spark: SparkSession, tmp_path: Path) -> None:
    orders = Growing(DATA / "orders-0", tmp_path / "data" / "orders-0")
    orders.grow(500)
    options = {**EARLIEST, "minOffsetsPerTrigger": "50", "maxOffsetsPerTrigger": "100"}
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", **options)
    query = stream.start(processingTime="0 seconds")
    try:
        whole = orders.end // 100 * 100 if orders.end % 100 < 50 else orders.end
        stream.until(query, whole)
    finally:
        query.stop()
    assert {len(batch) for batch in stream.batches[: orders.end // 100]} == {100}
    assert stream.offsets == list(range(whole))
