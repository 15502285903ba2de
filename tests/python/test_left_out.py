"""Files that a copy leaves out: nothing erased is left in it anywhere, and a broker starts on it."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
import tiers
from byte_logs import CODECS, Producer, Record, batch, payloads
from command import call
from recover_cases import digests

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_700_000_000_000
ERASED = b"person-4711-of-nowhere"
SECRET = b"lives in a house by the sea"
UUID = "0123456789abcdef0123456789abcdef"
GOLDEN_METADATA = corpus.GOLDEN / "metadata" / "data-0" / "__cluster_metadata-0"
FOREIGN = ("lost+found", ".snapshot", "tmp", "orders", "a folder")
OPTIONS: dict[str, dict[str, Any]] = {
    "compact": {"config": {"cleanup.policy": "compact"}, "roll": True, "now": NOW},
    "retain": {"config": {"retention.ms": "-1"}, "now": NOW},
    "rewrite": {"drop_keys": [ERASED]},
    "recover": {},
}
WORDS: dict[str, list[str]] = {
    "compact": ["--config", "cleanup.policy=compact"],
    "retain": ["--config", "retention.ms=-1"],
    "rewrite": ["--drop-key", ERASED.decode()],
}


def encoded(first: int, codec: str = "none", key: bytes | None = None) -> bytes:
    """Eight records, of which two have the key, and a value that no other record has."""
    erased = {3, 7} if key is None else set(range(8))
    rows = [
        Record(first + n, NOW + n, ERASED, SECRET)
        if n in erased
        else Record(first + n, NOW + n, b"other-%d" % n, b"value of %d" % (first + n))
        for n in range(8)
    ]
    return batch(rows, codec, Producer(7, 0, first))


def filled(folder: Path, codec: str = "none", first: int = 0) -> Path:
    """Write a partition of two segments with everything that a broker writes beside them."""
    config = kafkalog.LogConfig(segment_bytes=600, compression_type="producer", index_interval_bytes=1)
    log_dir, live = folder.parent, folder.name
    source = log_dir.with_name("encoded") / live
    source.mkdir(parents=True)
    (source / f"{first:020}.log").write_bytes(b"".join(encoded(first + 8 * n, codec) for n in range(4)))
    topic, _, number = live.rpartition("-")
    with kafkalog.LogWriter(log_dir, topic, int(number), config=config, clock=lambda: NOW) as writer:
        writer.append_batches(source)
    shutil.rmtree(source)
    return folder


def with_everything(log_dir: Path, codec: str) -> dict[str, str]:
    """Fill a log dir with every kind of folder and leftover; all hold the key. Return what is left out, and why."""
    live = filled(log_dir / "people-0", codec)
    filled(log_dir / "others-1", codec)
    internal = filled(log_dir / "__consumer_offsets-0", codec)
    data = (live / f"{0:020}.log").read_bytes()
    index = ERASED.ljust(24, b"x")
    left = {}
    for name in FOREIGN:
        (log_dir / name).mkdir()
        (log_dir / name / "notes.txt").write_bytes(ERASED)
        left[name] = "partition"
    (log_dir / "remote-log-index-cache").mkdir()
    (log_dir / "remote-log-index-cache" / "0_x.index").write_bytes(index)
    left["remote-log-index-cache"] = "cache"
    for state in ("future", "stray", "delete"):
        shutil.copytree(live, log_dir / f"people-0.{UUID}-{state}")
    left[f"people-0.{UUID}-delete"] = "deleted"
    broken = log_dir / f"gone-0.{UUID}-stray"
    broken.mkdir()
    (broken / f"{0:020}.log").write_bytes(data[:100] + b"\xff" + data[101:])
    (broken / f"{500:020}.log").write_bytes(data)
    left[broken.name] = "load"
    # Another topic of the same name, at other offsets.
    older = log_dir / f"people-0.{UUID[::-1]}-stray"
    older.mkdir()
    (older / f"{1000:020}.log").write_bytes(encoded(1000, codec) + encoded(1008, codec, ERASED))
    for name in ("notes.txt", "people-0.csv", "meta.properties.tmp", "recovery-point-offset-checkpoint.tmp"):
        (log_dir / name).write_bytes(ERASED)
        left[name] = "may contain"
    for name in (".kafkalog-rows.a.b.arrows", ".kafkalog-sink", f".kafkalog-stream-{'a' * 32}.tmp"):
        (log_dir / name).write_bytes(ERASED)
        left[name] = "may contain"
    shutil.copytree(internal, log_dir / f"__consumer_offsets-0.{UUID}-future")
    metadata = log_dir / "__cluster_metadata-0"
    shutil.copytree(GOLDEN_METADATA, metadata)
    for name in (
        f"{403:020}-{3:010}.checkpoint.deleted",
        f"{500:020}-{3:010}.checkpoint.part",
        "quorum-state.tmp",
        f"{403:020}.checkpoint.tmp",
        "bootstrap.checkpoint.tmp",
    ):
        (metadata / name).write_bytes(ERASED)
        left[f"{metadata.name}/{name}"] = "may contain"
    for folder in (live, internal, metadata, log_dir / f"people-0.{UUID}-future"):
        inner = {
            f"{900:020}.log.deleted": data,
            f"{900:020}.index.deleted": index,
            f"{900:020}.timeindex.deleted": index,
            f"{900:020}.txnindex.deleted": index,
            f"{900:020}.snapshot.deleted": ERASED,
            f"{900:020}.log.cleaned": data,
            f"{900:020}.timeindex.cleaned": index,
            f"{0:020}.index.swap": index,
            "partition.metadata.tmp": ERASED,
            "notes.txt": ERASED,
            f"{0:020}.log.bak": data,
        }
        for name, held in inner.items():
            (folder / name).write_bytes(held)
            left[f"{folder.name}/{name}"] = "may contain"
        if folder != metadata:
            (folder / f"{3:020}.snapshot").write_bytes(ERASED)
            (folder / f"{900:020}.index").write_bytes(index)
        (folder / "tmp").mkdir()
        (folder / "tmp" / "x.log").write_bytes(data)
        left[f"{folder.name}/tmp"] = "folder"
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=abcdefghijklmnopqrstuv\nnode.id=1\n")
    return left


def held_in(path: Path) -> list[bytes]:
    """Give the bytes of a file, and those of its batches decompressed."""
    raw = path.read_bytes()
    has_batches = path.suffix in {".log", ".checkpoint"}
    return [raw, *(plain for _, _, plain in payloads(raw))] if has_batches else [raw]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.sampled(2)
def test_nothing_of_an_erased_person_is_left(tmp_path: Path, codec: str) -> None:
    log_dir = tmp_path / "logs"
    left = with_everything(log_dir, codec)
    before = digests(log_dir)
    planned = kafkalog.rewrite(log_dir, tmp_path / "out", drop_keys=[ERASED], dry_run=True)
    report = kafkalog.rewrite(log_dir, tmp_path / "out", drop_keys=[ERASED])
    assert digests(log_dir) == before
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        for held in held_in(path):
            assert ERASED not in held, path
            assert SECRET not in held, path
    found = {os.path.relpath(each.path, log_dir): each.reason for each in report.left_out}
    assert [name for name, word in left.items() if word not in found.get(name, "")] == []
    assert found.keys() == left.keys()
    assert planned.left_out == report.left_out
    assert planned.records_dropped == report.records_dropped == 8 * 6 + 2 + 8
    # What is not live is rewritten by its own offsets.
    rewritten = {Path(each.path).name: each.records_dropped for each in report.partitions}
    assert rewritten == {
        "people-0": 8,
        "others-1": 8,
        "__consumer_offsets-0": 8,
        f"__consumer_offsets-0.{UUID}-future": 8,
        f"people-0.{UUID}-future": 8,
        f"people-0.{UUID}-stray": 8,
        f"people-0.{UUID[::-1]}-stray": 10,
    }
    assert report.manifest is not None
    manifest = json.loads(Path(report.manifest).read_text())
    assert {each["folder"] for each in manifest["partitions"]} == rewritten.keys()
    assert {os.path.relpath(each["path"], log_dir) for each in manifest["left_out"]} == found.keys()
    assert ERASED not in Path(report.manifest).read_bytes()
    table = kafkalog.read_table(tmp_path / "out", columns=["key"], topics="people")
    assert table.num_rows == 24


@pytest.mark.parametrize("verb", OPTIONS)
@pytest.mark.sampled(2)
def test_foreign_folders_stay_behind(tmp_path: Path, verb: str) -> None:
    log_dir, out = tmp_path / "logs", tmp_path / "out"
    filled(log_dir / "people-0")
    for name in FOREIGN:
        (log_dir / name / "deeper").mkdir(parents=True)
    (log_dir / "people-0" / "lost+found").mkdir()
    os.mkfifo(log_dir / "pipe")
    run: Callable[..., Any] = getattr(kafkalog, verb)
    report = run(log_dir, out=out, **OPTIONS[verb])
    expected = sorted(str(log_dir / name) for name in (*FOREIGN, "people-0/lost+found", "pipe"))
    assert [each.path for each in report.left_out] == expected
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"people-0"}
    assert not [path for path in (out / "people-0").iterdir() if path.is_dir()]
    findings = kafkalog.verify(out).to_pylist()
    assert [row for row in findings if row["severity"] != "info"] == []
    assert not (out / ".kafkalog-unfinished").exists()
    if verb in WORDS:
        done = call(verb, log_dir, tmp_path / "again", *WORDS[verb])
        assert done.returncode == 0, done.stderr
        for name in expected:
            assert f"not in the result: {name}: " in done.stdout
        lines = call(verb, log_dir, tmp_path / "json", *WORDS[verb], "-J").stdout.splitlines()
        assert [row["path"] for row in map(json.loads, lines) if "leftOut" in row] == expected


def test_truncate_leaves_folders_behind(tmp_path: Path) -> None:
    folder = filled(tmp_path / "logs" / "people-0")
    (folder / "lost+found").mkdir()
    planned = kafkalog.truncate(folder, tmp_path / "out", 20, dry_run=True)
    report = kafkalog.truncate(folder, tmp_path / "out", 20)
    assert [each.path for each in report.left_out] == [str(folder / "lost+found")]
    assert planned.left_out == report.left_out
    assert not (tmp_path / "out" / "people-0" / "lost+found").exists()
    done = call("truncate", folder, tmp_path / "again", "--offset", "20")
    assert f"not in the result: {folder / 'lost+found'}: " in done.stdout


def test_partitions_restrict_what_is_dropped(tmp_path: Path) -> None:
    """``-p`` as ``-t``; only ``--only`` leaves partitions out, and those are named."""
    log_dir = tmp_path / "logs"
    for name in ("people-0", "people-1", "others-0", "others-2"):
        filled(log_dir / name)

    def dropped(report: Any) -> dict[str, int]:
        return {Path(each.path).name: each.records_dropped for each in report.partitions}

    everything = {"people-0": 8, "people-1": 8, "others-0": 8, "others-2": 8}
    asked: list[tuple[dict[str, Any], set[str]]] = [
        ({"partitions": 0}, {"people-0", "others-0"}),
        ({"partitions": [1, 2]}, {"people-1", "others-2"}),
        ({"partitions": {"people": [0, 1]}}, {"people-0", "people-1"}),
        ({"partitions": [0], "topics": "others"}, {"others-0"}),
        ({"topics": "others"}, {"others-0", "others-2"}),
    ]
    for n, (given, goes) in enumerate(asked):
        report = kafkalog.rewrite(log_dir, tmp_path / f"out-{n}", drop_keys=[ERASED], **given)
        assert dropped(report) == {name: 8 if name in goes else 0 for name in everything}
        assert report.left_out == ()
        assert {path.name for path in (tmp_path / f"out-{n}").iterdir() if path.is_dir()} == everything.keys()
    kept = {"people": [1], "others": [0]}
    some = kafkalog.rewrite(log_dir, tmp_path / "some", drop_keys=[ERASED], keep_partitions=kept, partitions=[0])
    assert dropped(some) == {"people-1": 0, "others-0": 8}
    assert {Path(each.path).name: each.reason for each in some.left_out} == {
        "people-0": "not in keep_partitions",
        "others-2": "not in keep_partitions",
    }
    words = ["--drop-key", ERASED.decode(), "-p", "0"]
    done = call("rewrite", log_dir, tmp_path / "cli", *words)
    assert done.stdout.count("record(s) dropped") == 4
    assert "people-1: offsets 0 to 32: 0 record(s) dropped" in done.stdout
    done = call("rewrite", log_dir, tmp_path / "only", *words, "--only", "people:0", "--only", "people:1")
    assert done.stdout.count("record(s) dropped") == 2
    for name in ("others-0", "others-2"):
        assert f"not in the result: {log_dir / name}: " in done.stdout
        assert not (tmp_path / "only" / name).exists()
    assert call("rewrite", log_dir, tmp_path / "x", "--only", "people").returncode == 2
    for wrong in ({"partitions": 7}, {"keep_partitions": {"people": [2]}}, {"partitions": [1], "topics": "others"}):
        bad: dict[str, Any] = wrong
        with pytest.raises(kafkalog.UnknownTopicOrPartitionError):
            kafkalog.rewrite(log_dir, tmp_path / "x", **bad)


@pytest.mark.parametrize("verb", ["compact", "retain", "rewrite"])
@pytest.mark.sampled(2)
def test_what_the_source_had_is_no_failure(tmp_path: Path, verb: str) -> None:
    """It is said before the work; a new error leaves the result unfinished."""
    log_dir, out = tmp_path / "logs", tmp_path / "out"
    filled(log_dir / "people-0")
    (log_dir / "meta.properties").write_text("version=1\nnode.id=x\n")
    run: Callable[..., Any] = getattr(kafkalog, verb)
    report = run(log_dir, out, **OPTIONS[verb])
    assert len(report.source_errors) > 0
    assert all(str(log_dir / "meta.properties") in each for each in report.source_errors)
    assert not (out / ".kafkalog-unfinished").exists()
    done = call(verb, log_dir, tmp_path / "again", *WORDS[verb])
    assert done.returncode == 0
    assert f"in the source: {log_dir / 'meta.properties'}: " in done.stderr


@pytest.mark.parametrize("verb", ["compact", "retain", "rewrite"])
def test_what_does_not_verify_is_not_finished(tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log_dir, out = tmp_path / "logs", tmp_path / "out"
    filled(log_dir / "people-0")
    verify = kafkalog.verify

    def hurt(path: str) -> Any:
        if path == str(out):
            log = max((out / "people-0").glob("*.log"))
            log.write_bytes(encoded(8)[:-1] + b"\xff")
        return verify(path)

    monkeypatch.setattr("kafkalog.tools.soundness.verify", hurt)
    run: Callable[..., Any] = getattr(kafkalog, verb)
    with pytest.raises(kafkalog.CorruptRecordError, match="does not verify") as raised:
        run(log_dir, out, **OPTIONS[verb])
    assert Path(raised.value.path or "").parent == out / "people-0"
    assert (out / ".kafkalog-unfinished").exists()
    monkeypatch.undo()
    run(log_dir, out, **OPTIONS[verb])
    assert not (out / ".kafkalog-unfinished").exists()


def test_checkpoints_end_where_the_log_ends(tmp_path: Path) -> None:
    """Cut at every offset, by ``truncate`` and by a writer: what is written verifies."""
    chance = random.Random(58)  # noqa: S311 - to be repeated, not secret
    rounds = tiers.pick(4, 12, 400)
    for n in range(rounds):
        log_dir = tmp_path / f"logs-{n}"
        config = kafkalog.LogConfig(segment_bytes=chance.choice([400, 1 << 20]), index_interval_bytes=1)
        with kafkalog.LogWriter(log_dir, "t", config=config, clock=lambda: NOW) as writer:
            for _ in range(chance.randrange(1, 12)):
                count = chance.randrange(1, 6)
                writer.append([kafkalog.Record(b"v", b"k", NOW)] * count)
            end = writer.log_end_offset
            if chance.random() < 0.3:
                writer.delete_records(chance.randrange(end))
            start = writer.log_start_offset
        offset = chance.randrange(start, end + 1)
        out = tmp_path / f"out-{n}"
        kafkalog.truncate(log_dir / "t-0", out, offset, config=config)
        with kafkalog.LogWriter(log_dir, "t", config=config, clock=lambda: NOW) as writer:
            writer.truncate(offset)
            assert writer.log_end_offset == min(offset, end)
        for written in (out, log_dir):
            bad = [row for row in kafkalog.verify(written).to_pylist() if row["severity"] != "info"]
            assert bad == [], (n, offset)
            lines = (written / "recovery-point-offset-checkpoint").read_text().splitlines()
            assert lines[2:] == [f"t 0 {kafkalog.PartitionLog(written / 't-0').log_end_offset}"]
