"""``kafkalog retain``: copies logs without what retention deletes into a new log dir."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import tools
from kafkalog._reprs import plain
from kafkalog.cli import _common
from kafkalog.cli._progress import written

if TYPE_CHECKING:
    import argparse

_EPILOG = """\
OUT is a new log dir that a broker can mount; the source is not changed. Whole segments are left out, oldest first, by
the rules of a broker: log start offset, retention.bytes, retention.ms. Topic settings come from the metadata log in the
log dir; --config overrides them, and is needed if there is no metadata log.

examples:
  kafkalog retain /data/kafka-logs /backup/kafka-logs --dry-run
  kafkalog retain /data/kafka-logs /backup/kafka-logs --config retention.ms=86400000
  kafkalog retain /data/kafka-logs/orders-0 /backup/orders --config retention.bytes=1073741824"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_copy(parser, _EPILOG)
    parser.add_argument("--now", metavar="TIME", type=_common.time, help="the time of the retention; default: now")
    _common.add_config(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="only print what would be deleted")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """Copy what stays, and print what was deleted."""
    with written(arguments.path, arguments.out):
        report = tools.retain(
            arguments.path,
            arguments.out,
            now=arguments.now,
            config=dict(arguments.config) if arguments.config else None,
            dry_run=arguments.dry_run,
        )
    _common.tell_notes(report.metadata_notes)
    if not arguments.json:
        _common.print_report(report)
        return 0
    for partition in report.partitions:
        _common.json_line(plain(partition))
    _common.print_left_out(report)
    return 0
