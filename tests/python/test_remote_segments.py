"""``tables.remote_segments``: states, offsets and choices as a real broker had them, with and without its metadata."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
import tiered_cases
from kafkalog import _core
from kafkalog.reader import RecordReader
from kafkalog.tiers import metadata_log

if TYPE_CHECKING:
    from pathlib import Path

    from tiered_cases import TieredCase

MORE = tiered_cases.more_cases()


@pytest.fixture(scope="module", params=tiered_cases.NAMES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TieredCase:
    return tiered_cases.unpack(request.param, tmp_path_factory.mktemp(request.param))


def listed(case: TieredCase, path: Path | None) -> dict[tuple[str, int, str], dict[str, Any]]:
    table = kafkalog.tables.remote_segments(path, **case.remote)
    rows = table.to_pylist()
    assert table.schema.names == [
        "topic",
        "topicId",
        "partition",
        "segmentId",
        "startOffset",
        "endOffset",
        "epochs",
        "state",
        "source",
        "bytes",
        "isChosen",
        "reason",
    ]
    assert all(row["isChosen"] or row["reason"] for row in rows), "what is dropped says why"
    return {(row["topicId"], row["partition"], row["segmentId"]): row for row in rows}


def facts(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["topic"], row["startOffset"], row["endOffset"], dict(row["epochs"]), row["bytes"]


def expected_facts(row: dict[str, Any]) -> tuple[Any, ...]:
    epochs = {int(epoch): offset for epoch, offset in row["leader_epochs"].items()}
    return row["topic"], row["start_offset"], row["end_offset"], epochs, row["size"]


def check_metadata(case: TieredCase) -> None:
    """States and offsets are the broker's, and so is the choice: what is finished and of the log's own history."""
    rows = listed(case, case.data)
    damaged = {each["key"][-22:] for each in case.about.get("damage", [])}
    for each in case.segments():
        row = rows[each["topic_id"], each["partition"], each["segment_id"]]
        assert (row["source"], row["state"], *facts(row)) == ("metadata", each["state"], *expected_facts(each))
        if each["segment_id"] not in damaged:
            is_chosen = each["state"] == "COPY_SEGMENT_FINISHED" and each["within_leader_epochs"]
            assert row["isChosen"] == is_chosen, row
    topics = {topic for topic, _ in case.partitions()}
    known = {(each["topic_id"], each["partition"], each["segment_id"]) for each in case.segments()}
    for place in rows.keys() - known:
        if rows[place]["topic"] not in topics:
            continue
        assert not rows[place]["isChosen"], rows[place]
        assert rows[place]["state"] in ("DELETE_SEGMENT_FINISHED", None)


def test_the_metadata_topic_says_what_a_broker_knew(case: TieredCase) -> None:
    check_metadata(case)


@pytest.mark.full
@pytest.mark.parametrize("each", MORE, ids=lambda each: each.name)
def test_the_metadata_topic_of_every_case(each: TieredCase) -> None:
    check_metadata(each)


def check_withheld(case: TieredCase, path: Path | None) -> None:
    """Without the topic, manifests or the files themselves give the same offsets and the same chosen segments."""
    rows = listed(case, path)
    damaged = {each["key"][-22:] for each in case.about.get("damage", [])}
    for each in case.segments():
        row = rows.get((each["topic_id"], each["partition"], each["segment_id"]))
        is_finished = each["state"] == "COPY_SEGMENT_FINISHED"
        if each["segment_id"] in damaged or not is_finished:
            continue
        assert row is not None
        assert row["state"] is None
        assert facts(row) == expected_facts(each)
        # A whole copy that no event tells of stands in for the one of the same offsets.
        same = [other for other in rows.values() if other["isChosen"] and facts(other)[:3] == facts(row)[:3]]
        assert bool(same) == each["within_leader_epochs"], row


def test_without_the_metadata_topic(case: TieredCase, tmp_path: Path) -> None:
    check_withheld(case, case.withheld(tmp_path / "data"))


def test_the_tier_alone(case: TieredCase) -> None:
    if "deleted" not in case.name:
        check_withheld(case, None)


@pytest.mark.full
@pytest.mark.parametrize("each", MORE, ids=lambda each: each.name)
def test_every_case_without_the_metadata_topic(each: TieredCase, tmp_path: Path) -> None:
    check_withheld(each, each.withheld(tmp_path / "data"))


def without_starts(case: TieredCase, to: Path, before: tuple[str, str] | None = None) -> Path:
    """Return a copy of the log dir whose metadata topic has the newest update of each segment alone (KIP-1266).

    ``before`` has the ids of two segments: the first ended its copy just before the second.
    """
    data = case.withheld(to)
    newest: dict[tuple[int, str], dict[str, Any]] = {}
    for batch in RecordReader(_core.table_records([str(case.data)], topics=[metadata_log.TOPIC])):
        for row in batch.select(["partition", "type", "value"]).to_pylist():
            value = json.loads(row["value"])
            place = (row["partition"], value["remoteLogSegmentId"]["id"])
            if row["type"] == UPDATE:
                newest.pop(place, None)
                newest[place] = value
    for partition in range(3):
        mine = [value for (number, _), value in newest.items() if number == partition]
        for n, value in enumerate(list(mine)):
            if before is not None and value["remoteLogSegmentId"]["id"] == before[1]:
                mine.insert(n, {**value, "remoteLogSegmentId": {**value["remoteLogSegmentId"], "id": before[0]}})
        encoded = [_core.encode_record(metadata_log.TOPIC, UPDATE, 0, None, json.dumps(value))[1] for value in mine]
        with kafkalog.LogWriter(data, metadata_log.TOPIC, partition) as writer:
            writer.append([kafkalog.Record(value=each, key=None) for each in encoded])
    return data


@pytest.mark.parametrize("name", ["lineage", "killed-later", "aiven-lineage-zstd-aes"])
def test_records_without_their_starts(name: str, tmp_path: Path) -> None:
    """Manifests or files tell the rest, and the same copies are chosen."""
    case = golden(name, tmp_path)
    rows = listed(case, without_starts(case, tmp_path / "compacted"))
    finished = [each for each in case.segments() if each["state"] == "COPY_SEGMENT_FINISHED"]
    assert finished
    for each in finished:
        row = rows[each["topic_id"], each["partition"], each["segment_id"]]
        assert (row["source"], row["state"], *facts(row)) == ("metadata", each["state"], *expected_facts(each))
        assert row["isChosen"] == each["within_leader_epochs"], row


def test_the_order_of_copies_without_their_starts(tmp_path: Path) -> None:
    """A later copy of the same start replaces a longer one, as a broker's cache has it, whatever the files tell."""
    case = golden("lineage", tmp_path)
    folder = next((case.tier / "kafka-tiered-storage").glob("moved-0-*"))
    first, second = sorted(folder.glob("*.log"))[:2]
    longer = "A" * 22
    for file in folder.glob(f"{first.stem}.*"):
        (folder / file.name.replace(first.stem[21:], longer)).write_bytes(file.read_bytes())
    (folder / f"{first.stem[:21]}{longer}.log").write_bytes(first.read_bytes() + second.read_bytes())
    rows = listed(case, without_starts(case, tmp_path / "compacted", (longer, first.stem[21:])))
    chosen = {place[2]: row["isChosen"] for place, row in rows.items() if row["topic"] == "moved"}
    assert (chosen[longer], chosen[first.stem[21:]], chosen[second.stem[21:]]) == (False, True, True)


def golden(name: str, tmp_path: Path) -> TieredCase:
    return tiered_cases.unpack(name, tmp_path / name)


def test_reasons_of_copies_that_do_not_serve(tmp_path: Path) -> None:
    case = golden("killed-later", tmp_path)
    rows = listed(case, case.data).values()
    reasons = {(row["state"], row["reason"]) for row in rows if not row["isChosen"]}
    assert ("COPY_SEGMENT_STARTED", "its copy never finished") in reasons
    assert ("DELETE_SEGMENT_FINISHED", "it was deleted") in reasons
    case = golden("lineage", tmp_path)
    diverged = [row for row in listed(case, case.data).values() if row["topic"] == "diverged"]
    lost = [row["reason"] for row in diverged if not row["isChosen"]]
    assert len(lost) == 11
    assert all(reason.startswith("of a history that was lost: leader epoch 0 ends at 428") for reason in lost)


def test_topics_that_were_deleted(tmp_path: Path) -> None:
    case = golden("deleted-kept", tmp_path)
    rows = listed(case, case.withheld(tmp_path / "data"))
    by_topic = {(row["topic"], row["reason"]) for row in rows.values() if not row["isChosen"]}
    assert ("gone", "topic 'gone' was deleted") in by_topic
    assert any(topic == "made-again" and "made again" in reason for topic, reason in by_topic)
    alone = listed(case, None)
    assert {row["isChosen"] for row in alone.values() if row["topic"] == "gone"} == {True}
    assert any("has a newer id" in (row["reason"] or "") for row in alone.values())


def test_objects_that_no_record_names_are_listed(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    folder = next((case.tier / "kafka-tiered-storage").glob("moved-0-*"))
    for path in folder.glob("00000000000000000094-*"):
        name = path.name.replace(path.name[21:43], "A" * 22)
        (folder / name).write_bytes(path.read_bytes())
    rows = [row for row in listed(case, case.data).values() if row["segmentId"] == "A" * 22]
    assert [(row["isChosen"], row["reason"]) for row in rows] == [
        (False, "no record of __remote_log_metadata names it")
    ]


def test_faults_of_chosen_segments_are_named(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    folder = next((case.tier / "kafka-tiered-storage").glob("moved-0-*"))
    log = next(folder.glob("00000000000000000094-*.log"))
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    (row,) = [row for row in listed(case, case.data).values() if row["segmentId"] == log.name[21:43]]
    assert row["isChosen"]
    assert row["reason"] == f"expected a log of {len(whole)} bytes, found {len(whole) - 1}"
    log.unlink()
    (row,) = [row for row in listed(case, case.data).values() if row["segmentId"] == log.name[21:43]]
    assert "no log" in row["reason"]


def test_each_damage_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    case = golden("aiven-damaged-zstd-aes", tmp_path)
    rows = {row["segmentId"]: row for row in listed(case, case.data).values()}
    # Bytes of a log or an index are looked at where they are read, and so are keys.
    unseen = {"log byte flipped", "indexes byte flipped", "indexes cut", "manifest unknown key", "manifest aad wrong"}
    unseen |= {"manifest unknown fields"}
    seen = 0
    for each in case.about["damage"]:
        row = rows.get(each["key"][-22:])
        if row is not None and each["damage"] not in unseen:
            assert row["reason"], each
            seen += 1
    assert seen > 5


def test_a_layout_of_ones_own(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in case.tier.rglob("*.*"):
        topic, partition, topic_id = path.parent.name[:-25], path.parent.name[-24:-23], path.parent.name[-22:]
        (flat / f"{topic}@{topic_id}@{partition}@{path.name}").write_bytes(path.read_bytes())

    class Flat(kafkalog.tiers.RemoteLayout):
        def parse(self, key: str) -> kafkalog.tiers.ObjectName | None:
            topic, topic_id, partition, name = key.split("@")
            kind = "leader_epochs" if name.endswith("checkpoint") else name.rsplit(".", 1)[1]
            return kafkalog.tiers.ObjectName(topic, topic_id, int(partition), name[21:43], int(name[:20]), kind)

    mine = kafkalog.tables.remote_segments(case.data, remote=flat, remote_layout=Flat())
    assert mine.equals(kafkalog.tables.remote_segments(case.data, remote=case.tier))
    with pytest.raises(ValueError, match="objects are not named as by"):
        kafkalog.tables.remote_segments(case.data, remote=flat)


def test_the_partition_of_the_topic_is_kafkas(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    for each in tiered_cases.lines(case.expected / "remote-log-metadata.data-2.jsonl.gz"):
        found = metadata_log.metadata_partition(each["topic_id"], each["partition"], 3)
        assert found == each["metadata_partition"]


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kafkalog.tables.remote_segments(remote=tmp_path / "none")
    with pytest.raises(ValueError, match="remote_layout"):
        kafkalog.tables.remote_segments(remote=tmp_path, remote_layout="s3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="remote is missing"):
        kafkalog.tables.remote_segments(tmp_path)
    assert kafkalog.tables.remote_segments(remote=tmp_path).num_rows == 0


ID, SEGMENT_ID = "1GzPYMNcTjCq3NI-ACKs3g", "U7cltKo-SgCk0Aez15aQKg"


def metadata_topic(tmp_path: Path, events: list[tuple[str, dict[str, Any] | None, bytes | None]]) -> Path:
    """Write a metadata topic of one partition: kinds, values and keys of its records."""
    log_dir = tmp_path / "data"
    rows = []
    for kind, value, key in events:
        made = (
            None if value is None else _core.encode_record("__remote_log_metadata", kind, 0, None, json.dumps(value))[1]
        )
        rows.append({"key": key, "value": made})
    with kafkalog.LogWriter(log_dir, "__remote_log_metadata", 0) as writer:
        writer.append(pa.Table.from_pylist(rows, schema=pa.schema([("key", pa.binary()), ("value", pa.binary())])))
    return log_dir


def ids(segment_id: str = SEGMENT_ID) -> dict[str, Any]:
    return {"topicIdPartition": {"name": "t", "id": ID, "partition": 0}, "id": segment_id}


def segment(state: int, **more: Any) -> dict[str, Any]:
    return {
        "remoteLogSegmentId": ids(),
        "startOffset": 0,
        "endOffset": 9,
        "brokerId": 1,
        "maxTimestampMs": 1,
        "eventTimestampMs": 1,
        "segmentLeaderEpochs": [{"leaderEpoch": 0, "offset": 0}],
        "segmentSizeInBytes": 100,
        "customMetadata": None,
        "remoteLogSegmentState": state,
        "txnIndexEmpty": False,
        **more,
    }


def update(state: int, **more: Any) -> dict[str, Any]:
    given = {"brokerId": 1, "eventTimestampMs": 2, "customMetadata": None, "remoteLogSegmentState": state}
    return {"remoteLogSegmentId": ids(), **given, **more}


ADD, UPDATE, PARTITION = (
    "REMOTE_LOG_SEGMENT_METADATA_RECORD",
    "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD",
    "REMOTE_PARTITION_DELETE_METADATA_RECORD",
)
KEY = f"{ID}:t:0:9:0".encode()
GONE = {"topicIdPartition": {"name": "t", "id": ID, "partition": 0}, "brokerId": 1, "eventTimestampMs": 3}


@pytest.mark.parametrize(
    ("events", "state", "notes"),
    [
        ([(ADD, segment(0), None)], "COPY_SEGMENT_STARTED", 0),
        ([(ADD, segment(0), None), (UPDATE, update(1), None)], "COPY_SEGMENT_FINISHED", 0),
        ([(ADD, segment(1), KEY)], "COPY_SEGMENT_FINISHED", 0),
        ([(UPDATE, update(1), KEY)], "COPY_SEGMENT_FINISHED", 0),
        ([(ADD, segment(0), None), (UPDATE, update(2), None)], "DELETE_SEGMENT_STARTED", 0),
        ([(ADD, segment(0), None), (UPDATE, update(2), None), (UPDATE, update(1), None)], "DELETE_SEGMENT_STARTED", 1),
        ([(ADD, segment(1), None), (UPDATE, update(2), None), (UPDATE, update(3), None)], "DELETE_SEGMENT_FINISHED", 0),
        ([(ADD, segment(1), KEY), (UPDATE, None, KEY)], "DELETE_SEGMENT_FINISHED", 0),
        (
            [(ADD, segment(1), None), (PARTITION, {**GONE, "remotePartitionDeleteState": 2}, None)],
            "DELETE_SEGMENT_FINISHED",
            0,
        ),
        ([(ADD, segment(1), None), (UPDATE, None, b"?")], "COPY_SEGMENT_FINISHED", 1),
    ],
)
def test_states(tmp_path: Path, events: list[Any], state: str, notes: int) -> None:
    (tmp_path / "tier").mkdir()
    path = metadata_topic(tmp_path, events)
    table = kafkalog.tables.remote_segments(path, remote=tmp_path / "tier")
    (row,) = table.to_pylist()
    assert (row["state"], row["source"]) == (state, "metadata")
    assert (row["endOffset"] is None) == (events[0][0] == UPDATE)
    assert not row["isChosen"] or row["reason"]
    assert int(table.schema.metadata[b"kafkalog.unapplied"]) == notes
