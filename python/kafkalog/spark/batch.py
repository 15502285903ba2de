"""A batch read by the data source: splits planned in Spark's planner process, rows made in its tasks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog.spark.columns import SPARK_TYPES, arrow_schema, resolve
from kafkalog.spark.planning import plan_splits
from kafkalog.spark.rows import rows
from kafkalog.spark.split import ScanOptions, Split

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog.spark.options import ReadOptions

__all__ = ["Reader", "Rows", "SplitPartition", "rows_of"]

# Where a log has no value for every record.
NULLABLE = frozenset({"key", "value", "headers", "controlType", "deleteHorizonMs"})


class SplitPartition(InputPartition):
    """One task of the data source."""

    def __init__(self, split: Split) -> None:
        self.split = split


@dataclass(frozen=True)
class Rows:
    """How a task makes rows: the columns of ``names``, spelled as the user's schema does."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    required: frozenset[str]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in the task."""
        if not isinstance(partition, SplitPartition):
            raise TypeError(f"expected a partition of partitions(), found {partition!r}")
        import pyarrow as pa

        fields = zip(self.names, arrow_schema(self.columns), strict=True)
        schema = pa.schema([pa.field(name, field.type, nullable=name not in self.required) for name, field in fields])
        return rows(partition.split, schema)


class Reader(DataSourceReader):
    """A batch read."""

    def __init__(self, options: ReadOptions, rows: Rows) -> None:
        self.options = options
        self.rows = rows

    def partitions(self) -> list[SplitPartition]:
        """Plan the splits; a read of nothing is one split of nothing, because Spark wants one."""
        # The planner process has no session to ask; on a cluster the driver's cores stand in for the executors'.
        splits = plan_splits(self.options, os.cpu_count() or 1)
        return [SplitPartition(split) for split in splits or [Split((), ScanOptions(self.options.columns))]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in the task."""
        return self.rows.read(partition)


def rows_of(schema: StructType) -> Rows:
    """Hold a schema against the columns there are."""
    columns = resolve(schema.fieldNames())
    for name, field in zip(columns, schema.fields, strict=True):
        if field.dataType.simpleString().lower() != SPARK_TYPES[name].replace(" ", "").lower():
            raise ValueError(f"column {field.name} is {SPARK_TYPES[name].lower()}, not {field.dataType.simpleString()}")
        if not field.nullable and name in NULLABLE:
            raise ValueError(f"column {field.name} may hold nulls, so it cannot be declared not null")
    required = frozenset(field.name for field in schema.fields if not field.nullable)
    return Rows(columns, tuple(schema.fieldNames()), required)
