"""How ``cat`` prints a record: kcat's format string, compiled once, and its JSON envelope."""

from __future__ import annotations

import re
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any

from kafkalog._text import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Cell = Callable[[tuple[Any, ...]], bytes]

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": b"\n", "t": b"\t", "r": b"\r"}
_TOKENS = {
    "s": "value",
    "S": "valueSize",
    "R": "valueSize",
    "k": "key",
    "K": "keySize",
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "T": "timestamp",
    "h": "headers",
}
_TIMESTAMP_TYPES = {0: "create", 1: "logappend"}

ENVELOPE_COLUMNS = ("topic", "partition", "offset", "timestampType", "timestamp", "headers", "key", "value")


class Format:
    r"""A format string.

    Parameters
    ----------
    text : str
        Tokens as in ``%s`` and escapes as in ``\n``.
    null : bytes
        Printed for a null key, value or header value.

    Raises
    ------
    ValueError
        For an unknown token.
    """

    def __init__(self, text: str, null: bytes = b"") -> None:
        columns: dict[str, int] = {}
        self._cells: list[Cell] = []
        for literal, letter in re.findall(r"([^%]+)|%(.?)", text, re.DOTALL):
            if literal or letter == "%":
                self._cells.append(_constant(_unescaped(literal) if literal else b"%"))
            elif letter in _TOKENS:
                at = columns.setdefault(_TOKENS[letter], len(columns))
                self._cells.append(_cell(letter, at, null))
            else:
                known = " ".join(f"%{each}" for each in (*_TOKENS, "%"))
                raise ValueError(f"unknown token %{letter} in the format; valid are {known}")
        self.columns = tuple(columns)

    def line(self, row: tuple[Any, ...]) -> bytes:
        """Format one record, given as the cells of ``columns``."""
        return b"".join([cell(row) for cell in self._cells])


def _constant(data: bytes) -> Cell:
    return lambda _row: data


def _cell(letter: str, at: int, null: bytes) -> Cell:
    if letter in "sk":
        return lambda row: null if row[at] is None else row[at]
    if letter == "R":
        return lambda row: row[at].to_bytes(4, "big", signed=True)
    if letter == "h":
        return lambda row: b",".join(
            header["key"].encode() + b"=" + (b"NULL" if header["value"] is None else header["value"])
            for header in row[at] or ()
        )
    return lambda row: str(row[at]).encode()


def _unescaped(text: str) -> bytes:
    found, end = [], 0
    for match in _ESCAPE.finditer(text):
        found.append(text[end : match.start()].encode())
        word, end = match[1], match.end()
        if word[0] == "x" and len(word) > 1:
            found.append(bytes([int(word[1:], 16)]))
        elif word[0] in "01234567":
            found.append(bytes([int(word, 8) & 0xFF]))
        else:
            found.append(_ESCAPED.get(word, word.encode()))
    return b"".join([*found, text[end:].encode()])


def envelope(row: tuple[Any, ...]) -> bytes:
    """Format one record as kcat's JSON, given as the cells of ``ENVELOPE_COLUMNS``.

    Without a broker, ``broker`` is -1. Bytes that are not UTF-8 are written as in ``kafkalog._text``.
    """
    topic, partition, offset, timestamp_type, timestamp, headers, key, value = row
    kind = _TIMESTAMP_TYPES.get(timestamp_type, "unknown")
    named = ""
    if headers:
        named = ",".join(f"{quoted(header['key'])},{_json(header['value'])}" for header in headers)
        named = f'"headers":[{named}],'
    # Formatted by hand: a JSON encoder takes four times as long for an object of this size.
    return (
        f'{{"topic":{quoted(topic)},"partition":{partition},"offset":{offset},"tstype":"{kind}","ts":{timestamp},'
        f'"broker":-1,{named}"key":{_json(key)},"payload":{_json(value)}}}\n'
    ).encode()


def _json(data: bytes | None) -> str:
    text = text_of(data)
    return "null" if text is None else quoted(text)
