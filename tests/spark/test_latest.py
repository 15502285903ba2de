"""``latest``: the last record of each key on Spark, as ``kafkalog.scan`` gives it, one task for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import corpus
import kafkalog
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.source_options import parse
from spark.ways import both_ways

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    Way = Callable[..., DataFrame]

DATA = corpus.GOLDEN / "compact" / "data-0"
COLUMNS = ["topic", "partition", "offset", "key", "value"]


@both_ways
@pytest.mark.parametrize("tombstones", [False, True])
def test_rows_are_those_of_scan(spark: SparkSession, way: Way, tombstones: bool) -> None:  # noqa: FBT001 - a case
    expected = [
        tuple(row.values())
        for row in kafkalog.scan(DATA, columns=COLUMNS, latest_per_key=True, tombstones=tombstones)
        .read_all()
        .to_pylist()
    ]
    every = kafkalog.read_table(DATA, columns="offset").num_rows
    frame = way(spark, DATA, columns=",".join(COLUMNS), latestPerKey=True, tombstones=tombstones, splitBytes="1k")
    assert [tuple(row) for row in frame.collect()] == expected
    assert 0 < len(expected) < every
    # Of the latest records, not the latest of these.
    assert frame.where("offset < 500").count() == sum(row[2] < 500 for row in expected)


def test_a_task_reads_a_whole_partition() -> None:
    given = {"path": str(DATA), "splitBytes": "1k", "minPartitions": "50"}
    whole = plan_splits(parse({**given, "latestPerKey": "true"}))
    assert [split.ranges[0].topic for split in whole] == sorted({split.ranges[0].topic for split in whole})
    assert len(plan_splits(parse(given))) > 2 * len(whole)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"maxRecordsPerPartition": "5"}, "with latestPerKey, one task reads"),
        ({"where": [("offset", ">", 5)]}, "a condition on offset belongs in the query"),
        ({"latestPerKey": "false", "tombstones": "true"}, "tombstones=True is for latest_per_key=True"),
    ],
)
def test_what_makes_no_sense(given: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse({"path": "/data", "latestPerKey": "true", **given})
