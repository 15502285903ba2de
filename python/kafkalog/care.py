"""What one does to a whole log: mending it after a crash, making its indexes anew, cutting its end.

Sits on ``_core``; reports come back as plain values and become frozen dataclasses here.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog import _arguments, _core
from kafkalog.config import pairs
from kafkalog.errors import CorruptRecordError
from kafkalog.log import PartitionLog
from kafkalog.writer import LogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog.config import LogConfig
    from kafkalog.typing import StrPath

__all__ = [
    "CheckpointChange",
    "FileChange",
    "PartitionRecovery",
    "RecoveryNote",
    "RecoveryReport",
    "TruncateReport",
    "rebuild_indexes",
    "recover",
    "truncate",
]

_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


@dataclass(frozen=True)
class RecoveryNote:
    """One thing that was found and done.

    Attributes
    ----------
    kind : str
        ``recovered`` (a segment was checked batch by batch, and its indexes made anew), ``deleted``, ``dropped``,
        ``split``, ``swapped``, ``hidden``, ``unread``, ``salvaged`` or ``set aside``.
    text : str
        What, in one line.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class FileChange:
    """What became of one file.

    Attributes
    ----------
    name : str
        Its name in the partition's folder.
    before, after : int or None
        Its length in bytes; None where it was not there, or is gone.
    is_same : bool
        Whether its bytes are the same.
    """

    name: str
    before: int | None
    after: int | None
    is_same: bool


@dataclass(frozen=True)
class CheckpointChange:
    """What became of a partition's line in a checkpoint of the log dir.

    Attributes
    ----------
    file : str
        The checkpoint's name.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    before, after : int or None
        The offset in the line; None where there was none, or is none any more.
    """

    file: str
    topic: str
    partition: int
    before: int | None
    after: int | None

    def __str__(self) -> str:
        before, after = ("none" if offset is None else offset for offset in (self.before, self.after))
        return f"{self.file}: {self.topic}-{self.partition}: {before} to {after}"


@dataclass(frozen=True)
class PartitionRecovery:
    """What became of one partition.

    Attributes
    ----------
    path : str
        Its folder in the source.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    recovered_from : int
        The offset from which on batches were checked; what lies below was believed.
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written.
    segments : int
        Segments there are now.
    size : int
        Bytes of their ``.log`` files.
    bytes_cut : int
        Bytes of ``.log`` files that were cut or deleted.
    notes : tuple of RecoveryNote
        What was done, in order.
    files : tuple of FileChange
        What became of the files, by name.
    """

    path: str
    topic: str
    partition: int
    recovered_from: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    size: int
    bytes_cut: int
    notes: tuple[RecoveryNote, ...]
    files: tuple[FileChange, ...]

    @property
    def is_unchanged(self) -> bool:
        """Whether every file stays as it was."""
        return all(file.is_same for file in self.files)


@dataclass(frozen=True)
class RecoveryReport:
    """What a recovery found and did, or would do.

    Attributes
    ----------
    path : str
        The log dir or the partition's folder.
    out : str or None
        Where the result was written; None in place.
    dry_run : bool
        Nothing was written.
    clean : bool
        The log dir had been closed cleanly, so that nothing was checked.
    partitions : tuple of PartitionRecovery
        By topic and number.
    checkpoints : tuple of CheckpointChange
        Lines of the log dir's checkpoints that changed, by file and partition.
    skipped : tuple of str
        Folders that a broker does not load so: those on their way out, and the metadata log.
    """

    path: str
    out: str | None
    dry_run: bool
    clean: bool
    partitions: tuple[PartitionRecovery, ...]
    checkpoints: tuple[CheckpointChange, ...]
    skipped: tuple[str, ...]

    @property
    def bytes_cut(self) -> int:
        """Bytes of ``.log`` files that were cut or deleted."""
        return sum(partition.bytes_cut for partition in self.partitions)

    @property
    def is_unchanged(self) -> bool:
        """Whether every file stays as it was."""
        return not self.checkpoints and all(partition.is_unchanged for partition in self.partitions)


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
    found = _core.recover(
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
    source, target, was_dry, was_clean, partitions, checkpoints, skipped = found
    return RecoveryReport(
        source,
        target,
        was_dry,
        was_clean,
        tuple(_partition(plain) for plain in partitions),
        tuple(CheckpointChange(*plain) for plain in checkpoints),
        tuple(skipped),
    )


def _partition(plain: _core._Recovery) -> PartitionRecovery:
    path, topic, partition, recovered_from, start, end, segments, size, cut, notes, files = plain
    return PartitionRecovery(
        path=path,
        topic=topic,
        partition=partition,
        recovered_from=recovered_from,
        log_start_offset=start,
        log_end_offset=end,
        segments=segments,
        size=size,
        bytes_cut=cut,
        notes=tuple(RecoveryNote(*note) for note in notes),
        files=tuple(FileChange(*file) for file in files),
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
    return _partition(
        _core.rebuild_indexes(
            _arguments.path(partition_dir),
            level=level,
            out=None if out is None else _arguments.path(out),
            dry_run=_arguments.flag("dry_run", dry_run),
            settings=pairs(config),
        )
    )


@dataclass(frozen=True)
class TruncateReport:
    """What a truncation cut, or would cut.

    Attributes
    ----------
    path : str
        The source.
    out : str or None
        The partition's folder that was written; None for a dry run.
    dry_run : bool
        Nothing was written.
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written, right after the cut. Loaded anew, the log ends
        behind its last batch, which may be below.
    log_end_before : int
        The next offset that would have been written in the source.
    segments, size : int
        Segments there are afterwards, and the bytes of their ``.log`` files.
    bytes_cut : int
        Bytes of ``.log`` files that are left out.
    """

    path: str
    out: str | None
    dry_run: bool
    log_start_offset: int
    log_end_offset: int
    log_end_before: int
    segments: int
    size: int
    bytes_cut: int


def truncate(
    source: StrPath,
    out: StrPath,
    offset: int,
    *,
    dry_run: bool = False,
    config: LogConfig | None = None,
) -> TruncateReport:
    """Write a partition without its end into a new log dir that a broker can mount, as Kafka's truncation does.

    A batch that holds the offset goes whole. The log's end is the offset all the same in Kafka's memory, and in the
    report; no file says so, and whoever loads the result, a broker too, goes on behind the last batch that is left.
    The source is not touched.

    Parameters
    ----------
    source : path
        A partition's folder.
    out : path
        A new log dir; the partition's folder is made in it.
    offset : int
        The first offset to go.
    dry_run : bool
        Only report.
    config : LogConfig, optional
        The topic's settings, of which those of the indexes count. Default: Kafka's defaults.

    Returns
    -------
    TruncateReport
        Where the log ends, and what was cut.

    Raises
    ------
    OffsetOutOfRangeError
        When the offset lies below the log start.
    FileExistsError
        When there is something at ``out``.
    CorruptRecordError
        When the source is damaged below the offset, or in a way in which Kafka would not load it.
    """
    offset = _arguments.integer("offset", offset, 0)
    dry_run = _arguments.flag("dry_run", dry_run)
    log = PartitionLog(source)
    target = Path(_arguments.path(out))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    _require_sound(log, recover(source, dry_run=True, config=config).partitions[0], offset)
    planned = _planned_cut(log, offset)
    if dry_run:
        return planned
    with _whole_or_empty(target):
        return _cut(log, target, offset, config, planned.log_end_before)


@contextmanager
def _whole_or_empty(target: Path) -> Iterator[None]:
    """Take away what an error or an interruption leaves in a directory that was new or empty: it looks like a log."""
    was_there = target.exists()
    try:
        yield
    except BaseException:
        for left in target.iterdir() if target.exists() else ():
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        if not was_there and target.exists():
            target.rmdir()
        raise


def _cut(log: PartitionLog, target: Path, offset: int, config: LogConfig | None, end_before: int) -> TruncateReport:
    folder = target / Path(log.path).name
    recover(log.path, out=folder, config=config)
    # What recovery writes is complete.
    (target / _CLEAN_SHUTDOWN).touch()
    with LogWriter(target, log.topic, log.partition, config=config) as writer:
        if log.log_start_offset > writer.log_start_offset:
            writer.delete_records(log.log_start_offset)
        writer.truncate(offset)
        start, now = writer.log_start_offset, writer.log_end_offset
    # A broker would delete these after file.delete.delay.ms; in a copy they are only what was to go.
    for left in folder.glob("*.deleted"):
        left.unlink()
    written = PartitionLog(folder).segments
    size = sum(segment.size for segment in written)
    return TruncateReport(
        path=log.path,
        out=str(folder),
        dry_run=False,
        log_start_offset=start,
        log_end_offset=now,
        log_end_before=end_before,
        segments=len(written),
        size=size,
        bytes_cut=log.size - size,
    )


def _require_sound(log: PartitionLog, mended: PartitionRecovery, offset: int) -> None:
    """Refuse a log that Kafka's start-up would end too early: what was asked to stay would be gone."""
    if mended.log_end_offset < min(offset, log.log_end_offset):
        found = "; ".join(note.text for note in mended.notes if "cut" in note.text)
        raise CorruptRecordError(
            f"{log.path}: offset {mended.log_end_offset}: the log is damaged below offset {offset}, recover it first: "
            f"{found}",
            log.path,
            offset=mended.log_end_offset,
        )


def _planned_cut(log: PartitionLog, offset: int) -> TruncateReport:
    """Tell what Kafka leaves of a log."""
    end = log.log_end_offset
    sizes = {segment.base_offset: segment.size for segment in log.segments}
    at = log.lookup(offset) if offset < end else None
    last, position = (at.segment_base_offset, at.position) if at else (max(sizes), sizes[max(sizes)])
    kept = {base: size for base, size in sizes.items() if base < last}
    size = sum(kept.values()) + position
    # The segment that is cut stays, be it empty, if it begins at or below the offset.
    segments = len(kept) + (last <= offset or not kept)
    return TruncateReport(
        path=log.path,
        out=None,
        dry_run=True,
        log_start_offset=min(log.log_start_offset, offset),
        log_end_offset=min(offset, end),
        log_end_before=end,
        segments=segments,
        size=size,
        bytes_cut=log.size - size,
    )
