"""Description of the disks, and the metadata that is made of folders where there is none."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import TYPE_CHECKING

import pytest

import clusters
from clusters import OTHER_ID, TOPIC_ID
from kafkalog.errors import UnknownTopicOrPartitionError
from kafkalog.rescue import inventory
from kafkalog.rescue.planner import plan_rescue
from kafkalog.rescue.shared_work import SharedWork

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog.rescue.model import RescuePlan


def codes(plan: RescuePlan) -> list[str]:
    return [each.code for each in plan.findings]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    made = clusters.make_disk(tmp_path / "node-1", 1)
    clusters.write_log(made, {0: 5, 2: 5})
    return made


def test_disks_of_another_cluster_are_refused_by_name(disk: Path, tmp_path: Path) -> None:
    other = clusters.make_disk(tmp_path / "stranger", 2, cluster_id="4L6g3nShT-eMCtK--X86sw")
    with pytest.raises(ValueError, match="different clusters") as refused:
        plan_rescue([disk, other])
    for said in (disk, other, "4L6g3nShT-eMCtK--X86sw", clusters.CLUSTER_ID):
        assert str(said) in str(refused.value)


def test_the_same_disk_twice_counts_once(disk: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(disk)
    backup = tmp_path / "backup"
    shutil.copytree(disk, backup)
    plan = plan_rescue([disk, link, backup])
    assert [each.path for each in plan.disks] == [str(disk)]
    assert codes(plan).count("same-disk") == 2
    assert len(plan.replicas) == 1


def test_a_disk_without_meta_properties_is_taken_and_said(disk: Path) -> None:
    (disk / "meta.properties").unlink()
    plan = plan_rescue(disk)
    assert (plan.disks[0].node_id, plan.disks[0].cluster_id, plan.cluster_id) == (None, None, None)
    assert "unknown-disk" in codes(plan)
    assert plan.choices[0].log_end_offset == 20


def test_a_disk_whose_meta_properties_cannot_be_read_is_taken_and_said(disk: Path) -> None:
    (disk / "meta.properties").unlink()
    (disk / "meta.properties").mkdir()
    plan = plan_rescue(disk)
    (finding,) = [each for each in plan.findings if each.code == "unknown-disk"]
    assert "meta.properties cannot be read: [Errno 21]" in finding.message
    assert plan.choices[0].log_end_offset == 20


def test_what_is_no_log_dir_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.txt").write_text("sun")
    with pytest.raises(ValueError, match="not a log dir"):
        plan_rescue(tmp_path)
    with pytest.raises(FileNotFoundError):
        plan_rescue(tmp_path / "absent")


def test_without_metadata_topics_come_from_the_folders(disk: Path, tmp_path: Path) -> None:
    second = clusters.make_disk(tmp_path / "node-2", 2)
    clusters.write_log(second, {0: 3}, topic="payments", topic_id=OTHER_ID)
    plan = plan_rescue([disk, second])
    assert plan.image.path is None
    assert [(each.topic, each.topic_id, each.log_end_offset) for each in plan.choices] == [
        ("orders", TOPIC_ID, 20),
        ("payments", OTHER_ID, 6),
    ]
    assert plan.choices[0].leader_epoch == 2
    assert not plan.is_complete
    assert [each.code for each in plan.findings if each.severity == "error"] == ["no-metadata"]


def test_without_metadata_the_incarnation_written_last_counts(disk: Path, tmp_path: Path) -> None:
    second = clusters.make_disk(tmp_path / "node-2", 2)
    folder = clusters.write_log(second, {0: 1}, topic_id=OTHER_ID)
    for file in folder.glob("*.log"):
        os.utime(file, (4_000_000_000, 4_000_000_000))
    plan = plan_rescue([disk, second])
    assert [(each.topic_id, each.log_end_offset) for each in plan.choices] == [(OTHER_ID, 2)]
    assert "other-incarnation" in codes(plan)


def test_topics_without_ids_get_the_same_id_each_time(disk: Path) -> None:
    (disk / "orders-0" / "partition.metadata").unlink()
    one, two = plan_rescue(disk), plan_rescue(disk)
    assert one.choices[0].topic_id == two.choices[0].topic_id
    assert len(one.choices[0].topic_id or "") == 22
    assert one.choices[0].log_end_offset == 20


def test_small_files_that_are_broken_hide_nothing(disk: Path) -> None:
    (disk / "orders-0" / "leader-epoch-checkpoint").write_text("nonsense")
    (disk / "log-start-offset-checkpoint").write_text("0\nmany\n")
    plan = plan_rescue(disk)
    assert codes(plan).count("unreadable") == 2
    assert plan.choices[0].leader_epochs == ((0, 0), (2, 10))


def test_a_partition_without_segments_is_empty(disk: Path) -> None:
    for each in (disk / "orders-0").glob("*.log"):
        each.unlink()
    plan = plan_rescue(disk)
    assert (plan.choices[0].pieces, plan.choices[0].log_end_offset) == ((), 0)
    (lost,) = [each for each in plan.findings if each.code == "lost"]
    assert lost.message == "the log had more after offset 0, which no disk has"


def test_damage_is_told_with_bytes_and_offsets(disk: Path) -> None:
    clusters.damage(disk / "orders-0", 0, 70, 10)
    (damage,) = plan_rescue(disk).replicas[0].damage
    size = (disk / "orders-0" / damage.segment).stat().st_size
    assert 0 <= damage.position <= 70
    assert 80 <= damage.end_position <= size
    assert damage.reason == "crc"
    assert damage.first_offset < damage.end_offset


def test_only_some_topics(disk: Path) -> None:
    clusters.write_log(disk, {0: 3}, topic="payments", topic_id=OTHER_ID)
    assert {each.topic for each in plan_rescue(disk, topics="payments").choices} == {"payments"}
    with pytest.raises(UnknownTopicOrPartitionError, match="nonesuch"):
        plan_rescue(disk, topics=["nonesuch"])


def test_the_next_best_metadata_where_the_best_is_damaged(tmp_path: Path) -> None:
    disks = clusters.make_cluster(tmp_path)
    shutil.rmtree(disks[0] / "__cluster_metadata-0")
    clusters.add_metadata(disks[0], {"orders": TOPIC_ID}, end=200)
    assert [each.topic for each in plan_rescue(disks).choices] == ["orders"]
    (snapshot,) = (disks[0] / "__cluster_metadata-0").glob("*.checkpoint")
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 0xFF
    snapshot.write_bytes(data)
    plan = plan_rescue(disks)
    assert plan.image.path == str(disks[1] / "__cluster_metadata-0")
    assert [each.topic for each in plan.choices] == ["orders", "payments"]
    assert [each.code for each in plan.findings if each.severity == "error"] == ["metadata-older"]
    assert str(snapshot) in next(each.message for each in plan.findings if each.code == "metadata-damaged")


def test_a_folder_that_is_not_in_the_metadata_is_left_out_and_said(tmp_path: Path) -> None:
    disks = clusters.make_cluster(tmp_path)
    clusters.write_log(disks[1], {0: 2}, topic="forgotten", topic_id=OTHER_ID)
    plan = plan_rescue(disks)
    assert [each.topic for each in plan.choices] == ["orders", "payments"]
    assert [each.topic for each in plan.findings if each.code == "unknown-partition"] == ["forgotten"]


def test_a_node_that_has_a_partition_twice(tmp_path: Path) -> None:
    """The directories of one node; a broker refuses to start on them."""
    disks = clusters.make_cluster(tmp_path)
    second = clusters.make_disk(tmp_path / "node-1-b", 1)
    clusters.copy_log(disks[0] / "payments-0", second)
    plan = plan_rescue([*disks, second])
    assert [(each.topic, each.code) for each in plan.findings if each.severity == "warning"] == [
        ("payments", "two-replicas"),
        ("orders", "damaged"),
    ]


def test_progress_is_told_in_bytes_read(disk: Path) -> None:
    told: list[tuple[str, int, int]] = []
    threads = set()

    def progress(what: str, done: int, total: int) -> None:
        threads.add(threading.get_ident())
        told.append((what, done, total))

    plan = plan_rescue(disk, progress=progress)
    size = sum(each.size for each in plan.replicas)
    assert told[-1] == ("read", size, size)
    assert threads == {threading.get_ident()}


def test_an_interruption_ends_the_reading(disk: Path, tmp_path: Path) -> None:
    second = clusters.make_disk(tmp_path / "node-2", 2)
    clusters.copy_log(disk / "orders-0", second)

    def interrupt(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    # Whichever thread stops the other.
    for _ in range(20):
        with pytest.raises(KeyboardInterrupt):
            plan_rescue([disk, second], progress=interrupt)


def test_one_disk_is_read_by_several_threads_with_the_same_result(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(6):
        clusters.write_log(disk, {0: 5, 2: n + 1}, topic=f"t{n}", topic_id=chr(ord("B") + n) * 21 + "A")
        clusters.damage(disk / f"t{n}-0", 0, 20)
    alone = inventory.scan_disks([str(disk)], threads=1)
    monkeypatch.setattr(inventory, "_GROUP_BYTES", 1)
    readers = set()
    count = SharedWork.add

    def counted(work: SharedWork, size: int) -> None:
        readers.add(threading.get_ident())
        # Long enough for the others to take their turn.
        time.sleep(0.05)
        count(work, size)

    monkeypatch.setattr(SharedWork, "add", counted)
    assert inventory.scan_disks([str(disk)], threads=3) == alone
    assert len(readers) == 3
