"""The one parser of times: of the command line, of ``scan`` and of Spark's options.

A time is whole milliseconds since the epoch, as in Kafka, or a ``datetime`` with a time zone; as text, milliseconds or
ISO 8601 with a time zone. Python's datetimes are finer than Kafka's timestamps, and there is one rule for rounding:

* Up, where the question is "the first record at or after": starting, minimum and ending times. An end is exclusive, so
  it is the first record at or after its time as well.
* Down, for an inclusive upper bound ("at or before"), and for the timestamp of a record that is written.
"""

from __future__ import annotations

import operator
import re
import time
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NAIVE_EPOCH = _EPOCH.replace(tzinfo=None)
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
# The years that ISO 8601 writes with four digits, as far as Python counts them: 1 to 9999.
_YEAR_1, _YEAR_10000 = -62_135_596_800_000, 253_402_300_800_000
_YEAR_DIGITS = 4
_NO_TIMESTAMP = -1
_DATE_AND_ZONE = re.compile(r"(\d{4}-\d{2}-\d{2})([Zz]|[+-]\d{2}:\d{2})", re.ASCII)


def to_millis(value: Any, name: str, *, up: bool = True) -> int:
    """Convert milliseconds, a datetime or text (:func:`parse_time`) to milliseconds; errors begin with the name."""
    if isinstance(value, str):
        return parse_time(value, name, up=up)
    if isinstance(value, datetime):
        micros = to_micros(value, name)
        return -(-micros // 1000) if up else micros // 1000
    return _integer(value, name)


def clock(now: Any) -> int:
    """Return a time in milliseconds since the epoch; the system's clock for None."""
    return time.time_ns() // 1_000_000 if now is None else to_millis(now, "now")


def to_micros(value: Any, name: str) -> int:
    """Convert a number of milliseconds or a datetime to microseconds since the epoch, which is exact."""
    if not isinstance(value, datetime):
        return _integer(value, name) * 1000
    if value.tzinfo is None or value.utcoffset() is None:
        raise ValueError(f"{name} {value.isoformat()} has no time zone; add one, for instance timezone.utc")
    return (value - _EPOCH) // timedelta(microseconds=1)


def since_1970(millis: int, name: str) -> int:
    """Return the time, or refuse one before 1970, which Kafka cannot look up."""
    if millis < 0:
        raise ValueError(f"{name} is {millis}, before 1970; only times from 0 on can be looked up")
    return millis


def parse_time(text: str, name: str, *, up: bool = True) -> int:
    """Read whole milliseconds, or ISO 8601 as :func:`parse_datetime`, as milliseconds since the epoch.

    A bare number of four digits is refused: ``2024`` is a year to a person, and two seconds after the epoch to Kafka.
    """
    given = text.strip()
    digits = given[1:] if given[:1] in {"+", "-"} else given
    if digits.isascii() and digits.isdecimal():
        if len(given) == _YEAR_DIGITS:
            raise ValueError(
                f"{name} {given!r} is ambiguous: for the year write {given}-01-01T00:00:00Z, for milliseconds 0{given}"
            )
        return _integer(int(given), name)
    return to_millis(parse_datetime(text, name), name, up=up)


_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_FROM_NOW = re.compile(r"(?:now)?(?P<sign>[+-])(?P<parts>(?:\d{1,9}(?:ms|[smhdw]))+)", re.ASCII)


def from_now(text: str) -> int | None:
    """Read a time from now, as ``-2h``, ``+7d``, ``now-1h30m`` or ``now``; None for other text."""
    given = text.strip().lower()
    if given == "now":
        return clock(None)
    found = _FROM_NOW.fullmatch(given)
    if found is None:
        return None
    parts = re.findall(r"(\d+)(ms|[smhdw])", found["parts"])
    distance = sum(int(number) * _UNITS[unit] for number, unit in parts)
    return clock(None) + (distance if found["sign"] == "+" else -distance)


def parse_datetime(text: str, name: str) -> datetime:
    """Read ISO 8601 with a time zone (``Z`` or ``+01:00``); a date is its midnight."""
    given = text.strip()
    try:
        # A date with a zone is its midnight; Python takes the zone for a time of day.
        date = _DATE_AND_ZONE.fullmatch(given)
        whole = given if date is None else f"{date[1]}T00:00:00{date[2]}"
        # Python 3.10 does not know Z.
        when = datetime.fromisoformat(f"{whole[:-1]}+00:00" if whole[-1:] in {"Z", "z"} else whole)
    except ValueError:
        raise ValueError(
            f"{name} {text!r} is neither milliseconds since the epoch nor ISO 8601, as in 2024-01-31T12:00:00Z"
        ) from None
    if when.tzinfo is None:
        raise ValueError(f"{name} {given} has no time zone; write {given}Z for UTC, or {given}+01:00")
    return when


def format_time(millis: int | None) -> str | None:
    """Write milliseconds since the epoch as ISO 8601 in UTC, or as a number for years that it cannot write.

    None and -1 are no time, and give None.
    """
    if millis is None or millis == _NO_TIMESTAMP:
        return None
    if not _YEAR_1 <= millis < _YEAR_10000:
        return str(millis)
    hours, rest = divmod(millis, 3_600_000)
    seconds, rest = divmod(rest, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{_hour(hours)}{minutes:02d}:{seconds:02d}.{rest:03d}Z"


def with_millis(table: pa.Table) -> pa.Table:
    """Return times in milliseconds: a datetime ends with the year 9999, a timestamp of Kafka does not."""
    import pyarrow as pa

    for n, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(n, column.name, table.column(n).cast(pa.int64()))
    return table


# Tables have a time or two in each row, and Python's own formatting takes three times as long.
@lru_cache(maxsize=1024)
def _hour(hours: int) -> str:
    return (_NAIVE_EPOCH + timedelta(hours=hours)).isoformat("T", "hours") + ":"


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a number of milliseconds or a datetime, not {value!r}")
    try:
        millis = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number of milliseconds or a datetime, not {value!r}") from None
    if not _LEAST <= millis <= _MOST:
        raise ValueError(f"{name} is {millis}, which is not within {_LEAST} to {_MOST}")
    return millis
