"""Offsets of a stream's batches: by partition, as Spark's Kafka source counts them.

An offset is the next one to read, both at the start and at the end of a batch; its JSON is ``{"topic": {"0": 123}}``.

Source: ``KafkaMicroBatchStream`` (``rateLimit``, ``delayBatch``) and ``KafkaOffsetReaderBase`` of Spark 4.3.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.log import PartitionOpener
from kafkalog.spark.offset_ranges import check_names, no_record
from kafkalog.spark.source_options import EARLIEST, LATEST
from kafkalog.spark.topics import PartitionBounds, TopicPartition, format_partitions, partition_bounds, report_data_loss

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalog._core import PartitionRange
    from kafkalog.spark.source_options import SourceOptions

    StreamOffsets = dict[TopicPartition, int]

# A partition that ends below its start is listed again: a broker may be swapping files.
_ATTEMPTS, _PAUSE_SECONDS = 3, 0.1


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark keeps them in the checkpoint."""
    found: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> StreamOffsets:
    """Restore what :func:`to_json` returned."""
    return {TopicPartition(topic, int(number)): int(n) for topic, by in offsets.items() for number, n in by.items()}


def _bounds(options: SourceOptions, **given: Any) -> dict[TopicPartition, PartitionBounds]:
    found = partition_bounds(options, ending_offsets=options.ending.offsets, **given)
    return {TopicPartition(each.topic, each.partition): each for each in found}


def initial(options: SourceOptions) -> StreamOffsets:
    """Resolve where a new query starts."""
    bounds, starting = _bounds(options), options.starting
    check_names("starting", starting, {*bounds})
    found, opener = {}, PartitionOpener()
    for place, each in bounds.items():
        if starting.is_by_time:
            found[place] = _offset_at(options, each, opener, starting.time(*place))
        else:
            offset = _given_offset(options, place)
            found[place] = {EARLIEST: each.start, LATEST: each.end}.get(offset, offset)  # type: ignore[arg-type,assignment]
    return found


def _given_offset(options: SourceOptions, place: TopicPartition) -> int | None:
    """Return the offset at which the options start a partition, unless it is a time; -2 and -1 are the log's ends."""
    starting = options.starting
    if starting.is_by_time:
        return None
    if isinstance(starting.offsets, dict):
        return starting.offset(*place)
    return {"earliest": EARLIEST, "latest": LATEST}.get(starting.offsets)


def at_latest(options: SourceOptions, start: StreamOffsets) -> StreamOffsets:
    """Select the partitions that a new query starts at their end: its first batch has nothing of them."""
    return {place: offset for place, offset in start.items() if _given_offset(options, place) == LATEST}


def restarted(options: SourceOptions, start: StreamOffsets, end: StreamOffsets) -> StreamOffsets:
    """Resolve where a query started whose first batch runs again: partitions were added and ends have moved since."""
    found = {place: offset for place, offset in start.items() if place in end}
    for place, offset in found.items():
        given = _given_offset(options, place)
        if given is None or given < 0:
            found[place] = min(offset, end[place])
    return found


def _offset_at(options: SourceOptions, bounds: PartitionBounds, opener: PartitionOpener, timestamp: int) -> int:
    found = opener.open(bounds.folder).offset_for_timestamp(timestamp)
    # Under ``read_committed`` a broker finds no record at or above the last stable offset.
    found = None if found is None or found.offset >= bounds.end else found
    if found is None and options.start_must_match:
        raise no_record(bounds.topic, bounds.partition, timestamp)
    return bounds.end if found is None else found.offset


def available(options: SourceOptions, start: StreamOffsets) -> StreamOffsets:
    """Look up the end of every partition."""
    latest: StreamOffsets = {}
    for attempt in range(_ATTEMPTS):
        # Missing partitions are reported when a batch is planned, with the offset from which they are missing.
        bounds = _bounds(options, allow_missing=True)
        latest = {place: each.end for place, each in bounds.items()}
        if not any(latest.get(place, offset) < offset for place, offset in start.items()):
            break
        if attempt + 1 < _ATTEMPTS:
            time.sleep(_PAUSE_SECONDS)
    return latest


def rate_limited(limit: int, start: StreamOffsets, latest: StreamOffsets, options: SourceOptions) -> StreamOffsets:
    """Divide the most offsets of a batch between partitions, in proportion to their backlog."""
    begins = {**_earliest(options, latest.keys() - start.keys()), **start}
    sizes = {place: end - begins[place] for place, end in latest.items() if place in begins and end > begins[place]}
    total = sum(sizes.values())
    found = dict(latest)
    for place, size in sizes.items():
        share = limit * (size / total)
        # No partition starves: a share below one is rounded up.
        found[place] = min(latest[place], begins[place] + (math.ceil(share) if share < 1 else math.floor(share)))
    return found


def is_delayed(least: int, start: StreamOffsets, latest: StreamOffsets) -> bool:
    """Tell whether there are fewer new offsets than a batch should have."""
    return sum(end - start.get(place, 0) for place, end in latest.items()) < least


def _earliest(options: SourceOptions, places: Collection[TopicPartition]) -> StreamOffsets:
    if not places:
        return {}
    return {place: each.start for place, each in _bounds(options, allow_missing=True).items() if place in places}


def verify_available(options: SourceOptions, end: StreamOffsets) -> None:
    """Stop a query with ``Trigger.AvailableNow`` if it cannot reach the end that it set out to reach.

    Source: ``KafkaMicroBatchStream.verifyEndOffsetForTriggerAvailableNow``, which has no option against it either.
    """
    latest = available(options, end)
    if lost := sorted(place for place, offset in end.items() if latest.get(place, -1) < offset):
        raise OffsetOutOfRangeError(
            f"partitions lost records while Trigger.AvailableNow was reading them: {format_partitions(lost)}; run the "
            "query again to read what remains"
        )


def plan_batch(options: SourceOptions, start: StreamOffsets, end: StreamOffsets) -> list[PartitionRange]:
    """Plan the ranges between two offsets, the same ones at every attempt."""
    fail = options.fail_on_data_loss
    if gone := sorted(start.keys() - end.keys()):
        report_data_loss(f"partitions are gone: {format_partitions(gone)}", fail=fail)
    begins = {place: start.get(place, 0) for place in end}
    for place, offset in begins.items():
        if end[place] < offset:
            report_data_loss(
                f"{place} was read up to offset {offset}, but now ends at {end[place]}: either the start was beyond "
                "the log end, or the partition was deleted and re-created",
                fail=fail,
                offset=end[place],
            )
    wanted = sorted(place for place in end if begins[place] < end[place])
    return _plan(options, wanted, begins, end) if wanted else []


def _plan(
    options: SourceOptions, wanted: list[TopicPartition], begins: StreamOffsets, end: StreamOffsets
) -> list[PartitionRange]:
    from kafkalog import _core

    fail = options.fail_on_data_loss
    assigned: dict[str, list[int]] = {}
    for topic, partition in wanted:
        assigned.setdefault(topic, []).append(partition)
    chosen: dict[str, Any] = {"topics": list(assigned), "partitions": assigned, "allow_missing": True}

    def by_partition(offsets: StreamOffsets) -> dict[str, dict[int, int]]:
        return {
            topic: {number: offsets[TopicPartition(topic, number)] for number in numbers}
            for topic, numbers in assigned.items()
        }

    paths = list(options.paths)
    ranges = _core.plan(
        paths,
        starting_offsets=by_partition(begins),
        ending_offsets=by_partition(end),
        isolation_level=options.read.isolation_level,
        **chosen,
    )
    if gone := sorted(set(wanted) - {(each.topic, each.partition) for each in ranges}):
        report_data_loss(f"partitions are gone: {format_partitions(gone)}", fail=fail)
    bounds = [PartitionBounds(*each) for each in _core.bounds(paths, **chosen)]
    ends = {each.folder: each.end for each in bounds}
    for each in ranges:
        place = TopicPartition(each.topic, each.partition)
        if each.start_offset > begins[place]:
            text = f"{place} must be read from offset {begins[place]}, but its log starts at {each.start_offset}"
            report_data_loss(text, fail=fail, path=each.folder, offset=begins[place])
        if ends.get(each.folder, end[place]) < end[place]:
            text = f"{place} must be read up to offset {end[place]}, but its log ends at {ends[each.folder]}"
            report_data_loss(text, fail=fail, path=each.folder, offset=ends[each.folder])
    return ranges
