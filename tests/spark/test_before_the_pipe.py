"""Work in the executors: functions of batches, and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
import kafkalog.spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    return kafkalog.read_table(DATA)


def sums() -> Any:
    """Make a function that workers get by value: they cannot import this module."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def sizes(batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Sum payload by topic; nothing for batches of `state`."""
        if batch.column("topic")[0].as_py() == "state":
            return None
        value: Any = batch.column("value")
        lengths: Any = pc.binary_length(value)
        counted = pa.table([batch.column("topic"), pc.fill_null(lengths, 0)], ["topic", "n"])
        summed: Any = counted.group_by("topic").aggregate([("n", "sum")])
        columns = [summed["topic"].combine_chunks(), summed["n_sum"].combine_chunks().cast("int64")]
        return pa.RecordBatch.from_arrays(columns, names=["topic", "bytes"])

    return sizes


def test_a_function_sees_batches_before_spark_does(spark: SparkSession, expected: pa.Table) -> None:
    frame = kafkalog.spark.read(
        spark, DATA, columns="value,topic", split_bytes="50k", transform=sums(), schema="topic string, bytes bigint"
    )
    assert frame.columns == ["topic", "bytes"]
    found = {row[0]: row[1] for row in frame.groupBy("topic").sum("bytes").collect()}
    wanted: dict[str, int] = {}
    for row in expected.select(["topic", "value"]).to_pylist():
        if row["topic"] != "state":
            wanted[row["topic"]] = wanted.get(row["topic"], 0) + len(row["value"] or b"")
    assert found == wanted


def test_a_function_that_fails_is_heard(spark: SparkSession) -> None:
    def fail(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ArithmeticError(f"no sense in {batch.num_rows} rows")

    frame = kafkalog.spark.read(spark, DATA, columns="offset", transform=fail, schema="offset bigint")
    with pytest.raises(Exception, match="ArithmeticError: no sense in"):
        frame.collect()


def test_a_function_needs_a_schema(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="transform and schema are given together"):
        kafkalog.spark.read(spark, DATA, transform=sums())


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
