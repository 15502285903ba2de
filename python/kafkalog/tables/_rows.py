"""Decoded records as Python values, one record at a time, and tables from rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _arguments, _core
from kafkalog.errors import UnknownTopicOrPartitionError
from kafkalog.reader import RecordReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from kafkalog.typing import Paths

__all__ = ["Change", "Entry", "has_topic", "replayed", "table", "timestamp_or_none"]

NO_TIMESTAMP = -1


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
    """Rows as they are after a record. The row of a thing that the record removed has only its key, or says so."""

    offset: int
    timestamp: int
    rows: list[dict[str, Any]]


def replayed(
    path: Paths,
    topic: str,
    types: Iterable[str] | None = None,
    *,
    secrets: bool = False,
    embedded: bool = False,
) -> Iterator[Entry]:
    """Yield the decoded records of an internal topic in their order; what could not be decoded is left out.

    Parameters
    ----------
    path : path or list of paths
        As for ``records``.
    topic : str
        The topic, which must exist.
    types : iterable of str, optional
        Yield records of these types only; the others are not parsed.
    secrets : bool
        Show them.
    embedded : bool
        Decode what the members of a classic group of consumers wrote: dicts rather than base64, where possible.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    stream = _core.table_records(_arguments.paths(path), topics=[topic], secrets=secrets, embedded=embedded)
    wanted = None if types is None else pa.array(sorted(types))
    for batch in RecordReader(stream):
        whole = pc.and_(pc.is_null(batch["keyBytes"]), pc.is_null(batch["valueBytes"]))
        known = pc.is_valid(batch["type"]) if wanted is None else pc.is_in(batch["type"], value_set=wanted)
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


def _parsed(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    found: dict[str, Any] = json.loads(text)
    return found


def has_topic(path: Paths, topic: str) -> bool:
    """Return whether the path holds an internal topic.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    """
    try:
        _core.table_records(_arguments.paths(path), topics=[topic]).close()
    except UnknownTopicOrPartitionError:
        return False
    return True


def timestamp_or_none(time: int) -> int | None:
    """Return a time, or None for Kafka's -1."""
    return None if time == NO_TIMESTAMP else time


def table(
    columns: dict[str, pa.DataType], rows: Iterable[dict[str, Any]] | Iterable[Change], *, history: bool = False
) -> pa.Table:
    """Build a table of rows, or of the changes of a history.

    Parameters
    ----------
    columns : dict
        Names and types.
    rows : iterable
        Dicts of all columns; with ``history`` changes, whose rows get ``logOffset`` and ``logTimestamp``.
    history : bool
        Whether they are changes.
    """
    import pyarrow as pa

    plain: list[Any] = list(rows)
    if history:
        columns = {**columns, "logOffset": pa.int64(), "logTimestamp": pa.timestamp("ms", "UTC")}
        plain = [
            {**row, "logOffset": change.offset, "logTimestamp": change.timestamp}
            for change in plain
            for row in change.rows
        ]
    return pa.Table.from_pylist(plain, schema=pa.schema(list(columns.items())))
