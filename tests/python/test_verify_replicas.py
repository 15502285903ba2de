"""``kafkalog.verify``: partition folders against the replicas that the metadata log assigns to the node."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog import _core, tables

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

CASE = corpus.GOLDEN / "clean-restarts"
METADATA = "__cluster_metadata"
CLUSTER = "wSEF3x_skGACboDxfWacZQ"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TOPIC_ID = "0rtfp9DjROqBpwPllfDtAQ"
HERE, ELSEWHERE = "AQEBAQEBAQEBAQEBAQEBAQ", "AgICAgICAgICAgICAgICAg"
CODES = ("replica-", "partition-", "topic-")


def said(path: Path | list[Path]) -> dict[str, tuple[str, str]]:
    """Give severity and code of what is said about replicas, by topic and partition."""
    rows = [row for row in kafkalog.verify(path).to_pylist() if row["code"].startswith(CODES)]
    found = {f"{row['topic']}-{row['partition']}": (row["severity"], row["code"]) for row in rows}
    assert len(found) == len(rows)
    return found


def record(kind: str, version: int, **fields: Any) -> kafkalog.Record:
    _, value = _core.encode_record(METADATA, kind, version, None, json.dumps(fields))
    return kafkalog.Record(value=value)


def partition(number: int, replicas: list[int], isr: list[int], directories: list[str] | None) -> kafkalog.Record:
    given = {} if directories is None else {"directories": directories}
    return record(
        "PARTITION_RECORD",
        0 if directories is None else 1,
        partitionId=number,
        topicId=TOPIC_ID,
        replicas=replicas,
        isr=isr,
        removingReplicas=[],
        addingReplicas=[],
        leader=replicas[0],
        leaderEpoch=0,
        partitionEpoch=0,
        **given,
    )


def change(number: int, **fields: Any) -> kafkalog.Record:
    return record("PARTITION_CHANGE_RECORD", 1, partitionId=number, topicId=TOPIC_ID, **fields)


def write(log_dir: Path, topic: str, number: int, topic_id: str, *records: kafkalog.Record) -> None:
    identity = {"topic_id": topic_id, "cluster_id": CLUSTER, "node_id": 1, "directory_id": HERE}
    with kafkalog.LogWriter(log_dir, topic, number, **identity) as log:  # type: ignore[arg-type]
        log.append(list(records))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """The log dir of node 1, which has partitions 0 to 4 of topic t."""
    made = tmp_path / "data"
    made.mkdir()
    for number in range(5):
        write(made, "t", number, TOPIC_ID, kafkalog.Record(value=b"x"))
    return made


def test_replicas_of_the_metadata_log(log_dir: Path) -> None:
    write(
        log_dir,
        METADATA,
        0,
        METADATA_TOPIC_ID,
        record("TOPIC_RECORD", 0, name="t", topicId=TOPIC_ID),
        partition(0, [1, 2], [1, 2], [HERE, ELSEWHERE]),
        # Never here; moved away; out of sync; not in the metadata log.
        partition(1, [2, 3], [2, 3], [ELSEWHERE, ELSEWHERE]),
        partition(2, [1, 2], [1, 2], [HERE, ELSEWHERE]),
        change(2, replicas=[3, 2], isr=[2], directories=[ELSEWHERE, ELSEWHERE]),
        partition(3, [1, 2], [1, 2], [HERE, ELSEWHERE]),
        change(3, isr=[2], leader=2),
        # Not here: of another node, of another directory, of this one.
        partition(5, [2], [2], [ELSEWHERE]),
        partition(6, [1], [1], [ELSEWHERE]),
        partition(7, [1], [1], [HERE]),
        partition(8, [2, 1], [2], [ELSEWHERE, HERE]),
        # Before KIP-858 the metadata log did not know directories.
        partition(9, [1], [1], None),
    )
    (log_dir / "replication-offset-checkpoint").write_text("0\n2\nt 0 1\nt 7 4\n", encoding="ascii")
    assert said(log_dir) == {
        "t-1": ("warning", "replica-moved"),
        "t-2": ("warning", "replica-moved"),
        "t-3": ("info", "replica-out-of-sync"),
        "t-4": ("warning", "partition-unknown"),
        "t-7": ("error", "replica-missing"),
        "t-8": ("info", "replica-not-created"),
    }
    rows = {f"{row['topic']}-{row['partition']}": row for row in kafkalog.verify(log_dir).to_pylist()}
    log = log_dir / f"{METADATA}-0"
    assert rows["t-2"]["message"] == f"replicas: expected node 1 among them, found [3, 2] in {log}"
    assert rows["t-3"]["message"] == f"isr: expected node 1 among them, found [2] in {log}"
    assert rows["t-7"]["file"] == str(log_dir / "t-7")
    # A folder that waits to be deleted, and a copy that is to replace the one in another directory.
    (log_dir / "t-1").rename(log_dir / f"t-1.{'0' * 32}-delete")
    (log_dir / "t-0").rename(log_dir / f"t-7.{'0' * 32}-future")
    left = said(log_dir)
    assert "t-1" not in left
    assert "t-7" not in left
    assert left["t-0"] == ("error", "replica-missing")


def test_a_version_that_is_not_known_says_nothing(log_dir: Path) -> None:
    unknown = kafkalog.Record(value=b"\1\5\x7f")
    topic = record("TOPIC_RECORD", 0, name="t", topicId=TOPIC_ID)
    write(log_dir, METADATA, 0, METADATA_TOPIC_ID, topic)
    assert set(said(log_dir).values()) == {("warning", "partition-unknown")}
    write(log_dir, METADATA, 0, METADATA_TOPIC_ID, unknown)
    assert said(log_dir) == {}


def test_a_folder_that_a_broker_had_and_that_is_gone(tmp_path: Path) -> None:
    """Both log dirs of a broker that was stopped; the first has the metadata log."""
    dirs = [tmp_path / name for name in ("data-0", "data-1")]
    for each in dirs:
        shutil.copytree(CASE / each.name, each)
    assert said(dirs) == {}
    topics = {f"{row['topic']}-{row['partition']}" for row in tables.topics(dirs).to_pylist()}
    live = {folder.name for each in dirs for folder in each.iterdir() if folder.is_dir()}
    assert topics == live - {f"{METADATA}-0"}
    shutil.rmtree(dirs[1] / "orders-0")
    assert said(dirs) == {"orders-0": ("error", "replica-missing")}
    # The other directory alone is not asked about it, and without the metadata log nobody can tell.
    assert said(dirs[0]) == {}
    assert said(dirs[1]) == {}
    # It is in the other directory: a move that was not told to the controller.
    shutil.copytree(CASE / "data-1" / "orders-0", dirs[0] / "orders-0")
    assert said(dirs) == {}


@pytest.mark.parametrize("node", sorted(path.parent for root in corpus.roots() for path in root.rglob("node-*/data-0")))
def test_nodes_of_a_cluster_have_what_is_assigned_to_them(node: Path) -> None:
    rows = kafkalog.verify(sorted(path for path in node.iterdir() if path.is_dir())).to_pylist()
    assert {row["code"] for row in rows if row["code"].startswith(CODES)} <= {"replica-out-of-sync"}
