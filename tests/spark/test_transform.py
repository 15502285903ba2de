"""Work in the executors: functions of batches, and counts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
import kafkalog.spark
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.source_options import parse
from kafkalog.spark.transform import transformed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    return kafkalog.read_table(DATA)


def sums() -> Any:
    """Create a function that is pickled by value: workers cannot import this module."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def sizes(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Sum payload by topic, without `ledger`; None for batches of that topic only."""
        topics: Any = batch.column("topic")
        wanted: Any = pc.invert(pc.equal(topics, pa.scalar("ledger")))
        batch = batch.filter(wanted)
        if not batch.num_rows:
            return None
        value: Any = batch.column("value")
        lengths: Any = pc.binary_length(value)
        counted = pa.table([batch.column("topic"), pc.fill_null(lengths, 0)], ["topic", "n"])
        summed: Any = counted.group_by("topic").aggregate([("n", "sum")])
        columns = [summed["topic"].combine_chunks(), summed["n_sum"].combine_chunks().cast("int64")]
        return pa.RecordBatch.from_arrays(columns, names=["topic", "bytes"])

    return sizes


@pytest.mark.every_spark
def test_a_function_gets_batches_before_spark_does(spark: SparkSession, expected: pa.Table) -> None:
    frame = kafkalog.spark.read(
        spark, DATA, columns="value,topic", batch_rows=20, transform=sums(), schema="topic string, bytes bigint"
    )
    assert frame.columns == ["topic", "bytes"]
    found = {row[0]: row[1] for row in frame.groupBy("topic").sum("bytes").collect()}
    wanted: dict[str, int] = {}
    for row in expected.select(["topic", "value"]).to_pylist():
        if row["topic"] != "ledger":
            wanted[row["topic"]] = wanted.get(row["topic"], 0) + len(row["value"] or b"")
    assert found == wanted


@pytest.mark.every_spark
def test_the_error_of_a_function_reaches_the_driver(spark: SparkSession) -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ArithmeticError(f"no sense in {batch.num_rows} rows")

    frame = kafkalog.spark.read(spark, DATA, columns="offset", transform=fail, schema="offset bigint")
    with pytest.raises(Exception, match="ArithmeticError: no sense in"):
        frame.collect()


def gives(columns: dict[str, Any]) -> Any:
    """Create a function that returns one row for any batch."""

    def give(_: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_pydict({name: pa.array([value], kind) for name, (value, kind) in columns.items()})

    return give


@pytest.mark.every_spark
@pytest.mark.parametrize(
    ("function", "schema", "says"),
    [
        (
            lambda batch: batch.to_pydict(),
            "n bigint",
            "TypeError: {place}: expected a pyarrow.RecordBatch, found a builtins.dict",
        ),
        (
            lambda batch: __import__("pyarrow").Table.from_batches([batch]),
            "offset bigint",
            "TypeError: {place}: expected a pyarrow.RecordBatch, found a pyarrow.lib.Table",
        ),
        (gives({"m": (1, "int64")}), "n bigint", "ValueError: {place}: expected the columns n, found m"),
        # Spark would swap the columns
        (
            gives({"b": (1, "int64"), "a": (2, "int64")}),
            "a bigint, b bigint",
            "ValueError: {place}: expected the columns a, b, found b, a",
        ),
        (gives({"n": (1, "int32")}), "n bigint", "ValueError: {place}: expected column n as int64, found int32"),
        (
            gives({"t": (1, "timestamp[ms]")}),
            "t timestamp",
            "ValueError: {place}: expected column t as timestamp[us, tz=UTC], found timestamp[ms]",
        ),
        (
            gives({"n": (None, "int64")}),
            "n bigint not null",
            "ValueError: {place}: expected no null in column n, found 1",
        ),
        (lambda batch: batch.select([]), "n bigint", "ValueError: {place}: expected the columns n, found (none)"),
    ],
)
def test_a_function_that_returns_something_else(spark: SparkSession, function: Any, schema: str, says: str) -> None:
    frame = kafkalog.spark.read(
        spark, DATA, columns="offset", subscribe="orders", transform=function, schema=schema, splitBytes="1g"
    )
    wanted = says.format(place=f"transform of a batch of {DATA / 'orders-0'}")
    with pytest.raises(Exception, match=rf"(?m)^{re.escape(wanted)}$"):
        frame.collect()


@pytest.mark.every_spark
def test_a_function_that_returns_something_else_of_several_partitions(spark: SparkSession) -> None:
    wrong = gives({"n": (1, "int32")})
    frame = kafkalog.spark.read(spark, DATA, columns="offset", transform=wrong, schema="n bigint", splitBytes="1g")
    folders = sorted(DATA.glob("[a-z]*-[0-9]"))
    wanted = f"transform of a batch of {folders[0]} and {len(folders) - 1} more: expected column n as int64"
    with pytest.raises(Exception, match=re.escape(wanted)):
        frame.collect()


@pytest.mark.every_spark
def test_a_function_may_return_large_types_views_and_nulls(spark: SparkSession) -> None:
    """Arrow infers types, which may differ from one batch to the next; Spark accepts no such difference."""
    from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

    def give(batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        offset = batch.column("offset")[0].as_py()
        kinds = [("large_string", "large_binary"), ("string_view", "binary_view"), ("null", "null")]
        text, data = kinds[offset % 3]
        some = {"s": pa.array([None if text == "null" else "s"], text)}
        some["b"] = pa.array([None if text == "null" else b"b"], data)
        some["l"] = pa.array([["x"]], pa.large_list(pa.field("item", pa.large_string(), nullable=False)))
        some["t"] = pa.array([offset], pa.timestamp("us", "Europe/Vienna"))
        return pa.RecordBatch.from_pydict({**some, "n": pa.array([offset])})

    ddl = "s string, b binary, l array<string>, t timestamp"
    schema: StructType = spark.sql("select 1").mapInArrow(lambda batches: batches, ddl).schema
    schema = StructType([*schema.fields, StructField("n", LongType(), nullable=False)])
    assert schema["l"].dataType == ArrayType(StringType())
    frame = kafkalog.spark.read(
        spark, DATA, columns="offset", subscribe="orders", transform=give, schema=schema, batch_rows=7
    )
    found = frame.selectExpr("s", "b", "l", "unix_micros(t)", "n").collect()
    assert len({row[4] % 3 for row in found}) == 3
    for s, b, parts, micros, n in found:
        is_null = n % 3 == 2
        assert (s, b, parts, micros) == (None if is_null else "s", None if is_null else b"b", ["x"], n)


def through(schema: pa.Schema, *made: Any) -> list[pa.RecordBatch]:
    """Apply a function to batches without Spark."""
    return list(transformed(lambda batch: batch, schema, "a batch of /logs/t-0", made))


@pytest.mark.parametrize(
    ("wanted", "kind", "value"),
    [
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.large_string())]), {"a": "x"}),
        (pa.map_(pa.string(), pa.binary()), pa.map_(pa.large_string(), pa.large_binary()), [("k", b"v")]),
        (pa.list_(pa.struct([("a", pa.binary())])), pa.list_(pa.struct([("a", pa.large_binary())])), [{"a": b"x"}]),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Tokyo"), None),
        (pa.list_(pa.int64()), pa.null(), None),
    ],
)
def test_types_that_differ_in_storage_only_are_cast(wanted: Any, kind: Any, value: Any) -> None:
    (found,) = through(pa.schema([("c", wanted)]), pa.RecordBatch.from_arrays([pa.array([value], kind)], ["c"]))
    assert found.schema.equals(pa.schema([("c", wanted)]))
    assert found.column("c").to_pylist() == [value]


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.struct([("a", pa.int64())]), pa.struct([("b", pa.int64())])),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
    ],
)
def test_types_that_differ_in_more_are_refused(wanted: Any, kind: Any) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([None], kind)], ["c"])
    says = f"transform of a batch of /logs/t-0: expected column c as {wanted}, found {kind}"
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        through(pa.schema([("c", wanted)]), batch)


def test_batches_without_rows_are_left_out() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2]})
    assert through(batch.schema, batch.slice(0, 0), None, batch, batch.slice(2)) == [batch]


def test_nulls_are_refused_in_a_column_that_is_not_nullable() -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    assert through(schema, pa.RecordBatch.from_pydict({"n": [1]}))[0].schema == schema
    with pytest.raises(ValueError, match="expected no null in column n, found 2"):
        through(schema, pa.RecordBatch.from_pydict({"n": [None, 1, None]}))


@pytest.mark.every_spark
def test_a_function_needs_a_schema(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="transform and schema must be given together"):
        kafkalog.spark.read(spark, DATA, transform=sums())


@pytest.mark.every_spark
def test_counting_sends_a_number_for_each_task() -> None:
    from kafkalog.spark.map_in_arrow import _counted

    splits = plan_splits(parse({"path": str(DATA), "subscribe": "orders", "splitBytes": "20k"}))
    assert len(splits) > 2
    (sent,) = zip(*(batch.to_pydict().items() for batch in _counted(None, enumerate(splits))), strict=True)
    assert {name for name, _ in sent} == {"rows"}
    assert [len(numbers) for _, numbers in sent] == [1] * len(splits)
    assert sum(numbers[0] for _, numbers in sent) == 880


@pytest.mark.every_spark
def test_counting(spark: SparkSession, expected: pa.Table) -> None:
    assert kafkalog.spark.count(spark, DATA) == expected.num_rows
    assert kafkalog.spark.count(spark, DATA, subscribe="orders", split_bytes="20k") == 880
    bounds: dict[str, Any] = {
        "startingOffsets": {"orders": {0: 7}},
        "endingOffsets": '{"orders": {"0": 500}}',
    }
    assert kafkalog.spark.count(spark, DATA, subscribe="orders", **bounds) == 493
    table = kafkalog.read_table(DATA, topics="ledger", include_control=True)
    assert kafkalog.spark.count(spark, DATA, subscribe="ledger", include_control=True) == table.num_rows
    assert kafkalog.spark.count(spark, DATA, subscribe="orders", where=[("offset", "<", 0)]) == 0
