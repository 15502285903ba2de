"""``kafkalog stats``: prints sums over the batch headers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog._loose import Loose, staged
from kafkalog._reprs import plain
from kafkalog._times import format_time
from kafkalog.cli import _common
from kafkalog.log import sums_by_name

if TYPE_CHECKING:
    import argparse

    from kafkalog.log import PartitionFolder

_HEAD = (
    "topic",
    "partition",
    "segments",
    "bytes",
    "batches",
    "records",
    "start",
    "end",
    "earliest",
    "latest",
    "codecs",
    "producers",
)
_NUMBERS = ("partition", "segments", "bytes", "batches", "records", "start", "end", "producers")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_path(parser)
    _common.add_topics(parser)
    _common.add_partitions(parser)
    _common.add_on_corrupt(parser, "counts the batches around damaged headers")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition, with its segments")


def run(arguments: argparse.Namespace) -> int:
    """Print a row per live partition; a damaged one is reported, and the others are counted."""
    with staged(arguments.path, arguments.topic, arguments.partition) as arguments.path:
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    found = arguments.path
    path = str(Path(found).parent) if isinstance(found, Loose) and found.is_segment else found
    chosen = _common.selected(path, arguments.topic, arguments.partition, live=True)
    partitions = _common.Partitions(chosen, found if isinstance(found, Loose) else None)
    added = partitions.ask_all(
        lambda folders, log_dir: _core.statistics_all(
            folders, log_dir, on_corrupt=arguments.on_corrupt, segments=arguments.json
        )
    )
    if isinstance(found, Loose) and found.is_segment:
        named: dict[str, Any] = {"topic": found.topic, "partition": found.partition}
        added = ((folder._replace(**named), sums) for folder, sums in added)
    if arguments.json:
        for folder, sums in added:
            _common.json_line(plain(sums_by_name(folder.topic, folder.partition, sums)))
    else:
        _common.table(_HEAD, [_row(folder, sums) for folder, sums in added], right=_NUMBERS)
    return partitions.code


def _row(folder: PartitionFolder, added: _core.Sums) -> tuple[Any, ...]:
    log_start_offset, log_end_offset, segments, sums, _ = added
    return (
        folder.topic,
        folder.partition,
        segments,
        sums["size"],
        sums["batches"],
        # Batches of v0 and v1 do not say how many records they hold.
        f"{sums['records']}+" if sums["legacy_batches"] else sums["records"],
        log_start_offset,
        log_end_offset,
        format_time(sums["min_timestamp"]),
        format_time(sums["max_timestamp"]),
        ",".join(sums["codecs"]) or None,
        len(sums["producers"]),
    )
