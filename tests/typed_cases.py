"""Cases of typed values: log dirs with their schemas, and what witnesses (fastavro, Java, google.protobuf) read there.

A corpus is a folder with ``<case>/data-0`` and ``<case>/expected``; ``../shared/corpus/typed/MANIFEST.md`` describes
the members. ``tests/golden/typed`` holds a few; ``KAFKALOG_TYPED_CORPUS`` names others.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import os
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from clone import SHARED_CORPUS

GOLDEN = Path(__file__).resolve().parent / "golden" / "typed"
SHARED = SHARED_CORPUS / "typed"
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def roots() -> list[Path]:
    """Folders of cases."""
    given = os.environ.get("KAFKALOG_TYPED_CORPUS")
    found = [Path(each) for each in given.split(os.pathsep)] if given else [GOLDEN, SHARED]
    return [root for root in found if root.is_dir()]


class Case(NamedTuple):
    """A side of a partition."""

    folder: Path
    topic: str
    partition: int
    side: str

    def __str__(self) -> str:
        return f"{self.folder.name}/{self.topic}-{self.partition}/{self.side}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The answers of the witnesses, by offset."""
        path = self.folder / "expected" / f"{self.topic}-{self.partition}" / "values.jsonl.gz"
        with gzip.open(path) as lines:
            return [row for row in map(json.loads, lines) if row["side"] == self.side]

    @property
    def schemas(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The schemas by subject and version."""
        lines = (self.folder / "expected" / "schemas.jsonl").read_text().splitlines()
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for row in map(json.loads, lines):
            if "duplicateOf" not in row:
                found[row["subject"], row["version"]] = row
        return found

    def texts(self, row: dict[str, Any]) -> list[str]:
        """A schema's text, after those that it refers to."""
        found: list[str] = []
        for reference in row["references"]:
            subject = reference["subject"]
            if not subject.startswith(":") and row["context"] != ".":
                subject = f":{row['context']}:{subject}"
            found += self.texts(self.schemas[subject, reference["version"]])
        return [*found, row["schema"]]


def cases() -> list[Case]:
    """All partitions and sides of all cases."""
    found = []
    for root in roots():
        for path in sorted(root.glob("*/expected/*/values.jsonl.gz")):
            topic, _, number = path.parent.name.rpartition("-")
            folder = path.parents[2]
            with gzip.open(path) as lines:
                sides = sorted({json.loads(line)["side"] for line in lines})
            found += [Case(folder, topic, int(number), side) for side in sides]
    return found


class AvroSchema:
    """An Avro schema that turns a witness's JSON into what Arrow's columns hold."""

    def __init__(self, texts: list[str]) -> None:
        self.names: dict[str, Any] = {}
        for text in texts:
            try:
                self.root: Any = json.loads(text)
            except ValueError:
                self.root = text
            self._name(self.root, "")

    def _name(self, schema: Any, space: str) -> None:
        if isinstance(schema, list):
            for each in schema:
                self._name(each, space)
        if not isinstance(schema, dict):
            return
        kind = schema["type"]
        if kind in {"record", "error", "enum", "fixed"}:
            full = self.full(schema, space)
            space = full.rpartition(".")[0]
            self.names[full] = (schema, space)
            for field in schema.get("fields", ()):
                self._name(field["type"], space)
        elif kind == "array":
            self._name(schema["items"], space)
        elif kind == "map":
            self._name(schema["values"], space)
        elif isinstance(kind, (dict, list)):
            self._name(kind, space)

    @staticmethod
    def full(schema: Any, space: str) -> str:
        """The full name of a named type."""
        name = schema["name"]
        space = schema.get("namespace", space)
        return name if "." in name or not space else f"{space}.{name}"

    def value(self, json_value: Any) -> Any:
        """The column's value."""
        return self._value(self.root, "", json_value)

    def _branch(self, schema: Any, space: str) -> str:
        if isinstance(schema, str):
            return schema if schema in _PRIMITIVES or "." in schema or not space else self._known(schema, space)
        if schema["type"] in {"record", "error", "enum", "fixed"}:
            return self.full(schema, space)
        return schema["type"] if isinstance(schema["type"], str) else self._branch(schema["type"], space)

    def _known(self, name: str, space: str) -> str:
        return f"{space}.{name}" if f"{space}.{name}" in self.names else name

    def _value(self, schema: Any, space: str, value: Any) -> Any:  # noqa: C901, PLR0912
        if isinstance(schema, list):
            branches = [each for each in schema if each != "null"]
            if value is None:
                return None
            ((name, inner),) = value.items()
            found = [(self._branch(each, space), each) for each in branches]
            if len(branches) == 1:
                return self._value(branches[0], space, inner)
            return {branch: self._value(each, space, inner) if branch == name else None for branch, each in found}
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            schema, space = self.names[self._known(schema, space) if "." not in schema else schema]
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, (dict, list)):
            return self._value(kind, space, value)
        if isinstance(schema, dict) and kind not in _PRIMITIVES | _COMPLEX:
            return self._value(kind, space, value)
        if value is None:
            return None
        if kind in {"record", "error"}:
            own = self.full(schema, space).rpartition(".")[0]
            return {each["name"]: self._value(each["type"], own, value[each["name"]]) for each in schema["fields"]}
        if kind == "array":
            return [self._value(schema["items"], space, each) for each in value]
        if kind == "map":
            # Witnesses sort the entries.
            return sorted(((key, self._value(schema["values"], space, each)) for key, each in value.items()), key=_key)
        if kind in {"float", "double"}:
            return _FLOATS.get(value, value) if isinstance(value, str) else float(value)
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if kind in {"bytes", "fixed"}:
            if logical == "decimal" and isinstance(value, str) and _is_decimal(schema, value):
                return Decimal(value)
            if logical == "uuid" and kind == "fixed":
                return value
            return base64.b64decode(value)
        if kind == "int" and logical == "time-millis":
            # A column of times has microseconds.
            return value * 1000
        return value


_PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_COMPLEX = {"record", "error", "enum", "array", "map", "fixed"}


def _is_decimal(schema: Any, value: str) -> bool:
    """Tell whether a logical type fits its base type, as the witnesses judge."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or precision < 1 or not isinstance(scale, int) or not 0 <= scale <= precision:
        return False
    try:
        Decimal(value)
    except ArithmeticError:
        return False
    return True


def plain(array: Any) -> list[Any]:
    """The values of a column: times as numbers, maps as pairs."""
    kind, has = array.type, pa.types
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain(chunk)]
    if has.is_struct(kind):
        columns = {field.name: plain(array.field(field.name)) for field in kind}
        valid = array.is_valid().to_pylist()
        return [
            {name: column[row] for name, column in columns.items()} if valid[row] else None for row in range(len(array))
        ]
    if has.is_list(kind) or has.is_map(kind):
        begin, *ends = array.offsets.to_pylist()
        items = (
            plain(array.values) if has.is_list(kind) else list(zip(plain(array.keys), plain(array.items), strict=True))
        )
        found: list[Any] = []
        for end, valid in zip(ends, array.is_valid().to_pylist(), strict=True):
            row = items[begin:end]
            found.append((sorted(row, key=_key) if has.is_map(kind) else row) if valid else None)
            begin = end
        return found
    if has.is_date32(kind):
        return array.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if has.is_time(kind) or has.is_timestamp(kind):
        return array.cast(pa.int32() if has.is_time32(kind) else pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def _key(entry: tuple[Any, Any]) -> Any:
    return entry[0]


def same(found: Any, expected: Any) -> bool:
    """Tell whether two values are equal; NaN is equal to itself, and zeros have signs."""
    if isinstance(expected, float) and isinstance(found, (int, float)) and not isinstance(found, bool):
        if math.isnan(expected):
            return math.isnan(found)
        return found == expected and math.copysign(1, found) == math.copysign(1, expected)
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(expected)
            and all(same(found[name], expected[name]) for name in expected)
        )
    if isinstance(expected, (list, tuple)):
        return isinstance(found, (list, tuple)) and len(found) == len(expected) and all(map(same, found, expected))
    return type(found) is type(expected) and found == expected


def is_message(kind: pa.DataType, found: Any, want: Any) -> bool:
    """Tell whether a value of :func:`plain` is what a witness of Protobuf or JSON read."""
    has = pa.types
    if found is None or want is None:
        return found is None and want is None
    if has.is_struct(kind):
        members = {name: is_message(kind.field(name).type, found[name], want.get(name)) for name in found}
        return all(members.values())
    if has.is_timestamp(kind):
        return bool(found == want["seconds"] * 10**6 + want["nanos"] // 1000)
    if has.is_map(kind):
        pairs = [(_name(key), value) for key, value in found]
        return len(pairs) == len(want) and all(is_message(kind.item_type, each, want[key]) for key, each in pairs)
    if has.is_list(kind):
        pairs = list(zip(found, want, strict=False))
        return len(found) == len(want) and all(is_message(kind.value_type, *pair) for pair in pairs)
    if isinstance(want, dict) and set(want) == {"value"}:
        want = want["value"]
    if has.is_string(kind):
        # Numbers that an enum does not name are digits; what has no type of its own is text of JSON.
        return found in {want if isinstance(want, str) else None, str(want)} or is_json(found, want)
    if has.is_binary(kind):
        return bool(found == base64.b64decode(want))
    if has.is_floating(kind):
        return same(found, _FLOATS.get(want, want) if isinstance(want, str) else float(want))
    return bool(found == want)


def is_json(text: str, want: Any) -> bool:
    """Tell whether a text of JSON means this value. That of a message may show a well-known one in another form."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(want, dict) or same(found, want) or isinstance(want, list)


def _name(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


# What tests/golden/typed holds of the corpus: names of cases with patterns of their partitions.
_COPIED = {
    "json-schema": "*",
    "keys": "key-[ioru]*",
    "poison": "poison-[amns][vieuk]*",
    "protobuf-basic": "[b-z]*",
}


def copy(corpus: Path, to: Path) -> None:
    """Copy the logs and expected values of some partitions."""
    for case, pattern in _COPIED.items():
        for found in sorted((corpus / case / "expected").glob(f"{pattern}/values.jsonl.gz")):
            partition = found.parent.name
            _copy_file(found, to / case / "expected" / partition / found.name)
            _copy_log(corpus / case, to / case, partition)
        _copy_log(corpus / case, to / case, "_schemas-0")
        _copy_file(corpus / case / "expected" / "schemas.jsonl", to / case / "expected" / "schemas.jsonl")


def _copy_log(case: Path, to: Path, partition: str) -> None:
    for log in (case / "data-0" / partition).glob("*.log"):
        _copy_file(log, to / "data-0" / partition / log.name)


def _copy_file(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(source.read_bytes())


if __name__ == "__main__":
    copy(SHARED, GOLDEN)
