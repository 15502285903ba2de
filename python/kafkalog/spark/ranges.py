"""From options to ranges of partitions: the checks that Spark's Kafka source makes of its bounds.

| bound | Spark | here |
|---|---|---|
| names other partitions than are read | error | error |
| a start above the end, as given or as found | error | error |
| a start beyond the log end, read up to there | error | error, or data loss that is allowed |
| a start below the log start, an end beyond the log end | data loss, found by a task | data loss, found at planning |
| an end beyond what is committed | waits, then an error | data loss |
| an end below the log start, read from there | error | data loss |
| a partition of ``assign`` that is not there | no rows | data loss |
| a topic that is not there | error | error, or data loss that is allowed |

Source: ``KafkaOffsetReaderAdmin``, ``KafkaSourceRDD``, ``KafkaDataConsumer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog.spark.loss import report
from kafkalog.spark.pattern import matching
from kafkalog.spark.where import times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog._core import _Range
    from kafkalog.spark.options import Bound, Isolation, ReadOptions

# A pattern that no topic has.
_NOTHING = "[^\\s\\S]"

__all__ = ["folder_bounds", "listed", "plan_ranges", "report_missing", "selection"]


def selection(options: ReadOptions) -> dict[str, Any]:
    """Give the arguments of the core that choose partitions."""
    topics, pattern = list(options.assign or options.topics or ()), options.topic_pattern
    if options.java_pattern is not None:
        topics = matching(options.java_pattern, list(options.paths), include_inactive=options.include_inactive)
        pattern = None if topics else _NOTHING
    return {
        "topics": topics or None,
        "topic_pattern": pattern,
        "partitions": options.assign,
        "include_inactive": options.include_inactive,
        "allow_missing": not options.fail_on_data_loss,
    }


def plan_ranges(options: ReadOptions) -> list[_Range]:
    """Look at the directories and settle what is to be read.

    Parameters
    ----------
    options : ReadOptions
        What is asked for.

    Returns
    -------
    list of range
        One for each partition, by topic and partition; without segments where nothing is to be read.

    Raises
    ------
    ValueError
        When offsets or timestamps by partition do not name exactly the partitions to be read, when a start lies above
        its end, or when no record of a partition is at or after its starting timestamp.
    OffsetOutOfRangeError
        When offsets are asked for that are not in the log, unless data loss is allowed.
    """
    from kafkalog import _core

    starting, ending = options.starting, options.ending
    earliest, latest = times(options.where)
    bounds = {
        "isolation_level": options.isolation,
        "min_timestamp": earliest,
        "max_timestamp": latest,
        **_arguments("starting", starting),
        **_arguments("ending", ending),
    }
    ranges = _core.plan(list(options.paths), **selection(options), **bounds)
    if not options.fail_on_data_loss:
        report_missing(options, ((topic, partition) for _, topic, partition, *_ in ranges))
    _check_names("starting", starting, ranges)
    _check_names("ending", ending, ranges)
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


def report_missing(options: ReadOptions, places: Iterable[tuple[str, int]]) -> None:
    """Tell which topics and partitions the options name that are not among these.

    Raises
    ------
    OffsetOutOfRangeError
        When there are some, unless data loss is allowed.
    """
    there = set(places)
    topics = {topic for topic, _ in there}
    missing = [topic for topic in options.topics or () if topic not in topics]
    for topic, partitions in (options.assign or {}).items():
        missing += [f"{topic}-{partition}" for partition in partitions if (topic, partition) not in there]
    if missing:
        report(f"not there: {', '.join(missing[:10])}", fail=options.fail_on_data_loss)


def _check_names(end: str, bound: Bound, ranges: list[_Range]) -> None:
    """Hold the user to Spark's rule: offsets by partition name all partitions that are read, and no other."""
    if bound.named is None:
        return
    named = {(topic, partition) for topic, partitions in bound.named.items() for partition in partitions}
    there = {(topic, partition) for _, topic, partition, *_ in ranges}
    option = f"{end}OffsetsByTimestamp" if bound.by_timestamp is not None else f"{end}Offsets"
    if missing := sorted(there - named):
        raise ValueError(f"option {option}: all partitions must be named; missing: {listed(missing)}")
    if extra := sorted(named - there):
        raise ValueError(f"option {option}: names partitions that are not read: {listed(extra)}")


def _check_start(options: ReadOptions, ranges: list[_Range]) -> None:
    """Refuse a starting timestamp that no record of a partition reaches, as Spark's strategy ``error`` does.

    To ``read_committed`` a broker names no record at or behind the last stable offset.
    """
    bound = options.starting
    if bound.timestamp is None and bound.by_timestamp is None:
        return
    from kafkalog import _core

    ends: dict[str, tuple[int, int]] = {}
    for folder, topic, partition, _, _, segments, *_ in ranges:
        if segments:
            continue
        timestamp = bound.timestamp if bound.timestamp is not None else (bound.by_timestamp or {})[topic][partition]
        found = _core.PartitionLog(folder).offset_for_timestamp(timestamp)
        if found is not None and options.isolation == "read_committed":
            ends = ends or folder_bounds(options, options.isolation)
            found = found if found[0] < ends[folder][1] else None
        if found is None:
            raise ValueError(
                f"no record of {topic}-{partition} has timestamp {timestamp} or a later one; "
                "startingOffsetsByTimestampStrategy=latest starts such a partition at its end"
            )


def _given(bound: Bound, topic: str, partition: int) -> int | None:
    """Give the offset that the user names for a partition, if it is one and not the word for an end."""
    if bound.timestamp is None and bound.by_timestamp is None and isinstance(bound.offsets, dict):
        offset = bound.offsets[topic][partition]
        return offset if offset >= 0 else None
    return None


def _check_order(starting: Bound, ending: Bound, ranges: list[_Range]) -> None:
    by_time = starting.timestamp is not None or starting.by_timestamp is not None
    if isinstance(ending.offsets, str) and ending.timestamp is None and ending.by_timestamp is None:
        return
    for _, topic, partition, start, end, *_ in ranges:
        first = start if by_time else _given(starting, topic, partition)
        if first is not None and end is not None and first > end:
            raise ValueError(f"{topic}-{partition} starts at offset {first}, which is above its end {end}")


def _check_loss(options: ReadOptions, ranges: list[_Range]) -> None:
    """Find what is asked for by offset and lies outside of the log, or behind what is committed of it."""
    ends: dict[str, tuple[int, int]] = {}
    log = "its log" if options.isolation == "read_uncommitted" else "what is committed of it"
    for folder, topic, partition, start, end, segments, *_ in ranges:
        first, last = _given(options.starting, topic, partition), _given(options.ending, topic, partition)
        # Only the last segment can end before a start.
        is_late = first is not None and first > 0 and (end is None or first > end) and len(segments) <= 1
        # A start that is found by its time and lies above the end is an error of another kind.
        if first is None and last is not None and last < start:
            text = f"{topic}-{partition} is asked for up to offset {last}, but its log starts at {start}"
            report(text, fail=options.fail_on_data_loss, path=folder, offset=last)
        if is_late or (last is not None and last > start):
            ends = ends or folder_bounds(options, options.isolation)
        if is_late and first is not None and first > ends[folder][1]:
            text = f"{topic}-{partition} starts at offset {first}, which is above its end {ends[folder][1]}"
            if options.fail_on_data_loss:
                raise ValueError(text)
            report(text, fail=False)
        if first is not None and first < start and (end is None or first < end):
            text = f"{topic}-{partition} is asked for from offset {first} on, but its log starts at {start}"
            report(text, fail=options.fail_on_data_loss, path=folder, offset=first)
        if last is not None and last > start and last > ends[folder][1]:
            text = f"{topic}-{partition} is asked for up to offset {last}, but {log} ends at {ends[folder][1]}"
            report(text, fail=options.fail_on_data_loss, path=folder, offset=ends[folder][1])


def folder_bounds(options: ReadOptions, isolation: Isolation) -> dict[str, tuple[int, int]]:
    """Give first and last offset by partition folder; headers of the active segments are read for it."""
    from kafkalog import _core

    found = _core.bounds(list(options.paths), isolation_level=isolation, **selection(options))
    return {folder: (start, end) for folder, _, _, start, end in found}


def listed(partitions: list[tuple[str, int]], most: int = 10) -> str:
    """Write names of partitions for a message."""
    names = [f"{topic}-{partition}" for topic, partition in partitions[:most]]
    return ", ".join(names) + (f" and {len(partitions) - most} more" if len(partitions) > most else "")
