"""``kafkalog ls``: lists topics, partitions and segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _core
from kafkalog._times import format_time
from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._selection import chosen, sources

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from kafkalog.log import PartitionFolder

_HEAD = ("topic", "partition", "state", "segment", "baseOffset", "endOffset", "bytes", "latest", "modified")
_NUMBERS = ("partition", "baseOffset", "endOffset", "bytes")


class _Described(NamedTuple):
    """The row of a partition folder."""

    topic_id: str | None
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    segments: list[tuple[Any, int]]
    """Each with the offset at which it ends."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    _tier.add_remote(parser)
    _common.add_topics(parser)
    _common.add_partitions(parser)
    _common.add_human_readable(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """List the folders; one that cannot be read is reported, and the others are listed."""
    with sources(arguments.path, arguments.topic, arguments.partition) as found:
        listed = chosen(found, arguments.topic, arguments.partition)
        partitions = listed.partitions()
        described = ((folder, _part(one, listed.segments.get(folder.path))) for folder, one in _described(partitions))
        if arguments.json:
            for folder, one in described:
                path = listed.places[folder.path] if listed.is_loose(folder) else folder.path
                _printing.json_line(_object(folder._replace(path=path), one))
            return partitions.code
        head, several = _HEAD, len(arguments.path) > 1
        rows = [
            ([listed.places[folder.path]] if several else []) + row
            for folder, one in described
            for row in _rows(folder, one, _common.sized(human=arguments.human_readable))
        ]
        _printing.table(("path", *head) if several else head, rows, right=_NUMBERS)
    return partitions.code


def _described(partitions: _common.Partitions) -> Iterator[tuple[PartitionFolder, _Described]]:
    """Describe the folders: what the core says, and where each segment ends."""
    for folder, one in partitions.ask_all(_core.describe_all):
        topic_id, log_start_offset, log_end_offset, high_watermark, segments = one
        # Each ends where the next one begins. A folder may have no segment yet.
        ends = [*(segment[0] for segment in segments[1:]), log_end_offset][: len(segments)]
        yield (
            folder,
            _Described(
                topic_id, log_start_offset, log_end_offset, high_watermark, list(zip(segments, ends, strict=True))
            ),
        )


def _part(one: _Described, names: set[str] | None) -> _Described:
    """Return the same with these segments alone."""
    if names is None:
        return one
    return one._replace(segments=[(segment, end) for segment, end in one.segments if segment[1] in names])


def _object(folder: PartitionFolder, one: _Described) -> dict[str, Any]:
    return {
        "topic": folder.topic,
        "partition": folder.partition,
        "topicId": one.topic_id,
        "state": folder.state,
        "path": folder.path,
        "logStartOffset": one.log_start_offset,
        "logEndOffset": one.log_end_offset,
        "highWatermark": one.high_watermark,
        "size": sum(segment[2] for segment, _ in one.segments),
        "segments": [
            {
                "segment": name,
                "baseOffset": base_offset,
                "endOffset": end,
                "size": size,
                "active": is_active,
                "maxTimestamp": timestamp,
                "modified": modified,
            }
            for (base_offset, name, size, is_active, modified, timestamp), end in one.segments
        ],
    }


def _rows(folder: PartitionFolder, one: _Described, sized: Callable[[int], Any]) -> list[list[Any]]:
    _, topic, partition, state = folder
    return [
        [topic, partition, state, name, base_offset, end, sized(size), format_time(timestamp), format_time(modified)]
        for (base_offset, name, size, _, modified, timestamp), end in one.segments
    ]
