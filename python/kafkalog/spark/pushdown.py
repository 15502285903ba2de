"""Spark's filters as conditions: exact ones are taken, Spark applies the others itself.

Spark refuses every read of a reader that has ``pushFilters`` unless ``spark.sql.python.filterPushdown.enabled`` is on.
The planner process that pushes filters is the only one that has loaded ``WORKER``: only there a reader has the method.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkalog.spark.batch import Reader
from kafkalog.spark.columns import resolve
from kafkalog.spark.where import checked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.datasource import Filter

__all__ = ["FilteringReader", "is_asked_for"]

WORKER = "pyspark.sql.worker.data_source_pushdown_filters"

_SYMBOLS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
    "StringStartsWith": "startswith",
    "StringEndsWith": "endswith",
    "StringContains": "contains",
}
_NEGATED = {"=": "!=", "in": "not in"}
# Columns that hold something in every record; a condition on null is no condition.
_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


def is_asked_for() -> bool:
    """Tell whether this process pushes filters."""
    return WORKER in sys.modules


class FilteringReader(Reader):
    """A reader whose ranges are narrowed by what Spark pushes."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - PySpark's own name for it
        """Take what is exact; give back the others."""
        understood = [(each, _conditions(each)) for each in filters]
        taken = [condition for _, conditions in understood for condition in conditions or ()]
        self.options = replace(self.options, where=(*self.options.where, *taken))
        return [each for each, conditions in understood if conditions is None]


def _conditions(found: Filter) -> list[tuple[str, str, Any]] | None:
    """Give a filter's conditions, None where it cannot be applied exactly."""
    kind, negated = type(found).__name__, False
    if kind == "Not":
        found, negated = found.child, True  # type: ignore[attr-defined]
        kind = type(found).__name__
    path: tuple[str, ...] = getattr(found, "attribute", ())
    if len(path) != 1:
        return None
    (column,) = resolve([path[0]])
    if kind == "IsNotNull" and not negated:
        return [] if column in _NEVER_NULL else None
    symbol = _SYMBOLS.get(kind)
    if negated:
        symbol = _NEGATED.get(symbol or "")
    if symbol is None:
        return None
    value = found.value  # type: ignore[attr-defined]
    try:
        return list(checked([(column, symbol, value)]))
    except ValueError:
        return None
