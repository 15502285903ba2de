"""Records that a rewrite drops, as ranges of offsets: found before the first byte is written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafkalog import _arguments
from kafkalog._times import to_millis
from kafkalog.reader import scan
from kafkalog.schema import record_schema
from kafkalog.tools.sql_condition import SqlCondition

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkalog.log import PartitionLog
    from kafkalog.typing import StrPath

    Ranges: TypeAlias = "list[tuple[int, int]]"
    Predicate: TypeAlias = "pc.Expression | str | Callable[[pa.RecordBatch], Any]"

# What a predicate may ask for: every column that says something of a record.
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


class Dropped(NamedTuple):
    """The records of a partition to drop."""

    # half-open ranges of their offsets
    ranges: Ranges
    # their number, if it was requested
    records: int
    # the offset after the last record that was read; None if none had to be
    end: int | None
    # whether whole batches were skipped, because others have their offsets
    overlaps: bool


class RecordFilter:
    """Records that the caller wants to drop."""

    def __init__(
        self,
        keys: Iterable[bytes | str] | StrPath | None,
        key_pattern: str | None,
        predicate: Predicate | None,
        offsets: Mapping[str, Mapping[int, Iterable[tuple[int, int]]]] | None,
        timestamps: tuple[int | datetime | None, int | datetime | None] | None,
    ) -> None:
        self._keys = _keys(keys)
        self._pattern = key_pattern
        if key_pattern is not None:
            if not isinstance(key_pattern, str):
                raise TypeError(f"drop_key_pattern must be a regular expression, not {key_pattern!r}")
            _check_pattern(key_pattern)
        self._predicate = _checked(predicate)
        self._offsets = _offsets(offsets)
        self._times = None if timestamps is None else _times(timestamps)

    @property
    def asks_records(self) -> bool:
        """True if records must be read to know which are dropped."""
        return bool(self._keys) or any(each is not None for each in (self._pattern, self._predicate, self._times))

    def by_key(self) -> RecordFilter | None:
        """Return only what drops records with one of the keys; None without keys."""
        return RecordFilter(self._keys, None, None, None, None) if self._keys else None

    def of(self, log: PartitionLog, on_corrupt: str, *, count: bool) -> Dropped:
        """Return what to drop from a partition.

        Records below the log start offset are in the files, too, and go as well.
        """
        given = self._offsets.get(log.topic, {}).get(log.partition, [])
        if not self.asks_records and not (given and count):
            return Dropped(given, 0, None, overlaps=False)
        found, end = _Runs(), 0
        with scan(
            log.path,
            columns=self._columns(),
            starting_offsets="oldest",
            on_corrupt=on_corrupt,  # type: ignore[arg-type]
            include_control=False,
        ) as reader:
            for batch in reader:
                if batch.num_rows:
                    found.add(batch.column("offset"), self._gone(batch, given))
                    end = batch.column("offset")[-1].as_py() + 1
            overlaps = "order" in reader.lost["reason"].to_pylist()
        return Dropped(found.ranges, found.count, end, overlaps)

    def _columns(self) -> list[str]:
        if self._predicate is not None:
            return list(_COLUMNS)
        named = ["offset"]
        if self._keys or self._pattern is not None:
            named.append("key")
        if self._times is not None:
            named.append("timestamp")
        return named

    def _gone(self, batch: pa.RecordBatch, given: Ranges) -> pa.BooleanArray:
        """Return a mask of the records to drop; these ranges of offsets are dropped anyway."""
        import pyarrow as pa
        import pyarrow.compute as pc

        offsets = batch.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        masks: list[Any] = [_between(offsets, start, end) for start, end in given if start <= last and first < end]
        if self._keys:
            masks.append(pc.is_in(batch.column("key"), value_set=pa.array(self._keys, pa.binary())))
        if self._pattern is not None:
            masks.append(pc.match_substring_regex(batch.column("key"), pattern=self._pattern))
        if self._times is not None:
            masks.append(_between(batch.column("timestamp").cast(pa.int64()), *self._times))
        if self._predicate is not None:
            masks.append(_asked(self._predicate, batch))
        no = pa.scalar(value=False)
        found: Any = pa.repeat(no, batch.num_rows)
        for mask in masks:
            # Null selects none.
            found = pc.or_(found, pc.fill_null(mask, no))
        return found  # type: ignore[no-any-return]


def _check_pattern(pattern: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # The expression itself is what is applied later: RE2 takes linear time and limits its memory.
        pc.match_substring_regex(pa.array([b""]), pattern=pattern)
    except pa.ArrowException as error:
        raise ValueError(f"drop_key_pattern {pattern!r}: {error}") from None


def _between(values: pa.Array[Any], start: int, end: int) -> pa.BooleanArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    above = pc.greater_equal(values, pa.scalar(start, pa.int64()))
    return pc.and_(above, pc.less(values, pa.scalar(end, pa.int64())))


def _checked(predicate: Predicate | None) -> SqlCondition | pc.Expression | Callable[[pa.RecordBatch], Any] | None:
    """Return what evaluates a predicate, once it is known to be true or false of a record."""
    if predicate is None or (not isinstance(predicate, str) and callable(predicate)):
        return predicate
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = record_schema(_COLUMNS)
    if isinstance(predicate, str):
        return SqlCondition(predicate, schema)
    if not isinstance(predicate, pc.Expression):
        raise TypeError(f"drop must be an expression, a condition in SQL or a function, not {predicate!r}")
    try:
        schema.empty_table().filter(predicate)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"drop {predicate}: {error}") from None
    return predicate


def _asked(predicate: Any, batch: pa.RecordBatch) -> Any:
    """Return a mask of the records for which a predicate is true."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(predicate, (SqlCondition, pc.Expression)):
        records = pa.Table.from_batches([batch])
        matches = (
            predicate.matches(records)
            if isinstance(predicate, SqlCondition)
            else records.filter(predicate)["offset"].combine_chunks()
        )
        return pc.is_in(batch.column("offset"), value_set=pa.array(matches, pa.int64()))
    mask = predicate(batch)
    mask = mask if isinstance(mask, (pa.Array, pa.ChunkedArray)) else pa.array(mask)
    if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
        raise ValueError(f"drop must return {batch.num_rows} booleans for this batch, not {len(mask)} of {mask.type}")
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


class _Runs:
    """Ranges of offsets to drop, from records in order: a gap between two dropped records is part of a range."""

    def __init__(self) -> None:
        self.ranges: Ranges = []
        self.count = 0
        self._open = False

    def add(self, offsets: pa.Array[Any], gone: pa.BooleanArray) -> None:
        """Add the records of a batch, of which these are dropped."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self.count += gone.true_count
        before = pa.concat_arrays([pa.array([self._open]), gone[:-1]])
        after = pa.concat_arrays([gone[1:], pa.array([False])])
        starts: list[int] = offsets.filter(pc.and_not(gone, before)).to_pylist()  # type: ignore[assignment]
        lasts: list[int] = offsets.filter(pc.and_not(gone, after)).to_pylist()  # type: ignore[assignment]
        if self._open and gone[0].as_py():
            starts.insert(0, self.ranges.pop()[0])
        self.ranges += [(start, last + 1) for start, last in zip(starts, lasts, strict=True)]
        self._open = gone[-1].as_py()


def _keys(given: Iterable[bytes | str] | StrPath | None) -> list[bytes]:
    if given is None:
        return []
    if isinstance(given, (str, os.PathLike)):
        return [line for line in Path(_arguments.local(given)).read_bytes().splitlines() if line]
    if isinstance(given, (bytes, Mapping)):
        raise TypeError(f"drop_keys must be a list of keys, or the path of a file with one key a line, not {given!r}")
    keys = [key.encode() if isinstance(key, str) else key for key in given]
    for key in keys:
        if not isinstance(key, bytes):
            raise TypeError(f"a key in drop_keys must be bytes or a str, not {key!r}")
    return keys


def _offsets(given: Any) -> dict[str, dict[int, Ranges]]:
    if given is None:
        return {}
    try:
        found = {
            topic: {
                partition: [(int(start), int(end)) for start, end in ranges] for partition, ranges in partitions.items()
            }
            for topic, partitions in given.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise TypeError(
            f"drop_offsets must be {{topic: {{partition: [(first, end), ...]}}}}, with the end excluded, not {given!r}"
        ) from None
    for partitions in found.values():
        for start, end in (each for ranges in partitions.values() for each in ranges):
            if not 0 <= start <= end:
                raise ValueError(f"drop_offsets: expected 0 <= first <= end, found ({start}, {end})")
    # An empty range is none.
    return {
        topic: {number: [each for each in ranges if each[0] < each[1]] for number, ranges in partitions.items()}
        for topic, partitions in found.items()
    }


def _times(given: Any) -> tuple[int, int]:
    try:
        start, end = given
    except (TypeError, ValueError):
        raise TypeError(f"drop_timestamps must be (first, end), with the end excluded, not {given!r}") from None
    # Records without a timestamp have -1 and are in no range.
    first = 0 if start is None else to_millis(start, "drop_timestamps")
    return max(first, 0), (1 << 63) - 1 if end is None else to_millis(end, "drop_timestamps")
