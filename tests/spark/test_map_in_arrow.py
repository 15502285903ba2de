"""The function of ``mapInArrow``, called as Spark calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog.spark
from kafkalog.spark.map_in_arrow import _counted, _read, _transformed, run_task
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.source_options import parse
from kafkalog.spark.split import PackedSplits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kafkalog.spark.map_in_arrow import Splits, Work

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
OPTIONS: dict[str, Any] = {"subscribe": "orders", "splitBytes": "20k", "columns": "offset"}


def transformed(splits: Splits) -> Iterator[pa.RecordBatch]:
    return _transformed(lambda batch: batch, pa.schema([("offset", pa.int64())]), None, splits)


@pytest.mark.parametrize(
    ("work", "column"),
    [
        (lambda splits: _read(None, splits), "offset"),
        (transformed, "offset"),
        (lambda splits: _counted(None, splits), "rows"),
        (None, "offset"),
    ],
    ids=["read", "transform", "count", "by hand"],
)
def test_all_splits_of_a_task_are_read_to_the_end_of_its_input(work: Work | None, column: str) -> None:
    """Spark does not reuse a worker that leaves some of its input, which costs half a second for each task."""
    splits = plan_splits(parse({"path": str(DATA), **OPTIONS}))
    assert len(splits) > 3
    asked: list[int] = []
    ended = []

    def given() -> Iterator[pa.RecordBatch]:
        tasks = pa.table({"id": range(len(splits)), "task": [split.to_json() for split in splits]})
        # Spark may put any number of splits in a batch
        for batch in tasks.to_batches(max_chunksize=2):
            asked.append(batch.num_rows)
            yield batch
        yield batch.slice(0, 0)
        ended.append(True)

    rows = kafkalog.spark.read_splits(given()) if work is None else run_task(work, PackedSplits.pack(splits), given())
    found: list[Any] = [n for batch in rows for n in batch.column(column).to_pylist()]
    assert ended
    assert sum(asked) == len(splits)
    if column == "offset":
        assert found == list(range(880))
    else:
        assert (len(found), sum(found)) == (len(splits), 880)


def test_splits_that_share_a_task(spark: SparkSession) -> None:
    splits = kafkalog.spark.plan(spark, DATA, **OPTIONS)
    assert splits.count() > 3
    frame = splits.coalesce(1).mapInArrow(kafkalog.spark.read_splits, kafkalog.spark.schema(["offset"]))
    assert frame.rdd.getNumPartitions() == 1
    assert [row[0] for row in frame.collect()] == list(range(880))
