"""Decoded keys and values in Spark: their types, and the schemas that travel with a plan.

Spark has fewer types than Arrow. Unsigned numbers become wider ones (``decimal(20,0)`` for 64 bits), times of day
numbers in their unit, timestamps microseconds, decimals of more than 38 digits text.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog._typed_values import plan_decoding, refreshed
from kafkalog.options import decode_arguments
from kafkalog.reader import RecordReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

    from kafkalog.spark.source_options import SourceOptions
    from kafkalog.spark.split import Split

_log = logging.getLogger("kafkalog.spark")

_MAX_DIGITS = 38
_UINT64_DIGITS = 20
_MICROS = {"s": 1_000_000, "ms": 1_000}
_MAX_INT64 = (1 << 63) - 1


def decoding_of(options: SourceOptions) -> _core.Decoding | None:
    """Choose the schemas of a read."""
    if options.read.decode is None:
        return None
    ranges = _ranges(options)
    decoding = plan_decoding(ranges, list(options.paths), options.read)
    if decoding is None:
        return None
    for row in lost_schemas(options, decoding):
        _log.warning("kafkalog: skipped as damaged: %s", row)
    # As a later refresh leaves it.
    return refreshed(decoding, ranges, list(options.paths), options.read)


def lost_schemas(options: SourceOptions, decoding: _core.Decoding) -> list[dict[str, Any]]:
    """Return what was skipped as damaged where the schemas were read: the driver reads them, and no task tells."""
    with RecordReader(_core.scan_ranges([], decoding=decoding, **decode_arguments(options.read))) as reader:
        reader.read_all()
        return reader.lost.to_pylist()


def current(decoding: _core.Decoding, options: SourceOptions) -> _core.Decoding:
    """Return the same with the schemas that were registered since."""
    return refreshed(decoding, _ranges(options), list(options.paths), options.read)


def _ranges(options: SourceOptions) -> list[_core.PartitionRange]:
    from kafkalog.spark.topics import partition_arguments

    return _core.plan(list(options.paths), **partition_arguments(options))


def stream_schema(options: SourceOptions | Split, decoding: _core.Decoding) -> pa.Schema:
    """Return the schema of the core's batches."""
    stream = _core.scan_ranges([], decoding=decoding, **decode_arguments(options.read))
    return RecordReader(stream).schema


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema in the types that Spark has."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: Any) -> pa.DataType:
    import pyarrow as pa

    has = pa.types
    if has.is_struct(kind):
        return pa.struct([pa.field(field.name, _spark_type(field.type)) for field in kind])
    if has.is_map(kind):
        return pa.map_(_spark_type(kind.key_type), _spark_type(kind.item_type))
    if has.is_list(kind):
        return pa.list_(pa.field("element", _spark_type(kind.value_type)))
    if has.is_uint64(kind):
        return pa.decimal128(_UINT64_DIGITS, 0)
    if has.is_uint32(kind) or has.is_time64(kind):
        return pa.int64()
    if has.is_time32(kind):
        return pa.int32()
    if has.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if has.is_decimal256(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _MAX_DIGITS else pa.string()
    if has.is_fixed_size_binary(kind):
        return pa.binary()
    # A column of nulls has no type in Spark's tables.
    return pa.string() if has.is_null(kind) else kind


def ddl(schema: pa.Schema) -> str:
    """Return the DDL of a schema in Spark's types."""
    return ", ".join(f"{_quoted(field.name)} {_ddl_type(field.type)}" for field in schema)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _ddl_type(kind: Any, name: Any = _quoted) -> str:
    import pyarrow as pa

    has = pa.types
    if has.is_struct(kind):
        return f"STRUCT<{','.join(f'{name(each.name)}:{_ddl_type(each.type, name)}' for each in kind)}>"
    if has.is_map(kind):
        return f"MAP<{_ddl_type(kind.key_type, name)},{_ddl_type(kind.item_type, name)}>"
    if has.is_list(kind):
        return f"ARRAY<{_ddl_type(kind.value_type, name)}>"
    if has.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if has.is_timestamp(kind):
        return "TIMESTAMP_NTZ" if kind.tz is None else "TIMESTAMP"
    names = {"bool": "BOOLEAN", "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT"}
    names |= {"float": "FLOAT", "double": "DOUBLE", "string": "STRING", "binary": "BINARY", "date32[day]": "DATE"}
    return names[str(kind)]


def declared(column: str, wanted: DataType, known: pa.DataType) -> tuple[pa.DataType, list[list[str]]]:
    """Check a type that the user declares for a decoded column; return it as Arrow, with the fields that it has.

    A struct may have some of the fields, in any order.
    """
    import pyarrow as pa

    fields = getattr(wanted, "fields", None)
    nested: Any = known
    if fields is None or not pa.types.is_struct(known):
        expected = _ddl_type(known, str).lower()
        if wanted.simpleString().lower() != expected:
            raise ValueError(f"column {column} must be declared {expected}, not {wanted.simpleString()}")
        return known, [[]]
    chosen: list[pa.Field[Any]] = []
    paths: list[list[str]] = []
    for field in fields:
        if nested.get_field_index(field.name) < 0:
            names = ", ".join(each.name for each in nested)
            raise ValueError(f"column {column} has no field {field.name}; there are: {names}")
        kind, below = declared(f"{column}.{field.name}", field.dataType, nested.field(field.name).type)
        chosen.append(pa.field(field.name, kind))
        paths += [[field.name, *path] for path in below]
    is_whole = [each.name for each in chosen] == [each.name for each in nested] and pa.struct(chosen).equals(nested)
    return pa.struct(chosen), [[]] if is_whole else paths


def converted(array: Any, kind: Any) -> pa.Array[Any]:
    """Return a column in a type of Spark's; what that type cannot hold is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    own, has = array.type, pa.types
    if own.equals(kind):
        return array  # type: ignore[no-any-return]
    if has.is_struct(own):
        children = [converted(array.field(field.name), field.type) for field in kind]
        mask = array.is_null() if array.null_count else None
        if not children:
            return array.cast(kind)  # type: ignore[no-any-return]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if has.is_list(own):
        build: Any = pa.ListArray.from_arrays
        values = converted(array.values, kind.value_type)
        return _with_offsets(array, lambda offsets, mask: build(offsets, values, kind, mask=mask))
    if has.is_map(own):
        build = pa.MapArray.from_arrays
        keys, items = converted(array.keys, kind.key_type), converted(array.items, kind.item_type)
        return _with_offsets(array, lambda offsets, mask: build(offsets, keys, items, kind, mask=mask))
    if has.is_timestamp(own):
        times, factor = array.cast(pa.int64()), _MICROS.get(own.unit, 0)
        if own.unit == "ns":
            # The microsecond in which it lies (`DateTimeUtils.nanosToMicros`). pc.floor_temporal overflows.
            micros = pc.divide(times, 1000)
            is_beyond = pc.greater(pc.multiply(micros, 1000), times)
            return pc.subtract(micros, is_beyond.cast(pa.int64())).cast(kind)  # type: ignore[no-any-return]
        if factor:
            most: Any = _MAX_INT64 // factor
            fits = pc.less_equal(pc.abs(times), most)
            array = pc.if_else(fits, array, pa.scalar(None, own))
        return array.cast(kind)  # type: ignore[no-any-return]
    if has.is_decimal256(own) and has.is_string(kind):
        return _plain_digits(array)
    return array.cast(kind)  # type: ignore[no-any-return]


def _plain_digits(array: Any) -> pa.Array[Any]:
    """Return decimals as text with all digits: Arrow's has an exponent for small ones."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = array.cast(pa.string())
    with_exponent = pc.match_substring(texts, "E")
    if not pc.any(with_exponent).as_py():
        return texts  # type: ignore[no-any-return]
    plain = pa.array([f"{value:f}" for value in array.filter(with_exponent).to_pylist()], pa.string())
    return pc.replace_with_mask(texts, pc.fill_null(with_exponent, False), plain)  # type: ignore[no-any-return]  # noqa: FBT003


def _with_offsets(array: Any, build: Any) -> pa.Array[Any]:
    import pyarrow as pa

    # An array that begins in the middle of its offsets is copied.
    if array.offset:
        array = pa.concat_arrays([array])
    return build(array.offsets, array.is_null() if array.null_count else None)  # type: ignore[no-any-return]
