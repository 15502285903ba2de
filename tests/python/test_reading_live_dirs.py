"""A directory that a broker works on: files that shrink, blocks that were never written, indexes that lie."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog.typing import Layout

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
SECOND, LAST = (f"{base:020}.log" for base in (145, 818))
LENGTH_AT, LOG_OVERHEAD = 8, 12


@pytest.fixture(name="folder")
def copied(tmp_path: Path) -> Path:
    """Copy a partition of six segments, without the marker of a clean shutdown above it."""
    return shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")


def batches(file: Path) -> list[tuple[int, int]]:
    """Position and end of each batch, by the lengths in the file alone."""
    data = file.read_bytes()
    found, position = [], 0
    while position < len(data):
        length = int.from_bytes(data[position + LENGTH_AT : position + LOG_OVERHEAD], "big")
        found.append((position, position + LOG_OVERHEAD + length))
        position = found[-1][1]
    return found


def test_an_active_file_that_shrank_since_planning_ends_there(folder: Path) -> None:
    """A broker cuts what it did not get acknowledged; that is no damage."""
    file = folder / LAST
    cut = batches(file)[-1][0]
    whole: list[Any] = kafkalog.read_table(folder)["offset"].to_pylist()
    reader = kafkalog.scan(folder, columns="offset", batch_rows=1)
    rows: list[Any] = next(reader)["offset"].to_pylist()
    os.truncate(file, cut)
    rows += reader.read_all()["offset"].to_pylist()
    assert rows == whole[: len(rows)]
    assert whole[0] <= rows[-1] < whole[-1]
    assert rows == kafkalog.read_table(folder)["offset"].to_pylist()


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("threads", [1, 3])
def test_records_appended_after_planning_are_not_read(folder: Path, layout: Layout, threads: int) -> None:
    """Neither in the active file nor in one that was rolled meanwhile, be it before or while it is read."""
    whole = kafkalog.read_table(folder)
    first, last = kafkalog.PartitionLog(folder).log_end_offset, (folder / LAST).read_bytes()
    start, end = batches(folder / LAST)[0]
    for begun in (False, True):
        reader = kafkalog.scan(folder, layout=layout, threads=threads, batch_rows=1)
        rows = next(reader)["offset"].to_pylist() if begun else []
        with (folder / LAST).open("ab") as log:
            log.write(first.to_bytes(8, "big") + last[start + 8 : end])
        rolled = folder / f"{first + 1000:020}.log"
        rolled.write_bytes((first + 1000).to_bytes(8, "big") + last[start + 8 : end])
        assert rows + reader.read_all()["offset"].to_pylist() == whole["offset"].to_pylist()
        assert kafkalog.read_table(folder).num_rows > whole.num_rows
        rolled.unlink()
        (folder / LAST).write_bytes(last)


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("name", [SECOND, LAST])
def test_zeros_from_inside_a_batch_on_are_an_end_in_the_active_file_alone(
    folder: Path, name: str, layout: Layout
) -> None:
    """A preallocated file is larger than its records, and a crash may leave the last of them half written."""
    file = folder / name
    position, end = batches(file)[-1]
    with file.open("r+b") as log:
        log.truncate(position + 100)
        log.truncate(end + 4_096)
    assert position + 100 < end
    if name == SECOND:
        with pytest.raises(kafkalog.CorruptRecordError, match="crc") as caught:
            kafkalog.read_table(folder, layout=layout)
        assert caught.value.path == str(file)
        return
    rows = kafkalog.read_table(folder, columns=["segment", "batchPosition"], layout=layout).to_pylist()
    found = {row["batchPosition"] for row in rows if row["segment"] == name}
    assert found == {start for start, _ in batches(DATA / "orders-0" / name) if start < position}


def test_the_active_segments_indexes_may_be_cut_while_a_log_is_open(tmp_path: Path) -> None:
    """The answers stay; a process of its own asks, as a touched map of what was cut would end it by SIGBUS."""
    config = kafkalog.LogConfig(index_interval_bytes=1)
    with kafkalog.LogWriter(tmp_path, "t", config=config) as writer:
        for n in range(2_000):
            writer.append([kafkalog.Record(value=b"%d" % n, timestamp=1_700_000_000_000 + n)])
    program = """
import glob, os, sys, kafkalog
log = kafkalog.PartitionLog(sys.argv[1])
def ask():
    found = [(log.lookup(n), log.offset_for_timestamp(1_700_000_000_000 + n)) for n in range(0, 2_000, 50)]
    return [(place.offset, stamp.offset) for place, stamp in found]
before = ask()
for name in glob.glob(sys.argv[1] + "/*index"):
    os.truncate(name, 0)
assert before == ask() == [(n, n) for n in range(0, 2_000, 50)]
"""
    folder = str(tmp_path / "t-0")
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_indexes_that_were_not_recovered_are_not_asked_for_times(tmp_path: Path) -> None:
    """After the recovery point a broker rebuilds them first; after a clean shutdown it believes them."""
    data = shutil.copytree(DATA, tmp_path / "data")
    index = data / "orders-0" / SECOND.replace(".log", ".timeindex")
    index.write_bytes(b"")
    (data / "recovery-point-offset-checkpoint").write_text("0\n0\n", encoding="ascii")
    # An empty index leaves Kafka with the time of the file, LogSegment.largestTimestamp.
    os.utime(data / "orders-0" / SECOND, ns=(0, 0))
    rows = kafkalog.read_table(data / "orders-0", columns=["offset", "timestamp", "segment"]).to_pylist()
    inside = [row for row in rows if row["segment"] == SECOND]
    target = max(row["timestamp"] for row in inside)
    assert (data / ".kafka_cleanshutdown").exists()
    trusted = kafkalog.PartitionLog(data / "orders-0").offset_for_timestamp(target)
    (data / ".kafka_cleanshutdown").unlink()
    found = kafkalog.PartitionLog(data / "orders-0").offset_for_timestamp(target)
    assert found is not None
    assert found.offset == next(row["offset"] for row in rows if row["timestamp"] >= target)
    assert trusted is None or trusted.offset > inside[-1]["offset"]


def test_an_index_may_lead_to_what_looks_like_a_batch(tmp_path: Path) -> None:
    """A value holds bytes in the form of one, but for its checksum, and the index points at them."""
    log_dir = tmp_path / "made"
    with kafkalog.LogWriter(log_dir, "t") as writer:
        for n in range(100):
            writer.append([kafkalog.Record(value=b"%d" % n)])
    made = log_dir / "t-0" / f"{0:020}.log"
    start, end = batches(made)[50]
    forged = bytearray(made.read_bytes()[start:end])
    forged[-2] ^= 1
    other = tmp_path / "other"
    with kafkalog.LogWriter(other, "t", config=kafkalog.LogConfig(index_interval_bytes=1)) as writer:
        for n in range(100):
            writer.append([kafkalog.Record(value=bytes(forged) if n == 10 else b"%d" % n)])
    log = other / "t-0" / f"{0:020}.log"
    position = log.read_bytes().index(bytes(forged))
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 50, position))
    (other / ".kafka_cleanshutdown").unlink(missing_ok=True)
    asked = kafkalog.PartitionLog(other / "t-0")
    for n, (place, _) in enumerate(batches(log)):
        found = asked.lookup(n)
        assert found is not None
        assert (found.position, found.offset) == (place, n)
        assert next(kafkalog.scan(other / "t-0", starting_offsets=n))["offset"].to_pylist()[0] == n
