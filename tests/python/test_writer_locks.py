"""A log dir and the writers of a process in it: who holds it, and what they leave."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import kafkalog
from kafkalog import LogWriter, Record

if TYPE_CHECKING:
    from pathlib import Path

MARKER, LOCK = ".kafka_cleanshutdown", ".lock"


def test_writers_of_a_process_share_a_log_dir(tmp_path: Path) -> None:
    """Two partitions at once; the marker and the lock's end come with the last of them."""
    with LogWriter(tmp_path, "orders", 0) as first:
        with LogWriter(tmp_path, "orders", 1) as second:
            first.append([Record(b"a")])
            second.append([Record(b"b"), Record(b"c")])
        assert (tmp_path / LOCK).exists()
        assert not (tmp_path / MARKER).exists()
        first.append([Record(b"d")])
    assert not (tmp_path / LOCK).exists()
    assert (tmp_path / MARKER).read_text() == '{"version":0,"brokerEpoch":-1}'
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert (tmp_path / name).read_text() == "0\n2\norders 0 2\norders 1 2\n"
    assert kafkalog.read_table(tmp_path)["value"].to_pylist() == [b"a", b"d", b"b", b"c"]


def test_a_partition_left_in_disorder_takes_the_marker_with_it(tmp_path: Path) -> None:
    """Until it has been recovered; one that was refused is given back as it was."""
    with LogWriter(tmp_path, "orders") as writer:
        writer.append([Record(b"a")])
    # Kafka takes any .log for a segment, and does not load this one.
    foreign = tmp_path / "orders-0" / "foo.log"
    foreign.touch()
    with pytest.raises(kafkalog.KafkaLogError, match="foo"):
        LogWriter(tmp_path, "orders")
    foreign.unlink()
    assert (tmp_path / MARKER).exists()
    script = "import os, sys, kafkalog; w = kafkalog.LogWriter(sys.argv[1], 'orders', sync='append'); "
    script += "w.append([kafkalog.Record(b'b')]); os._exit(0)"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=60)
    assert not (tmp_path / MARKER).exists()
    with LogWriter(tmp_path, "others") as other:
        other.append([Record(b"x")])
    assert not (tmp_path / MARKER).exists()
    with LogWriter(tmp_path, "orders") as writer:
        assert writer.log_end_offset == 2
    assert not (tmp_path / MARKER).exists()
    with LogWriter(tmp_path, "orders"), LogWriter(tmp_path, "others"):
        pass
    assert (tmp_path / MARKER).exists()


FORKED = """
import os, sys
import kafkalog

folder, = sys.argv[1:]
writer = kafkalog.LogWriter(folder, "orders", sync="append")
writer.append([kafkalog.Record(b"a")])
before = sorted((f.name, f.stat().st_size) for f in os.scandir(writer.path))
child = os.fork()
if child == 0:
    failures = 0
    for attempt in (
        lambda: kafkalog.LogWriter(folder, "others"),
        lambda: writer.append([kafkalog.Record(b"b")]),
        lambda: writer.flush(),
        lambda: writer.close(),
    ):
        try:
            attempt()
        except (kafkalog.LogLockedError, ValueError):
            failures += 1
    os._exit(0 if failures == 4 else failures + 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(before == sorted((f.name, f.stat().st_size) for f in os.scandir(writer.path)))
sys.stdout.flush()
sys.stdin.readline()
writer.append([kafkalog.Record(b"c")])
writer.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
def test_a_forked_child_has_no_part_in_it(tmp_path: Path) -> None:
    """It can neither write with its parent's writer nor lock the log dir; its end does not end the parent's lock."""
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "0\n"
        assert parent.stdout.readline() == "True\n"
        with pytest.raises(kafkalog.LogLockedError) as locked:
            LogWriter(tmp_path, "orders")
        assert locked.value.path == str(tmp_path / LOCK)
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert parent.wait(60) == 0
    assert kafkalog.read_table(tmp_path)["value"].to_pylist() == [b"a", b"c"]
    assert (tmp_path / MARKER).exists()


def test_a_log_start_that_was_raised_stays(tmp_path: Path) -> None:
    """It lies inside a segment, so only the log dir's checkpoint knows it."""
    with LogWriter(tmp_path, "t", batch_bytes=1) as log:
        log.append([Record(b"%d" % n) for n in range(9)])
        assert log.delete_records(4)
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 4\n"
    assert kafkalog.PartitionLog(tmp_path / "t-0").log_start_offset == 4
    with LogWriter(tmp_path, "t") as log:
        assert log.log_start_offset == 4


def test_checkpoints_of_a_writer_that_writes_nothing(tmp_path: Path) -> None:
    """Its log counts as replicated up to the end; one that begins with its first segment has no line of its start."""
    for count in (3, 0):
        with LogWriter(tmp_path, "t") as log:
            log.append([Record(b"v")] * count)
        assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
        assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_what_was_compacted_is_cut_with_the_log(tmp_path: Path) -> None:
    """As ``LogManager.truncateTo``: down to the active segment, where the cut reaches below it."""
    cleaner = tmp_path / "cleaner-offset-checkpoint"
    with LogWriter(tmp_path, "t", config=kafkalog.LogConfig(cleanup_policy="compact")) as log:
        for n in range(9):
            log.append([Record(b"v", b"%d" % n)])
            if n % 3 == 2:
                log.roll()
        cleaner.write_text("0\n1\nt 0 6\n")
        log.truncate(7)
        assert cleaner.read_text() == "0\n1\nt 0 6\n"
        log.truncate(4)
        assert cleaner.read_text() == "0\n1\nt 0 3\n"


@pytest.mark.parametrize(("sync", "recovery_point"), [("append", 3), ("config", 0), ("never", 0)])
def test_what_is_on_the_disk_by_the_time_an_append_returns(tmp_path: Path, sync: str, recovery_point: int) -> None:
    with LogWriter(tmp_path / "a", "t", sync=sync) as log:  # type: ignore[arg-type]
        log.append([Record(b"v")] * 3)
        assert log.recovery_point == recovery_point
    with LogWriter(tmp_path / "b", "t", sync=sync) as copy:  # type: ignore[arg-type]
        copy.append_batches(tmp_path / "a" / "t-0")
        assert copy.recovery_point == recovery_point
