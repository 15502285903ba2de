"""Decoded keys and values are what fastavro and Java read from the same records."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
import tiers
import typed_cases
from typed_cases import GOLDEN, AvroSchema, Case, plain, same

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = GOLDEN / "keys" / "data-0"
POISON = GOLDEN / "poison" / "data-0"
# Outside of what the logical type allows: base value, error or null are right.
ODD = {"logical-odd"}


def _cases() -> list[Case]:
    found = [case for case in typed_cases.cases() if case.topic not in ODD]
    return [case for case in found if tiers.FULL or case.folder.parent == GOLDEN]


def _read(case: Case, **options: Any) -> pa.Table:
    columns = ["offset", case.side, f"{case.side}Error", f"{case.side}SchemaId"]
    return kafkalog.read_table(
        case.folder / "data-0",
        case.topic,
        partitions=[case.partition],
        decode=case.side,  # type: ignore[arg-type]
        columns=columns,
        on_undecoded="null",
        **options,
    )


def _is_avro(row: dict[str, Any]) -> bool:
    return bool(row.get("schemaType", "AVRO") == "AVRO")


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_json_is_what_the_witnesses_read(case: Case) -> None:
    table = _read(case, decode_as="json")
    rows = case.rows
    assert table["offset"].to_pylist() == [row["offset"] for row in rows]
    columns = (table[name].to_pylist() for name in (case.side, f"{case.side}Error", f"{case.side}SchemaId"))
    for row, value, error, schema_id in zip(rows, *columns, strict=True):
        if row["framing"] == "null":
            assert (value, error, schema_id) == (None, None, None), row
        elif not _is_avro(row):
            continue
        elif "error" in row:
            # What Java reads all the same, and values deeper than 64, may go either way.
            assert value is None or "javaValue" in row, row
            assert error.split()[0].rstrip(":") in row.get("errors", [row["error"]]), row
        elif value is None:
            assert "nesting" in error or "deep" in error, (row, error)
        else:
            assert error is None
            assert same(json.loads(value), row["writer"]), (row, value)
            assert schema_id == row["id"]


def _most_digits(value: Any) -> int:
    """Digits of the longest text of digits in a witness's JSON."""
    return max(
        (len(digits) for digits in re.findall(r"\d+", re.sub(r"(\d)\.(\d)", r"\1\2", json.dumps(value)))), default=0
    )


def _reasons(row: dict[str, Any]) -> list[Any]:
    """Reasons that are right for a value that the witnesses do not read."""
    right = row.get("errors", [row.get("error", row.get("readError"))])
    # With a bit flipped in the id, the value is also one of another schema.
    is_foreign = "subject" in row and row["subject"] != row["reader"]["subject"]
    return [*right, *["incompatible"] * is_foreign]


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_struct_is_what_the_witnesses_read(case: Case) -> None:
    rows = case.rows
    readers = {(row["reader"]["subject"], row["reader"]["version"]) for row in rows if row.get("reader")}
    schemas = case.schemas
    if not readers or any(schemas[reader]["schemaType"] != "AVRO" for reader in readers):
        pytest.skip("no reader schema of Avro")
    (reader,) = readers
    try:
        table = _read(case)
    except ValueError as refused:
        assert 'decode_as="json"' in str(refused)  # noqa: PT017
        pytest.skip(f"no column: {refused}")
    schema = AvroSchema(case.texts(schemas[reader]))
    found = plain(table[case.side].combine_chunks())
    errors: list[Any] = table[f"{case.side}Error"].to_pylist()
    for row, value, error in zip(rows, found, errors, strict=True):
        if "read" in row:
            if (beyond := re.search(r"no decimal of (\d+) digits", error or "")) is not None:
                # Java and fastavro read more digits than the type says; a column cannot hold them.
                assert value is None
                assert _most_digits(row["read"]) > int(beyond[1]), (row, error)
            elif "nesting" not in (error or "") and "deep" not in (error or ""):
                assert error is None, row
                assert same(value, schema.value(row["read"])), (row, value)
        elif case.topic == "poison-skipped" and value is not None:
            # The damage is in a field that the reader schema leaves out.
            assert error is None
        elif "Not an array" in row.get("readMessage", "") and value is not None:
            # Avro's Java reader fails on a default of [] in a union; fastavro has it.
            assert error is None
            assert [*value] == [*row["disputed"]["fastavro"]], row
        elif row["framing"] != "null" and "javaValue" not in row:
            assert value is None, row
            assert error.split()[0].rstrip(":") in _reasons(row), (row, error)


def _poison(**options: Any) -> pa.Table:
    return kafkalog.read_table(POISON, "poison-avro", decode="value", **options)


def test_damage_touches_no_neighbour() -> None:
    (case,) = [case for case in typed_cases.cases() if case.folder == POISON.parent and case.topic == "poison-avro"]
    bad = {row["offset"] for row in case.rows if "error" in row and "javaValue" not in row}
    assert len(bad) > 50
    nulls = _poison(on_undecoded="null", columns=["offset", "value", "valueError", "valueBytes"])
    errors = [row["offset"] for row in nulls.to_pylist() if row["valueError"] is not None]
    assert bad <= set(errors)
    raw = kafkalog.read_table(POISON, "poison-avro", columns=["value"])["value"]
    assert nulls["valueBytes"].to_pylist() == raw.to_pylist()
    skipped = _poison(on_undecoded="skip", columns=["offset", "value"])
    kept = nulls.filter(pa.compute.is_null(nulls["valueError"])).select(["offset", "value"])
    assert skipped.equals(kept)
    for options in ({"threads": 2}, {"batch_rows": 1}, {"batch_rows": 7}, {"batch_bytes": 1}):
        again = _poison(on_undecoded="skip", columns=["offset", "value"], **options)
        assert again.equals(skipped), options


def test_error_names_record_and_way_out() -> None:
    with pytest.raises(kafkalog.KafkaLogError) as error:
        _poison()
    text = str(error.value)
    assert "poison-avro" in text
    assert 'decode_as="json"' in text
    assert 'on_undecoded="null"' in text


def test_metrics_count_what_is_not_decoded() -> None:
    with kafkalog.scan(POISON, "poison-avro", decode="value", on_undecoded="skip") as reader:
        rows = sum(batch.num_rows for batch in reader)
        metrics = reader.metrics
    assert metrics["undecoded"] + rows == len(kafkalog.read_table(POISON, "poison-avro", columns=["offset"]))


def test_both_sides() -> None:
    both = kafkalog.read_table(KEYS, "key-record", decode="both", on_undecoded="null")
    for side in ("key", "value"):
        one = kafkalog.read_table(KEYS, "key-record", decode=side, on_undecoded="null")
        assert both[side].equals(one[side])
        assert pa.types.is_struct(one[side].type)


def test_fields_are_asked_for_by_path() -> None:
    whole: Any = kafkalog.read_table(KEYS, "key-record", decode="value", columns=["value"])["value"].combine_chunks()
    part: Any = kafkalog.read_table(KEYS, "key-record", decode="value", columns=["value.a"])["value"].combine_chunks()
    assert part.type == pa.struct([whole.type.field("a")])
    assert part.field("a").equals(whole.field("a"))
    with pytest.raises(ValueError, match="value has no field 'nope'; there are: a, b"):
        kafkalog.read_table(KEYS, "key-record", decode="value", columns=["value.nope"])


def test_reader_schema() -> None:
    def kind(reader: Any) -> Any:
        schema = kafkalog.read_table(
            KEYS, "key-only", decode="key", reader_schema=reader, columns=["key"], on_undecoded="null"
        ).schema
        return schema.field("key").type

    assert kind("latest") != kind(1)
    assert kind({"key-only": 1}) == kind(1)
    assert kind('{"type": "record", "name": "None", "fields": []}') == pa.struct([])
    with pytest.raises(ValueError, match="has no version 99 of subject key-only-key"):
        kind(99)


def test_schemas_are_given() -> None:
    case = next(case for case in typed_cases.cases() if case.folder == KEYS.parent and case.topic == "key-record")
    by_id = {row["id"]: row["schema"] for row in case.schemas.values()}
    beside = kafkalog.read_table(KEYS, "key-record", decode="value", columns=["value"])
    given = kafkalog.read_table(
        KEYS, "key-record", decode="value", columns=["value"], schemas=by_id, reader_schema=by_id[2]
    )
    elsewhere = kafkalog.read_table(KEYS / "key-record-0", decode="value", columns=["value"], schemas=KEYS)
    assert given.equals(beside)
    assert elsewhere.equals(beside)


def test_batches_are_as_without_decoding() -> None:
    def sizes(**options: Any) -> Iterator[int]:
        for batch in kafkalog.scan(KEYS, "key-int", columns=["offset", "value"], batch_rows=7, **options):
            yield batch.num_rows

    assert list(sizes(decode="value")) == list(sizes())


def test_nulls_of_the_log_are_no_errors() -> None:
    table = kafkalog.read_table(KEYS, "key-int", decode="value", columns=["value", "valueError", "valueBytes"])
    assert 0 < table["valueBytes"].null_count < len(table)
    assert table["value"].is_null().equals(table["valueBytes"].is_null())
    assert table["valueError"].null_count == len(table)
