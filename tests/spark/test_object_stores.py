"""Spark reads logs in an object store: the driver lists, tasks read, and no plan has a secret."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import corpus
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.read_split import read_split
from kafkalog.spark.source_options import parse
from kafkalog.spark.split import PackedSplits
from s3_server import SECRET, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READ = """
import pathlib, pickle, sys
from kafkalog.spark.read_split import read_split
splits = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
print(sum(batch.num_rows for split in splits for batch in read_split(split)))
"""


@pytest.fixture
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(corpus.GOLDEN / "clean-restarts" / "data-1", "L/")
    yield made
    made.close()


def test_tasks_read_what_the_driver_listed(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALOG_TEST_SECRET", SECRET)
    stored = {**server.storage_options, "aws_secret_access_key": "env:KAFKALOG_TEST_SECRET"}
    given = {f"storage.{name}": value for name, value in stored.items()}
    splits = plan_splits(parse({"path": "s3://bkt/L", "subscribe": "orders", "splitBytes": "30k", **given}))
    assert len(splits) > 1
    assert server.counts["LIST"] <= 2
    server.reset()
    plan = pickle.dumps(splits)
    assert SECRET.encode() not in plan
    (tmp_path / "plan").write_bytes(plan)
    done = subprocess.run(
        [sys.executable, "-c", _READ, tmp_path / "plan"], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.strip() == "880"
    assert server.counts["LIST"] == 0
    packed = PackedSplits.pack(splits)
    assert sum(batch.num_rows for n in range(len(splits)) for batch in read_split(packed[n])) == 880
    assert server.counts["LIST"] == 0


def test_a_secret_in_an_option_is_refused(server: S3Server) -> None:
    given = {f"storage.{name}": value for name, value in server.storage_options.items()}
    with pytest.raises(ValueError, match="is a secret, which would get into Spark's plan") as raised:
        parse({"path": "s3://bkt/L", **given})
    assert SECRET not in str(raised.value)
