"""The record columns in Spark's types: one table, read as DDL and as Arrow.

Spark copies what it gets column by column and converts nothing, so the Arrow types have to be exactly the
declared ones: plain ``binary`` and ``string``, ``timestamp[us, UTC]``, signed integers, all nullable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

__all__ = ["DEFAULT_COLUMNS", "SPARK_TYPES", "arrow_schema", "ddl", "resolve", "schema"]

_HEADERS = "array<struct<key: string, value: binary>>"

# The first seven are those of Spark's Kafka source, in its order.
SPARK_TYPES: dict[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": _HEADERS,
    "segment": "string",
    "batchPosition": "bigint",
    "baseOffset": "bigint",
    "batchSize": "int",
    "magic": "tinyint",
    "compression": "string",
    # uint32 in the core; Spark has no unsigned types.
    "crc": "bigint",
    "partitionLeaderEpoch": "int",
    "producerId": "bigint",
    "producerEpoch": "smallint",
    "sequence": "int",
    "isTransactional": "boolean",
    "isControl": "boolean",
    "controlType": "string",
    "deleteHorizonMs": "bigint",
    "keySize": "int",
    "valueSize": "int",
}
DEFAULT_COLUMNS = tuple(SPARK_TYPES)[:7]


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
    return ", ".join(f"`{name}` {SPARK_TYPES[name]}" for name in columns)


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
        For instance ``"`value` binary, `offset` bigint"``.
    """
    return ddl(resolve(columns, include_headers=include_headers))


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Give the Arrow schema that Spark wants for the columns."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "binary": pa.binary(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        _HEADERS: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    return pa.schema([(name, types[SPARK_TYPES[name]]) for name in columns])
