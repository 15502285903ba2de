"""Options as Spark's Kafka source spells them, read into plain values.

A data source gets strings under lower-cased names, a Python caller gives any of them as keyword arguments, in
Spark's spelling or with underscores, and may give dicts, lists and numbers where Spark wants JSON.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog.spark.columns import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Bound", "ReadOptions", "parse"]

Offsets = dict[str, dict[int, int]]

EARLIEST, LATEST = -2, -1

# Spark's spelling of every option that a batch read takes.
KNOWN = (
    "path",
    "paths",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "includeHeaders",
    "kafka.isolation.level",
    # kafkalog's own
    "columns",
    "checkCrcs",
    "includeControl",
    "includeInactive",
    "splitBytes",
    "batchRows",
    "batchBytes",
    "decodeAhead",
)
# Options of Spark's Kafka source that this version refuses, and why.
_LATER = "is not supported in this version of kafkalog"
_NO_BROKER = "has no meaning for files: kafkalog reads the log dir that `path` names, without a broker"
UNSUPPORTED = {
    "failOnDataLoss": _LATER,
    "minPartitions": f"{_LATER}; `splitBytes` sets the size of a task",
    "maxRecordsPerPartition": f"{_LATER}; `splitBytes` sets the size of a task",
    "maxOffsetsPerTrigger": f"is for streams, and streaming {_LATER}",
    "minOffsetsPerTrigger": f"is for streams, and streaming {_LATER}",
    "maxTriggerDelay": f"is for streams, and streaming {_LATER}",
    "topic": f"is for writing, and writing from Spark {_LATER}",
    "groupIdPrefix": _NO_BROKER,
    "kafka.group.id": _NO_BROKER,
    "kafka.bootstrap.servers": _NO_BROKER,
    "kafkaConsumer.pollTimeoutMs": _NO_BROKER,
    "fetchOffset.numRetries": _NO_BROKER,
    "fetchOffset.retryIntervalMs": _NO_BROKER,
}
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SHORT = 80
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Bound:
    """One end of what is read; at most one of the three counts."""

    # "earliest", "oldest", "latest", "high_watermark" or offsets by partition
    offsets: str | Offsets
    timestamp: int | None = None
    by_timestamp: Offsets | None = None

    @property
    def named(self) -> Offsets | None:
        """The partitions that the user listed, if this end is given by partition."""
        if self.timestamp is not None:
            return None
        if self.by_timestamp is not None:
            return self.by_timestamp
        return self.offsets if isinstance(self.offsets, dict) else None


@dataclass(frozen=True)
class ReadOptions:
    """What a batch read is asked for."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    assign: dict[str, list[int]] | None
    starting: Bound
    ending: Bound
    # startingOffsetsByTimestampStrategy: no record at or after the time is an error, or an empty partition
    start_must_match: bool
    columns: tuple[str, ...]
    check_crcs: bool
    include_control: bool
    include_inactive: bool
    split_bytes: int | None
    batch_rows: int
    batch_bytes: int
    decode_ahead: bool


def parse(given: Mapping[str, Any]) -> ReadOptions:
    """Read the options.

    Parameters
    ----------
    given : mapping
        Names in any letter case, with or without underscores; values as strings or as Python's own. None is not given.

    Returns
    -------
    ReadOptions
        Checked, with the defaults filled in.

    Raises
    ------
    ValueError
        For an unknown name (the nearest known one is named), an option of Spark's Kafka source that is not supported,
        a value that cannot be read, or a combination that makes no sense.
    """
    options = _by_known_name(given)
    take = options.get
    selected = [name for name in ("assign", "subscribe", "subscribePattern") if take(name) is not None]
    if len(selected) > 1:
        raise ValueError(
            f"only one of assign, subscribe and subscribePattern may be given, not {' and '.join(selected)}"
        )
    isolation = str(take("kafka.isolation.level", "read_uncommitted"))
    if isolation != "read_uncommitted":
        raise ValueError(f"option kafka.isolation.level={isolation!r} {_LATER}; it reads read_uncommitted")
    strategy = str(take("startingOffsetsByTimestampStrategy", "error")).lower()
    if strategy not in {"error", "latest"}:
        raise ValueError(f"option startingOffsetsByTimestampStrategy is {strategy!r}, not 'error' or 'latest'")
    return ReadOptions(
        paths=_paths(options),
        topics=_read(options, "subscribe", _topics),
        topic_pattern=_read(options, "subscribePattern", str),
        assign=_read(options, "assign", _assignment),
        starting=_bound(options, "starting", "earliest", ("earliest", "oldest"), refused=LATEST),
        ending=_bound(options, "ending", "latest", ("latest", "high_watermark"), refused=EARLIEST),
        start_must_match=strategy == "error",
        columns=_columns(options),
        check_crcs=_read(options, "checkCrcs", _boolean, default=True),
        include_control=_read(options, "includeControl", _boolean, default=False),
        include_inactive=_read(options, "includeInactive", _boolean, default=False),
        split_bytes=_read(options, "splitBytes", _size),
        batch_rows=_read(options, "batchRows", _size, default=65_536),
        batch_bytes=_read(options, "batchBytes", _size, default=2 << 20),
        decode_ahead=_read(options, "decodeAhead", _boolean, default=True),
    )


def _by_known_name(given: Mapping[str, Any]) -> dict[str, Any]:
    known = {_plain(name): name for name in KNOWN}
    refused = {_plain(name): name for name in UNSUPPORTED}
    options: dict[str, Any] = {}
    for name, value in given.items():
        plain = _plain(name)
        if plain in refused:
            raise ValueError(f"option {refused[plain]} of Spark's Kafka source {UNSUPPORTED[refused[plain]]}")
        if plain not in known:
            if plain.startswith("kafka."):
                raise ValueError(f"option {name} {_NO_BROKER}")
            nearest = difflib.get_close_matches(plain, known, n=1, cutoff=0)
            raise ValueError(f"unknown option {name!r}; did you mean {known[nearest[0]]!r}?")
        if value is None:
            continue
        if known[plain] in options:
            raise ValueError(f"option {known[plain]} is given twice")
        options[known[plain]] = value
    return options


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _read(options: Mapping[str, Any], name: str, reader: Callable[[Any], Any], *, default: Any = None) -> Any:
    if name not in options:
        return default
    try:
        return reader(options[name])
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"option {name}: {error}") from error


def _paths(options: Mapping[str, Any]) -> tuple[str, ...]:
    def several(value: Any) -> list[Any]:
        if isinstance(value, str):
            value = _json(value)
        if not isinstance(value, list):
            raise ValueError(f"expected a JSON list of paths, found {value!r}")  # noqa: TRY004 - a value of an option
        return value

    given = _read(options, "paths", several, default=[])
    if "path" in options:
        path = options["path"]
        given = [*(path if isinstance(path, (list, tuple)) else [path]), *given]
    if not given:
        raise ValueError("no path is given: name a log dir, as in load('/var/lib/kafka/data')")
    paths = []
    for each in given:
        text = os.fsdecode(each)
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text)
        if scheme and scheme[1].lower() != "file":
            raise ValueError(f"path {text!r}: only local files can be read, not {scheme[1]}:")
        if scheme:
            text = "/" + text[scheme.end() :].lstrip("/")
        # Executors have another working directory than the driver.
        paths.append(str(Path(text).absolute()))
    return tuple(paths)


def _columns(options: Mapping[str, Any]) -> tuple[str, ...]:
    include_headers = _read(options, "includeHeaders", _boolean, default=False)
    names: tuple[str, ...] = _read(options, "columns", lambda value: resolve(value, include_headers=include_headers))
    return names or resolve(include_headers=include_headers)


def _topics(value: Any) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else list(value)
    topics = tuple(name.strip() for name in given if name.strip())
    if not topics:
        raise ValueError(f"no topic is named in {value!r}")
    return topics


def _assignment(value: Any) -> dict[str, list[int]]:
    value = _json(value)
    if not isinstance(value, dict) or not value or not all(isinstance(v, (list, tuple)) for v in value.values()):
        raise ValueError(f'expected {{"topic": [0, 1]}}, found {_short(value)}')
    return {str(topic): [_number(n, "a partition", least=0) for n in numbers] for topic, numbers in value.items()}


def _bound(options: Mapping[str, Any], end: str, default: str, words: tuple[str, ...], *, refused: int) -> Bound:
    """Read the three ways to give one end; a timestamp wins over timestamps by partition, these win over offsets."""

    def offsets(value: Any) -> str | Offsets:
        if isinstance(value, str) and value.strip().lower() in words:
            return value.strip().lower()
        if isinstance(value, str) and value.strip().lower() in {"earliest", "latest"}:
            raise ValueError(f"{value.strip().lower()!r} is not possible in a batch read")
        found = _by_partition(value, f"{' or '.join(words)}, or ")
        for topic, partitions in found.items():
            for partition, offset in partitions.items():
                if offset == refused or offset < EARLIEST:
                    raise ValueError(f"offset {offset} of {topic}-{partition} is not possible in a batch read")
        return found

    return Bound(
        offsets=_read(options, f"{end}Offsets", offsets, default=default),
        timestamp=_read(options, f"{end}Timestamp", _timestamp),
        by_timestamp=_read(options, f"{end}OffsetsByTimestamp", lambda value: _by_partition(value, "", _timestamp)),
    )


def _by_partition(value: Any, words: str, reader: Callable[[Any], int] | None = None) -> Offsets:
    value = _json(value, words)
    if not isinstance(value, dict) or not all(isinstance(partitions, dict) for partitions in value.values()):
        raise ValueError(f'expected {words}{{"topic": {{"0": 23}}}}, found {_short(value)}')
    reader = reader or (lambda offset: _number(offset, "an offset"))
    return {
        str(topic): {_number(partition, "a partition", least=0): reader(n) for partition, n in partitions.items()}
        for topic, partitions in value.items()
    }


def _timestamp(value: Any) -> int:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return (value - _EPOCH) // timedelta(milliseconds=1)
    return _number(value, "milliseconds since the epoch")


def _number(value: Any, what: str, least: int | None = None) -> int:
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        raise ValueError(f"expected {what}, found {value!r}")
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ValueError(f"expected true or false, found {value!r}")


def _size(value: Any) -> int:
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,18})([bkmg]?)b?", value.strip().lower())
        if match:
            value = int(match[1]) * _UNITS[match[2]]
    size = _number(value, "a number above zero, as 64m or 67108864", least=1)
    if size >= 1 << 63:
        raise ValueError(f"{size} is too large")
    return size


def _json(value: Any, words: str = "") -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, object_pairs_hook=_no_twins)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"expected {words}JSON, found {_short(value)}: {error.msg} at character {error.pos}"
        ) from error


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a name occurs twice in {_short([name for name, _ in pairs])}")
    return found


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 3] + "..."
