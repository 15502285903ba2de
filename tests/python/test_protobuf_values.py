"""Protobuf values are what google.protobuf and its ``json_format`` read from the same records."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
import tiers
import typed_cases
from typed_cases import GOLDEN, Case, is_message, plain, same

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BASIC = GOLDEN / "protobuf-basic" / "data-0"

TWO = """syntax = "proto3"; package p;
message First { int32 a = 1; }
message Second { string b = 1; repeated int32 c = 2; message Inner { bool d = 1; } }"""


def _cases() -> list[Case]:
    found = [case for case in typed_cases.cases() if tiers.FULL or case.folder.parent == GOLDEN]
    return [case for case in found if any(row.get("schemaType") == "PROTOBUF" for row in case.rows)]


def _read(case: Case, **options: Any) -> pa.Table:
    return kafkalog.read_table(
        case.folder / "data-0",
        case.topic,
        partitions=[case.partition],
        decode=case.side,  # type: ignore[arg-type]
        columns=["offset", case.side, f"{case.side}Error"],
        on_undecoded="null",
        **options,
    )


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_json_is_what_json_format_prints(case: Case) -> None:
    table = _read(case, decode_as="json")
    texts: list[Any] = table[case.side].to_pylist()
    errors: list[Any] = table[f"{case.side}Error"].to_pylist()
    for row, text, error in zip(case.rows, texts, errors, strict=True):
        if row.get("schemaType") != "PROTOBUF":
            continue
        if error is not None and "editions" in error:
            assert case.topic == "editions"
        elif "error" in row:
            assert text is None, row
            assert str(error).split()[0].rstrip(":") in row.get("errors", [row["error"]]), (row, error)
        else:
            assert error is None, row
            # What json_format refuses (an Any of an unknown type) is shown by its fields.
            refused = "jsonError" in json.dumps(row["json"])
            assert refused or _normal(json.loads(text)) == _normal(row["json"]), (row, text)


def _normal(value: Any) -> Any:
    """JSON with floats as hexadecimal text, which keeps signs of zeros."""
    if isinstance(value, dict):
        return {name: _normal(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_normal(each) for each in value]
    return value.hex() if isinstance(value, float) else value


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_struct_is_what_google_protobuf_reads(case: Case) -> None:
    try:
        table = _read(case)
    except ValueError as refused:
        assert 'decode_as="json"' in str(refused)  # noqa: PT017
        pytest.skip(f"no column: {refused}")
    (kind,) = (field.type for field in table.schema if field.name == case.side)
    # Of several messages in a topic, the first of the schema is the column's, unless records name only another one.
    decoded = 0
    found = plain(table[case.side].combine_chunks())
    errors: list[Any] = table[f"{case.side}Error"].to_pylist()
    for row, value, error in zip(case.rows, found, errors, strict=True):
        if row.get("schemaType") != "PROTOBUF":
            continue
        if error is None:
            want = row["read"] if "reader" in row else row["writer"]
            assert is_message(kind, value, want), (row, value)
            decoded += 1
        else:
            right = {"no_such_message", row.get("error"), row.get("readError"), *row.get("errors", ())}
            assert value is None
            assert error.split()[0].rstrip(":") in right, (row, error)
            if "error" not in row and "readError" not in row:
                assert 'decode_as="json"' in error
    named = {str(row["index"]) for row in case.rows if "index" in row and "error" not in row}
    if len(named) == 1 and not any("readError" in row for row in case.rows):
        assert decoded == sum(row.get("schemaType") == "PROTOBUF" and "error" not in row for row in case.rows)


def test_all_ways_to_read_agree() -> None:
    for topic in ("well-known", "evolved"):
        options: dict[str, Any] = {"decode": "value", "columns": ["offset", "value"], "on_undecoded": "null"}
        whole = kafkalog.read_table(BASIC, topic, **options)
        rows = plain(whole["value"].combine_chunks())
        dataset = kafkalog.dataset(BASIC, topic, **options).to_table()
        assert dataset.schema == whole.schema
        assert same(plain(dataset["value"].combine_chunks()), rows)
        ways: list[dict[str, Any]] = [{"threads": 2}, {"batch_rows": 7}, {"batch_bytes": 1}]
        for more in ways:
            found = pa.Table.from_batches(list(kafkalog.scan(BASIC, topic, **options, **more)))
            assert same(plain(found["value"].combine_chunks()), rows), more


def _log(folder: Path, payloads: Iterable[bytes]) -> Path:
    with kafkalog.LogWriter(folder, "t") as writer:
        writer.append(pa.table({"value": pa.array(list(payloads), pa.binary())}))
    return folder


def _framed(message: bytes, body: bytes = b"") -> bytes:
    return b"\0\0\0\0\7" + message + body


def _typed(folder: Path, text: str = TWO, **options: Any) -> pa.Table:
    return kafkalog.read_table(
        folder, "t", decode="value", schemas={7: text}, columns=options.pop("columns", ["value"]), **options
    )


@pytest.mark.parametrize(
    ("indexes", "name"),
    [(b"\0", "a"), (b"\2\0", "a"), (b"\2\2", "b"), (b"\4\2\0", "d")],
    ids=["first", "first in long", "second", "nested"],
)
def test_column_holds_the_message_that_records_name(tmp_path: Path, indexes: bytes, name: str) -> None:
    _log(tmp_path / "d", [_framed(indexes)] * 3)
    table = _typed(tmp_path / "d")
    assert table.schema.field("value").type.field(0).name == name
    assert table["value"].null_count == 0
    assert _typed(tmp_path / "d", columns=[f"value.{name}"]).schema.field("value").type.num_fields == 1


def test_several_messages_need_text(tmp_path: Path) -> None:
    second, first = _framed(b"\2\2", b"\x0a\1x"), _framed(b"\0", b"\x08\5")
    _log(tmp_path / "d", [second, first, second])
    # The first of the schema is among them: the column holds it.
    with pytest.raises(kafkalog.KafkaLogError, match=r'p\.Second.*p\.First.*decode_as="json"'):
        _typed(tmp_path / "d")
    table = _typed(tmp_path / "d", on_undecoded="null", columns=["value", "valueError"])
    assert table["value"].to_pylist() == [None, {"a": 5}, None]
    texts: list[Any] = _typed(tmp_path / "d", decode_as="json")["value"].to_pylist()
    assert list(map(json.loads, texts)) == [{"b": "x", "c": []}, {"a": 5}, {"b": "x", "c": []}]
    # A reader schema that begins with the other message pins it.
    pinned = TWO.replace("message First { int32 a = 1; }", "") + "message First { int32 a = 1; }"
    table = _typed(tmp_path / "d", on_undecoded="null", reader_schema=pinned)
    assert table["value"].to_pylist() == [{"b": "x", "c": []}, None, {"b": "x", "c": []}]


def test_of_several_names_of_a_number_the_first_counts(tmp_path: Path) -> None:
    """As in google.protobuf's ``values_by_number``."""
    text = (
        'syntax = "proto3"; message M { K k = 1; repeated K l = 2; map<string, K> m = 3; }'
        "enum K { option allow_alias = true; Z = 0; B = 1; A = 1; C = 1; N = -5; }"
    )
    _log(tmp_path / "d", [_framed(b"\0", b"\x08\1\x12\2\1\0\x1a\2\x10\1")])
    assert _typed(tmp_path / "d", text)["value"].to_pylist() == [{"k": "B", "l": ["B", "Z"], "m": [("", "B")]}]
    texts: list[Any] = _typed(tmp_path / "d", text, decode_as="json")["value"].to_pylist()
    assert list(map(json.loads, texts)) == [{"k": "B", "l": ["B", "Z"], "m": {"": "B"}}]


def test_names_may_differ_in_case_and_underscores_alone(tmp_path: Path) -> None:
    """As for registries, and for protoc since version 22, which compares the names in JSON."""
    text = 'syntax = "proto3"; message M { int32 user_id = 1; oneof o { int32 userid = 2; string USER_ID = 3; } }'
    _log(tmp_path / "d", [_framed(b"\0", b"\x08\5\x10\7")])
    wanted = {"user_id": 5, "userid": 7, "USER_ID": None}
    assert _typed(tmp_path / "d", text)["value"].to_pylist() == [wanted]
    assert _typed(tmp_path / "d", text, columns=["value.userid"])["value"].to_pylist() == [{"userid": 7}]
    texts: list[Any] = _typed(tmp_path / "d", text, decode_as="json")["value"].to_pylist()
    assert list(map(json.loads, texts)) == [{"user_id": 5, "userid": 7}]
    with pytest.raises(ValueError, match="userid"):
        _typed(tmp_path / "d", text.replace("USER_ID", "userid"))


def test_unknown_fields_are_counted(tmp_path: Path) -> None:
    _log(tmp_path / "d", [_framed(b"\0", b"\x08\5\x10\1\x98\1\1"), _framed(b"\0", b"\x12\1x")])
    forms: list[Any] = ["struct", "json"]
    for form in forms:
        with kafkalog.scan(tmp_path / "d", "t", decode="value", schemas={7: TWO}, decode_as=form) as reader:
            assert sum(batch.num_rows for batch in reader) == 2
            assert reader.metrics["unknown_fields"] == 3, form


def test_only_wanted_fields_are_built(tmp_path: Path) -> None:
    text = (
        'syntax = "proto3"; message M { int32 a = 1; N n = 2; string s = 3; } message N { string x = 1; int32 y = 2; }'
    )
    # The bytes of `s` are no UTF-8, nor are those of `n.x`: what is not asked for is skipped.
    _log(tmp_path / "d", [_framed(b"\0", b"\x08\5\x12\5\x0a\1\xff\x10\7\x1a\1\xff")])
    assert _typed(tmp_path / "d", text, columns=["value.a", "value.n.y"])["value"].to_pylist() == [
        {"a": 5, "n": {"y": 7}}
    ]
    for column in ("value", "value.s", "value.n", "value.n.x"):
        with pytest.raises(kafkalog.KafkaLogError, match="invalid_utf8"):
            _typed(tmp_path / "d", text, columns=[column])
    with pytest.raises(ValueError, match="value has no field 'b'; there are: a, n, s"):
        _typed(tmp_path / "d", text, columns=["value.b"])


def test_times_reach_from_year_1_to_9999(tmp_path: Path) -> None:
    text = 'import "google/protobuf/timestamp.proto"; message M { optional google.protobuf.Timestamp at = 1; }'
    seconds = {-62_135_596_800: 0, 253_402_300_799: 999_999_999, -1: 1_999, 0: 0, 253_402_300_800: 0, 5: 1_000_000_000}

    def varint(value: int) -> bytes:
        value &= (1 << 64) - 1
        found = b""
        while value > 127:
            found, value = found + bytes([value & 127 | 128]), value >> 7
        return found + bytes([value])

    bodies = [b"\x08" + varint(second) + b"\x10" + varint(nanos) for second, nanos in seconds.items()]
    _log(tmp_path / "d", [_framed(b"\0", b"\x0a" + bytes([len(body)]) + body) for body in bodies])
    table = _typed(tmp_path / "d", text, on_undecoded="null", columns=["value", "valueError"])
    micros = [each and each["at"] for each in plain(table["value"].combine_chunks())]
    assert micros == [-62_135_596_800_000_000, 253_402_300_799_999_999, -999_999, 0, None, None]
    assert [error is None for error in table["valueError"].to_pylist()] == [True] * 4 + [False] * 2


REFUSED = "bad_schema: Protobuf editions are not supported, proto2 and proto3 are"
"""As the guide says."""


@pytest.mark.parametrize("form", ["text", "descriptor", "descriptors"])
def test_editions_are_refused_by_name(tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]) -> None:
    _log(tmp_path / "d", [_framed(b"\0")])
    text = '// A comment.\n/* Another. */ edition = "2023"; message M {}'
    if form != "text":
        descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
        file = descriptor_pb2.FileDescriptorProto(name="m.proto", syntax="editions", edition=1000)
        file.message_type.add(name="M")
        whole = file if form == "descriptor" else descriptor_pb2.FileDescriptorSet(file=[file])
        text = base64.b64encode(whole.SerializeToString()).decode()
    with pytest.raises(ValueError, match=f"{REFUSED}; decode_as="):
        _typed(tmp_path / "d", text)
    assert "panicked" not in capfd.readouterr().err
    # As the schema of a writer, it costs the values under it.
    reader = 'syntax = "proto3"; message M { int32 x = 1; }'
    table = _typed(tmp_path / "d", text, reader_schema=reader, on_undecoded="null", columns=["value", "valueError"])
    assert table.to_pylist() == [{"value": None, "valueError": REFUSED}]


@pytest.mark.parametrize("messages", ["AB", "BA"])
def test_a_record_is_of_the_message_of_the_same_full_name(tmp_path: Path, messages: str) -> None:
    """The index counts in the writer's file, and the name in the reader's, whatever stands first there."""
    parts = {"A": "message A { int32 x = 1; }", "B": "message B { int32 y = 1; }"}
    written = "\n".join(['syntax = "proto3"; package p;', *(parts[name] for name in messages)])
    places = {name: b"\0" if not at else b"\2\2" for at, name in enumerate(messages)}
    _log(tmp_path / "d", [_framed(places["A"], b"\x08\1"), _framed(places["B"], b"\x08\2")])
    for name, field, number in (("A", "x", 1), ("B", "y", 2)):
        # The other one first, nested, and of another package.
        reader = f'syntax = "proto3"; package p; {parts[name]} message C {{ message B {{}} }}'
        table = _typed(
            tmp_path / "d", written, reader_schema=reader, on_undecoded="null", columns=["value", "valueError"]
        )
        rows = dict(zip("AB", table.to_pylist(), strict=True))
        assert rows[name] == {"value": {field: number}, "valueError": None}
        other = "B" if name == "A" else "A"
        assert rows[other] == {
            "value": None,
            "valueError": f"no_such_message: the reader schema has no message p.{other}",
        }


def test_descriptors_and_files_are_given(tmp_path: Path) -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "money.proto").write_text('syntax = "proto3"; package m; message Money { int64 units = 1; }')
    own = 'syntax = "proto3"; import "parts/money.proto"; message Bill { m.Money sum = 1; }'
    (tmp_path / "bill.proto").write_text(own)
    money = descriptor_pb2.FileDescriptorProto(name="parts/money.proto", package="m", syntax="proto3")
    message = money.message_type.add(name="Money")
    message.field.add(name="units", number=1, type=3, label=1)
    bill = descriptor_pb2.FileDescriptorProto(name="bill.proto", dependency=["parts/money.proto"], syntax="proto3")
    bill.message_type.add(name="Bill").field.add(name="sum", number=1, type=11, type_name=".m.Money", label=1)
    files = descriptor_pb2.FileDescriptorSet(file=[money, bill])
    (tmp_path / "bill.desc").write_bytes(files.SerializeToString())
    _log(tmp_path / "d", [b"\x0a\2\x08\5"])
    for name in ("bill.proto", "bill.desc"):
        table = kafkalog.read_table(
            tmp_path / "d", "t", decode="value", schemas={"t": str(tmp_path / name)}, columns=["value"]
        )
        assert table["value"].to_pylist() == [{"sum": {"units": 5}}], name
    # As a reader schema, too.
    _log(tmp_path / "e", [_framed(b"\0", b"\x0a\2\x08\5")])
    text = (
        own.replace('import "parts/money.proto";', "").replace("m.Money", "Money")
        + "message Money { int64 units = 1; }"
    )
    for name in ("bill.proto", "bill.desc"):
        table = _typed(tmp_path / "e", text, reader_schema=tmp_path / name)
        assert table["value"].to_pylist() == [{"sum": {"units": 5}}], name


@pytest.mark.parametrize("text", ["message", "syntax = ", 'import "missing.proto"; message M {}', "Cg=="])
def test_texts_that_cannot_be_used_are_refused(tmp_path: Path, text: str) -> None:
    _log(tmp_path / "d", [_framed(b"\0")])
    with pytest.raises(ValueError, match="bad_schema"):
        _typed(tmp_path / "d", text)
