"""JSON values are what Python's ``json`` reads from the same records, under the types of their schema."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

import kafkalog
import tiers
import typed_cases
from typed_cases import GOLDEN, Case, is_message, plain

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = tiers.pick(8, 200, 500)


def _cases() -> list[Case]:
    found = [case for case in typed_cases.cases() if tiers.FULL or case.folder.parent == GOLDEN]
    return [case for case in found if any(row.get("schemaType") == "JSON" for row in case.rows)]


@pytest.mark.parametrize("form", ["json", "struct"])
@pytest.mark.parametrize("case", _cases(), ids=str)
def test_value_is_what_python_reads(case: Case, form: Any) -> None:
    if form == "struct" and not any(row.get("reader") for row in case.rows):
        # Schemas under the names of records alone.
        with pytest.raises(ValueError, match='decode_as="json", which serves several record types'):
            kafkalog.read_table(case.folder / "data-0", case.topic, decode=case.side)  # type: ignore[arg-type]
        return
    table = kafkalog.read_table(
        case.folder / "data-0",
        case.topic,
        partitions=[case.partition],
        decode=case.side,  # type: ignore[arg-type]
        decode_as=form,
        columns=[case.side, f"{case.side}Error"],
        on_undecoded="null",
    )
    kind = table.schema.field(case.side).type
    errors: list[Any] = table[f"{case.side}Error"].to_pylist()
    for row, value, error in zip(case.rows, plain(table[case.side].combine_chunks()), errors, strict=True):
        if row.get("schemaType") != "JSON" or (form == "struct" and "readError" in row):
            continue
        if "error" in row:
            assert error.split()[0].rstrip(":") in row.get("errors", [row["error"]]), (row, error)
        elif error is not None:
            # Text that does not fit the schema, which registries do not check.
            assert (form, value) == ("struct", None)
            assert case.topic == "j-odd" or "half of a surrogate pair" in error, (row, error)
        elif pa.types.is_string(kind):
            # As a column of structs has no null of its own, nor has one of text that stands for it.
            assert value == (None if (form, row["text"].strip()) == ("struct", "null") else row["text"])
        else:
            assert is_message(kind, value, row["writer"]), (row, value)


class Schema:
    """A random schema with one type everywhere, and values that it allows."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        is_new = seed % 2 == 0
        self.where = "$defs" if is_new else "definitions"
        self.definitions = {name: self._object(1) for name in ("one", "two words", "a/b~c%")}
        self.json = {
            "$schema": "https://json-schema.org/draft/2020-12/schema"
            if is_new
            else "http://json-schema.org/draft-07/schema#",
            self.where: self.definitions,
            **self._object(0),
        }

    def _object(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(["a", "b", "ü", 'quo"te', "back\\slash", "id", "x y"], self.random.randint(1, 4))
        found: dict[str, Any] = {"type": "object", "properties": {name: self._any(depth + 1) for name in names}}
        if self.random.random() < 0.5:
            found["required"] = names[:1]
        if self.random.random() < 0.5:
            found["additionalProperties"] = False
        return found

    def _any(self, depth: int) -> dict[str, Any]:
        ways = ["string", "integer", "number", "boolean", "enum"]
        ways += ["object", "array", "map", "ref"] * (depth < 3)
        way = self.random.choice(ways)
        found: dict[str, Any] = {"type": way}
        if way == "enum":
            found = {"enum": ["red", "green"]}
        elif way == "object":
            found = self._object(depth)
        elif way == "array":
            found["items"] = self._any(depth + 1)
        elif way == "map":
            found = {"type": "object", "additionalProperties": self._any(depth + 1)}
        elif way == "ref" and depth < 2:
            name = self.random.choice(["one", "two words", "a/b~c%"])
            escaped = name.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace(" ", "%20")
            return {"$ref": f"#/{self.where}/{escaped}"}
        elif way == "ref":
            found = {"type": "string", "format": "date-time"}
        if self.random.random() < 0.3:
            if isinstance(found.get("type"), str):
                found["type"] = [found["type"], "null"]
            else:
                found = {"oneOf": [{"type": "null"}, found]}
        return found

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema that a reference means, or that is no null."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            for escape, char in (("%20", " "), ("%25", "%"), ("~1", "/"), ("~0", "~")):
                name = name.replace(escape, char)
            return self.resolved(self.definitions[name])
        return self.resolved(schema["oneOf"][1]) if "oneOf" in schema else schema

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """A value that the schema allows."""
        is_nullable = "oneOf" in schema or isinstance(schema.get("type"), list)
        if is_nullable and self.random.random() < 0.3:
            return None
        schema = self.resolved(schema)
        kind = schema.get("type", "string")
        kind = kind if isinstance(kind, str) else kind[0]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if kind == "string":
            return self.random.choice(["", "x", "naïve 東京🦀", 'a"b\\c\n\t', "\u0001"])
        if kind == "integer":
            return self.random.choice(
                [0, -1, (1 << 63) - 1, -(1 << 63), 1.0, 2e3, self.random.randint(-(10**9), 10**9)]
            )
        if kind == "number":
            return self.random.choice([0, 1.5, -2.25e-7, 1e300, 3, self.random.random()])
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind == "array":
            return [self.value(schema["items"], depth + 1) for _ in range(self.random.choice([0, 1, 3]))]
        if "properties" not in schema:
            keys = self.random.sample(["k", "", "ü", "a.b"], self.random.choice([0, 1, 3]))
            return {key: self.value(schema["additionalProperties"], depth + 1) for key in keys}
        must = schema.get("required", ())
        names = [name for name in schema["properties"] if name in must or self.random.random() < 0.7]
        self.random.shuffle(names)
        found = {name: self.value(schema["properties"][name], depth + 1) for name in names}
        if "additionalProperties" not in schema and self.random.random() < 0.3:
            found["more"] = [{"of": "it"}, None]
        return found

    def row(self, schema: dict[str, Any], value: Any) -> Any:
        """The row of a value."""
        if value is None:
            return None
        schema = self.resolved(schema)
        if isinstance(value, list):
            return [self.row(schema["items"], each) for each in value]
        if isinstance(value, dict) and "properties" in schema:
            members = schema["properties"].items()
            return {name: self.row(each, value.get(name)) for name, each in members}
        if isinstance(value, dict):
            inner = schema["additionalProperties"]
            return sorted((key, self.row(inner, each)) for key, each in value.items())
        kinds = schema.get("type", ())
        return float(value) if "number" in kinds else int(value) if "integer" in kinds else value


@pytest.mark.parametrize("number", range(SCHEMAS))
def test_random_schemas(tmp_path: Path, number: int) -> None:
    print(f"seed {tiers.SEED + number}")
    schema = Schema(tiers.SEED + number)
    validator = jsonschema.validators.validator_for(schema.json)(schema.json)
    values = [schema.value(schema.json) for _ in range(50)]
    assert all(validator.is_valid(value) for value in values)
    indent = [None, 1][number % 2]
    payloads = [
        b"\0\0\0\0\7" + json.dumps(value, indent=indent, ensure_ascii=number % 3 == 0).encode() for value in values
    ]
    with kafkalog.LogWriter(tmp_path / "d", "t") as writer:
        writer.append(pa.table({"value": pa.array(payloads, pa.binary())}))
    text = json.dumps(schema.json)
    options: dict[str, Any] = {"decode": "value", "schemas": {7: text}}
    column = kafkalog.read_table(tmp_path / "d", "t", **options, columns=["value"])["value"].combine_chunks()
    found = plain(column)
    for value, got in zip(values, found, strict=True):
        want = schema.row(schema.json, value)
        assert got == want, (text, value)
        # Both are what the schema says: true is no 1.
        assert json.dumps(got) == json.dumps(want)
    first = next(iter(schema.json["properties"]))
    if "." not in first:
        part = kafkalog.read_table(tmp_path / "d", "t", **options, columns=[f"value.{first}"])["value"].combine_chunks()
        assert part.type.num_fields == 1
        assert plain(part) == [{first: each[first]} for each in found]


def test_only_wanted_members_are_built(tmp_path: Path) -> None:
    text = '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}'
    with kafkalog.LogWriter(tmp_path / "d", "t") as writer:
        writer.append(pa.table({"value": [b'\0\0\0\0\7{"b": "no integer", "a": 5}']}))
    options: dict[str, Any] = {"decode": "value", "schemas": {7: text}}
    assert kafkalog.read_table(tmp_path / "d", "t", columns=["value.a"], **options)["value"].to_pylist() == [{"a": 5}]
    with pytest.raises(kafkalog.KafkaLogError, match="the schema has an integer"):
        kafkalog.read_table(tmp_path / "d", "t", columns=["value.b"], **options)
