"""Bounds on files and headers, derived from a filter.

The result is never too small: what is not understood bounds nothing. SQL's logic has three values, and a row counts
when the filter is true, so a part is asked where it is true or, inside ``not``, where it is false; null is neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog._intervals import COMPARISONS, EVERYTHING, Interval
from kafkalog.engines.expressions import Call, Field, Literal, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SYMBOLS = {"equal": "=", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_OPPOSITES = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True)
class Region:
    """Records whose columns are within intervals."""

    bounds: Mapping[str, Interval] = field(default_factory=dict)
    """By column; one that is not named is not bounded."""
    is_exact: bool = True
    """True if the filter holds for all of these records."""

    def __getitem__(self, column: str) -> Interval:
        return self.bounds.get(column, EVERYTHING)


ALL = Region()
"""Every record."""
_UNKNOWN = Region(is_exact=False)


def region(node: Node, values: Mapping[str, str | int], bounded: frozenset[str]) -> Region | None:
    """Bound the rows for which a filter is true."""
    return _Solver(values, bounded).solve(node, truth=True)


class _Solver:
    def __init__(self, values: Mapping[str, str | int], bounded: frozenset[str]) -> None:
        self._values = values
        self._bounded = bounded

    def solve(self, node: Node, *, truth: bool) -> Region | None:
        """Bound the rows for which a part is true, or false."""
        if isinstance(node, Literal):
            return ALL if node.value is truth else None
        if isinstance(node, Field):
            return self._compared("=", node.name, truth)
        if isinstance(node, Call):
            arguments = node.arguments
            if node.function in {"and", "or"}:
                parts = [self.solve(each, truth=truth) for each in arguments]
                return _combined(parts, _both if (node.function == "and") == truth else _either)
            if node.function == "not":
                return self.solve(arguments[0], truth=not truth)
            if node.function in {"is_null", "is_not_null"}:
                return self._null_test(arguments[0], (node.function == "is_null") == truth)
            if node.function in _SYMBOLS:
                return self._comparison(_SYMBOLS[node.function], *arguments, truth=truth)
            if node.function == "in":
                return self._in(arguments[0], arguments[1:], truth=truth)
            if node.function == "if":
                condition, then, otherwise = arguments
                return _either(
                    _both(self.solve(condition, truth=True), self.solve(then, truth=truth)),
                    _both(self.solve(condition, truth=False), self.solve(otherwise, truth=truth)),
                )
        return _UNKNOWN

    def _comparison(self, symbol: str, left: Node, right: Node, *, truth: bool) -> Region | None:
        if isinstance(left, Literal):
            left, right, symbol = right, left, _SWAPPED[symbol]
        if not isinstance(left, Field) or not isinstance(right, Literal):
            return _UNKNOWN
        # A comparison with null is neither true nor false.
        if right.value is None:
            return None
        return self._compared(symbol if truth else _OPPOSITES[symbol], left.name, right.value)

    def _compared(self, symbol: str, column: str, value: Any) -> Region | None:
        """Bound the rows for which a comparison is true."""
        if column in self._values:
            known = self._values[column]
            if type(known) is not type(value):
                return _UNKNOWN
            return ALL if COMPARISONS[symbol](known, value) else None
        if column not in self._bounded or not isinstance(value, int):
            return _UNKNOWN
        if isinstance(value, bool) and symbol == "!=":
            symbol, value = "=", not value
        bounds = Interval.of(symbol, int(value))
        return None if bounds.is_empty else Region({column: bounds}, is_exact=symbol != "!=")

    def _null_test(self, node: Node, is_null: bool) -> Region | None:  # noqa: FBT001 - what is asked
        if not isinstance(node, Field) or (node.name not in self._values and node.name not in self._bounded):
            return _UNKNOWN
        return None if is_null else ALL

    def _in(self, node: Node, listed: tuple[Node, ...], *, truth: bool) -> Region | None:
        parts = [self._comparison("=", node, each, truth=truth) for each in listed]
        found = _combined(parts, _either if truth else _both) if parts else _UNKNOWN
        # Engines differ in what a null in the list means.
        if any(isinstance(each, Literal) and each.value is None for each in listed):
            return _either(found, _UNKNOWN)
        return found


def _combined(
    parts: list[Region | None], combine: Callable[[Region | None, Region | None], Region | None]
) -> Region | None:
    found = parts[0]
    for part in parts[1:]:
        found = combine(found, part)
    return found


def _both(one: Region | None, other: Region | None) -> Region | None:
    if one is None or other is None:
        return None
    bounds = {column: one[column] & other[column] for column in {*one.bounds, *other.bounds}}
    if any(each.is_empty for each in bounds.values()):
        return None
    return Region(bounds, is_exact=one.is_exact and other.is_exact)


def _either(one: Region | None, other: Region | None) -> Region | None:
    if one is None or other is None:
        return other if one is None else one
    if not one.bounds and one.is_exact:
        return one
    if not other.bounds and other.is_exact:
        return other
    columns = {*one.bounds, *other.bounds}
    bounds = {column: one[column] | other[column] for column in columns}
    differing = [column for column in columns if one[column] != other[column]]
    # Two intervals are one where nothing lies between them.
    is_whole = all(one[column].touches(other[column]) for column in differing) and len(differing) <= 1
    kept = {column: each for column, each in bounds.items() if each != EVERYTHING}
    return Region(kept, is_exact=one.is_exact and other.is_exact and is_whole)
