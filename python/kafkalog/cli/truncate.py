"""``kafkalog truncate``: copies a partition up to an offset into a new log dir."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import tools
from kafkalog._reprs import plain
from kafkalog.cli import _common, _printing

if TYPE_CHECKING:
    import argparse

EPILOG = """\
OUT is a new log dir that a broker can mount; the source is not changed. A batch that contains the offset is removed
whole, and a broker that loads OUT continues after the last remaining batch. A log that is damaged below the offset
is refused, with exit code 1: use recover first.

examples:
  kafkalog truncate /data/kafka-logs/orders-0 /truncated --offset 4711 --dry-run
  kafkalog truncate /data/kafka-logs/orders-0 /truncated --offset 4711"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_copy(parser, "only print what would be removed", "the folder of a partition")
    parser.add_argument(
        "--offset", type=_common.number(0, _common.INT64_MAX), required=True, help="the first offset to remove"
    )
    _common.add_config(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Truncate the copy, and print what was removed."""
    report = tools.truncate(
        arguments.path,
        _common.target(arguments),
        offset=arguments.offset,
        dry_run=arguments.dry_run,
        config=arguments.config,
    )
    if arguments.json:
        _printing.json_line(plain(report))
        return 0
    return _printing.print_report(report)
