"""``--decode`` of ``cat``, ``export`` and ``grep`` beside what fastavro and Java read from the same records."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkalog
import typed_cases
from command import call, call_bytes, fails
from typed_cases import GOLDEN, AvroSchema, same

if TYPE_CHECKING:
    from pathlib import Path

KEYS, POISON = GOLDEN / "keys" / "data-0", GOLDEN / "poison" / "data-0"
NULL = ("--on-undecoded", "null")
VALUES = ("-t", "key-record", "--decode", "value")


def _case(side: str) -> typed_cases.Case:
    (case,) = [case for case in typed_cases.cases() if case[:2] == (KEYS.parent, "key-record") and case.side == side]
    return case


def _read(side: str) -> list[Any]:
    """Answers of the witnesses under the reader schema."""
    case = _case(side)
    schema = AvroSchema(case.texts(case.schemas[f"key-record-{side}", 1]))
    return [schema.value(row["read"]) if "read" in row else None for row in case.rows]


def _lines(*words: str | Path) -> list[Any]:
    done = call(*words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_cat_prints_objects() -> None:
    found = _lines("cat", KEYS, "-t", "key-record", "--decode", "both", "-J", *NULL)
    assert same([each["key"] for each in found], _read("key"))
    assert same([each["payload"] for each in found], _read("value"))


def test_cat_prints_what_was_written() -> None:
    found = _lines("cat", KEYS, *VALUES, "--decode-as", "json", "-J")
    assert same([each["payload"] for each in found], [row.get("writer") for row in _case("value").rows])


def test_json_of_several_lines_is_one_line(tmp_path: Path) -> None:
    logs = GOLDEN / "json-schema" / "data-0"
    options = ("-t", "object", "--decode", "value", "--decode-as", "json")
    texts = kafkalog.read_table(logs, "object", columns=["value"], decode="value", decode_as="json")[
        "value"
    ].to_pylist()
    assert any("\n" in text for text in texts if text is not None)
    wanted = [text if text is None else json.loads(text) for text in texts]
    assert [each["payload"] for each in _lines("cat", logs, *options, "-J")] == wanted
    assert [each["value"] for each in _lines("export", logs, "-", *options, "--columns", "value")] == wanted
    assert len(_lines("grep", "-F", "{", logs, *options, "-J")) == len(wanted) - wanted.count(None)
    printed = call("cat", logs, *options, "-f", "%s\\n", "-Z").stdout.splitlines()
    assert [None if line == "NULL" else json.loads(line) for line in printed] == wanted
    # Cells of CSV may have several lines: the text as it is.
    file = tmp_path / "o.csv"
    assert call("export", logs, file, *options, "--columns", "offset,value").returncode == 0
    cells = csv.DictReader(io.StringIO(file.read_bytes().decode(), newline=""))
    assert [row["value"] or None for row in cells] == texts


def test_text_of_a_format_is_json() -> None:
    as_json = ["null" if value is None else value for value in _read("value")]
    found = call("cat", KEYS, "-t", "key-record", "-s", "value=avro", "-f", "%s\\n", "-Z").stdout.splitlines()
    assert same([line if line == "NULL" else json.loads(line) for line in found], _nulls(as_json))


def _nulls(values: list[Any]) -> list[Any]:
    return ["NULL" if value == "null" else value for value in values]


def test_keys_are_found_as_they_are_printed() -> None:
    printed = call("cat", KEYS, "-t", "key-record", "--decode", "key", "-f", "%k\\n", *NULL).stdout.splitlines()
    (one,) = set(printed[:1])
    found = call(
        "cat", KEYS, "-t", "key-record", "--decode", "key", "-f", "%k\\n", *NULL, "-k", one
    ).stdout.splitlines()
    assert found == [each for each in printed if each == one]
    keys = (KEYS, "-t", "key-uuid", "--decode", "key", *NULL)
    texts = _lines("cat", *keys, "-J", "--decode-as", "json")
    text = next(each["key"] for each in texts if isinstance(each["key"], str))
    exported = _lines(
        "export", KEYS, "-", "-t", "key-uuid", "--decode", "key", "-k", text, *NULL, "--columns", "key,offset"
    )
    assert [each["offset"] for each in exported] == [each["offset"] for each in texts if each["key"] == text]


def test_undecoded_values_say_why() -> None:
    found = _lines("cat", POISON, "-t", "poison-avro", "--decode", "value", "-J", "--on-undecoded", "null")
    table = kafkalog.read_table(
        POISON, "poison-avro", decode="value", on_undecoded="null", columns=["value", "valueError"]
    )
    assert [each.get("payloadError") for each in found] == table["valueError"].to_pylist()
    assert [each["payload"] is None for each in found] == table["value"].is_null().to_pylist()
    done = call("cat", POISON, "-t", "poison-avro", "--decode", "value", "--on-undecoded", "skip", "-f", "%s\\n")
    assert len(done.stdout.splitlines()) == table["valueError"].null_count
    left_out = len(table) - table["valueError"].null_count
    assert done.stderr == f"kafkalog: {left_out} records could not be decoded: left out\n"


def test_errors_name_the_way_out() -> None:
    text = fails(1, "export", POISON, "-", "-t", "poison-avro", "--decode", "value")
    assert "--decode-as json" in text
    assert "--on-undecoded null" in text
    assert "decode_as" not in text
    text = fails(2, "cat", GOLDEN.parent / "clean-restarts" / "data-1", "-t", "orders", "--decode", "value")
    assert "--schemas ID=FILE" in text
    assert "--schemas TOPIC=FILE.avsc" in text
    text = fails(2, "cat", KEYS, "-t", "key-record", "--schemas", KEYS)
    assert "add --decode value, key or both" in text
    text = fails(2, "cat", KEYS, *VALUES, "--schemas", KEYS, "--schemas", "7=x.avsc")
    assert "not both" in text
    assert "--reader-schema" in fails(2, "grep", "x", KEYS, "-t", "key-only", "--decode", "value")


def test_schemas_and_readers_are_given(tmp_path: Path) -> None:
    case = _case("value")
    by_id = {row["id"]: row["schema"] for row in case.schemas.values()}
    given = []
    for number, text in by_id.items():
        path = tmp_path / f"{number}.avsc"
        path.write_text(text)
        given += ["--schemas", f"{number}={path}"]
    reader = tmp_path / "2.avsc"
    beside = call("cat", KEYS, *VALUES, "-J")
    words: list[str | Path] = ["cat", KEYS / "key-record-0", "--decode", "value", "-J"]
    assert call(*words, *given, "--reader-schema", reader).stdout == beside.stdout
    assert call(*words, *given, "--reader-schema", f"key-record={reader}").stdout == beside.stdout
    assert call(*words, "--schemas", KEYS, "--reader-schema", "1").stdout == beside.stdout


def test_export_in_each_format(tmp_path: Path) -> None:
    columns = ("--columns", "offset,value")
    wanted = kafkalog.read_table(KEYS, decode="value", topics="key-record", columns=["offset", "value"])
    values = _read("value")
    assert same([each["value"] for each in _lines("export", KEYS, "-", *VALUES, *columns)], values)
    as_json = _lines("export", KEYS, "-", *VALUES, *columns, "--decode-as", "json")
    assert same([each["value"] for each in as_json], [row.get("writer") for row in _case("value").rows])
    rows = list(csv.DictReader(io.StringIO(call("export", KEYS, "-", "--format", "csv", *VALUES, *columns).stdout)))
    assert same([json.loads(row["value"] or "null") for row in rows], values)
    arrow = call_bytes("export", KEYS, "-", "--format", "arrow", *VALUES, *columns).stdout
    assert pa.ipc.open_stream(arrow).read_all().equals(wanted)
    file = tmp_path / "values.parquet"
    assert call("export", KEYS, file, *VALUES, *columns).returncode == 0
    assert pq.read_table(file).to_pylist() == wanted.to_pylist()
    # Nested columns are Parquet's own, with dictionaries.
    group = pq.ParquetFile(file).metadata.row_group(0)
    leaves = {group.column(n).path_in_schema: group.column(n).encodings for n in range(group.num_columns)}
    assert leaves.keys() == {"offset", "value.a", "value.b"}
    assert "RLE_DICTIONARY" in leaves["value.b"]
    part = tmp_path / "part.parquet"
    assert call("export", KEYS, part, *VALUES, "--columns", "value.a,offset").returncode == 0
    assert pq.read_schema(part).field("value").type == pa.struct([wanted.schema.field("value").type.field("a")])


def test_folder_has_a_type_for_each_topic(tmp_path: Path) -> None:
    words = ("export", KEYS, "-t", "key-record,key-int", "--decode", "both", *NULL, "--columns", "key,value")
    assert call(*words, tmp_path / "all").returncode == 0
    types = {path.stem: pq.read_schema(path).field("key").type for path in (tmp_path / "all").glob("*.parquet")}
    assert pa.types.is_struct(types["key-record-0"])
    assert pa.types.is_integer(types["key-int-0"])
    text = fails(2, *words, tmp_path / "one.parquet")
    assert "--decode-as json" in text


def test_parquet_refuses_records_without_fields(tmp_path: Path) -> None:
    schema = tmp_path / "none.avsc"
    schema.write_text('{"type": "record", "name": "None", "fields": []}')
    words = ("export", KEYS, *VALUES, "--reader-schema", schema, "--columns", "value")
    assert "--decode-as json" in fails(2, *words, tmp_path / "none.parquet")
    assert not (tmp_path / "none.parquet").exists()


@pytest.mark.parametrize("pattern", ['"a":-', "café", r'"b":null|invoice', "no such", r"^\{.*\}$"])
@pytest.mark.parametrize("form", ["struct", "json"])
def test_grep_searches_what_is_printed(pattern: str, form: str) -> None:
    words = (*VALUES, "--decode-as", form, "-f", "%s\\n")
    printed = call("cat", KEYS, *words).stdout.splitlines()
    # An empty line is a null, in which nothing is found.
    wanted = [line for line in printed if line and re.search(pattern.encode(), line.encode())]
    found = call("grep", pattern, KEYS, *words)
    assert (found.stdout.splitlines(), found.returncode) == (wanted, 0 if wanted else 1)
    assert call("grep", "-m", "2", pattern, KEYS, *words).stdout.splitlines() == wanted[:2]
    others = [line for line in printed if line not in wanted]
    assert call("grep", "-v", pattern, KEYS, *words).stdout.splitlines() == others
    counted = call("grep", "-c", pattern, KEYS, *VALUES, "--decode-as", form).stdout
    assert counted == f"key-record-0:{len(wanted)}\n"


def test_grep_in_keys() -> None:
    words = ("-t", "key-record", "--decode", "both", "-f", "%k\\n", *NULL)
    printed = call("cat", KEYS, *words).stdout.splitlines()
    found = call("grep", "--in", "key", "-F", "payment", KEYS, *words).stdout.splitlines()
    assert found == [line for line in printed if "payment" in line]
    assert found


def test_grep_goes_on_past_topics_without_schemas() -> None:
    done = call("grep", "-c", '"a":', KEYS, "--decode", "value")
    assert "key-record-0:" in done.stdout
    assert "_schemas" not in done.stdout
    assert done.returncode == 3
    assert "topic key-only has no reader schema" in done.stderr
