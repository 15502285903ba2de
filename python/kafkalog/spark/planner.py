"""From options to splits, on the driver: the only place where a Spark read lists directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kafkalog._shares import default_split_bytes, shares
from kafkalog.options import ReadOptions, decode_arguments
from kafkalog.spark.offset_ranges import folder_bounds, plan_ranges
from kafkalog.spark.options import SourceOptions, parse
from kafkalog.spark.predicates import narrow
from kafkalog.spark.split import Split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog._core import PartitionRange
    from kafkalog.spark.topics import PartitionBounds

__all__ = ["make_split", "plan", "plan_frame", "plan_splits", "slots", "splits_frame", "splits_of"]

# The DataFrame of splits, as SQL expressions over an id and two texts that hold all splits.
_COLUMNS = (
    "cast(id as int) as split",
    "cast(split(get(split(sizes, ' '), cast(id as int)), ',')[0] as bigint) as bytes",
    "cast(split(get(split(sizes, ' '), cast(id as int)), ',')[1] as int) as segments",
    "get(split(tasks, '\\n'), cast(id as int)) as task",
)


def plan_splits(options: SourceOptions, slots: int) -> list[Split]:
    """List the log dirs and divide what is read into splits.

    Parameters
    ----------
    options : SourceOptions
        The options of the read.
    slots : int
        Tasks that run at the same time; small reads are divided by it.

    Returns
    -------
    list of Split
        In the order of the rows; empty if there is nothing to read.

    Raises
    ------
    ValueError, OffsetOutOfRangeError
        As :func:`kafkalog.spark.offset_ranges.plan_ranges`.
    """
    return splits_of(narrow(plan_ranges(options), options.predicates), options, slots)


def splits_of(ranges: list[PartitionRange], options: SourceOptions, slots: int) -> list[Split]:
    """Divide ranges into splits.

    Parameters
    ----------
    ranges : list of PartitionRange
        The planned ranges.
    options : SourceOptions
        ``splitBytes`` (or what suits the slots) is the size of a split; ``minPartitions`` makes splits smaller, and
        ``maxRecordsPerPartition`` bounds their offsets, which is how Spark counts records.
    slots : int
        Tasks that run at the same time.

    Returns
    -------
    list of Split
        In the order of the ranges.
    """
    ranges = [each for each in ranges if each.segment_count]
    total = sum(each.bytes for each in ranges)
    size = options.split_bytes or default_split_bytes(total, slots)
    if options.min_partitions is not None:
        size = max(min(size, -(-total // options.min_partitions)), 1)
    if options.read.latest:
        # The latest record of a key is known to whoever reads the whole partition.
        return [make_split([each], options) for each in ranges]
    parts = [ranges]
    if options.max_records is not None:
        ends = folder_bounds(options) if any(each.end_offset is None for each in ranges) else {}
        parts = [[part] for part in _divided(ranges, options.max_records, ends)]
    decode = ReadOptions(**decode_arguments(options.read))
    whole = options.read.on_corrupt == "skip"
    return [make_split(share, options, decode) for part in parts for share in shares(part, size, whole_segments=whole)]


def make_split(ranges: Iterable[PartitionRange], options: SourceOptions, decode: ReadOptions | None = None) -> Split:
    """Build a split of a read."""
    return Split(
        tuple(ranges),
        ReadOptions(**decode_arguments(options.read)) if decode is None else decode,
        decode_ahead=options.decode_ahead,
        fail_on_data_loss=options.fail_on_data_loss,
    )


def _divided(ranges: list[PartitionRange], most: int, ends: dict[str, PartitionBounds]) -> list[PartitionRange]:
    """Divide ranges evenly until none spans more offsets (``KafkaOffsetRangeCalculator.getDividedPartition``)."""
    from kafkalog import _core

    parts: list[PartitionRange] = []
    for each in ranges:
        start = each.start_offset
        end = ends[each.folder].end if each.end_offset is None else each.end_offset
        count = max(end - start, 1)
        number = -(-count // most)
        borders = [start + count * n // number for n in range(1, number)]
        parts += _core.divide(each, borders)
    return parts


def plan(spark: SparkSession, path: Any = None, **options: Any) -> DataFrame:
    """Plan a read and return its splits as a DataFrame: one row and one task for each.

    The bytes to read are pinned here: what a broker appends later is not read. ``mapInArrow`` with ``read_splits`` and
    ``schema`` turns the splits into rows.

    Parameters
    ----------
    spark : SparkSession
        The session.
    path : str, PathLike or list of them
        A log dir, several log dirs, partition folders or ``.log`` files, as for ``kafkalog.scan``.
    **options
        As for :func:`kafkalog.spark.read`.

    Returns
    -------
    DataFrame
        ``split int, bytes bigint, segments int, task string``.
    """
    frame, _ = plan_frame(spark, {"path": path, **options})
    return frame


def plan_frame(spark: SparkSession, given: dict[str, Any]) -> tuple[DataFrame, SourceOptions]:
    """Plan a read; return the DataFrame of its splits, and the parsed options."""
    options = parse(given)
    return splits_frame(spark, plan_splits(options, slots(spark))), options


def splits_frame(spark: SparkSession, splits: list[Split]) -> DataFrame:
    """Put splits into a DataFrame: one row and one task for each."""
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

    # The rows come from the JVM: a DataFrame of Python rows would cost every task another Python worker. Spark folds
    # each text into an array before it runs. The expressions are SQL text, because each Python expression is about ten
    # calls into the JVM; the splits are literals, because its SQL parser would take seconds for a long read.
    tasks, sizes = "\n".join(split.to_json() for split in splits), " ".join(_size(split) for split in splits)
    rows = spark.range(0, len(splits), 1, max(len(splits), 1))
    return rows.select("id", F.lit(tasks).alias("tasks"), F.lit(sizes).alias("sizes")).selectExpr(*_COLUMNS)


def _size(split: Split) -> str:
    return f"{split.bytes},{split.segments}"


def slots(spark: SparkSession) -> int:
    """Return the number of tasks that a session runs at the same time."""
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        # A client of Spark Connect has no context.
        return os.cpu_count() or 1
