"""Read options, as Spark's Kafka source spells them, parsed and checked.

A data source receives strings under lower-cased names. A Python caller passes keyword arguments, in Spark's spelling or
with underscores, and may pass dicts, lists and numbers where Spark expects JSON.

Source of names, defaults, precedence and refusals: ``KafkaSourceProvider`` and ``JsonUtils`` of Spark 4.3.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kafkalog import _core
from kafkalog.options import ReadOptions
from kafkalog.schema import RECORD_COLUMNS, decoded_columns
from kafkalog.spark import option_values
from kafkalog.spark.columns import resolve
from kafkalog.spark.option_names import STORAGE, canonical, naming_options
from kafkalog.spark.predicates import check_predicates
from kafkalog.spark.split import BATCH_BYTES, BATCH_ROWS
from kafkalog.spark.topic_pattern import java_pattern, needs_java_pattern
from kafkalog.storage import open_storage
from kafkalog.storage._options import StorageOptions
from kafkalog.storage._urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from kafkalog.options import IsolationLevel
    from kafkalog.spark.option_names import Use
    from kafkalog.spark.option_values import Offsets
    from kafkalog.spark.predicates import Predicate
    from kafkalog.storage import Storage
    from kafkalog.tiers.mounting import MountedTier
    from kafkalog.tiers.opening import LayoutChoice

EARLIEST, LATEST = -2, -1

_STRATEGIES = ("assign", "subscribe", "subscribePattern")
# KafkaSourceProvider.DEFAULT_MAX_TRIGGER_DELAY
_DEFAULT_MAX_DELAY_MS = 15 * 60_000
_ABSOLUTE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+:)?/")
_ABSOLUTE_COMMA = re.compile(rf",(?=\s*{_ABSOLUTE.pattern})")


@dataclass(frozen=True)
class Bound:
    """One end of a read; a timestamp takes precedence over offsets."""

    # "earliest", "oldest", "latest", "high_watermark" or offsets by partition
    offsets: str | Offsets
    timestamp: int | None = None
    by_timestamp: Offsets | None = None

    @property
    def is_by_time(self) -> bool:
        """True if this end is a time."""
        return self.timestamp is not None or self.by_timestamp is not None

    @property
    def named(self) -> Offsets | None:
        """The user's list by partition, if this end is given so."""
        if self.timestamp is not None:
            return None
        if self.by_timestamp is not None:
            return self.by_timestamp
        return self.offsets if isinstance(self.offsets, dict) else None

    def offset(self, topic: str, partition: int) -> int | None:
        """Return the user's value for a partition, if it is an offset: -2 and -1 are the log's ends."""
        if self.is_by_time or not isinstance(self.offsets, dict):
            return None
        return self.offsets.get(topic, {}).get(partition)

    def time(self, topic: str, partition: int) -> int:
        """Return the timestamp for a partition; this end must be a time."""
        return self.timestamp if self.timestamp is not None else (self.by_timestamp or {})[topic][partition]


@dataclass(frozen=True)
class SourceOptions:
    """The options of a read, checked, with the defaults filled in."""

    # what URLs among the paths are in, and the tier; unpickled before anything that has such a path
    stores: tuple[Storage | MountedTier, ...]
    paths: tuple[str, ...]
    # topics, partitions, isolation level, columns and how to decode; its bounds are unused, as Spark has more kinds
    read: ReadOptions
    # a regular expression of Java that the core does not support
    java_pattern: str | None
    starting: Bound
    ending: Bound
    # startingOffsetsByTimestampStrategy: a start that no record reaches is an error, or an empty partition
    start_must_match: bool
    fail_on_data_loss: bool
    predicates: tuple[Predicate, ...]
    min_partitions: int | None
    max_records: int | None
    split_bytes: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    # how keys and values are decoded; with_decoding fills it in
    decoding: _core.Decoding | None = None

    @property
    def topics(self) -> tuple[str, ...] | None:
        """The topics of ``subscribe``."""
        return None if self.read.topics is None else tuple(self.read.topics)

    @property
    def assign(self) -> dict[str, list[int]] | None:
        """The partitions of ``assign``."""
        return cast("dict[str, list[int]] | None", self.read.partitions)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(self.read.columns or ())

    def with_columns(self, columns: tuple[str, ...]) -> Self:
        """Return a copy that reads other columns."""
        return replace(self, read=replace(self.read, columns=columns))

    def with_decoding(self) -> Self:
        """Return a copy with the schemas of keys and values, if they are decoded."""
        if self.read.decode is None:
            return self
        from kafkalog.spark.decoded import decoding_of

        with naming_options():
            return replace(self, decoding=decoding_of(self))


def parse(given: Mapping[str, Any], use: Use = "batch") -> SourceOptions:
    """Parse the options of a read."""
    options = canonical(given, use)
    strategies = [name for name in _STRATEGIES if name in options]
    if len(strategies) > 1:
        raise ValueError(
            f"only one of assign, subscribe and subscribePattern may be given, not {' and '.join(strategies)}"
        )
    # Spark does not trim this option.
    strategy = option_values.choice("error", "latest", trim=False)
    no_match = parsed(options, "startingOffsetsByTimestampStrategy", strategy)
    starting, ending = _batch_bounds(options) if use == "batch" else _stream_bounds(options)
    least, most = _trigger_limits(options, use)
    _check_latest(options)
    paths, stores = parse_places(options)
    if stores and use == "stream":
        raise ValueError(f"{stores[0]}: a stream reads local log dirs; read a store in batches")
    is_java = needs_java_pattern(str(options.get("subscribePattern", "")))
    return SourceOptions(
        stores=stores,
        paths=paths,
        read=_read_options(options, is_java=is_java),
        java_pattern=parsed(options, "subscribePattern", java_pattern) if is_java else None,
        starting=starting,
        ending=ending,
        start_must_match=no_match != "latest",
        fail_on_data_loss=parsed(options, "failOnDataLoss", option_values.boolean, default=True),
        predicates=parsed(options, "where", _predicates, default=()),
        min_partitions=parsed(options, "minPartitions", _count),
        max_records=parsed(options, "maxRecordsPerPartition", _count),
        split_bytes=parsed(options, "splitBytes", option_values.size),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=parsed(
            options if use == "stream" else {}, "maxTriggerDelay", option_values.duration, default=_DEFAULT_MAX_DELAY_MS
        ),
    )


@naming_options()
def _read_options(options: Mapping[str, Any], *, is_java: bool) -> ReadOptions:
    return ReadOptions(
        topics=parsed(options, "subscribe", _topics),
        topic_pattern=None if is_java else parsed(options, "subscribePattern", _pattern),
        partitions=parsed(options, "assign", option_values.assignment),
        columns=_columns(options),
        isolation_level=_isolation_level(options),
        include_control=parsed(options, "includeControl", option_values.boolean, default=False),
        include_inactive=parsed(options, "includeInactive", option_values.boolean, default=False),
        latest_per_key=parsed(options, "latestPerKey", option_values.boolean, default=False),
        tombstones=parsed(options, "tombstones", option_values.boolean, default=False),
        containing=parsed(options, "containing", lambda value: value),
        matching=parsed(options, "matching", str),
        search_in=parsed(options, "searchIn", _names, default=("value",)),
        check_crcs=parsed(options, "checkCrcs", option_values.boolean, default=True),
        on_corrupt=parsed(options, "onCorrupt", option_values.choice("raise", "skip"), default="raise"),
        timestamp_unit="us",
        batch_rows=parsed(options, "batchRows", option_values.size, default=BATCH_ROWS),
        batch_bytes=parsed(options, "batchBytes", option_values.size, default=BATCH_BYTES),
        decode=parsed(options, "decode", option_values.choice("key", "value", "both")),
        schemas=parsed(options, "schemas", option_values.schemas),
        reader_schema=parsed(options, "readerSchema", option_values.reader_schema, default="latest"),
        decode_as=parsed(options, "decodeAs", option_values.choice("struct", "json"), default="struct"),
        on_undecoded=parsed(options, "onUndecoded", option_values.choice("raise", "null", "skip"), default="raise"),
    )


def _check_latest(options: Mapping[str, Any]) -> None:
    """Refuse what would choose among the records of a key before the latest one is known."""
    if not parsed(options, "latestPerKey", option_values.boolean, default=False):
        return
    if "maxRecordsPerPartition" in options:
        raise ValueError(
            "option maxRecordsPerPartition divides partitions; with latestPerKey, one task reads each of them"
        )
    for column, _, _ in parsed(options, "where", _predicates, default=()):
        if column in {"offset", "timestamp"}:
            raise ValueError(f"option where: with latestPerKey, a condition on {column} belongs in the query")


def parse_rows(given: Mapping[str, Any]) -> SourceOptions:
    """Parse what the rows are made of, before the kind of read is known: the bounds are not those of the options."""
    options = canonical(given, None)
    is_decoded = "decode" in options
    ignored = {name for name in options if name.startswith(("starting", "ending", "max", "min")) or name == "where"}
    stored = options.pop(STORAGE, {})
    rows = {name: value for name, value in options.items() if name not in ignored}
    rows |= {f"{STORAGE}{name}": value for name, value in stored.items()}
    if not is_decoded:
        rows = {"columns": options.get("columns"), "includeHeaders": options.get("includeHeaders")}
        rows = {name: value for name, value in rows.items() if value is not None} | {"path": "/"}
    return parse(rows).with_decoding()


def parsed(options: Mapping[str, Any], name: str, parser: Callable[[Any], Any], *, default: Any = None) -> Any:
    """Parse an option; an error names it."""
    if name not in options:
        return default
    try:
        return parser(options[name])
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"option {name}: {error}") from error


def _count(value: Any) -> int:
    return option_values.integer(value, "a number above zero", least=1)


def _trigger_limits(options: Mapping[str, Any], use: Use) -> tuple[int | None, int | None]:
    """Parse the limits of a trigger. A batch read ignores them, but a contradiction is an error there too."""
    names = {"minOffsetsPerTrigger", "maxOffsetsPerTrigger"}
    if use == "batch" and not names <= options.keys():
        return None, None
    least = parsed(options, "minOffsetsPerTrigger", lambda value: option_values.integer(value, "a number", least=0))
    most = parsed(options, "maxOffsetsPerTrigger", _count)
    if least is not None and most is not None and least > most:
        raise ValueError(f"option minOffsetsPerTrigger ({least}) exceeds maxOffsetsPerTrigger ({most})")
    return least, most


def _isolation_level(options: Mapping[str, Any]) -> IsolationLevel:
    level = option_values.choice("read_uncommitted", "read_committed")
    found = {parsed(options, name, level) for name in ("kafka.isolation.level", "isolation.level") if name in options}
    if len(found) > 1:
        raise ValueError("options kafka.isolation.level and isolation.level differ; set one of them")
    chosen: IsolationLevel = found.pop() if found else "read_uncommitted"
    return chosen


def parse_places(options: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Storage | MountedTier, ...]]:
    """Parse the paths of a read, and open the stores that URLs among them are in, and the tier."""
    opener = PlaceOpener(options)
    if "remote" not in options:
        if alone := options.keys() & {"remoteLayout", "keyring"}:
            raise ValueError(f"option {min(alone)} describes a tier, which the option remote names")
        return tuple(map(opener.open, given_paths(options))), tuple(opener.stores)
    # Without a path the tier is read alone.
    paths = [opener.open(each) for each in given_paths(options)] if options.keys() & {"path", "paths"} else None
    remote = opener.open(os.fspath(options["remote"]))
    named: set[str] = set(parsed(options, "subscribe", _topics, default=()))
    named |= parsed(options, "assign", option_values.assignment, default={}).keys()
    from kafkalog.tiers.mounting import mounted, planned

    layout = parsed(options, "remoteLayout", option_values.choice("auto", "local", "aiven"), default="auto")
    keys = parsed(options, "keyring", option_values.keyring, default={})
    roots = mounted(paths, remote, cast("LayoutChoice", layout), keys, tuple(sorted(named)) or None)
    return tuple(roots), (*opener.stores, *planned(roots))


class PlaceOpener:
    """Opens the stores that URLs are in, with the options of the store among those of a read."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._given = {name: value for name, value in options.get(STORAGE, {}).items() if value is not None}
        # Everyone who can read a plan could read them.
        StorageOptions(self._given).require_no_secrets("Spark's plan")
        self.stores: list[Storage] = []

    def open(self, text: str) -> str:
        """Return a path from the root, or the URL at which a store is mounted now."""
        if not is_url(text):
            return _absolute(text, must_exist=True)
        store = open_storage(text, self._given or None)
        _core.forget_listings(store.url)
        self.stores.append(store)
        return store.url


def parse_paths(options: Mapping[str, Any], *, must_exist: bool = False) -> tuple[str, ...]:
    """Parse ``path`` and ``paths`` into absolute local paths."""
    return tuple(_absolute(each, must_exist=must_exist) for each in given_paths(options))


def given_paths(options: Mapping[str, Any]) -> list[str]:
    """Return the paths that ``path`` and ``paths`` name."""

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

    given = parsed(options, "paths", several, default=[])
    if "path" in options:
        path = options["path"]
        given = [*(path if isinstance(path, (list, tuple)) else _comma_separated(path)), *given]
    if not given:
        raise ValueError("no path is given; name a log dir, as in load('/var/lib/kafka/data')")
    return [os.fsdecode(each) for each in given]


def _absolute(text: str, *, must_exist: bool) -> str:
    """Make a path absolute: executors have another working directory than the driver."""
    path = Path(_core.local_path(text))
    absolute = path.absolute()
    if must_exist and text == "-" and not os.path.lexists(absolute):
        raise ValueError("Spark does not read standard input (-): tasks read files; write it to one")
    if must_exist and not path.is_absolute() and not os.path.lexists(absolute):
        # A data source is planned in a process that the JVM started, in the JVM's working directory.
        reason = (
            f"{os.strerror(errno.ENOENT)} (the path {text!r} is relative: kafkalog.spark.read resolves it against "
            "Python's working directory, format('kafkalog') against the folder in which Spark was started; use an "
            "absolute path)"
        )
        raise FileNotFoundError(errno.ENOENT, reason, str(absolute))
    return str(absolute)


def _comma_separated(path: Any) -> list[Any]:
    """Split ``/d1,/d2`` as a broker does its ``log.dirs``, unless a path of that very name exists.

    After an absolute path or a URI, a comma separates only if another one follows: ``/a,b`` is one path, and never the
    paths ``/a`` and ``./b``.
    """
    if not isinstance(path, str) or "," not in path or (not is_url(path) and os.path.lexists(_core.local_path(path))):
        return [path]
    parts = _ABSOLUTE_COMMA.split(path) if _ABSOLUTE.match(path.strip()) else path.split(",")
    return [each for each in (part.strip(", ") for part in parts) if each]


def _columns(options: Mapping[str, Any]) -> tuple[str, ...]:
    include_headers = parsed(options, "includeHeaders", option_values.boolean, default=False)
    if options.get("columns") == "*":
        return (*(column.name for column in RECORD_COLUMNS), *decoded_columns(options.get("decode")))
    names: tuple[str, ...] = parsed(options, "columns", lambda value: resolve(value, include_headers=include_headers))
    return names or resolve(include_headers=include_headers)


def _predicates(value: Any) -> tuple[Predicate, ...]:
    return check_predicates(option_values.conditions(value))


def _names(value: Any) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else list(value)
    return tuple(name.strip() for name in given if name.strip())


def _topics(value: Any) -> tuple[str, ...]:
    topics = _names(value)
    if not topics:
        raise ValueError(f"no topic is named in {value!r}")
    return topics


def _pattern(value: Any) -> str:
    pattern = str(value).strip()
    if not pattern:
        raise ValueError("the pattern is empty")
    # Spark searches the pattern in a topic's name (SubscribePatternStrategy, findFirstIn); the core matches the name.
    return f".*(?:{pattern}).*"


def _batch_bounds(options: Mapping[str, Any]) -> tuple[Bound, Bound]:
    starting = _bound(
        options, "starting", ("earliest", "oldest"), default="earliest", refused=LATEST, where="a batch read"
    )
    ending = _bound(
        options, "ending", ("latest", "high_watermark"), default="latest", refused=EARLIEST, where="a batch read"
    )
    _compare(starting.by_timestamp, ending.by_timestamp, "timestamp")
    if isinstance(starting.offsets, dict) and isinstance(ending.offsets, dict):
        _compare(starting.named, ending.named, "offset")
    return starting, ending


def _stream_bounds(options: Mapping[str, Any]) -> tuple[Bound, Bound]:
    ending = str(options.get("endingOffsets", "latest")).strip().lower()
    if "endingOffsets" in options and ending != "high_watermark":
        raise ValueError(
            "option endingOffsets: a stream has no end; only high_watermark is valid, which bounds each batch"
        )
    starting = _bound(options, "starting", ("earliest", "latest"), default="latest", refused=None, where="a stream")
    return starting, Bound(ending)


def _bound(
    options: Mapping[str, Any], end: str, keywords: tuple[str, ...], *, default: str, refused: int | None, where: str
) -> Bound:
    """Parse one end of a read: of the three ways to give it, only the one that takes precedence, as in Spark."""

    def offsets(value: Any) -> str | Offsets:
        keyword = value.strip().lower() if isinstance(value, str) else None
        if keyword in keywords:
            return keyword
        if keyword in {"earliest", "latest"}:
            raise ValueError(f"{keyword!r} is not valid in {where}; use {' or '.join(keywords)}, or offsets")
        found = option_values.by_partition(value, f"{' or '.join(keywords)}, or ")
        for topic, partitions in found.items():
            for partition, offset in partitions.items():
                if offset == refused or offset < EARLIEST:
                    raise ValueError(f"offset {offset} of {topic}-{partition} is not valid in {where}")
        return found

    if f"{end}Timestamp" in options:
        return Bound(default, timestamp=parsed(options, f"{end}Timestamp", option_values.timestamp))
    name = f"{end}OffsetsByTimestamp"
    if name in options:
        times = parsed(options, name, lambda value: option_values.by_partition(value, "", option_values.timestamp))
        return Bound(default, by_timestamp=times)
    return Bound(parsed(options, f"{end}Offsets", offsets, default=default))


def _compare(starting: Offsets | None, ending: Offsets | None, what: str) -> None:
    """Check that two ends by partition name the same partitions, and are in order (``checkOffsetLimitValidity``)."""
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
                f"starting {what} {n} of {topic}-{partition} exceeds its ending {what} {last[topic, partition]}"
            )
