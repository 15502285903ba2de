"""``kafkalog rewrite``: copies logs without some records, or stored in another way, into a new log dir."""

from __future__ import annotations

import argparse
from pathlib import Path

from kafkalog import tools
from kafkalog._reprs import plain
from kafkalog.cli import _common, _printing
from kafkalog.cli._progress import on_terminal

EPILOG = """\
OUT is a new log dir that a broker can mount, with the same offsets; the source is not changed. Records that any --drop
option selects are dropped; batches that lose nothing are copied byte for byte. Nothing that may contain such a record
is copied: leftovers, partitions being deleted and files that are not Kafka's are left out and listed. The result is
verified, and OUT.rewrite.json has the number of dropped records and the hash of each written file.

examples:
  kafkalog rewrite /data/kafka-logs /clean/kafka-logs --drop-key customer-4711 --dry-run
  kafkalog rewrite /data/kafka-logs /clean/kafka-logs --drop-keys erased.txt
  kafkalog rewrite /data/kafka-logs/orders-0 /shorter --drop-where '"offset" < 4711'
  kafkalog rewrite /data/kafka-logs/orders-0 /smaller --compression-type zstd
  kafkalog rewrite /data/kafka-logs/orders-0 /later --drop-before 2026-01-01T00:00:00Z"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_copy(parser, "only count the records that would be dropped")
    parser.add_argument(
        "--drop-key", metavar="KEY", action="append", help="drop records with this key; may be repeated"
    )
    parser.add_argument(
        "--drop-keys", metavar="FILE", type=_common.place, help="drop records with these keys, one per line"
    )
    parser.add_argument(
        "--drop-key-pattern", metavar="RE", help="drop records whose key contains a match of this regular expression"
    )
    parser.add_argument(
        "--drop-where",
        metavar="SQL",
        help='drop records that satisfy this SQL condition; needs DuckDB, which wants the column "offset" in quotes',
    )
    parser.add_argument("--drop-before", metavar="TIME", type=_common.time, help="drop records before this time")
    parser.add_argument("--drop-from", metavar="TIME", type=_common.time, help="drop records from this time on")
    _common.add_topics(parser, "only drop records in these topics")
    _common.add_partitions(parser, "only drop records in these partitions")
    parser.add_argument(
        "--only",
        metavar="TOPIC:PARTITION",
        type=_partition,
        action="append",
        help="leave the other partitions out of OUT; may be repeated",
    )
    parser.add_argument(
        "--compression-type", choices=["uncompressed", "gzip", "snappy", "lz4", "zstd"], help="the codec of all batches"
    )
    parser.add_argument("--magic", choices=["2"], help="write messages of magic 0 and 1 as batches of magic 2")
    _common.add_config(parser)
    _common.add_on_corrupt(parser, "leaves out damaged batches")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def _partition(text: str) -> tuple[str, int]:
    """Parse a topic and a partition, for ``type=``."""
    topic, _, number = text.rpartition(":")
    if not topic or not number.isascii() or not number.isdigit():
        raise argparse.ArgumentTypeError(f"expected TOPIC:PARTITION, found {text!r}")
    return topic, int(number)


def _by_topic(only: list[tuple[str, int]] | None) -> dict[str, list[int]] | None:
    if only is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, number in only:
        by_topic.setdefault(topic, []).append(number)
    return by_topic


def run(arguments: argparse.Namespace) -> int:
    """Copy what stays, and print what went."""
    keys = list(arguments.drop_key or ())
    if arguments.drop_keys is not None:
        keys += [line for line in Path(arguments.drop_keys).read_bytes().splitlines() if line]
    before, from_ = arguments.drop_before, arguments.drop_from
    if before is not None and from_ is not None and from_ >= before:
        raise ValueError(
            "--drop-from and --drop-before: together they are the range that is dropped, which must not be empty"
        )
    with on_terminal() as show:
        report = tools.rewrite(
            arguments.path,
            _common.target(arguments),
            drop_keys=keys or None,
            drop_key_pattern=arguments.drop_key_pattern,
            drop=arguments.drop_where,
            drop_timestamps=None if before is None and from_ is None else (from_, before),
            topics=arguments.topic,
            partitions=arguments.partition,
            keep_partitions=_by_topic(arguments.only),
            compression_type=arguments.compression_type,
            config=arguments.config,
            magic=2 if arguments.magic else None,
            on_corrupt=arguments.on_corrupt,
            dry_run=arguments.dry_run,
            progress=show,
        )
    _printing.print_report(report, map(plain, report.partitions) if arguments.json else None)
    return int(any(partition.bytes_lost for partition in report.partitions))
