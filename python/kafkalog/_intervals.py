"""Intervals of whole numbers: what conditions on offsets, timestamps and the like allow.

The one home of bounds: Spark's predicates and the filters of other engines both end here.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparisons by the sign that SQL has for them."""

_INT64 = 1 << 63


class Interval(NamedTuple):
    """Whole numbers from ``low`` on and below ``high``."""

    low: int
    high: int

    @classmethod
    def of(cls, symbol: str, value: int) -> Interval:
        """Return the numbers that a comparison allows, or an interval around them: ``!=`` allows everything."""
        low, high = EVERYTHING
        if symbol in {"=", ">", ">="}:
            low = max(low, value + (symbol == ">"))
        if symbol in {"=", "<", "<="}:
            high = min(high, value + (symbol != "<"))
        return cls(low, high)

    def __and__(self, other: Interval) -> Interval:
        """Return the numbers that are in both."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def __or__(self, other: Interval) -> Interval:
        """Return the smallest interval around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    @property
    def is_empty(self) -> bool:
        """True if it contains no number."""
        return self.low >= self.high

    @property
    def first(self) -> int | None:
        """The first number, or None if it is not bounded below."""
        return None if self.low <= EVERYTHING.low else self.low

    @property
    def last(self) -> int | None:
        """The last number, or None if it is not bounded above."""
        return None if self.high >= EVERYTHING.high else self.high - 1

    def touches(self, other: Interval) -> bool:
        """Tell whether the smallest interval around both holds nothing else."""
        return self.low <= other.high and other.low <= self.high

    def to_millis(self) -> Interval:
        """Return the milliseconds within an interval of microseconds: whole ones only, as records have them."""
        first, last = self.first, self.last
        low = EVERYTHING.low if first is None else -(-first // 1000)
        return Interval(low, EVERYTHING.high if last is None else last // 1000 + 1)


EVERYTHING = Interval(-_INT64, _INT64)
"""The bounds of a column without conditions."""
