"""What a user's function makes of a task's batches, held against the schema that Spark was told.

Spark takes columns by their place, whatever their names, and says in a page of Java that it cannot read a type. What
differs in storage alone (large, views, the name of a time zone) is given Spark's own type; so is a column of nulls.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog.spark.split import Split

__all__ = ["arrow_of", "transformed"]


def arrow_of(schema: StructType) -> pa.Schema:
    """Give the Arrow types that Spark has for a schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Before Spark 4.2 it is always this one.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    found: pa.Schema = to_arrow_schema(schema, **zone)
    return found


def transformed(
    transform: Callable[[pa.RecordBatch], pa.RecordBatch | None],
    schema: pa.Schema,
    split: Split,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Apply a function to the batches of a split.

    Parameters
    ----------
    transform : callable
        Gives a batch of the schema, or None.
    schema : pyarrow.Schema
        As ``arrow_of`` gives it.
    split : Split
        Where the batches come from, for errors.
    batches : iterable of pyarrow.RecordBatch
        What is read.

    Yields
    ------
    pyarrow.RecordBatch
        Of exactly the schema; no empty ones.

    Raises
    ------
    TypeError
        For what is no batch.
    ValueError
        For a batch of another schema.
    """
    for batch in batches:
        made = transform(batch)
        if made is None:
            continue
        try:
            made = _conform(made, schema)
        except (TypeError, ValueError) as error:
            raise type(error)(f"transform of {_place(split)}: {error}") from None
        if made.num_rows:
            yield made


def _conform(made: Any, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    if not isinstance(made, pa.RecordBatch):
        kind = type(made)
        raise TypeError(f"expected a pyarrow.RecordBatch, found a {kind.__module__}.{kind.__qualname__}")
    if made.schema.equals(schema):
        return made
    if made.schema.names != schema.names:
        raise ValueError(f"expected the columns {_listed(schema.names)}, found {_listed(made.schema.names)}")
    arrays = []
    for array, field in zip(made.columns, schema, strict=True):
        if not (pa.types.is_null(array.type) or _plain(array.type).equals(_plain(field.type))):
            raise ValueError(f"expected column {field.name} as {field.type}, found {array.type}")
        if array.null_count and not field.nullable:
            raise ValueError(f"expected no null in column {field.name}, found {array.null_count}")
        arrays.append(array if array.type.equals(field.type) else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Give a type as Spark has it, where only the storage is another one; nested fields may be null."""
    import pyarrow as pa

    has = pa.types
    nested: Any = kind
    if has.is_large_string(kind) or has.is_string_view(kind):
        return pa.string()
    if has.is_large_binary(kind) or has.is_binary_view(kind):
        return pa.binary()
    if has.is_timestamp(kind) and nested.tz is not None:
        return pa.timestamp(nested.unit, "UTC")
    if has.is_list(kind) or has.is_large_list(kind) or has.is_list_view(kind):
        return pa.list_(_plain(nested.value_type))
    if has.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in nested])
    if has.is_map(kind):
        return pa.map_(_plain(nested.key_type), _plain(nested.item_type))
    return kind


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "(none)"


def _place(split: Split) -> str:
    """Name the partition folders of a split."""
    folders = [folder for folder, *_ in split.ranges]
    more = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
    return f"a batch of {folders[0]}{more}"
