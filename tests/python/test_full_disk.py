"""A disk that is really full: a tmpfs of so many pages, in a namespace of its own, where one may be mounted."""

from __future__ import annotations

import errno
import functools
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import kafkalog

# A namespace in which its user may mount, and nobody else sees it.
ALONE = ["unshare", "--user", "--map-root-user", "--mount"]
MOUNT = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs"]


@functools.cache
def may_mount() -> bool:
    """Tell whether this machine lets us."""
    if not all(map(shutil.which, ("unshare", "mount"))):
        return False
    ran = subprocess.run([*ALONE, *MOUNT, str(Path(__file__).parent)], capture_output=True, check=False)
    return ran.returncode == 0


CHILD = """
import json, subprocess, sys
from pathlib import Path
import kafkalog
from kafkalog import LogConfig, Record
from writing import both, clock

home, sync = Path(sys.argv[1]), sys.argv[2]
CONFIG = LogConfig(segment_index_bytes=4_096, segment_bytes=30_000, index_interval_bytes=500)
ROWS, BALLAST = 40, 200_000

def row(n):
    return Record(b"%d/" % n + b"x" * 100, timestamp=1_700_000_000_000 + n)

def numbers(records):
    return [int(record.value.partition(b"/")[0]) for record in records]

def fill(disk):
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(BALLAST))
    log = kafkalog.LogWriter(disk, "orders", config=CONFIG, clock=clock, sync=sync, batch_bytes=1_000)
    end, failed = 0, None
    while failed is None:
        try:
            log.append([row(end + n) for n in range(ROWS)])
            end = log.log_end_offset
        except OSError as error:
            failed = [error.errno, str(Path(error.filename).relative_to(disk))]
    after = log.log_end_offset
    refused = []
    for call in (lambda: log.append([row(0)]), log.roll, log.flush, log.close):
        try:
            call()
        except kafkalog.KafkaLogError as error:
            refused.append("takes nothing more after" in str(error))
    found = [int(value.partition(b"/")[0]) for value in kafkalog.read_table(disk / "orders-0")["value"].to_pylist()]
    ballast.unlink()
    with kafkalog.LogWriter(disk, "orders", config=CONFIG, clock=clock) as log:
        again = log.log_end_offset
        log.append([row(again + n) for n in range(ROWS)])
    return {"end": end, "after": after, "failed": failed, "refused": refused, "found": found, "again": again,
            "whole": numbers(both(disk / "orders-0"))}

said = []
for pages in range(int(sys.argv[3])):
    disk = home / str(pages)
    disk.mkdir()
    size = f"size={400 + 4 * pages}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", disk], check=True)
    said.append(fill(disk))
    subprocess.run(["umount", disk], check=True)
print(json.dumps(said))
"""


def no_space_left(tmp_path: Path, sync: str) -> None:
    """Fill it, a page more each time, so that it is another file's turn to find none left."""
    command = [*ALONE, sys.executable, "-c", CHILD, str(tmp_path), sync, "16"]
    tests = str(Path(__file__).resolve().parents[1])
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tests)
    assert ran.returncode == 0, ran.stderr
    kinds = set()
    for said in json.loads(ran.stdout):
        number, name = said["failed"]
        assert number == errno.ENOSPC
        kinds.add(Path(name).suffix)
        assert said["refused"] == [True] * 4
        # What was acknowledged is there, and whole batches of what was not, at most.
        assert 40 < said["end"] <= said["after"] < said["end"] + 40
        assert said["found"] == list(range(len(said["found"])))
        assert len(said["found"]) == said["after"] == said["again"]
        assert said["whole"] == list(range(said["again"] + 40))
    assert {".log", ".index"} <= kinds


COPIES = """
import json, subprocess, sys
from pathlib import Path
import kafkalog
from kafkalog import LogConfig, LogWriter, Record

home, source = Path(sys.argv[1]), Path(sys.argv[1]) / "source"
for partition in range(2):
    with LogWriter(source, "t", partition, config=LogConfig(segment_bytes=60_000)) as log:
        for n in range(0, 6000, 100):
            log.append([Record(b"v%d" % k, b"k%d" % k, 1_700_000_000_000 + k) for k in range(n, n + 100)])
config = {"cleanup.policy": "compact", "segment.bytes": 60_000}
disk = home / "disk"
disk.mkdir()
said = []
for verb in (
    lambda out: kafkalog.compact(source, out, config=config),
    lambda out: kafkalog.retain(source, out, config=config),
    lambda out: kafkalog.rewrite(source, out, drop_keys=["none"], config=config),
    lambda out: kafkalog.rescue([source], out),
):
    for size in (40, 200):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", disk], check=True)
        out = disk / "out"
        try:
            verb(out)
            failed = None
        except OSError as error:
            failed = error.errno
        left = out.exists()
        subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
        verb(out)
        rows = kafkalog.read_table(out, topics="t").num_rows
        more = sorted(path.name for path in disk.rglob("*unfinished*"))
        said.append([failed, left, rows, more])
        subprocess.run(["umount", disk], check=True)
print(json.dumps(said))
"""


INTO = """
import json, subprocess, sys
from pathlib import Path
import clusters, kafkalog
from kafkalog import LogConfig, LogWriter, Record

home, disk = Path(sys.argv[1]), Path(sys.argv[1]) / "disk"
dead = clusters.make_disk(home / "dead", 1)
with LogWriter(dead, "orders", config=LogConfig(segment_bytes=60_000), topic_id=clusters.TOPIC_ID) as log:
    for n in range(0, 6000, 100):
        log.append([Record(b"v%d" % k, b"k%d" % k, 1_700_000_000_000 + k) for k in range(n, n + 100)])
disk.mkdir()
said = []
for size in (100, 200):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], check=True)
    other = clusters.make_other(disk / "other")
    for index in other.rglob("*.index"):
        index.unlink()
    before = clusters.contents(other)
    subprocess.run(["mount", "-o", f"remount,size={size}k", disk], check=True)
    try:
        kafkalog.rescue(dead, into=other, topics="orders")
        failed = None
    except OSError as error:
        failed = error.errno
    same = clusters.contents(other) == before
    subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
    kafkalog.rescue(dead, into=other, topics="orders")
    rows = kafkalog.read_table(other, topics="orders").num_rows
    said.append([failed, same, rows, sorted(path.name for path in disk.rglob("*unfinished*"))])
    subprocess.run(["umount", disk], check=True)
print(json.dumps(said))
"""


LINKED = """
import json, os, shutil, subprocess, sys
from pathlib import Path
import clusters, kafkalog
from kafkalog import LogConfig, LogWriter, Record

disk = Path(sys.argv[1]) / "disk"
disk.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", disk], check=True)
config = LogConfig(segment_index_bytes=4_096)
with LogWriter(disk / "original", "orders", config=config) as log:
    log.append([Record(b"x" * 100, timestamp=1_700_000_000_000 + n) for n in range(1000)])
shutil.copytree(disk / "original", disk / "copy", copy_function=os.link)
before = clusters.contents(disk)
said = []
for free in (0, 40):
    used = int(subprocess.run(["du", "-sk", disk], capture_output=True, check=True, text=True).stdout.split()[0])
    subprocess.run(["mount", "-o", f"remount,size={used + free}k", disk], check=True)
    try:
        with LogWriter(disk / "copy", "orders", config=config) as log:
            log.append([Record(b"new", timestamp=1_700_000_001_000)])
        failed = None
    except OSError as error:
        failed = error.errno
    subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
    logs = {name: bytes for name, bytes in clusters.contents(disk).items() if name.endswith(".log")}
    said.append([failed, logs == {name: before[name] for name in logs}, [each.name for each in disk.rglob("*.tmp")]])
with LogWriter(disk / "copy", "orders", config=config) as log:
    log.append([Record(b"new", timestamp=1_700_000_001_000)])
rows = [kafkalog.read_table(disk / name).num_rows for name in ("original", "copy")]
same = {name: bytes for name, bytes in clusters.contents(disk / "original").items()}
said.append([rows, all(before[f"original/{name}"] == same[name] for name in same)])
subprocess.run(["umount", disk], check=True)
print(json.dumps(said))
"""


def run_alone(script: str, tmp_path: Path) -> list[list[object]]:
    command = [*ALONE, sys.executable, "-c", script, str(tmp_path)]
    tests = str(Path(__file__).resolve().parents[1])
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=tests)
    assert ran.returncode == 0, ran.stderr
    said: list[list[object]] = json.loads(ran.stdout)
    return said


def no_space_for_a_copy(tmp_path: Path) -> None:
    # Nothing has the output's name before it is whole, and the same call finishes once there is room.
    assert run_alone(COPIES, tmp_path) == [[errno.ENOSPC, False, 12_000, []]] * 8


def no_space_in_a_log_dir(tmp_path: Path) -> None:
    # The log dir is as it was until all partitions are whole beside it.
    assert run_alone(INTO, tmp_path) == [[errno.ENOSPC, True, 6_000, []]] * 2


def no_space_for_what_was_linked(tmp_path: Path) -> None:
    # The log keeps its bytes and its other name; nothing is left of a copy that was begun.
    assert run_alone(LINKED, tmp_path) == [*[[errno.ENOSPC, True, []]] * 2, [[1000, 1001], True]]


if may_mount():

    def test_no_space_for_what_was_linked(tmp_path: Path) -> None:
        """A log dir of hard links, whose files are copied before they are written to."""
        no_space_for_what_was_linked(tmp_path)

    def test_no_space_in_a_log_dir(tmp_path: Path) -> None:
        """``rescue --into``, at two fills."""
        no_space_in_a_log_dir(tmp_path)

    def test_no_space_for_a_copy(tmp_path: Path) -> None:
        """``compact``, ``retain``, ``rewrite`` and ``rescue``, at several fills."""
        no_space_for_a_copy(tmp_path)

    @pytest.mark.parametrize("sync", ["config", "append", "never"])
    @pytest.mark.sampled(1)
    def test_no_space_left(tmp_path: Path, sync: str) -> None:
        """A write, an index's page, a snapshot: whatever it is that finds no room."""
        no_space_left(tmp_path, sync)


READING = """
import resource, sys
from kafkalog.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("form", ["tar", "tar.gz", "gz", "-"])
@pytest.mark.parametrize("verb", ["cat", "verify", "dump"])
@pytest.mark.sampled(4)
def test_no_room_to_unpack(tmp_path: Path, verb: str, form: str) -> None:
    """No file may become longer: the same as a disk that is full. Nothing stays in the temporary folder."""
    if verb == "dump" and "tar" in form:
        pytest.skip("of files alone")
    with kafkalog.LogWriter(tmp_path / "data", "t") as log:
        for _ in range(10):
            log.append([kafkalog.Record(bytes(5_000), b"key")])
    segment = tmp_path / "data" / "t-0" / f"{0:020}.log"
    given, temporary = tmp_path / f"segment.{form}", tmp_path / "temporary"
    temporary.mkdir()
    if "tar" in form:
        with tarfile.open(given, "w:gz" if "gz" in form else "w") as packed:
            packed.add(tmp_path / "data", "data")
    elif form == "gz":
        given.write_bytes(gzip.compress(segment.read_bytes()))
    shown = "-" if form == "-" else str(given)
    files = ["--files", shown] if verb == "dump" else [shown]
    ran = subprocess.run(
        [sys.executable, "-c", READING, verb, *files],
        input=segment.read_bytes() if form == "-" else b"",
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert ran.returncode not in {0, -signal.SIGXFSZ}
    said = ran.stderr.decode()
    assert f"File too large for a temporary copy in {temporary}; set TMPDIR to a folder with more room" in said
    assert shown in said
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []
