"""Internal topics, decoded: what Kafka's own serdes and JSON converters said of every record of every corpus."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
from command import call
from kafkalog import tables

if TYPE_CHECKING:
    from pathlib import Path

    from corpus import Line, Partition

pytestmark = pytest.mark.corpus

METADATA = "__cluster_metadata"
ORACLE_ADDS = {"subscription_decoded", "assignment_decoded"}
COLUMNS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "segment": pa.string(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "type": pa.string(),
    "keyVersion": pa.int16(),
    "valueVersion": pa.int16(),
    "key": pa.string(),
    "value": pa.string(),
    "keyBytes": pa.binary(),
    "valueBytes": pa.binary(),
}
INTERNAL = [p for p in corpus.partitions() if p.has("table")]


def text(parsed: Any) -> str | None:
    """Spell JSON as Kafka's tools do, without what the oracle added."""

    def own(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: own(each) for name, each in value.items() if name not in ORACLE_ADDS}
        return [own(each) for each in value] if isinstance(value, list) else value

    return None if parsed is None else json.dumps(own(parsed), separators=(",", ":"), ensure_ascii=False)


def expected(partition: Partition, line: Line) -> dict[str, Any]:
    """Give the row of an answer of Kafka's."""
    is_metadata = partition.topic == METADATA
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "segment": line["file"],
        "offset": line["offset"],
        "timestamp": line["timestamp"],
        "keyVersion": None if is_metadata else line["key_type"],
        "valueVersion": line["version"] if is_metadata else line["value_version"],
        "key": None if is_metadata else text(line["key"]),
        "value": text(line["data"] if is_metadata else line["value"]),
        "keyBytes": None,
        "valueBytes": None,
    }


def rows(table: pa.Table) -> list[dict[str, Any]]:
    place = table.schema.get_field_index("timestamp")
    return list(table.set_column(place, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist())


def undecoded(table: pa.Table) -> int:
    return int((table.schema.metadata or {})[b"kafkalog.undecoded"])


@pytest.mark.parametrize("partition", INTERNAL, ids=lambda p: p.id)
def test_every_record_is_what_kafka_says(partition: Partition) -> None:
    table = tables.records(partition.folder, secrets=True)
    assert {field.name: field.type for field in table.schema} == COLUMNS
    assert undecoded(table) == 0
    lines = partition.lines("table")
    found = rows(table)
    kinds = [row.pop("type") for row in found]
    assert found == [expected(partition, line) for line in lines]
    if partition.topic == METADATA:
        assert kinds == [line["type"] for line in lines]
    else:
        # Kafka gives kinds numbers; the same number always has the same name.
        assert None not in kinds
        numbers = {line["key_type"] for line in lines}
        assert len(set(kinds)) == len(numbers) == len({*zip(kinds, (line["key_type"] for line in lines), strict=True)})


SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
TIERED = sorted(path for root in corpus.roots() for path in root.rglob("remote-log-metadata.jsonl.gz"))


def of_remote(said: Any) -> dict[str, Any]:
    """Give what both kinds of records about a remote segment say, by the names of the answers."""
    segment = said["remoteLogSegmentId"]
    return {
        "topic": segment["topicIdPartition"]["name"],
        "topic_id": segment["topicIdPartition"]["id"],
        "partition": segment["topicIdPartition"]["partition"],
        "segment_id": segment["id"],
        "broker": said["brokerId"],
        "event_timestamp": said["eventTimestampMs"],
        "custom_metadata": said["customMetadata"],
        "state": SEGMENT_STATES[said["remoteLogSegmentState"]],
    }


def of_remote_segment(said: Any) -> dict[str, Any]:
    """Give what a record about a new remote segment says, by the names of the answers."""
    return {
        **of_remote(said),
        "start_offset": said["startOffset"],
        "end_offset": said["endOffset"],
        "max_timestamp": said["maxTimestampMs"],
        "size": said["segmentSizeInBytes"],
        "leader_epochs": {str(each["leaderEpoch"]): each["offset"] for each in said["segmentLeaderEpochs"]},
        "txn_index_empty": said.get("txnIndexEmpty", False),
    }


@pytest.mark.parametrize("answers", TIERED, ids=lambda path: path.parents[1].name)
def test_remote_log_metadata_of_a_corpus(answers: Path) -> None:
    """Only a larger corpus has it (``KAFKALOG_CORPUS``); ``test_dump`` has some records of it."""
    with gzip.open(answers, "rt", encoding="utf-8") as lines:
        expected_rows = [json.loads(line) for line in lines]
    dirs = [path for path in sorted(answers.parents[1].glob("data-*")) if (path / "__remote_log_metadata-0").is_dir()]
    table = tables.records(dirs[-1], "__remote_log_metadata")
    assert undecoded(table) == 0
    found = []
    for row in rows(table):
        said = json.loads(row["value"])
        kind = "segment" if "startOffset" in said else "update"
        own = of_remote_segment(said) if kind == "segment" else of_remote(said)
        place = {"metadata_partition": row["partition"], "offset": row["offset"], "timestamp": row["timestamp"]}
        found.append({**place, "type": kind, **own})
    assert found == expected_rows


def test_a_corpus_has_all_topics_and_many_kinds() -> None:
    """Else the comparison above would show little."""
    assert {p.topic for p in INTERNAL} >= {
        METADATA,
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
    }
    found = {(p.topic, line.get("key_type", line.get("type"))) for p in INTERNAL for line in p.lines("table")}
    assert len(found) > 30


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Give a log dir with all that a path may name."""
    made = tmp_path / "data-0"
    shutil.copytree(corpus.GOLDEN / "internal-compacted" / "data-0", made)
    shutil.copytree(corpus.GOLDEN / "metadata" / "data-0" / f"{METADATA}-0", made / f"{METADATA}-0")
    snapshots = sorted((made / f"{METADATA}-0").glob("*.checkpoint"))
    shutil.copyfile(snapshots[-1], made / "bootstrap.checkpoint")
    return made


def test_paths(log_dir: Path) -> None:
    whole = tables.records(log_dir)
    assert set(whole["topic"].to_pylist()) == {METADATA, "__consumer_offsets"} | (
        {p.name.rpartition("-")[0] for p in log_dir.iterdir() if p.is_dir() and p.name.startswith("__")}
    )
    metadata = log_dir / f"{METADATA}-0"
    files = [log_dir / "bootstrap.checkpoint", *sorted(metadata.glob("*.checkpoint")), *sorted(metadata.glob("*.log"))]
    of_files = [tables.records(file) for file in files]
    assert of_files[0].num_rows > 0
    assert sum(table.num_rows > 0 for table in of_files) > 5
    together = pa.concat_tables(table.replace_schema_metadata(None) for table in of_files)
    for path in (log_dir, [metadata, log_dir / "bootstrap.checkpoint"]):
        named = tables.records(path, METADATA).replace_schema_metadata(None)
        if path is log_dir:
            assert named.equals(together)
        else:
            assert named.num_rows == together.num_rows
    # Folders and snapshots that a broker is done with do not count.
    (metadata / f"{0:020}-{0:010}.checkpoint.deleted").write_bytes(b"gone")
    (metadata / f"{9:020}-{0:010}.checkpoint.part").write_bytes(b"unfinished")
    assert tables.records(log_dir, METADATA).num_rows == together.num_rows


def test_topics(log_dir: Path) -> None:
    found = tables.records(log_dir, topics=["__consumer_offsets"])
    assert set(found["topic"].to_pylist()) == {"__consumer_offsets"}
    with pytest.raises(ValueError, match=r"expected some of .*__share_group_state.*found \"orders\""):
        tables.records(log_dir, topics="orders")
    with pytest.raises(ValueError, match="__remote_log_metadata does not exist"):
        tables.records(log_dir, topics="__remote_log_metadata")
    with pytest.raises(FileNotFoundError):
        tables.records(log_dir / "nowhere")
    empty = tables.records(corpus.GOLDEN / "codecs" / "data-1", topics=[])
    assert empty.num_rows == 0
    assert empty.schema.names == list(COLUMNS)


def write(folder: Path, *records: tuple[bytes | None, bytes | None]) -> None:
    """Write records into a partition."""
    log = kafkalog.LogWriter(folder.parent, folder.name.rpartition("-")[0], 0)
    with log:
        log.append([kafkalog.Record(key=key, value=value) for key, value in records])


def string(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def compact(raw: bytes) -> bytes:
    return bytes([len(raw) + 1]) + raw


def test_what_cannot_be_decoded_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    key = b"\0\x01" + string("g") + string("t") + b"\0\0\0\x07"
    value = b"\0\x03" + bytes(7) + b"\x05" + b"\xff\xff\xff\xff" + string('m"\u20ac') + bytes(8)
    spelled = '{"group":"g","topic":"t","partition":7}'
    said = '{"offset":5,"leaderEpoch":-1,"metadata":"m\\"\u20ac","commitTimestamp":0}'
    cases: list[tuple[bytes | None, bytes | None, str | None, int | None, int | None, str | None, str | None]] = [
        (key, value, "OffsetCommit", 1, 3, spelled, said),
        (key, None, "OffsetCommit", 1, None, spelled, None),
        # More than the message: Kafka does not look at it.
        (key + b"!", value + b"!", "OffsetCommit", 1, 3, spelled, said),
        # An unknown kind, a later version, bytes cut off, a length that lies, no version, no key.
        (b"\0\x09x", value, None, 9, None, None, None),
        (key, b"\0\x05" + value[2:], "OffsetCommit", 1, 5, spelled, None),
        (key, value[:-1], "OffsetCommit", 1, 3, spelled, None),
        (key[:-1], value, "OffsetCommit", 1, 3, None, said),
        (
            b"\0\x02" + string("g"),
            b"\0\0" + string("") + bytes(8) + b"\x7f\xff\xff\xff",
            "GroupMetadata",
            2,
            0,
            '{"group":"g"}',
            None,
        ),
        (key, b"\0", "OffsetCommit", 1, None, spelled, None),
        (b"\0", None, None, None, None, None, None),
        (None, value, None, None, None, None, None),
    ]
    write(tmp_path / "__consumer_offsets-0", *((key, value) for key, value, *_ in cases))
    table = tables.records(tmp_path)
    raw = 0
    for row, (key_in, value_in, kind, key_version, value_version, key_out, value_out) in zip(
        rows(table), cases, strict=True
    ):
        assert row["type"] == kind
        assert (row["keyVersion"], row["valueVersion"]) == (key_version, value_version)
        assert (row["key"], row["value"]) == (key_out, value_out)
        assert row["keyBytes"] == (None if key_out is not None else key_in)
        assert row["valueBytes"] == (None if value_out is not None else value_in)
        raw += row["keyBytes"] is not None or row["valueBytes"] is not None
    assert undecoded(table) == raw == 8


def test_metadata_that_cannot_be_decoded(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    topic = compact(b"orders") + bytes(15) + b"\x01" + b"\0"
    said = '{"name":"orders","topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}'
    cases: list[tuple[bytes | None, str | None, int | None, str | None]] = [
        (b"\x01\x02\0" + topic, "TOPIC_RECORD", 0, said),
        # A tag that is not known.
        (b"\x01\x02\0" + topic[:-1] + b"\x01\x63\x02xy", "TOPIC_RECORD", 0, said),
        (b"\x01\x02\0" + topic + b"!", "TOPIC_RECORD", 0, None),
        (b"\x01\x02\x01" + topic, "TOPIC_RECORD", 1, None),
        (b"\x01\x7f\0" + topic, None, None, None),
        (b"\0\x02\0" + topic, None, None, None),
        (b"\x01\x02\xff\xff\xff\xff\xff\xff", "TOPIC_RECORD", None, None),
        (b"", None, None, None),
        (None, None, None, None),
    ]
    write(tmp_path / f"{METADATA}-0", *((None, value) for value, *_ in cases))
    table = tables.records(tmp_path)
    for row, (value, kind, version, out) in zip(rows(table), cases, strict=True):
        assert (row["type"], row["keyVersion"], row["valueVersion"]) == (kind, None, version)
        assert (row["key"], row["keyBytes"], row["value"]) == (None, None, out)
        assert row["valueBytes"] == (value if out is None else None)
    assert undecoded(table) == 6


def test_share_group_state_of_a_newer_kafka_is_counted_and_shown(tmp_path: Path) -> None:
    """Versions, and a kind of record, that are not known; no verb says that they are damage."""
    source = corpus.GOLDEN / "internal-compacted" / "data-0" / "__share_group_state-1"
    folder = shutil.copytree(source, tmp_path / "data" / source.name)
    known = tables.records(folder).to_pylist()
    [old, *_] = kafkalog.read_table(folder, columns=["key", "value"]).to_pylist()
    newer = [
        (old["key"], b"\0\x63" + old["value"][2:]),
        (b"\0\x63" + old["key"][2:], old["value"]),
        (old["key"][:3], b""),
    ]
    config = kafkalog.LogConfig(cleanup_policy="delete", retention_ms=-1)
    with kafkalog.LogWriter(folder.parent, "__share_group_state", 1, config=config) as writer:
        writer.append([kafkalog.Record(value, key) for key, value in newer])
    table = tables.records(folder)
    assert undecoded(table) == 3
    assert table.to_pylist()[: len(known)] == known
    assert [(row["type"], row["valueVersion"], row["value"]) for row in table.to_pylist()[len(known) :]] == [
        ("ShareSnapshot", 99, None),
        (None, None, None),
        ("ShareSnapshot", None, None),
    ]
    assert table["valueBytes"].to_pylist()[len(known) :] == [value for _, value in newer]
    dumped = call("dump", "--files", *folder.glob("*.log"), "--share-group-state-decoder").stdout
    assert "Error at offset 3, skipping" in dumped
    assert "Unknown record type 99 at offset 4, skipping" in dumped
    for words in (["verify"], ["ls"], ["stats"], ["explain"], ["cat", "-f", "%o\n"]):
        said = call(words[0], folder, *words[1:])
        assert (said.returncode, said.stderr) == (0, ""), words
    assert "brokers prune it" in call("explain", folder).stdout


def test_secrets_are_shown_only_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    scram = b"\x01\x0b\0" + compact(b"alice") + b"\x01" + compact(b"salt") + compact(b"sk") + compact(b"k")
    scram += (4096).to_bytes(4, "big") + b"\0"

    def config(name: str, value: str | None) -> bytes:
        raw = b"\0" if value is None else compact(value.encode())
        return b"\x01\x04\0\x04" + compact(b"1") + compact(name.encode()) + raw + b"\0"

    listed = [
        scram,
        config("ssl.key.password", "hunter2"),
        config("listener.name.x.ssl.key.password", None),
        config("log.retention.ms", "1000"),
        config("listener.name.x.ssl.keystore.location", "/x"),
        # Not Kafka's own: it may be a secret of a plugin.
        config("rsm.config.bucket", "b"),
    ]
    write(tmp_path / f"{METADATA}-0", *((None, value) for value in listed))
    hidden = [json.loads(str(row["value"])) for row in rows(tables.records(tmp_path))]
    user = {"name": "alice", "mechanism": 1, "salt": "***", "storedKey": "***", "serverKey": "***", "iterations": 4096}
    assert hidden[0] == user
    assert [each["value"] for each in hidden[1:]] == ["***", None, "1000", "/x", "***"]
    shown = [json.loads(str(row["value"])) for row in rows(tables.records(tmp_path, secrets=True))]
    assert shown[0] == {**user, "salt": "c2FsdA==", "storedKey": "c2s=", "serverKey": "aw=="}
    assert [each["value"] for each in shown[1:]] == ["hunter2", None, "1000", "/x", "b"]


def test_a_damaged_log_is_an_error(log_dir: Path) -> None:
    (file,) = sorted((log_dir / f"{METADATA}-0").glob("*.checkpoint"))[:1]
    damaged = bytearray(file.read_bytes())
    damaged[-5] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(kafkalog.CorruptRecordError, match=file.name):
        tables.records(log_dir)
