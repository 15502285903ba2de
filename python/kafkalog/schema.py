"""The columns of records and of batches: one table, from which the schemas for Arrow and Spark are derived.

Names are those of Spark's Kafka source and of ``kafka-dump-log``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog._arguments import choose, column_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from kafkalog.typing import Layout, TimestampUnit

__all__ = [
    "BATCH_COLUMNS",
    "DECODED_COLUMNS",
    "DEFAULT_COLUMNS",
    "RECORD_COLUMNS",
    "Column",
    "batch_schema",
    "record_schema",
    "spark_ddl",
]


class Column(NamedTuple):
    """One column.

    Attributes
    ----------
    name, summary : str
        Its name as users spell it, and what it holds.
    arrow, spark : str
        Its types: by pyarrow's name (``timestamp`` and ``headers`` depend on further options), and in Spark's DDL.
    """

    name: str
    arrow: str
    spark: str
    summary: str


RECORD_COLUMNS = (
    Column("key", "binary", "BINARY", "null when the record has none"),
    Column("value", "binary", "BINARY", "null in a tombstone"),
    Column("topic", "string", "STRING", "from the folder's name"),
    Column("partition", "int32", "INT", "from the folder's name"),
    Column("offset", "int64", "BIGINT", "the record's number in its partition"),
    Column("timestamp", "timestamp", "TIMESTAMP", "-1 ms when the record has none"),
    Column("timestampType", "int32", "INT", "0 CreateTime, 1 LogAppendTime, -1 none"),
    Column("headers", "headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>", "null when the record has none"),
    Column("segment", "string", "STRING", "name of the .log file"),
    Column("batchPosition", "int64", "BIGINT", "byte in the segment at which the record's batch begins"),
    Column("baseOffset", "int64", "BIGINT", "the batch's first offset"),
    Column("batchSize", "int32", "INT", "the batch's bytes on disk, header included"),
    Column("magic", "int8", "TINYINT", "record format: 0, 1 or 2"),
    Column("compression", "string", "STRING", "none, gzip, snappy, lz4 or zstd"),
    Column("crc", "uint32", "BIGINT", "the batch's stored checksum"),
    Column("partitionLeaderEpoch", "int32", "INT", "-1 when unknown"),
    Column("producerId", "int64", "BIGINT", "-1 without idempotence"),
    Column("producerEpoch", "int16", "SMALLINT", "-1 without idempotence"),
    Column("sequence", "int32", "INT", "-1 without idempotence"),
    Column("isTransactional", "bool", "BOOLEAN", "part of a transaction"),
    Column("isControl", "bool", "BOOLEAN", "written by the broker, not by a producer"),
    Column("controlType", "string", "STRING", "COMMIT, ABORT, LEADER_CHANGE, ...; null on data"),
    Column("deleteHorizonMs", "int64", "BIGINT", "when tombstones of the batch may be deleted; null when not set"),
    Column("keySize", "int32", "INT", "bytes of the key, -1 for null"),
    Column("valueSize", "int32", "INT", "bytes of the value, -1 for null"),
)
"""The columns of ``scan``."""

DEFAULT_COLUMNS = tuple(column.name for column in RECORD_COLUMNS[:8])
"""The default columns of ``scan``: the seven of Spark's Kafka source, and headers."""

DECODED_COLUMNS = (
    Column("keyBytes", "binary", "BINARY", "the key as it is in the log"),
    Column("keySchemaId", "int32", "INT", "id of its schema; null where it has none"),
    Column("keySchemaGuid", "string", "STRING", "GUID of its schema"),
    Column("keyError", "string", "STRING", "why the key could not be decoded; null where it could"),
    Column("valueBytes", "binary", "BINARY", "the value as it is in the log"),
    Column("valueSchemaId", "int32", "INT", "id of its schema; null where it has none"),
    Column("valueSchemaGuid", "string", "STRING", "GUID of its schema"),
    Column("valueError", "string", "STRING", "why the value could not be decoded; null where it could"),
)
"""More columns of ``scan`` where keys or values are decoded."""

BATCH_COLUMNS = (
    Column("topic", "string", "STRING", "from the folder's name"),
    Column("partition", "int32", "INT", "from the folder's name"),
    Column("segment", "string", "STRING", "name of the .log file"),
    Column("position", "int64", "BIGINT", "byte in the segment at which the batch begins"),
    Column("baseOffset", "int64", "BIGINT", "first offset"),
    Column("lastOffset", "int64", "BIGINT", "last offset of the batch when it was written"),
    Column("count", "int32", "INT", "records, as the header says; null in v0 and v1"),
    Column("baseSequence", "int32", "INT", "-1 without idempotence"),
    Column("lastSequence", "int32", "INT", "-1 without idempotence"),
    Column("producerId", "int64", "BIGINT", "-1 without idempotence"),
    Column("producerEpoch", "int16", "SMALLINT", "-1 without idempotence"),
    Column("partitionLeaderEpoch", "int32", "INT", "-1 when unknown"),
    Column("isTransactional", "bool", "BOOLEAN", "part of a transaction"),
    Column("isControl", "bool", "BOOLEAN", "written by the broker, not by a producer"),
    Column("deleteHorizonMs", "int64", "BIGINT", "when tombstones of the batch may be deleted; null when not set"),
    Column("baseTimestamp", "timestamp", "TIMESTAMP", "the records' timestamps are relative to it"),
    Column("maxTimestamp", "timestamp", "TIMESTAMP", "the largest timestamp of the records"),
    Column("timestampType", "int32", "INT", "0 CreateTime, 1 LogAppendTime, -1 none"),
    Column("size", "int32", "INT", "bytes on disk, header included"),
    Column("magic", "int8", "TINYINT", "record format: 0, 1 or 2"),
    Column("compression", "string", "STRING", "none, gzip, snappy, lz4 or zstd"),
    Column("crc", "uint32", "BIGINT", "stored checksum"),
    Column("isValid", "bool", "BOOLEAN", "whether the checksum holds; null when it was not checked"),
)
"""The columns of ``scan_batches``."""

_RECORD = {column.name: column for column in (*RECORD_COLUMNS, *DECODED_COLUMNS)}


def decoded_columns(decode: str | None) -> tuple[str, ...]:
    """Return the names of the columns that decoding these parts of records adds."""
    sides = {"both": ("key", "value"), None: ()}.get(decode, (decode,))
    return tuple(column.name for column in DECODED_COLUMNS if column.name.startswith(tuple(filter(None, sides))))


def _arrow_type(column: Column, layout: Layout, unit: TimestampUnit) -> pa.DataType:
    import pyarrow as pa

    if column.arrow == "timestamp":
        return pa.timestamp(unit, "UTC")
    if column.arrow == "headers":
        value = pa.binary_view() if layout == "view" else pa.binary()
        key = pa.string_view() if layout == "view" else pa.string()
        return pa.list_(pa.struct([pa.field("key", key), pa.field("value", value)]))
    if column.arrow in {"binary", "string"} and layout == "view":
        return pa.binary_view() if column.arrow == "binary" else pa.string_view()
    plain: pa.DataType = getattr(pa, f"{column.arrow}_" if column.arrow == "bool" else column.arrow)()
    return plain


def record_schema(
    columns: Iterable[str] | str | None = None,
    *,
    layout: Layout = "binary",
    timestamp_unit: TimestampUnit = "ms",
) -> pa.Schema:
    """Return the Arrow schema of a scan, without scanning.

    Parameters
    ----------
    columns, layout, timestamp_unit
        As for ``scan``.
    """
    import pyarrow as pa

    choose("layout", layout, ("binary", "view"))
    choose("timestamp_unit", timestamp_unit, ("ms", "us"))
    names = _names(columns)
    return pa.schema([pa.field(name, _arrow_type(_RECORD[name], layout, timestamp_unit)) for name in names])


def _names(columns: Iterable[str] | str | None) -> tuple[str, ...]:
    valid = tuple(column.name for column in RECORD_COLUMNS) if columns == "*" else tuple(_RECORD)
    return column_names(columns, valid) or DEFAULT_COLUMNS


def batch_schema() -> pa.Schema:
    """Return the Arrow schema of ``scan_batches``."""
    import pyarrow as pa

    return pa.schema([pa.field(c.name, _arrow_type(c, "binary", "ms")) for c in BATCH_COLUMNS])


def spark_ddl(columns: Iterable[str] | str | None = None) -> str:
    """Return the schema of a scan as Spark DDL, for instance ``"`value` BINARY, `offset` BIGINT"``.

    The default columns are those of :func:`record_schema`.
    """
    names = _names(columns)
    return ", ".join(f"`{name}` {_RECORD[name].spark}" for name in names)
