"""What the workers of ``spark_read.py`` import: rows that were made beforehand, and a source over given tasks."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafkalog.spark.rows import rows
from kafkalog.spark.split import Split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

TURNS = 16


@cache
def _made(task: str) -> list[pa.RecordBatch]:
    """Decode some batches once for each worker; several, so that the JVM does not read one cached buffer."""
    return list(islice(rows(Split.from_json(task)), TURNS))


def ceiling(task: str, count: int) -> Iterator[pa.RecordBatch]:
    """Yield so many rows that are there already."""
    made = _made(task)
    turn = 0
    while count > 0:
        batch = made[turn % len(made)]
        turn += 1
        batch = batch if batch.num_rows <= count else batch.slice(0, count)
        count -= batch.num_rows
        yield batch


def ceiling_function(counts: list[int]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function for ``mapInArrow``."""

    def function(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, task in zip(batch.column("split"), batch.column("task"), strict=True):
                yield from ceiling(str(task.as_py()), counts[number.as_py()])

    return function


class Task(InputPartition):
    """A split, and the rows it has when they are to come from nowhere."""


class Reader(DataSourceReader):
    """Reads tasks, or sends what is there."""

    def __init__(self, tasks: list[Any]) -> None:
        self.tasks = tasks

    def partitions(self) -> list[Task]:
        return [Task(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        task, count = partition.value
        return rows(Split.from_json(task)) if count is None else ceiling(task, count)


class Bench(DataSource):
    """The tasks come as JSON where the path would be."""

    @classmethod
    def name(cls) -> str:
        return "kafkalog-bench"

    def reader(self, schema: Any) -> Reader:  # noqa: ARG002 - Spark names it
        return Reader(json.loads(self.options["path"]))
