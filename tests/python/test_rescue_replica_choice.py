"""Choice of a replica, and of others that fill its damage: disks that the tests make, and break."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import clusters
from clusters import OTHER_ID, TOPIC_ID
from kafkalog.rescue.inventory import scan_disks
from kafkalog.rescue.replica_choice import Partition, choose

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog.rescue.model import Choice, Finding

EPOCHS = {0: 25, 3: 30, 4: 20}
END = 2 * sum(EPOCHS.values())
# offset of the first batch of the last epoch
LAST_EPOCH = 2 * (EPOCHS[0] + EPOCHS[3])


class Three:
    """Three nodes with the same replica, to be spoilt."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disks = [clusters.make_disk(root / f"node-{n}", n) for n in (1, 2, 3)]
        first = clusters.write_log(self.disks[0], EPOCHS)
        self.folders = [first, *(clusters.copy_log(first, disk) for disk in self.disks[1:])]
        self.truth = clusters.records(str(first), 0, END)
        assert len(self.truth) == END

    def chosen(self, **image: Any) -> tuple[Choice, list[Finding]]:
        inventory = scan_disks([str(disk) for disk in self.disks if disk.exists()])
        known = {
            "topic": "orders",
            "topic_id": TOPIC_ID,
            "number": 0,
            "replicas": (1, 2, 3),
            "isr": (1, 2, 3),
            "elr": (),
            "leader_epoch": 4,
            "partition_epoch": 9,
            "is_compacted": False,
            "is_known": True,
        }
        return choose(Partition(**{**known, **image}), inventory.replicas, inventory.runs)

    def checkpoint(self, node: int, name: str, offset: int) -> None:
        (self.disks[node - 1] / name).write_text(f"0\n1\norders 0 {offset}\n")


@pytest.fixture
def three(tmp_path: Path) -> Three:
    return Three(tmp_path)


def node_of(choice: Choice) -> int | None:
    assert choice.replica is not None
    return choice.replica.disk.node_id


def codes(findings: list[Finding], *severities: str) -> list[str]:
    return sorted(each.code for each in findings if not severities or each.severity in severities)


def test_equal_replicas_need_one_piece(three: Three) -> None:
    choice, findings = three.chosen()
    assert [(piece.first_offset, piece.end_offset) for piece in choice.pieces] == [(0, END)]
    assert choice.leader_epochs == ((0, 0), (3, 50), (4, LAST_EPOCH))
    assert (choice.lost, choice.spliced, choice.divergences, findings) == ((), (), (), [])


def test_a_replica_in_sync_wins_over_a_longer_one(three: Three) -> None:
    """The longer one was a leader of the same epoch whose last batches nobody fetched."""
    clusters.truncate(three.folders[1], END - 10)
    choice, findings = three.chosen(isr=(2,))
    assert node_of(choice) == 2
    assert choice.log_end_offset == END - 10
    assert [(each.offset, each.chosen_epoch, each.records) for each in choice.divergences] == [(END - 10, -1, 10)] * 2
    assert codes(findings, "error") == []


def test_of_those_in_sync_the_longest(three: Three) -> None:
    for folder in three.folders[:2]:
        clusters.truncate(folder, END - 6)
    choice, _ = three.chosen()
    assert (node_of(choice), choice.log_end_offset) == (3, END)


def test_an_eligible_leader_stands_in_for_the_isr(three: Three) -> None:
    clusters.truncate(three.folders[1], END - 4)
    shutil.rmtree(three.disks[0])
    choice, findings = three.chosen(isr=(1,), elr=(2,))
    assert node_of(choice) == 2
    assert codes(findings, "error") == []


def test_without_any_in_sync_the_lineage_decides_not_the_length(three: Three) -> None:
    """Node 3 went on alone in an older epoch, and is longer."""
    shutil.rmtree(three.disks[0])
    clusters.truncate(three.folders[2], LAST_EPOCH)
    clusters.write_log(three.disks[2], {3: 40})
    choice, findings = three.chosen(isr=(1,))
    assert node_of(choice) == 2
    assert choice.log_end_offset == END
    (apart,) = choice.divergences
    assert (apart.offset, apart.chosen_epoch, apart.epoch, apart.records) == (LAST_EPOCH, 4, 3, 80)
    assert codes(findings, "error") == ["out-of-sync"]
    assert clusters.taken(choice) == three.truth


def test_batches_newer_than_the_metadata_win(three: Three) -> None:
    clusters.write_log(three.disks[2], {7: 5})
    choice, _ = three.chosen(isr=(1, 2))
    assert (node_of(choice), choice.log_end_offset, choice.leader_epoch) == (3, END + 10, 7)


def test_another_incarnation_is_never_taken(three: Three) -> None:
    shutil.rmtree(three.folders[0])
    clusters.write_log(three.disks[0], {9: 90}, topic_id=OTHER_ID)
    choice, findings = three.chosen()
    assert node_of(choice) == 2
    assert codes(findings) == ["other-incarnation"]
    for folder in three.folders[1:]:
        shutil.rmtree(folder)
    choice, findings = three.chosen()
    assert (choice.replica, choice.pieces) == (None, ())
    assert codes(findings, "error") == ["no-replica"]


def test_a_stray_folder_is_taken_only_where_no_other_is_left(three: Three) -> None:
    stray = three.folders[0].rename(three.disks[0] / "orders-0.0123456789abcdef0123456789abcdef-stray")
    choice, findings = three.chosen(isr=(1, 2))
    assert node_of(choice) == 2
    assert codes(findings) == ["inactive-folder"]
    for disk in three.disks[1:]:
        shutil.rmtree(disk)
    choice, findings = three.chosen(isr=(1,))
    assert choice.replica is not None
    assert choice.replica.path == str(stray)
    assert clusters.taken(choice) == three.truth
    assert codes(findings, "warning") == ["inactive-folder"]


def test_damage_in_different_places_is_spliced_to_the_truth(three: Three) -> None:
    clusters.damage(three.folders[0], 0, 10)
    clusters.damage(three.folders[1], 2, 300)
    clusters.damage(three.folders[2], 4, 5, 500)
    sorted(three.folders[0].glob("*.log"))[3].unlink()
    min(three.folders[1].glob("*.log")).unlink()
    choice, findings = three.chosen()
    assert clusters.taken(choice) == three.truth
    assert choice.lost == ()
    assert codes(findings, "error") == []
    assert "spliced" in codes(findings)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_whole_somewhere_is_taken(three: Three, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    segments = len(list(three.folders[0].glob("*.log")))
    for folder in three.folders:
        for _ in range(chance.randrange(1, 4)):
            clusters.damage(folder, chance.randrange(segments), chance.randrange(900), chance.randrange(1, 300))
    choice, findings = three.chosen()
    held = [clusters.records(str(folder), 0, END) for folder in three.folders]
    anywhere = {offset: record for each in held for offset, record in each.items()}
    taken = clusters.taken(choice)
    end = choice.log_end_offset
    assert taken == {offset: record for offset, record in anywhere.items() if offset < end}
    assert taken.items() <= three.truth.items()
    assert end == max(anywhere) + 1
    lost = {offset for first, last in choice.lost for offset in range(first, last)}
    assert lost == set(range(end)) - taken.keys()
    assert ("lost" in codes(findings, "error")) == bool(lost)


def test_what_all_have_lost_is_named(three: Three) -> None:
    for folder in three.folders:
        sorted(folder.glob("*.log"))[1].unlink()
    choice, findings = three.chosen()
    ((first, end),) = choice.lost
    assert clusters.taken(choice) == {o: r for o, r in three.truth.items() if not first <= o < end}
    (lost,) = [each for each in findings if each.severity == "error"]
    assert str(lost) == f"orders-0: error: offsets {first} to {end - 1} are damaged on every disk that has them [lost]"


def test_a_torn_end_is_taken_from_one_that_is_not_in_sync(three: Three) -> None:
    """Node 2 is in sync and once had more: its high watermark says so."""
    three.checkpoint(2, "replication-offset-checkpoint", END - 4)
    last = max(three.folders[1].glob("*.log"))
    last.write_bytes(last.read_bytes()[:-50])
    clusters.truncate(three.folders[2], END)
    shutil.rmtree(three.disks[0])
    choice, findings = three.chosen(isr=(2,))
    assert node_of(choice) == 2
    assert clusters.taken(choice) == three.truth
    assert codes(findings, "error") == []


def test_a_torn_end_is_not_taken_from_another_history(three: Three) -> None:
    """Node 3 wrote on in epoch 3. The epochs of node 2, which lost its last segments, say where that had ended."""
    clusters.truncate(three.folders[2], LAST_EPOCH)
    clusters.write_log(three.disks[2], {3: 40})
    for each in three.folders[1].glob("*.log"):
        if int(each.stem) >= LAST_EPOCH - 10:
            each.unlink()
    three.checkpoint(2, "replication-offset-checkpoint", END)
    shutil.rmtree(three.disks[0])
    choice, findings = three.chosen(isr=(2,))
    assert choice.log_end_offset == LAST_EPOCH
    assert clusters.taken(choice) == {o: r for o, r in three.truth.items() if o < LAST_EPOCH}
    assert codes(findings, "error") == ["committed-missing"]


def test_deleted_records_stay_deleted(three: Three) -> None:
    """One replica did not hear of it."""
    three.checkpoint(1, "log-start-offset-checkpoint", 37)
    three.checkpoint(2, "log-start-offset-checkpoint", 20)
    choice, findings = three.chosen()
    assert choice.log_start_offset == 37
    assert choice.pieces[0].first_offset == 37
    assert findings == []


def test_a_segment_that_retention_removed_is_not_missing(three: Three) -> None:
    """The broker moves the first entry of the epochs with the log start offset; a disk that lost a file does not."""
    bases = sorted(int(each.stem) for each in three.folders[0].glob("*.log"))
    for folder in three.folders[:2]:
        min(folder.glob("*.log")).unlink()
    kept = (three.folders[0] / "leader-epoch-checkpoint").read_text()
    (three.folders[0] / "leader-epoch-checkpoint").write_text(kept.replace("\n0 0\n", f"\n0 {bases[1]}\n"))
    choice, findings = three.chosen()
    assert choice.log_start_offset == bases[1]
    assert findings == []
    (three.folders[0] / "leader-epoch-checkpoint").write_text(kept)
    choice, findings = three.chosen()
    assert choice.log_start_offset == 0
    assert clusters.taken(choice) == three.truth
    assert codes(findings, "error", "warning") == []


def test_other_batches_in_the_same_epoch_are_never_mixed_in(three: Three) -> None:
    """Kafka never writes such; a disk restored from elsewhere may hold it."""
    shutil.rmtree(three.folders[2])
    clusters.write_log(three.disks[2], EPOCHS, word="other")
    for folder in three.folders[:2]:
        sorted(folder.glob("*.log"))[2].unlink()
    foreign = clusters.records(str(three.folders[2]), 0, END)
    choice, findings = three.chosen(isr=(1, 2))
    assert clusters.taken(choice).items() <= three.truth.items()
    assert foreign.keys() == three.truth.keys()
    assert choice.lost
    assert "other-batches" in codes(findings, "warning")


def test_a_file_that_cannot_be_read_is_taken_from_another(three: Three) -> None:
    """As of a device that fails: the whole replica counts as damaged, not as short."""
    segment = sorted(three.folders[0].glob("*.log"))[1]
    segment.unlink()
    segment.symlink_to(segment.name)
    choice, findings = three.chosen()
    assert node_of(choice) in {2, 3}
    assert clusters.taken(choice) == three.truth
    assert codes(findings, "error") == []
    shutil.rmtree(three.disks[1])
    shutil.rmtree(three.disks[2])
    choice, findings = three.chosen(isr=(1,))
    assert choice.pieces == ()
    assert codes(findings, "error") == ["lost"]
