"""``kafkalog stats``: prints sums over the batch headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog._reprs import plain
from kafkalog._times import format_time
from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._selection import chosen, sources
from kafkalog.log import sums_by_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

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
    _common.add_log_dirs(parser)
    _tier.add_remote(parser)
    _common.add_topics(parser)
    _common.add_partitions(parser)
    _common.add_on_corrupt(parser, "counts the batches around damaged headers")
    _common.add_human_readable(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition, with its segments")


def run(arguments: argparse.Namespace) -> int:
    """Print a row per live partition; a damaged one is reported, and the others are counted."""
    with sources(arguments.path, arguments.topic, arguments.partition, alone=True) as found:
        listed = chosen(found, arguments.topic, arguments.partition, live=True)
        partitions = listed.partitions()
        added = partitions.ask_all(
            lambda folders, log_dir: _core.statistics_all(
                folders, log_dir, on_corrupt=arguments.on_corrupt, segments=arguments.json
            )
        )
        several = len(arguments.path) > 1
        if arguments.json:
            for folder, sums in added:
                fields = plain(sums_by_name(folder.topic, folder.partition, sums))
                _printing.json_line({**({"path": listed.places[folder.path]} if several else {}), **fields})
            return partitions.code
        sized = _common.sized(human=arguments.human_readable)
        rows = [([listed.places[folder.path]] if several else []) + _row(folder, sums, sized) for folder, sums in added]
        _printing.table(("path", *_HEAD) if several else _HEAD, rows, right=_NUMBERS)
    return partitions.code


def _row(folder: PartitionFolder, added: _core.Sums, sized: Callable[[int], Any]) -> list[Any]:
    log_start_offset, log_end_offset, segments, sums, _ = added
    return [
        folder.topic,
        folder.partition,
        segments,
        sized(sums["size"]),
        sums["batches"],
        # Batches of v0 and v1 do not say how many records they hold.
        f"{sums['records']}+" if sums["legacy_batches"] else sums["records"],
        log_start_offset,
        log_end_offset,
        format_time(sums["min_timestamp"]),
        format_time(sums["max_timestamp"]),
        ",".join(sums["codecs"]) or None,
        len(sums["producers"]),
    ]
