"""A worker that dies: its task is tried again and gives the same rows, once each.

Retries need another master than the shared session's, so this is a session of its own, over unix sockets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import corpus
from spark.ways import has_data_sources

SCRIPT = Path(__file__).resolve().parent / "killing.py"
LOGS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"


@pytest.mark.spark
def test_killed_workers_cost_no_rows_and_double_none() -> None:
    env = dict(os.environ, PYSPARK_PYTHON=sys.executable)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), str(LOGS)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    records = corpus.expected_records(next(each for each in corpus.partitions() if each.folder == LOGS))
    wanted = [offset for offset, control in zip(records["offset"], records["isControl"], strict=True) if not control]
    ways = ["dataSource", "mapInArrow", "write"] if has_data_sources() else ["mapInArrow"]
    assert found["found"] == dict.fromkeys(ways, wanted)
    # one of each task's first attempts was killed, or the test shows nothing
    assert found["kills"] == ways
    # and those of Spark 4.1 on sent their rows as README advises
    if tuple(map(int, found["spark"].split(".")[:2])) >= (4, 1):
        assert found["sockets"] == "True"
