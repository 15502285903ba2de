"""Reading the filters of query engines: a ``pyarrow.compute.Expression`` as a tree.

pyarrow shows what an expression holds in the form in which it pickles one: an Arrow file whose columns are the
constants, and whose schema has the expression as custom metadata, in prefix order (``Serialize`` in Arrow's
``expression.cc``):

| key | value |
|---|---|
| ``field_ref`` | name of a column |
| ``nested_field_ref`` | how many ``field_ref`` follow, which lead to a field within a column |
| ``literal`` | number of the column that has the constant |
| ``call`` | name of a function; its arguments follow, then perhaps ``options``, and ``end`` |

Keys repeat, which pyarrow's dicts of metadata do not show, so the FlatBuffers message of the schema is read here. What
is not known here becomes :class:`Unknown`, so that a new function costs speed and never an answer.
"""

from __future__ import annotations

import struct
from struct import unpack_from
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.compute as pc


class Field(NamedTuple):
    """A column."""

    name: str


class Nested(NamedTuple):
    """A field within a column: the names that lead to it."""

    names: tuple[str, ...]


class Literal(NamedTuple):
    """A constant: None, bool, int, str or bytes; a timestamp is in microseconds."""

    value: Any


class Call(NamedTuple):
    """A function, by a short name for Arrow's (``and``, ``gte``, ``is_null``, ...).

    The operands of ``in`` include the values, and those of functions that look for text their pattern, as bytes, and
    whether they ignore case.
    """

    function: str
    arguments: tuple[Node, ...]


class Unknown(NamedTuple):
    """Any other expression, with its operands."""

    arguments: tuple[Node, ...]


Node: TypeAlias = "Field | Nested | Literal | Call | Unknown"

# Kleene's logic and the other differ in nulls, where neither is true.
_NAMES = {
    "and_kleene": "and",
    "or_kleene": "or",
    "invert": "not",
    "less": "lt",
    "less_equal": "lte",
    "greater": "gt",
    "greater_equal": "gte",
    "is_valid": "is_not_null",
    "is_in": "in",
    "if_else": "if",
}
# Functions with options that do not matter, or that become operands.
_WITH_OPTIONS = frozenset({"is_null", "is_in"})
_PATTERNS = frozenset({"match_substring", "match_substring_regex", "match_like", "starts_with", "ends_with"})
# After Arrow's magic and padding.
_SCHEMA_AT = 8
# Places in tables of Arrow's Message.fbs and Schema.fbs.
_HEADER, _CUSTOM_METADATA, _KEY, _VALUE = 2, 2, 0, 1
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_UNKNOWN = (ValueError, LookupError, TypeError, AttributeError, struct.error, StopIteration, RecursionError)
_INT64 = range(-(1 << 63), 1 << 63)


def parse(expression: pc.Expression, schema: pa.Schema) -> Node | None:
    """Read an expression; None if it is in another form, or names columns that are not there."""
    import pyarrow as pa

    try:
        # As it is pickled: the one way to the bytes.
        _bind(expression, schema)
        pickled: Any = expression.__reduce__()
        buffer: pa.Buffer = pickled[1][0]
        message = pa.ipc.read_message(pa.BufferReader(buffer.slice(_SCHEMA_AT)))
        constants = pa.ipc.open_file(buffer).get_batch(0)
        pairs = _pairs(message.metadata.to_pybytes())
        found = _Reader(pairs, constants, frozenset(schema.names)).node(*next(pairs))
        return None if next(pairs, None) is not None else found
    except (pa.ArrowException, *_UNKNOWN):
        return None


def _bind(expression: pc.Expression, schema: pa.Schema) -> None:
    """Let Arrow refuse a filter that it cannot apply: bounds that answer it alone would hide that."""
    schema.empty_table().filter(expression)


def columns_of(node: Node) -> set[tuple[str, ...]]:
    """Return the columns that a tree names, and the fields in them, each as the names that lead to it."""
    if isinstance(node, Field):
        return {(node.name,)}
    if isinstance(node, Nested):
        return {node.names}
    if isinstance(node, Literal):
        return set()
    return set().union(*map(columns_of, node.arguments))


class _Reader:
    """The nodes of one expression."""

    def __init__(self, pairs: Iterator[tuple[str, str]], constants: pa.RecordBatch, names: frozenset[str]) -> None:
        self._pairs = pairs
        self._constants = constants
        self._names = names

    def node(self, key: str, value: str) -> Node:
        """Read what a pair begins."""
        if key == "literal":
            return _literal(self._constants.column(int(value))[0])
        if key in {"field_ref", "nested_field_ref"}:
            # A list: the end of the pairs must not look like the end of a generator.
            names = (value,) if key == "field_ref" else tuple([self._next("field_ref") for _ in range(int(value))])
            if names[0] not in self._names:
                raise LookupError(names[0])
            return Field(names[0]) if len(names) == 1 else Nested(names)
        if key != "call":
            raise ValueError(key)
        arguments: list[Node] = []
        is_known = True
        for inner, content in self._pairs:
            if inner == "end":
                break
            if inner == "options":
                more = _options(value, self._constants.column(int(content))[0])
                is_known = more is not None
                arguments += more or ()
            else:
                arguments.append(self.node(inner, content))
        return Call(_NAMES.get(value, value), tuple(arguments)) if is_known else Unknown(tuple(arguments))

    def _next(self, key: str) -> str:
        found, value = next(self._pairs)
        if found != key:
            raise ValueError(found)
        return value


def _options(function: str, options: Any) -> list[Node] | None:
    """Return the operands that the options of a function are; None if they change what it means."""
    if function in _PATTERNS:
        pattern = options["pattern"].as_buffer().to_pybytes()
        return [Literal(pattern), Literal(bool(options["ignore_case"].as_py()))]
    if function == "is_in":
        return [_literal(each) for each in options["value_set"].values]
    return [] if function in _WITH_OPTIONS else None


def _literal(constant: Any) -> Node:
    import pyarrow.types as pt

    kind = constant.type
    if not constant.is_valid:
        return Literal(None)
    if pt.is_timestamp(kind):
        value, rest = divmod(constant.value, 1_000) if kind.unit == "ns" else (constant.value * _MICROS[kind.unit], 0)
        return Literal(value) if rest == 0 and value in _INT64 else Unknown(())
    if pt.is_integer(kind):
        value = constant.as_py()
        return Literal(value) if value in _INT64 else Unknown(())
    if pt.is_boolean(kind) or pt.is_string(kind) or pt.is_large_string(kind):
        return Literal(constant.as_py())
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return Literal(constant.as_py())
    return Unknown(())


def _pairs(message: bytes) -> Iterator[tuple[str, str]]:
    """Yield the custom metadata of the schema in a FlatBuffers message."""

    def pointed(place: int) -> int:
        return place + int(unpack_from("<I", message, place)[0])

    def field(table: int, number: int) -> int:
        """Return what a field of a table points to."""
        vtable = table - unpack_from("<i", message, table)[0]
        if 4 + 2 * number >= unpack_from("<H", message, vtable)[0]:
            raise ValueError(number)
        return pointed(table + unpack_from("<H", message, vtable + 4 + 2 * number)[0])

    def text(place: int) -> str:
        (length,) = unpack_from("<I", message, place)
        return message[place + 4 : place + 4 + length].decode()

    found = field(field(pointed(0), _HEADER), _CUSTOM_METADATA)
    for n in range(unpack_from("<I", message, found)[0]):
        pair = pointed(found + 4 + 4 * n)
        yield text(field(pair, _KEY)), text(field(pair, _VALUE))
