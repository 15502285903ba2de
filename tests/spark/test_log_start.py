"""A log start checkpoint beyond the log's end ends a read on Spark as it ends ``scan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.spark import stream_offsets
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.read_split import read_split
from kafkalog.spark.source_options import parse
from spark.ways import both_ways

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with kafkalog.LogWriter(tmp_path / "logs", "orders", batch_bytes=4_000) as writer:
        writer.append(pa.table({"value": [b"%0100d" % n for n in range(3001)]}))
    (tmp_path / "logs" / "log-start-offset-checkpoint").write_text("0\n1\norders 0 4001\n")
    return tmp_path / "logs"


def said_by(act: Callable[[], Any]) -> str:
    with pytest.raises(kafkalog.CorruptIndexError) as raised:
        act()
    return str(raised.value)


STARTS: dict[str, dict[str, Any]] = {
    "earliest": {},
    "by offset": {"startingOffsets": {"orders": {"0": 5}}},
    "by time": {"startingTimestamp": "0"},
    "committed": {"isolation.level": "read_committed"},
    "skip": {"onCorrupt": "skip"},
    "losing": {"failOnDataLoss": "false"},
    "latest": {"latestPerKey": "true"},
    "divided": {"maxRecordsPerPartition": "100"},
}


@pytest.mark.parametrize("name", STARTS)
def test_a_plan_says_what_scan_says(data: Path, name: str) -> None:
    said = said_by(lambda: list(kafkalog.scan(data)))
    assert "log-start-offset-checkpoint" in said
    assert said_by(lambda: plan_splits(parse({"path": str(data), **STARTS[name]}))) == said


def test_a_stream_says_it_too(data: Path) -> None:
    said = said_by(lambda: list(kafkalog.scan(data)))
    options = parse({"path": str(data), "startingOffsets": "earliest"}, "stream")
    assert said_by(lambda: stream_offsets.available(options, {})) == said


def test_oldest_reads_what_the_files_hold(data: Path) -> None:
    splits = plan_splits(parse({"path": str(data), "startingOffsets": "oldest", "columns": "offset"}))
    assert sum(batch.num_rows for split in splits for batch in read_split(split)) == 3001


@pytest.mark.parametrize("division", [{}, {"maxRecordsPerPartition": "100"}])
def test_oldest_with_an_end_by_offset(data: Path, division: dict[str, Any]) -> None:
    given = {"path": str(data), "startingOffsets": "oldest", "endingOffsets": {"orders": {"0": 2000}}, **division}
    splits = plan_splits(parse({**given, "columns": "offset"}))
    assert sum(batch.num_rows for split in splits for batch in read_split(split)) == 2000


@both_ways
def test_spark_passes_it_on(spark: SparkSession, data: Path, way: Any) -> None:
    said = said_by(lambda: list(kafkalog.scan(data)))
    with pytest.raises(Exception, match="log-start-offset-checkpoint") as raised:
        way(spark, data).count()
    assert said in str(raised.value)
