"""Columns as text for JSON lines and CSV: column by column, which is several times faster than row by row."""

from __future__ import annotations

import re
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any

from kafkalog._text import base64_of, text_of
from kafkalog._times import format_time

if TYPE_CHECKING:
    import pyarrow as pa

_NEEDS_QUOTES = re.compile('[",\r\n]')
_NO_TIMESTAMP = "1969-12-31T23:59:59.999Z"


def json_cells(column: pa.Array[Any], *, text: bool) -> list[str]:
    """Return each value as JSON; binary as base64, or as text on request."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind):
        return ["null" if headers is None else headers for headers in _headers(column, text=text)]
    if pa.types.is_boolean(kind):
        return [_JSON_WORDS[value] for value in column.to_pylist()]
    if pa.types.is_integer(kind):
        return ["null" if value is None else str(value) for value in column.to_pylist()]
    return ["null" if value is None else quoted(value) for value in _strings(column, text=text)]


def csv_cells(column: pa.Array[Any], *, text: bool) -> list[str]:
    """Return each value as in RFC 4180: null is empty, empty text is ``""``, headers are JSON."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind):
        return [_csv(headers) for headers in _headers(column, text=text)]
    if pa.types.is_boolean(kind):
        return [_CSV_WORDS[value] for value in column.to_pylist()]
    if pa.types.is_integer(kind):
        return ["" if value is None else str(value) for value in column.to_pylist()]
    return [_csv(value) for value in _strings(column, text=text)]


_JSON_WORDS: dict[bool | None, str] = {None: "null", True: "true", False: "false"}
_CSV_WORDS: dict[bool | None, str] = {None: "", True: "true", False: "false"}


def _csv(value: str | None) -> str:
    if value is None:
        return ""
    if value == "":
        return '""'
    return '"' + value.replace('"', '""') + '"' if _NEEDS_QUOTES.search(value) else value


def _strings(column: pa.Array[Any], *, text: bool) -> list[str | None]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return [
            # A record without a timestamp is exported as in the table: one millisecond before the epoch.
            _NO_TIMESTAMP if value == -1 else format_time(value)
            for value in column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_binary(column.type):
        shape = text_of if text else _base64
        return [shape(value) for value in column.to_pylist()]
    strings: list[str | None] = column.to_pylist()
    return strings


def _headers(column: pa.Array[Any], *, text: bool) -> list[str | None]:
    """Return the headers of each record as a JSON array, from the child arrays: pyarrow's dicts are slow."""
    nested: Any = column
    headers = nested.flatten()
    keys = json_cells(headers.field("key"), text=text)
    values = json_cells(headers.field("value"), text=text)
    cells = [f'{{"key":{key},"value":{value}}}' for key, value in zip(keys, values, strict=True)]
    found: list[str | None] = []
    end = 0
    lengths = nested.value_lengths()
    for length in lengths.to_pylist():
        if length is None:
            found.append(None)
            continue
        found.append(f"[{','.join(cells[end : end + length])}]")
        end += length
    return found


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64_of(data)
