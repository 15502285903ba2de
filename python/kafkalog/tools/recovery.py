"""Recovering a log dir or a partition after a crash, and rebuilding indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog import _arguments, _core
from kafkalog._renamed import renamed
from kafkalog._times import clock
from kafkalog.config import pairs
from kafkalog.tools.reports import PartitionRecovery, RecoveryReport, from_core

if TYPE_CHECKING:
    from kafkalog.config import Config
    from kafkalog.typing import StrPath, Time

_OnLoss = Literal["refuse", "as_kafka", "salvage"]
_ON_LOSS: tuple[_OnLoss, ...] = ("refuse", "as_kafka", "salvage")


@renamed("recovery_point", clock="now")
def recover(
    path: StrPath,
    clean: bool | None = None,  # noqa: FBT001 - in the interface's place
    *,
    recovery_point: int | None = None,
    log_start_offset: int | None = None,
    out: StrPath | None = None,
    on_loss: _OnLoss = "refuse",
    salvage: bool = False,
    dry_run: bool = False,
    config: Config = None,
    producer_id_expiration_ms: int = 86_400_000,
    now: Time | None = None,
) -> RecoveryReport:
    """Recover a log dir, or one partition, after a crash, with the same result as a broker's start-up.

    Interrupted swaps of compaction are completed or undone, missing and corrupt indexes are rebuilt, a torn tail is
    truncated after the last whole batch, and producer snapshots, leader epochs and the log dir's checkpoints (for one
    partition, its own lines) are updated. The clean-shutdown marker of a log dir stays if nothing was truncated. If
    Kafka would not load the log, or if any whole batch would be lost, this raises an error and changes nothing.
    Checksums of large segments are computed by as many threads as there are processors, four at most.

    Parameters
    ----------
    path : path
        A log dir, or a partition's folder.
    clean : bool, optional
        Whether the broker stopped cleanly; then nothing is checked. Default: according to the log dir's marker.
    recovery_point : int, optional
        Everything below this offset was flushed to disk and is not checked. Default: from the log dir's checkpoint,
        or 0.
    log_start_offset : int, optional
        The first offset that is served. Default: from the log dir's checkpoint, or 0.
    out : path, optional
        A new directory for the result; the source is not changed. Default: in place.
    on_loss : {"refuse", "as_kafka", "salvage"}
        The action if whole batches would be lost: because they follow a damaged batch, because a checkpoint, marker or
        index contradicts them, or because a leftover file would take their place. ``refuse`` raises an error that
        counts them. ``as_kafka`` does what a broker's start does; the notes of kind ``lost`` count the loss.
        ``salvage`` keeps every batch that is whole and in order, even if Kafka would not load the log; Kafka can load
        the result. Batches that cannot be decoded are left out, so that the result can be scanned. The notes of kind
        ``left out`` name the bytes. A torn tail is not a loss unless a whole batch follows the tear.
    salvage : bool
        Short for ``on_loss="salvage"``.
    dry_run : bool
        Only report.
    config : LogConfig or mapping, optional
        The topic's settings; those of the indexes are used. Default: Kafka's defaults.
    producer_id_expiration_ms : int
        The broker's ``producer.id.expiration.ms``: the state of producers that were idle for longer is dropped.
    now : int, datetime or str, optional
        The time by which producers expire. Default: the system's clock.

    Returns
    -------
    RecoveryReport
        What was truncated, rebuilt and deleted, partition by partition.

    Raises
    ------
    CorruptRecordError
        If Kafka would not load the log, or whole batches would be lost; or another ``KafkaLogError``. Nothing is
        changed. The error says how many batches, records and bytes would be lost, why, and what the alternatives are.
        For a log dir, it names all partitions that are refused.
    LogLockedError
        If a broker or a writer has the log dir open.
    FileExistsError
        If ``out`` exists.
    ValueError
        If ``out`` is inside the source.

    Examples
    --------
    >>> report = kafkalog.recover("/data/kafka-logs", dry_run=True)  # doctest: +SKIP
    >>> [note.text for partition in report.partitions for note in partition.notes]  # doctest: +SKIP
    """
    # As the callable ``clock`` it was called until 0.1.
    now_ms = clock(now() if callable(now) else now)
    loss = _arguments.choose("on_loss", on_loss, _ON_LOSS)
    if _arguments.flag("salvage", salvage):
        if loss == "as_kafka":
            raise ValueError("salvage=True contradicts on_loss='as_kafka'")
        loss = "salvage"
    target = None if out is None else _arguments.local(out)
    found = _core.recover(
        _arguments.local(path),
        clean=None if clean is None else _arguments.flag("clean", clean),
        recovery_point=_arguments.optional_integer("recovery_point", recovery_point, 0),
        log_start_offset=_arguments.optional_integer("log_start_offset", log_start_offset, 0),
        out=target,
        on_loss=loss,
        dry_run=_arguments.flag("dry_run", dry_run),
        settings=pairs(config),
        producer_id_expiration_ms=_arguments.integer("producer_id_expiration_ms", producer_id_expiration_ms, 1),
        clock=lambda: now_ms,
    )
    return from_core(RecoveryReport, found, out=None if dry_run else target)


@renamed("out", level="kafka_version")
def rebuild_indexes(
    partition_dir: StrPath,
    kafka_version: str = "4.3",
    *,
    out: StrPath | None = None,
    dry_run: bool = False,
    config: Config = None,
) -> PartitionRecovery:
    """Rebuild the indexes of a partition, as a broker of some version would.

    The ``.log`` files are not changed: a log that recovery would truncate is refused; use :func:`recover` for it.

    Parameters
    ----------
    partition_dir : path
        A partition's folder.
    kafka_version : str
        The Kafka version whose indexes to write, for instance ``4.3`` or ``2.8``: they differ in the offsets of their
        entries.
    out, dry_run, config
        As for :func:`recover`; ``out`` gets the whole partition.

    Returns
    -------
    PartitionRecovery
        How the files changed.

    Raises
    ------
    CorruptRecordError, LogLockedError, FileExistsError
        As for :func:`recover`. Nothing is changed.
    ValueError
        If ``kafka_version`` is not a Kafka version, or ``out`` is inside the source.
    """
    if not isinstance(kafka_version, str):
        raise TypeError(f"kafka_version must be text, for instance '4.3', not {kafka_version!r}")
    found = _core.rebuild_indexes(
        _arguments.local(partition_dir),
        level=kafka_version,
        out=None if out is None else _arguments.local(out),
        dry_run=_arguments.flag("dry_run", dry_run),
        settings=pairs(config),
    )
    return from_core(PartitionRecovery, found)
