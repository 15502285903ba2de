"""Streams on Spark, over several runs from a checkpoint, while the logs grow, roll and lose segments."""

from __future__ import annotations

import json
import re
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from spark.growing import Growing
from spark.queries import AVAILABLE_NOW, Stream, offsets_reader, places
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
pytestmark = needs_data_sources


@pytest.fixture
def orders(tmp_path: Path) -> Growing:
    return Growing(DATA / "orders-0", tmp_path / "data" / "orders-0")


@pytest.mark.every_spark
@pytest.mark.usefixtures("limits")
def test_available_now_from_checkpoint_to_checkpoint(spark: SparkSession, orders: Growing, tmp_path: Path) -> None:
    orders.grow(300)
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", startingOffsets="earliest", maxOffsetsPerTrigger="120")
    batches = stream.run()
    wanted = places(orders, "orders", 0)
    assert [row for batch in batches for row in batch] == wanted
    assert [len(batch) for batch in batches][:2] == [120, 120]
    assert max(map(len, batches)) <= 120

    # new segments, the segments that were read deleted, and a second partition, which is read from its start
    before = orders.end
    orders.grow(600)
    assert 0 < orders.retain(before) <= before
    events = Growing(DATA / "events-1", orders.folder.parent / "events-1")
    events.grow(100)
    again = [row for batch in stream.run() for row in batch]
    assert sorted(again) == [*places(events, "events", 1), *places(orders, "orders", 0, before)]
    assert again != []

    # without new records there is no batch
    assert stream.run() == []
    # and the checkpoint has what Spark's Kafka source would write
    last = (
        max((tmp_path / "c" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name)).read_text().splitlines()[-1]
    )
    assert json.loads(last) == {"events": {"1": events.end}, "orders": {"0": orders.end}}


def test_a_query_that_runs_while_the_log_grows(spark: SparkSession, orders: Growing, tmp_path: Path) -> None:
    orders.grow(100)
    before = orders.end
    stream = Stream(spark, orders.folder.parent, tmp_path / "c")
    query = stream.start(processingTime="100 milliseconds")
    try:
        deadline = time.monotonic() + 60
        while not list((tmp_path / "c").glob("offsets/0")):
            assert query.exception() is None, str(query.exception())
            if time.monotonic() > deadline or query.recentProgress:
                break
            time.sleep(0.05)
        for offset in range(150, 701, 150):
            orders.grow(offset)
            time.sleep(0.2)
        # a new query starts at the latest offsets, whenever it looks them up first
        stream.until(query, len(places(orders, "orders", 0, 700 - 100)))
        stream.until(query, len([n for _, _, n in places(orders, "orders", 0, stream.offsets[0])]))
    finally:
        query.stop()
    assert stream.offsets[0] >= before
    assert stream.offsets == [n for _, _, n in places(orders, "orders", 0, stream.offsets[0])]
    # another run continues from there, with the files as they are then
    orders.grow(880)
    stream.run()
    assert stream.offsets == [n for _, _, n in places(orders, "orders", 0, stream.offsets[0])]


@pytest.mark.every_spark
def test_a_run_after_a_batch_that_was_not_committed(spark: SparkSession, orders: Growing, tmp_path: Path) -> None:
    """The batch is repeated with the same rows, and newer records follow it in the same run."""
    orders.grow(300)
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", startingOffsets="earliest")
    stream.run()
    orders.grow(600)
    (second,) = stream.run()
    for name in ("1", ".1.crc"):
        (tmp_path / "c" / "commits" / name).unlink()
    orders.grow(880)
    stream.run()
    assert stream.batches[1] == second
    assert stream.offsets == [n for _, _, n in places(orders, "orders", 0)]


@pytest.mark.parametrize("options", [{}, {"startingOffsets": "earliest"}], ids=["latest", "earliest"])
def test_a_query_whose_first_batch_failed_continues(
    spark: SparkSession, orders: Growing, tmp_path: Path, options: dict[str, str]
) -> None:
    """Spark's own source keeps where the query started; the checkpoint of a Python source has no place for it."""
    orders.grow(100)
    began = orders.end if not options else 0
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", **options)

    def fail(_: object, __: int) -> None:
        raise RuntimeError("a sink that is out of order")

    writer = stream.frame.load(stream.path).writeStream.foreachBatch(fail)
    with pytest.raises(Exception, match="out of order"):
        writer.option("checkpointLocation", str(stream.checkpoint)).trigger(**AVAILABLE_NOW).start().awaitTermination(
            60
        )
    orders.grow(300)
    # partitions are added too, and their records follow the first batch
    Growing(DATA / "events-1", orders.folder.parent / "events-1").grow(60)
    stream.run()
    rows = [(partition, offset) for batch in stream.batches for topic, partition, offset in batch if topic == "orders"]
    assert rows == [(0, n) for _, _, n in places(orders, "orders", 0, began)]


@pytest.mark.usefixtures("limits")
def test_a_query_from_latest_reads_nothing_in_its_first_batch(orders: Growing) -> None:
    """A repeated batch would have other rows; those are in the next batch, which starts at its end."""
    orders.grow(100)
    reader = offsets_reader(orders.folder.parent)
    reader.prepareForTriggerAvailableNow()
    # a broker that still writes: the end to reach is not below the start
    orders.grow(200)
    start = reader.initialOffset()
    assert start == {"orders": {"0": orders.end}}
    orders.grow(300)
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    assert reader.partitions(start, start) == []
    orders.grow(400)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert start["orders"]["0"] < end["orders"]["0"] < orders.end
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


def test_an_offset_beyond_the_end_is_an_error_also_in_a_retry(orders: Growing) -> None:
    orders.grow(100)
    for _ in range(2):
        reader = offsets_reader(orders.folder.parent, startingOffsets='{"orders": {"0": 100000}}')
        with pytest.raises(kafkalog.OffsetOutOfRangeError, match="the start was beyond the log end"):
            reader.partitions(reader.initialOffset(), {"orders": {"0": orders.end}})


def test_a_new_query_starts_before_its_first_end(orders: Growing) -> None:
    """Spark 4.0 and 4.1 ask for the end first, and for the start only with the first batch."""
    orders.grow(100)
    reader = offsets_reader(orders.folder.parent)
    end = reader.latestOffset()
    orders.grow(300)
    assert reader.initialOffset() == end
    assert reader.partitions(reader.initialOffset(), end) == []


def test_only_a_repeated_first_batch_starts_where_it_can(orders: Growing) -> None:
    """Records that disappear between any other two calls are lost, and reported."""
    path = orders.folder.parent
    orders.grow(500)
    events = Growing(DATA / "events-1", path / "events-1")
    events.grow(60)
    # the first batch, chosen by this run
    reader = offsets_reader(path, startingOffsets='{"orders": {"0": -2}, "events": {"1": -2}}')
    start = reader.initialOffset()
    shutil.rmtree(events.folder)
    end = reader.latestOffset(start)
    assert end == {"orders": {"0": orders.end}}
    with pytest.raises(kafkalog.OffsetOutOfRangeError, match="partitions are gone: events-1"):
        reader.partitions(start, end)
    # a later batch, repeated by another run
    for again in (offsets_reader(path), reader):
        with pytest.raises(kafkalog.OffsetOutOfRangeError, match="read up to offset 490, but now ends at 480"):
            again.partitions({"orders": {"0": 490}}, {"orders": {"0": 480}})
    # the first batch of another run, which ended below the present log start
    again = offsets_reader(path, startingOffsets="latest")
    start = again.initialOffset()
    assert start["orders"]["0"] > 300
    assert again.partitions(start, {"orders": {"0": 300}}) == []


@pytest.mark.usefixtures("limits")
def test_the_default_read_limit(orders: Growing) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

    path = orders.folder.parent
    assert isinstance(offsets_reader(path).getDefaultReadLimit(), ReadAllAvailable)
    least = offsets_reader(path, minOffsetsPerTrigger="5").getDefaultReadLimit()
    assert isinstance(least, ReadMinRows)
    assert least.min_rows == 5
    both = offsets_reader(path, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="7").getDefaultReadLimit()
    assert isinstance(both, ReadMaxRows)
    assert both.max_rows == 7


@pytest.mark.usefixtures("limits")
def test_a_restart_with_other_options(orders: Growing) -> None:
    """The checkpoint has the offsets, the options choose what is read from there; no partition starves."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    from kafkalog.spark.stream_reader import make_stream_reader

    kinds = {"topic": StringType(), "partition": IntegerType(), "offset": LongType()}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])

    def query(**options: str) -> Any:
        return make_stream_reader({"path": str(orders.folder.parent), **options}, schema)

    def rows(reader: Any, start: Any, end: Any) -> list[tuple[str, int, int]]:
        batches = [batch for split in reader.partitions(start, end) for batch in reader.read(split)]
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

    orders.grow(100)
    first = query(subscribe="orders", startingOffsets="earliest")
    start = first.initialOffset()
    end = first.latestOffset(start, first.getDefaultReadLimit())
    found = rows(first, start, end)
    orders.grow(880)
    events = Growing(DATA / "events-1", orders.folder.parent / "events-1")
    events.grow(10)
    assert 0 < events.end < orders.end - end["orders"]["0"]
    second = query(
        subscribe="orders,events", startingOffsets="latest", maxOffsetsPerTrigger="30", maxRecordsPerPartition="7"
    )
    while (latest := second.latestOffset(end, second.getDefaultReadLimit())) != end:
        batch = rows(second, end, latest)
        assert len(batch) <= 31
        # the small partition does not starve
        assert "events" in {topic for topic, _, _ in batch} or end["events"]["1"] == events.end
        found += batch
        end = latest
    assert sorted(found) == [*places(events, "events", 1), *places(orders, "orders", 0)]
    events.grow(60)
    third = query(subscribe="events")
    latest = third.latestOffset(end, third.getDefaultReadLimit())
    with pytest.raises(kafkalog.OffsetOutOfRangeError, match="partitions are gone: orders-0;"):
        third.partitions(end, latest)
    lax = query(subscribe="events", failOnDataLoss="false")
    assert rows(lax, end, latest) == places(events, "events", 1, end["events"]["1"])


@pytest.mark.usefixtures("limits")
def test_limits_as_spark_passes_them(orders: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trigger.Once passes no limit, whatever the options; the delay restarts with each batch."""
    from pyspark.sql.streaming import datasource as limits

    orders.grow(200)
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "50", "minOffsetsPerTrigger": "40"}
    reader = offsets_reader(orders.folder.parent, maxTriggerDelay="10s", **options)
    limit = reader.getDefaultReadLimit()
    start, end = reader.initialOffset(), {"orders": {"0": orders.end}}
    assert reader.latestOffset(start, limits.ReadAllAvailable()) == end
    assert reader.latestOffset(start, limit) == {"orders": {"0": 50}}
    # a limit that Spark passes precedes the option; one without a maximum leaves the option
    assert reader.latestOffset(start, limits.ReadMaxRows(30)) == {"orders": {"0": 30}}
    assert reader.latestOffset(start, limits.ReadMinRows(40)) == {"orders": {"0": 50}}
    assert reader.reportLatestOffset() == end
    # too few offsets, until the delay is over, which restarts with each batch that was large enough
    near = {"orders": {"0": orders.end - 20}}
    assert reader.latestOffset(near, limit) == near
    now[0] += 9
    assert reader.latestOffset(start, limit) == {"orders": {"0": 50}}
    now[0] += 9
    assert reader.latestOffset(near, limit) == near
    now[0] += 1
    assert reader.latestOffset(near, limit) == end
    assert reader.latestOffset(near, limit) == near


@pytest.mark.usefixtures("limits")
def test_a_query_with_an_end_does_not_wait(orders: Growing) -> None:
    orders.grow(100)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "50", "minOffsetsPerTrigger": "50"}
    reader = offsets_reader(orders.folder.parent, **options)
    reader.prepareForTriggerAvailableNow()
    reached, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    found = []
    while (end := reader.latestOffset(reached, limit)) != reached:
        found.append(end["orders"]["0"])
        reached = end
    assert orders.end % 50
    assert found == [*range(50, orders.end, 50), orders.end]


@pytest.mark.usefixtures("limits")
def test_a_batch_waits_for_enough(spark: SparkSession, orders: Growing, tmp_path: Path) -> None:
    orders.grow(100)
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", startingOffsets="earliest", minOffsetsPerTrigger="200")
    query = stream.start(processingTime="0 seconds")
    try:
        first = orders.end
        stream.until(query, first)
        orders.grow(200)
        time.sleep(2)
        assert len(stream.offsets) == first
        orders.grow(400)
        stream.until(query, first + 200)
    finally:
        query.stop()
    # The log grows batch by batch: the query may see 200 new offsets before the last ones are there.
    counts = [len(batch) for batch in stream.batches if batch]
    assert len(counts) == 2
    assert counts[0] == first
    assert 200 <= counts[1] <= orders.end - first


def test_lost_segments_fail_the_query_or_are_reported(spark: SparkSession, orders: Growing, tmp_path: Path) -> None:
    orders.grow(100)
    stream = Stream(spark, orders.folder.parent, tmp_path / "c", startingOffsets="earliest")
    lax = Stream(spark, orders.folder.parent, tmp_path / "d", startingOffsets="earliest", failOnDataLoss="false")
    stream.run()
    lax.run()
    orders.grow(880)
    start = orders.retain(700)
    with pytest.raises(Exception, match=rf"orders-0 must be read from offset \d+, but its log starts at {start}"):
        stream.run()
    (batch,) = lax.run()
    assert batch == places(orders, "orders", 0, start)


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("what", ["gone", "shorter"])
def test_records_lost_during_available_now(orders: Growing, fail: str, what: str) -> None:
    """An end that cannot be reached is an error whatever the option, as in Spark's own source."""
    orders.grow(100)
    events = Growing(DATA / "events-1", orders.folder.parent / "events-1")
    events.grow(100)
    reader = offsets_reader(orders.folder.parent, startingOffsets="earliest", failOnDataLoss=fail)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    # a batch of another run is repeated as it was
    assert reader.partitions(start, start) == []
    end = reader.latestOffset(start, None)
    assert reader.partitions(start, end) != []
    if what == "gone":
        shutil.rmtree(events.folder)
    else:
        shutil.rmtree(events.folder)
        Growing(DATA / "events-1", events.folder).grow(50)
    with pytest.raises(
        kafkalog.OffsetOutOfRangeError,
        match=r"partitions lost records while Trigger.AvailableNow was reading them: events-1;",
    ):
        reader.partitions(start, end)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets: a stream has no end"),
        ({"startingOffsets": '{"orders": {"3": 1}}'}, "must name every partition that is read; add orders-0"),
        ({"maxOffsetsPerTrigger": "none"}, "option maxOffsetsPerTrigger: expected a number above zero"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'?"),
    ],
)
def test_errors(spark: SparkSession, orders: Growing, tmp_path: Path, options: dict[str, str], says: str) -> None:
    orders.grow(10)
    with pytest.raises(Exception, match=re.escape(says)) as caught:
        Stream(spark, orders.folder.parent, tmp_path / "c", **options).run()
    # and no other error follows it
    assert "ValueError: " in [line for line in str(caught.value).splitlines() if "Error: " in line][-1]


@pytest.mark.every_spark
def test_a_users_schema_and_a_transformation(spark: SparkSession, orders: Growing, tmp_path: Path) -> None:
    orders.grow(50)
    reader = (
        spark.readStream.format("kafkalog").schema("offset bigint, value binary").option("startingOffsets", "earliest")
    )
    frame = reader.load(str(orders.folder.parent)).selectExpr("offset", "length(value) as size")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
    writer.trigger(**AVAILABLE_NOW).start(str(tmp_path / "out")).awaitTermination(60)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    assert [row["offset"] for row in found] == [n for _, _, n in places(orders, "orders", 0)]
