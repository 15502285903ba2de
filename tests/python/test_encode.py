"""Records of internal topics, encoded from what was decoded of them: the bytes that brokers wrote."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import corpus
import kafkalog
from kafkalog import _core, tables

METADATA = "__cluster_metadata"
# Disks of dead clusters; the project's own checks need no such corpus.
CLUSTERS = sorted(Path(__file__).parents[3].glob("shared/corpus/clusters/*/node-*/*/__*"))
FOLDERS = [Path(p.folder) for p in corpus.partitions() if p.topic.startswith("__")] + CLUSTERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "-".join(folder.parts[-3:]))
def test_what_is_decoded_is_encoded_again(folder: Path) -> None:
    topic = folder.name.rpartition("-")[0]
    decoded = tables.records(folder, secrets=True).to_pylist()
    raw = kafkalog.read_table(folder, columns=["offset", "key", "value"])
    written = {row["offset"]: (row["key"], row["value"]) for row in raw.to_pylist()}
    for row in decoded:
        if row["type"] is None or row["keyBytes"] or row["valueBytes"] or row["segment"].endswith(".checkpoint"):
            continue
        again = _core.encode_record(topic, row["type"], row["valueVersion"] or 0, row["key"], row["value"])
        assert again == written[row["offset"]], row


def test_there_are_folders() -> None:
    assert len([folder for folder in FOLDERS if folder not in CLUSTERS]) > 5


def snapshot(folder: Path, records: list[tuple[str, int, str]], **how: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(_core.write_metadata_snapshot(str(folder), 162, 3, records, timestamp=1_700_000_000_000, **how))


def findings(folder: Path) -> list[str]:
    """Find the errors of a snapshot, or of anything else in its folder."""
    (folder / f"{162:020}.log").touch()
    return [row["message"] for row in kafkalog.verify(folder).to_pylist()]


def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    names = [f"topic-{n}" for n in range(30_000)]
    records = [
        ("TOPIC_RECORD", 0, json.dumps({"name": name, "topicId": f"{n:022}"[:21] + "A"}))
        for n, name in enumerate(names)
    ]
    voters = {
        "version": 0,
        "voters": [
            {
                "voterId": 1,
                "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAZw",
                "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
                "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
            }
        ],
    }
    folder = tmp_path / f"{METADATA}-0"
    written = snapshot(folder, records, voters=json.dumps(voters))
    assert written.name == "00000000000000000162-0000000003.checkpoint"
    assert [each.name for each in folder.iterdir()] == [written.name]
    assert findings(folder) == []
    read = tables.records(folder).to_pylist()
    assert [json.loads(row["value"])["name"] for row in read] == names
    # Three control records are before them.
    assert [row["offset"] for row in read] == list(range(3, 3 + len(names)))
    assert {row["timestamp"].timestamp() for row in read} == {1_700_000_000}


def test_without_voters_there_is_a_header_alone(tmp_path: Path) -> None:
    folder = tmp_path / f"{METADATA}-0"
    snapshot(folder, [("NO_OP_RECORD", 0, "{}")])
    assert findings(folder) == []
    assert [row["offset"] for row in tables.records(folder).to_pylist()] == [1]


def test_a_record_that_cannot_be_encoded_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="TopicRecord of version 0: topicId: expected a value, found none"):
        snapshot(tmp_path / f"{METADATA}-0", [("TOPIC_RECORD", 0, '{"name":"a"}')])
    assert list((tmp_path / f"{METADATA}-0").iterdir()) == []
    with pytest.raises(ValueError, match="expected an offset and an epoch from 0 on, found -1 and 0"):
        _core.write_metadata_snapshot(str(tmp_path), -1, 0, [], timestamp=0)


def test_secrets_that_are_hidden_are_not_encoded() -> None:
    user = {"name": "u", "mechanism": 1, "salt": "***", "storedKey": "", "serverKey": "", "iterations": 4096}
    with pytest.raises(ValueError, match=r"salt: expected a string of base64, found \"\*\*\*\""):
        _core.encode_record(METADATA, "USER_SCRAM_CREDENTIAL_RECORD", 0, None, json.dumps(user))
    user["salt"] = base64.b64encode(b"salt").decode()
    _, value = _core.encode_record(METADATA, "USER_SCRAM_CREDENTIAL_RECORD", 0, None, json.dumps(user))
    assert value is not None
    assert value.startswith(b"\x01\x0b\x00\x02u\x01\x05salt")
    with pytest.raises(ValueError, match="orders: expected an internal topic"):
        _core.encode_record("orders", "TOPIC_RECORD", 0, None, "{}")
