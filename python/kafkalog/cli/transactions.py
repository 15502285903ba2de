"""``kafkalog transactions``: prints transactional ids and transactions, like kafka-transactions."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kafkalog import _places
from kafkalog._times import format_time
from kafkalog.cli import _common, _printing
from kafkalog.cli._selection import of_partitions
from kafkalog.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from kafkalog.log import PartitionFolder, PartitionLog

_LIST: dict[str, Any] = {
    "TransactionalId": "transactionalId",
    "ProducerId": "producerId",
    "ProducerEpoch": "producerEpoch",
    "TransactionState": "state",
    "TimeoutMs": "timeoutMs",
    "StartTime": lambda row: format_time(row["startTimestamp"]),
    "TopicPartitions": lambda row: (
        ",".join(f"{each['topic']}-{each['partition']}" for each in row["partitions"]) or None
    ),
}
_ABORTED = {
    "Topic": "topic",
    "Partition": "partition",
    "ProducerId": "producerId",
    "FirstOffset": "firstOffset",
    "LastOffset": "lastOffset",
    "LastStableOffset": "lastStableOffset",
}
# As kafka-transactions find-hanging.
_HANGING: dict[str, Any] = {
    "Topic": "topic",
    "Partition": "partition",
    "ProducerId": "producerId",
    "ProducerEpoch": "producerEpoch",
    "CoordinatorEpoch": "coordinatorEpoch",
    "StartOffset": "firstOffset",
    "LastTimestamp": lambda row: format_time(row["lastTimestamp"]),
}
_NUMBERS = (*list(_ABORTED)[1:], "ProducerEpoch", "TimeoutMs", "CoordinatorEpoch", "StartOffset")
# Between the begin of a transaction and its last marker.
_OPEN = {"Ongoing", "PrepareCommit", "PrepareAbort"}
EPILOG = (
    "Transactional ids are those of __transaction_state. An open transaction holds back the last stable offset of "
    "its partitions, and with it consumers of read_committed."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--open", action="store_true", help="only open transactions, also those of partitions that no coordinator knows"
    )
    what.add_argument(
        "--aborted", action="store_true", help="aborted transactions instead, by the partitions' transaction indexes"
    )
    what.add_argument(
        "--hanging", action="store_true", help="open transactions of partitions that no coordinator will end"
    )
    parser.add_argument(
        "--transactional-id", action="append", metavar="ID", help="only this transactional id; may be repeated"
    )
    _common.add_topics(parser, "only transactions in these topics")
    _common.add_partitions(parser, "only transactions in these partitions")
    parser.add_argument(
        "-J", "--json", action="store_true", help="one JSON object per line, by the names of the tables"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print transactional ids, or aborted transactions."""
    if arguments.aborted:
        return _print_aborted(arguments)
    from kafkalog import tables

    if arguments.hanging:
        table = tables.open_transactions(arguments.path, on_corrupt="skip")
        # Of a producer that no coordinator here knows, nobody can say more.
        found = [row for row in _printing.rows_of(table) if row["isHanging"] is not False]
        found, code = of_partitions(found, arguments)
        _printing.print_rows(_HANGING, found, _NUMBERS, as_json=arguments.json)
        unknown = sum(row["isHanging"] is None for row in found)
        if unknown:
            note = f"kafkalog: {unknown} of them may not be hanging: the logs of their coordinators are not here"
            print(note, file=sys.stderr)
        return max(code, _common.print_partial(table))
    shown, rows = [], list[dict[str, Any]]()
    try:
        shown.append(tables.transactions(arguments.path, on_corrupt="skip"))
        rows = _printing.rows_of(shown[0])
    except UnknownTopicOrPartitionError:
        # The partitions themselves have the open ones.
        if not arguments.open:
            raise
    ids = arguments.transactional_id
    if arguments.open:
        shown.append(tables.open_transactions(arguments.path, on_corrupt="skip"))
        rows = [row for row in rows if row["state"] in _OPEN]
        rows += _without_coordinator(rows, _printing.rows_of(shown[-1]))
    rows, code = _printing.only_named(rows, "transactionalId", ids, "transactional id", arguments.path)
    rows, missing = of_partitions(
        rows, arguments, lambda row: [(each["topic"], each["partition"]) for each in row["partitions"]]
    )
    _printing.print_rows(_LIST, rows, _NUMBERS, as_json=arguments.json)
    return max(code, missing, _common.print_partial(*shown))


def _without_coordinator(known: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return transactions that are open in partitions, but in none of the known ones; a row for each producer."""
    there = {(row["producerId"], each["topic"], each["partition"]) for row in known for each in row["partitions"]}
    rows: dict[int, dict[str, Any]] = {}
    for each in found:
        if (each["producerId"], each["topic"], each["partition"]) in there:
            continue
        # Its coordinator knows it under its next producer id (KIP-890).
        if each["isHanging"] is False:
            continue
        row = rows.setdefault(
            each["producerId"],
            {
                "transactionalId": each["transactionalId"],
                "producerId": each["producerId"],
                "producerEpoch": each["producerEpoch"],
                "state": each["state"],
                "timeoutMs": None,
                "startTimestamp": each["firstTimestamp"],
                "lastUpdateTimestamp": None,
                "partitions": [],
            },
        )
        row["partitions"].append({"topic": each["topic"], "partition": each["partition"]})
    return list(rows.values())


def _print_aborted(arguments: argparse.Namespace) -> int:
    found = [folder for path in arguments.path for folder in _common.folders(path, live=True)]
    found = _common.select(found, ", ".join(arguments.path), arguments.topic, arguments.partition)
    partitions = _common.Partitions(found)
    rows = [row for _, some in partitions.ask(lambda folder, log: list(_aborted(folder, log))) for row in some]
    _printing.print_rows(_ABORTED, rows, _NUMBERS, as_json=arguments.json)
    return partitions.code


def _aborted(folder: PartitionFolder, log: PartitionLog) -> Iterator[dict[str, Any]]:
    from kafkalog.index import TransactionIndex

    for segment in log.segments:
        file = f"{folder.path}/{segment.name.removesuffix('.log')}.txnindex"
        # Segments without aborted transactions have none.
        if not _places.exists(file):
            continue
        with TransactionIndex(file) as index:
            for _, producer_id, first_offset, last_offset, last_stable_offset in index:
                values = (log.topic, log.partition, producer_id, first_offset, last_offset, last_stable_offset)
                yield dict(zip(_ABORTED.values(), values, strict=True))
