"""``kafkalog.rewrite``: what was to go is gone, the rest is there at the same offsets, and nothing else changes."""

from __future__ import annotations

import json
import pickle
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import byte_logs
import corpus
import kafkalog
from command import call, fails
from recover_cases import digests

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_700_000_000_000
COLUMNS = ["offset", "key", "value", "headers", "timestamp", "controlType", "producerId", "sequence"]
LOGS = sorted(
    path.parent
    for case in ("clean-restarts", "codecs", "compact", "txn", "v0-0.9.0.1", "v1-0.10.2.2", "mixed-upgrade", "empties")
    for path in (corpus.GOLDEN / case).glob("*/*/leader-epoch-checkpoint")
    if not path.parent.name.startswith("__cluster")
)
MODERN = [path for path in LOGS if not path.parents[1].name.startswith(("v0", "v1", "mixed"))]
LEGACY = sorted({path.parent for path in (corpus.GOLDEN / "v0-0.9.0.1").glob("*/*/*.log")})
UNFINISHED = ".kafkalog-unfinished"


def rows_of(folder: Path) -> list[dict[str, Any]]:
    table = kafkalog.read_table(folder, columns=COLUMNS, starting_offsets="oldest", include_control=True)
    return table.to_pylist()


def committed_offsets(folder: Path) -> list[int]:
    table = kafkalog.read_table(folder, columns=["offset"], isolation_level="read_committed")
    return table["offset"].to_pylist()  # type: ignore[return-value]


def errors_in(log_dir: Path) -> list[str]:
    table = kafkalog.verify(log_dir)
    return [f"{row['file']}: {row['message']}" for row in table.to_pylist() if row["severity"] == "error"]


def filled(log_dir: Path, count: int = 400, codec: str = "zstd") -> Path:
    """Write a log of several segments with keys that come again and again."""
    chance = random.Random(7)  # noqa: S311 - to be repeated, not secret
    config = kafkalog.LogConfig(segment_bytes=8000, compression_type=codec)
    with kafkalog.LogWriter(log_dir, "orders", config=config, clock=lambda: NOW) as log:
        for n in range(0, count, 20):
            names = [b"person-%02d" % chance.randrange(20) for _ in range(20)]
            records = [kafkalog.Record(b"%d of %s" % (n + i, name), name, NOW + n) for i, name in enumerate(names)]
            log.append(records)
    return log_dir


@pytest.mark.parametrize("folder", [*LOGS, *LEGACY], ids=lambda path: f"{path.parents[1].name}-{path.name}")
@pytest.mark.sampled(16)
def test_some_records_go_from_logs_of_brokers(tmp_path: Path, folder: Path) -> None:
    """Every third record goes; everything else stays where it is, producers and transactions too."""
    before = rows_of(folder)
    gone = [row["offset"] for row in before if row["controlType"] is None][::3]
    topic, partition = kafkalog.PartitionLog(folder).topic, kafkalog.PartitionLog(folder).partition
    ranges = {topic: {partition: [(offset, offset + 1) for offset in gone]}}
    untouched = digests(folder)
    report = kafkalog.rewrite(folder, tmp_path / "out", drop_offsets=ranges)
    assert digests(folder) == untouched
    assert report.records_dropped == len(gone)
    dropped = set(gone)
    out = tmp_path / "out" / folder.name
    kept = [row for row in before if row["offset"] not in dropped]
    found = rows_of(out)
    # A batch of magic 0 or 1 that is written again becomes one of magic 2, which has more to say of a timestamp.
    assert found == kept
    old, new = kafkalog.PartitionLog(folder), kafkalog.PartitionLog(out)
    assert (new.log_start_offset, new.log_end_offset) == (old.log_start_offset, old.log_end_offset)
    assert [each.base_offset for each in new.segments] == [each.base_offset for each in old.segments]
    committed = [committed_offsets(path) for path in (folder, out)]
    assert committed[1] == [offset for offset in committed[0] if offset not in dropped]
    producers = [kafkalog.tables.producers(path).to_pylist() for path in (folder, out)]
    assert producers[0] == producers[1]
    # Those that begin at the log end are cut when a broker loads the log.
    assert new.leader_epochs == [each for each in old.leader_epochs if each.start_offset < old.log_end_offset]
    assert errors_in(tmp_path / "out") == []


@pytest.mark.parametrize("folder", LOGS, ids=lambda path: f"{path.parents[1].name}-{path.name}")
@pytest.mark.sampled(21)
def test_what_loses_nothing_is_the_same_byte_for_byte(tmp_path: Path, folder: Path) -> None:
    report = kafkalog.rewrite(folder, tmp_path / "out")
    (partition,) = report.partitions
    assert (partition.batches_rewritten, partition.batches_emptied, partition.batches_dropped) == (0, 0, 0)
    for log in folder.glob("*.log"):
        written = (tmp_path / "out" / folder.name / log.name).read_bytes()
        # A preallocated file, or a torn end, is cut to whole batches.
        assert log.read_bytes().startswith(written)
        assert len(written) == len(log.read_bytes()) or "killed" in str(folder)


@pytest.mark.parametrize("gone", [(3, 4), (4, 5), (5, 10), (3, 12), (14, 15), (0, 15)], ids=str)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_where_a_segment_ends_stays(tmp_path: Path, magic: int, gone: tuple[int, int]) -> None:
    """Batches without a producer at the end of a segment: without the last one a segment would seem to be missing."""
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    for base in (0, 5, 10):
        records = [byte_logs.Record(offset, NOW + offset, b"k", b"v") for offset in range(base, base + 5)]
        last = records[3:] if magic < 2 else records[4:]
        parts = [[each] for each in records[: -len(last)]] + [last]
        log = b"".join(
            byte_logs.messages(each, magic, "gzip") if magic < 2 else byte_logs.batch(each) for each in parts
        )
        (folder / f"{base:020}.log").write_bytes(log)
    kafkalog.rewrite(folder.parent, tmp_path / "out", drop_offsets={"t": {0: [gone]}})
    out = tmp_path / "out" / "t-0"
    assert [row["offset"] for row in rows_of(out)] == [at for at in range(15) if not gone[0] <= at < gone[1]]
    assert [each.base_offset for each in kafkalog.PartitionLog(out).segments] == [0, 5, 10]
    assert kafkalog.PartitionLog(out).log_end_offset == 15
    assert errors_in(tmp_path / "out") == []


def test_an_empty_last_segment_says_where_the_log_ends(tmp_path: Path) -> None:
    """The offsets before it may be taken: without it the next append would take them again."""
    folder = tmp_path / "logs" / "t-0"
    folder.mkdir(parents=True)
    parts = [byte_logs.batch([byte_logs.Record(offset, NOW, b"k", bytes(300))]) for offset in range(5)]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    (folder / f"{7:020}.log").write_bytes(b"")
    kafkalog.rewrite(folder.parent, tmp_path / "out", config={"segment.bytes": 1000})
    log = kafkalog.PartitionLog(tmp_path / "out" / "t-0")
    assert log.log_end_offset == 7
    assert [each.base_offset for each in log.segments] == [0, 2, 4, 7]


def test_an_erased_key_is_nowhere(tmp_path: Path) -> None:
    source = filled(tmp_path / "logs")
    keys = [b"person-03", b"person-11"]
    before = rows_of(source / "orders-0")
    expected = [row for row in before if row["key"] not in keys]
    assert 0 < len(expected) < len(before)
    planned = kafkalog.rewrite(source, tmp_path / "out", drop_keys=keys, dry_run=True)
    assert not (tmp_path / "out").exists()
    report = kafkalog.rewrite(source, tmp_path / "out", drop_keys=keys)
    assert planned.records_dropped == report.records_dropped == len(before) - len(expected)
    assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301 - our own bytes
    assert rows_of(tmp_path / "out" / "orders-0") == expected
    assert report.manifest is not None
    raw = Path(report.manifest).read_bytes() + b"".join(
        path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    everything = kafkalog.read_table(tmp_path / "out", columns=["key", "value"], starting_offsets="oldest")
    shown = b"".join(b"".join((row["key"] or b"", row["value"] or b"")) for row in everything.to_pylist())
    for key in keys:
        assert key not in raw
        assert key not in shown
    manifest = json.loads(Path(report.manifest).read_text())
    (told,) = manifest["partitions"]
    assert told["records_dropped"] == report.records_dropped
    files = {path.name: path.stat().st_size for path in (tmp_path / "out" / "orders-0").iterdir()}
    assert {name: each["size"] for name, each in told["files"].items()} == files
    with pytest.raises(FileExistsError):
        kafkalog.rewrite(source, tmp_path / "out", drop_keys=keys)


def by_key(batch: pa.RecordBatch) -> list[bool]:
    return [key == b"person-05" for key in batch.column("key").to_pylist()]


def in_ranges(offset: int) -> bool:
    return 5 <= offset < 9 or 100 <= offset < 141


@pytest.mark.parametrize(
    ("how", "goes"),
    [
        ({"drop_key_pattern": "person-1[0-9]"}, lambda row: row["key"].startswith(b"person-1")),
        ({"drop": pc.field("offset") < 33}, lambda row: row["offset"] < 33),
        ({"drop": by_key}, lambda row: row["key"] == b"person-05"),
        ({"drop": 'octet_length(key) > 0 AND "offset" % 7 = 0'}, lambda row: row["offset"] % 7 == 0),
        ({"drop_timestamps": (NOW + 100, NOW + 200)}, lambda row: 100 <= ms(row) - NOW < 200),
        ({"drop_timestamps": (None, NOW + 200)}, lambda row: ms(row) < NOW + 200),
        ({"drop_offsets": {"orders": {0: [(100, 141), (2, 2), (5, 9)]}}}, lambda row: in_ranges(row["offset"])),
        (
            {"drop_keys": ["person-01"], "drop_offsets": {"orders": {0: [(0, 3)]}}},
            lambda row: row["offset"] < 3 or row["key"] == b"person-01",
        ),
        ({"drop": pc.field("offset") >= 0}, lambda _: True),
    ],
    ids=["pattern", "expression", "function", "sql", "times", "before", "offsets", "keys-and-offsets", "all"],
)
def test_ways_to_say_what_goes(tmp_path: Path, how: dict[str, Any], goes: Callable[[dict[str, Any]], bool]) -> None:
    if isinstance(how.get("drop"), str):
        pytest.importorskip("duckdb")
    source = filled(tmp_path / "logs")
    before = rows_of(source / "orders-0")
    report = kafkalog.rewrite(source, tmp_path / "out", **how)
    assert rows_of(tmp_path / "out" / "orders-0") == [row for row in before if not goes(row)]
    assert report.records_dropped == sum(map(goes, before))
    assert kafkalog.PartitionLog(tmp_path / "out" / "orders-0").log_end_offset == len(before)


def ms(row: dict[str, Any]) -> int:
    millis: int = round(row["timestamp"].timestamp() * 1000)
    return millis


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_other_codec_and_segments(tmp_path: Path, codec: str) -> None:
    source = filled(tmp_path / "logs", codec="gzip")
    before = rows_of(source / "orders-0")
    report = kafkalog.rewrite(source, tmp_path / "out", compression_type=codec, config={"segment.bytes": 1 << 20})
    out = tmp_path / "out" / "orders-0"
    assert rows_of(out) == before
    assert len(kafkalog.PartitionLog(out).segments) == 1
    batches = pa.table(kafkalog.scan_batches(out))
    assert set(batches["compression"].to_pylist()) == {codec.replace("uncompressed", "none")}
    assert report.partitions[0].batches_copied == (20 if codec == "gzip" else 0)
    smaller = kafkalog.rewrite(out, tmp_path / "small", config={"segment.bytes": 2000})
    assert rows_of(tmp_path / "small" / "orders-0") == before
    sizes = [segment.size for segment in kafkalog.PartitionLog(tmp_path / "small" / "orders-0").segments]
    assert len(sizes) >= 3
    assert max(sizes) <= 2000
    assert smaller.partitions[0].bytes_after == sum(sizes)


@pytest.mark.parametrize("folder", MODERN, ids=lambda path: f"{path.parents[1].name}-{path.name}")
@pytest.mark.sampled(6)
def test_another_codec_changes_no_other_byte(tmp_path: Path, folder: Path) -> None:
    """Headers and records of magic 2 are those of the broker, which compressing once and back shows."""
    before = pa.table(kafkalog.scan_batches(folder))
    assert set(before["magic"].to_pylist()) <= {2}
    plain, packed, back = tmp_path / "plain", tmp_path / "packed", tmp_path / "back"
    kafkalog.rewrite(folder, plain, compression_type="uncompressed")
    kafkalog.rewrite(plain / folder.name, packed, compression_type="zstd")
    kafkalog.rewrite(packed / folder.name, back, compression_type="uncompressed")
    for log in (plain / folder.name).glob("*.log"):
        assert (back / folder.name / log.name).read_bytes() == log.read_bytes()
    columns = ["baseOffset", "lastOffset", "count", "maxTimestamp", "timestampType", "producerId", "producerEpoch"]
    columns += ["baseSequence", "lastSequence", "isTransactional", "deleteHorizonMs", "partitionLeaderEpoch"]
    after = pa.table(kafkalog.scan_batches(packed / folder.name))
    assert after.select(columns) == before.select(columns)


@pytest.mark.parametrize("folder", LEGACY, ids=lambda path: path.name)
def test_old_formats_are_raised(tmp_path: Path, folder: Path) -> None:
    report = kafkalog.rewrite(folder, tmp_path / "out", magic=2)
    out = tmp_path / "out" / folder.name
    assert set(pa.table(kafkalog.scan_batches(out))["magic"].to_pylist()) <= {2}
    columns = ["offset", "key", "value", "timestamp"]
    read = [kafkalog.read_table(path, columns=columns, starting_offsets="oldest") for path in (folder, out)]
    assert read[0] == read[1]
    assert report.partitions[0].batches_copied == 0
    assert errors_in(tmp_path / "out") == []


def test_a_log_dir_keeps_all_else(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-0"
    report = kafkalog.rewrite(source, tmp_path / "out", drop=by_even)
    assert errors_in(tmp_path / "out") == []
    for name in ("meta.properties", "bootstrap.checkpoint", "__cluster_metadata-0/00000000000000000000.log"):
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes()
    dropped = {f"{each.topic}-{each.partition}": each.records_dropped for each in report.partitions}
    assert dropped["__transaction_state-0"] == 0
    assert dropped["events-0"] > 0
    some = kafkalog.rewrite(source, tmp_path / "some", keep_partitions={"events": [0]})
    assert [(each.topic, each.partition) for each in some.partitions] == [("events", 0)]
    folders = {each.name for each in (tmp_path / "some").iterdir() if each.is_dir()}
    assert folders == {"events-0", "__cluster_metadata-0"}


def by_even(batch: pa.RecordBatch) -> list[bool]:
    offsets: list[int] = batch.column("offset").to_pylist()  # type: ignore[assignment]
    return [offset % 2 == 0 for offset in offsets]


def test_damage(tmp_path: Path) -> None:
    source = filled(tmp_path / "logs", codec="uncompressed")
    logs = sorted((source / "orders-0").glob("*.log"))
    data = bytearray(logs[1].read_bytes())
    data[100] ^= 1
    logs[1].write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError, match=r"\.log"):
        kafkalog.rewrite(source, tmp_path / "out", drop_keys=["person-01"])
    assert not (tmp_path / "out").exists()
    kept = kafkalog.read_table(source, columns=COLUMNS, on_corrupt="skip").to_pylist()
    report = kafkalog.rewrite(source, tmp_path / "out", drop_keys=["person-01"], on_corrupt="skip")
    assert rows_of(tmp_path / "out" / "orders-0") == [row for row in kept if row["key"] != b"person-01"]
    assert report.partitions[0].bytes_lost > 0
    assert call("rewrite", source, tmp_path / "again", "--on-corrupt", "skip").returncode == 1


@pytest.mark.parametrize("last", [9, 100])
def test_what_goes_is_found_in_batches_that_overlap(tmp_path: Path, last: int) -> None:
    """Of these a reader keeps the long one, and salvage those that it covers: none of them may hold the key."""
    rows = [byte_logs.Record(at, 5, b"x" if at % 2 else b"k", b"v") for at in range(10)]
    batches = [byte_logs.batch(rows[at : at + 2]) for at in range(0, 10, 2)]
    batches[1] = byte_logs.sealed(batches[1][:23] + struct.pack(">i", 50) + batches[1][27:])
    batches.append(byte_logs.batch([byte_logs.Record(last, 5, b"k", b"v")]) if last > 9 else b"")
    folder = tmp_path / "data" / "t-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    out = tmp_path / "out"
    before = tmp_path.stat().st_mtime_ns
    counted = kafkalog.rewrite(tmp_path / "data", out, drop_keys=["x"], on_corrupt="skip", dry_run=True)
    assert tmp_path.stat().st_mtime_ns == before, "a dry run makes nothing, not even for a while"
    # What a killed run left.
    (tmp_path / ".out.copy-of-t-0" / "t-0").mkdir(parents=True)
    done = kafkalog.rewrite(tmp_path / "data", out, drop_keys=["x"], on_corrupt="skip")
    assert [row["offset"] for row in rows_of(out / "t-0")] == [0, 4, 6, 8, *({last} - {9})]
    assert counted.partitions[0].records_dropped == done.partitions[0].records_dropped == 4
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "out", "out.rewrite.json"]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"drop_keys": b"k"}, TypeError),
        ({"drop_keys": [7]}, TypeError),
        ({"drop_key_pattern": "("}, ValueError),
        ({"drop_offsets": {"orders": {0: [(5, 3)]}}}, ValueError),
        ({"drop_offsets": [1]}, TypeError),
        ({"drop_timestamps": 7}, TypeError),
        ({"topics": "none"}, kafkalog.UnknownTopicOrPartitionError),
        ({"partitions": [9]}, kafkalog.UnknownTopicOrPartitionError),
        ({"magic": 1}, ValueError),
        ({"compression_type": "zip"}, ValueError),
        ({"on_corrupt": "what"}, ValueError),
        ({"drop": lambda _: [True]}, ValueError),
    ],
)
def test_arguments_that_make_no_sense(tmp_path: Path, how: dict[str, Any], error: type[Exception]) -> None:
    source = filled(tmp_path / "logs", 40)
    with pytest.raises(error):
        kafkalog.rewrite(source, tmp_path / "out", **how)
    assert not (tmp_path / "out").exists()


def test_command_line(tmp_path: Path) -> None:
    source = filled(tmp_path / "logs")
    (tmp_path / "keys.txt").write_text("person-01\nperson-02\n")
    words: list[str | Path] = ["rewrite", source, tmp_path / "out", "--drop-keys", tmp_path / "keys.txt"]
    words += ["--drop-key", "person-03"]
    planned = json.loads(call(*words, "--dry-run", "-J").stdout)
    done = call(*words)
    assert done.returncode == 0, done.stderr
    assert f"{planned['recordsDropped']} record(s) dropped" in done.stdout
    keys = set(kafkalog.read_table(tmp_path / "out", columns=["key"])["key"].to_pylist())
    assert len(keys) == 17
    assert "File exists" in fails(3, *words)
    fails(2, "rewrite", source, tmp_path / "x", "--drop-from", "2000", "--drop-before", "01000")


_REWRITE = "import sys, kafkalog; kafkalog.rewrite(sys.argv[1], sys.argv[2], drop_keys=['person-03'])"


def test_a_kill_leaves_a_whole_result_or_a_note(tmp_path: Path) -> None:
    source = filled(tmp_path / "logs", 8000)
    before = digests(source)
    kafkalog.rewrite(source, tmp_path / "whole", drop_keys=["person-03"])
    whole, killed = digests(tmp_path / "whole"), 0
    for n in range(4):
        out = tmp_path / f"out-{n}"
        child = subprocess.Popen([sys.executable, "-c", _REWRITE, str(source), str(out)])
        while not out.exists() and child.poll() is None:
            time.sleep(0.0005)
        time.sleep(n * 0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if child.returncode != 0 and (out / UNFINISHED).exists():
            killed += 1
            assert "unfinished-output" in kafkalog.verify(out)["code"].to_pylist()
        if digests(out) != whole:
            kafkalog.rewrite(source, out, drop_keys=["person-03"])
        assert digests(out) == whole
        assert Path(f"{out}.rewrite.json").exists()
    assert killed
    assert digests(source) == before


def test_records_that_come_meanwhile_are_an_error(tmp_path: Path) -> None:
    """It is decided first which records go; one that is appended after that may have an erased key."""
    source = filled(tmp_path / "logs")
    before = kafkalog.PartitionLog(source / "orders-0").log_end_offset
    appended: list[kafkalog.AppendInfo] = []

    def drop(batch: pa.RecordBatch) -> list[bool]:
        if not appended:
            with kafkalog.LogWriter(source, "orders") as writer:
                appended.append(writer.append([kafkalog.Record(b"late", b"person-00")]))
        return [key == b"person-00" for key in batch["key"].to_pylist()]

    with pytest.raises(kafkalog.LogLockedError, match="appended while it was rewritten") as caught:
        kafkalog.rewrite(source, tmp_path / "out", drop=drop, config={})
    assert caught.value.path == str(source / "orders-0")
    assert (tmp_path / "out" / UNFINISHED).exists()
    assert not (tmp_path / "out.rewrite.json").exists()
    report = kafkalog.rewrite(source, tmp_path / "out", drop=drop, config={})
    assert report.partitions[0].log_end_offset == before + 1
    assert b"person-00" not in kafkalog.read_table(tmp_path / "out")["key"].to_pylist()
