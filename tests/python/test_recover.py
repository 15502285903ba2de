"""``recover`` and ``truncate``: Kafka's own outcome on the golden cases, and what a user sees of it."""

from __future__ import annotations

import dataclasses
import json
import pickle
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
import naive
from kafkalog import KafkaLogError, LogConfig, LogWriter, Record
from recover_cases import (
    CASES,
    NAMES,
    digests,
    digests_as_kafkas,
    fails_in_kafka,
    is_of_a_full_index,
    laid_out,
    outcome,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOW = 1_700_000_000_000
ORDERS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["in place", "out"])
@pytest.mark.sampled(46)
def test_golden_cases(tmp_path: Path, name: str, place: str) -> None:
    """The files that Kafka's loader and close leave; where it refuses, so do we, and nothing is changed."""
    case, root = CASES / name, tmp_path / "logs"
    config = laid_out(case, root)
    lines = outcome(case)
    before = digests(root)
    options: dict[str, Any] = {
        "clean": config["clean"],
        "recovery_point": config["recovery_point"],
        "log_start_offset": config["log_start_offset"],
        "config": LogConfig.from_kafka(config.get("log", {})),
        "producer_id_expiration_ms": config.get("producer.id.expiration.ms", 86_400_000),
        "now": config.get("now_ms", NOW),
    }
    target = root if place == "in place" else tmp_path / "out"
    dry = None
    try:
        dry = kafkalog.recover(root / "orders-0", dry_run=True, **options)
        assert digests(root) == before
        if place == "out":
            options["out"] = target / "orders-0"
        done = kafkalog.recover(root / "orders-0", **options)
    except KafkaLogError as refused:
        said = str(refused)
    else:
        said = ""
    if said:
        assert dry is None, "a dry run says so too"
        assert digests(root) == before
        assert "\n" not in said
        # Kafka's own refusal, or batches it would throw away that are whole; those the corpus names.
        assert fails_in_kafka(lines) or any(word in said for word in ("salvage", "Kafka"))
        return
    if place == "out":
        assert digests(root) == before
    (partition,) = done.partitions
    if is_of_a_full_index(lines):
        assert "index full" in {note.kind for note in partition.notes}
        logs = {at: digest for at, digest in before.items() if at.endswith(".log")}
        assert {at: digest for at, digest in digests(target).items() if at.endswith(".log")} == logs
        return
    loaded = next(line for line in lines if line["event"] == "loaded")
    assert (partition.log_start_offset, partition.log_end_offset) == (
        loaded["log_start_offset"],
        loaded["log_end_offset"],
    )
    expected = {
        line["name"]: line["after_sha256"]
        for line in lines
        if line["event"] == "file" and line["change"] != "deleted" and line["name"].startswith("orders-0/")
    }
    if place == "out":
        # What is no file of a log stays behind.
        expected = {at: digest for at, digest in expected.items() if at.count("/") == 1}
    left = digests_as_kafkas(target, CASES / name / "after")
    assert {at: digest for at, digest in left.items() if at.startswith("orders-0/")} == expected
    assert dry is not None
    assert dry.partitions[0].files == partition.files


def crashed(log_dir: Path) -> Path:
    """A log whose writer was killed, with half a batch at its end."""
    script = (
        "import os, sys, kafkalog\n"
        "config = kafkalog.LogConfig(segment_bytes=2000)\n"
        "w = kafkalog.LogWriter(sys.argv[1], 'orders', config=config, batch_bytes=200)\n"
        "w.append([kafkalog.Record(b'v%d' % n * 10) for n in range(100)])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(log_dir)], check=False, timeout=60)
    assert done.returncode == -9
    folder = log_dir / "orders-0"
    active = max(folder.glob("*.log"))
    with active.open("ab") as file:
        file.write(active.read_bytes()[:70])
    return folder


def lines(log_dir: Path, name: str) -> dict[str, int]:
    """Give a checkpoint of a log dir."""
    found = kafkalog.LogDir(log_dir).checkpoints[name]
    return {f"{line.topic}-{line.partition}": line.offset for line in found}


def test_checkpoints_follow(tmp_path: Path) -> None:
    """Those of the log dir say after a recovery what a broker would have written at its next clean stop."""
    folder = crashed(tmp_path / "logs")
    logs = folder.parent
    with LogWriter(logs, "short") as other:
        other.append([Record(b"one")])
    active = max((logs / "orders-0").glob("*.log"))
    active.write_bytes(active.read_bytes()[:-300])
    recovery, replication = "recovery-point-offset-checkpoint", "replication-offset-checkpoint"
    cleaner = "cleaner-offset-checkpoint"
    (logs / recovery).write_text("0\n3\ngone 0 7\norders 0 100\nshort 0 1\n")
    (logs / replication).write_text("0\n2\norders 0 100\nshort 0 1\n")
    (logs / cleaner).write_text("0\n2\norders 0 99\nshort 0 1\n")
    before = digests(logs)
    dry = kafkalog.recover(logs, dry_run=True)
    assert digests(logs) == before
    end = dry.partitions[0].log_end_offset
    assert 0 < end < 99
    changes = [(line.file, line.topic, line.before, line.after) for line in dry.checkpoints]
    assert changes == [
        (cleaner, "orders", 99, 0),
        (recovery, "gone", 7, None),
        (recovery, "orders", 100, end),
        (replication, "orders", 100, end),
    ]
    said = kafkalog_("recover", logs, "-n", "-J").stdout.splitlines()
    assert [len(json.loads(text)["checkpoints"]) for text in said] == [3, 0, 1]
    assert str(dry.checkpoints[1]) == f"{recovery}: gone-0: 7 to none"
    assert kafkalog_("recover", logs, "-n").stdout.endswith("".join(f"{line}\n" for line in dry.checkpoints))

    alone = kafkalog.recover(folder, dry_run=True)
    assert [(line.file, line.topic) for line in alone.checkpoints] == [
        (name, "orders") for name in (cleaner, recovery, replication)
    ]
    out = kafkalog.recover(logs, out=tmp_path / "out")
    assert digests(logs) == before
    done = kafkalog.recover(logs)
    assert done == dataclasses.replace(dry, dry_run=False)
    assert out.checkpoints == done.checkpoints
    for log_dir in (logs, tmp_path / "out"):
        assert lines(log_dir, recovery) == {"orders-0": end, "short-0": 1}
        assert lines(log_dir, replication) == {"orders-0": end, "short-0": 1}
        assert lines(log_dir, cleaner) == {"orders-0": 0, "short-0": 1}
    assert kafkalog.recover(logs).is_unchanged


def test_checkpoints_of_others_stay(tmp_path: Path) -> None:
    """A partition is recovered beside one that is open: both have their lines in the end."""
    folder = crashed(tmp_path / "logs")
    logs = folder.parent
    (logs / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 500\n")
    with LogWriter(logs, "open") as other:
        other.append([Record(b"one")])
        kafkalog.recover(folder)
        assert lines(logs, "recovery-point-offset-checkpoint") == {"orders-0": 100}
        other.flush()
    assert lines(logs, "recovery-point-offset-checkpoint") == {"open-0": 1, "orders-0": 100}


def test_checkpoints_follow_a_cut(tmp_path: Path) -> None:
    """Bytes written after a cut are not known to be on the disk, nor compacted (``LogManager.truncateTo``)."""
    logs = tmp_path / "logs"
    config = LogConfig(segment_bytes=500, cleanup_policy="compact")
    with LogWriter(logs, "orders", config=config, batch_bytes=100) as log:
        log.append([Record(b"v" * 50, key=b"k") for _ in range(40)])
        log.flush()
        (logs / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 30\n")
        log.truncate(20)
        assert lines(logs, "recovery-point-offset-checkpoint") == {"orders-0": 20}
        active = kafkalog.PartitionLog(logs / "orders-0").segments[-1].base_offset
        assert 0 < active <= 20
        assert lines(logs, "cleaner-offset-checkpoint") == {"orders-0": active}


@pytest.mark.parametrize("end", [LogWriter.flush, LogWriter.close])
@pytest.mark.parametrize("waited_ms", [59_999, 60_000])
def test_what_a_cut_puts_aside(tmp_path: Path, end: Callable[[LogWriter], None], waited_ms: int) -> None:
    """It is removed once ``file.delete.delay.ms`` has passed (``LocalLog.deleteSegmentFiles``)."""
    now = NOW
    config = LogConfig(segment_bytes=500)
    log = LogWriter(tmp_path, "orders", config=config, batch_bytes=100, clock=lambda: now)
    log.append([Record(b"v" * 50) for _ in range(40)])
    log.truncate(5)
    aside = sorted(tmp_path.glob("orders-0/*.deleted"))
    assert {path.suffixes[0] for path in aside} == {".log", ".index", ".timeindex", ".snapshot"}
    now += waited_ms
    end(log)
    assert sorted(tmp_path.glob("orders-0/*.deleted")) == ([] if waited_ms >= config.file_delete_delay_ms else aside)
    log.close()


@pytest.mark.parametrize("of", ["partition", "log dir"])
def test_after_a_kill(tmp_path: Path, of: str) -> None:
    folder = crashed(tmp_path / "logs")
    path = folder if of == "partition" else folder.parent
    before = digests(tmp_path)
    dry = kafkalog.recover(path, dry_run=True)
    assert digests(tmp_path) == before
    assert dry.bytes_cut == 70
    assert not dry.is_unchanged
    done = kafkalog.recover(path)
    assert done.partitions == dry.partitions
    assert pickle.loads(pickle.dumps(done)) == done  # noqa: S301 - our own
    assert [row.value for row in naive.rows(folder)] == [b"v%d" % n * 10 for n in range(100)]
    assert naive.check_indexes(folder) > 0
    assert kafkalog.recover(path, clean=True).is_unchanged
    with LogWriter(tmp_path / "logs", "orders") as log:
        assert log.append([Record(b"on")]).first_offset == 100


def test_the_writer_recovers_by_itself(tmp_path: Path) -> None:
    folder = crashed(tmp_path / "logs")
    with LogWriter(tmp_path / "logs", "orders") as log:
        assert log.log_end_offset == 100
    assert len(naive.rows(folder)) == 100
    assert naive.check_indexes(folder) > 0


def test_into_a_new_directory(tmp_path: Path) -> None:
    folder = crashed(tmp_path / "logs")
    before = digests(tmp_path / "logs")
    assert kafkalog.recover(folder.parent, out=tmp_path / "mended", dry_run=True).out is None
    report = kafkalog.recover(folder.parent, out=tmp_path / "mended")
    assert report.out == str(tmp_path / "mended")
    assert digests(tmp_path / "logs") == before
    assert len(naive.rows(tmp_path / "mended" / "orders-0")) == 100
    with pytest.raises(FileExistsError, match="choose another path for the result, or remove") as caught:
        kafkalog.recover(folder.parent, out=tmp_path / "mended")
    assert caught.value.filename == str(tmp_path / "mended")
    with pytest.raises(ValueError, match="where a broker looks"):
        kafkalog.recover(folder.parent, out=folder.parent / "in")


def test_arguments(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kafkalog.recover(tmp_path / "none")
    with pytest.raises(ValueError, match="recovery_point"):
        kafkalog.recover(tmp_path, recovery_point=-1)
    with pytest.raises(TypeError, match="now"):
        kafkalog.recover(tmp_path, now=5.0)  # type: ignore[arg-type]


def test_a_log_dir_that_is_open_is_left_alone(tmp_path: Path) -> None:
    holder = (
        "import sys, kafkalog\n"
        "with kafkalog.LogWriter(sys.argv[1], 'orders'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", holder, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        for path in (tmp_path, tmp_path / "orders-0"):
            with pytest.raises(kafkalog.LogLockedError):
                kafkalog.recover(path)
            kafkalog.recover(path, dry_run=True)
        process.stdin.close()


# Rebuilding


@pytest.mark.parametrize("level", ["4.3", "2.8", "1.1"])
@pytest.mark.parametrize("place", ["in place", "out"])
def test_rebuild_indexes(tmp_path: Path, level: str, place: str) -> None:
    """Rebuilt indexes equal a broker's; other levels name other offsets."""
    folder = tmp_path / "logs" / "orders-0"
    with LogWriter(folder.parent, "orders", config=LogConfig(index_interval_bytes=100), batch_bytes=200) as log:
        log.append([Record(b"v%d" % n * 10, b"k", NOW + n) for n in range(100)])
    before = digests(folder)
    names = {name for name in before if name.endswith(("index", ".log"))}
    (folder / f"{0:020}.index").unlink()
    (folder / f"{0:020}.timeindex").write_bytes(b"nothing of the kind")
    hurt = digests(folder)
    options: dict[str, Any] = {"kafka_version": level, "config": LogConfig(index_interval_bytes=100)}
    dry = kafkalog.rebuild_indexes(folder, dry_run=True, **options)
    assert digests(folder) == hurt
    if place == "out":
        options["out"] = tmp_path / "out" / "orders-0"
    done = kafkalog.rebuild_indexes(folder, **options)
    assert done.files == dry.files
    made = options.get("out", folder)
    after = digests(made)
    assert {name for name in after if name.endswith(("index", ".log"))} == names
    same = all(after[name] == before[name] for name in names)
    assert same == (level != "1.1")
    if place == "out":
        assert digests(folder) == hurt
    log_of = kafkalog.PartitionLog(made)
    assert [log_of.lookup(n).offset for n in range(100)] == list(range(100))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("level", "kinds"),
    [
        ("0.10.0", {"index"}),
        ("0.10.1", {"index", "timeindex"}),
        ("0.10.2", {"index", "timeindex"}),
        ("0.11.0", {"index", "timeindex", "snapshot"}),
    ],
)
def test_rebuilt_is_what_a_version_has(tmp_path: Path, level: str, kinds: set[str]) -> None:
    """Time indexes came with 0.10.1 (KIP-33), snapshots with 0.11.0 (KIP-98)."""
    with LogWriter(tmp_path, "orders") as log:
        log.append([Record(b"v")])
    kafkalog.rebuild_indexes(log.path, kafka_version=level)
    suffixes = {file.suffix[1:] for file in (tmp_path / "orders-0").iterdir() if file.name.startswith("0")}
    assert suffixes - {"log"} == kinds


def test_rebuild_refuses(tmp_path: Path) -> None:
    folder = crashed(tmp_path / "logs")
    before = digests(folder)
    with pytest.raises(kafkalog.CorruptRecordError):
        kafkalog.rebuild_indexes(folder)
    assert digests(folder) == before
    with pytest.raises(ValueError, match=r"5\.9"):
        kafkalog.rebuild_indexes(folder, kafka_version="5.9")
    done = kafkalog_("rebuild", folder)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert kafkalog_("rebuild", ORDERS, "--out", tmp_path / "new").stdout.startswith("orders-0: offsets 0 to 880")


# Truncating


@pytest.mark.parametrize("offset", [0, 1, 219, 220, 500, 879, 880, 2000])
def test_truncate(tmp_path: Path, offset: int) -> None:
    before = digests(ORDERS)
    dry = kafkalog.truncate(ORDERS, tmp_path / "out", offset=offset, dry_run=True)
    assert not (tmp_path / "out").exists()
    done = kafkalog.truncate(ORDERS, tmp_path / "out", offset=offset)
    assert digests(ORDERS) == before
    assert done.log_end_offset == min(offset, 880)
    assert done.out == str(tmp_path / "out" / "orders-0")
    same = ("log_start_offset", "log_end_offset", "log_end_before", "segments", "size", "bytes_cut")
    assert [getattr(dry, name) for name in same] == [getattr(done, name) for name in same]
    assert not list((tmp_path / "out").rglob("*.deleted")), "what was to go is gone"
    kept = kafkalog.read_table(tmp_path / "out")
    theirs = kafkalog.read_table(ORDERS, ending_offsets=offset) if offset else kept
    # A batch that holds the offset goes whole.
    assert kept.equals(theirs.slice(0, kept.num_rows))
    assert theirs.num_rows - kept.num_rows < 60
    assert kafkalog.PartitionLog(tmp_path / "out" / "orders-0").log_end_offset <= min(offset, 880)
    with LogWriter(tmp_path / "out", "orders") as log:
        log.append([Record(b"on")])


def test_truncate_refuses(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(FileExistsError):
        kafkalog.truncate(ORDERS, tmp_path / "there", offset=5)
    with pytest.raises(ValueError, match="offset"):
        kafkalog.truncate(ORDERS, tmp_path / "new", offset=-1)
    with pytest.raises(FileNotFoundError):
        kafkalog.truncate(tmp_path / "none", tmp_path / "new", offset=5)


@pytest.mark.parametrize("dry_run", [True, False])
def test_truncate_cuts_no_more_than_was_asked_for(tmp_path: Path, *, dry_run: bool) -> None:
    """A start-up would end the log at the damage; what was to stay is not given up in silence."""
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS, folder)
    wrong = kafkalog.scan_batches(folder, starting_offsets=300).read_all().to_pylist()[0]
    data = bytearray((folder / wrong["segment"]).read_bytes())
    data[wrong["position"] + wrong["size"] - 1] ^= 1
    (folder / wrong["segment"]).write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError, match=f"{wrong['segment']}: byte .*crc") as caught:
        kafkalog.truncate(folder, tmp_path / "out", offset=500, dry_run=dry_run)
    assert caught.value.offset == wrong["baseOffset"]
    assert not (tmp_path / "out").exists()
    done = kafkalog.truncate(folder, tmp_path / "out", offset=wrong["baseOffset"], dry_run=dry_run)
    assert done.log_end_offset == wrong["baseOffset"]


# The command line


def kafkalog_(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkalog", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_recover_on_the_command_line(tmp_path: Path) -> None:
    folder = crashed(tmp_path / "logs")
    dry = kafkalog_("recover", folder, "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert "orders-0: offsets 0 to 100" in dry.stdout
    assert "70 bytes cut" in dry.stdout
    fields = json.loads(kafkalog_("recover", folder, "-n", "-J").stdout)
    assert (fields["logEndOffset"], fields["bytesCut"]) == (100, 70)
    assert any(note["kind"] == "recovered" for note in fields["notes"])
    assert kafkalog_("recover", folder).stdout == dry.stdout
    assert len(naive.rows(folder)) == 100
    assert kafkalog_("recover", tmp_path / "none").returncode == 3
    assert kafkalog_("recover", folder, "--clean", "--unclean").returncode == 2


def test_truncate_on_the_command_line(tmp_path: Path) -> None:
    done = kafkalog_("truncate", ORDERS, tmp_path / "out", "--offset", "100")
    assert (done.returncode, done.stderr) == (0, "")
    assert "to 100 (before: 880)" in done.stdout
    fields = json.loads(kafkalog_("truncate", ORDERS, tmp_path / "x", "--offset", "5", "-n", "-J").stdout)
    assert (fields["logEndOffset"], fields["dryRun"]) == (5, True)
    again = kafkalog_("truncate", ORDERS, tmp_path / "out", "--offset", "100")
    assert again.returncode == 3
    assert again.stderr.count("\n") == 1


def damaged(name: str) -> Callable[[Path], Path]:
    def make(root: Path) -> Path:
        laid_out(CASES / name, root)
        return root / "orders-0"

    return make


def test_a_refusal_is_an_exit_code_and_salvage_a_way_out(tmp_path: Path) -> None:
    folder = damaged("name-not-a-number")(tmp_path / "logs")
    before = digests(tmp_path)
    done = kafkalog_("recover", folder, "--unclean")
    assert done.returncode == 1
    assert done.stderr.startswith("kafkalog: ")
    assert done.stderr.count("\n") == 1
    assert digests(tmp_path) == before
    saved = kafkalog_("recover", folder, "--unclean", "--salvage", "--out", tmp_path / "saved" / "orders-0")
    assert saved.returncode == 0, saved.stderr
    assert len(naive.batches(tmp_path / "saved" / "orders-0")) > 0


@pytest.mark.parametrize("case", sorted(path.parent.name for path in (corpus.GOLDEN / "corrupt").glob("*/t-0")))
def test_every_damaged_log_can_be_salvaged_and_read(tmp_path: Path, case: str) -> None:
    """A hint beside the log, such as an index entry that points into a batch, stops nothing."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    for file in (corpus.GOLDEN / "corrupt" / case / "t-0").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    whole = kafkalog.read_table(folder, on_corrupt="skip").num_rows
    kafkalog.recover(tmp_path, salvage=True)
    assert kafkalog.read_table(tmp_path).num_rows == whole
    assert kafkalog.recover(tmp_path, clean=False, dry_run=True).partitions[0].bytes_cut == 0


def test_a_future_folder_beside_the_live_one_has_no_line(tmp_path: Path) -> None:
    """Brokers have it in another log dir, whose checkpoints it shares with nobody; merged disks have both."""
    logs = shutil.copytree(corpus.GOLDEN / "in-flight" / "data-0", tmp_path / "logs")
    (future,) = (corpus.GOLDEN / "in-flight" / "data-1").glob("to-move-0.*-future")
    shutil.copytree(future, logs / future.name)
    end = kafkalog.PartitionLog(logs / "to-move-0").log_end_offset
    assert kafkalog.PartitionLog(logs / future.name).log_end_offset != end
    report = kafkalog.recover(logs, out=tmp_path / "out")
    assert not [each for each in report.checkpoints if each.topic == "to-move" and each.after not in {end, None}]
    checkpoints = kafkalog.LogDir(tmp_path / "out").checkpoints
    for file in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        assert ("to-move", 0, end) in checkpoints[file]
    kafkalog.rewrite(logs, tmp_path / "rewritten", compression_type="zstd")
    # Alone, as brokers have it, it has its line.
    alone = kafkalog.recover(corpus.GOLDEN / "in-flight" / "data-1", out=tmp_path / "alone")
    assert any(each.topic == "to-move" for each in alone.partitions)
