"""Plans of very many segments: what they take, and that nothing is read for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

IS_SLOW = os.environ.get("KAFKALOG_SLOW", "0") != "0"
SEGMENT = 1 << 30
PLAN = """
import json, resource, sys, time
from kafkalog.spark.options import parse
from kafkalog.spark.planning import plan_splits
given = json.loads(sys.argv[1])
begun = time.process_time()
splits = plan_splits(parse(given), 8)
spent = time.process_time() - begun
print(json.dumps({
    "splits": len(splits),
    "segments": sum(split.segments for split in splits),
    "largest": max(split.bytes for split in splits),
    "json": sum(len(split.to_json()) for split in splits[:100]) / sum(split.segments for split in splits[:100]),
    "cpu": spent,
    "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
}))
"""


def fill(root: Path, partitions: int, segments: int) -> None:
    """Make a log dir of holes: reading a header of any of its files is an error."""
    for partition in range(partitions):
        folder = root / f"t-{partition}"
        folder.mkdir(parents=True)
        handle = os.open(folder, os.O_RDONLY)
        for number in range(segments):
            file = os.open(f"{number * 1000:020}.log", os.O_CREAT | os.O_WRONLY, dir_fd=handle)
            os.ftruncate(file, SEGMENT)
            os.close(file)
        os.close(handle)


def planned(**given: object) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", PLAN, json.dumps(given)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_a_plan_opens_no_file(tmp_path: Path) -> None:
    # more segments than are divided inside, unless they are larger than a split
    fill(tmp_path, 210, 100)
    found = planned(path=str(tmp_path), splitBytes="2g")
    assert found["segments"] == 21_000
    assert found["splits"] == 10_500
    assert found["largest"] == 2 * SEGMENT
    assert planned(path=str(tmp_path), assign={"t": [3, 5]}, splitBytes="10g")["segments"] == 200
    long = planned(path=str(tmp_path), minPartitions=50, splitBytes="1000g")
    assert long["splits"] == 50
    # bytes that a segment takes on its way to the tasks
    assert long["json"] < 50


@pytest.mark.slow
@pytest.mark.skipif(not IS_SLOW, reason="makes a million files; KAFKALOG_SLOW=1 runs it")
def test_ten_thousand_partitions_of_a_hundred_segments(tmp_path: Path) -> None:
    fill(tmp_path, 10_000, 100)
    by_name = {"subscribe": "t", "startingOffsets": {"t": dict.fromkeys(range(10_000), 0)}}
    for given in ({}, by_name):
        found = planned(path=str(tmp_path), **given)
        assert found["segments"] == 1_000_000
        # Spark's driver keeps all splits
        assert found["splits"] <= 20_008
        assert found["rss"] < 1 << 30
        assert found["cpu"] < 10
