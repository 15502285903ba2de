"""Batch reads of ``format("kafkalog")``: splits are planned in Spark's planner process and read in tasks.

``pyspark_kafkalog.DefaultSource`` is the class that Spark discovers; it imports this module when it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog.schema import decoded_columns
from kafkalog.spark.columns import SPARK_TYPES, arrow_schema, resolve, rows_ddl, rows_schema
from kafkalog.spark.decoded import declared
from kafkalog.spark.planner import make_split, plan_splits
from kafkalog.spark.predicates import Predicate, check_predicates
from kafkalog.spark.pyspark_private import is_pushing_filters
from kafkalog.spark.read_split import read_split
from kafkalog.spark.source_options import parse, parse_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from kafkalog import _core
    from kafkalog.spark.source_options import SourceOptions
    from kafkalog.spark.split import Split

# Columns that have no value in some records.
_NULLABLE = frozenset({"key", "value", "headers", "controlType", "deleteHorizonMs", *decoded_columns("both")})
# Columns that have a value in every record: a condition that one is not null always holds.
_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
# Spark's filter classes, and the operators of predicates.
_OPERATORS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
    "StringStartsWith": "startswith",
    "StringEndsWith": "endswith",
    "StringContains": "contains",
}
_NEGATED = {"=": "!=", "in": "not in"}


class SplitPartition(InputPartition):
    """One task of the data source."""

    def __init__(self, split: Split) -> None:
        self.split = split


@dataclass(frozen=True)
class RowSchema:
    """The columns of rows, and their names and nullability in the user's schema."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    required: frozenset[str]
    # how keys and values are decoded, and the types of the columns that are
    decoding: _core.Decoding | None = None
    types: tuple[tuple[str, pa.DataType], ...] = ()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in the task."""
        if not isinstance(partition, SplitPartition):
            raise TypeError(f"expected a SplitPartition, found {partition!r}")
        import pyarrow as pa

        types = dict(self.types)
        fields = zip(self.names, arrow_schema(self.columns), strict=True)
        schema = pa.schema(
            [
                pa.field(name, types.get(field.name, field.type), nullable=name not in self.required)
                for name, field in fields
            ]
        )
        split = partition.split
        if split.decoding is None and self.decoding is not None:
            split = replace(split, decoding=self.decoding)
        return read_split(split, schema)


class BatchReader(DataSourceReader):
    """A batch read."""

    def __init__(self, options: SourceOptions, rows: RowSchema) -> None:
        self.options = options
        self.rows = rows

    def partitions(self) -> list[SplitPartition]:
        """Plan the splits; an empty read has one empty split, because Spark requires one."""
        splits = plan_splits(self.options)
        return [SplitPartition(split) for split in splits or [make_split((), self.options)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in the task."""
        return self.rows.read(partition)


class PushdownBatchReader(BatchReader):
    """A batch read that takes filters from Spark; Spark evaluates those that cannot be applied exactly."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - PySpark's own name for it
        """Take the filters that can be applied exactly; return the others."""
        understood = [(each, self._exact(_predicates(each))) for each in filters]
        taken = [predicate for _, predicates in understood for predicate in predicates or ()]
        self.options = replace(self.options, predicates=(*self.options.predicates, *taken))
        return [each for each, predicates in understood if predicates is None]

    def _exact(self, predicates: list[Predicate] | None) -> list[Predicate] | None:
        """With ``latestPerKey``, a condition on offsets or times holds for the latest records, so it is Spark's."""
        is_place = any(each.column in {"offset", "timestamp"} for each in predicates or ())
        if self.options.read.latest_per_key and is_place:
            return None
        return predicates


def _predicates(pushed: Filter) -> list[Predicate] | None:
    """Translate a filter; None if it cannot be applied exactly."""
    kind, negated = type(pushed).__name__, False
    if kind == "Not":
        pushed, negated = pushed.child, True  # type: ignore[attr-defined]
        kind = type(pushed).__name__
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    if len(path) != 1:
        return None
    (column,) = resolve([path[0]])
    if kind == "IsNotNull" and not negated:
        return [] if column in _NEVER_NULL else None
    symbol = _OPERATORS.get(kind)
    if negated:
        symbol = _NEGATED.get(symbol or "")
    if symbol is None:
        return None
    value: Any = pushed.value  # type: ignore[attr-defined]
    try:
        return list(check_predicates([(column, symbol, value)]))
    except ValueError:
        return None


def source_schema(options: Mapping[str, str]) -> str:
    """Return the schema that the options select; used if the user gives none."""
    return rows_ddl(parse_rows(options))


def make_reader(options: Mapping[str, str], schema: StructType) -> BatchReader:
    """Create the reader of a batch for a schema: all columns, or a selection by name in any order."""
    kind = PushdownBatchReader if is_pushing_filters() else BatchReader
    parsed = parse(options)
    rows = row_schema(schema, parsed)
    return kind(parsed.with_columns(rows.columns), rows)


def row_schema(schema: StructType, options: SourceOptions | None = None) -> RowSchema:
    """Check a user's schema against the columns of a read; the schemas of keys and values are chosen here."""
    columns = resolve(schema.fieldNames())
    decoded: dict[str, pa.DataType] = {}
    decoding = None
    if options is not None and options.read.decode is not None:
        planned = options.with_columns(columns).with_decoding()
        known, decoding = rows_schema(planned), planned.decoding
        sides = ("key", "value") if options.read.decode == "both" else (options.read.decode,)
        fields: dict[str, list[list[str]]] = {}
        for name, field in zip(columns, schema.fields, strict=True):
            if name in sides:
                decoded[name], paths = declared(field.name, field.dataType, known.field(name).type)
                if paths != [[]]:
                    fields[name] = paths
        decoding = None if decoding is None else decoding.projected(**fields)
    for name, field in zip(columns, schema.fields, strict=True):
        if name in decoded:
            continue
        if field.dataType.simpleString().lower() != SPARK_TYPES[name].replace(" ", "").lower():
            raise ValueError(
                f"column {field.name} must be declared {SPARK_TYPES[name].lower()}, not {field.dataType.simpleString()}"
            )
        if not field.nullable and name in _NULLABLE:
            raise ValueError(f"column {field.name} may hold nulls; do not declare it not null")
    required = frozenset(field.name for field in schema.fields if not field.nullable)
    return RowSchema(columns, tuple(schema.fieldNames()), required, decoding, tuple(decoded.items()))
