"""The record columns in Spark's types, derived from the table in ``kafkalog.schema``.

Spark copies Arrow data column by column and converts nothing, so the Arrow types must be exactly the declared ones:
plain ``binary`` and ``string``, ``timestamp[us, UTC]``, signed integers, all nullable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.schema import DECODED_COLUMNS, RECORD_COLUMNS, record_schema, spark_ddl
from kafkalog.schema import DEFAULT_COLUMNS as _DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from kafkalog.spark.source_options import SourceOptions

# In documentation order. Spark has no unsigned types: crc, which is unsigned in the core, is a BIGINT.
SPARK_TYPES: dict[str, str] = {column.name: column.spark for column in (*RECORD_COLUMNS, *DECODED_COLUMNS)}

# The columns of Spark's Kafka source, in its order; headers are optional there.
DEFAULT_COLUMNS = tuple(name for name in _DEFAULT if name != "headers")


def resolve(columns: str | Iterable[str] | None = None, *, include_headers: bool = False) -> tuple[str, ...]:
    """Return the canonical names of columns."""
    if columns is None:
        names = list(DEFAULT_COLUMNS)
    else:
        canonical = {name.lower(): name for name in SPARK_TYPES}
        given = columns.split(",") if isinstance(columns, str) else list(columns)
        names = []
        for name in (text.strip() for text in given):
            if name.lower() not in canonical:
                raise ValueError(f"unknown column {name!r}; use some of {', '.join(SPARK_TYPES)}")
            if canonical[name.lower()] in names:
                raise ValueError(f"column {name!r} is named twice")
            names.append(canonical[name.lower()])
    if include_headers and "headers" not in names:
        names.append("headers")
    if not names:
        raise ValueError(f"no column is named; use some of {', '.join(SPARK_TYPES)}")
    return tuple(names)


def schema(columns: str | Iterable[str] | None = None, *, include_headers: bool = False) -> str:
    """Return the schema that ``read`` has with the same arguments, as the DDL string that ``mapInArrow`` takes.

    For instance ``"`value` BINARY, `offset` BIGINT"``; the parameters are those of :func:`read`.
    """
    return spark_ddl(resolve(columns, include_headers=include_headers))


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema that Spark requires for columns."""
    import pyarrow as pa

    schema = record_schema(columns, timestamp_unit="us")
    return pa.schema([field.with_type(pa.int64()) if field.name == "crc" else field for field in schema])


def rows_ddl(options: SourceOptions) -> str:
    """Return the DDL of the rows of a read."""
    if options.decoding is None:
        return spark_ddl(options.columns)
    from kafkalog.spark.decoded import ddl

    return ddl(rows_schema(options))


def rows_schema(options: SourceOptions) -> pa.Schema:
    """Return the Arrow schema of the rows of a read."""
    if options.decoding is None:
        return arrow_schema(options.columns)
    from kafkalog.spark.decoded import spark_schema, stream_schema

    return spark_schema(stream_schema(options, options.decoding))
