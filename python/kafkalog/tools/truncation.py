"""Writing a partition without its end."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog import _arguments, _core
from kafkalog.errors import CorruptRecordError
from kafkalog.log import PartitionLog
from kafkalog.tools.recovery import recover
from kafkalog.tools.reports import TruncateReport
from kafkalog.writer import LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog.config import LogConfig
    from kafkalog.tools.reports import PartitionRecovery
    from kafkalog.typing import StrPath

__all__ = ["truncate"]

_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


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
    _core.check_output(str(target), [log.path])
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
