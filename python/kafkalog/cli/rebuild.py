"""``kafkalog rebuild``: rebuilds the indexes of a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import tools
from kafkalog.cli import _common, _printing
from kafkalog.cli.recover import fields_of

if TYPE_CHECKING:
    import argparse

EPILOG = """\
The .log files are not changed: a log that recovery would truncate is refused, with exit code 1.

examples:
  kafkalog rebuild /data/kafka-logs/orders-0 --dry-run
  kafkalog rebuild /backup/kafka-logs/orders-0 --kafka-version 2.8 --out /rebuilt/orders-0"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("path", metavar="PATH", type=_common.place, help="the folder of a partition")
    parser.add_argument(
        "--kafka-version",
        "--level",
        metavar="VERSION",
        default="4.3",
        help="the Kafka version whose indexes to write; default 4.3",
    )
    _common.add_out(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="only print what would be done")
    _common.add_config(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Rebuild the indexes, and print what was done."""
    report = tools.rebuild_indexes(
        arguments.path,
        kafka_version=arguments.kafka_version,
        out=arguments.out,
        config=arguments.config,
        dry_run=arguments.dry_run,
    )
    if arguments.json:
        _printing.json_line(fields_of(report))
        return 0
    return _printing.print_report(report)
