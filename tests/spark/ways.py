"""The two ways into Spark, with one signature."""

from __future__ import annotations

import importlib.util
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


def has_data_sources() -> bool:
    """Tell whether this Spark has Python data sources (4.0)."""
    return importlib.util.find_spec("pyspark.sql.datasource") is not None


needs_data_sources = pytest.mark.skipif(not has_data_sources(), reason="Spark has Python data sources from 4.0 on")
both_ways = pytest.mark.parametrize("way", [by_map_in_arrow, pytest.param(by_data_source, marks=needs_data_sources)])


def table_of(frame: DataFrame) -> Any:
    """Collect as Arrow, also before Spark 4.0, which has no public method for it."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa

    batches: Any = frame._collect_as_arrow()  # type: ignore[operator]
    schema = None if batches else pa.schema([pa.field(name, pa.null()) for name in frame.columns])
    return pa.Table.from_batches(batches, schema)
