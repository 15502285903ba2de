"""Applies a user's function to the batches of a task, and checks the result against the schema that Spark was given.

Spark takes columns by position, whatever their names, and reports a wrong type with a page of Java. Types that differ
in storage only (large types, views, the name of a time zone) are cast to Spark's, and so are columns of nulls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa


def transformed(
    transform: Callable[[pa.RecordBatch], pa.RecordBatch | None],
    schema: pa.Schema | None,
    place: str,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Apply a function to the batches of a split."""
    for batch in batches:
        result = transform(batch)
        if result is None:
            continue
        try:
            result = _conform(result, schema)
        except (TypeError, ValueError) as error:
            raise type(error)(f"transform of {place}: {error}") from None
        if result.num_rows:
            yield result


def _conform(result: Any, schema: pa.Schema | None) -> pa.RecordBatch:
    import pyarrow as pa

    if not isinstance(result, pa.RecordBatch):
        kind = type(result)
        raise TypeError(f"expected a pyarrow.RecordBatch, found a {kind.__module__}.{kind.__qualname__}")
    if schema is None or result.schema.equals(schema):
        return result
    if result.schema.names != schema.names:
        raise ValueError(f"expected the columns {_names(schema.names)}, found {_names(result.schema.names)}")
    arrays = []
    for array, field in zip(result.columns, schema, strict=True):
        if not (pa.types.is_null(array.type) or _storage_free(array.type).equals(_storage_free(field.type))):
            raise ValueError(f"expected column {field.name} as {field.type}, found {array.type}")
        if array.null_count and not field.nullable:
            raise ValueError(f"expected no null in column {field.name}, found {array.null_count}")
        arrays.append(array if array.type.equals(field.type) else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _storage_free(kind: pa.DataType) -> pa.DataType:
    """Return Spark's type for one that differs from it in storage only; nested fields may be null."""
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
        return pa.list_(_storage_free(nested.value_type))
    if has.is_struct(kind):
        return pa.struct([(field.name, _storage_free(field.type)) for field in nested])
    if has.is_map(kind):
        return pa.map_(_storage_free(nested.key_type), _storage_free(nested.item_type))
    return kind


def _names(names: list[str]) -> str:
    return ", ".join(names) or "(none)"
