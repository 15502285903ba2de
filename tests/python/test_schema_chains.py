"""Schemas that refer to the next one, ten thousand long and more: a column, text or an error, soon, and no crash."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from tiers import pick

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LENGTH = pick(10_000, 20_000, 100_000)
# A debug build on a busy machine. What grows with the square of the length takes hours.
SECONDS = 120


def _avro(at: int, to: int | None) -> tuple[str, bytes]:
    fields = [{"name": "next", "type": f"R{to}"}] if to is not None else [{"name": "x", "type": "int"}]
    return json.dumps({"type": "record", "name": f"R{at}", "fields": fields}), b"\x02"


def _union(at: int, to: int | None) -> tuple[str, bytes]:
    """The same with a choice at each level, of which the first ends the value."""
    field = {"name": "next", "type": ["null", f"R{to}"] if to is not None else ["null", "int"]}
    return json.dumps({"type": "record", "name": f"R{at}", "fields": [field]}), b"\x00"


def _protobuf(at: int, to: int | None) -> tuple[str, bytes]:
    more = "" if to is None else f'import "f{to}"; '
    field = "int32 x = 1;" if to is None else f"R{to} next = 1;"
    return f'syntax = "proto3"; {more}message R{at} {{ {field} }}', b""


def _public(at: int, to: int | None) -> tuple[str, bytes]:
    """Imports that pass on, without messages: indexes mean the file at the end."""
    text = "message R { int32 x = 1; }" if to is None else f'import public "f{to}";'
    return f'syntax = "proto3"; {text}', b""


def _json(_: int, to: int | None) -> tuple[str, bytes]:
    next_ = {"type": "integer"} if to is None else {"$ref": f"f{to}"}
    return json.dumps({"type": "object", "properties": {"next": next_}}), b'{"next": {}}'


def _json_only(_: int, to: int | None) -> tuple[str, bytes]:
    """References and nothing else."""
    return json.dumps({"type": "integer"} if to is None else {"$ref": f"f{to}"}), b"1"


KINDS: dict[str, tuple[str, Callable[[int, int | None], tuple[str, bytes]]]] = {
    "avro": ("AVRO", _avro),
    "avro-union": ("AVRO", _union),
    "protobuf": ("PROTOBUF", _protobuf),
    "protobuf-public": ("PROTOBUF", _public),
    "json": ("JSON", _json),
    "json-only": ("JSON", _json_only),
}
READ = """
import json, sys, time
import kafkalog
begun = time.monotonic()
try:
    said = kafkalog.read_table(sys.argv[1], "orders", decode="value", decode_as=sys.argv[2], columns=["value"]).num_rows
except (ValueError, kafkalog.KafkaLogError) as error:
    said = str(error)
print(json.dumps([said, time.monotonic() - begun]))
"""


def _subject(at: int) -> str:
    return f"s{at}" if at else "orders-value"


def _registered(at: int, to: int | None, kind: str, text: str) -> kafkalog.Record:
    subject = _subject(at)
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value: dict[str, Any] = {"subject": subject, "version": 1, "id": at + 1, "schemaType": kind, "schema": text}
    if to is not None:
        value["references"] = [{"name": f"f{to}", "subject": _subject(to), "version": 1}]
    return kafkalog.Record(json.dumps(value).encode(), json.dumps(key).encode())


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", ["struct", "json"])
@pytest.mark.parametrize("end", ["last", "first", "missing"])
@pytest.mark.parametrize("name", KINDS)
def test_a_chain_of_subjects_ends(tmp_path: Path, name: str, end: str, form: str) -> None:
    kind, make = KINDS[name]
    rows, body = [], b""
    for at in range(LENGTH):
        last = {"last": None, "first": 0, "missing": LENGTH}[end]
        to = at + 1 if at + 1 < LENGTH else last
        text, body = make(at, to)
        rows.append(_registered(at, to, kind, text))
    with kafkalog.LogWriter(tmp_path, "_schemas") as log:
        log.append(rows)
    with kafkalog.LogWriter(tmp_path, "orders") as log:
        log.append([kafkalog.Record(b"\0\0\0\0\1" + (b"\0" if kind == "PROTOBUF" else b"") + body)])
    command = [sys.executable, "-c", READ, str(tmp_path), form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    # No signal, as of a stack that ends, and no panic.
    assert (done.returncode, done.stderr) == (0, "")
    said, _ = json.loads(done.stdout)
    if end == "first":
        assert "refer to each other" in said
    elif end == "missing":
        assert f"refers to s{LENGTH} version 1 as 'f{LENGTH}', which is not in" in str(said).replace('"', "'")
    else:
        assert said == 1 or "bad_schema" in said or "decode_as" in said
