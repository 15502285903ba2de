"""``kafkalog retain``: copies logs without what retention deletes into a new log dir."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import tools
from kafkalog._times import format_time
from kafkalog.cli import _common
from kafkalog.cli._progress import written

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

_EPILOG = """\
OUT is a new log dir that a broker can mount; the source is not changed, and what goes is not copied. Whole segments go,
oldest first, by the rules of a broker: log start offset, retention.bytes, retention.ms. Topic settings come from the
metadata log in the log dir; --config overrides them, and is needed where there is no metadata log.

examples:
  kafkalog retain /data/kafka-logs /backup/kafka-logs --dry-run
  kafkalog retain /data/kafka-logs /backup/kafka-logs --config retention.ms=86400000
  kafkalog retain /data/kafka-logs/orders-0 /backup/orders --config retention.bytes=1073741824"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_copy(parser, _EPILOG)
    parser.add_argument(
        "--now", metavar="TIME", type=_common.time, help="when retention looks at the segments; default: now"
    )
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
    for partition in report.partitions:
        if arguments.json:
            deleted = [_common.json_fields(segment) for segment in partition.deleted]
            _common.json_line({**_common.json_fields(partition), "deleted": deleted})
        else:
            for line in _lines(partition):
                _common.say(line)
    _common.print_left_out(report, as_json=arguments.json)
    if not arguments.json:
        done = "would be deleted" if report.dry_run else "deleted"
        _common.say(f"{report.out or report.path}: {report.bytes_deleted} bytes {done}")
    return 0


def _lines(partition: tools.PartitionRetention) -> Iterator[str]:
    yield (
        f"{partition.topic}-{partition.partition}: offsets {partition.log_start_offset} to {partition.log_end_offset}, "
        f"{partition.segments} segment(s), {partition.size} bytes; {len(partition.deleted)} segment(s), "
        f"{partition.bytes_deleted} bytes deleted"
    )
    for segment in partition.deleted:
        source = "modified" if segment.from_mtime else "largest timestamp"
        when = format_time(segment.largest_timestamp)
        yield f"  {segment.base_offset:020}.log: {segment.size} bytes, by {segment.rule}, {source} {when}"
