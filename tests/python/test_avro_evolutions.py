"""Random Avro schemas and evolutions of them: what fastavro writes, and reads under another schema, is what we read."""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest

import kafkalog
from random_avro import Made, Maker, column, difference, text
from tiers import SEED, pick
from typed_cases import plain

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

# Schemas, each with versions and values of all of them: 400 of them, or 100,000.
CASES = pick(20, 500, 5_000)
VALUES = pick(20, 200, 200)


def _encoded(made: Made, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, made.base, value)
    return out.getvalue()


def _framed(schema_id: int, made: Made, value: Any) -> bytes:
    body = _encoded(made, value)
    if made.root == "bytes" or (isinstance(made.root, dict) and made.root["type"] == "bytes"):
        # Confluent's serializers write no length there.
        body = value
    return b"\0" + schema_id.to_bytes(4, "big") + body


def _resolved(writer: Made, reader: Made, body: bytes) -> Any:
    """Value that fastavro reads, or its error.

    Nothing where it stumbles over named types in unions, and for arrays and maps of other items, of which Java reads
    the empty ones.
    """
    try:
        return fastavro.schemaless_reader(io.BytesIO(body), writer.base, reader.base)
    except TypeError:
        return ...
    except fastavro.read.SchemaResolutionError as error:
        # The second where the writer has a union.
        said = [
            f"{begin}{{'type': '{kind}'"
            for begin in ("Schema mismatch: ", "not found in ")
            for kind in ("array", "map")
        ]
        is_late = any(each in str(error) for each in said)
        return ... if is_late else error
    except (EOFError, ValueError) as error:
        return error


def _written(log_dir: Path, payloads: list[bytes]) -> None:
    with kafkalog.LogWriter(log_dir, "orders") as writer:
        writer.append(pa.table({"value": pa.array(payloads, pa.binary())}))


@pytest.mark.parametrize("case", range(CASES))
def test_columns_are_what_fastavro_reads(case: int, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {case}")  # noqa: S311 - to be repeated, not secret
    maker = Maker(rng)
    versions = [maker.schema(rng.choice([1, 3, 5]))]
    while len(versions) < 3:
        versions.append(maker.evolved(versions[-1]))
    reader = rng.choice([0, 2, 2, 2])
    payloads, expected, texts = [], [], []
    for _ in range(VALUES):
        version = rng.randrange(3)
        made = versions[version]
        value = maker.value(made, made.root)
        payloads.append(_framed(version + 1, made, value))
        texts.append(text(made, made.root, value))
        expected.append(_resolved(made, versions[reader], _encoded(made, value)))
    _written(tmp_path, payloads)
    options: dict[str, Any] = {"decode": "value", "columns": ["value", "valueError"], "on_undecoded": "null"}
    schemas: dict[int | str, str | PathLike[str]] = {number + 1: made.text() for number, made in enumerate(versions)}
    table = kafkalog.read_table(tmp_path, schemas=schemas, reader_schema=versions[reader].text(), **options)
    made = versions[reader]
    where = f"seed {SEED}, case {case}, reader {reader + 1}: {schemas}"
    for row, (found, error, want) in enumerate(
        zip(plain(table["value"]), table["valueError"].to_pylist(), expected, strict=True)
    ):
        if want is ...:
            continue
        if isinstance(want, Exception):
            assert error is not None, f"{where}; row {row} {payloads[row]!r}: {found}, fastavro {want!r}"
        else:
            assert error is None, f"{where}; row {row} {payloads[row]!r}: {error}, fastavro {want}"
            wrong = difference(found, column(made, made.root, want))
            assert not wrong, f"{where}; row {row} {payloads[row]!r}: {wrong}"
    table = kafkalog.read_table(tmp_path, schemas=schemas, decode_as="json", **options)
    for row, (found, error, want) in enumerate(
        zip(table["value"].to_pylist(), table["valueError"].to_pylist(), texts, strict=True)
    ):
        assert error is None, f"{where}; row {row} {payloads[row]!r}: {error}"
        wrong = difference(json.loads(str(found)), want)
        assert not wrong, f"{where}; row {row} {payloads[row]!r}: {wrong}"


@pytest.mark.parametrize("case", range(CASES // 4))
def test_recursive_values_are_text(case: int, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} recursive {case}")  # noqa: S311 - the same
    maker = Maker(rng, recursive=True)
    made = maker.schema(3)
    values = [maker.value(made, made.root) for _ in range(VALUES)]
    _written(tmp_path, [_framed(1, made, value) for value in values])
    table = kafkalog.read_table(tmp_path, decode="value", columns="value", decode_as="json", schemas={1: made.text()})
    for found, value in zip(table["value"].to_pylist(), values, strict=True):
        want = text(made, made.root, value)
        wrong = difference(json.loads(str(found)), want)
        assert not wrong, f"seed {SEED}, case {case}: {made.text()}: {wrong}"
