"""Memory while reading and rescuing: bounded, whatever the length of the log."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import clusters
import corpus
import kafkalog

pytestmark = [pytest.mark.release, pytest.mark.full]

SEGMENT = 100 << 20
SEGMENTS = 10
LIMIT_MIB = 64


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give 1 GB of records."""
    folder = tmp_path_factory.mktemp("long") / "orders-0"
    corpus.write_long(folder, SEGMENT, SEGMENTS)
    return folder


# The most that a fresh process has had for its work, examined from beside: nothing else sees the inside of a batch.
PEAK = """
import json, sys, threading
from pathlib import Path
import pyarrow, kafkalog
def anonymous():
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1024
def watch():
    global most
    while not ends.wait(0.002):
        most = max(most, anonymous())
def scan(path, options):
    rows = 0
    for batch in kafkalog.scan(path, **json.loads(options)):
        rows += batch.num_rows
        del batch
    return rows
def rescue(disk, out):
    kafkalog.rescue([disk], out=out)
    return kafkalog.PartitionLog(out + "/orders-0").log_end_offset
ends, before, most = threading.Event(), anonymous(), 0.0
thread = threading.Thread(target=watch)
thread.start()
rows = {"scan": scan, "rescue": rescue}[sys.argv[1]](*sys.argv[2:])
ends.set()
thread.join()
print(rows, max(most, anonymous()) - before)
"""


def peak(rows: int, *words: str) -> float:
    """Do something to so many rows in a process of its own; how many MiB that took at most."""
    done = subprocess.run([sys.executable, "-c", PEAK, *words], capture_output=True, text=True, check=True, timeout=120)
    found, mib = done.stdout.split()
    assert int(found) == rows
    return float(mib)


def peak_of(folder: Path, **options: object) -> float:
    """Read all of it."""
    return peak(kafkalog.PartitionLog(folder).log_end_offset, "scan", str(folder), json.dumps(options))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_scan_takes_no_more_than_its_batches(long_log: Path, layout: str, threads: int) -> None:
    assert sum(file.stat().st_size for file in long_log.glob("*.log")) > 0.95 * SEGMENTS * SEGMENT
    assert peak_of(long_log, layout=layout, threads=threads) < LIMIT_MIB


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_rescue_holds_no_segment_whole(long_log: Path, tmp_path: Path) -> None:
    disk = clusters.make_disk(tmp_path / "disk", 1)
    shutil.copytree(long_log, disk / long_log.name, copy_function=os.link)
    rows = kafkalog.PartitionLog(long_log).log_end_offset
    try:
        assert peak(rows, "rescue", str(disk), str(tmp_path / "out")) < LIMIT_MIB
    finally:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("layout", ["binary", "view"])
def test_columns_that_are_not_asked_for_are_not_made(long_log: Path, layout: str) -> None:
    """Nor is a payload copied for its size: those of one such batch alone come to three times the limit."""
    rows = 1 << 22
    sizes = next(iter(kafkalog.scan(long_log, columns="valueSize", batch_rows=rows, batch_bytes=1 << 30)))
    assert int(sizes["valueSize"].to_numpy().clip(0).sum()) > 2.5 * LIMIT_MIB * 2**20
    peak = peak_of(long_log, columns="valueSize", layout=layout, batch_rows=rows, batch_bytes=1 << 30)
    assert peak < LIMIT_MIB


def write_wide(folder: Path, codec: str, times: int) -> int:
    """Write 0.7 MB of large values in one, active, segment, as one batch over and over; how much that is in all."""
    rows = [kafkalog.Record(value=b"%d " % n * 2500, key=b"a key of its own %d" % n) for n in range(100)]
    config = kafkalog.LogConfig(compression_type=codec, max_message_bytes=2 << 20)
    with kafkalog.LogWriter(folder, "t", config=config, batch_bytes=2 << 20) as writer:
        assert writer.append(rows).batches == 1
    log = folder / "t-0" / f"{0:020}.log"
    batch = log.read_bytes()
    # Base offsets are not under the checksum.
    log.write_bytes(b"".join((n * len(rows)).to_bytes(8, "big") + batch[8:] for n in range(times)))
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).unlink()
    return times * sum(len(row.value or b"") for row in rows)


@pytest.fixture(scope="module", params=["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def wide_log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give more than three times what may be taken."""
    folder = tmp_path_factory.mktemp(request.param)
    assert write_wide(folder, request.param, 300) > 3 * LIMIT_MIB << 20
    return folder / "t-0"


def bytes_read() -> int:
    """Count the bytes of files that this process has read, other than by maps."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split("rchar:")[1].split()[0])


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to count the bytes read")
def test_of_batches_and_sums_headers_alone_are_read(tmp_path: Path) -> None:
    size = write_wide(tmp_path, "uncompressed", 60)
    folder = tmp_path / "t-0"
    read = []
    for ask in (
        lambda: kafkalog.scan_batches(folder, check_crcs=False).read_all().num_rows == 60,
        lambda: kafkalog.PartitionLog(folder).statistics()["batches"] == 60,
        lambda: kafkalog.PartitionLog(folder).log_end_offset == 6000,
        lambda: kafkalog.scan_batches(folder).read_all().num_rows == 60,
    ):
        before = bytes_read()
        assert ask()
        read.append(bytes_read() - before)
    assert max(read[:3]) < size / 20
    assert read[3] >= size, "checksums are of all bytes"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("columns", [["offset"], ["key"], ["value"], None], ids=str)
@pytest.mark.parametrize(("layout", "threads"), [("binary", 1), ("view", 1), ("view", 2)])
def test_what_was_copied_or_decompressed_is_let_go(
    wide_log: Path, columns: list[str] | None, layout: str, threads: int
) -> None:
    """Memory is freed whatever was requested: a batch of 65,536 offsets or keys has not kept the values beside them."""
    assert peak_of(wide_log, columns=columns, layout=layout, threads=threads) < LIMIT_MIB


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


PLAN_AND_LOOK = """
import resource, sys
from pathlib import Path
from kafkalog import ReadOptions
from kafkalog.reader import plan_ranges
folder = Path(sys.argv[1])
if sys.argv[2] == "limited":
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, resource.RLIM_INFINITY))
ranges = plan_ranges(folder, ReadOptions(isolation_level="read_committed"))
print(Path("/proc/self/maps").read_text().count(str(folder)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="maps are counted in /proc")
def test_a_plan_keeps_maps_unless_address_space_is_limited(tmp_path: Path) -> None:
    """A log without indexes has its closed segments walked over, through maps that the reader would use again."""
    folder = tmp_path / "txn-aborts-0"
    folder.mkdir()
    for log in (corpus.GOLDEN / "txn" / "data-0" / folder.name).glob("*.log"):
        shutil.copy(log, folder)
    closed = len(list(folder.iterdir())) - 1

    def maps(space: str) -> int:
        command = [sys.executable, "-c", PLAN_AND_LOOK, str(folder), space]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)

    assert (maps("unlimited"), maps("limited")) == (closed, 0)
