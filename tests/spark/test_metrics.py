"""The metrics of tasks, summed on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.full

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
ORDERS = DATA / "orders-0"


@pytest.mark.parametrize("way", ["read", "transform", "count"])
def test_totals_are_those_of_one_reader(spark: SparkSession, way: str) -> None:
    start = 300
    done = kafkalog.spark.totals(spark)
    options: dict[str, Any] = {"columns": "offset", "splitBytes": "20k", "metrics": done, "subscribe": "orders"}
    options["startingOffsets"] = {"orders": {"0": start}}
    if way == "transform":
        made: dict[str, Any] = {"transform": lambda batch: batch.slice(1), "schema": "offset bigint"}
        kafkalog.spark.read(spark, DATA, **made, **options).collect()
    elif way == "read":
        assert kafkalog.spark.read(spark, DATA, **options).count() == 880 - start
    else:
        assert kafkalog.spark.count(spark, DATA, **options) == 880 - start
    alone = kafkalog.scan(ORDERS, columns=["offset"], starting_offsets={"orders": {0: start}})
    records = sum(batch.num_rows for batch in alone)
    found = done.value
    assert found["splits"] == kafkalog.spark.plan(spark, DATA, **without(options)).count() > 1
    assert found["records"] == records == 880 - start
    assert found["batches"] == alone.metrics["batches"]
    assert found["segments_lost"] == 0
    assert found["bytes"] >= sum(file.stat().st_size for file in ORDERS.glob("*.log") if int(file.stem) >= start)
    assert found["nanoseconds"] > 0
    # a second action reads again
    assert kafkalog.spark.count(spark, ORDERS, metrics=done) == 880
    assert done.value["records"] == 880 - start + 880


def without(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "metrics"}
