"""The two ways into Spark behind one signature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import kafkalog.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def by_map_in_arrow(spark: SparkSession, path: Any, **options: Any) -> DataFrame:
    return kafkalog.spark.read(spark, path, **options)


def by_data_source(spark: SparkSession, path: Any, **options: Any) -> DataFrame:
    reader = spark.read.format("kafkalog")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(path if isinstance(path, list) else str(path))


both_ways = pytest.mark.parametrize("way", [by_map_in_arrow, by_data_source])
