"""``tables.producers`` and ``tables.open_transactions``: Kafka's own classes said which producers there are."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
from byte_logs import sealed
from command import call
from kafkalog import tables

if TYPE_CHECKING:
    from pathlib import Path

LOADED = [
    partition
    for partition in corpus.partitions()
    if partition.state == "live" and partition.has("load") and partition.topic != "__cluster_metadata"
]
GOLDEN_TXN = corpus.GOLDEN / "txn" / "data-1"
COORDINATORS = corpus.GOLDEN / "clean-restarts"
TIME = pa.timestamp("ms", "UTC")


def time(ms: int) -> datetime | None:
    return None if ms < 0 else datetime.fromtimestamp(ms / 1000, timezone.utc).replace(microsecond=ms % 1000 * 1000)


def expected(partition: corpus.Partition) -> list[dict[str, Any]] | None:
    """Return Kafka's state after loading the log; None if it could not load it."""
    lines = partition.lines("load")
    if not any(line["type"] == "log" for line in lines):
        return None
    rows = []
    for line in lines:
        if line["type"] == "producer":
            last = line["batches"][-1] if line["batches"] else {"last_sequence": -1, "last_offset": -1}
            since = line["current_txn_first_offset"]
            rows.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "producerId": line["producer_id"],
                    "producerEpoch": line["producer_epoch"],
                    "lastSequence": last["last_sequence"],
                    "lastOffset": last["last_offset"],
                    "lastTimestamp": time(line["last_timestamp"]),
                    "coordinatorEpoch": line["coordinator_epoch"],
                    "currentTransactionFirstOffset": -1 if since is None else since,
                }
            )
    return sorted(rows, key=lambda row: row["producerId"])


@pytest.mark.parametrize("partition", LOADED, ids=lambda partition: partition.id)
def test_producers_are_those_of_kafka(partition: corpus.Partition) -> None:
    wanted = expected(partition)
    if wanted is None:
        pytest.skip("Kafka does not load it")
    assert tables.producers(partition.folder).to_pylist() == wanted


@pytest.mark.parametrize("partition", LOADED, ids=lambda partition: partition.id)
def test_open_transactions_are_those_of_kafka(partition: corpus.Partition) -> None:
    """And one of them blocks the last stable offset, which Kafka's classes gave too."""
    wanted = expected(partition)
    if wanted is None:
        pytest.skip("Kafka does not load it")
    rows = tables.open_transactions(partition.folder).to_pylist()
    opened = {row["producerId"]: row["currentTransactionFirstOffset"] for row in wanted}
    assert {row["producerId"]: row["firstOffset"] for row in rows} == {
        producer: first for producer, first in opened.items() if first >= 0
    }
    (log,) = (line for line in partition.lines("load") if line["type"] == "log")
    stable = [row["firstOffset"] for row in rows if row["blocksLastStableOffset"]]
    assert stable == [log["last_stable_offset"]] * bool(rows)


def test_columns_are_those_of_the_interface() -> None:
    producers: dict[str, pa.DataType] = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "producerId": pa.int64(),
        "producerEpoch": pa.int16(),
        "lastSequence": pa.int32(),
        "lastOffset": pa.int64(),
        "lastTimestamp": TIME,
        "coordinatorEpoch": pa.int32(),
        "currentTransactionFirstOffset": pa.int64(),
    }
    assert tables.producers(GOLDEN_TXN).schema == pa.schema(producers)
    open_ones: dict[str, pa.DataType] = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "producerId": pa.int64(),
        "producerEpoch": pa.int16(),
        "firstOffset": pa.int64(),
        "firstTimestamp": TIME,
        "lastTimestamp": TIME,
        "coordinatorEpoch": pa.int32(),
        "transactionalId": pa.string(),
        "state": pa.string(),
        "isHanging": pa.bool_(),
        "blocksLastStableOffset": pa.bool_(),
    }
    assert tables.open_transactions(GOLDEN_TXN).schema == pa.schema(open_ones)


def test_times_of_an_open_transaction() -> None:
    """The batches say when it began and when its producer wrote last."""
    rows = {row["producerId"]: row for row in tables.open_transactions(GOLDEN_TXN).to_pylist()}
    assert {producer: row["firstOffset"] for producer, row in rows.items()} == {16: 867, 17: 708}
    batches = kafkalog.PartitionLog(GOLDEN_TXN / "txn-open-0").batches().read_all().to_pylist()
    for producer, row in rows.items():
        first = next(batch for batch in batches if batch["baseOffset"] == row["firstOffset"])
        last = max(
            (batch for batch in batches if batch["producerId"] == producer), key=lambda batch: batch["baseOffset"]
        )
        assert row["firstTimestamp"] == first["baseTimestamp"]
        assert row["lastTimestamp"] == last["maxTimestamp"]
        assert row["producerEpoch"] == first["producerEpoch"]


def coordinator_states(*logs: Path) -> dict[int, dict[str, Any]]:
    """The latest record of each transactional id, by producer: read as JSON, with no code shared."""
    latest: dict[str, Any] = {}
    for log in logs:
        for row in tables.records(log).to_pylist():
            if row["type"] == "TransactionLog":
                latest[json.loads(row["key"])["transactionalId"]] = row["value"] and json.loads(row["value"])
    return {
        value["producerId"]: {"id": name, "status": value["transactionStatus"]}
        for name, value in latest.items()
        if value
    }


def test_times_after_the_year_9999(tmp_path: Path) -> None:
    """Python has no datetime for them: the commands print them as numbers."""
    data = tmp_path / "data"
    folder = data / "txn-open-0"
    shutil.copytree(GOLDEN_TXN / folder.name, folder)
    far = 1 << 50
    for log in folder.glob("*.log"):
        content, at = bytearray(log.read_bytes()), 0
        while at < len(content):
            end = at + 12 + int.from_bytes(content[at + 8 : at + 12], "big")
            content[at + 27 : at + 43] = far.to_bytes(8, "big") * 2
            content[at:end] = sealed(bytes(content[at:end]))
            at = end
        log.write_bytes(content)
    for what in ("--hanging", "--open"):
        told = call("transactions", data, what)
        assert told.returncode == 0, told.stderr
        assert str(far) in told.stdout
        lines = [json.loads(line) for line in call("transactions", data, what, "-J").stdout.splitlines()]
        assert far in {line.get("lastTimestamp", line.get("startTimestamp")) for line in lines}
    for command in ("stats", "offsets", "explain", "verify", "ls"):
        assert "Error" not in call(command, data).stderr


def test_what_the_coordinators_say(tmp_path: Path) -> None:
    """Without their logs nobody knows; with all of them, a transaction that none has hangs."""
    log_dir = tmp_path / "logs"
    shutil.copytree(GOLDEN_TXN, log_dir)
    ours = {16, 17}
    for row in tables.open_transactions(log_dir).to_pylist():
        assert (row["transactionalId"], row["state"], row["isHanging"]) == (None, None, None)
    second = COORDINATORS / "data-1" / "__transaction_state-1"
    shutil.copytree(second, log_dir / second.name)
    states = coordinator_states(log_dir / second.name)
    # Partition 0 is missing: who is in partition 1 is known to hang, of the others nobody can say.
    for row in tables.open_transactions(log_dir).to_pylist():
        assert row["isHanging"] == (True if row["producerId"] in states else None)
    first = COORDINATORS / "data-0" / "__transaction_state-0"
    shutil.copytree(first, log_dir / first.name)
    states = coordinator_states(log_dir / second.name, log_dir / first.name)
    rows = tables.open_transactions(log_dir).to_pylist()
    assert {row["producerId"] for row in rows if row["topic"] == "txn-open"} == ours
    for row in rows:
        known = states.get(row["producerId"])
        assert row["transactionalId"] == (known["id"] if known else None)
        # No coordinator of that cluster counts this topic's partition among those of a transaction.
        assert row["isHanging"] is True


def test_a_partition_is_joined_with_the_logs_beside_it(tmp_path: Path) -> None:
    """An open transaction that its coordinator knows does not hang."""
    roots = [
        root for root in corpus.roots() if (root / "txn").is_dir() and any(root.glob("txn/*/__transaction_state-0"))
    ]
    if not roots:
        pytest.skip("no coordinators' logs beside open transactions in this corpus")
    dirs = sorted(path for path in (roots[0] / "txn").glob("data-*"))
    rows = [row for row in tables.open_transactions(dirs).to_pylist() if row["topic"] == "txn-open"]
    states = coordinator_states(*(log for path in dirs for log in path.glob("__transaction_state-*")))
    assert rows
    for row in rows:
        assert row["transactionalId"] == states[row["producerId"]]["id"]
        assert (row["state"], row["isHanging"]) == ("Ongoing", False)


def test_paths_that_are_none(tmp_path: Path) -> None:
    for table in (tables.producers, tables.open_transactions):
        with pytest.raises(FileNotFoundError):
            table(tmp_path / "gone")
        assert table(GOLDEN_TXN / "txn-open-0").num_rows > 0
        assert table([GOLDEN_TXN, corpus.GOLDEN / "txn" / "data-0"]).num_rows > 0
