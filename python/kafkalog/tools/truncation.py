"""Copying a partition up to an offset."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kafkalog import _arguments, _core
from kafkalog._atomic_files import replace as replace_file
from kafkalog.errors import CorruptRecordError
from kafkalog.log import PartitionLog
from kafkalog.tools.recovery import recover
from kafkalog.tools.reports import TruncateReport
from kafkalog.tools.soundness import Soundness, way_out
from kafkalog.writer import LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog.config import Config
    from kafkalog.tools.reports import PartitionRecovery, RecoveryReport
    from kafkalog.typing import StrPath

_CLEANED = "cleaner-offset-checkpoint"
_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def truncate(
    source: StrPath,
    out: StrPath,
    offset: int,
    *,
    dry_run: bool = False,
    config: Config = None,
) -> TruncateReport:
    """Copy a partition up to an offset into a new log dir that a broker can mount, as Kafka's truncation does.

    A batch that contains the offset is removed whole. As in Kafka's memory, the reported log end offset is the offset
    itself; no file records it, so a broker, or any other reader, continues after the last remaining batch, and so do
    the checkpoints. The source is not changed. The result is verified.

    Parameters
    ----------
    source : path
        A partition's folder.
    out : path
        A new log dir; the partition's folder is created in it.
    offset : int
        The first offset to remove.
    dry_run, config
        As for :func:`kafkalog.recover`.

    Returns
    -------
    TruncateReport
        Where the log ends, and what was removed.

    Raises
    ------
    OffsetOutOfRangeError
        If the offset is below the log start offset.
    FileExistsError
        If ``out`` exists and is not empty.
    CorruptRecordError
        If the source is damaged below the offset, or Kafka would not load it.
    """
    offset = _arguments.integer("offset", offset, 0)
    dry_run = _arguments.flag("dry_run", dry_run)
    log = PartitionLog(_arguments.local(source))
    target = Path(_arguments.local(out))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise _arguments.taken(target)
    _core.check_output(str(target), [log.path])
    with way_out():
        recovered, on_loss = _recovered(log, target / Path(log.path).name, offset, config)
        _require_sound(log, recovered.partitions[0], offset)
        planned = replace(_planned_cut(log, offset), left_out=recovered.left_out)
    soundness = Soundness(log.path)
    if dry_run:
        return replace(planned, source_errors=soundness.errors)
    with _emptied_on_error(target):
        with way_out():
            done = _cut(log, target, offset, config, planned.log_end_before, on_loss=on_loss)
        soundness.require(str(target))
    return replace(done, left_out=recovered.left_out, source_errors=soundness.errors)


@contextmanager
def _emptied_on_error(target: Path) -> Iterator[None]:
    """Empty the target after an error or an interruption: partial output would look like a log."""
    existed = target.exists()
    try:
        yield
    except BaseException:
        for left in target.iterdir() if target.exists() else ():
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
        if not existed and target.exists():
            target.rmdir()
        raise


def _recovered(
    log: PartitionLog, folder: Path, offset: int, config: Config
) -> tuple[RecoveryReport, Literal["refuse", "as_kafka"]]:
    """Plan the loading; a loss at or above the offset is intended."""
    try:
        return recover(log.path, dry_run=True, out=folder, config=config), "refuse"
    except CorruptRecordError as refused:
        if refused.offset is None or refused.offset < offset:
            raise
        return recover(log.path, dry_run=True, out=folder, config=config, on_loss="as_kafka"), "as_kafka"


def _cut(
    log: PartitionLog,
    target: Path,
    offset: int,
    config: Config,
    end_before: int,
    *,
    on_loss: Literal["refuse", "as_kafka"],
) -> TruncateReport:
    folder = target / Path(log.path).name
    recover(log.path, out=folder, config=config, on_loss=on_loss)
    # Recovery flushed everything that it wrote.
    (target / _CLEAN_SHUTDOWN).touch()
    with LogWriter(target, log.topic, log.partition, config=config) as writer:
        if log.log_start_offset > writer.log_start_offset:
            writer.delete_records(log.log_start_offset)
        writer.truncate(offset)
        start, now = writer.log_start_offset, writer.log_end_offset
    _write_cleaned(log, target, folder)
    # A broker would delete these after file.delete.delay.ms; a copy does not need them.
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


def _write_cleaned(log: PartitionLog, target: Path, folder: Path) -> None:
    """Write how far the log was compacted, up to its active segment (``LogCleanerManager.maybeTruncateCheckpoint``)."""
    lines = _core.LogDir(str(Path(log.path).parent), allow_others=True).checkpoints.get(_CLEANED, [])
    for topic, partition, offset in lines:
        if (topic, partition) == (log.topic, log.partition):
            end = min(offset, PartitionLog(folder).segments[-1].base_offset)
            replace_file(target / _CLEANED, f"0\n1\n{topic} {partition} {end}\n")


def _require_sound(log: PartitionLog, recovered: PartitionRecovery, offset: int) -> None:
    """Refuse a log that recovery would truncate below the offset: records to be kept would be lost."""
    if recovered.log_end_offset < min(offset, log.log_end_offset):
        found = "; ".join(note.text for note in recovered.notes if "cut" in note.text)
        raise CorruptRecordError(
            f"{log.path}: offset {recovered.log_end_offset}: the log is damaged below offset {offset}; "
            f"recover it first: {found}",
            log.path,
            offset=recovered.log_end_offset,
        )


def _first_cut(log: PartitionLog, offset: int) -> tuple[int, int] | None:
    """Return segment and position of the first batch that reaches to an offset, be it without records."""
    with log.batches(starting_offsets="oldest" if offset < log.log_start_offset else offset, check_crcs=False) as found:
        for batch in found:
            for row in batch.select(["segment", "position", "lastOffset"]).to_pylist():
                if row["lastOffset"] >= offset:
                    return int(row["segment"].partition(".")[0]), row["position"]
    return None


def _planned_cut(log: PartitionLog, offset: int) -> TruncateReport:
    """Work out what truncation leaves of a log."""
    end = log.log_end_offset
    sizes = {segment.base_offset: segment.size for segment in log.segments}
    last, position = _first_cut(log, offset) or (max(sizes), sizes[max(sizes)])
    kept = {base: size for base, size in sizes.items() if base < last}
    size = sum(kept.values()) + position
    # A segment that starts at or below the offset stays, even if it is empty.
    segments = max(sum(base <= offset for base in sizes), 1)
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
