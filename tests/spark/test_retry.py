"""A worker that dies: its task is retried and returns the same rows, once each.

Retries need another master than the shared session's, so this is a session of its own, over unix sockets and in a JVM
as the guide recommends where all cores are busy.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import corpus
import documents
from spark.ways import has_data_sources

pytestmark = pytest.mark.full

SCRIPT = Path(__file__).resolve().parent / "killing.py"
LOGS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"


def java_options() -> list[str]:
    """Give the options that the guide recommends for a busy JVM."""
    return re.findall(r"`(-Darrow\.\S+ -Darrow\.\S+)`", documents.text("spark"))


@pytest.mark.spark
def test_killed_workers_lose_and_duplicate_no_rows() -> None:
    env = dict(os.environ, PYSPARK_PYTHON=sys.executable)
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(LOGS), *java_options()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    records = corpus.expected_records(next(each for each in corpus.partitions() if each.folder == LOGS))
    wanted = [offset for offset, control in zip(records["offset"], records["isControl"], strict=True) if not control]
    ways = ["dataSource", "mapInArrow", "write"] if has_data_sources() else ["mapInArrow"]
    assert found["found"] == dict.fromkeys(ways, wanted)
    # one first attempt of each job was killed, otherwise the test proves nothing
    assert found["kills"] == ways
    # and rows went through unix sockets, as the guide recommends from Spark 4.1 on
    assert found["checks"] == [False, False]
    if tuple(map(int, found["spark"].split(".")[:2])) >= (4, 1):
        assert found["sockets"] == "True"
