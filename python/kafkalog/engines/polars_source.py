"""A dataset as a Polars ``LazyFrame``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from polars.io.plugins import register_io_source

from kafkalog.engines.log_dataset import ENDING, READ_AHEAD, LogDataset

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_DIGITS = 38


def lazy_frame(dataset: ds.Dataset) -> pl.LazyFrame:
    """Return a dataset as a ``LazyFrame`` that passes columns, predicate and limit on."""
    schema = dataset.schema
    for field in schema:
        _check(field.name, field.type)

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        # Polars limits rows before it applies the predicate: then all rows count.
        condition = None if predicate is None or rows is not None else _pushed(predicate, schema)
        wanted = dict.fromkeys(columns or schema.names)
        if predicate is not None:
            wanted |= dict.fromkeys(predicate.meta.root_names())
        sizes = [size for size in (batch_size, rows) if size is not None]
        size = max(min(sizes), 1) if sizes else None
        batches = (
            dataset.rows_within(wanted, condition, batch_rows=size, limit=rows)
            if isinstance(dataset, LogDataset)
            else dataset.to_batches(columns=list(wanted))
        )
        left = rows
        for batch in batches:
            if left == 0 or ENDING.is_set():
                return
            frame = pl.DataFrame(pl.from_arrow(batch if left is None else batch.slice(0, left)))
            left = None if left is None else left - frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if columns is None else frame.select(columns)

    def frames(*asked: Any, **named: Any) -> Iterator[pl.DataFrame]:
        found = read(*asked, **named)
        # Threads of Polars outlive a query that stopped early.
        READ_AHEAD.add(found)
        return found

    return register_io_source(frames, schema=pl.DataFrame(schema.empty_table()).schema)


def _check(name: str, kind: pa.DataType) -> None:
    """Refuse a decimal that Polars does not have; its own error names no column."""
    if pa.types.is_decimal256(kind):
        raise ValueError(
            f"Polars has decimals of at most {_MOST_DIGITS} digits, and {name} has {kind.precision}: "
            'name the columns without it, or give decode_as="json", which gives text'
        )
    if pa.types.is_nested(kind):
        for at in range(kind.num_fields):
            inner = kind.field(at)
            _check(f"{name}.{inner.name}", inner.type)


class _Listener(ds.Dataset):
    """A dataset without rows that records the filter that Polars makes of a predicate."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.heard: pc.Expression | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def to_batches(  # type: ignore[override]
        self,
        columns: list[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: Any,
    ) -> Iterator[pa.RecordBatch]:
        """Remember the filter."""
        self.heard = filter
        table = self._schema.empty_table()
        return iter((table if columns is None else table.select(columns)).to_batches())


def _pushed(predicate: pl.Expr, schema: pa.Schema) -> pc.Expression | None:
    """Return a filter that is true wherever a predicate is, or None."""
    found = arrow_filter(predicate, schema)
    try:
        binary = _of_bytes(json.loads(predicate.meta.serialize(format="json")))
    except (ValueError, TypeError, pl.exceptions.PolarsError):
        # The form of another version.
        return found
    return binary if found is None else found if binary is None else found & binary


def _of_bytes(node: Any) -> pc.Expression | None:
    """Translate comparisons of binary columns, which Polars does not hand to pyarrow."""
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "Or" as operator, "right": right}}:
            one, other = _of_bytes(left), _of_bytes(right)
            if one is None or other is None:
                return None if operator == "Or" else one if other is None else other
            return one & other if operator == "And" else one | other
        case {
            "BinaryExpr": {"left": {"Column": name}, "op": "Eq", "right": {"Literal": {"Scalar": {"Binary": octets}}}}
        } | {
            "BinaryExpr": {"left": {"Literal": {"Scalar": {"Binary": octets}}}, "op": "Eq", "right": {"Column": name}}
        }:
            return pc.field(name) == bytes(octets)
        case {
            "Function": {
                "input": [{"Column": name}, {"Literal": {"Scalar": {"Binary": octets}}}],
                "function": {"BinaryExpr": "Contains" | "StartsWith" | "EndsWith" as function},
            }
        }:
            found: pc.Expression = _FUNCTIONS[function](pc.field(name), bytes(octets))
            return found
    return None


_FUNCTIONS: dict[str, Any] = {"Contains": pc.match_substring, "StartsWith": pc.starts_with, "EndsWith": pc.ends_with}


def arrow_filter(predicate: pl.Expr, schema: pa.Schema) -> pc.Expression | None:
    """Translate a predicate as Polars does for ``scan_pyarrow_dataset``: it has no function for it alone."""
    listener = _Listener(schema)
    pl.scan_pyarrow_dataset(listener).filter(predicate).collect()
    return listener.heard
