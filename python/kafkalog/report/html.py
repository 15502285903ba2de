"""HTML from values: everything is escaped that is not HTML already."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from kafkalog import _reprs
from kafkalog._times import format_time
from kafkalog.report.columns import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

NONE = "\u2013"
_SECONDS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
_EMPTY = frozenset({"rect", "line", "meta", "br"})


class Html(str):
    """Text that is HTML."""

    __slots__ = ()


def text(value: object) -> Html:
    """Escape a value: a name of the data cannot become markup, nor change the direction of the text around it."""
    return value if isinstance(value, Html) else Html(escape(_reprs.printable(str(value))))


def join(parts: Iterable[object]) -> Html:
    """Put parts one after the other."""
    return Html("".join(map(text, parts)))


def element(name: str, *parts: object, **attributes: object) -> Html:
    """Return an element: ``class_`` is ``class``, ``data_v`` is ``data-v``; without attributes that are None."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}/>" if name in _EMPTY and not parts else f"<{name}{written}>{join(parts)}</{name}>")


def shown(value: Any, kind: Kind) -> str:
    """Write a figure for a person."""
    if value is None:
        return NONE
    if value == 0 and kind is Kind.BYTES:
        return "0"
    if kind is Kind.BYTES:
        return _reprs.size(value).replace(" ", "\u00a0") if value >= 0 else f"{value} bytes"
    if kind is Kind.TIME:
        return minute(value)
    if kind is Kind.DAY:
        return (format_time(value) or NONE)[:10]
    if kind is Kind.DURATION:
        return span(value)
    if kind is Kind.RATIO:
        return f"{value:.2f}\u202f:\u202f1"
    if kind is Kind.FLAG:
        return "yes" if value else "no"
    return f"{value:,}" if kind is Kind.COUNT and isinstance(value, int) else str(value)


def moment(millis: int | None) -> str | None:
    """Write a time to the second, with a space: ``2026-01-31 12:00:00Z``."""
    written = format_time(millis)
    return None if written is None else written.replace("T", " ").split(".")[0] + ("Z" if "T" in written else "")


def minute(millis: int) -> str:
    """Write a time to the minute: ``2026-01-31 12:00``."""
    written = moment(millis)
    return NONE if written is None else written[:-4] if written.endswith("Z") else written


def span(millis: int) -> str:
    """Write a time span in its largest unit, as ``3 h``."""
    for unit, length in _SECONDS:
        if millis >= length:
            number = millis / length
            return f"{number:.0f}\u00a0{unit}" if millis % length == 0 or number >= 10 else f"{number:.1f}\u00a0{unit}"  # noqa: PLR2004
    return f"{millis}\u00a0ms"
