"""Random conditions on the columns of a table, as each query engine writes them.

A condition is a tuple that says what it is: ``("and", one, other)``, ``("compare", column, sign, value)`` and so on.
The functions below write it as SQL, as a Polars expression, for pyarrow and for Ibis.
"""

from __future__ import annotations

import functools
import importlib
import operator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

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
        if chance.random() < 0.08:
            return ("null", column)
        if column == "isControl":
            return ("flag", column)
        if chance.random() < 0.2:
            count = chance.choice([1, 2, 5])
            return ("in", column, [self._value(column) for _ in range(count)])
        if column in {"offset", "partition"} and chance.random() < 0.1:
            return ("cast", column, chance.choice(list(SIGNS)), self._value(column) + 0.5)
        if chance.random() < 0.15:
            one, other = sorted([self._value(column), self._value(column)])
            return ("and", ("compare", column, ">=", one), ("compare", column, "<=", other))
        return ("compare", column, chance.choice(list(SIGNS)), self._value(column))

    def _value(self, column: str) -> Any:
        chance = self._chance
        values = self._values[column]
        found: Any = next((value for _ in range(50) if (value := chance.choice(values)) is not None), b"")
        if column == "timestamp":
            # In microseconds, between two milliseconds now and then.
            when = EPOCH + timedelta(milliseconds=found) + timedelta(microseconds=chance.choice([0, 0, 0, 500, -1000]))
            return when.astimezone(chance.choice(ZONES))
        if isinstance(found, int) and column != "magic":
            return max(found + chance.choice([-1, 0, 0, 1]), 0)
        return found


def sql(condition: Condition, *, blob: Callable[[bytes], str], moment: str) -> str:
    """Write SQL; `blob` and `moment` are how the engine writes bytes and times."""

    def literal(value: Any) -> str:
        if isinstance(value, bytes):
            return blob(value)
        if isinstance(value, datetime):
            return moment.format(value.isoformat(timespec="microseconds"))
        return f"'{value}'" if isinstance(value, str) else str(value)

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
            "cast": lambda: f"cast({name} as double) {each[2]} {each[3]}",
            "compare": lambda: f"{name} {each[2]} {literal(each[3])}",
        }
        return tests[kind]()

    return write(condition)


@dataclass(frozen=True)
class _Dialect:
    """What the expressions of an engine differ in."""

    column: Callable[[str], Any]
    literal: Callable[[Any], Any]
    # is null, of a column
    null: Callable[[Any], Any]
    # is among values, of a column and its name
    among: Callable[[Any, str, list[Any]], Any]
    float64: Any

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
        if kind == "cast":
            return SIGNS[condition[2]](column.cast(self.float64), condition[3])
        return SIGNS[condition[2]](column, self.literal(condition[3]))


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

    def literal(value: Any) -> Any:
        if isinstance(value, datetime):
            return pl.lit(value.astimezone(timezone.utc)).cast(pl.Datetime("us", "UTC"))
        return pl.lit(value)

    is_null = operator.methodcaller("is_null")
    return _Dialect(pl.col, literal, is_null, _among("is_in", literal), pl.Float64).write(condition)


def arrow(condition: Condition) -> Any:
    """Write an expression of pyarrow."""

    def literal(value: Any) -> Any:
        if isinstance(value, datetime):
            micros = (value - EPOCH) // timedelta(microseconds=1)
            return pa.scalar(micros, pa.timestamp("us", "UTC"))
        return pa.scalar(value)

    is_null = operator.methodcaller("is_null")
    return _Dialect(pc.field, literal, is_null, _among("isin", literal), pa.float64()).write(condition)


def ibis(condition: Condition) -> Any:
    """Write an expression of Ibis."""
    engine: Any = importlib.import_module("ibis")

    def among(column: Any, _: str, values: list[Any]) -> Any:
        return column.isin([engine.literal(value) for value in values])

    is_null = operator.methodcaller("isnull")
    return _Dialect(engine._.__getitem__, engine.literal, is_null, among, "float64").write(condition)
