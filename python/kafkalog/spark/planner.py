"""From options to splits, on the driver: the only place where a Spark read lists directories."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalog._splitting import default_split_bytes, split_ranges
from kafkalog.options import ReadOptions, decode_arguments
from kafkalog.spark.interpreter import check_interpreter
from kafkalog.spark.map_in_arrow import describe, run_task, with_read_options
from kafkalog.spark.offset_ranges import folder_bounds, plan_ranges
from kafkalog.spark.option_names import in_spark_words, naming_as
from kafkalog.spark.predicates import narrow
from kafkalog.spark.source_options import SourceOptions, parse
from kafkalog.spark.split import PackedSplits, Split

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark import Broadcast, SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalog._core import PartitionRange
    from kafkalog.spark.map_in_arrow import Work
    from kafkalog.spark.topics import PartitionBounds

# A larger plan is broadcast: Spark passes a function to every task.
_FUNCTION_BYTES = 256 << 10
# A client of Spark Connect cannot broadcast.
_CONNECT_BYTES = 16 << 20
_DESCRIBED = "split int, bytes bigint, segments int, task string"


def plan_splits(options: SourceOptions) -> list[Split]:
    """List the log dirs and divide the ranges to read into splits."""
    return splits_of(narrow(plan_ranges(options), options.predicates), options)


def splits_of(ranges: list[PartitionRange], options: SourceOptions) -> list[Split]:
    """Divide ranges into splits."""
    ranges = [each for each in ranges if each.segment_count]
    total = sum(each.bytes for each in ranges)
    size = options.split_bytes or default_split_bytes(total)
    if options.min_partitions is not None:
        size = max(min(size, -(-total // options.min_partitions)), 1)
    if options.read.latest_per_key:
        # Finding the latest record of a key requires the whole partition.
        return [make_split([each], options) for each in ranges]
    parts = [ranges]
    if options.max_records is not None:
        ends = folder_bounds(options) if any(each.end_offset is None for each in ranges) else {}
        parts = [[part] for part in _divided(ranges, options.max_records, ends)]
    decode = ReadOptions(**decode_arguments(options.read))
    whole = options.read.on_corrupt == "skip"
    return [
        make_split(share, options, decode) for part in parts for share in split_ranges(part, size, whole_segments=whole)
    ]


def make_split(ranges: Iterable[PartitionRange], options: SourceOptions, decode: ReadOptions | None = None) -> Split:
    """Build a split of a read."""
    return Split(
        tuple(ranges),
        ReadOptions(**decode_arguments(options.read)) if decode is None else decode,
        fail_on_data_loss=options.fail_on_data_loss,
        decoding=options.decoding,
        stores=options.stores,
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


@with_read_options
def plan(spark: SparkSession, path: Any = None, **options: Any) -> DataFrame:
    """Plan a read and return its splits as a DataFrame: one row and one task for each.

    The bytes to read are pinned here: what a broker appends later is not read. ``mapInArrow`` with ``read_splits`` and
    ``schema`` turns the splits into rows.

    Parameters
    ----------
    spark, path, **options
        As for :func:`kafkalog.spark.read`.

    Returns
    -------
    DataFrame
        ``split int, bytes bigint, segments int, task string``.
    """
    check_interpreter(spark)
    splits, _ = plan_read({"path": path, **options})
    return over_splits(spark, splits, describe, _DESCRIBED)


def plan_read(given: dict[str, Any]) -> tuple[list[Split], SourceOptions]:
    """Plan a read; return its splits, and the parsed options."""
    with naming_as(given):
        options = parse(in_spark_words(given)).with_decoding()
    return plan_splits(options), options


def over_splits(spark: SparkSession, splits: list[Split], work: Work, schema: StructType | str) -> DataFrame:
    """Run a function over splits: one task for each."""
    context, packed = _context(spark), PackedSplits.pack(splits)
    plan: PackedSplits | Broadcast[PackedSplits] = packed
    if context is not None and packed.bytes > _FUNCTION_BYTES:
        plan = context.broadcast(packed)
    elif packed.bytes > _CONNECT_BYTES:
        raise ValueError(
            f"the plan of this read ({len(splits)} tasks, {sum(split.segments for split in splits)} segments) takes "
            f"{packed.bytes} bytes, and a client of Spark Connect sends at most {_CONNECT_BYTES}: set a larger "
            'splitBytes, read fewer topics at a time, or use format("kafkalog"), which plans on the server'
        )
    return spark.range(0, len(splits), 1, max(len(splits), 1)).mapInArrow(partial(run_task, work, plan), schema)


def _context(spark: SparkSession) -> SparkContext | None:
    """Return the context of a session; a client of Spark Connect has none."""
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext
    except PySparkException:
        return None
