"""Plans of very many segments: their time and memory, and that they read nothing."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

import corpus
import tiers
from kafkalog import _core
from kafkalog.options import ReadOptions
from kafkalog.spark import planner
from kafkalog.spark.map_in_arrow import describe
from kafkalog.spark.split import PackedSplits, Split

pytestmark = pytest.mark.full

SEGMENT = 1 << 30
PLAN = """
import json, resource, sys, time
from kafkalog.spark.source_options import parse
from kafkalog.spark.planner import plan_splits
given = json.loads(sys.argv[1])
begun, clock = time.process_time(), time.monotonic()
splits = plan_splits(parse(given))
spent, wall = time.process_time() - begun, time.monotonic() - clock
print(json.dumps({
    "splits": len(splits),
    "segments": sum(split.segments for split in splits),
    "largest": max(split.bytes for split in splits),
    "json": sum(len(split.to_json()) for split in splits[:100]) / sum(split.segments for split in splits[:100]),
    "cpu": spent,
    "wall": wall,
    "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
}))
"""


def fill(root: Path, partitions: int, segments: int) -> None:
    """Create a log dir of sparse files: reading a header of any of them is an error."""
    for partition in range(partitions):
        folder = root / f"t-{partition}"
        folder.mkdir(parents=True)
        handle = os.open(folder, os.O_RDONLY)
        for number in range(segments):
            file = os.open(f"{number * 1000:020}.log", os.O_CREAT | os.O_WRONLY, dir_fd=handle)
            os.ftruncate(file, SEGMENT)
            os.close(file)
        os.close(handle)


def planned(**given: object) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", PLAN, json.dumps(given)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Opened:
    """The files that any process opens in some folders, reported by Linux."""

    IN_OPEN, IN_ISDIR, HEAD = 0x20, 0x4000_0000, struct.Struct("iIII")

    def __init__(self, folders: list[Path]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(os.O_NONBLOCK)
        watches = [libc.inotify_add_watch(self._handle, os.fsencode(folder), self.IN_OPEN) for folder in folders]
        assert min(self._handle, *watches) >= 0, os.strerror(ctypes.get_errno())
        self._folders = dict(zip(watches, folders, strict=True))

    def files(self) -> set[Path]:
        """Return the files opened since the last call."""
        found: set[Path] = set()
        while True:
            try:
                data = os.read(self._handle, 1 << 16)
            except BlockingIOError:
                return found
            while data:
                watch, mask, _, length = self.HEAD.unpack_from(data)
                name = data[self.HEAD.size : self.HEAD.size + length].rstrip(b"\0")
                data = data[self.HEAD.size + length :]
                if not mask & self.IN_ISDIR:
                    found.add(self._folders[watch] / os.fsdecode(name))

    def close(self) -> None:
        os.close(self._handle)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_only_the_files_that_decide_are_opened(tmp_path: Path) -> None:
    fill(tmp_path, 300, 100)
    data = corpus.GOLDEN / "clean-restarts" / "data-1"
    shutil.copytree(data / "orders-0", tmp_path / "orders-0")
    opened = Opened([folder for folder in tmp_path.iterdir() if folder.is_dir()])
    try:
        # a million files would differ only in number
        assert planned(path=str(tmp_path), subscribe="t")["segments"] == 30_000
        by_name = {"t": dict.fromkeys(range(300), 0)}
        assert planned(path=str(tmp_path), subscribe="t", startingOffsets=by_name)["segments"] == 30_000
        assert opened.files() == set()
        bases = sorted(int(file.stem) for file in (tmp_path / "orders-0").glob("*.log"))
        assert len(bases) > 5
        # an offset inside a segment opens that segment, and the last one for the log end
        inside = {"startingOffsets": {"orders": {"0": bases[3] + 1}}, "subscribe": "orders", "splitBytes": "1g"}
        assert planned(path=str(tmp_path), **inside)["segments"] == len(bases) - 3
        logs = {file.name for file in opened.files() if file.suffix == ".log"}
        assert logs <= {f"{bases[3]:020}.log", f"{bases[-1]:020}.log"}
    finally:
        opened.close()


def test_a_plan_opens_no_file(tmp_path: Path) -> None:
    # so many segments are not divided, unless they are larger than a split
    fill(tmp_path, 210, 100)
    found = planned(path=str(tmp_path), splitBytes="2g")
    assert found["segments"] == 21_000
    assert found["splits"] == 10_500
    assert found["largest"] == 2 * SEGMENT
    assert planned(path=str(tmp_path), assign={"t": [3, 5]}, splitBytes="10g")["segments"] == 200
    long = planned(path=str(tmp_path), minPartitions=50, splitBytes="1000g")
    assert long["splits"] == 50
    # bytes for each segment in the plan
    assert long["json"] < 50


@pytest.mark.slow
@pytest.mark.skipif(not tiers.SLOW, reason="makes a million files; KAFKALOG_SLOW=1 runs it")
def test_ten_thousand_partitions_of_a_hundred_segments(tmp_path: Path) -> None:
    fill(tmp_path, 10_000, 100)
    by_name = {"subscribe": "t", "startingOffsets": {"t": dict.fromkeys(range(10_000), 0)}}
    for given in ({}, by_name):
        found = planned(path=str(tmp_path), **given)
        assert found["segments"] == 1_000_000
        # Spark's driver keeps all splits
        assert found["splits"] <= 20_008
        print(f"{found['wall']:.1f} s, {found['cpu']:.1f} s of CPU, {found['rss'] >> 20} MiB")
        assert found["rss"] < 1 << 30
        assert found["cpu"] < 10


@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("segments", "tasks"),
    [
        (20_000, 100),
        pytest.param(200_000, 2_000, marks=[pytest.mark.slow, pytest.mark.skipif(not tiers.SLOW, reason="slow")]),
    ],
)
def test_a_task_gets_its_own_split_alone(tmp_path: Path, segments: int, tasks: int) -> None:
    """On a driver of 1 GB: neither event log nor task binary grow with the plan."""
    pytest.importorskip("pyspark", minversion="3.5")
    script = str(Path(__file__).resolve().parent / "scaling.py")
    command = [sys.executable, script, str(tmp_path), str(segments), str(tasks)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # of more than 1000 KiB
    assert "large task binary" not in done.stderr
    assert "OutOfMemory" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert found.pop("heap")["most"] <= 1 << 30
    for name, seen in found.items():
        # segments are divided among tasks by their bytes
        assert tasks <= seen["tasks"] <= tasks + 10, name
        assert seen["rows"] == segments, name
        assert not seen["names"], name
        # Spark's own events, of which some are written for each job and not for each task
        assert seen["logged"] < 500_000 + 10_000 * seen["tasks"], name


def test_a_plan_is_small() -> None:
    splits = [
        Split(
            tuple(sparse(f"/data/kafka-logs/orders-{n}", n * 100, 100) for n in range(number, number + 2)),
            ReadOptions(),
        )
        for number in range(500)
    ]
    packed = PackedSplits.pack(splits)
    assert [packed[number] for number in (0, 7, 499)] == [splits[number] for number in (0, 7, 499)]
    # bytes for each segment
    assert packed.bytes / 100_000 < 20


def sparse(folder: str, first: int, count: int) -> _core.PartitionRange:
    """Plan segments as a broker rolls them: at any size and offset."""
    size, base, segments = 1_073_000_000, first * 1_000_003, []
    for number in range(count):
        after = base + 900_000 + number * 7919 % 65_537
        segments.append(
            _core.SegmentRange(
                base_offset=base,
                file_name=f"{base:020}.log",
                size=size + number * 104_729 % 700_001,
                start_position=0,
                next_base_offset=after,
                aborted=[],
                end_position=None,
                end_offset=None,
            )
        )
        base = after
    return _core.PartitionRange(folder=folder, topic="orders", partition=first, segments=segments, start_offset=0)


def test_a_client_of_spark_connect_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "_context", lambda _: None)
    monkeypatch.setattr(planner, "_CONNECT_BYTES", 1000)
    split = Split(tuple(sparse(f"/logs/t-{n}", n, 100) for n in range(10)), ReadOptions())
    with pytest.raises(ValueError, match=r"\(1 tasks, 1000 segments\) takes .* larger splitBytes"):
        planner.over_splits(cast("Any", None), [split], describe, "split int")
