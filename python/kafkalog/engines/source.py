"""Source of a dataset: log dirs and options, a plan for each filter, and readers of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from os import fspath
from threading import Lock
from typing import TYPE_CHECKING, Any

from kafkalog import _core, storage
from kafkalog._intervals import EVERYTHING, Interval
from kafkalog._loose import STANDARD_INPUT, naming
from kafkalog._typed_values import fields_of, plan_decoding, refreshed
from kafkalog.engines.expressions import columns_of, parse
from kafkalog.engines.regions import Region, region
from kafkalog.engines.searches import search_arguments
from kafkalog.options import ReadOptions, decode_arguments, plan_arguments, whole_columns
from kafkalog.reader import RecordReader, loose_of
from kafkalog.schema import DEFAULT_COLUMNS, RECORD_COLUMNS, batch_schema, decoded_columns, record_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkalog._core import PartitionRange
    from kafkalog._loose import Loose
    from kafkalog.typing import Layout, StrPath

# Columns that bounds are derived for. None of them is ever null.
_RECORD_BOUNDS = frozenset({"offset", "timestamp", "producerId", "magic", "isControl"})
_BATCH_BOUNDS = frozenset({"baseOffset", "lastOffset", "maxTimestamp"})
# Those that a reader applies to every record, and not only to batches.
_EXACT = frozenset({"offset", "timestamp"})
_MAX_INT64, _MAX_MAGIC = (1 << 63) - 1, 255
# Of a batch of v2; older ones have shorter headers.
_HEADER_BYTES = 61


class Metrics:
    """Counters of bytes read and skipped, to which several readers add."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[str, int] = {}
        self._lost: list[pa.Table] = []

    def add(self, counts: dict[str, int]) -> None:
        """Add counts."""
        with self._lock:
            for name, number in counts.items():
                self._counts[name] = self._counts.get(name, 0) + number

    def reset(self) -> None:
        """Begin again from zero."""
        with self._lock:
            self._counts.clear()
            self._lost.clear()

    def lose(self, lost: pa.Table) -> None:
        """Remember ranges that were skipped as damaged."""
        with self._lock:
            self._lost.append(lost)

    def lost(self) -> list[pa.Table]:
        """Return what was skipped as damaged, a table for each read."""
        with self._lock:
            return list(self._lost)

    def snapshot(self) -> dict[str, int]:
        """Return the counters, with what was skipped."""
        with self._lock:
            counts = {name: self._counts.get(name, 0) for name in _COUNTERS}
        headers = min(counts["skipped"] * _HEADER_BYTES, counts["skipped_bytes"])
        read = counts["bytes"] - counts["skipped_bytes"] + headers
        return {"bytes_read": read, "bytes_skipped": max(counts.pop("total") - read, 0), **counts}


_COUNTERS = (
    "total",
    "bytes",
    "batches",
    "records",
    "skipped",
    "skipped_bytes",
    "skipped_records",
    "copied",
    "segments",
    "segments_lost",
    "bytes_lost",
    "undecoded",
    "unknown_fields",
)


@dataclass(frozen=True)
class Plan:
    """Ranges that hold every row of a filter, what headers of batches in them must say, and what is searched for."""

    ranges: list[PartitionRange]
    total: int
    """Bytes of the partitions without the filter."""
    headers: dict[str, Any] = field(default_factory=dict)
    """Further arguments of ``_core.scan_ranges``."""
    condition: pc.Expression | None = None
    """The filter, unless the ranges hold nothing else."""


@dataclass(frozen=True)
class Source:
    """Log dirs and options, for their records or batches as rows; pickles as these."""

    paths: tuple[str, ...]
    options: ReadOptions
    is_batches: bool = False
    max_disorder_ms: int | None = None
    threads: int | None = None
    """Threads of a read; None leaves it to the engine."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns."""
        if self.is_batches:
            return batch_schema()
        options = self.options
        if self.decoding is not None:
            return self._decoded_schema(list(options.columns or DEFAULT_COLUMNS), options.layout)
        return record_schema(options.columns, layout=options.layout, timestamp_unit=options.timestamp_unit)

    def _decoded_schema(self, columns: list[str], layout: Layout) -> pa.Schema:
        """Return the schema of columns where keys or values are decoded."""
        arguments = {**decode_arguments(self.options), "columns": whole_columns(columns), "layout": layout}
        projected = None if self.decoding is None else self.decoding.projected(**fields_of(columns))
        return RecordReader(_core.scan_ranges([], decoding=projected, **arguments)).schema

    @cached_property
    def decoding(self) -> _core.Decoding | None:
        """The decoding of keys and values. The reader schemas are those of its first use."""
        if self.options.decode is None:
            return None
        return plan_decoding(self._ranges(plan_arguments(self.options)), list(self.paths), self.options)

    @cached_property
    def plain_schema(self) -> pa.Schema:
        """All columns that the table has, as filters compare them: Arrow has no functions for views."""
        if self.is_batches:
            return batch_schema()
        names = [column.name for column in RECORD_COLUMNS]
        if self.decoding is not None:
            return self._decoded_schema([*names, *decoded_columns(self.options.decode)], "binary")
        return record_schema(names, timestamp_unit=self.options.timestamp_unit)

    @cached_property
    def _loose(self) -> Loose | None:
        return loose_of(self.paths[0], self.options) if len(self.paths) == 1 else None

    @property
    def is_loose(self) -> bool:
        """True if it lies outside a log dir: its files exist no longer than this object."""
        return self._loose is not None

    def _ranges(self, arguments: dict[str, Any]) -> list[PartitionRange]:
        found = self._loose
        if found is None:
            return _core.plan(list(self.paths), **arguments)
        with naming(found):
            return found.named(_core.plan([fspath(found)], **arguments))

    def __reduce__(self) -> tuple[Any, ...]:
        if self.paths == (STANDARD_INPUT,):
            raise TypeError("standard input cannot be pickled: it is read once")
        decoding = self.decoding if not self.is_batches else None
        paths = tuple(map(storage.pickled, self.paths))
        return _restored, (paths, self.options, self.is_batches, self.max_disorder_ms, self.threads, decoding)

    def plan(self, condition: pc.Expression | None = None) -> Plan:
        """Find out which bytes have to be read for a filter."""
        arguments = plan_arguments(self.options)
        ranges = self._ranges(arguments)
        total = sum(each.bytes for each in ranges)
        # An unknown topic has no value to compare with bounds.
        is_bounded = self._loose is None or not self._loose.is_segment
        tree = parse(condition, self.plain_schema) if condition is not None and is_bounded else None
        if tree is None:
            return Plan(_not_empty(ranges), total, condition=condition)
        is_records = not self.is_batches
        bounded = _RECORD_BOUNDS if is_records else _BATCH_BOUNDS
        found: dict[tuple[Interval, Interval], list[PartitionRange]] = {}
        regions: list[Region] = []
        for each in ranges:
            within = region(tree, {"topic": each.topic, "partition": each.partition}, bounded)
            if within is None:
                continue
            if self.options.latest_per_key:
                # Which record is the latest of its key does not depend on the filter.
                within = Region(is_exact=within.is_exact and not within.bounds)
            places = _record_places(within) if is_records else _batch_places(within)
            if not any(place.is_empty for place in places):
                found.setdefault(places, []).append(each)
                regions.append(within)
        found_by = search_arguments(tree, self._searched()) if is_records and not self.options.is_search else {}
        is_exact = is_records and all(each.is_exact and each.bounds.keys() <= _EXACT for each in regions)
        return Plan(
            self._narrowed(found, arguments),
            total,
            {**self._headers(regions), **found_by} if is_records else {},
            None if is_exact else condition,
        )

    def columns_for(self, names: Iterable[str], *conditions: pc.Expression | None) -> list[str]:
        """Return the columns to read, and fields of them, for some of the columns, a filter and computed columns."""
        wanted = dict.fromkeys(names)
        for condition in conditions:
            if condition is not None:
                tree = parse(condition, self.plain_schema)
                named = [(name,) for name in self.plain_schema.names] if tree is None else sorted(columns_of(tree))
                wanted |= dict.fromkeys(".".join(each) for each in named)
        # A column that is wanted as a whole has its fields.
        found = [name for name in wanted if "." not in name or name.partition(".")[0] not in wanted]
        # Arrow's scanner needs a column to count the rows.
        return found or ["partition"]

    def open(
        self,
        plan: Plan,
        columns: list[str],
        *,
        threads: int = 1,
        batch_rows: int | None = None,
        layout: Layout = "binary",
        limit: int | None = None,
    ) -> RecordReader:
        """Open a plan for reading, of records at most so many."""
        if self.is_batches:
            check_crcs = self.options.check_crcs and "isValid" in columns
            on_corrupt = self.options.on_corrupt
            stream = _core.scan_batch_ranges(plan.ranges, check_crcs=check_crcs, on_corrupt=on_corrupt)
            return RecordReader(stream, self._loose)
        arguments = {**decode_arguments(self.options), "columns": whole_columns(columns)}
        arguments |= {"threads": threads, "layout": layout, "limit": limit}
        if self.decoding is not None:
            fields = fields_of(columns)
            own = fields_of(self.options.columns)
            current = refreshed(self.decoding, plan.ranges, list(self.paths), self.options)
            arguments["decoding"] = current.projected(**{**own, **fields})
        if batch_rows is not None:
            arguments["batch_rows"] = min(self.options.batch_rows, batch_rows)
        return RecordReader(_core.scan_ranges(plan.ranges, **{**arguments, **plan.headers}), self._loose)

    def _narrowed(
        self, found: dict[tuple[Interval, Interval], list[PartitionRange]], arguments: dict[str, Any]
    ) -> list[PartitionRange]:
        """Plan each group of partitions again, within its bounds on offsets and on timestamps (milliseconds)."""
        narrowed: list[PartitionRange] = []
        for (offsets, times), ranges in found.items():
            if offsets == times == EVERYTHING:
                narrowed += ranges
                continue
            partitions: dict[str, set[int]] = {}
            for each in ranges:
                partitions.setdefault(each.topic, set()).add(each.partition)
            bounds = {
                "min_offset": _larger(arguments["min_offset"], offsets.first),
                "max_offset": _smaller(arguments["max_offset"], offsets.last),
                "min_timestamp": _larger(arguments["min_timestamp"], times.first),
                "max_timestamp": _smaller(arguments["max_timestamp"], times.last),
            }
            chosen = {
                "topics": list(partitions),
                "topic_pattern": None,
                "partitions": {topic: sorted(numbers) for topic, numbers in partitions.items()},
                # One may have been deleted meanwhile.
                "allow_missing": True,
            }
            ends = self._ending(arguments, bounds["max_timestamp"])
            narrowed += self._ranges({**arguments, **bounds, **chosen, **ends})
        return _not_empty(sorted(narrowed, key=lambda each: (each.topic, each.partition)))

    def _ending(self, arguments: dict[str, Any], latest: int | None) -> dict[str, Any]:
        """End where no record can be as early as ``latest``, if ``max_disorder_ms`` is given."""
        is_given = arguments["ending_timestamp"] is not None or arguments["ending_offsets"] != "latest"
        if self.max_disorder_ms is None or latest is None or is_given:
            return {}
        after = latest + self.max_disorder_ms + 1
        return {"ending_timestamp": after} if 0 <= after <= _MAX_INT64 else {}

    def _searched(self) -> list[str]:
        """Return the columns whose bytes the core may search: not those that are decoded."""
        import pyarrow as pa

        return [name for name in ("key", "value") if pa.types.is_binary(self.plain_schema.field(name).type)]

    def _headers(self, regions: list[Region]) -> dict[str, Any]:
        """Return what the headers of all batches must say: around what each partition's must."""
        around = dict.fromkeys(("producerId", "magic", "isControl"), EVERYTHING)
        if regions:
            for name in around:
                first, *others = (each[name] for each in regions)
                for other in others:
                    first |= other
                around[name] = first
        found: dict[str, Any] = {}
        producers, magics, control = around.values()
        if producers != EVERYTHING:
            found["producer_ids"] = (producers.low, producers.high - 1)
        if magics != EVERYTHING:
            found["magics"] = tuple(min(max(each, 0), _MAX_MAGIC) for each in (magics.low, magics.high - 1))
        is_false, is_true = control.low <= 0 < control.high, control.low <= 1 < control.high
        if is_false != is_true:
            found["is_control"] = is_true
        return found


def _restored(  # noqa: PLR0917 - the call that a pickle holds
    paths: tuple[StrPath, ...],
    options: ReadOptions,
    is_batches: bool,  # noqa: FBT001
    max_disorder_ms: int | None,
    threads: int | None,
    decoding: _core.Decoding | None,
) -> Source:
    source = Source(tuple(fspath(path) for path in paths), options, is_batches, max_disorder_ms, threads)
    # As if it had been used.
    source.__dict__["decoding"] = decoding
    return source


def _record_places(within: Region) -> tuple[Interval, Interval]:
    return within["offset"], within["timestamp"].to_millis()


def _batch_places(within: Region) -> tuple[Interval, Interval]:
    """Return offsets that a wanted batch reaches into, and bounds on the latest of its timestamps."""
    # Its last offset is not below its first.
    offsets = within["baseOffset"] & within["lastOffset"]
    # The first lies before an end and the last after a later beginning: the reader cannot ask for both.
    offsets = within["baseOffset"] if offsets.is_empty else offsets
    # Nor are batches left out for being too late.
    return offsets, Interval(within["maxTimestamp"].to_millis().low, EVERYTHING.high)


def _not_empty(ranges: list[PartitionRange]) -> list[PartitionRange]:
    return [each for each in ranges if each.segment_count]


def _larger(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
