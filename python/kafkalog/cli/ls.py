"""``kafkalog ls``: lists topics, partitions and segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog._times import format_time
from kafkalog.cli import _common

if TYPE_CHECKING:
    import argparse

    from kafkalog.log import PartitionFolder, PartitionLog

_HEAD = ("topic", "partition", "state", "segment", "baseOffset", "endOffset", "bytes", "latest", "modified")
_NUMBERS = ("partition", "baseOffset", "endOffset", "bytes")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_path(parser)
    parser.add_argument("-t", "--topic", action="append", help="only this topic; may be repeated")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """List the folders; one that cannot be read is reported, and the others are listed."""
    partitions, rows = _common.Partitions(_common.selected(arguments.path, arguments.topic)), []
    for _, one in partitions.ask(_describe):
        if arguments.json:
            _common.json_line(one)
        else:
            rows += [_row(one, segment) for segment in one["segments"]]
    if not arguments.json:
        _common.table(_HEAD, rows, right=_NUMBERS)
    return partitions.code


def _describe(folder: PartitionFolder, log: PartitionLog) -> dict[str, Any]:
    segments = log.segments
    latest = log._indexed_timestamps()  # noqa: SLF001 - a hint, so not public
    # A folder may have no segment yet.
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset][: len(segments)]
    return {
        "topic": folder.topic,
        "partition": folder.partition,
        "topicId": log.topic_id,
        "state": folder.state,
        "path": folder.path,
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "size": sum(segment.size for segment in segments),
        "segments": [
            {
                "segment": segment.name,
                "baseOffset": segment.base_offset,
                "endOffset": end,
                "size": segment.size,
                "active": segment.is_active,
                "maxTimestamp": timestamp,
                "modified": segment.modified,
            }
            for segment, end, timestamp in zip(segments, ends, latest, strict=True)
        ],
    }


def _row(partition: dict[str, Any], segment: dict[str, Any]) -> tuple[Any, ...]:
    return (
        partition["topic"],
        partition["partition"],
        partition["state"],
        segment["segment"],
        segment["baseOffset"],
        segment["endOffset"],
        segment["size"],
        format_time(segment["maxTimestamp"]),
        format_time(segment["modified"]),
    )
