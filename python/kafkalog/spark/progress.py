"""How far a stream goes with each batch: offsets by partition, as Spark's Kafka source counts them.

An offset is the next one to be read, in a batch's start as in its end, and is written ``{"topic": {"0": 123}}``.

Source: ``KafkaMicroBatchStream`` (``rateLimit``, ``delayBatch``) and ``KafkaOffsetReaderBase`` of Spark 4.3.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.spark.loss import report
from kafkalog.spark.options import EARLIEST, LATEST
from kafkalog.spark.ranges import listed, selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog._core import _Range
    from kafkalog.spark.options import ReadOptions

    Partition = tuple[str, int]
    Progress = dict[Partition, int]

__all__ = [
    "at_latest",
    "available",
    "began",
    "delayed",
    "from_json",
    "initial",
    "plan_batch",
    "rate_limited",
    "to_json",
    "verify_there",
]

# A partition whose end lies below its start is looked at again: a broker may be exchanging files.
_LOOKS, _PAUSE_SECONDS = 3, 0.1


def to_json(progress: Mapping[Partition, int]) -> dict[str, dict[str, int]]:
    """Write offsets as Spark keeps them in the checkpoint."""
    found: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(progress):
        found.setdefault(topic, {})[str(partition)] = progress[topic, partition]
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Progress:
    """Read what ``to_json`` wrote."""
    return {(topic, int(partition)): int(n) for topic, by in offsets.items() for partition, n in by.items()}


def _bounds(options: ReadOptions, **given: Any) -> dict[Partition, tuple[str, int, int]]:
    from kafkalog import _core

    found = _core.bounds(
        list(options.paths),
        ending_offsets=options.ending.offsets,  # type: ignore[arg-type]
        isolation_level=options.isolation,
        **{**selection(options), **given},
    )
    return {(topic, partition): (folder, start, end) for folder, topic, partition, start, end in found}


def initial(options: ReadOptions) -> Progress:
    """Resolve where a new query starts.

    Raises
    ------
    ValueError
        When offsets or timestamps by partition do not name exactly the partitions there are, or no record of a
        partition is at or after its starting timestamp.
    """
    bounds, starting = _bounds(options), options.starting
    if starting.named is not None:
        named = {(topic, partition) for topic, by in starting.named.items() for partition in by}
        option = "startingOffsets" if starting.by_timestamp is None else "startingOffsetsByTimestamp"
        if missing := sorted(bounds.keys() - named):
            raise ValueError(f"option {option}: all partitions must be named; missing: {listed(missing)}")
        if extra := sorted(named - bounds.keys()):
            raise ValueError(f"option {option}: names partitions that are not there: {listed(extra)}")
    found = {}
    for (topic, partition), (folder, first, last) in bounds.items():
        if starting.timestamp is not None or starting.by_timestamp is not None:
            by = starting.by_timestamp or {}
            timestamp = starting.timestamp if starting.timestamp is not None else by[topic][partition]
            found[topic, partition] = _at(options, folder, f"{topic}-{partition}", timestamp, last)
            continue
        offset = {"earliest": EARLIEST, "latest": LATEST}.get(str(starting.offsets))
        if isinstance(starting.offsets, dict):
            offset = starting.offsets[topic][partition]
        found[topic, partition] = {EARLIEST: first, LATEST: last}.get(offset, offset)  # type: ignore[arg-type,assignment]
    return found


def _given(options: ReadOptions, place: Partition) -> int | None:
    """Give the number that stands for a partition's start, if it is one."""
    starting = options.starting
    if starting.timestamp is not None or starting.by_timestamp is not None:
        return None
    if isinstance(starting.offsets, dict):
        return starting.offsets.get(place[0], {}).get(place[1])
    return {"earliest": EARLIEST, "latest": LATEST}.get(starting.offsets)


def at_latest(options: ReadOptions, start: Progress) -> Progress:
    """Choose the partitions that a new query starts at their end: nothing of them is in its first batch."""
    return {place: offset for place, offset in start.items() if _given(options, place) == LATEST}


def began(options: ReadOptions, start: Progress, end: Progress) -> Progress:
    """Settle where a query began whose first batch is done again: partitions have come and ends have moved since."""
    found = {place: offset for place, offset in start.items() if place in end}
    for place, offset in found.items():
        given = _given(options, place)
        if given is None or given < 0:
            found[place] = min(offset, end[place])
    return found


def _at(options: ReadOptions, folder: str, name: str, timestamp: int, last: int) -> int:
    from kafkalog import _core

    found = _core.PartitionLog(folder).offset_for_timestamp(timestamp)
    # To ``read_committed`` a broker names no record at or behind the last stable offset.
    found = None if found is None or found[0] >= last else found
    if found is None and options.start_must_match:
        raise ValueError(
            f"no record of {name} has timestamp {timestamp} or a later one; "
            "startingOffsetsByTimestampStrategy=latest starts such a partition at its end"
        )
    return last if found is None else found[0]


def available(options: ReadOptions, start: Progress) -> Progress:
    """Look how far there is something to read."""
    latest: Progress = {}
    for look in range(_LOOKS):
        # What is gone is told when a batch is planned, with the offset it is gone from.
        bounds = _bounds(options, allow_missing=True)
        latest = {place: end for place, (_, _, end) in bounds.items()}
        if not any(latest.get(place, offset) < offset for place, offset in start.items()):
            break
        if look + 1 < _LOOKS:
            time.sleep(_PAUSE_SECONDS)
    return latest


def rate_limited(limit: int, start: Progress, latest: Progress, options: ReadOptions) -> Progress:
    """Share the most offsets of a batch between partitions, in proportion to what there is in each."""
    new = _earliest(options, latest.keys() - start.keys())
    begins = {**new, **start}
    sizes = {place: end - begins[place] for place, end in latest.items() if place in begins and end > begins[place]}
    total = sum(sizes.values())
    found = dict(latest)
    for place, size in sizes.items():
        share = limit * (size / total)
        # Small partitions are not starved.
        found[place] = min(latest[place], begins[place] + (math.ceil(share) if share < 1 else math.floor(share)))
    return found


def delayed(least: int, start: Progress, latest: Progress) -> bool:
    """Tell whether there are fewer new offsets than a batch should have."""
    return sum(end - start.get(place, 0) for place, end in latest.items()) < least


def _earliest(options: ReadOptions, places: Any) -> Progress:
    if not places:
        return {}
    return {place: first for place, (_, first, _) in _bounds(options, allow_missing=True).items() if place in places}


def verify_there(options: ReadOptions, end: Progress) -> None:
    """Refuse to go on with ``Trigger.AvailableNow`` where something went away that it was to end with.

    Source: ``KafkaMicroBatchStream.verifyEndOffsetForTriggerAvailableNow``, which no option allows either.

    Raises
    ------
    OffsetOutOfRangeError
        When a partition is gone or ends before the batch.
    """
    latest = available(options, end)
    if lost := sorted(place for place, offset in end.items() if latest.get(place, -1) < offset):
        raise OffsetOutOfRangeError(
            f"partitions were lost while Trigger.AvailableNow was to read all that was there: {listed(lost)}; "
            "another run begins with what there is then"
        )


def plan_batch(options: ReadOptions, start: Progress, end: Progress) -> list[_Range]:
    """Find the ranges between two offsets, the same ones at every attempt.

    Raises
    ------
    OffsetOutOfRangeError
        When some of it is gone, unless data loss is allowed.
    """
    fail = options.fail_on_data_loss
    if gone := sorted(start.keys() - end.keys()):
        report(f"partitions are gone: {listed(gone)}", fail=fail)
    begins = {place: start.get(place, 0) for place in end}
    for (topic, partition), offset in begins.items():
        if end[topic, partition] < offset:
            report(
                f"{topic}-{partition} was read up to offset {offset}, but now ends at {end[topic, partition]}: "
                "a start beyond its end, or a partition that was deleted and made anew",
                fail=fail,
                offset=end[topic, partition],
            )
    wanted = sorted(place for place in end if begins[place] < end[place])
    return _planned(options, wanted, begins, end) if wanted else []


def _planned(options: ReadOptions, wanted: list[Partition], begins: Progress, end: Progress) -> list[_Range]:
    from kafkalog import _core

    fail = options.fail_on_data_loss
    assigned: dict[str, list[int]] = {}
    for topic, partition in wanted:
        assigned.setdefault(topic, []).append(partition)
    chosen: dict[str, Any] = {"topics": list(assigned), "partitions": assigned, "allow_missing": True}

    def by_partition(progress: Progress) -> dict[str, dict[int, int]]:
        return {topic: {each: progress[topic, each] for each in numbers} for topic, numbers in assigned.items()}

    paths = list(options.paths)
    ranges = _core.plan(
        paths,
        starting_offsets=by_partition(begins),
        ending_offsets=by_partition(end),
        isolation_level=options.isolation,
        **chosen,
    )
    if gone := sorted(set(wanted) - {(topic, partition) for _, topic, partition, *_ in ranges}):
        report(f"partitions are gone: {listed(gone)}", fail=fail)
    ends = {folder: last for folder, _, _, _, last in _core.bounds(paths, **chosen)}
    for folder, topic, partition, first, *_ in ranges:
        begin, behind = begins[topic, partition], end[topic, partition]
        if first > begin:
            text = f"{topic}-{partition} is to be read from offset {begin} on, but its log starts at {first}"
            report(text, fail=fail, path=folder, offset=begin)
        if ends.get(folder, behind) < behind:
            text = f"{topic}-{partition} is to be read up to offset {behind}, but its log ends at {ends[folder]}"
            report(text, fail=fail, path=folder, offset=ends[folder])
    return ranges
