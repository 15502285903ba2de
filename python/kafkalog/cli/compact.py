"""``kafkalog compact``: copies logs into a new log dir and compacts the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import tools
from kafkalog.cli import _common
from kafkalog.cli._progress import written

if TYPE_CHECKING:
    import argparse

_EPILOG = """\
OUT is a new log dir that a broker can mount; the source is not changed. Of each key the last record is kept, by the
rules of Kafka's log cleaner, which leaves the active segment alone: --roll ends it first. Topic settings come from the
metadata log in the log dir; --config overrides them, and is needed where there is no metadata log.
min.cleanable.dirty.ratio=0 compacts whatever there is to compact.

examples:
  kafkalog compact /data/kafka-logs /backup/kafka-logs --dry-run
  kafkalog compact /data/kafka-logs /backup/kafka-logs --config min.cleanable.dirty.ratio=0
  kafkalog compact /data/kafka-logs/state-0 /backup/state --config cleanup.policy=compact --roll"""


# What kept the rest from being compacted, where it is not the active segment alone.
_HELD = {
    "open_transaction": (
        "held up by the open transaction of producer {partition.pin_producer_id} from offset {partition.pin_offset}"
    ),
    "high_watermark": "held up by the high watermark at offset {partition.first_uncleanable_offset}",
    "min_lag": "held up by min.compaction.lag.ms from offset {partition.first_uncleanable_offset}",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_copy(parser, _EPILOG)
    parser.add_argument("--now", metavar="TIME", type=_common.time, help="the time of the compaction; default: now")
    _common.add_config(parser)
    parser.add_argument("--roll", action="store_true", help="end the active segment first, so that it is compacted too")
    parser.add_argument(
        "--on-corrupt", choices=("raise", "skip"), default="raise", help="what to do about damage; default: raise"
    )
    parser.add_argument(
        "--map-bytes",
        metavar="N",
        type=_common.number(48, _common.INT64_MAX),
        default=128 << 20,
        help="memory for the offsets of keys, 24 bytes each; default: 128 MiB",
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only print the result; nothing is written")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """Copy and compact, and print what was saved."""
    with written(arguments.path, arguments.out):
        report = tools.compact(
            arguments.path,
            arguments.out,
            now=arguments.now,
            config=dict(arguments.config) if arguments.config else None,
            dry_run=arguments.dry_run,
            on_corrupt=arguments.on_corrupt,
            roll=arguments.roll,
            map_bytes=arguments.map_bytes,
        )
    lost = {(each.topic, each.partition): each for each in report.damaged}
    _common.tell_notes(report.metadata_notes)
    for partition in report.partitions:
        damage = lost.pop((partition.topic, partition.partition), None)
        if arguments.json:
            _common.json_line({**_common.json_fields(partition), "bytesLost": damage.bytes_cut if damage else 0})
            continue
        _common.say(_line(partition))
        if damage:
            _print_damage(damage)
    _common.print_left_out(report, as_json=arguments.json)
    if arguments.json:
        return 0
    for damage in lost.values():
        _common.say(f"{damage.topic}-{damage.partition}: not compacted")
        _print_damage(damage)
    done = "would be saved" if report.dry_run else "saved"
    _common.say(f"{report.out or report.path}: {report.bytes_saved} bytes {done}")
    return 0


def _line(partition: tools.PartitionCompaction) -> str:
    name = f"{partition.topic}-{partition.partition}"
    held = _HELD.get(partition.held_by, "").format(partition=partition)
    if not partition.passes:
        ratio = f"dirty ratio {partition.dirty_ratio:.2f}" if partition.dirty_ratio else held or "nothing to compact"
        return f"{name}: not compacted, {ratio}; {partition.segments} segment(s), {partition.size} bytes"
    return (
        f"{name}: compacted to offset {partition.compacted_to} in {partition.passes} pass(es), "
        f"{partition.records_kept} of {partition.records_read} records kept, "
        f"{partition.segments_before} to {partition.segments} segment(s), "
        f"{partition.size_before} to {partition.size} bytes" + (f"; {held}" if held else "")
    )


def _print_damage(damage: tools.PartitionRecovery) -> None:
    _common.say(f"  {damage.bytes_cut} bytes lost to damage")
    for note in damage.notes:
        _common.say(f"  {note}")
