"""Display of objects: one line for ``repr``, a table for notebooks; and what open files have in common."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Self

    from kafkalog.log import PartitionFolder, PartitionLog

_UNITS = ("kB", "MB", "GB", "TB")
_STEP = 1000
# What a terminal would act on, or a line would end at: escaped.
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def size(octets: int) -> str:
    """Write a number of bytes with at most three digits, as ``131 kB``."""
    number, unit = float(octets), "bytes"
    for larger in _UNITS:
        # From 999.5 on it would be written as 1000.
        if number < _STEP - 0.5:
            break
        number, unit = number / _STEP, larger
    return f"{number:.0f} {unit}" if unit == "bytes" or number >= _STEP / 10 else f"{number:.3g} {unit}"


def count(number: int, noun: str) -> str:
    """Write a number with its noun, as ``1 segment`` and ``2 segments``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """Return text for a line: control characters are escaped."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def short_list(names: Sequence[str], most: int = 5) -> str:
    """Write the first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def found(partitions: Iterable[PartitionFolder | PartitionLog]) -> str:
    """Name partitions in an error about one that does not exist."""
    names = [f"{each.topic}-{each.partition}" for each in partitions]
    return f"found: {short_list(names, 20) or 'none'}"


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[Any]], more: str = "") -> str:
    """Write a table for ``_repr_html_``; None is a dash."""
    from html import escape

    def row(tag: str, cells: Iterable[Any]) -> str:
        shown = ("-" if cell is None else escape(str(cell)) for cell in cells)
        return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in shown)}</tr>"

    body = "".join(row("td", cells) for cells in rows)
    note = f"<p>{escape(more)}</p>" if more else ""
    table = f"<table><thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"
    return f"<div><p><b>{escape(title)}</b></p>{table}{note}</div>"


class Closing(ABC):
    """Base of what is open until it is closed: a context manager that cannot be pickled."""

    __slots__ = ()

    _NOT_PICKLED: str
    """The error of pickling, which names what can be pickled instead."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a kafkalog.{type(self).__name__} cannot be pickled: {self._NOT_PICKLED}")

    @abstractmethod
    def close(self) -> None:
        """Close it."""


@cache
def camel(name: str) -> str:
    """Spell a name as columns are spelled."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def plain(value: Any) -> Any:
    """Return dataclasses and what they hold as dicts and lists, with names spelled as columns are."""
    if dataclasses.is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {camel(str(name)): plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value
