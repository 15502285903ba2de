"""Decoded values in Spark, both ways, beside what fastavro, Java and google.protobuf read from the same records."""

from __future__ import annotations

import json
import re
import shutil
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import kafkalog
import tiers
import typed_cases
from kafkalog.cli.main import main
from spark.ways import both_ways, by_data_source, needs_data_sources, table_of
from typed_cases import GOLDEN, AvroSchema, Case, plain, same

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

_MOST_DIGITS = 38
# Outside of what the logical type allows: base value, error or null are right.
_ODD = {"logical-odd"}


def _cases(way: Callable[..., Any]) -> list[Case]:
    """Give all cases to the data source, and those of the clone to the other way: both read splits by the same code."""
    found = [case for case in typed_cases.cases() if case.topic not in _ODD]
    return [case for case in found if (tiers.FULL and way is by_data_source) or case.folder.parent == GOLDEN]


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


def _read(spark: SparkSession, way: Callable[..., Any], cases: Sequence[Case], **options: Any) -> Any:
    """Read cases of one folder and side."""
    (folder, side), *others = {(case.folder, case.side) for case in cases}
    assert not others
    chosen: dict[str, list[int]] = {}
    for case in cases:
        chosen.setdefault(case.topic, []).append(case.partition)
    given = {"assign": json.dumps(chosen), "decode": side, "onUndecoded": "null"}
    frame = way(spark, folder / "data-0", **given, **options)
    # Sorting is another job in Spark.
    order = ("topic", "partition", "offset")
    return table_of(frame.select(*order, side)).sort_by([(name, "ascending") for name in order])


@both_ways
def test_json_is_what_the_witnesses_read(spark: SparkSession, way: Callable[..., Any]) -> None:
    groups: dict[tuple[Path, str], list[Case]] = {}
    for case in _cases(way):
        groups.setdefault((case.folder, case.side), []).append(case)
    for cases in groups.values():
        # Text for all topics, so one job reads them.
        table = _read(spark, way, cases, decodeAs="json")
        assert len(table) == sum(len(case.rows) for case in cases)
        for case in cases:
            chosen = (pc.field("topic") == case.topic) & (pc.field("partition") == case.partition)
            part, rows = table.filter(chosen), case.rows
            assert part["offset"].to_pylist() == [row["offset"] for row in rows], case
            found = part[case.side].to_pylist()
            for row, value in zip(rows, found, strict=True):
                if "writer" in row and value is not None and row.get("schemaType", "AVRO") == "AVRO":
                    assert same(json.loads(value), row["writer"]), (case, row)
            options: dict[str, Any] = {"partitions": case.partition, "decode": case.side, "on_undecoded": "null"}
            logs = kafkalog.dataset(
                case.folder / "data-0", case.topic, decode_as="json", columns=[case.side], **options
            )
            assert logs.to_table()[case.side].to_pylist() == found, case


@pytest.mark.timeout(900)  # two jobs for each case of the shared corpus
@both_ways
def test_struct_is_what_the_witnesses_read(spark: SparkSession, way: Callable[..., Any]) -> None:
    checked = 0
    for case in _cases(way):
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
        table = _read(spark, way, [case])
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
    assert checked > (300 if tiers.FULL and way is by_data_source else 50)


@both_ways
def test_latest_of_each_key(spark: SparkSession, way: Callable[..., Any]) -> None:
    (case,) = [
        case for case in typed_cases.cases() if case[:2] == (GOLDEN / "keys", "key-record") and case[3] == "value"
    ]
    wanted = kafkalog.read_table(
        case.folder / "data-0", case.topic, latest_per_key=True, decode="value", columns=["offset", "value"]
    )
    assert 0 < len(wanted) < len(case.rows)
    assert _read(spark, way, [case], latestPerKey="true").select(["offset", "value"]).to_pylist() == wanted.to_pylist()


KEYS = GOLDEN / "keys" / "data-0"
_VALUES = ("-t", "key-record", "--decode", "value", "--columns", "offset,value")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_export_is_that_of_a_local_export(spark: SparkSession, tmp_path: Path, form: Any) -> None:
    found: dict[str, Any] = {}
    for where, more in (("local", []), ("spark", ["--spark", "local[2]"])):
        assert main(["export", str(KEYS), str(tmp_path / where), *_VALUES, "-f", form, *more]) == 0
        files = sorted((tmp_path / where).glob(f"*.{form}"))
        if form == "jsonl":
            found[where] = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        else:
            found[where] = ds.dataset(files, format=form).to_table().to_pylist()
        found[where].sort(key=lambda row: row["offset"])
    assert found["spark"] == found["local"]
    wanted = kafkalog.read_table(KEYS, "key-record", decode="value", columns=["offset", "value"]).to_pylist()
    assert found["spark"] == wanted
    assert {type(row["value"]) for row in wanted} == {dict, type(None)}


@pytest.mark.parametrize(("topic", "field"), [("empty", "value"), ("inner", "value.e"), ("message", "value.n")])
def test_export_of_records_without_fields(spark: SparkSession, tmp_path: Path, topic: str, field: str) -> None:
    """Parquet has none (pyarrow refuses them), and the driver says so; Arrow and JSON lines have."""
    logs = tmp_path / "logs"
    empty: dict[str, Any] = {"type": "record", "name": "E", "fields": []}
    fields: list[Any] = [{"name": "x", "type": "int"}, {"name": "e", "type": empty}]
    _register(logs, 1, empty, "empty-value")
    _register(logs, 2, {"type": "record", "name": "Outer", "fields": fields}, "inner-value")
    _register(logs, 3, 'syntax = "proto3"; message M { int32 x = 1; N n = 2; message N {} }', "message-value")
    bodies = {"empty": (1, b""), "inner": (2, b"\x02"), "message": (3, b"\0\x08\x01\x12\0")}
    values: dict[str, Any] = {"empty": {}, "inner": {"x": 1, "e": {}}, "message": {"x": 1, "n": {}}}
    _produce(logs, bodies[topic][0], [bodies[topic][1]] * 3, topic)
    options = {"subscribe": topic, "columns": "value", "decode": "value"}
    with pytest.raises(ValueError, match=rf"without fields, which {re.escape(field)} is; .*decodeAs=") as caught:
        kafkalog.spark.export(spark, logs, tmp_path / "out", "parquet", **options)
    assert "decode_as" not in str(caught.value)
    assert not (tmp_path / "out").exists()
    for form in ("arrow", "jsonl"):
        kafkalog.spark.export(spark, logs, tmp_path / form, form, **options)
    assert ds.dataset(tmp_path / "arrow", format="arrow").to_table()["value"].to_pylist() == [values[topic]] * 3
    (lines,) = (tmp_path / "jsonl").iterdir()
    assert [json.loads(line)["value"] for line in lines.read_text().splitlines()] == [values[topic]] * 3


@both_ways
def test_errors_have_sparks_names_of_options(spark: SparkSession, way: Callable[..., Any]) -> None:
    poison = GOLDEN / "poison" / "data-0"
    # On the driver, and in a task.
    cases = ((KEYS, "key-only", ("readerSchema", "decodeAs")), (poison, "poison-avro", ("decodeAs", "onUndecoded")))
    for logs, topic, names in cases:
        with pytest.raises(Exception, match=names[0]) as caught:
            way(spark, logs, subscribe=topic, decode="value").collect()
        assert all(name in str(caught.value) for name in names)
        # The traceback of a worker has lines of Python.
        said = [line for line in str(caught.value).splitlines() if "decodeAs=" in line]
        assert not re.search("reader_schema|decode_as|on_undecoded", "".join(said)), said


def test_damage_among_the_schemas_is_reported(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    for topic in ("_schemas", "key-record"):
        shutil.copytree(KEYS / f"{topic}-0", logs / f"{topic}-0")
    (path,) = (logs / "_schemas-0").glob("*.log")
    # Behind all batches: what is there is whole.
    path.write_bytes(path.read_bytes() + b"\0" * 7 + b"damage" * 20)
    options: dict[str, Any] = {"topics": "key-record", "decode": "value", "columns": ["offset", "value"]}
    options["on_corrupt"] = "skip"
    with kafkalog.scan(logs, **options) as reader:
        wanted, lost = reader.read_all().to_pylist(), reader.lost.to_pylist()
    assert {row["topic"] for row in lost} == {"_schemas"}
    rows = kafkalog.spark.read(spark, logs, **options).collect()
    assert [row["offset"] for row in rows] == [row["offset"] for row in wanted]
    assert [text for text in caplog.messages if "skipped as damaged" in text and "_schemas" in text]
    codes = {}
    for where, more in (("local", []), ("spark", ["--spark", "local[2]"])):
        codes[where] = main(["export", str(logs), str(tmp_path / where), *_VALUES, "--on-corrupt", "skip", *more])
    assert codes == {"local": 1, "spark": 1}
    assert f"{len(lost)} ranges with" in capfd.readouterr().err


def _register(logs: Path, version: int, schema: Any, subject: str = "orders-value") -> None:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": version, "deleted": False}
    value |= {"schema": schema, "schemaType": "PROTOBUF"} if isinstance(schema, str) else {"schema": json.dumps(schema)}
    with kafkalog.LogWriter(logs, "_schemas") as log:
        log.append([kafkalog.Record(json.dumps(value).encode(), json.dumps(key).encode())])


def _produce(logs: Path, version: int, bodies: list[bytes], topic: str = "orders") -> None:
    with kafkalog.LogWriter(logs, topic) as log:
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
