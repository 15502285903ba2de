"""The text of records that ``kafkalog cat`` prints, against the same rows formatted by Python."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog._core import RecordText
from kafkalog.schema import record_schema
from payloads import bytes_of, element_of, fields_of

Row = tuple[str, int, int, int, int, list[dict[str, Any]] | None, bytes | None, bytes | None]

_BYTES = st.one_of(
    st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode), st.sampled_from([b"", b"base64:", b"%s"])
)
_HEADERS = st.one_of(
    st.none(), st.lists(st.fixed_dictionaries({"key": st.text(max_size=20), "value": _BYTES}), max_size=3)
)
_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["orders", "a.b_c"]),
        st.integers(0, 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from([-1, 0, 1]),
        st.integers(-(2**63), 2**63 - 1),
        _HEADERS,
        _BYTES,
        _BYTES,
    ),
    max_size=20,
)


def size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def batch_of(rows: list[Row], columns: list[str]) -> pa.RecordBatch:
    names = ("topic", "partition", "offset", "timestampType", "timestamp", "headers", "key", "value")
    cells: dict[str, list[Any]] = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    cells |= {"keySize": [size(row[6]) for row in rows], "valueSize": [size(row[7]) for row in rows]}
    schema = record_schema(columns, layout="view")
    arrays = [pa.array(cells[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def naive(row: Row, shape: str, null: bytes) -> bytes:
    topic, partition, offset, _, timestamp, headers, key, value = row
    said = {
        "s": null if value is None else value,
        "k": null if key is None else key,
        "S": str(size(value)).encode(),
        "K": str(size(key)).encode(),
        "R": size(value).to_bytes(4, "big", signed=True),
        "t": topic.encode(),
        "p": str(partition).encode(),
        "o": str(offset).encode(),
        "T": str(timestamp).encode(),
        "h": b",".join(
            each["key"].encode() + b"=" + (b"NULL" if each["value"] is None else each["value"])
            for each in headers or ()
        ),
        "%": b"%",
    }
    pieces: list[tuple[str, str]] = re.findall("%(.)|([^%]+)", shape)
    return b"".join(said[token] if token else literal.encode() for token, literal in pieces)


@settings(deadline=None)
@given(
    rows=_ROWS,
    shape=st.lists(st.sampled_from([*(f"%{each}" for each in "skSKRtpoTh%"), "é=", "; "]), max_size=12).map("".join),
    null=st.sampled_from(["", "NULL"]),
    start=st.integers(0, 20),
)
def test_by_a_format_string(rows: list[Row], shape: str, null: str, start: int) -> None:
    text = RecordText(shape, null=null)
    batch = batch_of(rows, text.columns or ["offset"])
    assert text.of(batch) == b"".join(naive(row, shape, null.encode()) for row in rows)
    # A slice points into the middle of its buffers.
    assert text.of(batch.slice(start)) == b"".join(naive(row, shape, null.encode()) for row in rows[start:])


@settings(deadline=None)
@given(rows=_ROWS)
def test_as_json(rows: list[Row]) -> None:
    text = RecordText()
    lines = text.of(batch_of(rows, text.columns)).decode().split("\n")
    assert lines.pop() == ""
    for line, row in zip(lines, rows, strict=True):
        topic, partition, offset, kind, timestamp, headers, key, value = row
        want: dict[str, Any] = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "tstype": {0: "create", 1: "logappend"}.get(kind, "unknown"),
            "ts": timestamp,
            "broker": -1,
        }
        if headers:
            want["headers"] = [said for each in headers for said in (each["key"], element_of(each["value"]))]
        want |= {**fields_of("key", key), **fields_of("payload", value)}
        found = json.loads(line)
        assert (bytes_of("key", found), bytes_of("payload", found)) == (key, value), "without loss"
        assert found == want
        assert list(found) == list(want)


@pytest.mark.parametrize(
    ("shape", "printed"),
    [
        (r"a\tb\\c\x41\101\q", b"a\tb\\cAAq"),
        (r"\x9\7\xg\x414\1019\777", b"\x09\x07xgA4A9\xff"),
        ("\\é\\", "é\\".encode()),
        (r"\n\r\%%", b"\n\r\\%"),
        ("", b""),
    ],
)
def test_escapes(shape: str, printed: bytes) -> None:
    assert RecordText(shape).of(pa.RecordBatch.from_pydict({"offset": [1, 2]})) == printed * 2


def test_columns_are_read_once() -> None:
    assert RecordText("%s%o%s%S%R").columns == ["value", "offset", "valueSize"]
    assert RecordText("plain").columns == []


@pytest.mark.parametrize(("shape", "token"), [("%", "% "), ("%x", "%x "), ("%s%é", "%é "), ("a%", "% ")])
def test_unknown_tokens(shape: str, token: str) -> None:
    with pytest.raises(ValueError, match=f"unknown token {token}in the format; valid are %s %S"):
        RecordText(shape)


def test_other_columns_are_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"gathered"]).dictionary_encode()})
    with pytest.raises(ValueError, match="column 'value' to print: expected type BinaryView, found "):
        RecordText("%s").of(batch)
    with pytest.raises(ValueError, match="column 1 to print: expected 'offset', found none"):
        RecordText("%k%o").of(batch_of([("t", 0, 0, 0, 0, None, b"k", None)], ["key"]))
