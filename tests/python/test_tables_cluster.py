"""The metadata image: replayed up to each snapshot, it is what Kafka wrote into that snapshot."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import corpus
from kafkalog import tables

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from corpus import Partition

pytestmark = pytest.mark.corpus

METADATA = [p for p in corpus.partitions() if p.has("table") and p.topic == "__cluster_metadata"]
SNAPSHOTS = [
    (partition, snapshot)
    for partition in METADATA
    for snapshot in sorted({line["file"] for line in partition.lines("table") if line["file"].endswith(".checkpoint")})
    # The snapshot at 0 is what a cluster begins with (4.4): no records lead to it.
    if (partition.folder / f"{0:020}.log").exists() and int(snapshot[:20]) > 0
]
FOLDER = corpus.GOLDEN / "metadata" / "data-0" / "__cluster_metadata-0"


def things(rows: list[tuple[str, Any]]) -> list[str]:
    for _, value in rows:
        # A map, in Kafka.
        value.get("features", []).sort(key=lambda feature: feature["name"])
    return sorted(f"{kind} {json.dumps(value, sort_keys=True)}" for kind, value in rows)


def image(table: pa.Table) -> list[str]:
    return things([(row["type"], json.loads(row["value"])) for row in table.to_pylist()])


@pytest.mark.parametrize(
    ("partition", "snapshot"), SNAPSHOTS, ids=lambda given: given if isinstance(given, str) else given.id
)
def test_replayed_to_a_snapshot_it_is_that_snapshot(partition: Partition, snapshot: str, tmp_path: Path) -> None:
    """From the first record on, without any snapshot, up to where Kafka made this one."""
    end = int(snapshot[:20])
    answers = partition.lines("table")
    expected = things([(line["type"], line["data"]) for line in answers if line["file"] == snapshot])
    copied = cut(partition, end, tmp_path / "cut")
    found = image(tables.cluster_metadata(copied, secrets=True))
    assert ({*found} - {*expected}, {*expected} - {*found}) == (set(), set())
    assert found == expected


def cut(partition: Partition, end: int, into: Path) -> Path:
    """Copy the log up to an offset: whole batches, as a snapshot ends with one."""
    folder = into / partition.folder.name
    folder.mkdir(parents=True)
    for file in sorted(partition.folder.glob("*.log")):
        if int(file.name[:20]) < end:
            data, at = file.read_bytes(), 0
            while at < len(data) and int.from_bytes(data[at + 8 : at + 12], "big") > 0:
                if int.from_bytes(data[at : at + 8], "big") >= end:
                    break
                at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            (folder / file.name).write_bytes(data[:at])
    return folder


def test_there_are_snapshots_of_many_things() -> None:
    assert len(SNAPSHOTS) >= 4
    kinds = {line["type"] for partition, name in SNAPSHOTS for line in partition.lines("table") if line["file"] == name}
    assert {"PARTITION_RECORD", "CONFIG_RECORD", "ACCESS_CONTROL_ENTRY_RECORD", "CLIENT_QUOTA_RECORD"} < kinds


@pytest.mark.parametrize("partition", METADATA, ids=lambda p: p.id)
def test_a_snapshot_stands_for_the_log_before_it(partition: Partition, tmp_path: Path) -> None:
    whole = tables.cluster_metadata(partition.folder, secrets=True)
    folder = tmp_path / partition.folder.name
    shutil.copytree(partition.folder, folder)
    for snapshot in folder.glob("*.checkpoint"):
        snapshot.unlink()
    if (partition.folder / f"{0:020}.log").exists():
        assert image(tables.cluster_metadata(folder, secrets=True)) == image(whole)


def test_topics() -> None:
    rows = tables.topics(FOLDER).to_pylist()
    assert rows == sorted(rows, key=lambda row: (row["topic"], row["partition"]))
    by_place = {(row["topic"], row["partition"]): row for row in rows}
    folders = {folder.name for folder in FOLDER.parent.parent.glob("data-*/topic-*")}
    assert {f"{topic}-{partition}" for topic, partition in by_place} >= folders
    row = by_place["topic-0-1", 0]
    assert dict(row["configs"])["max.message.bytes"] == "900001"
    assert row["replicas"] == [1]
    assert row["partitionEpoch"] > row["leaderEpoch"] - 2


def test_history_of_topics() -> None:
    changes = tables.topics(FOLDER, history=True).to_pylist()
    now = {(row["topicId"], row["partition"]): row for row in tables.topics(FOLDER).to_pylist()}
    last = {(row["topicId"], row["partition"]): row for row in changes}
    assert {place for place, row in last.items() if row["leader"] is not None} == set(now)
    for place, row in now.items():
        assert {name: last[place][name] for name in row if name != "configs"} == {
            name: row[name] for name in row if name != "configs"
        }
    removed = [row for row in changes if row["leader"] is None]
    assert removed
    assert all(row["topic"] for row in removed)


def test_the_others() -> None:
    (broker,) = tables.brokers(FOLDER).to_pylist()
    assert broker["brokerId"] == 1
    assert broker["endPoints"][0]["securityProtocol"] == "PLAINTEXT"
    # The broker of this log was shut down.
    assert broker["fenced"]
    acls = tables.acls(FOLDER).to_pylist()
    assert {row["patternType"] for row in acls} == {"LITERAL", "PREFIXED"}
    assert {row["permissionType"] for row in acls} <= {"ALLOW", "DENY"}
    quotas = tables.quotas(FOLDER).to_pylist()
    assert {
        "entity": [{"entityType": "user", "entityName": "alice"}],
        "key": "producer_byte_rate",
        "value": 3072.0,
    } in quotas
    features = {row["name"]: row["featureLevel"] for row in tables.features(FOLDER).to_pylist()}
    assert features["metadata.version"] == 30
    for name in ("brokers", "acls", "quotas", "features"):
        changes = getattr(tables, name)(FOLDER, history=True)
        assert changes.num_rows
        assert changes["logOffset"].to_pylist() == sorted(changes["logOffset"].to_pylist())


def test_secrets() -> None:
    def scram(**options: Any) -> list[dict[str, Any]]:
        found = tables.cluster_metadata(FOLDER, history=True, **options).to_pylist()
        return [json.loads(row["value"]) for row in found if row["type"].startswith("USER_SCRAM") and row["value"]]

    assert {value["salt"] for value in scram()} == {"***"}
    assert "***" not in {value["salt"] for value in scram(secrets=True)}
