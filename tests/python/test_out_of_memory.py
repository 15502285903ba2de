"""Too little memory: a ``MemoryError``, and nothing is called damaged for it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from kafkalog import LogConfig, LogWriter, Record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="address space is limited as on Linux"),
    pytest.mark.release,
    pytest.mark.full,
]

SIZE, ROOM = 96 << 20, 48 << 20

# What a record of another log needs is there before the limit; the large one then needs more than is left.
READ = """
import json, resource, sys
from pathlib import Path
import pyarrow, kafkalog
small, large, options, room = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
take = options.pop("take")
def read(path):
    reader = kafkalog.scan(path, **options)
    return pyarrow.table(reader) if take == "stream" else reader.read_all()
read(small)
taken = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_AS, (taken + room, resource.RLIM_INFINITY))
try:
    read(large)
except MemoryError as error:
    print("MemoryError", error)
else:
    print("read")
"""


def write(log_dir: Path, codec: str, size: int) -> Path:
    """Write one record, of zeros."""
    config = LogConfig(compression_type=codec, max_message_bytes=SIZE + (1 << 20))
    with LogWriter(log_dir / str(size), "t", config=config) as writer:
        writer.append([Record(bytes(size))])
    return log_dir / str(size) / "t-0"


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    "options",
    [
        {"take": "table", "layout": "binary"},
        {"take": "table", "layout": "view"},
        {"take": "table", "threads": 2},
        {"take": "stream"},
    ],
    ids=["binary", "view", "threads", "stream"],
)
def test_a_record_that_there_is_no_memory_for(tmp_path: Path, codec: str, options: dict[str, Any]) -> None:
    small, large = write(tmp_path, codec, 1000), write(tmp_path, codec, SIZE)
    command = [sys.executable, "-c", READ, str(small), str(large), json.dumps(options), str(ROOM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("MemoryError")
    assert str(large) in done.stdout
    assert kafkalog.read_table(large, columns=["valueSize"])["valueSize"].to_pylist() == [SIZE]
