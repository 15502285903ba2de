"""Values of options: what Spark writes as strings, and what a Python caller may give in their place."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Offsets",
    "assignment",
    "boolean",
    "by_partition",
    "duration",
    "integer",
    "offsets_text",
    "size",
    "timestamp",
]

Offsets = dict[str, dict[int, int]]
_Name = TypeVar("_Name", str, int)

_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
# Spark's words for times (JavaUtils.timeStringAs), in microseconds.
_TIMES = {"us": 1, "ms": 1000, "": 1000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000}
_TIMES |= {"h": 3_600_000_000, "d": 86_400_000_000}
_SHORT = 80
# Of an int in Kafka.
_LAST_PARTITION = (1 << 31) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def integer(value: Any, what: str, least: int | None = None) -> int:
    """Read a whole number.

    Parameters
    ----------
    value : object
        An int, or the text of one.
    what : str
        What it should be, for the error.
    least : int, optional
        The smallest that is allowed.
    """
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        raise ValueError(f"expected {what}, found {value!r}")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} is too large")
    return value


def boolean(value: Any) -> bool:
    """Read ``true`` or ``false`` in any letter case, and nothing else, as Spark does."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ValueError(f"expected true or false, found {value!r}")


def size(value: Any) -> int:
    """Read a number of bytes above zero, as 64m or 67108864."""
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,18})([bkmg]?)b?", value.strip().lower())
        if match:
            value = int(match[1]) * _SIZES[match[2]]
    return integer(value, "a number above zero, as 64m or 67108864", least=1)


def duration(value: Any) -> int:
    """Read a time in milliseconds as Spark writes times: 15m, 10s, 500ms, or a number of milliseconds."""
    if isinstance(value, timedelta):
        value = value // timedelta(milliseconds=1)
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,15})([a-z]*)", value.strip().lower())
        if match and match[2] in _TIMES:
            value = int(match[1]) * _TIMES[match[2]] // 1000
    return integer(value, "a time, as 15m, 10s or 500ms", least=0)


def timestamp(value: Any) -> int:
    """Read milliseconds since the epoch; a datetime needs its time zone.

    Those below zero are words to a broker (``ListOffsetsRequest``: -1 latest, -2 earliest); options have their own.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        value = (value - _EPOCH) // timedelta(milliseconds=1)
    found = integer(value, "milliseconds since the epoch")
    if found < 0:
        raise ValueError(f"expected milliseconds since the epoch, from 0 on, found {found}")
    return found


def assignment(value: Any) -> dict[str, list[int]]:
    """Read ``{"topic": [0, 1]}``."""
    value = _json(value)
    if not isinstance(value, dict) or not value or not all(isinstance(v, (list, tuple)) for v in value.values()):
        raise ValueError(f'expected {{"topic": [0, 1]}}, found {_short(value)}')
    return {str(topic): [_partition(number) for number in numbers] for topic, numbers in value.items()}


def by_partition(value: Any, words: str = "", reader: Callable[[Any], int] | None = None) -> Offsets:
    """Read ``{"topic": {"0": 23}}``.

    Parameters
    ----------
    value : str or dict
        JSON, or what it stands for.
    words : str
        What else there might have been, for the error.
    reader : callable, optional
        For the innermost values. Default: offsets.
    """
    value = _json(value, words)
    if not isinstance(value, dict) or not all(isinstance(partitions, dict) for partitions in value.values()):
        raise ValueError(f'expected {words}{{"topic": {{"0": 23}}}}, found {_short(value)}')
    reader = reader or (lambda offset: integer(offset, "an offset"))
    return {
        str(topic): _no_twins([(_partition(partition), reader(n)) for partition, n in partitions.items()])
        for topic, partitions in value.items()
    }


def offsets_text(offsets: Offsets) -> str:
    """Write offsets as Spark's Kafka source does: ``{"topic":{"0":23}}``, sorted."""
    ordered = {topic: {str(p): offsets[topic][p] for p in sorted(offsets[topic])} for topic in sorted(offsets)}
    return json.dumps(ordered, separators=(",", ":"))


def _json(value: Any, words: str = "") -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, object_pairs_hook=_no_twins)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected {words}JSON, found {_short(value)}: {error.msg} at character {error.pos}"
        ) from error


def _partition(value: Any) -> int:
    number = integer(value, "a partition", least=0)
    if number > _LAST_PARTITION:
        raise ValueError(f"expected a partition, at most {_LAST_PARTITION}, found {number}")
    return number


def _no_twins(pairs: list[tuple[_Name, Any]]) -> dict[_Name, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a name occurs twice in {_short([name for name, _ in pairs])}")
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 3] + "..."
