"""Random Avro schemas, compatible evolutions of them, values, and what these are in columns and in JSON.

fastavro is the witness of bytes and of schema resolution. It reads and writes base types here (`base`), so that no
logical type changes a value; `column` and `text` then say what a logical type makes of it. A union has one branch of
each kind of Python value, so that a value tells its branch.
"""

from __future__ import annotations

import base64
import copy
import functools
import json
import math
import struct
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro

from typed_cases import same

if TYPE_CHECKING:
    import random
    from collections.abc import Container

Schema = Any

_LOGICAL = {
    "int": ["date", "time-millis"],
    "long": [
        "time-micros",
        *(f"{local}timestamp-{unit}" for local in ("", "local-") for unit in ("millis", "micros", "nanos")),
    ],
    "string": ["uuid"],
    "bytes": ["decimal"],
    "fixed": ["decimal", "uuid", "duration"],
}
_KIND = {
    "null": "null",
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "string": "str",
    "enum": "str",
    "bytes": "bytes",
    "fixed": "bytes",
    "array": "list",
    "map": "dict",
    "record": "dict",
}
_DAY_MS = 86_400_000


def kind(schema: Schema) -> str:
    """The word for a type."""
    if isinstance(schema, list):
        return "union"
    return schema if isinstance(schema, str) else str(schema["type"])


class Made:
    """A schema whose named types are kept apart, so that all of their uses change together."""

    def __init__(self, root: Schema, names: dict[str, Schema]) -> None:
        self.root, self.names = root, names

    def resolve(self, schema: Schema) -> Schema:
        """The definition of a named type; other types as they are."""
        return self.names.get(schema, schema) if isinstance(schema, str) else schema

    def text(self) -> str:
        """The schema's text: a named type is defined where it occurs first."""
        return json.dumps(self._rendered(self.root, set()))

    @functools.cached_property
    def base(self) -> Schema:
        """The schema without logical types, parsed by fastavro."""
        return fastavro.parse_schema(_without_logical(json.loads(self.text())))

    def _rendered(self, schema: Schema, seen: set[str]) -> Schema:
        if isinstance(schema, list):
            return [self._rendered(each, seen) for each in schema]
        if isinstance(schema, str):
            if schema not in self.names or schema in seen:
                return schema
            seen.add(schema)
            schema = self.names[schema]
        found = dict(schema)
        for member in ("items", "values"):
            if member in found:
                found[member] = self._rendered(found[member], seen)
        if "fields" in found:
            found["fields"] = [{**each, "type": self._rendered(each["type"], seen)} for each in found["fields"]]
        return found


def _without_logical(schema: Schema) -> Schema:
    if isinstance(schema, list):
        return [_without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: value for name, value in schema.items() if name not in {"logicalType", "precision", "scale"}}
    for member in ("items", "values", "type"):
        if member in found:
            found[member] = _without_logical(found[member])
    if "fields" in found:
        found["fields"] = [_without_logical(each) for each in found["fields"]]
    return found


class Maker:
    """Schemas, evolutions and values of one random generator."""

    def __init__(self, rng: random.Random, *, recursive: bool = False) -> None:
        self.rng, self.recursive = rng, recursive
        self.number = 0
        # Enums of which a default is a symbol.
        self.fixed: set[str] = set()

    def schema(self, depth: int = 4) -> Made:
        """A schema, mostly a record."""
        made = Made(None, {})
        made.root = self._record(made, depth, []) if self.rng.random() < 0.85 else self._type(made, depth, [])
        return made

    def _name(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    def _type(self, made: Made, depth: int, around: list[str]) -> Schema:
        rng = self.rng
        if made.names and rng.random() < 0.1:
            known = [name for name in made.names if name not in around]
            if known:
                return rng.choice(known)
        word = rng.choice(
            ["null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum"]
            + ["record", "record", "array", "map", "union", "union"] * (depth > 0)
        )
        return self._of(word, made, depth - 1, around)

    def _of(self, word: str, made: Made, depth: int, around: list[str]) -> Schema:
        rng = self.rng
        if word == "union":
            return self._union(made, depth, around)
        if word == "array":
            return {"type": "array", "items": self._type(made, depth, around)}
        if word == "map":
            return {"type": "map", "values": self._type(made, depth, around)}
        if word == "record":
            return self._record(made, depth, around)
        if word == "enum":
            name = self._name("E")
            made.names[name] = {"type": "enum", "name": name, "symbols": [f"S{n}" for n in range(rng.randint(1, 5))]}
            return name
        if word == "fixed":
            name = self._name("F")
            size = rng.choice([0, 1, 4, 16, 16, 12, 33])
            found = {"type": "fixed", "name": name, "size": size}
            logical = rng.choice(["", *_LOGICAL["fixed"]])
            sizes = {"uuid": 16, "duration": 12}
            if logical == "decimal" and size:
                found |= self._decimal(int((8 * size - 1) * math.log10(2)))
            elif sizes.get(logical) == size:
                found["logicalType"] = logical
            made.names[name] = found
            return name
        if word in _LOGICAL and rng.random() < 0.5:
            logical = rng.choice(_LOGICAL[word])
            more = self._decimal(60) if logical == "decimal" else {"logicalType": logical}
            return {"type": word, **more}
        return word if word == "null" or rng.random() < 0.9 else {"type": word}

    def _decimal(self, most: int) -> dict[str, Any]:
        precision = self.rng.randint(1, min(most, 76))
        return {"logicalType": "decimal", "precision": precision, "scale": self.rng.randint(0, precision)}

    def _record(self, made: Made, depth: int, around: list[str]) -> str:
        name = self._name("R")
        record: dict[str, Any] = {"type": "record", "name": name, "fields": []}
        inside = [*around, name]
        for _ in range(self.rng.choice([0, 1, 2, 3, 4, 6, 9])):
            record["fields"].append({"name": self._name("f"), "type": self._type(made, depth, inside)})
        if self.recursive and self.rng.random() < 0.5:
            again = self.rng.choice(inside)
            record["fields"].append({"name": self._name("f"), "type": ["null", again]})
        made.names[name] = record
        return name

    def _union(self, made: Made, depth: int, around: list[str]) -> Schema:
        rng = self.rng
        found: dict[str, Schema] = {}
        if rng.random() < 0.8:
            found["null"] = "null"
        for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
            one = self._type(made, depth, around)
            if kind(one) != "union" and not _clash(found, word := _KIND[kind(made.resolve(one))]):
                found[word] = one
        return _ordered(rng.sample(list(found.values()), len(found)), made) or ["null"]

    def evolved(self, made: Made) -> Made:
        """A schema that reads most of what another wrote."""
        new = Made(None, copy.deepcopy(made.names))
        for name in list(new.names):
            self._evolve_named(new, name)
        new.root = self._evolve(made.root, new)
        return new

    def _evolve(self, schema: Schema, new: Made) -> Schema:
        rng, word = self.rng, kind(new.resolve(schema))
        if word == "union":
            return self._evolve_union(schema, new)
        if word in {"array", "map"}:
            member = "items" if word == "array" else "values"
            schema = {**schema, member: self._evolve(schema[member], new)}
        elif rng.random() < 0.15:
            wider = {"int": ["long", "float", "double"], "long": ["double"], "float": ["double"]}
            wider |= {"string": ["bytes"], "bytes": ["string"]}
            if schema == word or word not in {"string", "bytes"}:
                schema = rng.choice(wider.get(word, [schema]))
        elif isinstance(schema, dict) and "timestamp" in schema.get("logicalType", "") and rng.random() < 0.2:
            schema = word
        if rng.random() < 0.1 and word != "null":
            schema = rng.sample(["null", schema], 2)
        return schema

    def _evolve_union(self, branches: list[Schema], new: Made) -> list[Schema]:
        rng = self.rng
        branches = ["long" if each == "int" and rng.random() < 0.3 else each for each in branches]
        if rng.random() < 0.2:
            branches = rng.sample(branches, len(branches))
        if len(branches) > 1 and rng.random() < 0.1:
            branches.pop()
        kinds = {_KIND[kind(new.resolve(each))] for each in branches}
        more = [each for each in ("null", "boolean", "long", "double", "string") if not _clash(kinds, _KIND[each])]
        if more and rng.random() < 0.2:
            branches.append(rng.choice(more))
        return _ordered(branches, new)

    def _evolve_named(self, new: Made, name: str) -> None:  # noqa: C901
        rng, named = self.rng, new.names[name]
        if named["type"] == "enum":
            symbols = named["symbols"]
            if rng.random() < 0.2:
                symbols.insert(rng.randint(0, len(symbols)), self._name("T"))
            if len(symbols) > 1 and name not in self.fixed and rng.random() < 0.2:
                symbols.pop(rng.randrange(len(symbols)))
                named.pop("default", None)
                if rng.random() < 0.8:
                    named["default"] = rng.choice(symbols)
        if named["type"] == "record":
            fields = [each for each in named["fields"] if rng.random() < 0.9]
            for each in fields:
                if "default" not in each:
                    each["type"] = self._evolve(each["type"], new)
                if rng.random() < 0.1:
                    each["aliases"], each["name"] = [each["name"]], self._name("f")
            if rng.random() < 0.3:
                fields.append(self._defaulted(new))
            if rng.random() < 0.3:
                rng.shuffle(fields)
            named["fields"] = fields

    def _defaulted(self, new: Made) -> dict[str, Any]:
        """A field with a default: of a union, of its first branch."""
        simple = Made(None, {})
        word = self.rng.choice(["null", "boolean", "int", "long", "double", "string", "array", "map", "enum", "union"])
        chosen = self._of(word if word != "union" else "enum", simple, -1, [])
        value = self.value(simple, chosen)
        while not _is_json(value):
            value = self.value(simple, chosen)
        if word == "union":
            chosen = [chosen, "null"]
        new.names.update(simple.names)
        self.fixed.update(simple.names)
        return {"name": self._name("f"), "type": chosen, "default": value}

    def value(self, made: Made, schema: Schema, depth: int = 0) -> Any:  # noqa: C901, PLR0912
        """A value for fastavro to write."""
        rng = self.rng
        schema = made.resolve(schema)
        word = kind(schema)
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        if word == "union":
            if "null" in schema and depth > rng.choice([2, 3, 4, 12]):
                return None
            return self.value(made, rng.choice(schema), depth)
        if word == "null":
            return None
        if word == "boolean":
            return rng.random() < 0.5
        if word in {"int", "long"}:
            if logical in {"time-millis", "time-micros"}:
                return rng.randrange(_DAY_MS * (1000 if logical == "time-micros" else 1))
            bits = 31 if word == "int" else 63
            return rng.choice(
                [0, -1, 2**bits - 1, -(2**bits), rng.randint(-70, 70), rng.randint(-(2**bits), 2**bits - 1)]
            )
        if word in {"float", "double"}:
            number = rng.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1e-40, rng.uniform(-1e9, 1e9)])
            return single(number) if word == "float" else number
        if word == "string":
            if logical == "uuid":
                return str(uuid.UUID(int=rng.getrandbits(128)))
            letters = rng.choice(["ab", "ab", "aäßé", 'a😀€\x00"\\\n'])
            return "".join(rng.choices(letters, k=rng.choice([0, 1, 5, 20, 20, 300])))
        if word == "bytes":
            if logical == "decimal":
                number = self._number(schema["precision"])
                return number.to_bytes((number.bit_length() + 8) // 8 + rng.choice([0, 0, 1, 40]), "big", signed=True)
            return rng.randbytes(rng.choice([0, 1, 7, 40, 1000]))
        if word == "fixed":
            if logical == "decimal":
                return self._number(schema["precision"]).to_bytes(schema["size"], "big", signed=True)
            return rng.randbytes(schema["size"])
        if word == "enum":
            return rng.choice(schema["symbols"])
        count = rng.choice([0, 1, 2, 3] if depth > 3 else [0, 1, 2, 5, 20] if depth > 0 else [0, 1, 5, 150])
        if word == "array":
            return [self.value(made, schema["items"], depth + 1) for _ in range(count)]
        if word == "map":
            return {f"k{n}": self.value(made, schema["values"], depth + 1) for n in range(min(count, 20))}
        return {each["name"]: self.value(made, each["type"], depth + 1) for each in schema["fields"]}

    def _number(self, precision: int) -> int:
        most = 10**precision - 1
        return int(self.rng.choice([0, -1, 1, most, -most, self.rng.randint(-most, most)]))


def _clash(kinds: Container[str], one: str) -> bool:
    """Tell whether a union cannot take a branch: text and bytes are each promoted to the other, and fastavro writes
    empty bytes as a list.
    """
    others = {"str": ("bytes",), "bytes": ("str", "list"), "list": ("bytes",)}
    return one in kinds or any(other in kinds for other in others.get(one, ()))


def _ordered(branches: list[Schema], made: Made) -> list[Schema]:
    """Branches in an order in which the first that fits, which fastavro takes, is the exact one, which Java takes."""
    return sorted(branches, key=lambda each: _KIND[kind(made.resolve(each))] == "float")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def single(number: float) -> float:
    """A number as 32 bits hold it."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def difference(found: Any, want: Any, path: str = "") -> str:
    """The place where two values differ first."""
    if isinstance(found, dict) and isinstance(want, dict) and list(found) == list(want):
        pairs = [(f"{path}.{name}", found[name], want[name]) for name in want]
    elif isinstance(found, (list, tuple)) and isinstance(want, (list, tuple)) and len(found) == len(want):
        pairs = [(f"{path}[{n}]", one, other) for n, (one, other) in enumerate(zip(found, want, strict=True))]
    else:
        return "" if same(found, want) else f"{path}: {found!r}, not {want!r}"
    return next((text for pair in pairs if (text := difference(pair[1], pair[2], pair[0]))), "")


def branch_of(made: Made, branches: list[Schema], value: Any) -> Schema:
    """The branch that a value is of."""
    name = "null" if value is None else type(value).__name__
    return next(each for each in branches if _KIND[kind(made.resolve(each))] == name)


def branch_name(made: Made, schema: Schema) -> str:
    """The name of a branch."""
    found = made.resolve(schema)
    return str(found.get("name", found["type"])) if isinstance(found, dict) else str(found)


def column(made: Made, schema: Schema, value: Any) -> Any:
    """A value as columns show it (`typed_cases.plain`)."""
    schema = made.resolve(schema)
    word = kind(schema)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if word == "union":
        values = [each for each in schema if each != "null"]
        chosen = branch_of(made, schema, value)
        if len(values) < 2 and len(schema) - len(values) == 1:
            return column(made, chosen, value)
        if value is None and len(values) < len(schema):
            return dict.fromkeys((branch_name(made, each) for each in values), None) if not values else None
        return {
            branch_name(made, each): column(made, each, value) if each is chosen or each == chosen else None
            for each in values
        }
    if word == "array":
        return [column(made, schema["items"], each) for each in value]
    if word == "map":
        return sorted((key, column(made, schema["values"], each)) for key, each in value.items())
    if word == "record":
        return {each["name"]: column(made, each["type"], value[each["name"]]) for each in schema["fields"]}
    return _column_scalar(schema, word, logical, value)


def _column_scalar(schema: Schema, word: str, logical: str | None, value: Any) -> Any:
    if word in {"bytes", "fixed"} and isinstance(value, str):
        value = value.encode("latin-1")
    if word == "float":
        return single(value)
    if word == "double":
        return float(value)
    if logical == "time-millis" and word == "int":
        return value * 1000
    if logical == "decimal":
        return _decimal_of(schema, value)
    if logical == "uuid" and word == "fixed":
        return str(uuid.UUID(bytes=value))
    return value


def _decimal_of(schema: Schema, value: bytes) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -schema["scale"]))


def text(made: Made, schema: Schema, value: Any) -> Any:
    """A value as its JSON text shows it."""
    schema = made.resolve(schema)
    word = kind(schema)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if word == "union":
        chosen = branch_of(made, schema, value)
        return None if value is None else {branch_name(made, chosen): text(made, chosen, value)}
    if word == "array":
        return [text(made, schema["items"], each) for each in value]
    if word == "map":
        return {key: text(made, schema["values"], each) for key, each in value.items()}
    if word == "record":
        return {each["name"]: text(made, each["type"], value[each["name"]]) for each in schema["fields"]}
    if word in {"float", "double"} and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if logical == "decimal":
        return format(_decimal_of(schema, value), "f")
    if logical == "uuid" and word == "fixed":
        return str(uuid.UUID(bytes=value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value
