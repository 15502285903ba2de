"""Dry runs of ``compact``, ``retain``, ``rewrite``: nothing is written, and all is reported that a run reports."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from command import call

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

NOW = 10_000
COMPACT: dict[str, Any] = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}


def filled(log_dir: Path, partition: int, keys: int, rows: int, codec: str) -> None:
    """Write random records, and some tombstones, into segments of 3 MB."""
    draw = random.Random(partition)  # noqa: S311 - any records will do
    config = kafkalog.LogConfig(segment_bytes=3 << 20, compression_type=codec)
    with kafkalog.LogWriter(log_dir, "orders", partition, config=config, clock=lambda: 1000) as log:
        while log.log_end_offset < rows:
            values = [None if draw.random() < 0.1 else draw.randbytes(draw.randint(0, 300)) for _ in range(200)]
            log.append([kafkalog.Record(value, b"k%d" % draw.randrange(keys), 1000) for value in values])


def agrees(source: Path, out: Path, **how: Any) -> kafkalog.CompactReport:
    """Compact as a dry run and in truth: the reports say the same."""
    planned = kafkalog.compact(source, out, dry_run=True, **how)
    assert not out.exists()
    done = kafkalog.compact(source, out, **how)
    assert planned.dry_run
    assert planned.out is None
    assert replace(planned, dry_run=False, out=done.out) == done
    return done


# A pass writes 1 MiB at a time: segments of several such pieces.
@pytest.mark.full
@pytest.mark.parametrize("codec", ["producer", "zstd"])
@pytest.mark.parametrize("segment_bytes", [3 << 20, 1 << 30])
def test_the_first_of_many_passes(tmp_path: Path, codec: str, segment_bytes: int) -> None:
    """Its figures are exact: a second pass that is not worth it leaves a run with the same ones."""
    filled(tmp_path / "logs", 0, 20_000, 60_000, codec)
    config = {**COMPACT, "segment.bytes": segment_bytes, "delete.retention.ms": 0}
    how: dict[str, Any] = {"now": NOW, "roll": True, "map_bytes": 24 * 4000}
    plan = kafkalog.compact(tmp_path / "logs", tmp_path / "one", config=config, dry_run=True, **how)
    once = {**config, "min.cleanable.dirty.ratio": 0.99}
    one = kafkalog.compact(tmp_path / "logs", tmp_path / "one", config=once, **how)
    (planned,) = plan.partitions
    assert planned.more_passes
    assert "in at least 1 pass(es)" in str(plan)
    assert f"at least {plan.bytes_saved} bytes would be saved" in str(plan)
    assert (replace(planned, more_passes=False),) == one.partitions
    assert one.partitions[0].passes == 1
    done = kafkalog.compact(tmp_path / "logs", tmp_path / "out", config=config, **how)
    (partition,) = done.partitions
    assert partition.passes > 5
    assert not partition.more_passes
    assert partition.segments > 1 or segment_bytes > partition.size
    assert 2 << 20 < partition.size < partition.size_before / 2
    assert 0 < plan.bytes_saved < done.bytes_saved


def test_a_log_dir(tmp_path: Path) -> None:
    """Checkpoints, a marker, several partitions at once, one that is not compacted."""
    for n in range(3):
        filled(tmp_path / "logs", n, 300, 5000, "lz4")
    with kafkalog.LogWriter(tmp_path / "logs", "other") as log:
        log.append([kafkalog.Record(b"v", b"k")])
    # Only some of the offsets are replicated, and some were compacted before.
    (tmp_path / "logs" / "replication-offset-checkpoint").write_text("0\n2\norders 0 3000\norders 1 9999\n")
    (tmp_path / "logs" / "cleaner-offset-checkpoint").write_text("0\n2\norders 1 2000\norders 2 77777\n")
    config = {**COMPACT, "cleanup.policy": "compact,delete", "retention.bytes": 1 << 20}
    for clean in (True, False):
        if not clean:
            (tmp_path / "logs" / ".kafka_cleanshutdown").unlink()
        out = tmp_path / f"out-{clean}"
        done = agrees(tmp_path / "logs", out, now=NOW, config=config, roll=True)
        assert [each.first_dirty_offset for each in done.partitions] == [0, 2000, 0, 0]
    before = corpus.GOLDEN / "clean-restarts" / "data-0"
    assert agrees(before, tmp_path / "golden", now=NOW, config={"min.cleanable.dirty.ratio": 0}, roll=True).partitions


def stamps(*roots: Path) -> dict[str, tuple[int, ...]]:
    """Give what changes when anything below is created, removed, renamed or written."""
    found: dict[str, tuple[int, ...]] = {}
    for root in roots:
        for path in (root, *root.rglob("*")):
            about = path.stat()
            found[str(path)] = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return found


# No file may become longer than nothing, wherever it is: the disk is full.
FULL = """
import resource, runpy, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
sys.argv[0] = "kafkalog"
runpy.run_module("kafkalog", run_name="__main__")
"""

COMMANDS = {
    "compact": ["--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0", "--roll"],
    "compact damage": ["--config", "cleanup.policy=compact", "--roll", "--on-corrupt", "skip"],
    "compact passes": ["--config", "cleanup.policy=compact", "--roll", "--map-bytes", "2400"],
    "retain": ["--config", "retention.bytes=1"],
    "rewrite": ["--drop-key-pattern", "k1", "--compression-type", "gzip"],
}


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process")
@pytest.mark.parametrize("how", COMMANDS)
def test_nothing_is_written(tmp_path: Path, how: str) -> None:
    command = how.partition(" ")[0]
    for n in range(2):
        filled(tmp_path / "logs", n, 300, 15_000, "producer")
    if how == "compact damage":
        damaged = min((tmp_path / "logs" / "orders-0").glob("*.log"))
        data = bytearray(damaged.read_bytes())
        data[5000] ^= 1
        damaged.write_bytes(data)
    for name in ("temporary", "home", "parent"):
        (tmp_path / name).mkdir()
    words = [command, str(tmp_path / "logs"), str(tmp_path / "parent" / "out"), *COMMANDS[how], "-J"]
    roots = [tmp_path, tmp_path / "logs", tmp_path / "parent", tmp_path / "temporary", tmp_path / "home"]
    before = stamps(*roots)
    own = {"TMPDIR": str(tmp_path / "temporary"), "HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    # The witness tells: a run in truth fails there.
    for more in ([], ["--dry-run"]):
        ran = subprocess.run(
            [sys.executable, "-c", FULL, *words, *more],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path / "home",
            env={**os.environ, **own},
        )
        if not more:
            assert ran.returncode != 0, how
            assert "File too large" in ran.stderr
            before = stamps(*roots)
    assert ran.returncode == 0, ran.stderr
    assert stamps(*roots) == before
    assert list((tmp_path / "parent").iterdir()) == []
    done = call(*words)
    assert done.returncode == 0, done.stderr
    if command == "compact":
        several, one = '"morePasses":true', '"morePasses":false'
        assert (several in ran.stdout) == (how == "compact passes")
        # At the default ratio a second pass is not worth it.
        assert done.stdout == ran.stdout.replace(several, one)


PEAK = """
import sys, threading
from pathlib import Path
import kafkalog
def anonymous():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1024
def watch():
    global most
    while not ends.wait(0.002):
        most = max(most, anonymous())
ends, before, most = threading.Event(), anonymous(), 0.0
thread = threading.Thread(target=watch)
thread.start()
report = kafkalog.compact(sys.argv[1], sys.argv[2], dry_run=True, roll=True, map_bytes=int(sys.argv[3]),
                          config={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0})
ends.set()
thread.join()
print(report.partitions[0].more_passes, report.partitions[0].size, max(most, anonymous()) - before)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_is_bounded(tmp_path: Path) -> None:
    """A pass over 375 MB, most of it in batches that change."""
    config = kafkalog.LogConfig(segment_bytes=100 << 20)
    with kafkalog.LogWriter(tmp_path / "logs", "orders", config=config, clock=lambda: 1000, sync="never") as log:
        for n in range(500):
            value = bytes(1000)
            # Half of the keys of each batch come again in the next one.
            log.append([kafkalog.Record(value, b"%d" % (n * 375 + at), 1000) for at in range(750)])
    words = [str(tmp_path / "logs"), str(tmp_path / "out"), str(24 * 60_000)]
    ran = subprocess.run([sys.executable, "-c", PEAK, *words], capture_output=True, text=True, check=True, timeout=120)
    more_passes, size, mib = ran.stdout.split()
    assert more_passes == "True"
    assert int(size) > 180_000_000
    assert float(mib) < 64


@pytest.mark.parametrize("verb", ["retain", "compact", "rewrite"])
def test_it_names_what_the_source_has(tmp_path: Path, verb: str) -> None:
    filled(tmp_path / "logs", 0, 10, 400, "zstd")
    (tmp_path / "logs" / "lost+found").mkdir()
    how: dict[str, Any] = {"config": COMPACT} if verb == "compact" else {"config": {"retention.ms": -1}}
    if verb == "rewrite":
        how = {"drop_keys": [b"k1"]}
    planned = getattr(kafkalog, verb)(tmp_path / "logs", tmp_path / "out", dry_run=True, **how)
    done = getattr(kafkalog, verb)(tmp_path / "logs", tmp_path / "out", **how)
    assert planned.source_errors == done.source_errors
    assert len(planned.source_errors) == 1
