"""The producers of each partition, and their open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments, _core, storage
from kafkalog.tables import _partial

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from kafkalog.typing import Paths


def producers(
    path: Paths,
    *,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """List the producers of each partition, as Kafka's ``DescribeProducers`` does.

    The state is the one a broker has after loading the log: of the newest sound snapshot, and of the batches after it.
    Unlike a broker's, producers do not expire: a log that was copied long ago keeps those it had.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs, a partition's folder, or a file of one.
    on_corrupt : {"raise", "skip"}
        As for :func:`consumer_offsets`.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each producer in a partition, by topic, partition and producer id.

        ============================= =================== =============================================================
        column                        type                meaning
        ============================= =================== =============================================================
        topic, partition              string, int32       where it wrote
        producerId, producerEpoch     int64, int16        the producer
        lastSequence                  int32               of its last record; -1 where only a marker is known
        lastOffset                    int64               of its last record; -1 likewise
        lastTimestamp                 timestamp[ms, UTC]  of its last batch or marker
        coordinatorEpoch              int32               of its last marker; -1 without one
        currentTransactionFirstOffset int64               where its open transaction begins; -1 without one
        ============================= =================== =============================================================

    Raises
    ------
    FileNotFoundError
        When the path does not exist.
    CorruptRecordError
        If a batch that has to be read is damaged.

    Examples
    --------
    >>> kafkalog.tables.producers("/data/kafka-logs").num_rows  # doctest: +SKIP
    12
    """
    path = storage.located(path, storage_options, filesystem)
    on_corrupt = _arguments.choose("on_corrupt", on_corrupt, ("raise", "skip"))
    rows, unread = _partial.rows_or_raise(_core.table_producers(_arguments.paths(path)), on_corrupt)
    return _partial.with_coverage(rows, path, None, unread)


def open_transactions(
    path: Paths,
    *,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """List the open transactions of each partition, with what their coordinators say of them.

    ``read_committed`` consumers do not get past the last stable offset, which is where the oldest open transaction of
    the partition begins. The logs of the coordinators, ``__transaction_state``, are looked for in the same log dirs.

    Parameters
    ----------
    path, on_corrupt
        As for :func:`producers`. Give all log dirs of a node, so that no part of ``__transaction_state`` is missing.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each producer with an open transaction in a partition, by topic, partition and producer id.

        ========================= =================== =================================================================
        column                    type                meaning
        ========================= =================== =================================================================
        topic, partition          string, int32       where it is open
        producerId, producerEpoch int64, int16        whose it is
        firstOffset               int64               where it begins
        firstTimestamp            timestamp[ms, UTC]  of its first batch; null if that was deleted
        lastTimestamp             timestamp[ms, UTC]  of its producer's last batch
        coordinatorEpoch          int32               of its producer's last marker; -1 without one
        transactionalId           string              null where the coordinators' logs do not have the producer
        state                     string              of the transaction, by its coordinator: ``Ongoing``,
                                                      ``PrepareCommit``, ...; null likewise
        isHanging                 bool                no coordinator will end it: its own does not know the producer, or
                                                      has no open transaction of it that contains this partition;
                                                      null if partitions of ``__transaction_state`` are missing and
                                                      the others do not know the producer
        blocksLastStableOffset    bool                it begins at the last stable offset: it is the one that consumers
                                                      wait for
        ========================= =================== =================================================================

        The schema's metadata says which partitions of ``__transaction_state`` are here: ``kafkalog.partitions``, as for
        :func:`transactions`.

    Raises
    ------
    FileNotFoundError, CorruptRecordError
        As for :func:`producers`.

    Examples
    --------
    >>> table = kafkalog.tables.open_transactions("/data/kafka-logs")  # doctest: +SKIP
    >>> table.filter(pc.field("isHanging")).select(["topic", "partition", "firstOffset"])  # doctest: +SKIP
    """
    path = storage.located(path, storage_options, filesystem)
    on_corrupt = _arguments.choose("on_corrupt", on_corrupt, ("raise", "skip"))
    rows, unread = _partial.rows_or_raise(_core.table_open_transactions(_arguments.paths(path)), on_corrupt)
    return _partial.with_coverage(rows, path, "__transaction_state", unread)
