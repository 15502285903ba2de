"""Effects of a full disk: its own error, a writer that takes nothing more, and every append that was acknowledged."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kafkalog
import naive
from kafkalog import LogConfig, LogWriter, Record
from writing import both, clock

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="only POSIX limits the length of files")

# Files may not grow beyond this in the child, which is how a full disk looks to it.
LIMIT = 100_000
CONFIG = LogConfig(segment_index_bytes=4_096, segment_bytes=1 << 20)

CHILD = """
import json, resource, sys
import kafkalog
from kafkalog import LogConfig, Record
from writing import clock

folder, limit, rows, sync = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4]
config = LogConfig(segment_index_bytes=4_096, segment_bytes=1 << 20)
log = kafkalog.LogWriter(folder, "orders", config=config, clock=clock, sync=sync)
said = {"end": log.log_end_offset, "path": log.path}

def outcome(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, getattr(error, "errno", None), getattr(error, "filename", None), str(error)]

def append():
    first = log.log_end_offset
    log.append([Record(b"%d/" % (first + n) + b"x" * 100) for n in range(rows)])
    said["end"] = log.log_end_offset

resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
for _ in range(1_000):
    said["error"] = outcome(append)
    if said["error"]:
        break
said["after"] = log.log_end_offset
said["more"] = [outcome(call) for call in (append, log.roll, log.flush, lambda: log.truncate(0))]
said["closing"] = outcome(log.close)
said["closed"] = log.closed
print(json.dumps(said))
"""


def fill(folder: Path, rows: int, sync: str = "config") -> dict[str, Any]:
    """Append so many rows at a time until the disk is full; what the child says."""
    command = [sys.executable, "-c", CHILD, str(folder), str(LIMIT), str(rows), sync]
    tests = str(Path(__file__).resolve().parents[1])
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=tests)
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


@pytest.mark.parametrize("sync", ["config", "append"])
@pytest.mark.parametrize("rows", [1, 100, 2_000])
@pytest.mark.sampled(2)
def test_a_full_disk(tmp_path: Path, rows: int, sync: str) -> None:
    with LogWriter(tmp_path, "orders", config=CONFIG, clock=clock) as log:
        log.append([Record(b"%d/" % n) for n in range(10)])
    said = fill(tmp_path, rows, sync)
    segment = f"{said['path']}/00000000000000000000.log"
    kind, number, filename, text = said["error"]
    assert (kind, number, filename) == ("OSError", errno.EFBIG, segment), text
    for refused, _, _, text in said["more"]:
        assert refused == "KafkaLogError"
        assert "takes nothing more after" in text
        assert "\n" not in text
    assert said["closing"][0] == "KafkaLogError"
    assert said["closed"]
    # Of the append that failed, batches that were written whole may have stayed; nothing else, and nothing torn.
    assert said["end"] >= 10
    assert said["end"] <= said["after"] < said["end"] + rows
    if rows == 1:
        assert said["after"] == said["end"]
    assert len(naive.rows(tmp_path / "orders-0")) == said["after"]
    with LogWriter(tmp_path, "orders", config=CONFIG, clock=clock) as log:
        assert log.log_end_offset == said["after"]
        assert log.append([Record(b"%d/" % log.log_end_offset)]).records == 1
    rows_now = both(tmp_path / "orders-0")
    assert [int((row.value or b"").partition(b"/")[0]) for row in rows_now] == list(range(said["after"] + 1))


def test_a_full_disk_recovered_by_hand(tmp_path: Path) -> None:
    """The command that mends a directory comes to the same end as a writer that opens it."""
    said = fill(tmp_path, 1)
    report = kafkalog.recover(tmp_path)
    assert not report.dry_run
    folder = tmp_path / "orders-0"
    assert len(both(folder)) == said["after"] == said["end"]


def test_no_room_for_an_index(tmp_path: Path) -> None:
    """A new log needs room for its index files; without it there is an error, and nothing that is in the way later."""
    command = [sys.executable, "-c", TOO_SMALL, str(tmp_path)]
    tests = str(Path(__file__).resolve().parents[1])
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=tests)
    kind, number, filename = json.loads(ran.stdout)
    assert (kind, number) == ("OSError", errno.EFBIG)
    assert Path(filename).suffix in {".index", ".timeindex"}
    with LogWriter(tmp_path, "orders", clock=clock) as log:
        assert log.append([Record(b"x")]).first_offset == 0
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"x"]


TOO_SMALL = """
import json, resource, sys
import kafkalog
from kafkalog import Record

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with kafkalog.LogWriter(sys.argv[1], "orders") as log:
        log.append([Record(b"y")])
except OSError as error:
    print(json.dumps([type(error).__name__, error.errno, error.filename]))
"""


CRASHING = """
import os, signal, sys
import pyarrow as pa
import kafkalog
from writing import clock

log = kafkalog.LogWriter(sys.argv[1], "orders", clock=clock)
for _ in range(3):
    log.append(pa.table({"value": [b"x" * 1_000] * 1_000}))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("way", ["writer", "recover"])
def test_room_ahead_of_a_crashed_log_is_given_back(tmp_path: Path, way: str) -> None:
    """Blocks after the end, where the file system allocates any: bytes and time stay, and the blocks go."""
    command = [sys.executable, "-c", CRASHING, str(tmp_path)]
    ran = subprocess.run(command, check=False, timeout=60, cwd=Path(__file__).resolve().parents[1])
    assert ran.returncode == -signal.SIGKILL
    path = tmp_path / "orders-0" / f"{0:020}.log"
    before, held = path.stat(), path.read_bytes()
    assert len(held) > 3_000_000
    assert kafkalog.recover(tmp_path, dry_run=True).dry_run
    assert path.stat().st_blocks == before.st_blocks
    if way == "writer":
        log = LogWriter(tmp_path, "orders", clock=clock)
    else:
        kafkalog.recover(tmp_path)
    after = path.stat()
    assert after.st_blocks * 512 < len(held) + (1 << 19)
    assert (path.read_bytes(), after.st_mtime_ns) == (held, before.st_mtime_ns)
    if way == "writer":
        assert log.log_end_offset == 3_000
        log.close()
    assert len(both(tmp_path / "orders-0")) == 3_000
