"""Kafka's on-disk logs as Spark DataFrames, without a broker.

Importing this imports neither pyspark nor pyarrow; the first call does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.spark.columns import schema
from kafkalog.spark.export import export
from kafkalog.spark.map_in_arrow import read, read_splits
from kafkalog.spark.plan import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["export", "plan", "read", "read_splits", "register", "schema"]


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
