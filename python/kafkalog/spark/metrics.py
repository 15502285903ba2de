"""Metrics that the tasks of a read report, summed on the driver by a Spark accumulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession


def add(sums: dict[str, int], more: dict[str, int]) -> dict[str, int]:
    """Add numbers to those of the same names, in place."""
    for name, number in more.items():
        sums[name] = sums.get(name, 0) + number
    return sums


class _Sums(AccumulatorParam[dict[str, int]]):
    """Numbers by name."""

    def zero(self, value: dict[str, int]) -> dict[str, int]:  # noqa: ARG002 - Spark names it
        return {}

    def addInPlace(self, value1: dict[str, int], value2: dict[str, int]) -> dict[str, int]:  # noqa: N802
        return add(value1, value2)


def totals(spark: SparkSession) -> Accumulator[dict[str, int]]:
    """Create the accumulator that ``read`` and ``count`` take as ``metrics``.

    Parameters
    ----------
    spark : SparkSession
        The session; a client of Spark Connect has no accumulators.

    Returns
    -------
    Accumulator
        After an action its ``value`` is a dict of the names of ``RecordReader.metrics``, ``splits`` that were read to
        their end, and ``nanoseconds`` of decoding. A read that runs again is counted again. With ``onCorrupt=skip``,
        ``lost`` counts the ranges that were skipped as damaged, and ``bytes_lost`` their bytes.

    Examples
    --------
    >>> done = kafkalog.spark.totals(spark)
    >>> kafkalog.spark.read(spark, "/data/kafka-logs", metrics=done).write.parquet("/data/out")
    >>> done.value["records"], done.value["skipped"]
    """
    return spark.sparkContext.accumulator({}, _Sums())
