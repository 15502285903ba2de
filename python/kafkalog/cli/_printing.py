"""Lines, tables and JSON that commands print."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from kafkalog import _reprs
from kafkalog._times import with_millis
from kafkalog.cli._style import styled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from json import JSONEncoder

    import pyarrow as pa

# Longer cells are cut: they would push every other column off the screen.
_WIDEST = 80
# A column is as wide as its widest cell up to here, or as most of them: others push only what follows in their line.
_WIDE = 40


def print_notes(notes: Iterable[str]) -> None:
    """Print what a replay of an internal topic skipped or left out."""
    for note in notes:
        warn(f"{note}")


def cell(text: str, most: int | None = None) -> str:
    """Return text for a line: control characters are escaped, and the middle of long text is cut."""
    text = _reprs.printable(text)
    if most is not None and len(text) > most:
        head = most * 2 // 3
        text = f"{text[:head]}...{text[head + 3 - most :]}"
    return text


def say(text: object) -> None:
    """Print a line in which names of the data or of files may be."""
    print(cell(str(text)))


def warn(text: str) -> None:
    """Print such a line on stderr."""
    print(styled("kafkalog:", "red", sys.stderr), cell(text), file=sys.stderr)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], right: Iterable[str] = ()) -> None:
    """Print rows in columns; None is a dash. Control characters are escaped; long cells are cut, except the last."""
    to_the_right = set(right)
    # By columns, and one format string for whole lines: a log dir has tens of thousands of segments.
    columns = [
        ["-" if value is None else cell(value, most) if isinstance(value, str) else str(value) for value in column]
        for most, column in zip([_WIDEST] * (len(head) - 1) + [None], zip(head, *rows, strict=True), strict=True)
    ]
    line = "  ".join(
        f"%{width}s" if name in to_the_right else f"%-{width}s"
        for name, width in zip(head, map(_width, columns), strict=True)
    )
    first, *lines = ((line % cells).rstrip() for cells in zip(*columns, strict=True))
    print("\n".join((styled(first, "bold", sys.stdout), *lines)))


def _width(cells: Sequence[str]) -> int:
    lengths = sorted(map(len, cells))
    usual = max(_WIDE, lengths[len(lengths) // 2])
    return max(length for length in lengths if length <= usual)


def only_named(
    rows: Iterable[dict[str, Any]], column: str, names: Iterable[str] | None, kind: str, paths: Sequence[str]
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows that these names select, or all rows without names, and the exit code.

    A name that no row has is reported on stderr, as a ``kind`` that does not exist in the paths.
    """
    found, wanted = list(rows), set(names or ())
    missing = sorted(wanted.difference(row[column] for row in found))
    for name in missing:
        warn(f"{kind} {name!r} does not exist in {', '.join(paths)}")
    return [row for row in found if not wanted or row[column] in wanted], int(bool(missing))


# Python's spellings, and Spark's.
_SETTINGS = re.compile(r'\b(on_corrupt|decode|decode_as|decodeAs|on_undecoded|onUndecoded)="(\w+)"')
_OPTIONS = {
    'schemas="/path"': "--schemas /path",
    "schemas={id: text}": "--schemas ID=FILE",
    "schemas={topic: path of a .avsc, .proto, .desc or .json file}": "--schemas TOPIC=FILE.avsc (.proto, .desc, .json)",
}
_NAMES = re.compile(r"\breader(?:_s|S)chema\b=?|^schemas(?=: )")


def in_options(text: str) -> str:
    """Return a message with the options of the command line in the place of Python's."""
    for python, option in _OPTIONS.items():
        text = text.replace(python, option)
    text = _SETTINGS.sub(lambda found: f"{_option(found[1])} {found[2]}", text)
    return _NAMES.sub(lambda found: _option(found[0].rstrip("=")), text)


def _option(name: str) -> str:
    return f"--{re.sub('_|(?=[A-Z])', '-', name).lower()}"


def print_report(report: Any, objects: Iterable[dict[str, Any]] | None = None) -> int:
    """Print a report's lines, or its objects and one for each entry of the source that is not in the result."""
    print_notes(getattr(report, "metadata_notes", ()))
    if objects is None:
        for line in report.lines():
            say(line)
        return 0
    for each in objects:
        json_line(each)
    for left in getattr(report, "left_out", ()):
        json_line({"path": left.path, "leftOut": left.reason})
    return 0


def print_rows(
    columns: Mapping[str, str | Callable[[dict[str, Any]], Any]],
    rows: Iterable[dict[str, Any]],
    right: Iterable[str],
    *,
    as_json: bool,
) -> None:
    """Print rows as objects, or as a table: under each heading a field, or what a function makes of the row."""
    if as_json:
        for row in rows:
            json_line(row)
        return
    cells = [[row[each] if isinstance(each, str) else each(row) for each in columns.values()] for row in rows]
    table(list(columns), cells, right)


def json_line(fields: dict[str, Any]) -> None:
    """Print one object."""
    print(_encoder().encode(fields))


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows with times in milliseconds: a datetime ends with the year 9999, a record's timestamp does not."""
    return with_millis(table).to_pylist()


@cache
def _encoder() -> JSONEncoder:
    import json

    # json.dumps makes one for each object where the separators are not the usual ones.
    return json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
