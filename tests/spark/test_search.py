"""``containing``, ``matching`` and ``searchIn`` on Spark: the rows of Python's ``re`` over a full scan."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.source_options import parse
from kafkalog.spark.split import PackedSplits, Split
from spark.queries import AVAILABLE_NOW
from spark.ways import both_ways, needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    Way = Callable[..., DataFrame]

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
COLUMNS = ["topic", "partition", "offset", "key", "value"]
CASES: list[tuple[dict[str, str], bytes]] = [
    ({"containing": "item"}, b"item"),
    ({"matching": r"(?i)ITEM .*[0-9]{3}\."}, rb"(?i)ITEM .*[0-9]{3}\."),
    ({"containing": "key-1", "searchIn": "key"}, b"key-1"),
    ({"matching": "^[a-z]+-[a-z]+$", "searchIn": "headers,key"}, b"^[a-z]+-[a-z]+$"),
]


def expected(options: dict[str, str], pattern: bytes) -> list[tuple[Any, ...]]:
    """Give the rows of a full scan in which Python's ``re`` finds the pattern."""
    searched = options.get("searchIn", "value").split(",")

    def fields(row: dict[str, Any]) -> list[bytes | None]:
        headers = [part for each in row["headers"] or () for part in (each["key"].encode(), each["value"])]
        return [row[name] for name in searched if name != "headers"] + (headers if "headers" in searched else [])

    rows = kafkalog.read_table(DATA, columns=[*COLUMNS, "headers"]).to_pylist()
    found = [row for row in rows if any(re.search(pattern, each) for each in fields(row) if each is not None)]
    return [tuple(row[name] for name in COLUMNS) for row in found]


@both_ways
@pytest.mark.parametrize(("options", "pattern"), CASES, ids=str)
def test_rows_are_those_of_re(spark: SparkSession, way: Way, options: dict[str, str], pattern: bytes) -> None:
    wanted = expected(options, pattern)
    frame = way(spark, DATA, columns=",".join(COLUMNS), splitBytes="20k", **options)
    assert [tuple(row) for row in frame.collect()] == wanted != []
    # Spark's own conditions come after it.
    assert frame.where("offset < 500").count() == sum(row[2] < 500 for row in wanted)


@needs_data_sources
def test_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    for number, (options, pattern) in enumerate(CASES[1::2]):
        reader = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
        for name, value in {**options, "columns": ",".join(COLUMNS), "maxOffsetsPerTrigger": "700"}.items():
            reader = reader.option(name, value)
        writer = reader.load(str(DATA)).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / f"c{number}"))
        writer.trigger(**AVAILABLE_NOW).start(str(tmp_path / f"out{number}")).awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / f"out{number}")).orderBy("topic", "partition", "offset").collect()
        assert [tuple(row) for row in rows] == expected(options, pattern) != []


def test_bytes_reach_a_task() -> None:
    (split, *_) = plan_splits(parse({"path": str(DATA), "containing": "\u00e9"}))
    assert split.read.containing == b"\xc3\xa9"
    assert Split.from_json(split.to_json()).read == split.read
    assert PackedSplits.pack([split])[0].read == split.read
