"""Output of a rescue: the partitions of the plan, the metadata of a new cluster, and nothing until all is whole."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clusters
import kafkalog
import tiers
from kafkalog import LogWriter, PartitionLog, Record, _core, tables
from kafkalog.rescue import group_offsets
from kafkalog.rescue.model import GroupOffset, MetadataRecord
from kafkalog.rescue.new_image import new_image
from kafkalog.rescue.output import NOTE, UNFINISHED, write
from kafkalog.rescue.planner import plan_rescue
from kafkalog.rescue.target import Node, server_properties, target_of

if TYPE_CHECKING:
    from kafkalog.rescue.model import RescuePlan

LOG = f"{0:020}.log"


def digests(root: Path) -> dict[str, str]:
    """Every file below a folder, with its content."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def batches(folder: Path) -> list[tuple[int, int, int]]:
    """Offset, leader epoch and checksum of every batch."""
    table = kafkalog.scan_batches(folder, starting_offsets="oldest").read_all()
    columns = [table[name].to_pylist() for name in ("baseOffset", "partitionLeaderEpoch", "crc")]
    return list(zip(*columns, strict=True))


def errors(folder: Path) -> list[str]:
    rows = kafkalog.verify(folder).to_pylist()
    return [str(row) for row in rows if row["severity"] == "error"]


def two_nodes(root: Path) -> tuple[Path, Path]:
    """Two replicas of a log of three epochs and some segments."""
    one, two = (clusters.make_disk(root / f"disks/node-{n}", n) for n in (1, 2))
    clusters.copy_log(clusters.write_log(one, {0: 20, 1: 20, 4: 20}), two)
    return one, two


def checkpoint(path: Path) -> list[str]:
    version, count, *lines = path.read_text().splitlines()
    assert (version, int(count)) == ("0", len(lines))
    return lines


def test_a_log_dir_that_a_broker_mounts(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    before = digests(tmp_path / "disks")
    out = tmp_path / "out"
    report = write(plan_rescue([str(one), str(two)]), out, node_id=7)
    assert (report.out, report.log_dirs, report.bytes > 0) == (str(out), (str(out),), True)
    assert digests(tmp_path / "disks") == before
    folder = out / "orders-0"
    assert batches(folder) == batches(one / "orders-0")
    assert errors(out) == []
    assert (folder / "partition.metadata").read_text().splitlines()[1] == f"topic_id: {clusters.TOPIC_ID}"
    assert checkpoint(folder / "leader-epoch-checkpoint") == ["0 0", "1 40", "4 80"]
    assert checkpoint(out / "recovery-point-offset-checkpoint") == ["orders 0 120"]
    assert checkpoint(out / "replication-offset-checkpoint") == ["orders 0 120"]
    assert checkpoint(out / "log-start-offset-checkpoint") == []
    properties = dict(line.split("=") for line in (out / "meta.properties").read_text().splitlines())
    assert (properties["version"], properties["node.id"], properties["cluster.id"]) == ("1", "7", clusters.CLUSTER_ID)
    # Segments end where those of the source do.
    assert {log.name: log.stat().st_size for log in folder.glob("*.log")} == {
        log.name: log.stat().st_size for log in (one / "orders-0").glob("*.log")
    }
    [row] = tables.topics(out).to_pylist()
    assert (row["topic"], row["replicas"], row["isr"], row["leader"], row["leaderEpoch"]) == ("orders", [7], [7], 7, 5)
    [record] = [row for row in tables.cluster_metadata(out).to_pylist() if row["type"] == "PARTITION_RECORD"]
    assert json.loads(record["value"])["directories"] == [properties["directory.id"]]
    wanted = json.loads((out / "reassignment.json").read_text())
    assert wanted["partitions"][0]["replicas"][0] == 7
    assert not (tmp_path / f"out{UNFINISHED}").exists()


def test_segments_damaged_in_different_replicas(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    truth = batches(one / "orders-0")
    clusters.damage(one / "orders-0", 0)
    clusters.damage(two / "orders-0", 2, 150)
    plan = plan_rescue([str(one), str(two)])
    assert len(plan.choices[0].pieces) > 1
    write(plan, tmp_path / "out")
    assert batches(tmp_path / "out/orders-0") == truth
    assert errors(tmp_path / "out") == []


def test_what_was_deleted_stays_deleted(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    with LogWriter(one, "orders") as writer:
        writer.delete_records(51)
    write(plan_rescue(str(one)), tmp_path / "out")
    assert checkpoint(tmp_path / "out/log-start-offset-checkpoint") == ["orders 0 51"]
    assert checkpoint(tmp_path / "out/orders-0/leader-epoch-checkpoint") == ["1 51", "4 80"]
    assert kafkalog.read_table(tmp_path / "out", columns=["offset"])["offset"][0].as_py() == 51
    # All of it: the log is empty, and continues where it was.
    with LogWriter(one, "orders") as writer:
        writer.delete_records(120)
    write(plan_rescue(str(one)), tmp_path / "all")
    log = PartitionLog(tmp_path / "all/orders-0")
    assert (log.log_start_offset, log.log_end_offset) == (120, 120)


def aborting(log_dir: Path) -> None:
    """Copy a log in which transactions were aborted while another was open."""
    source = Path(clusters.__file__).parent / "golden/txn/data-0/txn-aborts-0"
    clusters.copy_log(source, log_dir)


def test_aborted_transactions_stay_hidden(tmp_path: Path) -> None:
    one = clusters.make_disk(tmp_path / "disks/node-1", 1)
    aborting(one)
    write(plan_rescue(str(one)), tmp_path / "out")
    committed = [
        kafkalog.read_table(root, isolation_level="read_committed", columns=["offset"])["offset"].to_pylist()
        for root in (one, tmp_path / "out")
    ]
    assert committed[0] == committed[1]
    assert 0 < len(committed[0]) < kafkalog.read_table(one, columns=["offset"]).num_rows
    assert errors(tmp_path / "out") == []


def test_what_is_refused(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    plan = plan_rescue([str(one), str(two)])
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    with pytest.raises(FileExistsError):
        write(plan, full)
    with pytest.raises(ValueError, match="where a broker looks for logs"):
        write(plan, one / "out")
    with pytest.raises(ValueError, match=r"controller must be HOST:PORT, not 'localhost'"):
        write(plan, tmp_path / "out", controller="localhost")
    with pytest.raises(ValueError, match=r"controller and listener have localhost:9092 twice"):
        write(plan, tmp_path / "out", controller="localhost:9092", listener="localhost:9092")
    stranger = tmp_path / f"out{UNFINISHED}"
    stranger.mkdir()
    (stranger / "y").touch()
    with pytest.raises(FileExistsError, match="is not an unfinished rescue"):
        write(plan, tmp_path / "out")
    assert [path.name for path in stranger.iterdir()] == ["y"]


def test_a_disk_that_changed_since_it_was_looked_at(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    plan = plan_rescue([str(one), str(two)])
    before = {path: path.read_bytes() for path in (tmp_path / "disks").rglob("*.log")}
    for disk in (one, two):
        clusters.damage(disk / "orders-0", 1)
    with pytest.raises(kafkalog.CorruptRecordError, match=r"orders-0.*\.log: byte \d+"):
        write(plan, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert (tmp_path / f"out{UNFINISHED}").is_dir()
    # Another rescue does not take over the directory; the same one continues.
    with pytest.raises(FileExistsError, match="finish it by the same command"):
        write(plan, tmp_path / "out", node_id=2)
    for path, data in before.items():
        path.write_bytes(data)
    write(plan, tmp_path / "out")
    assert batches(tmp_path / "out/orders-0") == batches(one / "orders-0")


def test_killed_after_all_was_written(tmp_path: Path) -> None:
    one, two = two_nodes(tmp_path)
    plan = plan_rescue([str(one), str(two)])
    unfinished = tmp_path / f"out{UNFINISHED}"
    with LogWriter(one, "orders") as writer:
        writer.truncate(0)
    with pytest.raises(kafkalog.CorruptRecordError):
        write(plan, tmp_path / "out")
    note = (unfinished / "rescue.json").read_text()
    shutil.rmtree(one / "orders-0")
    shutil.copytree(two / "orders-0", one / "orders-0")
    report = write(plan, tmp_path / "out")
    before = digests(tmp_path / "out")
    # The last step is taken back.
    unfinished.mkdir()
    (unfinished / "rescue.json").write_text(note)
    assert write(plan, tmp_path / "out") == report
    assert digests(tmp_path / "out") == before
    assert not unfinished.exists()
    with pytest.raises(FileExistsError):
        write(plan, tmp_path / "out")


def test_several_new_nodes(tmp_path: Path) -> None:
    one = clusters.make_disk(tmp_path / "disks/node-1", 1)
    for topic, letter in (("a", "B"), ("b", "C"), ("c", "D"), ("d", "E")):
        clusters.write_log(one, {0: 3}, topic=topic, topic_id=letter * 21 + "A")
    plan = plan_rescue(str(one))
    report = write(plan, tmp_path / "out", nodes=3, node_id=4, controller="localhost:9093", listener="localhost:9092")
    assert [Path(path).name for path in report.log_dirs] == ["node-4", "node-5", "node-6"]
    held = [sorted(path.name for path in Path(each).glob("?-0")) for each in report.log_dirs]
    assert held == [["a-0", "d-0"], ["b-0"], ["c-0"]]
    snapshots = {next(Path(each).glob("__cluster_metadata-0/*.checkpoint")).name for each in report.log_dirs}
    assert len(snapshots) == 1
    for node, log_dir in zip((4, 5, 6), report.log_dirs, strict=True):
        rows = tables.topics(log_dir).to_pylist()
        assert {row["topic"]: row["leader"] for row in rows} == {"a": 4, "b": 5, "c": 6, "d": 4}
        text = (Path(log_dir) / "server.properties").read_text()
        assert f"node.id={node}\n" in text
        assert "bootstrap.servers=localhost:9093,localhost:9095,localhost:9097\n" in text


def metadata(*records: tuple[str, int, dict[str, object]]) -> tuple[MetadataRecord, ...]:
    return tuple(MetadataRecord(*each) for each in records)


def test_the_new_image(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    plan = plan_rescue(str(one))
    [choice] = plan.choices
    node = Node(7, "AAAAAAAAAAAAAAAAAAAAZw", ("h", 1), ("h", 2), "")
    partition = {
        "partitionId": 0,
        "topicId": clusters.TOPIC_ID,
        "replicas": [1, 2, 3],
        "isr": [2],
        "removingReplicas": [1],
        "addingReplicas": [9],
        "leader": -1,
        "leaderRecoveryState": 1,
        "leaderEpoch": 12,
        "partitionEpoch": 30,
        "directories": ["AAAAAAAAAAAAAAAAAAAAAQ"] * 3,
        "eligibleLeaderReplicas": [3],
        "lastKnownElr": [1],
    }
    config = {"resourceType": 4, "name": "x", "value": "1"}
    image = replace(
        plan.image,
        records=metadata(
            ("TOPIC_RECORD", 0, {"name": "orders", "topicId": clusters.TOPIC_ID}),
            ("TOPIC_RECORD", 0, {"name": "gone", "topicId": clusters.OTHER_ID}),
            ("PARTITION_RECORD", 2, partition),
            ("PARTITION_RECORD", 2, {**partition, "topicId": clusters.OTHER_ID}),
            ("REGISTER_BROKER_RECORD", 3, {"brokerId": 1}),
            ("REGISTER_CONTROLLER_RECORD", 0, {"controllerId": 1}),
            ("CONFIG_RECORD", 0, {**config, "resourceName": ""}),
            ("CONFIG_RECORD", 0, {**config, "resourceName": "7"}),
            ("CONFIG_RECORD", 0, {**config, "resourceName": "8"}),
            ("CONFIG_RECORD", 0, {**config, "resourceType": 2, "resourceName": "orders"}),
            ("CONFIG_RECORD", 0, {**config, "resourceType": 2, "resourceName": "gone"}),
            ("CONFIG_RECORD", 0, {"resourceType": 2, "resourceName": "orders", "name": "segment.bytes", "value": "99"}),
            ("PRODUCER_IDS_RECORD", 0, {"brokerId": 3, "brokerEpoch": 9, "nextProducerId": 4000}),
            ("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 29}),
        ),
    )
    placed = {(clusters.TOPIC_ID, 0): (choice, node)}
    records = new_image(image, placed, 5999)
    kinds = [record.type for record in records]
    assert kinds[0] == "FEATURE_LEVEL_RECORD"
    assert kinds.count("TOPIC_RECORD") == kinds.count("PARTITION_RECORD") == 1
    assert not {"REGISTER_BROKER_RECORD", "REGISTER_CONTROLLER_RECORD"} & set(kinds)
    names = [(r.value["resourceType"], r.value["resourceName"]) for r in records if r.type == "CONFIG_RECORD"]
    assert names == [(4, ""), (4, "7"), (2, "orders"), (2, "orders")]
    assert [r.value["value"] for r in records if r.type == "CONFIG_RECORD"] == ["1", "1", "1", "1048576"]
    [made] = [record.value for record in records if record.type == "PARTITION_RECORD"]
    assert made == {
        "partitionId": 0,
        "topicId": clusters.TOPIC_ID,
        "replicas": [7],
        "isr": [7],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": 7,
        "leaderEpoch": 13,
        "partitionEpoch": 31,
        "directories": [node.directory_id],
    }
    assert records[-1].value == {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": 7000}
    assert new_image(image, placed, -1)[-1].value["nextProducerId"] == 4000
    # Before KIP-858 partitions have no directories, and before KIP-853 the quorum is configured.
    features = metadata(("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 14}))
    old = replace(image, records=(*image.records[:2], replace(image.records[2], version=0), *features))
    [other] = [record for record in new_image(old, placed, -1) if record.type == "PARTITION_RECORD"]
    assert (other.version, "directories" in other.value) == (0, False)
    target = target_of(
        old, node_id=7, nodes=1, controller="h:1", listener="h:2", cluster_id="x", directory_ids=[node.directory_id]
    )
    assert target.voters() is None
    assert "controller.quorum.voters=7@h:1\n" in server_properties(target, node, "/x", old)


def test_groups_and_their_coordinators() -> None:
    # Of Utils.abs(group.hashCode) % 50, by Java.
    for group, partition in (("", 0), ("g", 3), ("billing", 9), ("polygenelubricants", 0), ("é€😀", 6)):
        assert group_offsets.coordinator_partition(group, 50) == partition, group
    offsets = [GroupOffset("g", "orders", 2, 900, 120)]
    [(partition, [record])] = group_offsets.lowered(offsets, 50, 1_700_000_000_000).items()
    assert partition == 3
    assert record.key == b"\x00\x01\x00\x01g\x00\x06orders\x00\x00\x00\x02"
    assert record.value is not None
    assert record.value[:10] == b"\x00\x03" + (120).to_bytes(8, "big")


def test_committed_offsets_are_lowered(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    key = b"\x00\x01\x00\x01g\x00\x06orders\x00\x00\x00\x00"
    value = b"\x00\x03" + (900).to_bytes(8, "big") + b"\xff" * 4 + b"\x00\x00" + (1).to_bytes(8, "big")
    with LogWriter(one, "__consumer_offsets", topic_id=clusters.OTHER_ID) as writer:
        writer.append([Record(value=value, key=key)])
    plan = plan_rescue(str(one))
    assert [(each.group, each.offset, each.end_offset) for each in plan.group_offsets] == [("g", 900, 120)]
    write(plan, tmp_path / "out")
    offsets = tables.consumer_offsets(tmp_path / "out").to_pylist()
    assert [(row["group"], row["topic"], row["partition"], row["offset"]) for row in offsets] == [
        ("g", "orders", 0, 120)
    ]


def test_producer_ids_of_transactions_are_not_given_again(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    value = {
        "producerId": 70_123,
        "producerEpoch": 0,
        "transactionTimeoutMs": 60_000,
        "transactionStatus": 0,
        "transactionPartitions": None,
        "transactionLastUpdateTimestampMs": 1,
        "transactionStartTimestampMs": -1,
    }
    # Begun, and nothing written by it.
    key, encoded = _core.encode_record(
        "__transaction_state", "TransactionLog", 0, '{"transactionalId":"tx"}', json.dumps(value)
    )
    with LogWriter(one, "__transaction_state", topic_id=clusters.OTHER_ID) as writer:
        writer.append([Record(value=encoded, key=key)])
    write(plan_rescue(str(one)), tmp_path / "out")
    rows = tables.cluster_metadata(tmp_path / "out").to_pylist()
    [ids] = [json.loads(row["value"]) for row in rows if row["type"] == "PRODUCER_IDS_RECORD"]
    assert ids["nextProducerId"] > 70_123


def test_stopped_by_the_caller(tmp_path: Path) -> None:
    one = clusters.make_disk(tmp_path / "disks/node-1", 1)
    for n in range(5):
        clusters.write_log(one, {0: 10}, topic=f"t{n}", topic_id=chr(ord("B") + n) * 21 + "A")
    plan = plan_rescue(str(one))

    def stop(phase: str, done: int, total: int) -> None:
        assert phase == "written"
        assert 0 < done <= total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(plan, tmp_path / "out", progress=stop)
    assert not (tmp_path / "out").exists()
    told: list[int] = []
    write(plan, tmp_path / "out", progress=lambda _, done, __: told.append(done))
    assert told == sorted(told)
    assert errors(tmp_path / "out") == []
    assert kafkalog.read_table(tmp_path / "out", columns=["offset"]).num_rows == 100


def test_stopped_at_the_end_of_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call begins the next segment, as the source does."""
    one, _ = two_nodes(tmp_path)
    plan = plan_rescue(str(one))

    def stop(_: LogWriter) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "roll", stop)
        with pytest.raises(KeyboardInterrupt):
            write(plan, tmp_path / "out")
    write(plan, tmp_path / "out")
    sizes = [{log.name: log.stat().st_size for log in root.glob("orders-0/*.log")} for root in (one, tmp_path / "out")]
    assert sizes[0] == sizes[1]
    assert batches(tmp_path / "out/orders-0") == batches(one / "orders-0")


KILLED = """
import sys
from pathlib import Path
from kafkalog.rescue.output import write
from kafkalog.rescue.planner import plan_rescue
write(plan_rescue(sys.argv[2:]), Path(sys.argv[1]), link=True)
"""


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "kill"), reason="signals")
def test_killed_at_random_moments(tmp_path: Path) -> None:
    disks = [clusters.make_disk(tmp_path / f"disks/node-{n}", n) for n in (1, 2)]
    for n in range(4):
        topic_id = chr(ord("B") + n) * 21 + "A"
        clusters.copy_log(clusters.write_log(disks[0], {0: 10, 2: 15}, topic=f"t{n}", topic_id=topic_id), disks[1])
    before = digests(tmp_path / "disks")
    out = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(out), *map(str, disks)]
    chance = random.Random(1)  # noqa: S311
    began = time.monotonic()
    subprocess.run(command, check=True, timeout=100)
    took, kills = time.monotonic() - began, 0
    expected = {name: digest for name, digest in digests(out).items() if re.search(r"^t\d-0/.*\.(log|index)$", name)}
    unfinished = tmp_path / f"out{UNFINISHED}"
    shutil.rmtree(out)
    while kills < tiers.pick(1, 2, 200):
        running = subprocess.Popen(command)
        time.sleep(chance.uniform(0.3, 0.9) * took)
        running.send_signal(signal.SIGKILL)
        assert running.wait(timeout=100) in {0, -signal.SIGKILL}
        kills += running.returncode != 0
        # It is there as a whole, or not at all.
        assert not out.exists() or (out / "meta.properties").exists()
        if out.exists() and not (unfinished / NOTE).exists():
            shutil.rmtree(out)
            took *= 0.8
    subprocess.run(command, check=True, timeout=100)
    assert not unfinished.exists()
    found = digests(out)
    assert {name: found.get(name) for name in expected} == expected
    assert errors(out) == []
    assert digests(tmp_path / "disks") == before


def test_killed_between_the_removal_of_the_note_and_of_its_folder(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    plan, out = plan_rescue([one]), tmp_path / "out"
    write(plan, out)
    before = digests(out)
    (tmp_path / f"out{UNFINISHED}").mkdir()
    with pytest.raises(FileExistsError) as caught:
        write(plan, out)
    assert caught.value.filename == str(out)
    assert digests(out) == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["disks", "out"]


def test_an_output_that_is_a_link_to_an_empty_folder(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    (tmp_path / "volume").mkdir()
    (tmp_path / "link").symlink_to("volume")
    report = kafkalog.rescue(one, tmp_path / "link")
    assert report.out == str(tmp_path / "volume")
    assert batches(tmp_path / "link/orders-0") == batches(one / "orders-0")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["disks", "link", "volume"]


def choices_of(plan: RescuePlan) -> dict[str, int]:
    return {f"{choice.topic}-{choice.partition}": index for index, choice in enumerate(plan.choices)}


@pytest.mark.skipif(not clusters.CASES, reason="no disks of dead clusters here")
@pytest.mark.parametrize("case", clusters.CASES)
def test_disks_of_a_real_cluster(tmp_path: Path, case: str) -> None:
    plan = plan_rescue(clusters.disks(case))
    out = tmp_path / "out"
    write(plan, out)
    assert errors(out) == []
    for name, index in choices_of(plan).items():
        choice = plan.choices[index]
        served = kafkalog.read_table(out / name, columns=["offset"])["offset"].to_pylist()
        wanted = sorted(offset for offset in clusters.taken(choice) if offset >= choice.log_start_offset)
        assert served == wanted, name
    kinds = set(tables.cluster_metadata(out)["type"].to_pylist())
    assert not {"REGISTER_BROKER_RECORD", "REGISTER_CONTROLLER_RECORD"} & kinds
    assert {"USER_SCRAM_CREDENTIAL_RECORD", "ACCESS_CONTROL_ENTRY_RECORD", "CLIENT_QUOTA_RECORD"} <= kinds


def test_a_report_is_text_and_a_table(tmp_path: Path) -> None:
    one, _ = two_nodes(tmp_path)
    report = kafkalog.rescue(str(one), tmp_path / "out")
    assert isinstance(report, kafkalog.RescueReport)
    rows = report.to_arrow().to_pylist()
    assert [(row["topic"], row["partition"], row["logEndOffset"]) for row in rows] == [
        (each.topic, each.partition, each.log_end_offset) for each in report.plan.choices
    ]
    assert str(report).splitlines()[-1].startswith(f"{len(rows)} partition(s) of ")
    assert str(tmp_path / "out") in str(report)
    planned = kafkalog.rescue(str(one), dry_run=True)
    assert planned.to_arrow().equals(report.to_arrow())
    assert "would be written" in str(planned)
