"""Tables that sort, with an explanation of every column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog._times import format_time
from kafkalog.report.columns import Kind
from kafkalog.report.html import Html, element, join, shown, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalog.report.columns import Column, Table
    from kafkalog.report.model import Row

# What is long: of such columns some width is left on a telephone.
_LONG = frozenset({"advice", "message", "file", "path"})
_NUMBERS = frozenset({Kind.COUNT, Kind.BYTES, Kind.OFFSET, Kind.DURATION, Kind.RATIO})


def table(
    what: Table,
    rows: Sequence[Row],
    name: str,
    more: str = "",
    *,
    cells: Mapping[str, Callable[[Row], object]] | None = None,
    feet: Iterable[Row] = (),
    about: str | None = None,
) -> Html:
    """Write rows of the JSON as a table; ``name`` is the path of the rows in it.

    ``cells`` writes some columns in another way than by their kind. What has no value in any row is left out. With
    ``about``, the topic of the table, its columns are explained elsewhere.
    """
    columns = [each for each in what.columns if any(row.get(each.key) is not None for row in rows)]
    body = join(_row(columns, row, cells or {}) for row in rows)
    foot = join(_row(columns, row, {}) for row in feet)
    parts = [
        element("caption", what.caption, *([f". {more}"] if more else [])),
        element("thead", element("tr", *map(_heading, columns))),
        element("tbody", body),
        *([element("tfoot", foot)] if foot else []),
    ]
    whole = element("table", *parts, data_rows=name)
    # What is wider than the page scrolls, also by keyboard.
    label = what.caption if about is None else f"{what.caption} of {about}"
    scrolled = element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)
    return join([scrolled, explanations(columns)]) if about is None else scrolled


def explanations(columns: Iterable[Column]) -> Html:
    """Say of each column its unit, and what it means."""
    items = (
        element("div", element("dt", each.label), element("dd", f"{each.about} ({each.kind.value})"))
        for each in columns
    )
    return element("details", element("summary", "What the columns mean"), element("dl", *items, class_="legend"))


def _heading(column: Column) -> Html:
    button = element("button", column.label, type="button", title=f"{column.about} ({column.kind.value}); sort by it")
    return element("th", button, scope="col", data_key=column.key, class_=_class_of(column))


def _class_of(column: Column) -> str | None:
    if column.kind in _NUMBERS:
        return "n"
    return "t" if column.kind is Kind.TIME else "l" if column.key in _LONG else None


def _row(columns: Iterable[Column], row: Row, cells: Mapping[str, Callable[[Row], object]]) -> Html:
    return element("tr", *(_cell(column, row, cells.get(column.key)) for column in columns))


def _cell(column: Column, row: Row, write: Callable[[Row], object] | None) -> Html:
    value: Any = row.get(column.key)
    written = text(shown(value, column.kind) if write is None else write(row))
    # What a script sorts by, and a test compares, where it is not what is shown.
    raw = None if value is None or (write is None and str(value) == str(shown(value, column.kind))) else value
    return element("td", written, class_=_class_of(column), data_v=_raw(raw), title=_exact(value, column.kind))


def _exact(value: Any, kind: Kind) -> str | None:
    """Write in full what the cell shortens."""
    if value is None or kind not in {Kind.BYTES, Kind.TIME}:
        return None
    return f"{value:,} bytes" if kind is Kind.BYTES else format_time(value)


def _raw(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value
