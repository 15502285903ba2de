"""Transactional ids, as the transaction coordinator has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments, storage
from kafkalog.tables import _partial, _rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from kafkalog.tables._rows import Entry
    from kafkalog.typing import Paths

_TOPIC, _TYPE = "__transaction_state", "TransactionLog"
# TransactionState, by id
_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def transactions(
    path: Paths,
    *,
    history: bool = False,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the transactional ids that the transaction coordinator knows, and the state of their last transaction.

    Parameters
    ----------
    path, history, on_corrupt
        As for :func:`consumer_offsets`, of ``__transaction_state``.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each transactional id, sorted.

        =========================== ======================================= ==========================================
        column                      type                                    meaning
        =========================== ======================================= ==========================================
        transactionalId             string
        producerId, producerEpoch   int64, int16                            of the current producer
        state                       string                                  Empty, Ongoing, PrepareCommit, PrepareAbort,
                                                                            CompleteCommit, CompleteAbort, Dead or
                                                                            PrepareEpochFence
        timeoutMs                   int32                                   the coordinator aborts after it
        startTimestamp              timestamp[ms, UTC]                      null if no transaction was begun
        lastUpdateTimestamp         timestamp[ms, UTC]
        partitions                  list<struct<topic, partition>>          of the transaction, sorted; empty if none
        logOffset, logTimestamp     int64, timestamp[ms, UTC]               of the record; with ``history`` only
        =========================== ======================================= ==========================================

        With ``history``, one row for each record; one that deletes a transactional id has the state Dead and no more.
        The schema's metadata is that of :func:`consumer_offsets`.

    Raises
    ------
    FileNotFoundError, ValueError, CorruptRecordError
        As for :func:`consumer_offsets`.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    time = pa.timestamp("ms", "UTC")
    columns: dict[str, pa.DataType] = {
        "transactionalId": pa.string(),
        "producerId": pa.int64(),
        "producerEpoch": pa.int16(),
        "state": pa.string(),
        "timeoutMs": pa.int32(),
        "startTimestamp": time,
        "lastUpdateTimestamp": time,
        "partitions": pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())])),
    }
    history = _arguments.flag("history", history)
    notes = _rows.Notes()

    def entries(some: Paths) -> Iterator[Entry]:
        return _rows.replayed(some, _TOPIC, [_TYPE], notes=notes)

    if history:
        parts, unread = _partial.by_partition(path, _TOPIC, on_corrupt, lambda some: list(_changes(entries(some))))
        table = _rows.table(columns, [change for part in parts for change in part], notes, history=True)
    else:
        known, unread = _partial.by_partition(path, _TOPIC, on_corrupt, lambda some: _current(entries(some)))
        # An id is in one partition.
        rows = {name: value for part in known for name, value in part.items()}
        table = _rows.table(columns, [_row(name, value) for name, value in sorted(rows.items())], notes)
    return _partial.with_coverage(table, path, _TOPIC, unread)


def _current(entries: Iterator[Entry]) -> dict[str, dict[str, Any]]:
    current: dict[str, dict[str, Any]] = {}
    for entry in entries:
        name = (entry.key or {})["transactionalId"]
        if entry.value is None:
            current.pop(name, None)
        else:
            current[name] = entry.value
    return current


def _changes(entries: Iterator[Entry]) -> Iterator[_rows.Change]:
    for entry in entries:
        row = _row((entry.key or {})["transactionalId"], entry.value)
        yield _rows.Change(entry.offset, entry.timestamp, [row])


def _row(name: str, value: dict[str, Any] | None) -> dict[str, Any]:
    if value is None:
        return {"transactionalId": name, "state": "Dead"}
    status = value["transactionStatus"]
    partitions = [
        {"topic": each["topic"], "partition": number}
        for each in value["transactionPartitions"] or ()
        for number in each["partitionIds"]
    ]
    return {
        "transactionalId": name,
        "producerId": value["producerId"],
        "producerEpoch": value["producerEpoch"],
        "state": _STATES[status] if 0 <= status < len(_STATES) else str(status),
        "timeoutMs": value["transactionTimeoutMs"],
        "startTimestamp": _rows.timestamp_or_none(value["transactionStartTimestampMs"]),
        "lastUpdateTimestamp": _rows.timestamp_or_none(value["transactionLastUpdateTimestampMs"]),
        "partitions": sorted(partitions, key=lambda each: (each["topic"], each["partition"])),
    }
