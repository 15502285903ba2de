"""Hostile Avro values and schemas: an answer with a reason, in little memory and time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

# One value may take 256 MiB (`cursor.rs`); a column that grows is copied, and handed over.
ROOM = 1536 << 20
SECONDS = 60


def _zigzag(number: int) -> bytes:
    number = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = _array(schema)
    return schema


HUGE = _zigzag(1 << 61)
WIDE = _record("Wide", *["null"] * 1000)
FIXED = {"type": "fixed", "name": "F", "size": 60_000}
LIST = _record("L", ["null", "L"])
# Names of two at each level: their values are as many as the types of a tree.
TREE = _record("T0", "int", "int")
for level in range(1, 14):
    TREE = _record(f"T{level}", TREE, f"T{level - 1}")

# A schema, a value, and words of the reason.
VALUES: dict[str, tuple[Any, bytes, str]] = {
    "items without bytes that are left": (_array("int"), HUGE, "truncated"),
    "a negative count": (_array("int"), _zigzag(-(1 << 61)) + _zigzag(5), "truncated"),
    "entries without bytes that are left": ({"type": "map", "values": "int"}, HUGE, "truncated"),
    "nulls": (_array("null"), HUGE, "items without bytes"),
    "empty records": (_array(_record("E")), HUGE, "items without bytes"),
    "empty fixed": (_array({"type": "fixed", "name": "F", "size": 0}), HUGE, "items without bytes"),
    "wide records without bytes": (_array(WIDE), HUGE, "too_large|items without bytes"),
    "wide nulls": (_array(["null", FIXED]), _zigzag(100_000) + bytes(100_001), "too_large"),
    "lists of nulls in lists": (
        _array(_array("null")),
        (_zigzag(1000) + (_zigzag(1 << 20) + b"\0") * 1000 + b"\0"),
        "items without bytes",
    ),
    "a long text": ("string", _zigzag(1 << 61), "truncated"),
    "a text of negative length": ("string", _zigzag(-5), "malformed"),
    "long bytes": (_record("B", "bytes"), _zigzag(1 << 31), "truncated"),
    "a deep value": (LIST, b"\2" * 1_000_000, "deeper|refers to itself"),
    "a value deeper than 64": (_nested(70), b"\2" * 70, "deeper"),
    "a long decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
        b"\x7f" * 1_000_000,
        "no decimal|too_large",
    ),
    "a tree of fields": (TREE, b"", "truncated|more than"),
}


def _schemas() -> dict[str, str]:
    """Texts of up to 10 MB."""
    chain = ["null", _record("R0", "int")]
    chain += [_record(f"R{n}", f"R{n - 1}", f"R{n - 1}") for n in range(1, 100_000)]
    return {
        "open brackets": "[" * 10_000_000,
        "open objects": '{"type":' * 1_250_000,
        "closed objects": '{"type":' * 500_000 + '"int"' + "}" * 500_000,
        "a text without an end": '"' + "a" * 10_000_000,
        "escapes": '"' + "\\u0000" * 1_600_000 + '"',
        "symbols": json.dumps({"type": "enum", "name": "E", "symbols": [f"S{n}" for n in range(900_000)]}),
        "fields": json.dumps(_record("R", *["int"] * 300_000)),
        "branches": json.dumps([{"type": "fixed", "name": f"F{n}", "size": 4} for n in range(200_000)]),
        "a union of one name": json.dumps(["int"] * 1_000_000),
        "references": json.dumps(chain),
        "a wide default": json.dumps(
            {
                "type": "record",
                "name": "D",
                "fields": [{"name": "a", "type": _array("int"), "default": [1] * 3_000_000}],
            }
        ),
        "a huge fixed": json.dumps({"type": "fixed", "name": "F", "size": 2**31 - 1}),
        "a long name": json.dumps(_record("N" * 5_000_000, "int")),
        "aliases": json.dumps({**_record("R", "int"), "aliases": [f"A{n}" for n in range(900_000)]}),
    }


READ = """
import json, resource, sys, time
from pathlib import Path
import kafkalog
folder, room = Path(sys.argv[1]), int(sys.argv[2])
taken = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_AS, (taken + room, resource.RLIM_INFINITY))
for name, path in json.loads(sys.stdin.read()):
    text = Path(path).read_text()
    for form in ("struct", "json"):
        begun = time.perf_counter()
        try:
            table = kafkalog.read_table(
                folder / name, decode="value", columns=["value", "valueError"], schemas={1: text},
                reader_schema=text if form == "struct" else "latest", decode_as=form, on_undecoded="null",
            )
            found = table["valueError"][0].as_py() or ""
        except ValueError as error:
            found = f"{error}"
        print(json.dumps([name, form, found[:2000], time.perf_counter() - begun]), flush=True)
"""


def _answers(tmp_path: Path, cases: dict[str, tuple[str, bytes]]) -> list[tuple[str, str, str, float]]:
    asked = []
    for name, (text, body) in cases.items():
        with kafkalog.LogWriter(tmp_path / name, "orders") as writer:
            writer.append(pa.table({"value": pa.array([b"\0\0\0\0\1" + body], pa.binary())}))
        path = tmp_path / f"{name}.avsc"
        path.write_text(text)
        asked.append([name, str(path)])
    command = [sys.executable, "-c", READ, str(tmp_path), str(ROOM)]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, check=False, timeout=SECONDS * 10
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited as on Linux")
def test_values_take_little(tmp_path: Path) -> None:
    cases = {name: (json.dumps(schema), body) for name, (schema, body, _) in VALUES.items()}
    found = _answers(tmp_path, cases)
    assert len(found) == 2 * len(VALUES)
    for name, form, error, seconds in found:
        is_small = form == "json" and name in {"a long decimal", "wide nulls"}
        assert is_small or re.search(VALUES[name][2], error), (name, form, error)
        assert seconds < SECONDS, (name, form, seconds)


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited as on Linux")
def test_schemas_take_little(tmp_path: Path) -> None:
    texts = _schemas()
    found = _answers(tmp_path, {name: (text, b"\0") for name, text in texts.items()})
    assert len(found) == 2 * len(texts)
    for name, form, error, seconds in found:
        assert len(error) < 1000
        assert seconds < SECONDS, (name, form, seconds)


@pytest.mark.parametrize("precision", [4, 38, 40, 76])
def test_a_column_holds_no_decimal_beyond_its_precision(precision: int, tmp_path: Path) -> None:
    """Such a number is written wrong to Parquet and read wrong by DuckDB; text has all digits."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
    schema = json.dumps(_record("R", decimal, "int"))
    most = 10**precision - 1
    payloads = []
    for number in (most, most + 1, -most, -most - 1):
        body = number.to_bytes(40, "big", signed=True)
        payloads.append(b"\0\0\0\0\1" + _zigzag(len(body)) + body + b"\2")
    with kafkalog.LogWriter(tmp_path, "orders") as writer:
        writer.append(pa.table({"value": pa.array(payloads, pa.binary())}))
    options: dict[str, Any] = {"decode": "value", "columns": ["value", "valueError"], "schemas": {1: schema}}
    table = kafkalog.read_table(tmp_path, reader_schema=schema, on_undecoded="null", **options)
    values = [None if row is None else row["f0"] for row in table["value"].to_pylist()]
    assert [str(value).replace(".", "") for value in values] == [str(most), "None", str(-most), "None"]
    table["value"].combine_chunks().validate(full=True)
    reasons = table["valueError"].to_pylist()
    assert [reason is None for reason in reasons] == [True, False, True, False]
    assert f"no decimal of {precision} digits" in str(reasons[1])
    texts = kafkalog.read_table(tmp_path, decode_as="json", **options)["value"].to_pylist()
    digits = [json.loads(str(text))["f0"].replace(".", "") for text in texts]
    assert digits == [str(most), str(most + 1), str(-most), str(-most - 1)]
