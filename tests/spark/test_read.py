"""Batch reads, both ways: schemas, bounds, data sources by name, SQL."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog.spark
from spark.queries import Stream
from spark.ways import both_ways, by_data_source, has_data_sources, needs_data_sources, table_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    Way = Callable[..., DataFrame]

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key:string,value:binary>>"


def expected(topic: str, partition: int, log_dir: Path = DATA) -> list[dict[str, Any]]:
    """Rows of one partition without control records, as Kafka read them."""
    found = next(
        each
        for each in corpus.partitions()
        if each.log_dir == log_dir and (each.topic, each.partition, each.state) == (topic, partition, "live")
    )
    columns = corpus.expected_records(found)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row for row in rows if not row["isControl"]]


def pairs(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in frame.select("partition", "offset").collect())


@pytest.mark.every_spark
@both_ways
def test_the_default_schema_is_that_of_sparks_kafka_source(spark: SparkSession, way: Way) -> None:
    frame = way(spark, DATA, subscribe="orders")
    assert frame.schema == spark.createDataFrame([], KAFKA).schema
    with_headers = way(spark, DATA, subscribe="orders", includeHeaders="true")
    assert with_headers.schema == spark.createDataFrame([], f"{KAFKA}, {HEADERS}").schema


@pytest.mark.every_spark
@both_ways
def test_rows_and_their_order(spark: SparkSession, way: Way) -> None:
    rows = table_of(way(spark, DATA, subscribe="orders", includeHeaders="true", splitBytes="20k")).to_pylist()
    wanted = expected("orders", 0)
    assert [row["offset"] for row in rows] == [row["offset"] for row in wanted]
    for name in ("key", "value", "topic", "partition", "timestampType", "headers"):
        assert [row[name] for row in rows] == [row[name] for row in wanted]
    for row, like in zip(rows, wanted, strict=True):
        assert row["timestamp"] == datetime.fromtimestamp(like["timestamp"] / 1000, timezone.utc)
    assert any(row["headers"] is None for row in rows)
    assert any(row["headers"] for row in rows)


@both_ways
def test_columns_in_any_order(spark: SparkSession, way: Way) -> None:
    wanted = [(row["topic"], row["offset"], row["value"]) for row in expected("orders", 0)]
    frame = way(spark, DATA, subscribe="orders", columns="topic,offset,value")
    assert frame.columns == ["topic", "offset", "value"]
    assert [tuple(row) for row in frame.collect()] == wanted


@pytest.mark.every_spark
@needs_data_sources
def test_a_users_schema_is_honoured_by_name(spark: SparkSession) -> None:
    rows = expected("orders", 0)
    reader = spark.read.format("kafkalog").option("subscribe", "orders")
    frame = reader.schema("OFFSET bigint not null, value binary, crc bigint").load(str(DATA))
    assert [tuple(row) for row in frame.collect()] == [(row["offset"], row["value"], row["crc"]) for row in rows]
    one = reader.schema("partition int").load(str(DATA))
    assert one.count() == len(rows)
    assert one.groupBy("partition").count().collect()[0]["count"] == len(rows)


@pytest.mark.every_spark
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("value string", "column value must be declared binary, not string"),
        ("offset int", "column offset must be declared bigint, not int"),
        ("size int", "unknown column 'size'"),
        ("value binary not null", "column value may hold nulls; do not declare it not null"),
    ],
)
@needs_data_sources
def test_an_invalid_schema(spark: SparkSession, schema: str, says: str) -> None:
    with pytest.raises(Exception, match="ValueError: ") as caught:
        spark.read.format("kafkalog").schema(schema).load(str(DATA)).collect()
    assert says in str(caught.value)


@both_ways
def test_selecting_topics_and_partitions(spark: SparkSession, way: Way) -> None:
    def topics(**options: Any) -> set[tuple[str, int]]:
        rows = way(spark, [str(DATA), str(DATA.parent / "data-0")], **options).select("topic", "partition").distinct()
        return {(row[0], row[1]) for row in rows.collect()}

    live = {("events", 0), ("events", 1), ("ledger", 0), ("orders", 0), ("state", 0)}
    assert topics() == live
    assert topics(subscribe="orders, events") == {("orders", 0), ("events", 0), ("events", 1)}
    # anywhere in the name, as in Spark's source
    assert topics(subscribePattern="^e.*s|rd") == {("events", 0), ("events", 1), ("orders", 0)}
    assert topics(subscribePattern="^v|order$") == set()
    assert topics(assign='{"events": [1], "orders": [0]}') == {("events", 1), ("orders", 0)}
    assert ("__transaction_state", 0) in topics(subscribe="__transaction_state")
    # A broker does not list internal topics to Spark's source; here a pattern may match them.
    assert {topic for topic, _ in topics(subscribePattern="trans")} == {"__transaction_state"}


@both_ways
@pytest.mark.parametrize(
    "pattern",
    [
        "^(?!events|__).*",
        "(?<!er)s$",
        r"^(.).*\1$",
        r"^(?<first>.).*\k<first>$",
        r"\Qdger\E",
        r"\Qor.ers\E|^sta++te",
        "^(?>o|or)ders",
        "(?i)ORDERS",
        "(?i)^(?!EVENTS)",
        "[a-e&&[^le]]v",
        "^(?!.*)",
    ],
)
def test_patterns_are_javas(spark: SparkSession, way: Way, pattern: str) -> None:
    """The topics in which Java's own ``find`` finds the pattern."""
    java: Any = spark._jvm.java.util.regex.Pattern  # type: ignore[union-attr]
    names = {log.topic for path in (DATA, DATA.parent / "data-0") for log in kafkalog.LogDir(path)}
    wanted = {name for name in names if java.compile(pattern).matcher(name).find()}
    frame = way(spark, [str(DATA), str(DATA.parent / "data-0")], subscribePattern=pattern, columns="topic")
    # an empty partition has no rows
    wanted &= {
        row[0]
        for row in way(spark, [str(DATA), str(DATA.parent / "data-0")], subscribePattern=".", columns="topic").collect()
    }
    assert {row[0] for row in frame.distinct().collect()} == wanted


def test_a_pattern_under_its_python_name(spark: SparkSession) -> None:
    frame = kafkalog.spark.read(spark, DATA, subscribe_pattern="vent|^led", columns="topic")
    assert {row[0] for row in frame.distinct().collect()} == {"events", "ledger"}
    for other in ({"subscribe": "events"}, {"assign": {"events": [0]}}):
        with pytest.raises(ValueError, match="only one of assign, subscribe and subscribePattern"):
            kafkalog.spark.read(spark, DATA, subscribe_pattern="vent", **other)


@both_ways
def test_one_partition_folder_needs_no_subscription(spark: SparkSession, way: Way) -> None:
    assert pairs(way(spark, DATA / "orders-0")) == [(0, row["offset"]) for row in expected("orders", 0)]


@pytest.mark.every_spark
@both_ways
def test_offsets_from_and_to(spark: SparkSession, way: Way) -> None:
    paths = [str(DATA), str(DATA.parent / "data-0")]
    frame = way(
        spark,
        paths,
        subscribe="events",
        startingOffsets='{"events": {"0": 100, "1": -2, "2": 0}}',
        endingOffsets='{"events": {"0": 103, "1": 5, "2": -1}}',
    )
    end = [row["offset"] for row in expected("events", 1) if row["offset"] < 5]
    assert pairs(frame) == [(0, 100), (0, 101), (0, 102), *((1, offset) for offset in end)]


@pytest.mark.every_spark
@both_ways
def test_timestamps_from_and_to(spark: SparkSession, way: Way) -> None:
    rows = expected("orders", 0)
    first, last = rows[300]["timestamp"], rows[600]["timestamp"]
    start = next(row["offset"] for row in rows if row["timestamp"] >= first)
    end = next(row["offset"] for row in rows if row["timestamp"] >= last)
    # a timestamp takes precedence over offsets
    frame = way(
        spark,
        DATA,
        subscribe="orders",
        startingTimestamp=str(first),
        endingOffsetsByTimestamp=f'{{"orders": {{"0": {last}}}}}',
        endingOffsets='{"orders": {"0": 1}}',
    )
    assert pairs(frame) == [(0, row["offset"]) for row in rows if start <= row["offset"] < end]
    # an end that no record reaches means the end of the log
    late = way(spark, DATA, subscribe="orders", endingTimestamp=str(1 << 45))
    assert late.count() == len(rows)


@both_ways
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscibe": "orders"}, "unknown option 'subscibe'; did you mean 'subscribe'?"),
        ({"subscribe": "orders", "assign": "{}"}, "only one of assign, subscribe and subscribePattern"),
        ({"subscribe": "ordres"}, "orders"),
        (
            {"subscribe": "orders", "startingTimestamp": str(1 << 45)},
            "no record of orders-0 has a timestamp of 35184372088832 or later",
        ),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders": {}}'},
            "option startingOffsets must name every partition that is read",
        ),
        ({"subscribe": "orders", "endingOffsets": '{"orders": {"0": 5, "7": 5}}'}, "orders-7, which is not read"),
        ({"subscribe": "orders", "minPartitions": "0"}, "option minPartitions: expected a number above zero"),
        ({"assign": '{"orders": [0, 9]}'}, "no partition orders-9 in these logs"),
        (
            {"subscribe": "orders", "startingTimestamp": "1700030390000", "endingTimestamp": "1700030350000"},
            "which is above its end",
        ),
        (
            {"subscribe": "orders", "endingOffsets": '{"orders": {"0": 5000}}'},
            "orders-0 was requested up to offset 5000, but its log ends at 880",
        ),
    ],
)
def test_errors(spark: SparkSession, way: Way, options: dict[str, str], says: str) -> None:
    # Spark lower-cases the names of a data source's options, so the error has a misspelt one in lower case.
    with pytest.raises(Exception, match=r"(?s).+") as caught:
        way(spark, DATA, **options).collect()
    assert says in str(caught.value)


@both_ways
def test_without_failing_on_data_loss_the_remaining_records_are_read(
    spark: SparkSession, way: Way, tmp_path: Path
) -> None:
    source = next(each for each in corpus.partitions() if each.folder == DATA / "orders-0")
    folder = source.copy(tmp_path)
    first, second = sorted(folder.glob("*.log"))[:2]
    for file in folder.glob(f"{first.stem}.*"):
        file.unlink()
    start = int(second.stem)
    options = {
        "assign": '{"orders": [0, 9]}',
        "startingOffsets": '{"orders": {"0": 0}}',
        "endingOffsets": '{"orders": {"0": 5000}}',
        "columns": "offset",
    }
    wanted = [row["offset"] for row in expected("orders", 0) if row["offset"] >= start]
    assert len(wanted) < len(expected("orders", 0))
    frame = way(spark, folder.parent, failOnDataLoss="false", **options)
    assert [row[0] for row in frame.collect()] == wanted
    options["assign"] = '{"orders": [0]}'
    with pytest.raises(Exception, match=f"from offset 0, but its log starts at {start}"):
        way(spark, folder.parent, **options).collect()
    behind = {"startingOffsets": '{"orders": {"0": 5000}}', "assign": '{"orders": [0]}'}
    with pytest.raises(Exception, match="orders-0 starts at offset 5000, which is above its end 880"):
        way(spark, folder.parent, **behind).count()
    assert way(spark, folder.parent, failOnDataLoss="false", **behind).count() == 0
    before = {"endingOffsets": '{"orders": {"0": 5}}', "subscribe": "orders"}
    for given in (before, {**before, "startingOffsets": '{"orders": {"0": -2}}'}):
        with pytest.raises(Exception, match=f"orders-0 was requested up to offset 5, but its log starts at {start}"):
            way(spark, folder.parent, **given).count()
        assert way(spark, folder.parent, failOnDataLoss="false", **given).count() == 0


@both_ways
def test_a_segment_missing_in_the_middle_is_no_loss(spark: SparkSession, way: Way, tmp_path: Path) -> None:
    """As in Spark's own source and on a broker (tests/interop, test_mount): compaction leaves such gaps too."""
    source = next(each for each in corpus.partitions() if each.folder == DATA / "orders-0")
    folder = source.copy(tmp_path)
    _, second, third = sorted(folder.glob("*.log"))[:3]
    for file in folder.glob(f"{second.stem}.*"):
        file.unlink()
    gone = range(int(second.stem), int(third.stem))
    whole = [row["offset"] for row in expected("orders", 0)]
    assert {gone[0], gone[-1]} <= set(whole)
    left = [offset for offset in whole if offset not in gone]
    given = {"subscribe": "orders", "columns": "offset"}
    assert [row[0] for row in way(spark, folder.parent, **given).collect()] == left
    given["startingOffsets"] = json.dumps({"orders": {"0": gone[1]}})
    assert [row[0] for row in way(spark, folder.parent, **given).collect()] == [n for n in left if n > gone[1]]
    given["endingOffsets"] = json.dumps({"orders": {"0": gone[-1]}})
    assert way(spark, folder.parent, **given).collect() == []


@both_ways
def test_segments_deleted_between_planning_and_reading(spark: SparkSession, way: Way, tmp_path: Path) -> None:
    source = next(each for each in corpus.partitions() if each.folder == DATA / "orders-0")
    folder = source.copy(tmp_path)
    if way is by_data_source:
        # the data source plans when it reads, so its task is run without Spark
        from kafkalog.spark.planner import plan_splits
        from kafkalog.spark.read_split import read_split
        from kafkalog.spark.source_options import parse

        given = {"path": str(folder), "columns": "offset"}
        strict, lax = (plan_splits(parse({**given, "failOnDataLoss": fail}))[0] for fail in ("true", "false"))
        first, second = sorted(folder.glob("*.log"))[:2]
        first.unlink()
        wanted = [row["offset"] for row in expected("orders", 0) if row["offset"] >= int(second.stem)]
        assert [n for batch in read_split(lax) for n in batch["offset"].to_pylist()] == wanted
        with pytest.raises(kafkalog.OffsetOutOfRangeError, match="1 of 6 planned segments were deleted"):
            list(read_split(strict))
        return
    frame = way(spark, folder, columns="offset")
    min(folder.glob("*.log")).unlink()
    with pytest.raises(Exception, match="1 of 6 planned segments were deleted before they were read"):
        frame.collect()


@both_ways
def test_minimum_of_partitions_and_maximum_of_records(spark: SparkSession, way: Way) -> None:
    wanted = [row["offset"] for row in expected("orders", 0)]
    whole = way(spark, DATA, subscribe="orders", columns="offset")
    assert whole.rdd.getNumPartitions() == 1
    more = way(spark, DATA, subscribe="orders", columns="offset", minPartitions="4")
    assert more.rdd.getNumPartitions() >= 4
    assert [row[0] for row in more.collect()] == wanted
    few = way(spark, DATA, subscribe="orders", columns="offset", maxRecordsPerPartition="100")
    sizes = few.rdd.glom().map(lambda rows: [row[0] for row in rows]).collect()
    assert [offset for rows in sizes for offset in rows] == wanted
    assert max(rows[-1] - rows[0] for rows in sizes) < 100
    # 880 offsets in parts of at most 100
    assert len(sizes) == 9


@both_ways
def test_a_start_after_all_records_may_be_the_end(spark: SparkSession, way: Way) -> None:
    options = {"startingTimestamp": str(1 << 45), "startingOffsetsByTimestampStrategy": "latest"}
    assert way(spark, DATA, subscribe="orders", **options).count() == 0


@both_ways
def test_a_missing_path(spark: SparkSession, way: Way, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"FileNotFoundError|No such file") as caught:
        way(spark, tmp_path / "nowhere").collect()
    assert str(tmp_path / "nowhere") in str(caught.value)


def test_a_relative_path_is_relative_to_the_users_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM, and the process that plans a data source, stay in the folder where they were started."""
    source = next(each for each in corpus.partitions() if each.folder == DATA / "orders-0")
    source.copy(tmp_path / "logs")
    started = Path.cwd()
    monkeypatch.chdir(tmp_path)
    assert kafkalog.spark.read(spark, "logs/data-1").count() == len(expected("orders", 0))
    assert kafkalog.spark.count(spark, ["logs/data-1"]) == len(expected("orders", 0))
    if has_data_sources():
        ways: list[Any] = [spark.read.format("kafkalog").load("logs/data-1").count]
        ways.append(Stream(spark, "logs/data-1", tmp_path / "c").run)
        for way in ways:
            with pytest.raises(Exception, match=r"path 'logs/data-1' is relative: .* absolute path\)") as caught:
                way()
            assert f"'{started / 'logs' / 'data-1'}'" in str(caught.value)


@both_ways
def test_nothing_to_read(spark: SparkSession, way: Way) -> None:
    frame = way(spark, DATA.parent / "data-0" / "events-2")
    assert frame.count() == 0
    assert table_of(frame).num_rows == 0


@pytest.mark.every_spark
@both_ways
def test_a_limit_ends_early(spark: SparkSession, way: Way) -> None:
    rows = way(spark, DATA, subscribe="orders", batchRows="1").limit(3).collect()
    assert [row["offset"] for row in rows] == [row["offset"] for row in expected("orders", 0)[:3]]


@pytest.mark.every_spark
@both_ways
def test_null_and_empty_keys_values_and_headers(spark: SparkSession, way: Way) -> None:
    log_dir = corpus.GOLDEN / "codecs" / "data-0"
    wanted = expected("codec-none", 2, log_dir)
    rows = table_of(way(spark, log_dir, assign='{"codec-none": [2]}', includeHeaders="true")).to_pylist()
    assert {row["key"] for row in wanted} >= {None, b""}
    assert {row["value"] for row in wanted} >= {None, b""}
    for name in ("key", "value", "headers"):
        assert [row[name] for row in rows] == [row[name] for row in wanted]
    assert [] not in [row["headers"] for row in rows]


@both_ways
def test_a_record_without_timestamp(spark: SparkSession, way: Way) -> None:
    old = next(each for each in corpus.partitions() if "v0-0.8" in each.id and each.lines("batches"))
    rows = way(spark, old.folder).selectExpr(
        "unix_millis(timestamp) t", "timestampType", "date_format(timestamp, 'y') y"
    )
    found = {tuple(row) for row in rows.collect()}
    # one millisecond before the epoch, as Spark's Kafka source shows it; the session is in New York
    assert found == {(-1, -1, "1969")}


@needs_data_sources
def test_a_temporary_view(spark: SparkSession) -> None:
    spark.sql(
        f"create or replace temporary view orders (value binary, offset bigint) "
        f"using kafkalog options (path '{DATA}', SubScribe 'orders')"
    )
    rows = expected("orders", 0)
    assert spark.sql("select max(offset), count(*) from orders").collect()[0] == (rows[-1]["offset"], len(rows))
    spark.catalog.dropTempView("orders")


def test_the_splits_by_hand(spark: SparkSession) -> None:
    splits = kafkalog.spark.plan(spark, DATA, subscribe="orders", columns=["offset"], split_bytes=20_000)
    assert splits.columns == ["split", "bytes", "segments", "task"]
    described = splits.drop("task").collect()
    assert [row["split"] for row in described] == list(range(len(described)))
    # a segment may be divided
    assert sum(row["segments"] for row in described) >= 6
    assert sum(row["bytes"] for row in described) == sum(f.stat().st_size for f in (DATA / "orders-0").glob("*.log"))
    assert 1 < len(described) == splits.rdd.getNumPartitions()
    frame = splits.mapInArrow(kafkalog.spark.read_splits, kafkalog.spark.schema(["offset"]))
    assert [row[0] for row in frame.collect()] == [row["offset"] for row in expected("orders", 0)]


@both_ways
def test_small_segments_share_a_task(spark: SparkSession, way: Way) -> None:
    assert way(spark, DATA).rdd.getNumPartitions() == 1
    assert way(spark, DATA, splitBytes="1").rdd.getNumPartitions() > 10


@needs_data_sources
def test_registering_by_hand(spark: SparkSession) -> None:
    kafkalog.spark.register(spark)
    assert by_data_source(spark, DATA, subscribe="orders").count() == len(expected("orders", 0))


def test_a_log_that_grows_after_planning(spark: SparkSession, tmp_path: Path) -> None:
    source = next(each for each in corpus.partitions() if each.folder == DATA / "orders-0")
    folder = source.copy(tmp_path)
    frame = kafkalog.spark.read(spark, folder)
    with max(folder.glob("*.log")).open("ab") as file:
        file.write((DATA / "ledger-0" / "00000000000000000000.log").read_bytes())
    assert frame.count() == len(expected("orders", 0))


def test_wide_batches_are_split(spark: SparkSession) -> None:
    def shape(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows, size = batch.num_rows, batch.nbytes
        return pa.RecordBatch.from_arrays([pa.array([rows]), pa.array([size])], names=["rows", "bytes"])

    made: dict[str, Any] = {"subscribe": "orders", "transform": shape, "schema": "rows bigint, bytes bigint"}
    for name, value, column, most in (("batchRows", "7", 0, 7), ("batchBytes", "4k", 1, 8 << 10)):
        shapes = kafkalog.spark.read(spark, DATA, **{**made, name: value}).collect()
        assert sum(row[0] for row in shapes) == len(expected("orders", 0))
        assert max(row[column] for row in shapes) <= most
        assert len(shapes) > 10


@both_ways
def test_a_file_alone(spark: SparkSession, way: Way) -> None:
    log = sorted((DATA / "orders-0").glob("*.log"))[1]
    offsets = [row[0] for row in way(spark, log, columns="offset").collect()]
    assert offsets == kafkalog.read_table(log, columns=["offset"])["offset"].to_pylist()
    assert 0 < len(offsets) < len(expected("orders", 0))


@pytest.mark.every_spark
@needs_data_sources
def test_a_schema_precedes_columns(spark: SparkSession) -> None:
    reader = spark.read.format("kafkalog").option("subscribe", "orders").option("columns", "value,timestamp")
    frame = reader.schema("offset bigint").load(str(DATA))
    assert [tuple(row) for row in frame.collect()] == [(row["offset"],) for row in expected("orders", 0)]


@both_ways
def test_up_to_the_high_watermark_and_in_folders_that_were_set_aside(
    spark: SparkSession, way: Way, tmp_path: Path
) -> None:
    source = next(each for each in corpus.partitions() if each.folder == DATA / "orders-0")
    data = source.copy(tmp_path).parent
    (data / "replication-offset-checkpoint").write_text("0\n1\norders 0 500\n", encoding="utf-8")
    offsets = [row["offset"] for row in expected("orders", 0)]
    given = {"subscribe": "orders", "columns": "offset"}
    bounded = way(spark, data, endingOffsets="high_watermark", **given)
    assert [row[0] for row in bounded.collect()] == [offset for offset in offsets if offset < 500]
    (data / "orders-0").rename(data / "orders-0.0123456789abcdef0123456789abcdef-stray")
    aside = way(spark, data, includeInactive="true", **given)
    assert [row[0] for row in aside.collect()] == offsets
    assert way(spark, data, columns="offset").count() == 0
