"""Recovering a log dir or a partition after a crash, and rebuilding indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import _arguments, _core
from kafkalog.config import pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog.config import LogConfig
    from kafkalog.tools.reports import PartitionRecovery, RecoveryReport
    from kafkalog.typing import StrPath

__all__ = ["rebuild_indexes", "recover"]


def recover(
    path: StrPath,
    clean: bool | None = None,  # noqa: FBT001 - in the interface's place
    recovery_point: int | None = None,
    *,
    log_start_offset: int | None = None,
    out: StrPath | None = None,
    salvage: bool = False,
    dry_run: bool = False,
    config: LogConfig | None = None,
    producer_id_expiration_ms: int = 86_400_000,
    clock: Callable[[], int] | None = None,
) -> RecoveryReport:
    """Mend a log dir, or one partition, after a crash: with the outcome of a broker's own start-up.

    Interrupted swaps of compaction are completed or undone, missing and unsound indexes made anew, a torn tail is cut
    at the last batch that is whole, producer snapshots and leader epochs are brought in line, and so are the log dir's
    checkpoints (of one partition, its own lines). The clean-shutdown marker of a log dir stays where nothing was cut.
    Where Kafka would refuse to load the log, or would throw healthy batches away, this says so and changes nothing.
    Checksums of large segments are made by as many threads as there are processors, four at most.

    Parameters
    ----------
    path : path
        A log dir, or a partition's folder.
    clean : bool, optional
        Whether the broker had stopped cleanly; then nothing is checked. Default: as the log dir's marker says.
    recovery_point : int, optional
        Everything below this offset is known to be on the disk and is not checked. Default: as the log dir's checkpoint
        says, or 0.
    log_start_offset : int, optional
        The first offset that is served. Default: as the log dir's checkpoint says, or 0.
    out : path, optional
        A new directory for the result; the source stays as it is. Default: in place.
    salvage : bool
        Keep every batch that is whole and in order, also where Kafka would refuse or throw it away; the result loads
        in Kafka.
    dry_run : bool
        Only report.
    config : LogConfig, optional
        The topic's settings, of which those of the indexes count. Default: Kafka's defaults.
    producer_id_expiration_ms : int
        The broker's ``producer.id.expiration.ms``: producers that were silent for longer are forgotten.
    clock : callable, optional
        Gives milliseconds since the epoch, for producers that have expired. Default: the system's clock.

    Returns
    -------
    RecoveryReport
        What was cut, made anew and deleted, partition by partition.

    Raises
    ------
    CorruptRecordError
        Where Kafka would not load the log, or would throw healthy batches away; also its kin. Nothing is changed. Of a
        log dir, all partitions that are refused are named.
    LogLockedError
        When a broker or a writer has the log dir open.
    FileExistsError
        When there is something at ``out``.
    ValueError
        When ``out`` lies inside the source.

    Examples
    --------
    >>> report = kafkalog.recover("/data/kafka-logs", dry_run=True)  # doctest: +SKIP
    >>> [note.text for partition in report.partitions for note in partition.notes]  # doctest: +SKIP
    """
    if clock is not None and not callable(clock):
        raise TypeError(f"clock is a callable that gives milliseconds since the epoch, not {clock!r}")
    return _core.recover(
        _arguments.path(path),
        clean=None if clean is None else _arguments.flag("clean", clean),
        recovery_point=None if recovery_point is None else _arguments.integer("recovery_point", recovery_point, 0),
        log_start_offset=None
        if log_start_offset is None
        else _arguments.integer("log_start_offset", log_start_offset, 0),
        out=None if out is None else _arguments.path(out),
        on_loss="salvage" if _arguments.flag("salvage", salvage) else "refuse",
        dry_run=_arguments.flag("dry_run", dry_run),
        settings=pairs(config),
        producer_id_expiration_ms=_arguments.integer("producer_id_expiration_ms", producer_id_expiration_ms, 1),
        clock=clock,
    )


def rebuild_indexes(
    partition_dir: StrPath,
    level: str = "4.3",
    out: StrPath | None = None,
    *,
    dry_run: bool = False,
    config: LogConfig | None = None,
) -> PartitionRecovery:
    """Make the indexes of a partition anew, as a broker of some version would.

    The ``.log`` files are not changed: a log that recovery would cut is refused, and is for :func:`recover`.

    Parameters
    ----------
    partition_dir : path
        A partition's folder.
    level : str
        The Kafka version whose indexes are wanted, for instance ``4.3`` or ``2.8``: they differ in which offsets they
        name.
    out : path, optional
        A new folder for the whole partition; the source stays as it is. Default: in place.
    dry_run : bool
        Only report.
    config : LogConfig, optional
        The topic's settings, of which those of the indexes count. Default: Kafka's defaults.

    Returns
    -------
    PartitionRecovery
        What became of the files.

    Raises
    ------
    CorruptRecordError
        When the log is damaged. Nothing is changed.
    LogLockedError
        When a broker or a writer has the log dir open.
    FileExistsError
        When there is something at ``out``.
    ValueError
        For a level that is no Kafka version, or an ``out`` inside the source.
    """
    if not isinstance(level, str):
        raise TypeError(f"level is a Kafka version as text, for instance '4.3', not {level!r}")
    return _core.rebuild_indexes(
        _arguments.path(partition_dir),
        level=level,
        out=None if out is None else _arguments.path(out),
        dry_run=_arguments.flag("dry_run", dry_run),
        settings=pairs(config),
    )
