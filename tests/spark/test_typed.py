"""Decoded values in Spark, both ways, beside what fastavro, Java and google.protobuf read from the same records."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import kafkalog
import tiers
import typed_cases
from spark.ways import both_ways, needs_data_sources, table_of
from typed_cases import GOLDEN, AvroSchema, Case, plain, same

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

_MOST_DIGITS = 38
# Outside of what the logical type allows: base value, error or null are right.
_ODD = {"logical-odd"}


def _cases() -> list[Case]:
    found = [case for case in typed_cases.cases() if case.topic not in _ODD]
    return [case for case in found if tiers.FULL or case.folder.parent == GOLDEN]


def _in_spark(kind: Any, value: Any) -> Any:
    """Return a value as Spark has it: it has fewer types than Arrow."""
    has = pa.types
    if value is None or has.is_null(kind):
        return None
    if has.is_struct(kind):
        return {field.name: _in_spark(field.type, value[field.name]) for field in kind}
    if has.is_list(kind):
        return [_in_spark(kind.value_type, each) for each in value]
    if has.is_map(kind):
        return [(_in_spark(kind.key_type, key), _in_spark(kind.item_type, item)) for key, item in value]
    if has.is_timestamp(kind):
        micros = value * 1000 if kind.unit == "ms" else value // 1000 if kind.unit == "ns" else value
        return micros if -(1 << 63) <= micros < 1 << 63 else None
    if has.is_decimal256(kind) and kind.precision > _MOST_DIGITS:
        return f"{value:f}"
    return Decimal(value) if has.is_uint64(kind) else value


def _read(spark: SparkSession, way: Callable[..., Any], case: Case, **options: Any) -> Any:
    given = {"assign": json.dumps({case.topic: [case.partition]}), "decode": case.side, "onUndecoded": "null"}
    frame = way(spark, case.folder / "data-0", **given, **options)
    return table_of(frame.select("offset", case.side).orderBy("offset"))


@both_ways
def test_json_is_what_the_witnesses_read(spark: SparkSession, way: Callable[..., Any]) -> None:
    for case in _cases():
        table = _read(spark, way, case, decodeAs="json")
        rows = case.rows
        assert table["offset"].to_pylist() == [row["offset"] for row in rows], case
        for row, value in zip(rows, table[case.side].to_pylist(), strict=True):
            if "writer" in row and value is not None and row.get("schemaType", "AVRO") == "AVRO":
                assert same(json.loads(value), row["writer"]), (case, row)
        options: dict[str, Any] = {"partitions": case.partition, "decode": case.side, "on_undecoded": "null"}
        logs = kafkalog.dataset(case.folder / "data-0", case.topic, decode_as="json", columns=[case.side], **options)
        assert logs.to_table()[case.side].to_pylist() == table[case.side].to_pylist(), case


@both_ways
def test_struct_is_what_the_witnesses_read(spark: SparkSession, way: Callable[..., Any]) -> None:
    checked = 0
    for case in _cases():
        rows, schemas = case.rows, case.schemas
        readers = {(row["reader"]["subject"], row["reader"]["version"]) for row in rows if row.get("reader")}
        if len(readers) != 1:
            continue
        (reader,) = readers
        options: dict[str, Any] = {"partitions": case.partition, "decode": case.side, "on_undecoded": "null"}
        try:
            logs = kafkalog.dataset(case.folder / "data-0", case.topic, columns=[case.side], **options)
        except ValueError as refused:
            # Recursive, or no record at all.
            assert "decode_as" in str(refused)  # noqa: PT017
            continue
        own = logs.to_table()[case.side]
        table = _read(spark, way, case)
        found = plain(table[case.side])
        # As in scan, which the other tests compare.
        assert same(found, [_in_spark(own.type, value) for value in plain(own)]), case
        if schemas[reader]["schemaType"] != "AVRO":
            continue
        schema = AvroSchema(case.texts(schemas[reader]))
        for row, value in zip(rows, found, strict=True):
            if "read" in row and value is not None:
                assert same(value, _in_spark(own.type, schema.value(row["read"]))), (case, row)
                checked += 1
    assert checked > tiers.pick(50, 300, 300)


@both_ways
def test_latest_of_each_key(spark: SparkSession, way: Callable[..., Any]) -> None:
    (case,) = [
        case for case in typed_cases.cases() if case[:2] == (GOLDEN / "keys", "key-record") and case[3] == "value"
    ]
    wanted = kafkalog.read_table(
        case.folder / "data-0", case.topic, latest_per_key=True, decode="value", columns=["offset", "value"]
    )
    assert 0 < len(wanted) < len(case.rows)
    assert _read(spark, way, case, latestPerKey="true").to_pylist() == wanted.to_pylist()


def _register(logs: Path, version: int, schema: Any) -> None:
    key = {"keytype": "SCHEMA", "subject": "orders-value", "version": version, "magic": 1}
    value = {
        "subject": "orders-value",
        "version": version,
        "id": version,
        "schema": json.dumps(schema),
        "deleted": False,
    }
    with kafkalog.LogWriter(logs, "_schemas") as log:
        log.append([kafkalog.Record(json.dumps(value).encode(), json.dumps(key).encode())])


def _produce(logs: Path, version: int, bodies: list[bytes]) -> None:
    with kafkalog.LogWriter(logs, "orders") as log:
        log.append([kafkalog.Record(b"\0" + version.to_bytes(4, "big") + body) for body in bodies])


@needs_data_sources
def test_a_stream_keeps_its_type_when_a_schema_is_registered(spark: SparkSession, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    fields: list[Any] = [{"name": "id", "type": "long"}]
    _register(logs, 1, {"type": "record", "name": "Order", "fields": fields})
    _produce(logs, 1, [b"\x02", b"\x04"])
    options = {"subscribe": "orders", "decode": "value", "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafkalog").options(**options).load(str(logs)).select("offset", "value")
    query = frame.writeStream.format("memory").queryName("typed").trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
        fields += [{"name": "name", "type": "string", "default": "none"}]
        _register(logs, 2, {"type": "record", "name": "Order", "fields": fields})
        _produce(logs, 2, [b"\x06\x02a"])
        query.processAllAvailable()
        rows = spark.table("typed").orderBy("offset").collect()
    finally:
        query.stop()
    assert [row["value"].asDict() for row in rows] == [{"id": 1}, {"id": 2}, {"id": 3}]
    # A new query has the new type.
    again = spark.read.format("kafkalog").options(**options).load(str(logs)).orderBy("offset").collect()
    assert [row["value"].asDict()["name"] for row in again] == ["none", "none", "a"]
