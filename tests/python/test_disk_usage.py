"""Disk usage: the sums of ``du``, and the treatment of each kind; advice that does no harm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from command import call

if TYPE_CHECKING:
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-0"
UUID = "0123456789abcdef0123456789abcdef"
NOW = 1_700_000_000_000
DAY = 86_400_000


def du(path: Path, flag: str) -> int:
    told = subprocess.run(["du", "-s", flag, path], capture_output=True, text=True, check=True)
    return int(told.stdout.split()[0])


def kinds_of(path: Path) -> dict[str, dict[str, Any]]:
    return {row["kind"]: row for row in kafkalog.disk_usage(path).to_pylist()}


def filled(log_dir: Path) -> Path:
    """Add every kind of leftover, folder and foreign file to a broker's log dir."""
    shutil.copytree(DATA, log_dir)
    live = next(path for path in sorted(log_dir.glob("*-0")) if path.name != "__cluster_metadata-0")
    for state in ("stray", "delete", "future"):
        shutil.copytree(live, log_dir / f"t-3.{UUID}-{state}")
    (log_dir / "lost+found").mkdir()
    (log_dir / "backup" / "deep").mkdir(parents=True)
    (log_dir / "backup" / "deep" / "core.123").write_bytes(b"x" * 5000)
    (log_dir / "remote-log-index-cache").mkdir()
    (log_dir / "remote-log-index-cache" / "1_abc.index").write_bytes(b"x" * 100)
    (live / f"{0:020}.log.deleted").write_bytes(b"x" * 30_000)
    (live / f"{7:020}.index").write_bytes(b"x" * 8)
    (live / f"{900:020}.log.cleaned").write_bytes(b"x" * 200)
    (live / f"{900:020}.log.swap").write_bytes(b"x" * 300)
    (live / f"{500:020}.timeindex.swap").write_bytes(b"x" * 400)
    (live / "notes.txt").write_bytes(b"x" * 50)
    (live / "hard.log").hardlink_to(live / "notes.txt")
    (live / "linked").symlink_to(log_dir / "backup")
    active = max(live.glob("0*.log"))
    os.truncate(active.with_suffix(".index"), 10 << 20)
    active.with_suffix(".timeindex").write_bytes(bytes(10 << 20))
    return live


@pytest.mark.skipif(shutil.which("du") is None, reason="du is the witness")
def test_the_sums_are_those_of_du(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    live = filled(log_dir)
    for path in (log_dir, live, log_dir / f"t-3.{UUID}-stray"):
        kinds = kinds_of(path)
        folders = sum(
            each.lstat().st_size for each in (path, *path.rglob("*")) if each.is_dir() and not each.is_symlink()
        )
        # GNU coreutils 9.2 and later leave out the length of folders.
        assert du(path, "-b") in {sum(row["bytes"] for row in kinds.values()) - left for left in (0, folders)}
        assert du(path, "-B1") == sum(row["allocatedBytes"] for row in kinds.values())
        told = call("explain", path, "--disk")
        assert told.returncode == 0, told.stderr
        assert f" {du(path, '-B1')} allocated;" in told.stdout.splitlines()[0]


def test_each_kind_and_who_removes_it(tmp_path: Path) -> None:
    filled(tmp_path / "logs")
    kinds = kinds_of(tmp_path / "logs")
    assert {name for name, row in kinds.items() if row["removedBy"] == "you"} == {"stray_folder", "foreign"}
    for name, least in {"deleted": 30_000, "cleaned": 500, "orphan_index": 8, "delete_folder": 1}.items():
        assert kinds[name]["bytesFreeable"] == kinds[name]["bytes"] >= least
    assert (kinds["cleaned"]["bytes"], kinds["swap"]["bytes"], kinds["swap"]["bytesFreeable"]) == (500, 400, 0)
    assert kinds["foreign"]["bytes"] >= 5050
    assert kinds["remote_index_cache"]["bytes"] >= 100
    # Of the sparse index nothing is set aside; of the other all.
    assert kinds["active_index"]["bytes"] > 20 << 20
    assert 10 << 20 >= kinds["active_index"]["bytesFreeable"] > 9 << 20
    told = call("explain", tmp_path / "logs")
    assert told.returncode == 0, told.stderr
    free = sum(row["bytesFreeable"] for row in kinds.values())
    free += sum(row["bytesFreeable"] for row in kafkalog.explain(tmp_path / "logs").to_pylist())
    assert f"{free} bytes can be freed now" in told.stdout.splitlines()[0]
    lines = [json.loads(line) for line in call("explain", tmp_path / "logs", "--disk", "-J").stdout.splitlines()]
    assert [line["kind"] for line in lines] == list(kinds)


def test_a_damaged_partition_does_not_end_the_others(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    shutil.copytree(DATA, log_dir)
    whole = kafkalog.explain(log_dir)
    folder = max(log_dir.glob("state-*"))
    first = min(folder.glob("*.log"))
    first.write_bytes(b"\xff" * first.stat().st_size)
    for index in folder.glob("*index"):
        index.unlink()
    with pytest.raises(kafkalog.KafkaLogError):
        kafkalog.explain(log_dir)
    rest = kafkalog.explain(log_dir, on_corrupt="skip")
    assert 0 < rest.num_rows < whole.num_rows
    told = call("explain", log_dir)
    assert told.returncode == 1
    assert first.name in told.stderr
    assert "can be freed now" in told.stdout


def test_advice_for_what_is_only_compacted(tmp_path: Path) -> None:
    """Brokers refuse kafka-delete-records there (``PolicyViolationException``), and ``delete`` loses what is needed."""
    source = tmp_path / "logs"
    config = kafkalog.LogConfig(segment_bytes=1500)
    with kafkalog.LogWriter(source, "__consumer_offsets", config=config, clock=lambda: NOW) as log:
        for _ in range(12):
            log.append([kafkalog.Record(b"v" * 50, b"k%d" % n, NOW) for n in range(10)])
    bases = [segment.base_offset for segment in kafkalog.PartitionLog(source / "__consumer_offsets-0").segments]
    told = call("explain", source, "--now", str(NOW + DAY))
    rows = kafkalog.explain(source, NOW + DAY).to_pylist()
    dirty = sum(row["size"] for row in rows if row["compaction"] == "dirty")
    assert {(row["dirtyRatio"], row["compactionDue"], row["compactedTo"]) for row in rows} == {(1.0, True, None)}
    assert f"{dirty} of {sum(row['size'] for row in rows)} bytes are dirty" in told.stdout
    assert "the cleaner is not running" in told.stdout
    assert "never compacted" in told.stdout
    for harmful in ("add it", "raise the log start", "set one of them"):
        assert harmful not in told.stdout
    # Less than half is dirty: not enough.
    (source / "cleaner-offset-checkpoint").write_text(f"0\n1\n__consumer_offsets 0 {bases[-2]}\n")
    told = call("explain", source, "--now", str(NOW + DAY))
    assert "min.cleanable.dirty.ratio" in told.stdout
    assert "the cleaner is not running" not in told.stdout


def test_compact_names_the_open_transaction(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "txn" / "data-1"
    opened = {
        (row["topic"], row["partition"]): row
        for row in kafkalog.tables.open_transactions(source).to_pylist()
        if row["blocksLastStableOffset"]
    }
    report = kafkalog.compact(source, tmp_path / "out", config={"cleanup.policy": "compact"}, dry_run=True, roll=True)
    held = {(each.topic, each.partition): each for each in report.partitions if each.held_by == "open_transaction"}
    assert held
    for place, each in held.items():
        assert (each.pin_producer_id, each.pin_offset) == (opened[place]["producerId"], opened[place]["firstOffset"])
    told = call("compact", source, tmp_path / "out", "--dry-run", "--roll", "--config", "cleanup.policy=compact")
    for place, each in held.items():
        (line,) = [line for line in told.stdout.splitlines() if line.startswith(f"{place[0]}-{place[1]}:")]
        assert f"open transaction of producer {each.pin_producer_id} from offset {each.pin_offset}" in line
        assert "nothing to compact" not in line


def test_timestamps_in_seconds(tmp_path: Path) -> None:
    seconds = (NOW - DAY) // 1000
    with kafkalog.LogWriter(tmp_path / "logs", "orders", clock=lambda: NOW) as log:
        log.append([kafkalog.Record(b"v", b"k", seconds + n) for n in range(10)])
    (row,) = kafkalog.explain(tmp_path / "logs", NOW).to_pylist()
    assert (row["retention"], row["pinReason"], row["pinOffset"]) == ("deletable", "seconds", 9)
    told = call("explain", tmp_path / "logs", "--now", str(NOW))
    assert "in seconds: correct the producer" in told.stdout


@pytest.mark.parametrize(
    ("stamp", "config", "said"),
    [
        (NOW * 1000, {}, ("microseconds", "message.timestamp.after.max.ms")),
        (NOW * 1_000_000, {}, ("nanoseconds", "message.timestamp.after.max.ms")),
        (NOW // 1000, {"message_timestamp_before_max_ms": DAY}, ("seconds", "message.timestamp.before.max.ms")),
        (NOW + DAY, {}, ("expected", "message.timestamp.after.max.ms")),
    ],
)
def test_a_refused_timestamp_names_the_setting(
    tmp_path: Path, stamp: int, config: dict[str, int], said: tuple[str, str]
) -> None:
    settings = kafkalog.LogConfig(**config)  # type: ignore[arg-type]
    with kafkalog.LogWriter(tmp_path / "logs", "orders", config=settings, clock=lambda: NOW) as log:
        with pytest.raises(kafkalog.InvalidRecordError) as refused:
            log.append([kafkalog.Record(b"v", b"k", stamp)])
        for part in said:
            assert part in str(refused.value)
