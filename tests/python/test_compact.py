"""``kafkalog.compact``: what Kafka's log cleaner leaves, in a new log dir that is whole or says that it is not."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import byte_logs
import corpus
import kafkalog
from byte_logs import Record
from clean_cases import CASES, source_of
from command import call, fails
from recover_cases import digests, digests_as_kafkas, outcome

if TYPE_CHECKING:
    from pathlib import Path

COMPACT: dict[str, Any] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
DAY = 86_400_000


def single_passes() -> list[str]:
    """Name the cases of one pass without an error, which one call can repeat, with nothing compressed."""
    names = []
    for case in sorted(CASES.iterdir()):
        config = json.loads((case / "config.json").read_text())
        passes = [line for line in outcome(case) if line["event"] == "pass"]
        # A call looks for expired producers, as a broker does, and refuses damage that Kafka does not see.
        expires = config["passes"][0].get("expire_producers", True) and "producer.id.expiration.ms" not in config
        is_plain = len(passes) == 1 and expires and "error" not in passes[0] and passes[0]["eligible"]
        others = {"compressed", "corrupt", "legacy", "legacy-tombstones-due"}
        if is_plain and "cleaner" not in config and case.name not in others:
            names.append(case.name)
    return names


@pytest.mark.parametrize("whole", [True, False], ids=["log-dir", "partition"])
@pytest.mark.parametrize("name", single_passes())
def test_as_kafka(tmp_path: Path, name: str, *, whole: bool) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    config = source_of(CASES / name, source)
    before = digests(source)
    kafka = next(line for line in outcome(CASES / name) if line["event"] == "pass")
    path = source if whole else source / "orders-0"
    settings = {each: value for each, value in config["log"].items() if each != "file.delete.delay.ms"}
    planned = kafkalog.compact(path, out, now=kafka["now_ms"], config=settings, dry_run=True)
    report = kafkalog.compact(path, out, now=kafka["now_ms"], config=settings)
    assert replace(planned, dry_run=False, out=report.out) == report
    assert digests(source) == before
    (partition,) = report.partitions
    assert partition.first_dirty_offset == kafka["first_dirty_offset"]
    assert partition.compacted_to == kafka["end_offset"]
    assert partition.segments_deleted == kafka["segments_deleted"]
    assert partition.records_read == kafka["messages_read"]
    assert partition.records_kept == kafka["messages_written"]
    assert partition.records_without_key == kafka["invalid_messages"]
    left = digests_as_kafkas(out, CASES / name / "after")
    files = [line for line in outcome(CASES / name) if line["event"] == "file" and line["change"] != "deleted"]
    kafkas = {line["name"]: line["after_sha256"] for line in files if ".deleted" not in line["name"]}
    segments = {each: kafkas[each] for each in kafkas if each.startswith("orders-0/")}
    assert {each: left[each] for each in left if each.startswith("orders-0/")} == segments
    lines = (out / "cleaner-offset-checkpoint").read_text().split("\n")
    assert f"orders 0 {kafka['checkpoint']}" in lines
    for path in (out / "orders-0").glob("*.log"):
        times = {f"{each['base']:020}.log": each.get("mtime_ms") for each in kafka["segments"]}
        if times[path.name] is not None:
            assert path.stat().st_mtime_ns == times[path.name] * 1_000_000


def filled(log_dir: Path, seed: int, rows: int = 700) -> dict[bytes, tuple[int, int, bytes | None]]:
    """Write random records; give offset, time and value of the last of each key."""
    draw = random.Random(seed)  # noqa: S311 - any records will do
    last: dict[bytes, tuple[int, int, bytes | None]] = {}
    offset = 0
    for codec in ("producer", "zstd", "lz4", "gzip", "snappy"):
        config = kafkalog.LogConfig(segment_bytes=3000, index_interval_bytes=200, compression_type=codec)
        with kafkalog.LogWriter(log_dir, "orders", config=config, clock=lambda: 1000) as log:
            while offset < rows * ("producer", "zstd", "lz4", "gzip", "snappy").index(codec) / 5 + rows / 5:
                batch = []
                for _ in range(draw.randint(1, 9)):
                    key = f"k{draw.randint(0, 40) ** 2}".encode()
                    value = None if draw.random() < 0.2 else draw.randbytes(draw.randint(0, 60))
                    moment = draw.randint(0, 5000)
                    batch.append(kafkalog.Record(value, key, moment))
                    last[key] = (offset, moment, value)
                    offset += 1
                log.append(batch)
    return last


def rows_of(log_dir: Path) -> dict[bytes, tuple[int, int, bytes | None]]:
    table = kafkalog.read_table(log_dir, columns=["key", "offset", "timestamp", "value"])
    found = {}
    for row in table.to_pylist():
        assert row["key"] not in found, "twice"
        found[row["key"]] = (row["offset"], round(row["timestamp"].timestamp() * 1000), row["value"])
    return found


@pytest.mark.parametrize("seed", range(3))
def test_as_a_dict(tmp_path: Path, seed: int) -> None:
    last = filled(tmp_path / "logs", seed)
    before = digests(tmp_path / "logs")
    map_bytes = 24 * 20 if seed % 2 else 1 << 20
    report = kafkalog.compact(
        tmp_path / "logs", tmp_path / "out", now=10_000, config=COMPACT, roll=True, map_bytes=map_bytes
    )
    assert digests(tmp_path / "logs") == before
    assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301 - our own bytes
    (partition,) = report.partitions
    assert (partition.passes > 1) == bool(seed % 2)
    assert rows_of(tmp_path / "out") == last
    assert kafkalog.PartitionLog(tmp_path / "out" / "orders-0").log_end_offset == partition.log_end_offset
    severities = kafkalog.verify(tmp_path / "out")["severity"].to_pylist()
    assert set(severities) <= {"info"}
    # Nothing is left to do, until the tombstones are due and something new is dirty.
    again = kafkalog.compact(tmp_path / "out", tmp_path / "again", now=10_001, config=COMPACT)
    assert [each.passes for each in again.partitions] == [0]
    assert rows_of(tmp_path / "again") == last
    with kafkalog.LogWriter(tmp_path / "out", "orders", clock=lambda: 20_000) as log:
        log.append([kafkalog.Record(b"new", b"another", 20_000)])
    kafkalog.compact(tmp_path / "out", tmp_path / "later", now=10_000 + DAY, config=COMPACT, roll=True)
    values = {key: row for key, row in last.items() if row[2] is not None}
    assert rows_of(tmp_path / "later") == {**values, b"another": (partition.log_end_offset, 20_000, b"new")}


def test_damage(tmp_path: Path) -> None:
    filled(tmp_path / "logs", 7)
    folder = tmp_path / "logs" / "orders-0"
    damaged = sorted(folder.glob("*.log"))[2]
    data = bytearray(damaged.read_bytes())
    data[-3] ^= 0x55
    damaged.write_bytes(data)
    before = digests(tmp_path / "logs")
    with pytest.raises(kafkalog.CorruptRecordError, match="crc") as caught:
        kafkalog.compact(tmp_path / "logs", tmp_path / "out", config=COMPACT, roll=True)
    assert caught.value.path == str(damaged)
    assert caught.value.position is not None
    assert not (tmp_path / "out").exists()
    rows = kafkalog.read_table(tmp_path / "logs", on_corrupt="skip").to_pylist()
    last = {row["key"]: (row["offset"], row["value"]) for row in rows}
    report = kafkalog.compact(tmp_path / "logs", tmp_path / "out", config=COMPACT, roll=True, on_corrupt="skip")
    assert {key: (row[0], row[2]) for key, row in rows_of(tmp_path / "out").items()} == last
    (lost,) = report.damaged
    assert lost.bytes_cut > 0
    assert any(damaged.name in note.text for note in lost.notes)
    assert digests(tmp_path / "logs") == before
    told = call("compact", folder, tmp_path / "cli", "--config", "cleanup.policy=compact", "--on-corrupt", "skip")
    assert f"{lost.bytes_cut} bytes lost to damage" in told.stdout


def test_offsets_that_go_back(tmp_path: Path) -> None:
    """A base offset is outside of the checksum, and a broker does not look after a clean stop."""
    filled(tmp_path / "logs", 8, 200)
    segment = min((tmp_path / "logs" / "orders-0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second : second + 8] = bytes(8)
    segment.write_bytes(data)
    assert (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    with pytest.raises(kafkalog.CorruptRecordError, match="base offset: expected at least") as caught:
        kafkalog.compact(tmp_path / "logs", tmp_path / "out", config=COMPACT, roll=True)
    assert (caught.value.path, caught.value.position) == (str(segment), second)
    kafkalog.compact(tmp_path / "logs", tmp_path / "out", config=COMPACT, roll=True, on_corrupt="skip")
    assert set(kafkalog.verify(tmp_path / "out")["severity"].to_pylist()) <= {"info"}


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_full_index_splits_between_offsets(tmp_path: Path, magic: int, on_corrupt: str) -> None:
    """A new segment begins where the one before ends: a wrapper names its last offset, messages may be missing."""
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    starts = [0, 3, 6, 9, 14, 17, 20]
    rows = [[Record(start + at, start + at, b"k%d" % (start + at), b"v") for at in range(3)] for start in starts]
    log = b"".join(byte_logs.batch(each) if magic == 2 else byte_logs.messages(each, magic, "gzip") for each in rows)
    (folder / f"{0:020}.log").write_bytes(log)
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0,
        "index.interval.bytes": 0,
        "segment.index.bytes": 24,
    }
    out = tmp_path / "out"
    how: dict[str, Any] = {"config": config, "on_corrupt": on_corrupt, "roll": True, "map_bytes": 1 << 16}
    kafkalog.compact(folder.parent, out, **how)
    assert kafkalog.read_table(out)["offset"].to_pylist() == [each.offset for row in rows for each in row]
    assert [row for row in kafkalog.verify(out).to_pylist() if row["severity"] == "error"] == []
    bases = [each.base_offset for each in kafkalog.PartitionLog(out / "t-0").segments]
    assert len(bases) >= 3
    assert {12, 14} & {*bases} <= {12}


def test_settings_come_from_the_metadata_log(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-0"
    topics = {row["topic"]: dict(row["configs"]) for row in kafkalog.tables.topics(source).to_pylist()}
    compacted = {topic for topic, own in topics.items() if "compact" in own.get("cleanup.policy", "delete")}
    assert "state" in compacted
    dirty = {"min.cleanable.dirty.ratio": 0}
    report = kafkalog.compact(source, tmp_path / "out", config=dirty, roll=True)
    assert {each.topic for each in report.partitions} <= compacted
    severities = kafkalog.verify(tmp_path / "out")["severity"].to_pylist()
    assert "error" not in severities
    # Tombstones may be due.
    columns = ["partition", "key", "offset", "value"]
    rows = kafkalog.read_table(source, topics="state", columns=columns).to_pylist()
    last = {(row["partition"], row["key"]): row for row in rows}
    found = kafkalog.read_table(tmp_path / "out", topics="state", columns=columns).to_pylist()
    values = [row for row in found if row["value"] is not None]
    assert values == [row for row in rows if row is last[row["partition"], row["key"]] and row["value"] is not None]
    assert all(row == last[row["partition"], row["key"]] for row in found)


def test_refused(tmp_path: Path) -> None:
    filled(tmp_path / "logs", 1, 100)
    source, out = tmp_path / "logs" / "orders-0", tmp_path / "out"
    with pytest.raises(ValueError, match="settings of topic 'orders' are not known"):
        kafkalog.compact(source, out)
    with pytest.raises(ValueError, match=r"no topic is compacted: cleanup\.policy is 'delete'"):
        kafkalog.compact(source, out, config={"retention.ms": 1})
    with pytest.raises(ValueError, match="map_bytes"):
        kafkalog.compact(source, out, config=COMPACT, map_bytes=47)
    with pytest.raises(ValueError, match="on_corrupt"):
        kafkalog.compact(source, out, config=COMPACT, on_corrupt="ignore")  # type: ignore[arg-type]
    shutil.copytree(source, tmp_path / "renamed")
    with pytest.raises(ValueError, match="<topic>-<number>"):
        kafkalog.compact(tmp_path / "renamed", out, config=COMPACT)
    assert not out.exists()


def test_several_partitions_at_once(tmp_path: Path) -> None:
    """Threads take partitions as they get free; each becomes what it becomes alone."""
    source = tmp_path / "logs"
    source.mkdir()
    alone, passes = {}, []
    for n in range(4):
        filled(tmp_path / f"{n}", n, 60 + 40 * (n % 3))
        folder = source / f"orders-{n}"
        shutil.copytree(tmp_path / f"{n}" / "orders-0", folder)
        (done,) = kafkalog.compact(folder, tmp_path / f"{n}-out", now=10_000, config=COMPACT, roll=True).partitions
        alone[folder.name] = digests(tmp_path / f"{n}-out" / folder.name)
        passes.append((done.partition, done.passes, done.records_kept, done.size))
    report = kafkalog.compact(source, tmp_path / "out", now=10_000, config=COMPACT, roll=True)
    assert [(each.partition, each.passes, each.records_kept, each.size) for each in report.partitions] == passes
    assert {name: digests(tmp_path / "out" / name) for name in alone} == alone
    _, count, *lines = (tmp_path / "out" / "cleaner-offset-checkpoint").read_text().splitlines()
    ends = {each.partition: each.compacted_to for each in report.partitions}
    assert int(count) == 4
    assert sorted(lines) == [f"orders {n} {end}" for n, end in sorted(ends.items())]
    # The least memory has room for one key, of one partition at a time.
    kafkalog.compact(source, tmp_path / "least", now=10_000, config=COMPACT, roll=True, map_bytes=48)
    for n in range(4):
        rows = {name: kafkalog.read_table(tmp_path / name / f"orders-{n}").num_rows for name in ("out", "least")}
        assert rows["least"] == rows["out"], n


def test_command_line(tmp_path: Path) -> None:
    last = filled(tmp_path / "logs", 3)
    size = kafkalog.PartitionLog(tmp_path / "logs" / "orders-0").size
    words: list[str | Path] = ["compact", tmp_path / "logs", tmp_path / "out", "--roll"]
    words += ["--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0", "--now", "10000"]
    planned = call(*words, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert not (tmp_path / "out").exists()
    done = call(*words, "-J")
    told = json.loads(done.stdout)
    assert (told["topic"], told["sizeBefore"], told["recordsKept"]) == ("orders", size, len(last))
    assert f"{size - told['size']} bytes would be saved" in planned.stdout
    assert f"{size} to {told['size']} bytes" in planned.stdout
    assert rows_of(tmp_path / "out") == last
    assert "File exists" in fails(3, *words)


_COMPACT = """
import sys, kafkalog
kafkalog.compact(sys.argv[1], sys.argv[2], now=10_000, roll=True,
                 config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0})
"""


@pytest.mark.full
def test_a_kill_leaves_a_whole_result_or_a_note(tmp_path: Path) -> None:
    source = tmp_path / "logs"
    last = filled(source, 5, 1500)
    # Several threads are at work.
    for n in range(1, 4):
        shutil.copytree(
            source / "orders-0", source / f"orders-{n}", ignore=shutil.ignore_patterns("partition.metadata")
        )
    before = digests(source)
    kafkalog.compact(source, tmp_path / "whole", now=10_000, config=COMPACT, roll=True)
    whole, killed = digests(tmp_path / "whole"), 0
    for n in range(5):
        out = tmp_path / f"out-{n}"
        child = subprocess.Popen([sys.executable, "-c", _COMPACT, str(source), str(out)])
        while not out.exists() and child.poll() is None:
            time.sleep(0.0005)
        time.sleep(n * 0.02)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if child.returncode != 0 and digests(out) != whole:
            killed += 1
            left = {path.name for path in out.iterdir()}
            assert ".kafkalog-unfinished" in left or left <= {".kafkalog-unfinished.tmp"}
            kafkalog.compact(source, out, now=10_000, config=COMPACT, roll=True)
        assert digests(out) == whole
    assert killed
    assert rows_of(tmp_path / "whole" / "orders-0") == last
    assert digests(source) == before
