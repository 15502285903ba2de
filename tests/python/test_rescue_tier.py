"""Rescue from tiered storage: what is written is what the broker that copied the segments had written."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
import tiered_cases
from kafkalog import _core
from kafkalog.cli.main import main
from kafkalog.errors import UnknownTopicOrPartitionError
from kafkalog.reader import RecordReader
from kafkalog.rescue import output, partition_copy
from s3_server import S3Server
from tiered_cases import COLUMNS, expected_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafkalog.rescue.model import Choice, RescueReport
    from tiered_cases import TieredCase

METADATA = "__remote_log_metadata"
# The id of a topic of the case `lineage`.
MOVED = "3wchtLMcRl-ksyvYLpZfsA"
WHOLE = [name for name in tiered_cases.NAMES if "damaged" not in name]
MORE = [each for each in tiered_cases.more_cases() if "damaged" not in each.name]


@pytest.fixture(scope="module", params=WHOLE)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TieredCase:
    return tiered_cases.unpack(request.param, tmp_path_factory.mktemp(request.param))


def golden(name: str, tmp_path: Path) -> TieredCase:
    return tiered_cases.unpack(name, tmp_path / name)


def attached(report: RescueReport) -> dict[tuple[str, int], Choice]:
    return {(each.topic, each.partition): each for each in report.plan.choices if each.remote}


def codes(report: RescueReport, *severities: str) -> set[str]:
    return {each.code for each in report.plan.findings if not severities or each.severity in severities}


def events(log_dir: Path) -> Iterable[tuple[int, str, dict[str, Any]]]:
    """Yield partition, kind and value of each record of the metadata topic."""
    for batch in RecordReader(_core.table_records([str(log_dir)], topics=[METADATA])):
        for row in batch.select(["partition", "type", "value"]).to_pylist():
            yield row["partition"], row["type"], json.loads(row["value"])


def facts(value: dict[str, Any]) -> tuple[Any, ...]:
    names = ("startOffset", "endOffset", "maxTimestampMs", "segmentSizeInBytes", "customMetadata")
    epochs = tuple((each["leaderEpoch"], each["offset"]) for each in value["segmentLeaderEpochs"])
    # The JSON has no field with its default.
    return (*(value[name] for name in names), value.get("txnIndexEmpty", False), epochs)


def started(log_dir: Path) -> dict[str, tuple[Any, ...]]:
    """Return the facts of each segment, by its id."""
    return {
        value["remoteLogSegmentId"]["id"]: facts(value) for _, _, value in events(log_dir) if "startOffset" in value
    }


def check_committed(case: TieredCase, out: Path, choice: Choice) -> None:
    """Committed rows are those that consumers got, but for transactions that have no end in the tier."""
    wanted = case.rows(choice.topic, choice.partition, "committed")
    if wanted is None:
        return
    place = {"topics": choice.topic, "partitions": choice.partition, **case.remote}
    first = {each.producer_id: each.first_offset for each in choice.aborted}
    columns = ["offset", "producerId", "isTransactional"]
    every = kafkalog.read_table(out, columns=columns, **place).to_pylist()
    cut = {row["offset"] for row in every if row["offset"] >= first.get(row["producerId"], 1 << 62)}
    assert bool(cut) == bool(choice.aborted)
    assert all(row["isTransactional"] for row in every if row["offset"] in cut)
    found = kafkalog.read_table(out, columns=COLUMNS, isolation_level="read_committed", **place)
    kept = [row for row in expected_rows(wanted, choice.local_start_offset) if row["offset"] not in cut]
    assert rows_of(found) == kept


def check_alone(case: TieredCase, out: Path) -> None:
    """Facts of each segment are those that the broker wrote, and the rows are those of consumers, up to the end."""
    report = kafkalog.rescue(None, out, **case.remote)
    assert not report.is_complete
    assert codes(report, "error") - {"transaction-cut"} == {"no-metadata", "topic-from-tier", "tier-only"}
    truth, mine = started(case.data), started(out)
    assert mine
    known = {place: value for place, value in truth.items() if place in mine}
    assert len(known) >= len(mine) * 0.9
    assert {place: mine[place] for place in known} == known
    states = kafkalog.tables.remote_segments(out, **case.remote).to_pylist()
    of_mine = [row for row in states if row["segmentId"] in mine]
    assert {(row["state"], row["source"], row["isChosen"], row["reason"]) for row in of_mine} == {
        ("COPY_SEGMENT_FINISHED", "metadata", True, None)
    }
    choices = attached(report)
    checked = 0
    for topic, partition in case.partitions():
        choice = choices.get((topic, partition))
        answers = case.offsets(topic, partition)
        wanted = case.rows(topic, partition, "uncommitted")
        if choice is None or wanted is None or answers["latest_tiered"] < 0:
            continue
        # What follows the tier are the ends of its transactions.
        end = choice.local_start_offset
        assert answers["latest_tiered"] < end <= answers["latest"]
        log = kafkalog.PartitionLog(out / f"{topic}-{partition}")
        assert (log.log_end_offset, len(log.segments)) == (choice.log_end_offset, 1)
        table = kafkalog.read_table(out, topic, partitions=partition, columns=COLUMNS, **case.remote)
        found = [row for row in rows_of(table) if row["offset"] >= answers["earliest"]]
        assert found == expected_rows(wanted, end), (topic, partition)
        check_committed(case, out, choice)
        checked += 1
    assert checked
    assert [row for row in kafkalog.verify(out).to_pylist() if row["severity"] == "error"] == []


def test_the_tier_alone(case: TieredCase, tmp_path: Path) -> None:
    check_alone(case, tmp_path / "out")


@pytest.mark.full
@pytest.mark.parametrize("each", MORE, ids=lambda each: each.name)
def test_the_tier_of_every_case(each: TieredCase, tmp_path: Path) -> None:
    check_alone(each, tmp_path / "out")


def check_with_disks(case: TieredCase, out: Path) -> None:
    """Local and remote segments give every row; nothing is lost, and the metadata topic is the broker's."""
    report = kafkalog.rescue(case.data, out, **case.remote)
    assert codes(report, "error") <= {"no-replica", "group-beyond-end"}
    choices = attached(report)
    for topic, partition in case.partitions():
        choice = next(each for each in report.plan.choices if (each.topic, each.partition) == (topic, partition))
        answers = case.offsets(topic, partition)
        assert (choice.log_start_offset, choice.log_end_offset) == (answers["earliest"], answers["latest"])
        assert choice.lost == ()
        wanted = case.rows(topic, partition, "uncommitted")
        if wanted is None:
            continue
        table = kafkalog.read_table(out, topic, partitions=partition, columns=COLUMNS, **case.remote)
        assert rows_of(table) == expected_rows(wanted)
    assert choices
    assert all(copy.is_recorded for choice in choices.values() for copy in choice.remote)
    assert started(out) == started(case.data)


def test_disks_and_tier(case: TieredCase, tmp_path: Path) -> None:
    check_with_disks(case, tmp_path / "out")


def test_disks_without_the_metadata_topic(case: TieredCase, tmp_path: Path) -> None:
    """A topic that no disk has is made again with its old number of partitions."""
    if case.name.startswith("deleted"):
        pytest.skip("only the metadata topic has deletions")
    data = case.withheld(tmp_path / "data")
    report = kafkalog.rescue(data, tmp_path / "out", **case.remote)
    assert codes(report, "error") <= {"no-replica"}
    choices = attached(report)
    of_topic = [each for each in report.plan.choices if each.topic == METADATA]
    assert [each.reasons for each in of_topic] == [("made from the tier",)] * 3
    truth, mine = started(case.data), started(tmp_path / "out")
    assert {copy.segment_id for choice in choices.values() for copy in choice.remote} == mine.keys()
    assert {place: mine[place] for place in mine if place in truth} == {
        place: value for place, value in truth.items() if place in mine
    }
    for topic, partition in case.partitions():
        wanted = case.rows(topic, partition, "uncommitted")
        if wanted is not None:
            table = kafkalog.read_table(tmp_path / "out", topic, partitions=partition, columns=COLUMNS, **case.remote)
            assert rows_of(table) == expected_rows(wanted)


def checkpoint(path: Path) -> list[str]:
    version, count, *lines = path.read_text().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    return lines


def test_what_is_written(tmp_path: Path) -> None:
    """The log dir of a new node, as a broker with tiered storage needs it."""
    case, out = golden("lineage", tmp_path), tmp_path / "out"
    report = kafkalog.rescue(out=out, remote=case.tier, node_id=7)
    assert (report.out, report.log_dirs, report.bytes > 0) == (str(out), (str(out),), True)
    moved = out / "moved-0"
    assert (moved / "partition.metadata").read_text().splitlines()[1] == f"topic_id: {MOVED}"
    assert sorted(each.name for each in moved.iterdir()) == [
        f"{1488:020}.index",
        f"{1488:020}.log",
        f"{1488:020}.snapshot",
        f"{1488:020}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    # As the broker's own log dir had them below the end of the tier.
    theirs = [line for line in checkpoint(case.data / "moved-0/leader-epoch-checkpoint") if int(line.split()[1]) < 1488]
    assert checkpoint(moved / "leader-epoch-checkpoint") == theirs
    last = max((case.tier / "kafka-tiered-storage").glob("moved-0-*/*.snapshot"))
    assert (moved / f"{1488:020}.snapshot").read_bytes() == last.read_bytes()
    assert {"moved 0 0", "diverged 0 0"} == set(checkpoint(out / "log-start-offset-checkpoint"))
    assert "moved 0 1488" in checkpoint(out / "recovery-point-offset-checkpoint")
    rows = kafkalog.tables.topics(out).to_pylist()
    (row,) = [row for row in rows if row["topic"] == "moved"]
    assert (row["topicId"], row["replicas"], row["leader"], row["leaderEpoch"]) == (MOVED, [7], 7, 6)
    assert sum(row["topic"] == METADATA for row in rows) == 50
    records = kafkalog.tables.cluster_metadata(out).to_pylist()
    configs = [json.loads(row["value"]) for row in records if row["type"] == "CONFIG_RECORD"]
    assert {(each["name"], each["value"]) for each in configs if each["resourceName"] == "moved"} == {
        ("remote.storage.enable", "true"),
        ("retention.ms", "-1"),
    }
    (producers,) = [json.loads(row["value"]) for row in records if row["type"] == "PRODUCER_IDS_RECORD"]
    assert producers["nextProducerId"] > report.plan.highest_producer_id > 0
    settings = dict(
        line.split("=", 1) for line in (out / "server.properties").read_text().splitlines() if line[0] != "#"
    )
    assert settings["remote.log.storage.system.enable"] == "true"
    assert settings["rsm.config.dir"] == str(case.tier)
    assert settings["rlmm.config.remote.log.metadata.topic.num.partitions"] == "50"
    assert {value["brokerId"] for _, _, value in events(out)} == {7}
    kinds = [kind for _, kind, _ in events(out)]
    assert len(kinds) == 2 * sum(len(each.remote) for each in attached(report).values())


def test_a_transaction_without_an_end_is_aborted(tmp_path: Path) -> None:
    """A marker for each ends them, as the index of aborted transactions and a broker's loading say."""
    case, out = golden("txn", tmp_path), tmp_path / "out"
    report = kafkalog.rescue(None, out, remote=case.tier)
    choice = attached(report)["txn-mixed", 0]
    firsts = [each.first_offset for each in choice.aborted]
    assert len(firsts) > 1
    assert firsts == sorted(firsts)
    cut = [each for each in report.plan.findings if each.code == "transaction-cut"]
    assert [(each.severity, each.topic) for each in cut] == [("error", "txn-mixed")] * len(firsts)
    first = choice.local_start_offset
    folder = out / "txn-mixed-0"
    columns = ["offset", "producerId", "producerEpoch", "controlType", "partitionLeaderEpoch"]
    markers = kafkalog.read_table(folder, columns=columns, include_control=True).to_pylist()
    assert [tuple(row.values()) for row in markers] == [
        (first + n, each.producer_id, each.producer_epoch, "ABORT", 0) for n, each in enumerate(choice.aborted)
    ]
    index = kafkalog.TransactionIndex(folder / f"{first:020}.txnindex")
    entries = [index.entry(n) for n in range(len(index))]
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in entries] == [
        (each.producer_id, each.first_offset, first + n) for n, each in enumerate(choice.aborted)
    ]
    # Up to the next one that is open.
    assert [each.last_stable_offset for each in entries] == [*firsts[1:], choice.log_end_offset]
    assert [each.name for each in folder.glob("*.snapshot")] == [f"{first:020}.snapshot"]
    assert f"txn-mixed 0 {choice.log_end_offset}" in checkpoint(out / "recovery-point-offset-checkpoint")


def test_no_key_is_needed_for_an_encrypted_tier(tmp_path: Path) -> None:
    """Manifests tell all but the state of producers."""
    case = golden("aiven-lineage-zstd-aes", tmp_path)
    with_key = kafkalog.rescue(None, tmp_path / "one", **case.remote)
    without = kafkalog.rescue(None, tmp_path / "two", remote=case.tier)
    assert started(tmp_path / "one") == started(tmp_path / "two")
    assert with_key.plan.highest_producer_id > without.plan.highest_producer_id == -1
    settings = (tmp_path / "one/server.properties").read_text()
    assert "remote.log.storage.manager.class.name=io.aiven.kafka.tieredstorage.RemoteStorageManager" in settings
    assert ".pem" not in settings


@pytest.mark.parametrize("name", ["lineage", "aiven-txn-fixed"])
def test_a_tier_in_a_bucket(name: str, tmp_path: Path) -> None:
    """It gives what a folder gives; nothing is written into it, and no secret into the output or the report."""
    case = golden(name, tmp_path)
    server = S3Server()
    try:
        server.put_folder(case.tier, "T/")
        before = dict(server.objects)
        report = kafkalog.rescue(
            None, tmp_path / "one", remote=f"s3://{server.bucket}/T", storage_options=server.storage_options
        )
        assert server.objects == before
    finally:
        server.close()
    other = kafkalog.rescue(None, tmp_path / "two", remote=case.tier)
    assert started(tmp_path / "one") == started(tmp_path / "two")
    assert report.plan.choices == other.plan.choices
    assert report.plan.tier is not None
    assert report.plan.tier.name.startswith("s3://")
    assert report.plan.tier.folder is None
    written = b"".join(each.read_bytes() for each in (tmp_path / "one").rglob("*") if each.is_file())
    secret = server.storage_options["aws_secret_access_key"]
    assert secret not in repr(report) + str(report)
    assert secret.encode() not in written
    assert b"rsm.config.dir" not in (tmp_path / "one/server.properties").read_bytes()


def folder_of(tier: Path, topic: str) -> Path:
    return next((tier / "kafka-tiered-storage").glob(f"{topic}-0-*"))


def remove(folder: Path, n: int, kinds: Iterable[str] = ("*",)) -> range:
    """Remove files of the n-th segment; return its offsets."""
    logs = sorted(folder.glob("*.log"))
    for kind in kinds:
        for file in folder.glob(f"{logs[n].stem}.{kind}"):
            file.unlink()
    following = int(logs[n + 1].name[:20]) if n + 1 < len(logs) else 0
    return range(int(logs[n].name[:20]), following)


@pytest.mark.parametrize("kinds", [("*",), ("log",), ("index",), ("leader_epoch_checkpoint",)])
def test_a_segment_that_is_missing_or_not_whole(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """The copy before it takes its offsets, as a broker passes over them, and they are lost."""
    case, out = golden("lineage", tmp_path), tmp_path / "out"
    gone = remove(folder_of(case.tier, "moved"), 5, kinds)
    assert len(gone) > 10
    report = kafkalog.rescue(None, out, remote=case.tier)
    choice = attached(report)["moved", 0]
    assert choice.lost == ((gone.start, gone.stop),)
    (text,) = [str(each) for each in report.plan.findings if each.code == "lost"]
    assert text == (
        f"moved-0: error: offsets {gone.start} to {gone.stop - 1} are whole neither on a disk nor in the tier [lost]"
    )
    (before,) = [each for each in choice.remote if each.end_offset == gone.stop - 1]
    assert before.start_offset < gone.start
    # No offset below the end is without a copy.
    ends = [each.end_offset + 1 for each in choice.remote]
    assert [each.start_offset for each in choice.remote] == [0, *ends[:-1]]
    table = kafkalog.read_table(out, "moved", columns=COLUMNS, remote=case.tier)
    wanted = expected_rows(case.rows("moved", 0, "uncommitted") or [], choice.log_end_offset)
    assert rows_of(table) == [row for row in wanted if row["offset"] not in gone]
    if kinds == ("index",):
        assert "no index: its copy is not whole" in " ".join(map(str, report.plan.findings))


def test_leader_epochs_within_a_gap(tmp_path: Path) -> None:
    """An epoch that begins where a segment is missing is one of the copy before it: a broker looks there."""
    case = golden("lineage", tmp_path)
    folder = folder_of(case.tier, "moved")
    truth = attached(kafkalog.rescue(None, remote=case.tier, dry_run=True))["moved", 0]
    epochs = dict(truth.leader_epochs)
    n, copy = next((n, each) for n, each in enumerate(truth.remote) if len(each.leader_epochs) > 1)
    for file in folder.glob(f"*-{copy.segment_id}.*"):
        file.unlink()
    choice = attached(kafkalog.rescue(None, remote=case.tier, dry_run=True))["moved", 0]
    before = truth.remote[n - 1]
    (longer,) = [each for each in choice.remote if each.segment_id == before.segment_id]
    newest = copy.leader_epochs[-1][0]
    assert longer.leader_epochs == (*before.leader_epochs, (newest, epochs[newest]))
    assert longer.end_offset == copy.end_offset


def test_the_first_and_the_last_segment_are_missing(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    folder = folder_of(case.tier, "moved")
    first, last = remove(folder, 0), max(folder.glob("*.log"))
    for file in folder.glob(f"{last.stem}.*"):
        file.unlink()
    choice = attached(kafkalog.rescue(None, tmp_path / "out", remote=case.tier))["moved", 0]
    assert (choice.log_start_offset, choice.log_end_offset) == (first.stop, int(last.name[:20]))
    assert choice.lost == ()
    entries = checkpoint(tmp_path / "out/moved-0/leader-epoch-checkpoint")
    assert entries[0] == f"0 {first.stop}"
    assert f"moved 0 {first.stop}" in checkpoint(tmp_path / "out/log-start-offset-checkpoint")


def test_unfinished_uploads_and_damage_are_left_out(tmp_path: Path) -> None:
    case = golden("aiven-damaged-zstd-aes", tmp_path)
    report = kafkalog.rescue(None, tmp_path / "out", **case.remote)
    damaged = {each["key"][-22:] for each in case.about["damage"]}
    unseen = {"log byte flipped", "indexes byte flipped", "indexes cut", "manifest unknown key", "manifest aad wrong"}
    unseen |= {"manifest unknown fields"}
    hidden = {each["key"][-22:] for each in case.about["damage"] if each["damage"] in unseen}
    mine = started(tmp_path / "out")
    assert not mine.keys() & (damaged - hidden)
    truth = started(case.data)
    lost = {offset for choice in attached(report).values() for pair in choice.lost for offset in range(*pair)}
    assert lost
    assert {"lost", "tier-left-out"} <= codes(report)
    # What was not damaged is as the broker wrote it, but where it stands in for what was.
    same = [place for place in mine if mine[place] == truth[place]]
    longer = [place for place in mine if mine[place] != truth[place]]
    assert len(same) > len(longer) > 0
    assert all(mine[place][1] > truth[place][1] and mine[place][0] == truth[place][0] for place in longer)


def test_two_topics_of_one_name(tmp_path: Path) -> None:
    """The one that was copied last is the topic, with all its partitions; the other is named."""
    case, out = golden("deleted-kept", tmp_path), tmp_path / "out"
    report = kafkalog.rescue(None, out, remote=case.tier)
    rows = [row for row in kafkalog.tables.topics(out).to_pylist() if row["topic"] == "made-again"]
    current = {row["topicId"] for row in kafkalog.tables.topics(case.data).to_pylist() if row["topic"] == "made-again"}
    assert {row["topicId"] for row in rows} == current
    assert [row["partition"] for row in rows] == [0]
    older = [each for each in report.plan.findings if each.code == "other-incarnation"]
    assert {(each.topic, each.partition) for each in older} == {("made-again", 0), ("made-again", 1)}
    # With the cluster's metadata both deleted topics are known to be gone.
    with_metadata = kafkalog.rescue(case.data, remote=case.tier, dry_run=True)
    assert "gone" not in {topic for topic, _ in attached(with_metadata)}


def with_settings(case: TieredCase, tmp_path: Path, **settings: str) -> Path:
    """Return a disk of the case's cluster with the metadata alone, in which a topic has these settings."""
    records = [
        (row["type"], row["valueVersion"], row["value"])
        for row in kafkalog.tables.cluster_metadata(case.data).to_pylist()
        if not (row["type"] == "CONFIG_RECORD" and json.loads(row["value"])["resourceName"] == "moved")
        and not row["type"].startswith(("REGISTER", "BROKER"))
    ]
    for name, value in settings.items():
        config = {"resourceType": 2, "resourceName": "moved", "name": name.replace("_", "."), "value": value}
        records.append(("CONFIG_RECORD", 0, json.dumps(config)))
    disk = tmp_path / "disk"
    (disk / "__cluster_metadata-0").mkdir(parents=True)
    shutil.copy(case.data / "meta.properties", disk)
    _core.write_metadata_snapshot(str(disk / "__cluster_metadata-0"), 500, 9, records, timestamp=1)
    return disk


def test_a_topic_that_is_not_tiered(tmp_path: Path) -> None:
    """A compacted topic, or one whose tiering was ended, gets nothing from the tier; its settings stay."""
    case = golden("lineage", tmp_path)
    disk = with_settings(case, tmp_path, cleanup_policy="compact")
    report = kafkalog.rescue(disk, tmp_path / "out", remote=case.tier)
    assert {topic for topic, _ in attached(report)} == {"diverged"}
    (text,) = [str(each) for each in report.plan.findings if each.code == "tier-left-out" and each.topic == "moved"]
    assert "left out: the topic has no remote.storage.enable" in text
    assert ("error", "no-replica") in {
        (each.severity, each.code) for each in report.plan.findings if each.topic == "moved"
    }


def test_only_the_metadata_of_a_controller_is_left(tmp_path: Path) -> None:
    """Topics keep the settings that they had."""
    case = golden("lineage", tmp_path)
    disk = with_settings(case, tmp_path, remote_storage_enable="true", retention_ms="86400000")
    report = kafkalog.rescue(disk, tmp_path / "out", remote=case.tier)
    assert codes(report, "error") == {"tier-only"}
    records = kafkalog.tables.cluster_metadata(tmp_path / "out").to_pylist()
    configs = [json.loads(row["value"]) for row in records if row["type"] == "CONFIG_RECORD"]
    assert {(each["name"], each["value"]) for each in configs if each["resourceName"] == "moved"} == {
        ("remote.storage.enable", "true"),
        ("retention.ms", "86400000"),
    }
    assert len([each for each in report.plan.choices if each.topic == METADATA]) == 3


def test_damage_on_a_disk_that_the_tier_has_whole(tmp_path: Path) -> None:
    """The log begins after the damage, since a broker reads the tier only before the first local offset."""
    case = golden("lineage", tmp_path)
    folder = case.data / "diverged-0"
    logs = sorted(folder.glob("*.log"))
    assert len(logs) > 2
    data = bytearray(logs[0].read_bytes())
    data[100:400] = bytes(300)
    logs[0].write_bytes(data)
    alone = kafkalog.rescue(case.data, dry_run=True)
    assert any(each.lost for each in alone.plan.choices if each.topic == "diverged")
    assert [each.topic for each in alone.plan.findings if each.code == "tiered"] == ["diverged", "moved"]
    report = kafkalog.rescue(case.data, tmp_path / "out", remote=case.tier)
    assert "tiered" not in codes(report)
    choice = attached(report)["diverged", 0]
    assert (choice.lost, choice.pieces[0].first_offset) == ((), choice.local_start_offset)
    assert choice.local_start_offset > int(logs[0].name[:20])
    table = kafkalog.read_table(tmp_path / "out", "diverged", columns=COLUMNS, remote=case.tier)
    assert rows_of(table) == expected_rows(case.rows("diverged", 0, "uncommitted") or [])


def test_a_disk_that_is_behind_the_tier(tmp_path: Path) -> None:
    """The copied, acknowledged records count, not the shorter log of a broker that was away."""
    case = golden("lineage", tmp_path)
    folder = case.data / "moved-0"
    for file in folder.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    with kafkalog.LogWriter(tmp_path / "old", "moved", 0, topic_id=MOVED) as writer:
        writer.append([kafkalog.Record(value=b"old")])
    for file in (tmp_path / "old/moved-0").iterdir():
        shutil.copy(file, folder)
    choice = attached(kafkalog.rescue(case.data, tmp_path / "out", remote=case.tier))["moved", 0]
    assert (choice.pieces, choice.log_end_offset, choice.replica) == ((), 1488, None)
    assert choice.reasons == ("the tier: no disk has as much",)


def test_the_same_command_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a kill each copy has its two events once."""
    case, out = golden("lineage", tmp_path), tmp_path / "out"
    whole = partition_copy.write_partition

    def killed(choice: Choice, *args: Any, **kwargs: Any) -> int:
        if choice.topic == METADATA and kwargs["records"]:
            # After the append, before the folder is moved.
            monkeypatch.setattr(output, "write_partition", whole)
            whole(choice, args[0], tmp_path, **kwargs)
            shutil.move(tmp_path / f"{METADATA}-{choice.partition}", args[0] / f"{METADATA}-{choice.partition}")
            raise OSError("killed")
        return whole(choice, *args, **kwargs)

    monkeypatch.setattr(output, "write_partition", killed)
    with pytest.raises(OSError, match="killed"):
        kafkalog.rescue(None, out, remote=case.tier)
    assert not out.exists()
    report = kafkalog.rescue(None, out, remote=case.tier)
    found = [(kind, value["remoteLogSegmentId"]["id"]) for _, kind, value in events(out)]
    assert len(set(found)) == len(found) == 2 * sum(len(each.remote) for each in attached(report).values())


def test_refusals(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="expected segments in tiered storage, found none"):
        kafkalog.rescue(None, tmp_path / "out", remote=tmp_path / "empty")
    assert not (tmp_path / "out").exists()
    with_disk = kafkalog.rescue(case.data, dry_run=True, remote=tmp_path / "empty")
    assert "tier-empty" in codes(with_disk, "warning")
    with pytest.raises(FileNotFoundError):
        kafkalog.rescue(None, tmp_path / "out", remote=tmp_path / "absent")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(FileExistsError):
        kafkalog.rescue(None, tmp_path / "taken", remote=case.tier)
    with pytest.raises(UnknownTopicOrPartitionError, match="nonesuch"):
        kafkalog.rescue(None, tmp_path / "out", remote=case.tier, topics=["moved", "nonesuch"])
    with pytest.raises(ValueError, match=r"remote is for a new cluster .* topic ids of the dead cluster"):
        kafkalog.rescue(case.data, into=tmp_path, remote=case.tier, topics="moved")
    with pytest.raises(ValueError, match="paths are missing"):
        kafkalog.rescue(out=tmp_path / "out")
    with pytest.raises(ValueError, match="which remote names"):
        kafkalog.rescue(case.data, dry_run=True, keyring={"a": "b"})
    with pytest.raises(ValueError, match="would lie in the source"):
        kafkalog.rescue(None, case.tier / "out", remote=case.tier)


def test_objects_with_names_of_no_partition(tmp_path: Path) -> None:
    """Names of objects, which anyone may choose, make no folders and no billions of partitions."""
    case = golden("lineage", tmp_path)
    folder = folder_of(case.tier, "moved")
    names = {"mo ved": 0, "..": 0, "moved": 2_000_000_000, "diverged": 1 << 17}
    for n, (topic, number) in enumerate(names.items()):
        shutil.copytree(folder, folder.with_name(f"{topic}-{number}-{MOVED[:-2]}{n}w"))
    report = kafkalog.rescue(None, tmp_path / "out", remote=case.tier)
    assert attached(report).keys() == {("moved", 0), ("diverged", 0)}
    assert len(report.plan.choices) == 52
    left = {(each.topic, each.partition) for each in report.plan.findings if each.code == "tier-left-out"}
    assert left >= set(names.items())


def test_some_topics(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    report = kafkalog.rescue(None, tmp_path / "out", remote=case.tier, topics="moved")
    assert {each.topic for each in report.plan.choices} == {"moved", METADATA}


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text, JSON and table say what is attached."""
    case = golden("lineage", tmp_path)
    assert main(["rescue", "--remote", str(case.tier), "--out", str(tmp_path / "out")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "metadata: none; topics and partitions are those of the tier"
    assert lines[1].startswith(f"tier: {case.tier}, local; ")
    (moved,) = [line for line in lines if line.startswith("moved-0 ")]
    assert moved.split()[1:4] == ["0", "1488", "5"]
    assert "the tier to 1487" in moved
    assert not any(line.startswith(f"{METADATA}-") for line in lines)
    assert lines[-1] == f"start a node: kafka-server-start {tmp_path}/out/server.properties"
    assert main(["rescue", str(case.data), "--remote", str(case.tier), "--dry-run", "-J"]) in (0, 1)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (tier,) = [each["tier"] for each in found if "tier" in each]
    assert (tier["name"], tier["layout"], tier["metadataPartitions"]) == (str(case.tier), "local", 3)
    (moved_again,) = [each["partition"] for each in found if each.get("partition", {}).get("topic") == "moved"]
    assert (moved_again["logStartOffset"], moved_again["localStartOffset"]) == (0, 1488)
    assert moved_again["remote"][0]["startOffset"] == 0
    table = kafkalog.rescue(case.data, remote=case.tier, dry_run=True).to_arrow()
    (row,) = [row for row in table.to_pylist() if row["topic"] == "moved"]
    assert (row["localStartOffset"], row["remoteSegments"] > 5, row["lost"]) == (1488, True, 0)
    assert main(["rescue", "--out", str(tmp_path / "more")]) == 2
    assert "PATH is needed" in capsys.readouterr().err
