"""Reading the filters of query engines: a ``pyarrow.compute.Expression`` as a tree.

pyarrow shows what an expression holds in one documented form, a Substrait message. Protocol Buffers' wire format is
simple enough to be read here, so that no other package is needed:

| bytes | meaning |
|---|---|
| varint | field number * 8 + wire type |
| varint, or 8 or 4 bytes, or varint length and as many bytes | the value, by wire types 0, 1, 5 and 2 |

Field numbers are those of ``substrait/extended_expression.proto`` and ``substrait/algebra.proto``. What is not known
here becomes :class:`Unknown`, so that a new function costs speed and never an answer.
"""

from __future__ import annotations

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
    """A function, by Substrait's name (``and``, ``gte``, ``is_null``, ...); also ``in`` and ``if``."""

    function: str
    arguments: tuple[Node, ...]


class Unknown(NamedTuple):
    """Any other expression, with its operands."""

    arguments: tuple[Node, ...]


Node: TypeAlias = "Field | Nested | Literal | Call | Unknown"

_Message: TypeAlias = "list[tuple[int, int | bytes]]"

_VARINT, _BYTES_8, _LENGTH, _BYTES_4 = 0, 1, 2, 5
_SIGN = 1 << 63

# Members of Expression.Literal whose varint is a signed number: i8, i16, i32, i64 and timestamp_tz (microseconds).
_NUMBERS = frozenset({2, 3, 5, 7, 27})
_BOOLEAN, _STRING, _BINARY, _NULL, _USER_DEFINED = 1, 12, 13, 29, 33


class _UnknownMessageError(ValueError):
    """The message holds something that is not expected."""


def parse(expression: pc.Expression, schema: pa.Schema) -> Node | None:
    """Read an expression."""
    import pyarrow as pa

    try:
        message = _message(bytes(expression.to_substrait(schema)))
        # Extensions are types (1) and functions (3).
        functions = dict(_function(each) for part in _parts(message, 2) for each in _parts(_message(part), 3))
        (reference,) = _parts(message, 3)
        (root,) = _parts(_message(reference), 1)
        return _Reader(functions, schema).node(root)
    except (pa.ArrowException, ValueError, IndexError, AttributeError):
        return None


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
    """The nodes of one message."""

    def __init__(self, functions: dict[int, str], schema: pa.Schema) -> None:
        self._functions = functions
        self._schema = schema

    def node(self, data: bytes) -> Node:
        """Read an ``Expression``."""
        ((kind, content),) = _message(data)
        if not isinstance(content, bytes):
            raise _UnknownMessageError
        if kind == 1:
            return _literal(content)
        if kind == 2:  # noqa: PLR2004 - a FieldReference
            return self._field(content)
        message = _message(content)
        if kind == 3:  # noqa: PLR2004 - a ScalarFunction
            function = self._functions.get(_number(message, 1), "")
            arguments = [self.node(_only(part, 3)) for part in _parts(message, 4)]
            return Call(function.partition(":")[0], tuple(arguments))
        if kind == 6:  # noqa: PLR2004 - an IfThen
            (clause,) = map(_message, _parts(message, 1))
            (otherwise,) = _parts(message, 2)
            parts = [*_parts(clause, 1), *_parts(clause, 2), otherwise]
            return Call("if", tuple(map(self.node, parts)))
        if kind == 8:  # noqa: PLR2004 - a SingularOrList
            return Call("in", tuple(map(self.node, [*_parts(message, 1), *_parts(message, 2)])))
        if kind == 11:  # noqa: PLR2004 - a Cast
            return Unknown(tuple(map(self.node, _parts(message, 2))))
        raise _UnknownMessageError

    def _field(self, data: bytes) -> Node:
        """Read a ``FieldReference``: a column of the row, or a field of one."""
        (direct,) = _parts(_message(data), 1)
        struct = _message(_only(direct, 2))
        field = self._schema.field(_number(struct, 1))
        names = [field.name]
        while children := _parts(struct, 2):
            struct = _message(_only(children[0], 2))
            field = field.type.field(_number(struct, 1))
            names.append(field.name)
        return Field(names[0]) if len(names) == 1 else Nested(tuple(names))


def _literal(data: bytes) -> Node:
    # Without the fields nullable (50) and type_variation_reference (51).
    ((kind, content),) = [(kind, content) for kind, content in _message(data) if kind not in {50, 51}]
    if kind in _NUMBERS and isinstance(content, int):
        return Literal(content - 2 * _SIGN if content >= _SIGN else content)
    if kind == _BOOLEAN:
        return Literal(bool(content))
    if kind == _NULL:
        return Literal(None)
    if kind == _STRING and isinstance(content, bytes):
        return Literal(content.decode())
    return Literal(content) if kind == _BINARY else Unknown(())


def _function(data: bytes) -> tuple[int, str]:
    """Read the number and name of a ``SimpleExtensionDeclaration.ExtensionFunction``."""
    message = _message(data)
    (name,) = _parts(message, 3)
    return _number(message, 2), name.decode()


def _only(data: bytes, number: int) -> bytes:
    (found,) = _parts(_message(data), number)
    return found


def _parts(message: _Message, number: int) -> list[bytes]:
    """Return the messages, texts or bytes that a field holds."""
    return [content for field, content in message if field == number and isinstance(content, bytes)]


def _number(message: _Message, number: int) -> int:
    """Return the number that a field holds; Protocol Buffers do not write zeros."""
    return next((content for field, content in message if field == number and isinstance(content, int)), 0)


def _message(data: bytes) -> _Message:
    return list(_fields(data))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if kind == _LENGTH:
            length, position = _varint(data, position)
        elif kind in {_BYTES_8, _BYTES_4}:
            length = 8 if kind == _BYTES_8 else 4
        else:
            raise _UnknownMessageError
        yield number, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follow
            return value, position
        shift += 7
