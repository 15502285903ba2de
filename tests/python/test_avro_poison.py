"""Damaged Avro values in a log: each is null with a reason, or what fastavro reads there; the others stay."""

from __future__ import annotations

import io
import random
import re
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

import kafkalog
from random_avro import Made, Maker, column, difference
from tiers import SEED, pick
from typed_cases import plain

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = pick(6, 100, 1_000)
# Damages of each of the twelve values of a schema.
DAMAGES = pick(12, 60, 200)
# Faults that fastavro passes over: odd booleans and numbers (Java takes some, too), negative indexes that count from
# the end in Python, and what the types of columns cannot hold.
STRICTER = re.compile(
    r"boolean \d|beyond (32|64) bits|a number of more than|(branch|symbol) -|length -|a block of -"
    r"|no decimal|no time of a day|items without bytes|(too_large|invalid_utf8)"
)


_DAMAGED = object()


def _damaged(rng: random.Random, body: bytes) -> bytes:
    how = rng.randrange(4)
    if how == 0:
        return body[: rng.randrange(len(body) + 1)]
    if how == 1:
        return body + rng.randbytes(rng.choice([1, 1, 7]))
    if not body:
        return b"\0"
    damaged = bytearray(body)
    at = rng.randrange(len(body))
    damaged[at] ^= 1 << rng.randrange(8) if how == 2 else rng.randrange(1, 256)
    return bytes(damaged)


def _witness(made: Made, body: bytes) -> Any:
    """Value that fastavro reads; an error, also for bytes after the value.

    Not for what is one of ``STRICTER``: fastavro makes a list of a billion items that take no bytes.
    """
    stream = io.BytesIO(body)
    try:
        value = fastavro.schemaless_reader(stream, made.base, None)
    except Exception as error:  # noqa: BLE001 - whatever the bytes lead it to
        return error
    return value if stream.tell() == len(body) else ValueError("bytes after the value")


@pytest.mark.parametrize("case", range(SCHEMAS))
def test_a_damaged_value_touches_no_other(case: int, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {case}")  # noqa: S311 - to be repeated, not secret
    maker = Maker(rng)
    made = maker.schema(rng.choice([1, 2, 4]))
    while str(made.root) not in made.names:
        made = maker.schema(2)
    payloads, whole = [], []
    for _ in range(12):
        value = maker.value(made, made.root, 2)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, made.base, value)
        body = out.getvalue()
        for damage in range(DAMAGES):
            payloads += [body, _damaged(rng, body)] if damage else [body, body[:-1], body]
            whole += [value, _DAMAGED] if damage else [value, _DAMAGED, value]
    framed = [b"\0\0\0\0\1" + body for body in payloads]
    with kafkalog.LogWriter(tmp_path, "orders") as writer:
        writer.append(pa.table({"value": pa.array(framed, pa.binary())}))
    table = kafkalog.read_table(
        tmp_path,
        decode="value",
        columns=["value", "valueError"],
        schemas={1: made.text()},
        reader_schema=made.text(),
        on_undecoded="null",
    )
    errors = table["valueError"].to_pylist()
    assert len(errors) == len(whole)
    for row, (found, error, value) in enumerate(zip(plain(table["value"]), errors, whole, strict=True)):
        where = f"seed {SEED}, case {case}, row {row}: {made.text()}: {payloads[row].hex()}"
        if error is not None:
            assert found is None
            assert value is _DAMAGED, f"{where}: {error}"
            if not STRICTER.search(error):
                want = _witness(made, payloads[row])
                assert isinstance(want, Exception), f"{where}: {error}, fastavro {want}"
        else:
            want = _witness(made, payloads[row]) if value is _DAMAGED else value
            assert not isinstance(want, Exception), f"{where}: {found}, fastavro {want!r}"
            assert not (wrong := difference(found, column(made, made.root, want))), f"{where}: {wrong}"
