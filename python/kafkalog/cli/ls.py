"""``kafkalog ls``: lists topics, partitions and segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog._times import format_time
from kafkalog.cli import _common

if TYPE_CHECKING:
    import argparse

    from kafkalog.log import PartitionFolder

_HEAD = ("topic", "partition", "state", "segment", "baseOffset", "endOffset", "bytes", "latest", "modified")
_NUMBERS = ("partition", "baseOffset", "endOffset", "bytes")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_path(parser)
    _common.add_topics(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """List the folders; one that cannot be read is reported, and the others are listed."""
    partitions = _common.Partitions(_common.selected(arguments.path, arguments.topic))
    described = partitions.ask_all(_core.describe_all)
    if arguments.json:
        for folder, one in described:
            _common.json_line(_object(folder, one))
    else:
        _common.table(_HEAD, [row for folder, one in described for row in _rows(folder, one)], right=_NUMBERS)
    return partitions.code


def _object(folder: PartitionFolder, one: _core.Description) -> dict[str, Any]:
    topic_id, log_start_offset, log_end_offset, high_watermark, segments = one
    return {
        "topic": folder.topic,
        "partition": folder.partition,
        "topicId": topic_id,
        "state": folder.state,
        "path": folder.path,
        "logStartOffset": log_start_offset,
        "logEndOffset": log_end_offset,
        "highWatermark": high_watermark,
        "size": sum(size for _, _, size, *_ in segments),
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
            for (base_offset, name, size, is_active, modified, timestamp), end in zip(segments, _ends(one), strict=True)
        ],
    }


def _ends(one: _core.Description) -> list[int]:
    """Return where each segment ends: where the next one begins."""
    _, _, log_end_offset, _, segments = one
    # A folder may have no segment yet.
    return [*(segment[0] for segment in segments[1:]), log_end_offset][: len(segments)]


def _rows(folder: PartitionFolder, one: _core.Description) -> list[tuple[Any, ...]]:
    _, topic, partition, state = folder
    return [
        (topic, partition, state, name, base_offset, end, size, format_time(timestamp), format_time(modified))
        for (base_offset, name, size, _, modified, timestamp), end in zip(one[-1], _ends(one), strict=True)
    ]
