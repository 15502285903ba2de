"""A client of Spark Connect, which has no Spark context in its process, gets the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import corpus
import kafkalog

pytestmark = pytest.mark.full

SCRIPT = Path(__file__).resolve().parent / "connecting.py"
DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_all_but_accumulators(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="4.2")
    pytest.importorskip("grpc_status", reason="a client of Spark Connect needs the packages of pyspark[connect]")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), str(DATA), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("session") == "pyspark.sql.connect.session"
    assert found.pop("splits") > 2
    records = corpus.expected_records(next(each for each in corpus.partitions() if each.folder == DATA / "orders-0"))
    rows = zip(records["offset"], records["isControl"], strict=True)
    wanted = [offset for offset, is_control in rows if not is_control]
    evens = [offset for offset in wanted if offset % 2 == 0]
    assert found == {
        **dict.fromkeys(("read", "dataSource", "stream", "view"), wanted),
        **dict.fromkeys(("count", "export"), len(wanted)),
        "transform": evens,
        "where": [offset for offset in wanted if offset < 100],
    }
    for name in ("written", "sunk"):
        assert kafkalog.read_table(tmp_path / name).num_rows == len(wanted)
