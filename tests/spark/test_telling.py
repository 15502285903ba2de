"""Executors of their own read a store, and no event log has its secret: a cluster of processes on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import corpus
import kafkalog
import tiered_cases
from s3_server import SECRET, S3Server

LOCAL = corpus.GOLDEN / "clean-restarts" / "data-1"
pytestmark = [pytest.mark.spark, pytest.mark.full, pytest.mark.every_spark, pytest.mark.timeout(400)]


def test_the_event_log_of_a_cluster_has_no_secret(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="3.5")
    case = tiered_cases.unpack("aiven-txn-fixed", tmp_path)
    server = S3Server()
    server.put_folder(LOCAL, "L/")
    server.put_folder(case.tier, "T/")
    (tmp_path / "events").mkdir()
    stored = {**server.storage_options, "aws_secret_access_key": "env:KAFKALOG_TEST_SECRET"}
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-W", "ignore", str(Path(__file__).parent / "telling.py"), str(tmp_path / "events")),
                *("s3://bkt/L", "s3://bkt/T", json.dumps(stored)),
            ],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "KAFKALOG_TEST_SECRET": SECRET},
            cwd=tmp_path,
        )
    finally:
        server.close()
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    rows = kafkalog.read_table(LOCAL).num_rows
    assert found.pop("explained") > 100
    assert found.pop("tier") == kafkalog.read_table(None, "txn-mixed", **case.remote).num_rows
    if "segments" in found:
        assert found.pop("segments") == kafkalog.tables.remote_segments(None, **case.remote).num_rows
        assert found.pop("table") == kafkalog.tables.producers(LOCAL).num_rows
    assert set(found.values()) == {rows}, found
    told = [file.read_bytes() for file in (tmp_path / "events").rglob("*") if file.is_file()]
    # What the log would have said of a secret that was an option: the others are in it.
    assert any(b"mapInArrow" in each or b"MapInArrow" in each for each in told)
    assert SECRET.encode() not in b"".join(told)
    assert SECRET not in done.stdout + done.stderr
    said = [file.read_bytes() for file in (tmp_path / "spark" / "work").rglob("std*")]
    assert len(said) >= 4
    assert SECRET.encode() not in b"".join(said)
