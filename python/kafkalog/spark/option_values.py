"""Parsers of option values: the strings that Spark passes, and what a Python caller may pass instead."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog._times import parse_time, since_1970, to_millis

if TYPE_CHECKING:
    from collections.abc import Callable

Offsets = dict[str, dict[int, int]]
_Name = TypeVar("_Name", str, int)

_SIZE_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
# Spark's units of time (JavaUtils.timeStringAs), in microseconds.
_TIME_UNITS = {"us": 1, "ms": 1000, "": 1000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000}
_TIME_UNITS |= {"h": 3_600_000_000, "d": 86_400_000_000}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_MAX_SHOWN = 80
# Kafka's partitions are Java ints.
_MAX_PARTITION = (1 << 31) - 1


def integer(value: Any, what: str, least: int | None = None) -> int:
    """Parse a whole number."""
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        raise ValueError(f"expected {what}, found {value!r}")
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"expected {what}, found {value}, which does not fit in 64 bits")
    return value


def boolean(value: Any) -> bool:
    """Parse ``true`` or ``false`` in any letter case, and nothing else, as Spark does."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ValueError(f"expected true or false, found {value!r}")


def choice(*valid: str, trim: bool = True) -> Callable[[Any], str]:
    """Make a parser of one of some words, in any letter case; with ``trim`` spaces around it do not count."""

    def parse(value: Any) -> str:
        word = (str(value).strip() if trim else str(value)).lower()
        if word not in valid:
            raise ValueError(f"expected {' or '.join(valid)}, found {value!r}")
        return word

    return parse


def size(value: Any) -> int:
    """Parse a number of bytes above zero, such as 64m or 67108864."""
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,18})([bkmg]?)b?", value.strip().lower())
        if match:
            value = int(match[1]) * _SIZE_UNITS[match[2]]
    return integer(value, "a number above zero, such as 64m or 67108864", least=1)


def duration(value: Any) -> int:
    """Parse a duration, in milliseconds, as Spark writes durations: 15m, 10s, 500ms, or a number of milliseconds."""
    if isinstance(value, timedelta):
        value = value // timedelta(milliseconds=1)
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,15})([a-z]*)", value.strip().lower())
        if match and match[2] in _TIME_UNITS:
            value = int(match[1]) * _TIME_UNITS[match[2]] // 1000
    return integer(value, "a duration, such as 15m, 10s or 500ms", least=0)


def timestamp(value: Any) -> int:
    """Parse a time to look up, in milliseconds since the epoch.

    A bare integer always is milliseconds, also ``2024``: that is the contract of Spark's Kafka source, whose options
    these are. Other text and datetimes are parsed and rounded as everywhere in kafkalog (``kafkalog._times``).

    A broker takes negative numbers for keywords (``ListOffsetsRequest``: -1 latest, -2 earliest); here they are errors.
    """
    if isinstance(value, str):
        millis = int(value) if _INTEGER.fullmatch(value.strip()) else parse_time(value, "time")
    else:
        millis = to_millis(value, "time")
    return since_1970(integer(millis, "a time"), "time")


def assignment(value: Any) -> dict[str, list[int]]:
    """Parse ``{"topic": [0, 1]}``."""
    value = _json(value)
    if not isinstance(value, dict) or not value or not all(isinstance(v, (list, tuple)) for v in value.values()):
        raise ValueError(f'expected {{"topic": [0, 1]}}, found {_shortened(value)}')
    return {str(topic): [_partition(number) for number in numbers] for topic, numbers in value.items()}


def by_partition(value: Any, keywords: str = "", parse: Callable[[Any], int] | None = None) -> Offsets:
    """Parse ``{"topic": {"0": 23}}``."""
    value = _json(value, keywords)
    if not isinstance(value, dict) or not all(isinstance(partitions, dict) for partitions in value.values()):
        raise ValueError(f'expected {keywords}{{"topic": {{"0": 23}}}}, found {_shortened(value)}')
    parse = parse or (lambda offset: integer(offset, "an offset"))
    return {
        str(topic): _without_duplicates([(_partition(partition), parse(n)) for partition, n in partitions.items()])
        for topic, partitions in value.items()
    }


def conditions(value: Any) -> list[tuple[str, str, Any]]:
    """Parse ``[["offset", ">=", 100]]``."""
    value = _json(value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(v, (list, tuple)) and len(v) == 3 for v in value):  # noqa: PLR2004
        raise ValueError(f'expected [["offset", ">=", 100]], found {_shortened(value)}')
    return [(column, operator, operand) for column, operator, operand in value]


def schemas(value: Any) -> Any:
    """Parse log dirs, separated by commas or as JSON, or ``{"7": "<schema>", "orders": "/path/orders.avsc"}``."""
    if isinstance(value, str):
        text = value.strip()
        return _json(value) if text.startswith(("{", "[")) else [part.strip() for part in text.split(",")]
    return value


def keyring(value: Any) -> dict[str, str]:
    """Parse ``{"key-1": "/path/key-1.pem"}``."""
    found = _json(value)
    if not isinstance(found, dict) or not all(isinstance(each, (str, os.PathLike)) for each in found.values()):
        raise ValueError(f'expected {{"key-1": "/path/key-1.pem"}}, found {_shortened(value)}')
    return {str(name): os.fspath(path) for name, path in found.items()}


def reader_schema(value: Any) -> Any:
    """Parse ``latest``, a version, a schema's text or file, or ``{"topic": one of these}``.

    A JSON object is a schema if one of its values is not a version or text, or if it has a schema's ``type``.
    """
    if not isinstance(value, str) or not value.strip().startswith("{"):
        return value
    try:
        found = json.loads(value)
    except json.JSONDecodeError:
        return value
    is_schema = {"type", "$schema", "$ref", "properties", "$id"} & found.keys()
    is_by_topic = found and not is_schema and all(isinstance(each, (int, str)) for each in found.values())
    return found if is_by_topic else value


def _json(value: Any, keywords: str = "") -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected {keywords}JSON, found {_shortened(value)}: {error.msg} at character {error.pos}"
        ) from error


def _partition(value: Any) -> int:
    number = integer(value, "a partition number", least=0)
    if number > _MAX_PARTITION:
        raise ValueError(f"expected a partition number of at most {_MAX_PARTITION}, found {number}")
    return number


def _without_duplicates(pairs: list[tuple[_Name, Any]]) -> dict[_Name, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a name occurs twice in {_shortened([name for name, _ in pairs])}")
    return found


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."
