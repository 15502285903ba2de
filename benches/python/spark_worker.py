"""Module that the workers of ``spark_legs.py`` import: functions, and rows decoded beforehand, as a function and a
source."""

from __future__ import annotations

import importlib
import json
import time
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from kafkalog.spark.map_in_arrow import Splits, Work

TURNS = 16
IMPORTED = "pyarrow double, kafkalog double, reading double"


@cache
def _made(task: str) -> list[pa.RecordBatch]:
    """Decode several batches once for each worker, so that the JVM does not read one cached buffer."""
    from kafkalog.spark.read_split import read_split
    from kafkalog.spark.split import Split

    return list(islice(read_split(Split.from_json(task)), TURNS))


def ceiling(task: str, count: int) -> Iterator[pa.RecordBatch]:
    """Yield that many rows, decoded beforehand."""
    made = _made(task)
    turn = 0
    while count > 0:
        batch = made[turn % len(made)]
        turn += 1
        batch = batch if batch.num_rows <= count else batch.slice(0, count)
        count -= batch.num_rows
        yield batch


def ceiling_function(counts: list[int]) -> Work:
    """Create the function for ``over_splits``."""

    def function(splits: Splits) -> Iterator[pa.RecordBatch]:
        for number, split in splits:
            yield from ceiling(split.to_json(), counts[number])

    return function


def value_bytes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Count rows and sum the bytes of their values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths: Any = pc.binary_length(batch.column("value"))
    size = pc.sum(lengths).as_py() or 0
    return pa.RecordBatch.from_arrays(
        [pa.array([batch.num_rows], pa.int64()), pa.array([size], pa.int64())], names=["rows", "bytes"]
    )


def import_time(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Import what a task of ours imports, in a new worker."""
    for _ in batches:
        begun = time.perf_counter()
        import pyarrow as pa

        there = time.perf_counter()
        importlib.import_module("kafkalog")
        ours = time.perf_counter()
        for module in ("columns", "reader", "task", "split"):
            importlib.import_module(f"kafkalog.spark.{module}")

        done = time.perf_counter()
        spent = [there - begun, ours - there, done - begun]
        arrays: list[pa.Array[Any]] = [pa.array([seconds * 1e3]) for seconds in spent]
        yield pa.RecordBatch.from_arrays(arrays, names=["pyarrow", "kafkalog", "reading"])


class Task(InputPartition):
    """A split, and its number of rows."""


class Reader(DataSourceReader):
    """Sends batches decoded beforehand."""

    def __init__(self, tasks: list[Any]) -> None:
        self.tasks = tasks

    def partitions(self) -> list[Task]:
        return [Task(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return ceiling(*partition.value)


class Made(DataSource):
    """The tasks are JSON in place of the path."""

    @classmethod
    def name(cls) -> str:
        return "kafkalog-made"

    def reader(self, schema: Any) -> Reader:  # noqa: ARG002 - Spark names it
        return Reader(json.loads(self.options["path"]))
