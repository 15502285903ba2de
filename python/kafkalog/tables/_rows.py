"""Decoded records as Python values, one record at a time, and tables from rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _arguments, _core
from kafkalog.errors import UnknownTopicOrPartitionError
from kafkalog.reader import RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from kafkalog.typing import Paths

NO_TIMESTAMP = -1
# Keys in the metadata of a table's schema: how many records could not be applied, and a JSON list of lines about these
# and about what was skipped.
UNAPPLIED, NOTES = b"kafkalog.unapplied", b"kafkalog.notes"
# Records that are named; of more, only the number is known.
_MOST_NAMED = 100


class Entry(NamedTuple):
    """A record, decoded."""

    partition: int
    segment: str
    offset: int
    # milliseconds since the epoch
    timestamp: int
    # Kafka's name of the record
    type: str
    version: int | None
    key: dict[str, Any] | None
    # None for a tombstone
    value: dict[str, Any] | None


class Change(NamedTuple):
    """Rows as they are after a record. The row of a removed item has only its key, or a mark."""

    offset: int
    timestamp: int
    rows: list[dict[str, Any]]


@dataclass
class Notes:
    """Notes of a replay."""

    # snapshots and bytes that were skipped and are not needed
    passed: list[str] = field(default_factory=list)
    # changes that are missing, if a partial state was requested
    gap: str | None = None
    # records that cannot be applied, and the first of them by name
    unapplied: int = 0
    named: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """All of it, one thing a line."""
        rest = self.unapplied - len(self.named)
        more = [f"{rest} more records cannot be applied"] if rest > 0 else []
        gap = [] if self.gap is None else [self.gap]
        return [
            *(f"passed over {each}" for each in self.passed),
            *gap,
            *(_left_out(each) for each in self.named),
            *more,
        ]

    def name(self, text: str) -> None:
        """Count a record that cannot be applied."""
        self.unapplied += 1
        if len(self.named) < _MOST_NAMED:
            self.named.append(text)

    def add(self, unapplied: int, named: list[str]) -> None:
        """Count records that cannot be applied, of which the first are named."""
        self.unapplied += unapplied
        self.named += named[: _MOST_NAMED - len(self.named)]

    def put(self, table: pa.Table) -> pa.Table:
        """Return the table with these in the metadata of its schema."""
        count = {**(table.schema.metadata or {}), UNAPPLIED: str(self.unapplied).encode()}
        return with_notes(table.replace_schema_metadata(count), self.lines)


def _left_out(text: str) -> str:
    return f"a record is left out: {text}"


def with_notes(table: pa.Table, lines: Iterable[str]) -> pa.Table:
    """Return the table with lines that a user should know in the metadata of its schema."""
    listed = json.dumps(list(lines), ensure_ascii=False).encode()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), NOTES: listed})


def notes_of(table: pa.Table) -> list[str]:
    """Return the notes for a user in the metadata of a table's schema."""
    found: list[str] = json.loads((table.schema.metadata or {}).get(NOTES, b"[]"))
    return found


def metadata(
    path: Paths, *, history: bool = False, secrets: bool = False, partial: bool = False
) -> tuple[Iterator[Entry], Notes]:
    """Return the records of a metadata log that can be applied, and what a replay of it meets."""
    stream, said = _core.table_metadata(_arguments.paths(path), history=history, secrets=secrets, partial=partial)
    notes = Notes(said[0], said[1])
    notes.add(said[2], said[3])
    return _entries(stream, None, None), notes


def replayed(
    path: Paths,
    topic: str,
    types: Iterable[str] | None = None,
    *,
    secrets: bool = False,
    embedded: bool = False,
    notes: Notes | None = None,
) -> Iterator[Entry]:
    """Yield the decoded records of an internal topic; what could not be decoded is left out and noted."""
    stream = _core.table_records(_arguments.paths(path), topics=[topic], secrets=secrets, embedded=embedded)
    return _entries(stream, types, notes)


def _entries(stream: _core.RecordStream, types: Iterable[str] | None, notes: Notes | None) -> Iterator[Entry]:
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = None if types is None else pa.array(sorted(types))
    for batch in RecordReader(stream):
        whole = pc.and_(pc.is_null(batch["keyBytes"]), pc.is_null(batch["valueBytes"]))
        known = pc.is_valid(batch["type"]) if wanted is None else pc.is_in(batch["type"], value_set=wanted)
        if notes is not None:
            # A type that is not known may be about the same things.
            concerns = pc.or_(known, pc.is_null(batch["type"]))
            for row in batch.filter(pc.and_(pc.invert(whole), concerns)).to_pylist():
                notes.name(_undecoded(row))
        kept = batch.filter(pc.and_(whole, known))
        columns = [
            kept[name].to_pylist()
            for name in ("partition", "segment", "offset", "type", "valueVersion", "key", "value")
        ]
        times: list[Any] = kept["timestamp"].cast(pa.int64()).to_pylist()
        for (partition, segment, offset, kind, version, key, value), time in zip(
            zip(*columns, strict=True), times, strict=True
        ):
            yield Entry(partition, segment, offset, time, kind, version, _parsed(key), _parsed(value))


def _undecoded(row: dict[str, Any]) -> str:
    kind = row["type"] or f"of type {row['keyVersion']}"
    version = "" if row["valueVersion"] is None else f" in version {row['valueVersion']}"
    about = "" if row["key"] is None else f" of {row['key']}"
    place = f"{row['topic']}-{row['partition']}: {row['segment']}: offset {row['offset']}"
    return f"{place}: {kind}{version}{about}: not known to Kafka 4.4 and earlier, or cut off"


def _parsed(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    found: dict[str, Any] = json.loads(text)
    return found


def has_topic(path: Paths, topic: str) -> bool:
    """Return whether the path holds an internal topic."""
    try:
        _core.table_records(_arguments.paths(path), topics=[topic]).close()
    except UnknownTopicOrPartitionError:
        return False
    return True


def timestamp_or_none(time: int) -> int | None:
    """Return a time, or None for Kafka's -1."""
    return None if time == NO_TIMESTAMP else time


def table(
    columns: dict[str, pa.DataType],
    rows: Iterable[dict[str, Any]] | Iterable[Change],
    notes: Notes | None = None,
    *,
    history: bool = False,
) -> pa.Table:
    """Build a table of rows, or of the changes of a history."""
    import pyarrow as pa

    plain: list[Any] = list(rows)
    if history:
        columns = {**columns, "logOffset": pa.int64(), "logTimestamp": pa.timestamp("ms", "UTC")}
        plain = [
            {**row, "logOffset": change.offset, "logTimestamp": change.timestamp}
            for change in plain
            for row in change.rows
        ]
    made = pa.Table.from_pylist(plain, schema=pa.schema(list(columns.items())))
    return made if notes is None else notes.put(made)
