"""Kafka's own classes read every file of a log dir that was written here: none of it has seen a broker."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from interop.test_answers import walk

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

pytestmark = pytest.mark.interop

BROKER = corpus.GOLDEN / "clean-restarts" / "data-1"
COPIED = ("ledger", "orders")
CLUSTER, DIRECTORY = "wSEF3x_skGACboDxfWacZQ", "myr0RHJeckaj45FD5XuN7g"
TOPIC_ID = "0rtfp9DjROqBpwPllfDtAQ"
NOW = 1_700_030_400_000


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of one answer of the witness."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


def without_stable(aborted: dict[str, Any]) -> dict[str, Any]:
    """Leave the last stable offset out.

    A follower reads the whole of an append before it computes it, so it may be the first offset of a later transaction.
    """
    return {name: value for name, value in aborted.items() if name != "last_stable_offset"}


def written(home: Path) -> Path:
    """Write a log dir: transactions and idempotent producers copied from a broker's, and records of our own."""
    for topic in COPIED:
        with kafkalog.LogWriter(
            home / "data-0",
            topic,
            config=kafkalog.LogConfig(segment_bytes=20_000, index_interval_bytes=200),
            cluster_id=CLUSTER,
            node_id=7,
            directory_id=DIRECTORY,
            clock=lambda: NOW,
        ) as writer:
            writer.append_batches(BROKER / f"{topic}-0")
    with kafkalog.LogWriter(home / "data-0", "own", 3, topic_id=TOPIC_ID, leader_epoch=5) as writer:
        writer.append([kafkalog.Record(b"v%d" % n, b"k", NOW + n) for n in range(100)])
    with kafkalog.LogWriter(home / "data-0", "ties", config=kafkalog.LogConfig(segment_bytes=100)) as writer:
        # Two segments have the greatest timestamp, neither of them the first or the last.
        for later in (0, 9, 3, 9, 5):
            writer.append([kafkalog.Record(b"v", b"k", NOW + later)])
    expected = home / "expected"
    expected.mkdir()
    (expected / "case.json").write_text(json.dumps({"kafka_version": "4.3.1", "topics": {}}), encoding="utf-8")
    return expected


def test_kafkas_classes_read_a_log_dir_made_here(witness: Witness, tmp_path: Path) -> None:
    """We agree with Kafka's classes on identity, checkpoints, epochs, ids, indexes, snapshots, batches and records."""
    expected = written(tmp_path / "made")
    witness.run("expect", str(tmp_path / "made"))
    walk(tmp_path / "made")
    answers = lines(expected / "data-0.checkpoints.jsonl")
    offsets = [("ledger", 0, 954), ("orders", 0, 880), ("own", 3, 100), ("ties", 0, 5)]
    each = [{"topic": t, "partition": p, "offset": o} for t, p, o in offsets]
    assert answers == [
        {"file": ".kafka_cleanshutdown", "kind": "clean_shutdown"},
        {"broker_epoch": -1},
        {"file": "log-start-offset-checkpoint", "kind": "offset_checkpoint"},
        {"file": "meta.properties", "kind": "meta_properties"},
        {"cluster.id": CLUSTER, "directory.id": DIRECTORY, "node.id": "7", "version": "1"},
        {"file": "recovery-point-offset-checkpoint", "kind": "offset_checkpoint"},
        *each,
        {"file": "replication-offset-checkpoint", "kind": "offset_checkpoint"},
        *each,
    ]
    own = expected / "own-3"
    assert lines(own / "index.partition.metadata.jsonl.gz")[1] == {"version": 0, "topic_id": TOPIC_ID}
    assert lines(own / "index.leader-epoch-checkpoint.jsonl.gz")[1:] == [{"epoch": 5, "start_offset": 0}]


def test_snapshots_and_transactions_are_those_of_the_broker(witness: Witness, tmp_path: Path) -> None:
    """A copied log ends with the producers the broker knew (it had forgotten some by then), and its aborted ones."""
    expected = written(tmp_path / "made")
    witness.run("expect", str(tmp_path / "made"))
    for topic in COPIED:
        ours = sorted((expected / f"{topic}-0").glob("index.*.snapshot.jsonl.gz"))
        theirs = sorted((BROKER.parent / "expected" / f"{topic}-0").glob("index.*.snapshot.jsonl.gz"))
        assert ours[-1].name == theirs[-1].name
        known = {p["producer_id"]: p for p in lines(ours[-1])[1:]}
        for producer in lines(theirs[-1])[1:]:
            assert known[producer["producer_id"]] == producer
        aborted = [
            [without_stable(line) for path in files for line in lines(path)[1:]]
            for files in (
                sorted((expected / f"{topic}-0").glob("index.*.txnindex.jsonl.gz")),
                sorted((BROKER.parent / "expected" / f"{topic}-0").glob("index.*.txnindex.jsonl.gz")),
            )
        ]
        assert aborted[0] == aborted[1]
        assert (len(aborted[0]) > 0) == (topic == "ledger")
