"""Explanation why each segment still exists, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments, _core, storage
from kafkalog._times import clock
from kafkalog.tables import _partial, _rows
from kafkalog.tools.topic_settings import topic_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from kafkalog.config import Config
    from kafkalog.typing import StrPath, Time


def explain(
    path: StrPath,
    now: Time | None = None,
    *,
    config: Config = None,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Explain why each segment of a log still exists, and until when. Nothing is written, locked or changed.

    What ``retention`` calls deletable is what :func:`retain` deletes at the same time with the same settings, and what
    a broker deletes at its next check.

    Parameters
    ----------
    path : path
        A log dir, or a partition's folder. The metadata log, and folders that are being deleted, are left out.
    now, config
        Time and settings to assume, as for :func:`retain`. Topics whose settings are unknown have Kafka's defaults.
    on_corrupt : {"raise", "skip"}
        As for :func:`kafkalog.tables.consumer_offsets`.
    storage_options, filesystem : optional
        The store of a URL, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each segment, by topic, partition and offset:

        * ``topic``, ``partition``, ``segment``, ``baseOffset``, ``size`` (bytes of its ``.log``), ``isActive``;
        * ``largestTimestamp``, and ``timestampSource``: ``index`` (the time index), ``log`` (the batches, as after an
          unclean stop) or ``mtime`` (no record has a timestamp);
        * ``retention``: ``deletable`` (now), ``waiting`` (until ``retentionTime``) or ``kept``; ``retentionRule``:
          ``log_start``, ``size`` or ``time``; ``heldBy``: ``age``, ``older_segment`` (one before it must be deleted
          first), ``size`` (only ``retention.bytes`` is set), ``unlimited``, ``cleanup_policy``, ``high_watermark``,
          ``active`` or ``tiered_storage``; ``bytesFreeable``: now;
        * ``compaction``: ``clean``, ``dirty`` or ``uncleanable``, null if the topic is not compacted;
          ``compactionHeldBy``: ``active``, ``min_lag``, ``open_transaction`` or ``high_watermark``;
        * ``pinOffset``, ``pinTimestamp``, ``pinProducerId``: the record that retains the segment; ``pinReason``:
          ``young``, ``future_timestamp``, ``seconds``, ``microseconds`` or ``nanoseconds`` (the producer's unit), or
          ``open_transaction``; ``seconds`` also of a segment that is deletable for them;
        * of a compacted partition, ``dirtyRatio``, ``compactionDue`` (a broker's cleaner would select it) and
          ``compactedTo`` (the offset in the cleaner's checkpoint, null where it has none);
        * ``rolledBy``: why the segment was ended: ``size``, ``time``, ``index_full``, ``offset_overflow`` or
          ``unknown``; null for the active one;
        * ``configSource``: ``metadata`` (the metadata log), ``given`` or ``default``.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If the path holds no logs, or a setting is not one of Kafka's.

    Examples
    --------
    >>> rows = kafkalog.explain("/data/kafka-logs")  # doctest: +SKIP
    >>> rows.group_by("topic").aggregate([("bytesFreeable", "sum")])  # doctest: +SKIP
    """
    import pyarrow as pa

    given = _arguments.path(storage.located(path, storage_options, filesystem))
    on_corrupt = _arguments.choose("on_corrupt", on_corrupt, ("raise", "skip"))
    unknown = None if on_corrupt == "raise" else list[Exception]()
    with storage.one_listing([given]):
        settings = topic_settings(given, config, unknown)
        others, topics = settings.compiled()
        found = _core.explain(given, now_ms=clock(now), settings=others, topics=topics)
    rows, unread = _partial.rows_or_raise(found, on_corrupt)
    sources = [settings.source_of(str(topic)) for topic in rows["topic"].to_pylist()]
    rows = rows.append_column("configSource", pa.array(sources, pa.string()))
    return _rows.with_notes(_partial.with_coverage(rows, given, None, [*(unknown or ()), *unread]), settings.notes)


def disk_usage(
    path: StrPath, *, storage_options: Mapping[str, Any] | None = None, filesystem: object | None = None
) -> pa.Table:
    """Add up the disk usage of a log dir, by kind. Nothing is written, locked or changed.

    The sums are those of ``du -b`` and ``du -B1``, as of GNU coreutils up to 9.1; later ones leave out the apparent
    size of folders.

    Parameters
    ----------
    path : path
        A log dir, or a partition's folder.
    storage_options, filesystem : optional
        The store of a URL, as for :func:`kafkalog.scan`. Objects count with their length; a store has no folders.

    Returns
    -------
    pyarrow.Table
        One row for each kind that there is:

        * ``kind``: ``log``, ``index``, ``active_index`` (preallocated), ``orphan_index``, ``snapshot``,
          ``partition_file`` of partitions in use; ``deleted``, ``cleaned``, ``swap``: leftovers in their folders;
          ``delete_folder``, ``stray_folder``, ``future_folder``; ``metadata_log``, ``remote_index_cache``,
          ``log_dir_file``, ``kafkalog``, ``foreign``; ``folder``: the folders themselves; ``unreadable``: folders that
          cannot be listed;
        * ``files``; ``bytes``, their length; ``allocatedBytes``, what the file system has allocated for them;
        * ``bytesFreeable``: what can be freed now; for logs see :func:`explain`;
        * ``removedBy``: ``broker``, ``you``, ``kafkalog`` or ``nobody``; ``advice``: how to remove it.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If the path holds no logs.
    """
    import pyarrow as pa

    return pa.table(_core.disk_usage(_arguments.path(storage.located(path, storage_options, filesystem))))
