"""The record columns as Spark takes them, out of the table in ``kafkalog.schema``.

Spark copies what it gets column by column and converts nothing, so the Arrow types have to be exactly the
declared ones: plain ``binary`` and ``string``, ``timestamp[us, UTC]``, signed integers, all nullable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.schema import DEFAULT_COLUMNS as _DEFAULT
from kafkalog.schema import RECORD_COLUMNS, record_schema, spark_ddl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

__all__ = ["DEFAULT_COLUMNS", "SPARK_TYPES", "arrow_schema", "ddl", "resolve", "schema"]

# By name, in the order of the documentation; crc is unsigned in the core, and Spark has no unsigned types.
SPARK_TYPES: dict[str, str] = {column.name: column.spark for column in RECORD_COLUMNS}

# Those of Spark's Kafka source, in its order; headers only when asked for.
DEFAULT_COLUMNS = tuple(name for name in _DEFAULT if name != "headers")


def resolve(columns: str | Iterable[str] | None = None, *, include_headers: bool = False) -> tuple[str, ...]:
    """Spell the wanted columns as the table does.

    Parameters
    ----------
    columns : str or iterable of str, optional
        Names in any order, letter case ignored; a string is cut at commas. Default: the seven of Spark's Kafka source.
    include_headers : bool
        Put ``headers`` last when it is not named.

    Returns
    -------
    tuple of str
        Names as in ``SPARK_TYPES``.

    Raises
    ------
    ValueError
        For a name that is unknown, given twice, or when there is none.
    """
    if columns is None:
        names = list(DEFAULT_COLUMNS)
    else:
        spelled = {name.lower(): name for name in SPARK_TYPES}
        given = columns.split(",") if isinstance(columns, str) else list(columns)
        names = []
        for name in (text.strip() for text in given):
            if name.lower() not in spelled:
                raise ValueError(f"unknown column {name!r}; there are {', '.join(SPARK_TYPES)}")
            if spelled[name.lower()] in names:
                raise ValueError(f"column {name!r} is named twice")
            names.append(spelled[name.lower()])
    if include_headers and "headers" not in names:
        names.append("headers")
    if not names:
        raise ValueError("no columns are named")
    return tuple(names)


def ddl(columns: Sequence[str]) -> str:
    """Give the columns' schema in Spark's own language."""
    return spark_ddl(columns)


def schema(columns: str | Iterable[str] | None = None, *, include_headers: bool = False) -> str:
    """Give the schema of ``read`` with the same arguments, as the DDL string that ``mapInArrow`` takes.

    Parameters
    ----------
    columns : str or iterable of str, optional
        Names in any order. Default: the seven of Spark's Kafka source.
    include_headers : bool
        Put ``headers`` last when it is not named.

    Returns
    -------
    str
        For instance ``"`value` BINARY, `offset` BIGINT"``.
    """
    return ddl(resolve(columns, include_headers=include_headers))


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Give the Arrow schema that Spark wants for the columns."""
    import pyarrow as pa

    schema = record_schema(columns, timestamp_unit="us")
    return pa.schema([field.with_type(pa.int64()) if field.name == "crc" else field for field in schema])
