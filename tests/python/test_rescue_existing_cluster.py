"""Topics of dead disks in another cluster's log dir: what is written there, what is refused, and what is said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import clusters
import corpus
import kafkalog
from kafkalog import LogWriter, PartitionLog, Record, tables
from kafkalog.cli.main import main
from kafkalog.rescue import existing_cluster as rescue_into
from kafkalog.rescue import output

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ELSEWHERE = "Zq1vM2cXQ0mV3sVgk1B4TA"
METADATA = "__cluster_metadata"
# What a broker does while it runs.
HOLD = """
import sys
from kafkalog import _core
held = _core.HeldLogDirs([sys.argv[1]])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Disks with batches of leader epochs 0 and 4, which nothing writes to."""
    return clusters.make_cluster(tmp_path_factory.mktemp("dead"))


def partition(disk: Path) -> dict[str, Any]:
    rows = tables.cluster_metadata(disk / f"{METADATA}-0").to_pylist()
    return dict(json.loads(next(row["value"] for row in rows if row["type"] == "PARTITION_RECORD")))


def test_the_partition_the_checkpoints_and_the_metadata(tmp_path: Path, disks: list[Path]) -> None:
    target = clusters.make_other(tmp_path / "other")
    with LogWriter(target, "orders", 0, topic_id=clusters.NEW_ID):
        pass
    before = [clusters.contents(each) for each in disks]
    log = target / f"{METADATA}-0" / f"{0:020}.log"
    old = log.read_bytes()
    report = kafkalog.rescue(disks, into=target, topics="orders")
    assert report.is_complete
    assert report.out == str(target)
    assert [clusters.contents(each) for each in disks] == before
    assert clusters.records(str(target / "orders-0"), 0, 80) == clusters.records(str(disks[1] / "orders-0"), 0, 80)
    assert f"topic_id: {clusters.NEW_ID}" in (target / "orders-0" / "partition.metadata").read_text()
    assert "error" not in kafkalog.verify(target / "orders-0")["severity"].to_pylist()
    lines = (target / "replication-offset-checkpoint").read_text().splitlines()
    assert sorted(lines[2:]) == ["kept 3 5", "orders 0 80"]
    # One batch after what was there, of the same epoch.
    assert log.read_bytes().startswith(old)
    assert (partition(target)["leaderEpoch"], partition(target)["partitionEpoch"]) == (5, 2)
    batches = kafkalog.scan_batches(target / f"{METADATA}-0").read_all()
    assert (batches["count"].to_pylist(), batches["partitionLeaderEpoch"].to_pylist()) == ([4, 1], [2, 2])
    assert not (tmp_path / "other.unfinished").exists()


def test_producer_ids_are_not_given_out_again(tmp_path: Path) -> None:
    disk = clusters.make_disk(tmp_path / "dead", 1)
    folder = clusters.copy_log(corpus.GOLDEN / "txn/data-0/txn-aborts-0", disk)
    producers = kafkalog.scan_batches(folder).read_all()["producerId"].to_pylist()
    highest = max(each for each in producers if each is not None)
    target = clusters.make_other(tmp_path / "other", topic="txn-aborts", next_producer_id=highest)
    kafkalog.rescue(disk, into=target, topics="txn-aborts")
    rows = tables.cluster_metadata(target / f"{METADATA}-0").to_pylist()
    [following] = [json.loads(r["value"])["nextProducerId"] for r in rows if r["type"] == "PRODUCER_IDS_RECORD"]
    assert highest < following == (highest // 1000 + 1) * 1000


def test_the_metadata_of_several_voters_is_theirs(tmp_path: Path, disks: list[Path]) -> None:
    target = clusters.make_other(tmp_path / "other", voters=(7, 8, 9))
    before = clusters.contents(target / f"{METADATA}-0")
    report = kafkalog.rescue(disks, into=target, topics=["orders"])
    assert clusters.contents(target / f"{METADATA}-0") == before
    assert PartitionLog(target / "orders-0").log_end_offset == 80
    assert "epochs-behind" in {each.code for each in report.plan.findings if each.severity == "warning"}


def test_a_log_dir_without_metadata_takes_the_id_that_is_given(
    tmp_path: Path, disks: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    target = clusters.make_other(tmp_path / "other")
    shutil.rmtree(target / f"{METADATA}-0")
    assert main(["rescue", *map(str, disks), "--into", str(target), "--topics", "orders"]) == 2
    assert "give the id of topic orders" in capsys.readouterr().err
    assert main(["rescue", *map(str, disks), "--into", str(target), "--topic-id", f"orders={clusters.NEW_ID}"]) == 0
    assert f"written into {target}: start its broker again" in capsys.readouterr().out
    assert f"topic_id: {clusters.NEW_ID}" in (target / "orders-0" / "partition.metadata").read_text()


@pytest.mark.parametrize(
    ("of_partition", "options", "expected"),
    [
        ({"replicas": [7, 8]}, {}, "expected orders-0 on node 7 alone, found replicas"),
        ({"directories": [ELSEWHERE]}, {}, "found it in directory Zq1vM2cXQ0mV3sVgk1B4TA"),
        ({"partitionId": 1}, {}, "expected partition orders-0, found none"),
        ({}, {"topics": "payments"}, "expected topic payments, found none"),
        ({}, {"topic_ids": {"orders": clusters.OTHER_ID}}, f"expected id {clusters.OTHER_ID} of topic orders"),
        ({}, {"topics": None}, "topics or topic_ids are needed"),
        ({}, {"topics": "__consumer_offsets"}, "internal topics belong to their cluster"),
        ({}, {"out": "new"}, "out, cluster_id and nodes are for a new cluster"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, disks: list[Path], of_partition: dict[str, Any], options: dict[str, Any], expected: str
) -> None:
    target = clusters.make_other(tmp_path / "other", **of_partition)
    before = clusters.contents(target)
    with pytest.raises((ValueError, LookupError), match=expected.replace("[", r"\[")):
        kafkalog.rescue(disks, **{"into": target, "topics": "orders", **options})
    assert clusters.contents(target) == before


def test_a_partition_with_records_and_a_broker_that_runs_are_refused(tmp_path: Path, disks: list[Path]) -> None:
    target = clusters.make_other(tmp_path / "other")
    command = [sys.executable, "-c", HOLD, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(kafkalog.LogLockedError):
            kafkalog.rescue(disks, into=target, topics="orders")
        assert not (tmp_path / "other.unfinished").exists()
        holder.communicate()
    with LogWriter(target, "orders", 0, topic_id=clusters.NEW_ID) as writer:
        writer.append([Record(value=b"mine")])
    with pytest.raises(FileExistsError, match="has had records"):
        kafkalog.rescue(disks, into=target, topics="orders")


def test_a_dry_run_writes_nothing(tmp_path: Path, disks: list[Path]) -> None:
    target = clusters.make_other(tmp_path / "other")
    before = clusters.contents(tmp_path)
    report = kafkalog.rescue(disks, into=target, topics="orders", dry_run=True)
    assert [each.topic_id for each in report.plan.choices] == [clusters.NEW_ID]
    assert "epochs-raised" in {each.code for each in report.plan.findings}
    assert clusters.contents(tmp_path) == before


@pytest.mark.parametrize("step", ["_move", "_checkpoints", "_append_metadata"])
def test_stopped_before_each_step_and_finished_by_the_same_call(
    tmp_path: Path, disks: list[Path], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    whole = clusters.make_other(tmp_path / "whole")
    kafkalog.rescue(disks, into=whole, topics="orders")
    target = clusters.make_other(tmp_path / "other")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rescue_into, step, stop)
        with pytest.raises(KeyboardInterrupt):
            kafkalog.rescue(disks, into=target, topics="orders")
    kafkalog.rescue(disks, into=target, topics="orders")
    assert partition(target)["leaderEpoch"] == partition(whole)["leaderEpoch"] == 5
    log = f"{0:020}.log"
    assert (target / "orders-0" / log).read_bytes() == (whole / "orders-0" / log).read_bytes()
    assert PartitionLog(target / "orders-0").log_end_offset == 80
    assert not (tmp_path / "other.unfinished").exists()


@pytest.mark.parametrize("removed", range(4))
def test_stopped_while_it_removes_what_it_no_longer_needs(
    tmp_path: Path, disks: list[Path], monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    """It has ended: the same call must not put a copy in the place of a partition that a broker may have written to."""
    target = clusters.make_other(tmp_path / "other")
    left = removed

    def stopping(remove: Callable[..., None]) -> Callable[..., None]:
        def remove_some(path: Path, *more: Any, **named: Any) -> None:
            nonlocal left
            if (
                path.is_relative_to(tmp_path / "other.unfinished")
                and (path / "..").resolve().name == "other.unfinished"
            ):
                if left == 0:
                    raise KeyboardInterrupt
                left -= 1
            remove(path, *more, **named)

        return remove_some

    def stop_within(unfinished: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", stopping(shutil.rmtree))
            patch.setattr(type(unfinished), "unlink", stopping(type(unfinished).unlink))
            end(unfinished)

    end = output.end
    with monkeypatch.context() as patch:
        patch.setattr(output, "end", stop_within)
        with pytest.raises(KeyboardInterrupt):
            kafkalog.rescue(disks, into=target, topics="orders")
    assert (tmp_path / "other.unfinished").exists()
    before = clusters.contents(target)
    with pytest.raises(FileExistsError, match="the partition has had records"):
        kafkalog.rescue(disks, into=target, topics="orders")
    assert clusters.contents(target) == before
    # Nor is it the output of a rescue that was almost done.
    with pytest.raises(FileExistsError, match="File exists"):
        kafkalog.rescue(disks, target, topics="orders")
    assert clusters.contents(target) == before
    shutil.rmtree(target)
    clusters.make_other(target)
    kafkalog.rescue(disks, into=target, topics="orders")
    assert not (tmp_path / "other.unfinished").exists()


SPELLED: dict[str, Callable[[Path], str | Path]] = {
    "a symlink": lambda path: path.parent / "elsewhere" / "link",
    "relative": os.path.relpath,
    "a slash at the end": lambda path: f"{path}/",
    "dots": lambda path: path / "orders-0" / "..",
}


@pytest.mark.parametrize("spelled", SPELLED)
def test_finished_under_another_spelling_of_the_path(
    tmp_path: Path, disks: list[Path], monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    """Stopped after the partitions were moved: a caller who does not know finds a partition with records."""
    target = clusters.make_other(tmp_path / "other")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to("../other")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rescue_into, "_checkpoints", stop)
        with pytest.raises(KeyboardInterrupt):
            kafkalog.rescue(disks, into=target, topics="orders")
    assert kafkalog.rescue(disks, into=SPELLED[spelled](target), topics="orders").out == str(target)
    assert partition(target)["leaderEpoch"] == 5
    assert PartitionLog(target / "orders-0").log_end_offset == 80
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "other"]
    assert [each.name for each in (tmp_path / "elsewhere").iterdir()] == ["link"]
