"""Disks of dead clusters: those of the shared corpus, which real brokers left, and small ones that tests make."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kafkalog
from kafkalog import LogConfig, LogWriter, Record, _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog.rescue.model import Choice

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "corpus" / "clusters"
FOLDER = Path(os.environ.get("KAFKALOG_CLUSTERS", str(_SHARED)))
CASES = sorted(each.parent.name for each in FOLDER.glob("*/case.json"))

CLUSTER_ID = "uxrVcxm4nNho-w5vaE35kg"
TOPIC_ID = "Kg9G5ejeSYObKLC0PvPpSw"
OTHER_ID = "agWSv5uSTbmkO_DNaK0Yww"
# Of another cluster: itself, a topic, a log dir.
OTHER_CLUSTER, NEW_ID, DIRECTORY = "Zq1vM2cXQ0mV3sVgk1B4TA", "mXtcpR0ZTQSqR7nnDWGQ0g", "kZ8gCs0wQEOBzjqd2T6tyA"
METADATA = "__cluster_metadata"


@dataclass(frozen=True)
class Sent:
    """A record that a producer sent with ``acks=all`` and got acknowledged, outside of transactions."""

    topic: str
    partition: int
    offset: int
    key: str | None
    digest: str | None


def nodes(case: str) -> list[int]:
    return nodes_of(FOLDER / case)


def nodes_of(folder: Path) -> list[int]:
    """Return the nodes of a case, by id."""
    return sorted(int(each.name.split("-")[1]) for each in folder.glob("node-*"))


def disks(case: str, without: Iterable[int] = ()) -> list[str]:
    """Return the log dirs of a case of the corpus, but for those of some nodes."""
    return disks_of(FOLDER / case, without)


def disks_of(folder: Path, without: Iterable[int] = ()) -> list[str]:
    """Return the log dirs of a case, but for those of some nodes."""
    left = [node for node in nodes_of(folder) if node not in set(without)]
    return [str(each.parent) for node in left for each in sorted((folder / f"node-{node}").glob("*/meta.properties"))]


def answer(case: str, name: str) -> Any:
    return json.loads((FOLDER / case / "expected" / name).read_text())


def lines(case: str, name: str) -> list[dict[str, Any]]:
    path = FOLDER / case / "expected" / name
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.splitlines()]


def acknowledged(case: str) -> list[Sent]:
    """Return what producers were told is safe."""
    return [
        Sent(each["t"], each["p"], each["o"], each["k"], each["h"])
        for each in lines(case, "records.jsonl.gz")
        if each["ok"] and each["acks"] == "all" and "txn" not in each
    ]


def records(folder: str, first: int, end: int) -> dict[int, tuple[str | None, str | None]]:
    """Return the keys and digests of a replica's records in a range, by offset; whatever the log start offset."""
    columns = ["offset", "key", "value"]
    table = kafkalog.read_table(
        folder, columns=columns, starting_offsets="oldest", on_corrupt="skip", include_inactive=True
    )
    found = {}
    for row in table.to_pylist():
        if first <= row["offset"] < end:
            key, value = row["key"], row["value"]
            found[row["offset"]] = (
                None if key is None else key.decode(),
                None if value is None else hashlib.sha256(value).hexdigest()[:16],
            )
    return found


def taken(choice: Choice) -> dict[int, tuple[str | None, str | None]]:
    """Return what the pieces of a choice give."""
    found: dict[int, tuple[str | None, str | None]] = {}
    for piece in choice.pieces:
        found |= records(piece.replica.path, piece.first_offset, piece.end_offset)
    return found


def contents(root: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(each.relative_to(root)): each.read_bytes() for each in sorted(root.rglob("*")) if each.is_file()}


def make_disk(root: Path, node: int, *, cluster_id: str = CLUSTER_ID) -> Path:
    """Make an empty log dir of a node."""
    root.mkdir(parents=True)
    directory = hashlib.sha256(str(root).encode()).hexdigest()[:22]
    text = f"version=1\nnode.id={node}\ncluster.id={cluster_id}\ndirectory.id={directory}\n"
    (root / "meta.properties").write_text(text)
    return root


def write_log(
    log_dir: Path, epochs: dict[int, int], *, topic: str = "orders", topic_id: str = TOPIC_ID, word: str = "epoch"
) -> Path:
    """Write a log of so many batches of each leader epoch, two records each; a segment has about eight."""
    config = LogConfig(segment_bytes=1024)
    for epoch, batches in epochs.items():
        with LogWriter(log_dir, topic, config=config, topic_id=topic_id, leader_epoch=epoch) as writer:
            for n in range(batches):
                end = writer.log_end_offset
                value = f"{word} {epoch}, offset {end}".encode()
                writer.append([Record(value=value, key=str(n).encode()), Record(value=value)])
    _kill(log_dir)
    return log_dir / f"{topic}-0"


def _kill(log_dir: Path) -> None:
    """Take away what a broker writes when it stops, and the high watermark of a writer, which has no followers."""
    for name in (".kafka_cleanshutdown", "replication-offset-checkpoint"):
        (log_dir / name).unlink(missing_ok=True)


def copy_log(folder: Path, log_dir: Path) -> Path:
    """Copy a partition folder, as a follower would have it."""
    shutil.copytree(folder, log_dir / folder.name)
    return log_dir / folder.name


def truncate(folder: Path, offset: int) -> None:
    """Truncate a log, as a follower that was away."""
    topic, partition = folder.name.rsplit("-", 1)
    with LogWriter(folder.parent, topic, int(partition)) as writer:
        writer.truncate(offset)
    for left in folder.glob("*.deleted"):
        left.unlink()
    _kill(folder.parent)


def damage(folder: Path, segment: int, position: int = 0, length: int = 70) -> None:
    """Overwrite bytes of the n-th segment."""
    file = sorted(folder.glob("*.log"))[segment]
    data = bytearray(file.read_bytes())
    data[position : position + length] = b"\xa5" * len(data[position : position + length])
    file.write_bytes(data)


def add_metadata(log_dir: Path, topics: dict[str, str], *, isr: Sequence[int] = (1, 2), end: int = 100) -> None:
    """Give a disk the metadata log of a broker that has just made a snapshot: topics of one partition, by name."""
    records: list[tuple[str, int, dict[str, Any]]] = [
        ("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 25})
    ]
    for name, topic_id in topics.items():
        partition = {
            "partitionId": 0,
            "topicId": topic_id,
            "replicas": list(isr),
            "isr": list(isr),
            "removingReplicas": [],
            "addingReplicas": [],
            "leader": isr[0],
            "leaderEpoch": 4,
            "partitionEpoch": 9,
            "directories": ["AAAAAAAAAAAAAAAAAAAAAQ"] * len(isr),
        }
        records += [("TOPIC_RECORD", 0, {"name": name, "topicId": topic_id}), ("PARTITION_RECORD", 1, partition)]
    folder = log_dir / f"{METADATA}-0"
    folder.mkdir()
    plain = [(kind, version, json.dumps(value)) for kind, version, value in records]
    _core.write_metadata_snapshot(str(folder), end, 3, plain, timestamp=1_700_000_000_000)


def make_cluster(root: Path) -> list[Path]:
    """Make the disks of two nodes that were in sync: a topic with damage in one of its replicas, and one without."""
    disks = [make_disk(root / f"node-{n}", n) for n in (1, 2)]
    for topic, topic_id in (("orders", TOPIC_ID), ("payments", OTHER_ID)):
        copy_log(write_log(disks[0], {0: 20, 4: 20}, topic=topic, topic_id=topic_id), disks[1])
    for disk in disks:
        add_metadata(disk, {"orders": TOPIC_ID, "payments": OTHER_ID})
    damage(disks[0] / "orders-0", 1)
    return disks


def make_other(
    root: Path,
    *,
    topic: str = "orders",
    voters: Sequence[int] = (7,),
    next_producer_id: int = 1000,
    **of_partition: Any,
) -> Path:
    """Make the log dir of node 7 of another cluster, which has an empty topic."""
    disk = make_disk(root, 7, cluster_id=OTHER_CLUSTER)
    meta = (disk / "meta.properties").read_text()
    (disk / "meta.properties").write_text(re.sub(r"directory\.id=.*", f"directory.id={DIRECTORY}", meta))
    partition = {
        "partitionId": 0,
        "topicId": NEW_ID,
        "replicas": [7],
        "isr": [7],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": 7,
        "leaderEpoch": 1,
        "partitionEpoch": 1,
        "directories": [DIRECTORY],
        **of_partition,
    }
    records: list[tuple[str, int, dict[str, Any]]] = [
        ("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 25}),
        ("TOPIC_RECORD", 0, {"name": topic, "topicId": NEW_ID}),
        ("PARTITION_RECORD", 1, partition),
        ("PRODUCER_IDS_RECORD", 0, {"brokerId": 7, "brokerEpoch": 1, "nextProducerId": next_producer_id}),
    ]
    with LogWriter(disk, METADATA, 0, leader_epoch=2) as writer:
        encoded = [_core.encode_record(METADATA, kind, at, None, json.dumps(value)) for kind, at, value in records]
        writer.append([Record(value=value, key=None) for _, value in encoded])
    state = {"currentVoters": [{"voterId": voter} for voter in voters]}
    (disk / f"{METADATA}-0" / "quorum-state").write_text(json.dumps(state))
    (disk / "replication-offset-checkpoint").write_text("0\n2\norders 0 0\nkept 3 5\n")
    return disk
