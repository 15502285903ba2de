"""Random conditions on the columns of a table, as each query engine writes them.

A condition is a tuple that says what it is: ``("and", one, other)``, ``("compare", column, sign, value)`` and so on.
The functions below write it as SQL, as a Polars expression, for pyarrow and for Ibis.

A cast is to another kind of value: numbers to double, times to dates, text to bytes, bytes to text (as the engine has
it where they are not UTF-8), truth values to numbers.
"""

from __future__ import annotations

import functools
import importlib
import operator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping

Condition: TypeAlias = tuple[Any, ...]

SIGNS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
ZONES = (timezone.utc, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5, minutes=-30)))


class Conditions:
    """Draws conditions whose values are those of a table, or close to them."""

    def __init__(self, table: pa.Table, chance: random.Random, columns: list[str]) -> None:
        self._values = {name: table[name].to_pylist() for name in columns if name != "timestamp"}
        if "timestamp" in columns:
            self._values["timestamp"] = table["timestamp"].cast(pa.int64()).to_pylist()
        self._chance = chance

    def draw(self, depth: int = 3) -> Condition:
        """Draw a condition."""
        chance = self._chance
        if depth and chance.random() < 0.6:
            kind = chance.choice(["and", "and", "or", "not"])
            if kind == "not":
                return ("not", self.draw(depth - 1))
            return (kind, self.draw(depth - 1), self.draw(depth - 1))
        column = chance.choice(list(self._values))
        (kind,) = chance.choices(["null", "cast", "in", "range", "compare"], [8, 12, 15, 10, 55])
        if kind == "compare" and column == "isControl" and chance.random() < 0.5:
            return ("flag", column)
        if kind == "null":
            return ("null", column)
        if kind == "in":
            count = chance.choice([1, 2, 5])
            return ("in", column, [self._value(column) for _ in range(count)])
        if kind == "range":
            return ("range", column, *sorted([self._value(column), self._value(column)]))
        sign = chance.choice(list(SIGNS))
        return (kind, column, sign, _cast(self._value(column)) if kind == "cast" else self._value(column))

    def _value(self, column: str) -> Any:
        chance = self._chance
        values = self._values[column]
        found: Any = next((value for _ in range(50) if (value := chance.choice(values)) is not None), b"")
        if column == "timestamp":
            # In microseconds, between two milliseconds now and then.
            when = EPOCH + timedelta(milliseconds=found) + timedelta(microseconds=chance.choice([0, 0, 0, 500, -1000]))
            return when.astimezone(chance.choice(ZONES))
        if isinstance(found, int) and not isinstance(found, bool) and column != "magic":
            return max(found + chance.choice([-1, 0, 0, 1]), 0)
        return found


def parts(condition: Condition) -> Iterator[Condition]:
    """Give a condition and what it is made of."""
    yield condition
    if condition[0] in {"and", "or", "not"}:
        for part in condition[1:]:
            yield from parts(part)


def _cast(value: Any) -> Any:
    """Give what a cast compares with, for a column with such values."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value + 0.5
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, str):
        return value.encode()
    return "".join(filter(str.isprintable, value.decode(errors="ignore")))


def sql(
    condition: Condition, *, blob: Callable[[bytes], str], moment: str, casts: Mapping[type, str] | None = None
) -> str:
    """Write SQL; the others are how the engine writes bytes, times, and casts unless it is as DuckDB does."""
    templates = {
        float: "cast({} as double)",
        int: "cast({} as int)",
        date: "cast({} as date)",
        bytes: "cast({} as blob)",
        str: "cast({} as varchar)",
        **(casts or {}),
    }

    def literal(value: Any) -> str:
        if isinstance(value, bytes):
            return blob(value)
        if isinstance(value, datetime):
            return moment.format(value.isoformat(timespec="microseconds"))
        if isinstance(value, date):
            return f"date '{value}'"
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)

    def write(each: Condition) -> str:
        kind = each[0]
        if kind in {"and", "or"}:
            return f"({write(each[1])} {kind} {write(each[2])})"
        if kind == "not":
            return f"(not {write(each[1])})"
        name = f'"{each[1]}"'
        tests = {
            "null": lambda: f"{name} is null",
            "flag": lambda: name,
            "in": lambda: f"{name} in ({', '.join(map(literal, each[2]))})",
            "range": lambda: f"{name} between {literal(each[2])} and {literal(each[3])}",
            "cast": lambda: f"{templates[type(each[3])].format(name)} {each[2]} {literal(each[3])}",
            "compare": lambda: f"{name} {each[2]} {literal(each[3])}",
        }
        return tests[kind]()

    return write(condition)


@dataclass(frozen=True)
class _Dialect:
    """Syntax in which the expressions of an engine differ."""

    column: Callable[[str], Any]
    literal: Callable[[Any], Any]
    # is null, of a column
    null: Callable[[Any], Any]
    # is among values, of a column and its name
    among: Callable[[Any, str, list[Any]], Any]
    # a column as values of a type of Python
    cast: Callable[[Any, type], Any]

    def write(self, condition: Condition) -> Any:
        kind = condition[0]
        if kind in {"and", "or"}:
            one, other = map(self.write, condition[1:])
            return one & other if kind == "and" else one | other
        if kind == "not":
            return ~self.write(condition[1])
        column = self.column(condition[1])
        if kind == "null":
            return self.null(column)
        if kind == "flag":
            return column
        if kind == "in":
            return self.among(column, condition[1], condition[2])
        if kind == "range":
            low, high = map(self.literal, condition[2:])
            return (column >= low) & (column <= high)
        value = condition[3]
        if kind == "cast":
            column = self.cast(column, type(value))
        return SIGNS[condition[2]](column, self.literal(value))


def _among(method: str, literal: Callable[[Any], Any]) -> Callable[[Any, str, list[Any]], Any]:
    """Write membership by a column's method, which takes plain values; else as comparisons with literals."""

    def among(column: Any, name: str, values: list[Any]) -> Any:
        if name in {"topic", "partition", "offset"}:
            return getattr(column, method)(values)
        return functools.reduce(operator.or_, [column == literal(value) for value in values])

    return among


def polars(condition: Condition) -> Any:
    """Write a Polars expression."""
    import polars as pl

    types = {float: pl.Float64, int: pl.Int32, date: pl.Date, bytes: pl.Binary}

    def literal(value: Any) -> Any:
        if isinstance(value, datetime):
            return pl.lit(value.astimezone(timezone.utc)).cast(pl.Datetime("us", "UTC"))
        return pl.lit(value)

    def cast(column: Any, kind: type) -> Any:
        # No cast of Polars takes bytes that are not UTF-8.
        return column.bin.encode("hex") if kind is str else column.cast(types[kind])

    is_null = operator.methodcaller("is_null")
    return _Dialect(pl.col, literal, is_null, _among("is_in", literal), cast).write(condition)


def arrow(condition: Condition) -> Any:
    """Write an expression of pyarrow."""
    types = {float: pa.float64(), int: pa.int32(), date: pa.date32(), bytes: pa.binary(), str: pa.string()}

    def literal(value: Any) -> Any:
        if isinstance(value, datetime):
            micros = (value - EPOCH) // timedelta(microseconds=1)
            return pa.scalar(micros, pa.timestamp("us", "UTC"))
        return pa.scalar(value)

    def cast(column: Any, kind: type) -> Any:
        # A safe one refuses bytes that are not UTF-8.
        return column.cast(types[kind], safe=kind is not str)

    is_null = operator.methodcaller("is_null")
    return _Dialect(pc.field, literal, is_null, _among("isin", literal), cast).write(condition)


def ibis(condition: Condition) -> Any:
    """Write an expression of Ibis."""
    engine: Any = importlib.import_module("ibis")
    types = {float: "float64", int: "int32", date: "date", bytes: "binary", str: "string"}

    def among(column: Any, _: str, values: list[Any]) -> Any:
        return column.isin([engine.literal(value) for value in values])

    def cast(column: Any, kind: type) -> Any:
        return column.cast(types[kind])

    is_null = operator.methodcaller("isnull")
    return _Dialect(engine._.__getitem__, engine.literal, is_null, among, cast).write(condition)
