"""From options to splits, on the driver: the only place where Spark reading looks at a directory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kafkalog.spark.options import Bound, ReadOptions, parse
from kafkalog.spark.split import ScanOptions, Split, cut, default_split_bytes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkalog._core import _Range

__all__ = ["frame_of", "plan", "plan_frame", "plan_splits", "slots"]


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
    ValueError
        When offsets or timestamps by partition do not name exactly the partitions to be read, or when no record of a
        partition is at or after its starting timestamp.
    """
    ranges = _ranges(options)
    total = sum(segment[2] - segment[4] for each in ranges for segment in each[5])
    scan = ScanOptions(
        columns=options.columns,
        check_crcs=options.check_crcs,
        include_control=options.include_control,
        batch_rows=options.batch_rows,
        batch_bytes=options.batch_bytes,
        decode_ahead=options.decode_ahead,
    )
    return [Split(share, scan) for share in cut(ranges, options.split_bytes or default_split_bytes(total, slots))]


def _ranges(options: ReadOptions) -> list[_Range]:
    from kafkalog import _core

    def planned(**bounds: Any) -> list[_Range]:
        return _core.plan(
            list(options.paths),
            topics=list(options.assign or options.topics or ()) or None,
            topic_pattern=options.topic_pattern,
            partitions=options.assign,
            include_inactive=options.include_inactive,
            **bounds,
        )

    starting, ending = options.starting, options.ending
    if starting.named is not None or ending.named is not None:
        assigned = planned()
        _check_names("starting", starting, assigned)
        _check_names("ending", ending, assigned)
    ranges = planned(**_arguments("starting", starting), **_arguments("ending", ending))
    if options.start_must_match:
        _check_start(starting, planned, ranges)
    return ranges


def _arguments(end: str, bound: Bound) -> dict[str, Any]:
    if bound.timestamp is not None:
        return {f"{end}_timestamp": bound.timestamp}
    if bound.by_timestamp is not None:
        return {f"{end}_timestamp": bound.by_timestamp}
    return {f"{end}_offsets": bound.offsets}


def _check_names(end: str, bound: Bound, assigned: list[_Range]) -> None:
    """Hold the user to Spark's rule: offsets by partition name all partitions that are read, and no other."""
    if bound.named is None:
        return
    named = {(topic, partition) for topic, partitions in bound.named.items() for partition in partitions}
    there = {(topic, partition) for _, topic, partition, *_ in assigned}
    option = f"{end}OffsetsByTimestamp" if bound.by_timestamp is not None else f"{end}Offsets"
    if missing := sorted(there - named):
        raise ValueError(f"option {option}: all partitions must be named; missing: {_listed(missing)}")
    if extra := sorted(named - there):
        raise ValueError(f"option {option}: names partitions that are not read: {_listed(extra)}")


def _check_start(bound: Bound, planned: Any, ranges: list[_Range]) -> None:
    """Refuse a starting timestamp that no record of a partition reaches, as Spark's strategy ``error`` does."""
    if bound.timestamp is None and bound.by_timestamp is None:
        return
    from kafkalog import _core

    with_rows = {each[0] for each in ranges if each[5]}
    for folder, topic, partition, *_ in planned():
        timestamp = bound.timestamp if bound.timestamp is not None else (bound.by_timestamp or {})[topic][partition]
        if folder in with_rows:
            continue
        if _core.PartitionLog(folder).offset_for_timestamp(timestamp) is None:
            raise ValueError(
                f"no record of {topic}-{partition} has timestamp {timestamp} or a later one; "
                "startingOffsetsByTimestampStrategy=latest starts such a partition at its end"
            )


def _listed(partitions: list[tuple[str, int]], most: int = 10) -> str:
    names = [f"{topic}-{partition}" for topic, partition in partitions[:most]]
    return ", ".join(names) + (f" and {len(partitions) - most} more" if len(partitions) > most else "")


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
    # folds the one literal into an array before it runs.
    tasks = F.split(F.lit("\n".join(split.to_json() for split in splits)), "\n")
    sizes = F.split(F.lit(" ".join(f"{split.bytes},{split.segments}" for split in splits)), " ")
    number = F.col("id").cast("int")
    size = F.split(F.get(sizes, number), ",")
    return spark.range(0, len(splits), 1, max(len(splits), 1)).select(
        number.alias("split"),
        size[0].cast("bigint").alias("bytes"),
        size[1].cast("int").alias("segments"),
        F.get(tasks, number).alias("task"),
    )


def slots(spark: SparkSession) -> int:
    """Tasks that the session runs at the same time."""
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except (AttributeError, NotImplementedError, PySparkException):
        # A client of Spark Connect has no context.
        return os.cpu_count() or 1
