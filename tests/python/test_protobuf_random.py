"""Random messages of random schemas are what google.protobuf and its ``json_format`` make of them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
import tiers
from typed_cases import plain, same

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
from google.protobuf import descriptor_pool, json_format, message_factory  # type: ignore[import-untyped]  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

SCHEMAS = tiers.pick(6, 200, 500)
MESSAGES = tiers.pick(50, 500, 500)

NUMBERS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "uint32": 13,
    "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
BITS = {"int64": 64, "sfixed64": 64, "sint64": 64, "int32": 32, "sfixed32": 32, "sint32": 32}
UNSIGNED = {"uint64": 64, "fixed64": 64, "uint32": 32, "fixed32": 32}
KNOWN = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Int64Value": "wrappers",
    "google.protobuf.StringValue": "wrappers",
}
TEXTS = ["", "a", "kafka", "naïve", "東京🦀", 'quote" \\ line\n', "x" * 200]


class Schema:
    """A random schema: its text, and messages of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311
        self.is_proto3 = self.random.random() < 0.6
        count = self.random.randint(1, 4)
        self.names = [f"M{number}" for number in range(count)]
        self.lines = [f'syntax = "{"proto3" if self.is_proto3 else "proto2"}";', "package r;"]
        file = descriptor_pb2.FileDescriptorProto(name=f"r{seed}.proto", package="r")
        file.syntax = "proto3" if self.is_proto3 else "proto2"
        for part in sorted(set(KNOWN.values())):
            file.dependency.append(f"google/protobuf/{part}.proto")
            self.lines.append(f'import "google/protobuf/{part}.proto";')
        enum = file.enum_type.add(name="Color")
        for name, number in {"RED": 0, "GREEN": 1, "BLUE": 7, "DARK": -3}.items():
            enum.value.add(name=name, number=number)
        self.lines.append("enum Color { RED = 0; GREEN = 1; BLUE = 7; DARK = -3; }")
        for name in self.names:
            self._message(file.message_type.add(name=name))
        self.text = "\n".join(self.lines)
        pool = descriptor_pool.DescriptorPool()
        for part in sorted(set(KNOWN.values())):
            module = __import__(f"google.protobuf.{part}_pb2", fromlist=["DESCRIPTOR"])
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
        pool.AddSerializedFile(file.SerializeToString())
        self.kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"r.{self.names[0]}"))

    def _message(self, message: Any) -> None:  # noqa: C901
        self.lines.append(f"message {message.name} {{")
        number = 0
        for index in range(self.random.randint(1, 9)):
            number += self.random.choice([1, 1, 1, 2, 30, 3000])
            field = message.field.add(name=f"f{index}", number=number, label=1)
            word = self._type(field)
            way = self.random.random()
            if way < 0.2:
                field.label = 3
                packed = ""
                if field.type in NUMBERS.values() or field.type == 14:
                    field.options.packed = self.random.random() < 0.5
                    packed = f" [packed = {str(field.options.packed).lower()}]"
                self.lines.append(f"  repeated {word} {field.name} = {number}{packed};")
            elif way < 0.3 and self.random.random() < 0.6:
                key = self.random.choice(["string", "int32", "sint64", "bool", "fixed32"])
                entry = message.nested_type.add(name=f"F{index}Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=9 if key == "string" else NUMBERS[key])
                entry.field.add(name="value", number=2, label=1, type=field.type, type_name=field.type_name or None)
                field.label, field.type, field.type_name = 3, 11, f".r.{message.name}.{entry.name}"
                self.lines.append(f"  map<{key}, {word}> {field.name} = {number};")
            elif way < 0.5:
                if self.is_proto3:
                    field.proto3_optional = True
                self.lines.append(f"  optional {word} {field.name} = {number};")
            elif way < 0.65 and not any(each.HasField("oneof_index") for each in message.field):
                message.oneof_decl.add(name="one")
                field.oneof_index = 0
                other = message.field.add(name=f"g{index}", number=number + 1, label=1, oneof_index=0)
                other_word = self._type(other)
                number += 1
                self.lines.append(
                    f"  oneof one {{ {word} {field.name} = {field.number}; {other_word} {other.name} = {number}; }}"
                )
            elif self.is_proto3:
                self.lines.append(f"  {word} {field.name} = {number};")
            else:
                field.label = 2 if field.type not in {10, 11} and self.random.random() < 0.3 else 1
                self.lines.append(f"  {'required' if field.label == 2 else 'optional'} {word} {field.name} = {number};")
        for field in message.field:
            if field.proto3_optional:
                message.oneof_decl.add(name=f"_{field.name}")
                field.oneof_index = len(message.oneof_decl) - 1
        self.lines.append("}")

    def _type(self, field: Any) -> str:
        word = self.random.choice([*NUMBERS, "string", "string", "bytes", "Color", "message", "message", "known"])
        if word in NUMBERS:
            field.type = NUMBERS[word]
        elif word in {"string", "bytes"}:
            field.type = 9 if word == "string" else 12
        elif word == "Color":
            field.type, field.type_name = 14, ".r.Color"
        else:
            word = self.random.choice(list(KNOWN)) if word == "known" else f"r.{self.random.choice(self.names)}"
            field.type, field.type_name = 11, f".{word}"
        return word

    def message(self) -> Any:
        """A random message."""
        found = self.kind()
        self._fill(found, 0)
        return found

    def _fill(self, message: Any, depth: int) -> None:  # noqa: C901, PLR0912
        full = message.DESCRIPTOR.full_name
        if full == "google.protobuf.Timestamp":
            message.seconds = self.random.choice(
                [0, -62_135_596_800, 253_402_300_799, self.random.randint(-(1 << 34), 1 << 35)]
            )
            message.nanos = self.random.choice([0, 999_999_999, self.random.randrange(10**9)])
            return
        if full == "google.protobuf.Duration":
            sign = self.random.choice([-1, 1])
            message.seconds, message.nanos = sign * self.random.randrange(1 << 33), sign * self.random.randrange(10**9)
            return
        for field in message.DESCRIPTOR.fields:
            is_required = field.is_required
            if not is_required and self.random.random() < (0.3 if depth < 3 else 0.8):
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._fill_map(getattr(message, field.name), field, depth)
            elif field.is_repeated:
                for _ in range(self.random.choice([0, 1, 2, 5])):
                    if field.message_type is not None:
                        if depth < 4:
                            self._fill(getattr(message, field.name).add(), depth + 1)
                    else:
                        getattr(message, field.name).append(self._value(field))
            elif field.message_type is not None:
                if depth < 4:
                    getattr(message, field.name).SetInParent()
                    self._fill(getattr(message, field.name), depth + 1)
            else:
                setattr(message, field.name, self._value(field))

    def _fill_map(self, entries: Any, field: Any, depth: int) -> None:
        key, value = field.message_type.fields
        for _ in range(self.random.choice([0, 1, 3])):
            if value.message_type is None:
                entries[self._value(key)] = self._value(value)
            elif depth < 4:
                self._fill(entries[self._value(key)], depth + 1)

    def _value(self, field: Any) -> Any:
        word = {number: name for name, number in NUMBERS.items()}.get(field.type)
        if word in BITS or word in UNSIGNED:
            bits = BITS.get(word) or UNSIGNED[word]
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if word in BITS else (0, (1 << bits) - 1)
            return self.random.choice([0, 1, low, high, self.random.randint(low, high), self.random.randint(0, 300)])
        if word == "bool":
            return self.random.random() < 0.5
        if word in {"double", "float"}:
            return self.random.choice([0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), -float("inf"), 1e10])
        if field.type == 9:
            return self.random.choice(TEXTS)
        if field.type == 12:
            return self.random.randbytes(self.random.choice([0, 1, 20]))
        return self.random.choice([0, 1, 7, -3] + [99] * self.is_proto3)


def row(message: Any, within: tuple[str, ...] = ()) -> Any:  # noqa: C901
    """The row of a message: what has no column of its own, since it holds itself, is JSON."""
    full = message.DESCRIPTOR.full_name
    if full == "google.protobuf.Timestamp":
        return message.seconds * 10**6 + message.nanos // 1000
    if full.endswith("Value"):
        return message.value
    within = (*within, full)

    def one(field: Any, value: Any) -> Any:
        if field.message_type is None:
            if field.enum_type is not None:
                known = field.enum_type.values_by_number.get(value)
                return str(value) if known is None else known.name
            return value
        if field.message_type.full_name in within:
            return as_json(value)
        return row(value, within)

    found: dict[str, Any] = {}
    for field in sorted(message.DESCRIPTOR.fields, key=lambda field: field.index):
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = sorted((key, one(inner, value[key])) for key in value)
        elif field.is_repeated:
            found[field.name] = [one(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = one(field, value)
    return found


def as_json(message: Any) -> Any:
    """JSON of a message, by json_format."""
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def like(found: Any, want: Any) -> bool:
    """Tell whether a row is this one, where text may be JSON."""
    if isinstance(found, str) and isinstance(want, dict):
        return same(_sorted(json.loads(found)), _sorted(want))
    if isinstance(found, (list, tuple)) and isinstance(want, (list, tuple)):
        return len(found) == len(want) and all(map(like, found, want))
    if isinstance(found, dict) and isinstance(want, dict):
        return list(found) == list(want) and all(like(found[name], want[name]) for name in want)
    return same(found, want)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("number", range(SCHEMAS))
def test_random_messages(tmp_path: Path, number: int) -> None:
    print(f"seed {tiers.SEED + number}")
    schema = Schema(tiers.SEED + number)
    messages, payloads = [], []
    for _ in range(MESSAGES):
        message = schema.message()
        payload = message.SerializeToString()
        if schema.random.random() < 0.1:
            # Two in one merge.
            payload += schema.message().SerializeToString()
            message = schema.kind.FromString(payload)
        messages.append(message)
        payloads.append(b"\0\0\0\0\7\0" + payload)
    with kafkalog.LogWriter(tmp_path / "d", "t") as writer:
        writer.append(pa.table({"value": pa.array(payloads, pa.binary())}))
    options: dict[str, Any] = {"decode": "value", "schemas": {7: schema.text}, "columns": ["value"]}
    texts: list[Any] = kafkalog.read_table(tmp_path / "d", "t", **options, decode_as="json")["value"].to_pylist()
    for text, message in zip(texts, messages, strict=True):
        assert same(_sorted(json.loads(text)), _sorted(as_json(message))), (schema.text, text)
    found = plain(kafkalog.read_table(tmp_path / "d", "t", **options)["value"].combine_chunks())
    for value, message in zip(found, messages, strict=True):
        assert like(value, row(message)), (schema.text, value, row(message))
