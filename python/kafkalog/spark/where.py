"""Conditions on topic, partition, offset and timestamp, applied before a record is decoded.

A condition is ``(column, operator, value)``; all of a list hold together. They are exact: a record that breaks one is
never given, so that Spark need not look again. Topic and partition choose folders; offsets choose segments and, by the
index, where to begin in them; times are held against batch headers and then against the records.
"""

from __future__ import annotations

import operator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog._core import _Range

    Condition = tuple[str, str, Any]

__all__ = ["checked", "narrow", "times"]

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAMED: dict[str, Callable[[Any, Any], bool]] = {
    **_COMPARED,
    "in": lambda value, values: value in values,
    "not in": lambda value, values: value not in values,
}
_OPERATORS: dict[str, tuple[str, ...]] = {
    "topic": (*_NAMED, "startswith", "endswith", "contains"),
    "partition": tuple(_NAMED),
    "offset": ("=", "<", "<=", ">", ">="),
    "timestamp": ("=", "<", "<=", ">", ">="),
}
_TEXT: dict[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": str.__contains__,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_INT64 = 1 << 63


def checked(where: Iterable[tuple[str, str, Any]]) -> tuple[Condition, ...]:
    """Refuse conditions that cannot be applied exactly.

    Parameters
    ----------
    where : iterable of (column, operator, value)
        Columns are topic, partition, offset and timestamp; a time is a datetime with its time zone, or milliseconds.

    Returns
    -------
    tuple of (column, operator, value)
        As given; times in microseconds.

    Raises
    ------
    ValueError
        For another column, an operator that the column does not have, or a value of another type.
    """
    found = []
    for column, symbol, value in where:
        symbols = _OPERATORS.get(column)
        if symbols is None:
            raise ValueError(
                f"no condition on {column!r} is possible before decoding; there are {', '.join(_OPERATORS)}"
            )
        if symbol not in symbols:
            raise ValueError(f"condition {column} {symbol!r}: there are {', '.join(symbols)}")
        several = symbol in {"in", "not in"}
        if not several:
            found.append((column, symbol, _value(column, value)))
        elif isinstance(value, (list, tuple, set, frozenset)):
            found.append((column, symbol, [_value(column, each) for each in value]))
        else:
            raise ValueError(f"condition {column} {symbol!r}: expected a list, found {value!r}")
    return tuple(found)


def _value(column: str, value: Any) -> Any:
    if column == "topic" and isinstance(value, str):
        return value
    if column == "timestamp" and isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"condition timestamp: {value} has no time zone")
        return (value - _EPOCH) // timedelta(microseconds=1)
    if column != "topic" and isinstance(value, int) and not isinstance(value, bool):
        return value * 1000 if column == "timestamp" else value
    raise ValueError(f"condition {column}: {value!r} is of the wrong type")


def narrow(ranges: list[_Range], where: tuple[Condition, ...]) -> list[_Range]:
    """Leave out of the ranges what the conditions exclude; those on times are in the plan already.

    Parameters
    ----------
    ranges : list of range
        As planned.
    where : tuple of (column, operator, value)
        As ``checked`` gives them.

    Returns
    -------
    list of range
        Those that have something left.
    """
    from kafkalog import _core

    if not where:
        return ranges
    low, high = _bounds([(symbol, value) for column, symbol, value in where if column == "offset"])
    earliest, latest = times(where)
    if low >= high or (earliest is not None and latest is not None and earliest > latest):
        return []
    borders = [border for border in (low, high) if -_INT64 < border < _INT64]
    found = []
    for each in ranges:
        if not each[5] or not _chosen(each, where):
            continue
        parts = _core.divide(each, borders) if borders else [each]
        found += [part for part in parts if low <= part[3] < high]
    return found


def times(where: tuple[Condition, ...]) -> tuple[int | None, int | None]:
    """Give first and last millisecond that the conditions allow: they are in microseconds, records in milliseconds."""
    low, high = _bounds([(symbol, value) for column, symbol, value in where if column == "timestamp"])
    return None if low == -_INT64 else -(-low // 1000), None if high == _INT64 else (high - 1) // 1000


def _chosen(planned: _Range, where: tuple[Condition, ...]) -> bool:
    for column, symbol, value in where:
        if column not in {"topic", "partition"}:
            continue
        own = planned[1] if column == "topic" else planned[2]
        if not (_TEXT[symbol](str(own), value) if symbol in _TEXT else _NAMED[symbol](own, value)):
            return False
    return True


def _bounds(conditions: list[tuple[str, int]]) -> tuple[int, int]:
    """First number that is wanted, and the first behind."""
    low, high = -_INT64, _INT64
    for symbol, value in conditions:
        if symbol in {"=", ">", ">="}:
            low = max(low, value + (symbol == ">"))
        if symbol in {"=", "<", "<="}:
            high = min(high, value + (symbol != "<"))
    return low, high
