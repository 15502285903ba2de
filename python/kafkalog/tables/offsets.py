"""Committed offsets, and how far they are from the ends of the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments, _core, storage
from kafkalog.errors import KafkaLogError
from kafkalog.log import PartitionLog, PartitionOpener
from kafkalog.reader import RecordReader
from kafkalog.tables import _partial, _rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from kafkalog.typing import Paths

_TOPIC = "__consumer_offsets"


def consumer_offsets(
    path: Paths,
    *,
    history: bool = False,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the offsets that consumer groups have committed, as the group coordinator has them after loading.

    An offset that is committed in a transaction counts when the transaction is committed; one of an aborted
    transaction never does. The replay is streamed: its memory grows with the number of offsets, not of records.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs, a folder of ``__consumer_offsets`` or a ``.log`` file of it.
    history : bool
        Return every change instead of the current state.
    on_corrupt : {"raise", "skip"}
        ``"skip"`` leaves out partitions that cannot be read, which the schema's metadata names: ``kafkalog.unread``, a
        JSON list of the errors.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each group, topic and partition, sorted.

        ================================ ==================== =========================================================
        column                           type                 meaning
        ================================ ==================== =========================================================
        group, topic, partition          string, string, int32
        offset                           int64                the committed offset: of the next record to read
        leaderEpoch                      int32                epoch of the last record that was read; -1 if unknown
        metadata                         string               what the consumer added
        commitTimestamp, expireTimestamp timestamp[ms, UTC]   null if the record has none
        topicId                          string               null before Kafka 4.1
        isPending                        bool                 whether an open transaction has an offset for this
                                                              partition; ``offset`` is the one committed before it, as
                                                              a broker would answer, or the pending one if there is none
        logOffset, logTimestamp          int64, timestamp     of the record; with ``history`` only
        ================================ ==================== =========================================================

        With ``history``, one row for each commit and deletion, in the order of the records; of a deletion, the columns
        from ``offset`` on are null. Commits of aborted transactions are left out.

        A commit that cannot be decoded, such as one of a newer Kafka, is left out: an older one may stand in its place.
        The metadata of the schema says so: ``kafkalog.unapplied`` is their number, ``kafkalog.notes`` a JSON list that
        names group, topic and partition.

        The schema's metadata says which partitions of the topic are here: ``kafkalog.partitions``, a JSON object of
        ``topic``, ``here`` (their numbers), ``of`` (how many there are) and ``source``: ``metadata`` (the metadata log
        says how many) or ``highest`` (at least as many).

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If it does not hold ``__consumer_offsets``.
    CorruptRecordError
        If the log is damaged.

    Examples
    --------
    >>> offsets = kafkalog.tables.consumer_offsets("/var/lib/kafka/data")  # doctest: +SKIP
    """
    path = storage.located(path, storage_options, filesystem)
    table, unread = _offsets(path, on_corrupt, history=_arguments.flag("history", history))
    return _partial.with_coverage(table, path, _TOPIC, unread)


def read_offsets(stream: _core.RecordStream, notes: _rows.Notes | None = None) -> pa.Table:
    """Read all of a replay, with the commits that could not be decoded in the metadata of the schema."""
    table, notes = RecordReader(stream).read_all(), notes or _rows.Notes()
    notes.add(*stream.refused())
    return notes.put(table)


def _offsets(
    path: Paths, on_corrupt: str, *, history: bool = False, pending: bool = True
) -> tuple[pa.Table, list[Exception]]:
    import pyarrow as pa

    notes = _rows.Notes()

    def read(some: Paths) -> pa.Table:
        stream = _core.table_offsets(_arguments.paths(some), history=history, pending=pending)
        return read_offsets(stream, notes)

    parts, unread = _partial.by_partition(path, _TOPIC, on_corrupt, read)
    if not parts:
        # No partition could be read.
        raise unread[0]
    table = parts[0] if len(parts) == 1 else notes.put(pa.concat_tables(parts))
    if len(parts) > 1 and not history:
        table = table.sort_by([(name, "ascending") for name in ("group", "topic", "partition")])
    return table, unread


def committed_offsets(path: Paths) -> pa.Table:
    """Return the offsets that a broker would answer: those of ``consumer_offsets`` without pending ones."""
    return _offsets(path, "raise", pending=False)[0]


def lag(
    path: Paths,
    *,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return how far the committed offsets are from the ends of the logs in the same log dirs.

    Parameters
    ----------
    path, on_corrupt
        As for :func:`consumer_offsets`; the end of a log that cannot be read is null with ``"skip"``. On a cluster,
        pass the log dirs of all available brokers.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each group, topic and partition with a committed offset, sorted: ``group``, ``topic``,
        ``partition``, ``offset``, ``logStartOffset``, ``logEndOffset`` and ``lag``, which is ``logEndOffset`` minus
        ``offset``. It is below 0 where the log was cut below the committed offset, and null, as the log's offsets are,
        where the partition's folder does not exist.

    Raises
    ------
    FileNotFoundError, ValueError, CorruptRecordError
        As for ``consumer_offsets``.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    offsets, unread = _offsets(path, on_corrupt, pending=False)
    offsets = offsets.select(["group", "topic", "partition", "offset"])
    logs = logs_of(path, unread)
    if unread and on_corrupt == "raise":
        raise unread[0]
    ends: dict[tuple[str, int], tuple[int, int] | None] = {}
    rows = offsets.to_pylist()
    for row in rows:
        place = row["topic"], row["partition"]
        if place not in ends:
            log = logs.get(place)
            try:
                ends[place] = None if log is None else (log.log_start_offset, log.log_end_offset)
            except (KafkaLogError, OSError) as error:
                if on_corrupt == "raise":
                    raise
                unread.append(error)
                ends[place] = None
        start, end = ends[place] or (None, None)
        row |= {"logStartOffset": start, "logEndOffset": end, "lag": None if end is None else end - row["offset"]}
    names = ("logStartOffset", "logEndOffset", "lag")
    table = _rows.table({**{f.name: f.type for f in offsets.schema}, **dict.fromkeys(names, pa.int64())}, rows)
    table = table.replace_schema_metadata(offsets.schema.metadata)
    return _partial.with_coverage(table, path, _TOPIC, unread)


def logs_of(path: Paths, unread: list[Exception]) -> dict[tuple[str, int], PartitionLog]:
    """Return the live partitions of the log dirs among the paths; errors of the others go to ``unread``."""
    found: dict[tuple[str, int], PartitionLog] = {}
    opener = PartitionOpener()
    for each in _arguments.paths(path):
        for folder in _partial.folders_in(each) or ():
            if folder.state != "live":
                continue
            try:
                found[folder.topic, folder.partition] = opener.open(folder.path)
            except (KafkaLogError, OSError) as error:
                unread.append(error)
    return found
