"""Conditions, pushed by Spark or given as ``where``, select the same rows as Spark's own filter."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

import corpus
import kafkalog.spark
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.predicates import check_predicates, timestamp_bounds
from kafkalog.spark.read_split import read_split as decoded
from kafkalog.spark.source_options import parse
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

PATHS = [str(corpus.GOLDEN / "clean-restarts" / name) for name in ("data-0", "data-1")]
COLUMNS = "topic,partition,offset,timestamp,timestampType,key"
CONF = "spark.sql.python.filterPushdown.enabled"
FIRST = datetime.fromtimestamp(1_700_030_350, timezone.utc)

QUERIES = [
    "offset >= 100",
    "offset > 100 and offset <= 102",
    "offset = 500",
    "offset between 5 and 4",
    "topic = 'orders'",
    "topic like 'e%'",
    "topic like '%ers' and partition = 0",
    "topic like '%ve%'",
    "topic <> 'orders' and partition <> 0",
    "topic in ('orders', 'state')",
    "partition in (1, 2) and not topic in ('orders')",
    "partition < 1 and topic > 'f'",
    "timestamp >= timestamp'2023-11-15 01:39:10'",
    "timestamp > timestamp'2023-11-15 01:39:10.0005' and timestamp < timestamp'2023-11-15 01:39:20.9995'",
    "timestamp = timestamp'1969-12-31 18:59:59.999'",
    "timestamp <= timestamp'2023-11-15 01:39:10' and offset > 7 and topic = 'orders'",
    "timestampType is not null and topic <=> 'orders'",
    "offset <> 100 and topic = 'orders'",
    "offset in (1, 5, 900)",
    "key is not null and offset < 50",
    "key is null",
    "timestamp in (timestamp'2023-11-15 01:39:10', timestamp'2023-11-15 01:39:11')",
    "topic = 'nowhere'",
    "offset = 1 or offset = 3",
]


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    pytest.importorskip("pyspark", minversion="4.1")
    spark.conf.set(CONF, "true")
    yield
    spark.conf.unset(CONF)


def source(spark: SparkSession) -> DataFrame:
    return spark.read.format("kafkalog").options(columns=COLUMNS).load(PATHS)


def rows(frame: DataFrame) -> list[Any]:
    return sorted(map(tuple, frame.select("topic", "partition", "offset").collect()))


@pytest.fixture(scope="module")
def answers(spark: SparkSession) -> dict[str, list[Any]]:
    """The rows that Spark's own filters select, in one job."""
    frame = kafkalog.spark.read(spark, PATHS, columns=COLUMNS)
    asked = [F.expr(sql).alias(f"q{number}") for number, sql in enumerate(QUERIES)]
    found = frame.select("topic", "partition", "offset", *asked).collect()
    assert len(found) == 3667
    return {sql: sorted(tuple(row[:3]) for row in found if row[f"q{n}"]) for n, sql in enumerate(QUERIES)}


@pytest.mark.parametrize("sql", QUERIES)
def test_pushed_filters(spark: SparkSession, answers: dict[str, list[Any]], pushing: None, sql: str) -> None:
    assert rows(source(spark).where(sql)) == answers[sql]


def test_a_filter_that_is_taken_is_not_evaluated_again(spark: SparkSession, pushing: None) -> None:
    plan = source(spark).where("offset > 5 and timestamp < timestamp'2023-11-15 01:39:10' and key is not null")
    text = plan._jdf.queryExecution().executedPlan().toString()
    assert "isnotnull(key" in text
    assert "(offset" not in text
    assert "(timestamp" not in text


def test_which_filters_are_taken_and_which_are_returned() -> None:
    """Also filters that Spark rewrites before it pushes them, and several pushes."""
    pytest.importorskip("pyspark", minversion="4.1")
    from pyspark.sql import datasource as spark

    from kafkalog.spark.data_source import PushdownBatchReader, RowSchema

    offset, topic = ("offset",), ("topic",)
    reader = PushdownBatchReader(parse({"path": PATHS}), RowSchema(("offset",), ("offset",), frozenset()))
    exact = [
        spark.EqualNullSafe(offset, 5),
        spark.IsNotNull(offset),
        spark.Not(spark.EqualTo(topic, "a")),
        spark.Not(spark.In(("PARTITION",), (1, 2))),
    ]
    others = [
        spark.EqualNullSafe(topic, None),
        spark.IsNull(topic),
        spark.Not(spark.IsNotNull(offset)),
        spark.IsNotNull(("key",)),
        spark.Not(spark.EqualTo(offset, 5)),
        spark.Not(spark.GreaterThan(offset, 5)),
        spark.GreaterThan(("headers", "offset"), 5),
    ]
    assert list(reader.pushFilters([*others, *exact])) == others
    assert list(reader.pushFilters([spark.LessThan(offset, 9)])) == []
    taken = (("offset", "=", 5), ("topic", "!=", "a"), ("partition", "not in", [1, 2]), ("offset", "<", 9))
    assert reader.options.predicates == taken


def test_a_query_may_be_planned_twice(spark: SparkSession, answers: dict[str, list[Any]], pushing: None) -> None:
    frame = source(spark).where(QUERIES[0])
    frame._jdf.queryExecution().executedPlan().toString()
    assert [rows(frame), rows(frame)] == [answers[QUERIES[0]]] * 2
    assert rows(frame.where(QUERIES[1])) == [row for row in answers[QUERIES[0]] if row in answers[QUERIES[1]]]


def test_a_stream_with_the_switch_on(spark: SparkSession, pushing: None, tmp_path: Path) -> None:
    stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").options(columns=COLUMNS)
    kept = stream.load(",".join(PATHS)).where("offset < 5")
    query = kept.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query.option("checkpointLocation", str(tmp_path / "point")).trigger(availableNow=True).start().awaitTermination(60)
    assert rows(spark.read.parquet(str(tmp_path / "out"))) == rows(source(spark).where("offset < 5"))


@needs_data_sources
def test_reads_work_with_the_switch_off(spark: SparkSession, answers: dict[str, list[Any]]) -> None:
    assert spark.conf.get(CONF, "false") == "false"
    sql = " and ".join(QUERIES[:2])
    assert rows(source(spark).where(sql)) == [row for row in answers[QUERIES[0]] if row in answers[QUERIES[1]]]


def test_a_view_in_sql(spark: SparkSession, pushing: None) -> None:
    spark.sql(
        "create or replace temporary view logs (OFFSET bigint, topic string) "
        f"using kafkalog options (path '{PATHS[1]}')"
    )
    found = spark.sql("select offset from logs where Offset < 10 and topic = 'orders'").collect()
    assert [row[0] for row in found] == list(range(10))
    spark.catalog.dropTempView("logs")


WHERE: list[tuple[Any, str]] = [
    ([("offset", ">=", 100)], "offset >= 100"),
    ([("offset", ">", 100), ("offset", "<=", 102)], "offset > 100 and offset <= 102"),
    ([("topic", "in", ["orders", "state"])], "topic in ('orders', 'state')"),
    ([("topic", "startswith", "e")], "topic like 'e%'"),
    ([("partition", "!=", 0), ("topic", "!=", "orders")], "topic <> 'orders' and partition <> 0"),
    ([("timestamp", ">=", FIRST)], "timestamp >= timestamp'2023-11-15 01:39:10'"),
    ([("timestamp", ">=", 1_700_030_350_000)], "timestamp >= timestamp'2023-11-15 01:39:10'"),
    ([("offset", ">", 5), ("offset", "<", 6)], "topic = 'nowhere'"),
]


@pytest.mark.parametrize(("where", "sql"), WHERE, ids=[str(where) for where, _ in WHERE])
def test_conditions_as_an_argument(where: Any, sql: str, answers: dict[str, list[Any]]) -> None:
    options = parse({"path": PATHS, "columns": "topic,partition,offset", "where": where})
    batches = [batch for split in plan_splits(options) for batch in decoded(split)]
    assert sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist()) == answers[sql]


def test_conditions_of_a_read_and_a_count(spark: SparkSession, answers: dict[str, list[Any]]) -> None:
    where, sql = WHERE[1]
    assert rows(kafkalog.spark.read(spark, PATHS, columns="topic,partition,offset", where=where)) == answers[sql]
    assert kafkalog.spark.count(spark, PATHS, where=where) == len(answers[sql])


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ([("key", "=", b"k")], "column 'key' does not support conditions; use one of topic, partition"),
        ([("offset", "!=", 5)], "condition offset '!=': unknown operator; use one of =, <"),
        ([("offset", "=", "5")], "condition offset: '5' has the wrong type"),
        ([("offset", "=", True)], "condition offset: True has the wrong type"),
        ([("topic", "=", 5)], "condition topic: 5 has the wrong type"),
        ([("partition", "in", 5)], "condition partition 'in': expected a list, found 5"),
        ([("timestamp", "<", datetime(2023, 1, 1))], "has no time zone"),  # noqa: DTZ001 - that is the point
    ],
)
def test_conditions_that_are_refused(where: Any, says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are what is tested
        check_predicates(where)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("symbol", "micros", "expected"),
    [
        ("=", 5000, (5, 5)),
        ("<", 5000, (None, 4)),
        ("<=", 5000, (None, 5)),
        (">", 5000, (6, None)),
        (">=", 5000, (5, None)),
        # between two milliseconds
        ("<", 5500, (None, 5)),
        (">=", 5500, (6, None)),
        ("=", 5500, (6, 5)),
        (">", -5500, (-5, None)),
        ("<", -5500, (None, -6)),
    ],
)
def test_times_are_of_whole_milliseconds(symbol: str, micros: int, expected: tuple[int | None, int | None]) -> None:
    when = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
    assert timestamp_bounds(check_predicates([("timestamp", symbol, when)])) == expected
    assert timestamp_bounds(check_predicates([("offset", symbol, 5)])) == (None, None)
    # the stricter condition counts, in any order
    others = [("timestamp", ">=", -99), ("timestamp", "<", 99)]
    both = [
        timestamp_bounds(check_predicates(some))
        for some in ([*others, ("timestamp", symbol, when)], [("timestamp", symbol, when), *others])
    ]
    assert both == [(-99 if expected[0] is None else expected[0], 98 if expected[1] is None else expected[1])] * 2


def test_excluded_records_are_not_read() -> None:
    def planned(**given: Any) -> int:
        return sum(split.bytes for split in plan_splits(parse({"path": PATHS, **given})))

    assert 0 < planned(where=[("offset", ">=", 800), ("topic", "=", "orders")]) < planned() / 20
