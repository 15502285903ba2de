"""``kafkalog retain``: copies logs without what retention deletes into a new log dir."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import tools
from kafkalog._reprs import plain
from kafkalog.cli import _common, _printing
from kafkalog.cli._progress import on_terminal

if TYPE_CHECKING:
    import argparse

EPILOG = """\
OUT is a new log dir that a broker can mount; the source is not changed. Whole segments are left out, oldest first, by
the rules of a broker: log start offset, retention.bytes, retention.ms. Topic settings come from the metadata log in the
log dir; --config overrides them, and is needed if there is no metadata log.

examples:
  kafkalog retain /data/kafka-logs /backup/kafka-logs --dry-run
  kafkalog retain /data/kafka-logs /backup/kafka-logs --config retention.ms=86400000
  kafkalog retain /data/kafka-logs/orders-0 /backup/orders --config retention.bytes=1073741824"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_copy(parser, "only print what would be deleted")
    _common.add_now(parser, "the time of the retention")
    _common.add_config(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """Copy what stays, and print what was deleted."""
    with on_terminal() as show:
        report = tools.retain(
            arguments.path,
            _common.target(arguments),
            now=arguments.now,
            config=arguments.config,
            dry_run=arguments.dry_run,
            progress=show,
        )
    return _printing.print_report(report, map(plain, report.partitions) if arguments.json else None)
