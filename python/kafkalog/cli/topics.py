"""``kafkalog topics``: prints what kafka-topics --describe prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog.cli import _common, _printing
from kafkalog.cli._selection import is_wanted, missing_named, settle
from kafkalog.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse

EPILOG = "As the metadata log says; `kafkalog ls` lists the partitions that are in a log dir."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    _common.add_topics(parser)
    _common.add_partitions(parser)
    _common.add_ignored(parser, "--describe")
    parser.add_argument("--list", action="store_true", help="only the names of the topics")
    parser.add_argument("--exclude-internal", action="store_true", help="leave out topics named __...")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per partition")


def run(arguments: argparse.Namespace) -> int:
    """Print the topics; those that are requested and do not exist are reported."""
    from kafkalog import tables
    from kafkalog.tables._rows import notes_of

    table = tables.topics(arguments.path)
    _printing.print_notes(notes_of(table))
    rows = _printing.rows_of(table)
    by_name: dict[str, set[int]] = {}
    for row in rows:
        by_name.setdefault(row["topic"], set()).add(row["partition"])
    settle(arguments, by_name)
    where = f"the metadata log of {', '.join(arguments.path)}"
    if not by_name and not arguments.topic:
        # The second log dir of a broker has no more of the metadata than what its cluster began with.
        raise UnknownTopicOrPartitionError(f"no topic in {where}; found: none")
    code = missing_named(arguments, by_name, where)
    wanted = set(arguments.topic or ())
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if (not wanted or row["topic"] in wanted) and not (
            arguments.exclude_internal and row["topic"].startswith("__")
        ):
            by_topic.setdefault(row["topic"], []).append(row)
    for topic, found in by_topic.items():
        shown = [row for row in found if is_wanted(arguments, topic, row["partition"])]
        if not shown:
            continue
        if arguments.list:
            _printing.say(topic)
            continue
        if arguments.json:
            for row in shown:
                _printing.json_line({**row, "configs": dict(row["configs"])})
        else:
            _print(found, shown)
    return code


def _print(rows: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    first, topic = rows[0], _printing.cell(rows[0]["topic"])
    configs = _printing.cell(",".join(f"{name}={value}" for name, value in first["configs"]))
    print(
        f"Topic: {topic}\tTopicId: {first['topicId']}\tPartitionCount: {len(rows)}"
        f"\tReplicationFactor: {len(first['replicas'])}\tConfigs: {configs}"
    )
    for row in wanted:
        leader = "none" if row["leader"] < 0 else row["leader"]
        print(
            f"\tTopic: {topic}\tPartition: {row['partition']}\tLeader: {leader}"
            f"\tReplicas: {_numbers(row['replicas'])}\tIsr: {_numbers(row['isr'])}"
        )


def _numbers(values: list[int]) -> str:
    return ",".join(map(str, values))
