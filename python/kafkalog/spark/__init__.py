"""Kafka's on-disk logs as Spark DataFrames, without a broker.

Importing this imports neither pyspark nor pyarrow, and little of kafkalog: every task's worker does it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kafkalog.spark.map_in_arrow import read, read_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog.spark.columns import schema
    from kafkalog.spark.exporting import export
    from kafkalog.spark.planning import plan

__all__ = ["export", "plan", "read", "read_splits", "register", "schema"]

# What only the driver needs.
_HOMES = {"export": "exporting", "plan": "planning", "schema": "columns"}


def __getattr__(name: str) -> object:
    """Import what only the driver needs when it is first asked for."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"kafkalog.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: SparkSession) -> None:
    """Make ``format("kafkalog")`` known to a session that did not find it by itself.

    Parameters
    ----------
    spark : SparkSession
        A session of Spark 4.0 or newer; Spark 3.5 has ``read`` only.

    Raises
    ------
    ImportError
        When this Spark has no Python data sources.
    """
    from pyspark_kafkalog import DefaultSource

    spark.dataSource.register(DefaultSource)
