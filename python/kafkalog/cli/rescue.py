"""``kafkalog rescue``: makes a cluster that starts out of the disks of a dead one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._progress import on_terminal

if TYPE_CHECKING:
    from kafkalog.rescue.model import RescuePlan, RescueReport

EPILOG = """\
Reads the log dirs of dead brokers and controllers, and writes a log dir for a new, single node: topics
with their ids, settings, ACLs, users, quotas, records, committed offsets. Prints the disks, the metadata, where each
partition is taken from and why, and what is missing. The disks are never written. kafkalog help rescue is a guide.

With --remote the new cluster serves the dead one's tiered storage, which is neither copied nor written; disks need not
be left. Its broker needs the storage plugin of the old one.

The exit code is 0 if nothing is missing that was, or may have been, acknowledged, else 1. After an interruption the
same command continues.

examples:
  kafkalog rescue /mnt/node-1/data /mnt/node-2/data --dry-run
  kafkalog rescue /mnt/node-1/data /mnt/node-2/data --out /var/lib/kafka/rescued
  kafkalog rescue /mnt/node-*/data --out /rescued --topics orders,payments --link -J
  kafkalog rescue --remote s3://bucket/tier --out /var/lib/kafka/rescued
  kafkalog rescue /mnt/node-1/data --into /var/lib/kafka/data --topics orders"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("path", metavar="PATH", type=_common.place, nargs="*", help="a log dir of a dead node")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=_common.output,
        help="the new directory to write; required unless --into or --dry-run",
    )
    parser.add_argument(
        "--node-id", metavar="N", type=_common.number(), default=1, help="node id of the first new node; default 1"
    )
    parser.add_argument(
        "--controller",
        metavar="HOST:PORT",
        default="127.0.0.1:9093",
        help="address of the new node for controllers; default 127.0.0.1:9093",
    )
    parser.add_argument(
        "--listener",
        metavar="HOST:PORT",
        default="127.0.0.1:9092",
        help="address of the new node for clients; default 127.0.0.1:9092",
    )
    parser.add_argument("--cluster-id", metavar="ID", help="id of the new cluster; default: that of the old one")
    parser.add_argument(
        "--nodes", metavar="N", type=_common.number(1), default=1, help="number of new nodes; default 1"
    )
    _common.add_topics(parser, "only rescue these topics, and internal ones")
    _tier.add_remote(parser, "the dead cluster's tiered storage, which the new one serves; PATH may then be left out")
    parser.add_argument(
        "--into",
        metavar="LOG_DIR",
        type=_common.output,
        help="write into the log dir of another cluster's stopped broker, instead of --out",
    )
    parser.add_argument(
        "--topic-id",
        metavar="TOPIC=ID",
        action="append",
        type=_topic_id,
        help="a topic for --into and its id there; needed if LOG_DIR has no metadata log",
    )
    parser.add_argument(
        "--link", action="store_true", help="link closed segments (reflinks or hard links) instead of copying them"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only print what would be done")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per line")


def _topic_id(text: str) -> tuple[str, str]:
    topic, equals, topic_id = text.partition("=")
    if not topic or not equals or not topic_id:
        raise argparse.ArgumentTypeError(f"expected TOPIC=ID, not {text!r}")
    return topic, topic_id


def run(arguments: argparse.Namespace) -> int:
    """Rescue, and print the report."""
    from kafkalog.rescue import rescue

    if arguments.out is None and arguments.into is None and not arguments.dry_run:
        raise ValueError("--out or --into is needed, or --dry-run")
    if not arguments.path and arguments.remote is None:
        raise ValueError("PATH is needed, a log dir of a dead node, or --remote")
    if arguments.topic_id and arguments.into is None:
        raise ValueError("--topic-id is for --into")
    with on_terminal() as show:
        report = rescue(
            arguments.path or None,
            arguments.out,
            node_id=arguments.node_id,
            controller=arguments.controller,
            listener=arguments.listener,
            cluster_id=arguments.cluster_id,
            nodes=arguments.nodes,
            topics=arguments.topic,
            into=arguments.into,
            topic_ids=None if arguments.topic_id is None else dict(arguments.topic_id),
            remote=arguments.remote,
            remote_layout=arguments.remote_layout,
            keyring=dict(arguments.remote_key),
            link=arguments.link,
            dry_run=arguments.dry_run,
            progress=show,
        )
    if arguments.json:
        _print_json(report)
    else:
        _print_text(report)
    return 0 if report.is_complete else _common.DAMAGED


def _print_json(report: RescueReport) -> None:
    from kafkalog.cli import _rescue_text

    for each in _rescue_text.objects_of(report.plan):
        _printing.json_line(each)
    _printing.json_line(
        {
            "rescued": {
                "out": report.out,
                "dryRun": report.dry_run,
                "logDirs": report.log_dirs,
                "bytes": report.bytes,
                "complete": report.is_complete,
            }
        }
    )


def _print_text(report: RescueReport) -> None:
    from kafkalog.cli import _rescue_text

    plan = report.plan
    if plan.disks:
        right = ("NODE", "FOLDERS", "BYTES", "DAMAGED")
        _printing.table(_rescue_text.DISK_HEAD, list(_rescue_text.disk_rows(plan)), right)
        print()
    _printing.say(_rescue_text.metadata_line(plan))
    if plan.tier is not None:
        _printing.say(_rescue_text.tier_line(plan, plan.tier))
    print()
    _printing.table(_rescue_text.CHOICE_HEAD, list(_rescue_text.choice_rows(plan)), ("START", "END", "EPOCH", "LOST"))
    print()
    for finding in plan.findings:
        _printing.say(finding)
    _printing.say(_summary(plan))
    for log_dir in report.log_dirs:
        _printing.say(f"start a node: kafka-server-start {log_dir}/server.properties")
    if report.out is not None and not report.log_dirs:
        _printing.say(f"written into {report.out}: start its broker again")


def _summary(plan: RescuePlan) -> str:
    from kafkalog.cli._rescue_text import is_made

    choices = [each for each in plan.choices if plan.tier is None or not is_made(each)]
    errors = sum(finding.severity == "error" for finding in plan.findings)
    lost = sum(end - first for choice in choices for first, end in choice.lost)
    empty = sum(choice.replica is None and not choice.remote for choice in choices)
    topics = len({choice.topic for choice in choices})
    taken = f"{len(choices) - empty} of {len(choices)} partitions of {topics} topics"
    if not errors:
        return f"{taken}; nothing is missing that was acknowledged"
    return f"{taken}; {lost} offsets lost in damage, {empty} partitions without a replica, {errors} errors above"
