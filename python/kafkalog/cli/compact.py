"""``kafkalog compact``: copies logs into a new log dir and compacts the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import tools
from kafkalog._reprs import plain
from kafkalog.cli import _common, _printing
from kafkalog.cli._progress import on_terminal

if TYPE_CHECKING:
    import argparse

EPILOG = """\
OUT is a new log dir that a broker can mount; the source is not changed. The last record of each key is kept, by the
rules of Kafka's log cleaner. The cleaner does not touch the active segment: --roll rolls it first. Topic settings come
from the metadata log in the log dir; --config overrides them, and is needed if there is no metadata log.
min.cleanable.dirty.ratio=0 compacts in any case.

examples:
  kafkalog compact /data/kafka-logs /backup/kafka-logs --dry-run
  kafkalog compact /data/kafka-logs /backup/kafka-logs --config min.cleanable.dirty.ratio=0
  kafkalog compact /data/kafka-logs/state-0 /backup/state --config cleanup.policy=compact --roll"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_copy(parser, "only print the result, of the first pass where keys need several; nothing is written")
    _common.add_now(parser, "the time of the compaction")
    _common.add_config(parser)
    parser.add_argument(
        "--roll", action="store_true", help="roll the active segment first, so that it is compacted too"
    )
    _common.add_on_corrupt(parser, "leaves out damaged batches")
    parser.add_argument(
        "--map-bytes",
        metavar="N",
        type=_common.number(48, _common.INT64_MAX),
        default=128 << 20,
        help="memory for the offsets of keys, 24 bytes each; default: 128 MiB",
    )
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """Copy and compact, and print what was saved."""
    with on_terminal() as show:
        report = tools.compact(
            arguments.path,
            _common.target(arguments),
            now=arguments.now,
            config=arguments.config,
            dry_run=arguments.dry_run,
            on_corrupt=arguments.on_corrupt,
            roll=arguments.roll,
            map_bytes=arguments.map_bytes,
            progress=show,
        )
    lost = {(each.topic, each.partition): each.bytes_cut for each in report.damaged}
    objects = ({**plain(each), "bytesLost": lost.get((each.topic, each.partition), 0)} for each in report.partitions)
    return _printing.print_report(report, objects if arguments.json else None)
