"""From options to ranges of offsets, with the checks that Spark's Kafka source makes of its bounds.

| bound | Spark | here |
|---|---|---|
| names other partitions than are read | error | error |
| a start above the end, as given or as found | error | error |
| a start beyond the log end, read up to there | error | error, or data loss that is allowed |
| a start below the log start, an end beyond the log end | data loss, found by a task | data loss, found at planning |
| an end beyond the committed records | waits, then an error | data loss |
| an end below the log start, read from there | error | data loss |
| a partition of ``assign`` that does not exist | no rows | data loss |
| a topic that does not exist | error | error, or data loss that is allowed |

Source: ``KafkaOffsetReaderAdmin``, ``KafkaSourceRDD``, ``KafkaDataConsumer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog.log import PartitionOpener
from kafkalog.spark.predicates import timestamp_bounds
from kafkalog.spark.topics import (
    format_partitions,
    partition_arguments,
    partition_bounds,
    report_data_loss,
    report_missing,
)

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from kafkalog._core import PartitionRange
    from kafkalog.spark.source_options import Bound, SourceOptions
    from kafkalog.spark.topics import PartitionBounds


def plan_ranges(options: SourceOptions) -> list[PartitionRange]:
    """List the log dirs and fix the ranges to read."""
    from kafkalog import _core

    starting, ending = options.starting, options.ending
    earliest, latest = timestamp_bounds(options.predicates)
    bounds = {
        "isolation_level": options.read.isolation_level,
        "min_timestamp": earliest,
        "max_timestamp": latest,
        **_arguments("starting", starting),
        **_arguments("ending", ending),
    }
    ranges = _core.plan(
        list(options.paths), **partition_arguments(options), **bounds, on_corrupt=options.read.on_corrupt
    )
    if not options.fail_on_data_loss:
        report_missing(options, ((each.topic, each.partition) for each in ranges))
    read = {(each.topic, each.partition) for each in ranges}
    check_names("starting", starting, read)
    check_names("ending", ending, read)
    if options.start_must_match:
        _check_start(options, ranges)
    _check_order(starting, ending, ranges)
    _check_loss(options, ranges)
    return ranges


def _arguments(end: str, bound: Bound) -> dict[str, Any]:
    if bound.timestamp is not None:
        return {f"{end}_timestamp": bound.timestamp}
    if bound.by_timestamp is not None:
        return {f"{end}_timestamp": bound.by_timestamp}
    return {f"{end}_offsets": bound.offsets}


def check_names(end: str, bound: Bound, read: AbstractSet[tuple[str, int]]) -> None:
    """Check Spark's rule: offsets by partition name all partitions that are read, and no other."""
    if bound.named is None:
        return
    named = {(topic, partition) for topic, partitions in bound.named.items() for partition in partitions}
    option = f"{end}OffsetsByTimestamp" if bound.by_timestamp is not None else f"{end}Offsets"
    if missing := sorted(read - named):
        raise ValueError(f"option {option} must name every partition that is read; add {format_partitions(missing)}")
    if extra := sorted(named - read):
        raise ValueError(f"option {option} names partitions that are not read; remove {format_partitions(extra)}")


def _check_start(options: SourceOptions, ranges: list[PartitionRange]) -> None:
    """Refuse a starting timestamp that no record of a partition reaches, as Spark's strategy ``error`` does.

    Under ``read_committed`` a broker finds no record at or above the last stable offset.
    """
    if not options.starting.is_by_time:
        return
    ends: dict[str, PartitionBounds] = {}
    opener = PartitionOpener()
    for each in ranges:
        if each.segment_count:
            continue
        timestamp = options.starting.time(each.topic, each.partition)
        found = opener.open(each.folder).offset_for_timestamp(timestamp)
        if found is not None and options.read.isolation_level == "read_committed":
            ends = ends or folder_bounds(options)
            found = found if found.offset < ends[each.folder].end else None
        if found is None:
            raise no_record(each.topic, each.partition, timestamp)


def no_record(topic: str, partition: int, timestamp: int) -> ValueError:
    """Return the error about a start that no record of a partition reaches."""
    return ValueError(
        f"no record of {topic}-{partition} has a timestamp of {timestamp} or later; set "
        "startingOffsetsByTimestampStrategy=latest to start such a partition at its end"
    )


def _given_offset(bound: Bound, each: PartitionRange) -> int | None:
    """Return the offset that the user gave for a partition, unless it means an end of the log."""
    offset = bound.offset(each.topic, each.partition)
    return offset if offset is not None and offset >= 0 else None


def _check_order(starting: Bound, ending: Bound, ranges: list[PartitionRange]) -> None:
    if isinstance(ending.offsets, str) and not ending.is_by_time:
        return
    for each in ranges:
        first = each.start_offset if starting.is_by_time else _given_offset(starting, each)
        if first is not None and each.end_offset is not None and first > each.end_offset:
            raise ValueError(
                f"{each.topic}-{each.partition} starts at offset {first}, which is above its end {each.end_offset}"
            )


def _check_loss(options: SourceOptions, ranges: list[PartitionRange]) -> None:
    """Find requested offsets that lie outside of the log, or beyond its committed records."""
    ends: dict[str, PartitionBounds] = {}
    fail = options.fail_on_data_loss
    ends_at = (
        "its log ends at" if options.read.isolation_level == "read_uncommitted" else "its committed records end at"
    )
    for each in ranges:
        name, start, end = f"{each.topic}-{each.partition}", each.start_offset, each.end_offset
        first, last = _given_offset(options.starting, each), _given_offset(options.ending, each)
        # Only the last segment can end before a start.
        is_late = first is not None and first > 0 and (end is None or first > end) and each.segment_count <= 1
        # A start that was found by time and exceeds the end is another error (_check_order).
        if first is None and last is not None and last < start:
            text = f"{name} was requested up to offset {last}, but its log starts at {start}"
            report_data_loss(text, fail=fail, path=each.folder, offset=last)
        if is_late or (last is not None and last > start):
            ends = ends or folder_bounds(options)
        if is_late and first is not None and first > ends[each.folder].end:
            text = f"{name} starts at offset {first}, which is above its end {ends[each.folder].end}"
            if fail:
                raise ValueError(text)
            report_data_loss(text, fail=False)
        if first is not None and first < start and (end is None or first < end):
            text = f"{name} was requested from offset {first}, but its log starts at {start}"
            report_data_loss(text, fail=fail, path=each.folder, offset=first)
        if last is not None and last > start and last > ends[each.folder].end:
            text = f"{name} was requested up to offset {last}, but {ends_at} {ends[each.folder].end}"
            report_data_loss(text, fail=fail, path=each.folder, offset=ends[each.folder].end)


def folder_bounds(options: SourceOptions) -> dict[str, PartitionBounds]:
    """Look up the offsets of every selected partition, by folder."""
    return {each.folder: each for each in partition_bounds(options, oldest=options.starting.offsets == "oldest")}
