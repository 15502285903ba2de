"""``kafkalog recover``: recovers a log dir or a partition after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog import tools
from kafkalog.cli import _common, _printing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EPILOG = """\
Does what a broker's start-up does: completes interrupted swaps, rebuilds indexes, and truncates a torn tail after the
last whole batch. If Kafka would not load the log, or if any whole batch would be lost, nothing is changed and the
exit code is 1: --salvage keeps every whole batch, --as-kafka does what a broker's start does. The marker and
checkpoints of the log dir say where to start; afterwards the checkpoints match the logs, and an existing marker stays
unless something had to be truncated. The topic settings segment.index.bytes and index.interval.bytes determine the
indexes; give them if they are not Kafka's defaults.

examples:
  kafkalog recover /data/kafka-logs --dry-run
  kafkalog recover /data/kafka-logs/orders-0
  kafkalog recover /data/kafka-logs/orders-0 --salvage --out /recovered/orders-0"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_path(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="only print what would be done")
    _common.add_out(parser)
    loss = parser.add_mutually_exclusive_group()
    loss.add_argument(
        "--salvage",
        dest="on_loss",
        action="store_const",
        const="salvage",
        default="refuse",
        help="keep every batch that is whole and in order",
    )
    loss.add_argument(
        "--as-kafka",
        dest="on_loss",
        action="store_const",
        const="as_kafka",
        help="do what a broker's start does, even if whole batches are lost",
    )
    state = parser.add_mutually_exclusive_group()
    state.add_argument(
        "--clean",
        dest="clean",
        action="store_true",
        default=None,
        help="treat the shutdown as clean, without the marker of a clean shutdown",
    )
    state.add_argument(
        "--unclean",
        dest="clean",
        action="store_false",
        help="treat the shutdown as unclean, and ignore the marker of a clean shutdown",
    )
    parser.add_argument(
        "--recovery-point",
        metavar="OFFSET",
        type=_common.number(0, _common.INT64_MAX),
        help="the offset from which batches are checked",
    )
    _common.add_config(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """Recover the logs, and print what was done."""
    report = tools.recover(
        arguments.path,
        clean=arguments.clean,
        recovery_point=arguments.recovery_point,
        config=arguments.config,
        out=arguments.out,
        on_loss=arguments.on_loss,
        dry_run=arguments.dry_run,
    )
    return _printing.print_report(report, objects_of(report) if arguments.json else None)


def objects_of(report: tools.RecoveryReport) -> Iterator[dict[str, Any]]:
    """Yield an object per partition, also for those that no longer exist and were removed from checkpoints."""
    changes: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for change in report.checkpoints:
        line = {"name": change.file, "before": change.before, "after": change.after}
        changes.setdefault((change.topic, change.partition), []).append(line)
    for recovered in report.partitions:
        mine = changes.pop((recovered.topic, recovered.partition), [])
        yield {**fields_of(recovered), "checkpoints": mine}
    for (topic, partition), lines in changes.items():
        yield {"path": None, "topic": topic, "partition": partition, "checkpoints": lines}


def fields_of(partition: tools.PartitionRecovery) -> dict[str, Any]:
    """Return the same for JSON."""
    return {
        "path": partition.path,
        "topic": partition.topic,
        "partition": partition.partition,
        "recoveredFrom": partition.recovered_from,
        "logStartOffset": partition.log_start_offset,
        "logEndOffset": partition.log_end_offset,
        "segments": partition.segments,
        "size": partition.size,
        "highestProducerId": partition.highest_producer_id,
        "latestLeaderEpoch": partition.latest_leader_epoch,
        "bytesCut": partition.bytes_cut,
        "notes": [{"kind": note.kind, "text": note.text} for note in partition.notes],
        "files": [
            {"name": file.name, "before": file.before, "after": file.after}
            for file in partition.files
            if not file.is_same
        ],
    }
