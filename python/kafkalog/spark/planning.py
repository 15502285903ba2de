"""From options to splits, on the driver: the only place where Spark reading looks at a directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kafkalog.spark.options import ReadOptions, parse
from kafkalog.spark.ranges import folder_bounds, plan_ranges
from kafkalog.spark.split import ScanOptions, Split, bytes_of, default_split_bytes, shares
from kafkalog.spark.where import narrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkalog._core import _Range

__all__ = ["frame_of", "plan", "plan_frame", "plan_splits", "slots", "splits_of"]

# Of the frame of splits.
_COLUMNS = (
    "cast(id as int) as split",
    "cast(split(get(split(sizes, ' '), cast(id as int)), ',')[0] as bigint) as bytes",
    "cast(split(get(split(sizes, ' '), cast(id as int)), ',')[1] as int) as segments",
    "get(split(tasks, '\\n'), cast(id as int)) as task",
)


def plan_splits(options: ReadOptions, slots: int) -> list[Split]:
    """Look at the directories and divide what is to be read.

    Parameters
    ----------
    options : ReadOptions
        What is asked for.
    slots : int
        Tasks that run at the same time; small reads are divided by it.

    Returns
    -------
    list of Split
        In the order of the rows; empty when there is nothing to read.

    Raises
    ------
    ValueError, OffsetOutOfRangeError
        As ``plan_ranges``.
    """
    return splits_of(narrow(plan_ranges(options), options.where), options, slots)


def splits_of(ranges: list[_Range], options: ReadOptions, slots: int) -> list[Split]:
    """Divide ranges into splits.

    Parameters
    ----------
    ranges : list of range
        What is to be read.
    options : ReadOptions
        ``splitBytes`` or what is best for the slots, smaller where ``minPartitions`` asks for more of them; with
        ``maxRecordsPerPartition`` no split is larger, counted by offsets as Spark does.
    slots : int
        Tasks that run at the same time.

    Returns
    -------
    list of Split
        In the order of the ranges.
    """
    ranges = [each for each in ranges if each[5]]
    total = sum(bytes_of(segment) for each in ranges for segment in each[5])
    size = options.split_bytes or default_split_bytes(total, slots)
    if options.min_partitions is not None:
        size = max(min(size, -(-total // options.min_partitions)), 1)
    scan = ScanOptions(
        columns=options.columns,
        check_crcs=options.check_crcs,
        include_control=options.include_control,
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        decode_ahead=options.decode_ahead,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    if options.max_records is None:
        return [Split(tuple(share), scan) for share in shares(ranges, size)]
    ends = folder_bounds(options, options.isolation) if any(each[4] is None for each in ranges) else {}
    parts = _of_records(ranges, options.max_records, ends)
    return [Split(tuple(share), scan) for part in parts for share in shares([part], size)]


def _of_records(ranges: list[_Range], most: int, ends: dict[str, tuple[int, int]]) -> list[_Range]:
    """Divide ranges evenly, so that none spans more offsets (``KafkaOffsetRangeCalculator.getDividedPartition``)."""
    from kafkalog import _core

    parts: list[_Range] = []
    for each in ranges:
        folder, _, _, start, end, *_ = each
        count = max((ends[folder][1] if end is None else end) - start, 1)
        number = -(-count // most)
        parts += _core.divide(each, [start + count * n // number for n in range(1, number)])
    return parts


def plan(spark: SparkSession, path: Any = None, **options: Any) -> DataFrame:
    """Plan a read and give its splits as a DataFrame, one row and one task for each.

    The bytes to be read are settled here: what a broker appends later is not seen. ``mapInArrow`` with ``read_splits``
    and ``schema`` turns the splits into rows.

    Parameters
    ----------
    spark : SparkSession
        The session.
    path : str, PathLike or list of them
        A log dir, several, partition folders or ``.log`` files, as for ``kafkalog.scan``.
    **options
        Those of ``read``.

    Returns
    -------
    DataFrame
        ``split int, bytes bigint, segments int, task string``.
    """
    frame, _ = plan_frame(spark, {"path": path, **options})
    return frame


def plan_frame(spark: SparkSession, options: dict[str, Any]) -> tuple[DataFrame, ReadOptions]:
    """Plan a read; the frame of its splits, and the options as they were understood."""
    asked = parse(options)
    return frame_of(spark, plan_splits(asked, slots(spark))), asked


def frame_of(spark: SparkSession, splits: list[Split]) -> DataFrame:
    """Put the splits into a DataFrame, one row and one task for each."""
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

    # Rows come from the JVM itself: a frame made from Python rows would cost every task a Python worker more. Spark
    # folds each text into an array before it runs. Expressions are text as well, as each of Python's is some ten calls
    # of the JVM; the splits are not, as its parser would take seconds for those of a long read.
    tasks, sizes = "\n".join(split.to_json() for split in splits), " ".join(_size(split) for split in splits)
    rows = spark.range(0, len(splits), 1, max(len(splits), 1))
    return rows.select("id", F.lit(tasks).alias("tasks"), F.lit(sizes).alias("sizes")).selectExpr(*_COLUMNS)


def _size(split: Split) -> str:
    return f"{split.bytes},{split.segments}"


def slots(spark: SparkSession) -> int:
    """Tasks that the session runs at the same time."""
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        # A client of Spark Connect has no context, and says so with one of these.
        return os.cpu_count() or 1
