"""Options as Spark's Kafka source spells them, read into plain values.

A data source gets strings under lower-cased names, a Python caller gives any of them as keyword arguments, in
Spark's spelling or with underscores, and may give dicts, lists and numbers where Spark wants JSON.

Source of names, defaults, precedence and refusals: ``KafkaSourceProvider`` and ``JsonUtils`` of Spark 4.3.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kafkalog.spark import values
from kafkalog.spark.columns import resolve
from kafkalog.spark.names import by_known_name
from kafkalog.spark.pattern import java, needs_java
from kafkalog.spark.split import BATCH_BYTES, BATCH_ROWS
from kafkalog.spark.where import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalog.spark.names import Use
    from kafkalog.spark.values import Offsets

__all__ = ["EARLIEST", "LATEST", "Bound", "Isolation", "ReadOptions", "parse", "parse_columns", "paths_of"]

EARLIEST, LATEST = -2, -1
Isolation = Literal["read_uncommitted", "read_committed"]

_STRATEGIES = ("assign", "subscribe", "subscribePattern")
# KafkaSourceProvider.DEFAULT_MAX_TRIGGER_DELAY
_DEFAULT_DELAY_MS = 15 * 60_000


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
    """What a read is asked for."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    # of Java, where the core's have no such thing
    java_pattern: str | None
    assign: dict[str, list[int]] | None
    starting: Bound
    ending: Bound
    # startingOffsetsByTimestampStrategy: no record at or after the time is an error, or an empty partition
    start_must_match: bool
    fail_on_data_loss: bool
    isolation: Isolation
    columns: tuple[str, ...]
    # conditions as ``where.checked`` gives them
    where: tuple[tuple[str, str, Any], ...]
    check_crcs: bool
    include_control: bool
    include_inactive: bool
    min_partitions: int | None
    max_records: int | None
    split_bytes: int | None
    batch_rows: int
    batch_bytes: int
    decode_ahead: bool | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int


def parse(given: Mapping[str, Any], use: Use = "batch") -> ReadOptions:
    """Read the options.

    Parameters
    ----------
    given : mapping
        Names in any letter case, with or without underscores; values as strings or as Python's own. None is not given.
    use : {"batch", "stream"}
        What they are for.

    Returns
    -------
    ReadOptions
        Checked, with the defaults filled in.

    Raises
    ------
    ValueError
        For an unknown name (the nearest known one is named), an option of Spark's Kafka source that is refused, a value
        that cannot be read, or a combination that makes no sense.
    FileNotFoundError
        For a relative path that is not there; whether others are is seen when the read is planned.
    """
    options = by_known_name(given, use)
    selected = [name for name in _STRATEGIES if name in options]
    if len(selected) > 1:
        raise ValueError(
            f"only one of assign, subscribe and subscribePattern may be given, not {' and '.join(selected)}"
        )
    strategy = str(options.get("startingOffsetsByTimestampStrategy", "error")).lower()
    if strategy not in {"error", "latest"}:
        raise ValueError(f"option startingOffsetsByTimestampStrategy is {strategy!r}, not 'error' or 'latest'")
    starting, ending = _batch_bounds(options) if use == "batch" else _stream_bounds(options)
    least, most = _per_trigger(options, use)
    is_java = needs_java(str(options.get("subscribePattern", "")))
    return ReadOptions(
        paths=paths_of(options, must_exist=True),
        topics=_read(options, "subscribe", _topics),
        topic_pattern=None if is_java else _read(options, "subscribePattern", _pattern),
        java_pattern=_read(options, "subscribePattern", java) if is_java else None,
        assign=_read(options, "assign", values.assignment),
        starting=starting,
        ending=ending,
        start_must_match=strategy == "error",
        fail_on_data_loss=_read(options, "failOnDataLoss", values.boolean, default=True),
        isolation=_isolation(options),
        columns=_columns(options),
        where=_read(options, "where", _conditions, default=()),
        check_crcs=_read(options, "checkCrcs", values.boolean, default=True),
        include_control=_read(options, "includeControl", values.boolean, default=False),
        include_inactive=_read(options, "includeInactive", values.boolean, default=False),
        min_partitions=_read(options, "minPartitions", _count),
        max_records=_read(options, "maxRecordsPerPartition", _count),
        split_bytes=_read(options, "splitBytes", values.size),
        batch_rows=_read(options, "batchRows", values.size, default=BATCH_ROWS),
        batch_bytes=_read(options, "batchBytes", values.size, default=BATCH_BYTES),
        decode_ahead=_read(options, "decodeAhead", values.boolean),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_read(
            options if use == "stream" else {}, "maxTriggerDelay", values.duration, default=_DEFAULT_DELAY_MS
        ),
    )


def parse_columns(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Read which columns the options ask for, before it is known whether they are a batch read's or a stream's."""
    return _columns(by_known_name(given, None))


def _read(options: Mapping[str, Any], name: str, reader: Callable[[Any], Any], *, default: Any = None) -> Any:
    if name not in options:
        return default
    try:
        return reader(options[name])
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"option {name}: {error}") from error


def _count(value: Any) -> int:
    return values.integer(value, "a number above zero", least=1)


def _per_trigger(options: Mapping[str, Any], use: Use) -> tuple[int | None, int | None]:
    """Read the limits of a trigger: in a batch read they are passed over, but for what both together say."""
    names = {"minOffsetsPerTrigger", "maxOffsetsPerTrigger"}
    if use == "batch" and not names <= options.keys():
        return None, None
    least = _read(options, "minOffsetsPerTrigger", lambda value: values.integer(value, "a number", least=0))
    most = _read(options, "maxOffsetsPerTrigger", _count)
    if least is not None and most is not None and least > most:
        raise ValueError(f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})")
    return least, most


def _isolation(options: Mapping[str, Any]) -> Isolation:
    def level(value: Any) -> Isolation:
        for known in ("read_uncommitted", "read_committed"):
            if str(value).strip().lower() == known:
                return known
        raise ValueError(f"expected read_uncommitted or read_committed, found {value!r}")

    found = {_read(options, name, level) for name in ("kafka.isolation.level", "isolation.level") if name in options}
    if len(found) > 1:
        raise ValueError("options kafka.isolation.level and isolation.level say different things")
    chosen: Isolation = found.pop() if found else "read_uncommitted"
    return chosen


def paths_of(options: Mapping[str, Any], *, must_exist: bool = False) -> tuple[str, ...]:
    """Read which log dirs are meant; of a relative one that must exist and does not, say where it was looked for."""

    def several(value: Any) -> list[Any]:
        import json

        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                raise ValueError(f"expected a JSON list of paths, found {value!r}") from None
        if not isinstance(value, list):
            raise ValueError(f"expected a JSON list of paths, found {value!r}")  # noqa: TRY004 - a value of an option
        return value

    given = _read(options, "paths", several, default=[])
    if "path" in options:
        path = options["path"]
        given = [*(path if isinstance(path, (list, tuple)) else _comma_list(path)), *given]
    if not given:
        raise ValueError("no path is given: name a log dir, as in load('/var/lib/kafka/data')")
    return tuple(_whole(os.fsdecode(each), must_exist=must_exist) for each in given)


def _whole(text: str, *, must_exist: bool) -> str:
    """Give a path from the root on: executors have another working directory than the driver."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text)
    if scheme and scheme[1].lower() != "file":
        raise ValueError(f"path {text!r}: only local files can be read, not {scheme[1]}:")
    path = Path("/" + text[scheme.end() :].lstrip("/") if scheme else text)
    whole = path.absolute()
    if must_exist and not path.is_absolute() and not os.path.lexists(whole):
        # What plans a data source is a process of the JVM's, and is told nothing of the user's.
        says = (
            f"{os.strerror(errno.ENOENT)} (the path {text!r} is relative: kafkalog.spark.read looks for it in Python's "
            "working directory, format('kafkalog') in the folder that Spark was started in; better give it whole)"
        )
        raise FileNotFoundError(errno.ENOENT, says, str(whole))
    return str(whole)


def _comma_list(path: Any) -> list[Any]:
    """Cut ``/d1,/d2`` as the broker does its ``log.dirs``, unless something of that very name exists."""
    if not isinstance(path, str) or "," not in path or os.path.lexists(path):
        return [path]
    return [each.strip() for each in path.split(",") if each.strip()]


def _columns(options: Mapping[str, Any]) -> tuple[str, ...]:
    include_headers = _read(options, "includeHeaders", values.boolean, default=False)
    names: tuple[str, ...] = _read(options, "columns", lambda value: resolve(value, include_headers=include_headers))
    return names or resolve(include_headers=include_headers)


def _conditions(value: Any) -> tuple[tuple[str, str, Any], ...]:
    if isinstance(value, str):
        raise ValueError("conditions are (column, operator, value) in Python; in SQL, filters are pushed down")  # noqa: TRY004
    return checked(value)


def _topics(value: Any) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else list(value)
    topics = tuple(name.strip() for name in given if name.strip())
    if not topics:
        raise ValueError(f"no topic is named in {value!r}")
    return topics


def _pattern(value: Any) -> str:
    pattern = str(value).strip()
    if not pattern:
        raise ValueError("the pattern is empty")
    # Spark takes a topic whose name has the pattern anywhere in it (SubscribePatternStrategy, findFirstIn).
    return f".*(?:{pattern}).*"


def _batch_bounds(options: Mapping[str, Any]) -> tuple[Bound, Bound]:
    starting = _bound(options, "starting", ("earliest", "oldest"), default="earliest", refused=LATEST, use="batch read")
    ending = _bound(
        options, "ending", ("latest", "high_watermark"), default="latest", refused=EARLIEST, use="batch read"
    )
    _compare(starting.by_timestamp, ending.by_timestamp, "timestamp")
    if isinstance(starting.offsets, dict) and isinstance(ending.offsets, dict):
        _compare(starting.named, ending.named, "offset")
    return starting, ending


def _stream_bounds(options: Mapping[str, Any]) -> tuple[Bound, Bound]:
    word = str(options.get("endingOffsets", "latest")).strip().lower()
    if "endingOffsets" in options and word != "high_watermark":
        raise ValueError("option endingOffsets: a stream has no end; only high_watermark can bound what is read so far")
    starting = _bound(options, "starting", ("earliest", "latest"), default="latest", refused=None, use="stream")
    return starting, Bound(word)


def _bound(
    options: Mapping[str, Any], end: str, words: tuple[str, ...], *, default: str, refused: int | None, use: str
) -> Bound:
    """Read the three ways to give one end; only the one that wins is looked at, as in Spark."""

    def offsets(value: Any) -> str | Offsets:
        if isinstance(value, str) and value.strip().lower() in words:
            return value.strip().lower()
        if isinstance(value, str) and value.strip().lower() in {"earliest", "latest"}:
            raise ValueError(f"{value.strip().lower()!r} is not possible in a {use}")
        found = values.by_partition(value, f"{' or '.join(words)}, or ")
        for topic, partitions in found.items():
            for partition, offset in partitions.items():
                if offset == refused or offset < EARLIEST:
                    raise ValueError(f"offset {offset} of {topic}-{partition} is not possible in a {use}")
        return found

    if f"{end}Timestamp" in options:
        return Bound(default, timestamp=_read(options, f"{end}Timestamp", values.timestamp))
    name = f"{end}OffsetsByTimestamp"
    if name in options:
        times = _read(options, name, lambda value: values.by_partition(value, "", values.timestamp))
        return Bound(default, by_timestamp=times)
    return Bound(_read(options, f"{end}Offsets", offsets, default=default))


def _compare(starting: Offsets | None, ending: Offsets | None, what: str) -> None:
    """Hold two ends by partition against each other (``checkOffsetLimitValidity``)."""
    if starting is None or ending is None:
        return
    first = {(topic, partition): n for topic, by in starting.items() for partition, n in by.items()}
    last = {(topic, partition): n for topic, by in ending.items() for partition, n in by.items()}
    if first.keys() != last.keys():
        odd = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(first.keys() ^ last.keys())[:10])
        raise ValueError(f"starting and ending {what}s must name the same partitions; only one of them names {odd}")
    for (topic, partition), n in first.items():
        if n > last[topic, partition] >= 0:
            raise ValueError(
                f"starting {what} {n} of {topic}-{partition} is above its ending {what} {last[topic, partition]}"
            )
