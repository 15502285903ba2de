"""Memory while scanning: bounded by batches, whatever the length of the log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

import corpus
import kafkalog

SEGMENT = 100 << 20
SEGMENTS = 10
LIMIT_MIB = 64


def anonymous_mib() -> float:
    """Memory of this process that is its own; mapped files are the page cache's."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split("RssAnon:")[1].split()[0]) / 1024


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give 1 GB of records."""
    folder = tmp_path_factory.mktemp("long") / "orders-0"
    corpus.write_long(folder, SEGMENT, SEGMENTS)
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_scan_takes_no_more_than_its_batches(long_log: Path, layout: Literal["binary", "view"], threads: int) -> None:
    reader = kafkalog.scan(long_log, layout=layout, threads=threads)
    iter(reader)
    before = anonymous_mib()
    peak = 0.0
    for number, _ in enumerate(reader):
        if number % 8 == 0:
            peak = max(peak, anonymous_mib())
    assert reader.metrics["bytes"] > 0.95 * SEGMENTS * SEGMENT
    assert peak - before < LIMIT_MIB


READ_WITH_LITTLE_ROOM = """
import json, mmap, resource, sys
from pathlib import Path
import kafkalog
folder, room, options = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
next(iter(kafkalog.scan(folder, **options)))
taken = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_AS, (taken + room, resource.RLIM_INFINITY))
with next(folder.glob("*.log")).open("rb") as log:
    try:
        mmap.mmap(log.fileno(), 0, prot=mmap.PROT_READ)
    except OSError as error:
        print(error.strerror)
reader = kafkalog.scan(folder, **options)
print(sum(batch.num_rows for batch in reader))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited as on Linux")
@pytest.mark.parametrize(
    "options",
    [{"layout": "binary"}, {"layout": "view"}, {"layout": "view", "columns": ["offset"]}],
    ids=["binary", "view", "narrow"],
)
def test_segments_larger_than_the_address_space_left_are_read(long_log: Path, options: dict[str, object]) -> None:
    room = SEGMENT // 2
    command = [sys.executable, "-c", READ_WITH_LITTLE_ROOM, str(long_log), str(room), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    records = kafkalog.PartitionLog(long_log).log_end_offset
    assert done.stdout.splitlines() == ["Cannot allocate memory", str(records)]
