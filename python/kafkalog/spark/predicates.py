"""Predicates on topic, partition, offset and timestamp that are applied before a record is decoded.

The predicates of a read all hold together, and they are exact: Spark need not evaluate them again. Topic and partition
select folders. Offsets select segments and, through the offset index, where to start in them. Timestamps are compared
with batch headers and then with the records.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog._intervals import COMPARISONS, EVERYTHING, Interval
from kafkalog._times import parse_datetime, to_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog._core import PartitionRange

_FOLDER_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    **COMPARISONS,
    "in": lambda value, values: value in values,
    "not in": lambda value, values: value not in values,
}
_TEXT_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
}
_OPERATORS: dict[str, tuple[str, ...]] = {
    "topic": (*_FOLDER_OPERATORS, *_TEXT_OPERATORS),
    "partition": tuple(_FOLDER_OPERATORS),
    "offset": ("=", "<", "<=", ">", ">="),
    "timestamp": ("=", "<", "<=", ">", ">="),
}


class Predicate(NamedTuple):
    """A condition on one column; timestamps are in microseconds."""

    column: str
    operator: str
    value: Any


def check_predicates(given: Iterable[tuple[str, str, Any]]) -> tuple[Predicate, ...]:
    """Check that predicates can be applied exactly."""
    found = []
    for column, symbol, value in given:
        symbols = _OPERATORS.get(column)
        if symbols is None:
            raise ValueError(f"column {column!r} does not support conditions; use one of {', '.join(_OPERATORS)}")
        if symbol not in symbols:
            raise ValueError(f"condition {column} {symbol!r}: unknown operator; use one of {', '.join(symbols)}")
        if symbol not in {"in", "not in"}:
            found.append(Predicate(column, symbol, _value(column, value)))
        elif isinstance(value, (list, tuple, set, frozenset)):
            found.append(Predicate(column, symbol, [_value(column, each) for each in value]))
        else:
            raise ValueError(f"condition {column} {symbol!r}: expected a list, found {value!r}")
    return tuple(found)


def _value(column: str, value: Any) -> Any:
    if column == "topic" and isinstance(value, str):
        return value
    if column == "timestamp" and isinstance(value, str):
        value = parse_datetime(value, "condition timestamp:")
    if column == "timestamp" and isinstance(value, datetime):
        return to_micros(value, "condition timestamp:")
    if column != "topic" and isinstance(value, int) and not isinstance(value, bool):
        return value * 1000 if column == "timestamp" else value
    raise ValueError(f"condition {column}: {value!r} has the wrong type")


def narrow(ranges: list[PartitionRange], predicates: tuple[Predicate, ...]) -> list[PartitionRange]:
    """Drop from ranges what the predicates exclude; those on timestamps are in the plan already."""
    from kafkalog import _core

    if not predicates:
        return ranges
    offsets = _bounds(predicates, "offset")
    if offsets.is_empty or _bounds(predicates, "timestamp").to_millis().is_empty:
        return []
    low, high = offsets
    borders = [border for border in offsets if EVERYTHING.low < border < EVERYTHING.high]
    found = []
    for each in ranges:
        if not each.segment_count or not _selects(predicates, each):
            continue
        parts = _core.divide(each, borders) if borders else [each]
        found += [part for part in parts if low <= part.start_offset < high]
    return found


def timestamp_bounds(predicates: tuple[Predicate, ...]) -> tuple[int | None, int | None]:
    """Return the first and last millisecond that the predicates allow, None where there is no bound."""
    bounds = _bounds(predicates, "timestamp").to_millis()
    return bounds.first, bounds.last


def _selects(predicates: tuple[Predicate, ...], planned: PartitionRange) -> bool:
    """Tell whether the predicates on topic and partition select a range."""
    for column, symbol, value in predicates:
        if column not in {"topic", "partition"}:
            continue
        found: Any = planned.topic if column == "topic" else planned.partition
        compare = _TEXT_OPERATORS.get(symbol) or _FOLDER_OPERATORS[symbol]
        if not compare(found, value):
            return False
    return True


def _bounds(predicates: tuple[Predicate, ...], column: str) -> Interval:
    """Return the numbers that the predicates on a column allow."""
    bounds = EVERYTHING
    for name, symbol, value in predicates:
        if name == column:
            bounds &= Interval.of(symbol, value)
    return bounds
