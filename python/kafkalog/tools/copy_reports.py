"""Reports of compaction, retention and rewriting."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog._times import format_time
from kafkalog.tools.reports import CheckpointChange, CopyReport, PartitionRecovery, PartitionReport, not_in_result

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "CompactReport",
    "DeletedSegment",
    "PartitionCompaction",
    "PartitionRetention",
    "PartitionRewrite",
    "RetainReport",
    "RewriteReport",
]

# What kept the rest from being compacted, where it is not the active segment alone.
_HELD = {
    "open_transaction": (
        "held up by the open transaction of producer {partition.pin_producer_id} from offset {partition.pin_offset}"
    ),
    "high_watermark": "held up by the high watermark at offset {partition.first_uncleanable_offset}",
    "min_lag": "held up by min.compaction.lag.ms from offset {partition.first_uncleanable_offset}",
}


@dataclass(frozen=True, kw_only=True)
class PartitionCompaction(PartitionReport):
    """Report of the compaction of one partition.

    Attributes
    ----------
    first_dirty_offset : int
        Where compaction began: earlier passes, of a broker perhaps, ended here.
    first_uncleanable_offset : int
        What it could not pass: the active segment, an open transaction, the high watermark, or
        ``min.compaction.lag.ms``.
    compacted_to : int
        Where it ended; the next pass begins here.
    dirty_ratio : float or None
        Share of the bytes that were not compacted before; None for an empty log.
    passes : int
        The number of passes; 0 if the log was not dirty enough.
    more_passes : bool
        Whether more passes may follow: a dry run plans the first one only. A run then removes at least as much.
    records_read, records_kept : int
        Records that were read in all passes, and those that were kept.
    records_without_key : int
        Records that were removed because they have no key.
    segments_deleted : int
        Segments that retention deleted afterwards.
    segments_before, segments : int
        The number of segments before and after.
    size_before, size : int
        The size of their ``.log`` files in bytes, before and after.
    held_by : str
        What is at the first uncleanable offset: ``active`` (the active segment), ``min_lag``, ``open_transaction`` or
        ``high_watermark``.
    pin_producer_id, pin_offset : int or None
        Of ``open_transaction``, its producer and where it begins.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    compacted_to: int
    dirty_ratio: float | None
    passes: int
    records_read: int
    records_kept: int
    records_without_key: int
    segments_deleted: int
    segments_before: int
    segments: int
    size_before: int
    size: int
    held_by: str = "active"
    pin_producer_id: int | None = None
    pin_offset: int | None = None
    more_passes: bool = False

    @property
    def bytes_saved(self) -> int:
        """Bytes by which the ``.log`` files are smaller."""
        return self.size_before - self.size

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog compact`` prints about a partition."""
        name = f"{self.topic}-{self.partition}"
        held = _HELD.get(self.held_by, "").format(partition=self)
        if not self.passes:
            ratio = f"dirty ratio {self.dirty_ratio:.2f}" if self.dirty_ratio else held or "nothing to compact"
            yield f"{name}: not compacted, {ratio}; {self.segments} segment(s), {self.size} bytes"
            return
        at_least = "at least " if self.more_passes else ""
        yield (
            f"{name}: compacted to offset {self.compacted_to} in {at_least}{self.passes} pass(es), "
            f"{self.records_kept} of {self.records_read} records kept, "
            f"{self.segments_before} to {self.segments} segment(s), "
            f"{self.size_before} to {self.size} bytes" + (f"; {held}" if held else "")
        )


@dataclass(frozen=True, kw_only=True)
class CompactReport(CopyReport):
    """Report of a compaction, or of its dry run.

    Attributes
    ----------
    now_ms : int
        The time of the compaction, in milliseconds since the epoch.
    partitions : tuple of PartitionCompaction
        The partitions of compacted topics, by topic and number.
    damaged : tuple of PartitionRecovery
        Partitions, of all topics, that lost damaged bytes; empty unless damage was skipped.
    skipped : tuple of str
        Folders that are copied as they are: those being deleted, and the metadata log.
    """

    now_ms: int
    partitions: tuple[PartitionCompaction, ...]
    damaged: tuple[PartitionRecovery, ...]
    skipped: tuple[str, ...]

    @property
    def bytes_saved(self) -> int:
        """Bytes by which the ``.log`` files are smaller."""
        return sum(partition.bytes_saved for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog compact`` prints."""
        lost = {(each.topic, each.partition): each for each in self.damaged}
        for partition in self.partitions:
            yield from partition.lines()
            yield from _damage(lost.pop((partition.topic, partition.partition), None))
        yield from not_in_result(self.left_out)
        for damage in lost.values():
            yield f"{damage.topic}-{damage.partition}: not compacted"
            yield from _damage(damage)
        done = "would be saved" if self.dry_run else "saved"
        at_least = "at least " if any(each.more_passes for each in self.partitions) else ""
        yield f"{self.out or self.path}: {at_least}{self.bytes_saved} bytes {done}"


def _damage(damage: PartitionRecovery | None) -> Iterator[str]:
    if damage is not None:
        yield f"  {damage.bytes_cut} bytes lost to damage"
        yield from (f"  {note}" for note in damage.notes)


@dataclass(frozen=True)
class DeletedSegment:
    """A segment that retention deletes.

    Attributes
    ----------
    base_offset : int
        Its first possible offset, which names its files.
    size : int
        Bytes of its ``.log``.
    rule : str
        ``log_start``, ``size`` or ``time``.
    largest_timestamp : int
        In milliseconds since the epoch: that of its records, or of the file.
    from_mtime : bool
        Whether the largest timestamp is the time at which the ``.log`` was last modified, because no record has one.
    """

    base_offset: int
    size: int
    rule: str
    largest_timestamp: int
    from_mtime: bool

    def __str__(self) -> str:
        source = "modified" if self.from_mtime else "largest timestamp"
        when = format_time(self.largest_timestamp)
        return f"{self.base_offset:020}.log: {self.size} bytes, by {self.rule}, {source} {when}"


@dataclass(frozen=True, kw_only=True)
class PartitionRetention(PartitionReport):
    """Report of the retention of one partition.

    Attributes
    ----------
    log_start_before : int
        The first offset that was served.
    high_watermark : int
        No segment that reaches above it is deleted: the checkpoint's, else the log end offset.
    segments, size : int
        The number of segments afterwards, and the size of their ``.log`` files in bytes.
    deleted : tuple of DeletedSegment
        The deleted segments, oldest first.
    """

    log_start_before: int
    high_watermark: int
    segments: int
    size: int
    deleted: tuple[DeletedSegment, ...]

    @property
    def bytes_deleted(self) -> int:
        """Bytes of the ``.log`` files of deleted segments."""
        return sum(segment.size for segment in self.deleted)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog retain`` prints about a partition."""
        yield (
            f"{self.topic}-{self.partition}: offsets {self.log_start_offset} to {self.log_end_offset}, "
            f"{self.segments} segment(s), {self.size} bytes; {len(self.deleted)} segment(s), "
            f"{self.bytes_deleted} bytes left out"
        )
        yield from (f"  {segment}" for segment in self.deleted)


@dataclass(frozen=True, kw_only=True)
class RetainReport(CopyReport):
    """Report of a retention, or of its dry run.

    Attributes
    ----------
    now_ms : int
        The time of the retention, in milliseconds since the epoch.
    partitions : tuple of PartitionRetention
        By topic and number.
    checkpoints : tuple of CheckpointChange
        Lines of checkpoints that differ from the source's, by file and partition.
    skipped : tuple of str
        Folders that are copied as they are: those being deleted, and the metadata log.
    """

    now_ms: int
    partitions: tuple[PartitionRetention, ...]
    checkpoints: tuple[CheckpointChange, ...]
    skipped: tuple[str, ...]

    @property
    def bytes_deleted(self) -> int:
        """Bytes of the ``.log`` files of deleted segments."""
        return sum(partition.bytes_deleted for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog retain`` prints."""
        yield from (line for partition in self.partitions for line in partition.lines())
        yield from not_in_result(self.left_out)
        done = "would be left out" if self.dry_run else "left out"
        yield f"{self.out or self.path}: {self.bytes_deleted} bytes {done}"


@dataclass(frozen=True, kw_only=True)
class PartitionRewrite(PartitionReport):
    """Report of the rewrite of one partition.

    Attributes
    ----------
    records_dropped : int
        Records that are not in the result.
    batches_copied, batches_rewritten, batches_emptied, batches_dropped : int
        Batches that are the same byte for byte, that were written again, of which only the header is left, and that are
        not in the result. All 0 for a dry run.
    bytes_before, bytes_after : int
        Bytes of the ``.log`` files, in the source and in the result; the latter 0 for a dry run.
    bytes_lost : int
        Bytes of the source that were damaged, with ``on_corrupt="skip"``.
    """

    records_dropped: int
    batches_copied: int
    batches_rewritten: int
    batches_emptied: int
    batches_dropped: int
    bytes_before: int
    bytes_after: int
    bytes_lost: int

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog rewrite`` prints about a partition."""
        # A dry run counts no batches.
        batches = self.batches_copied + self.batches_rewritten + self.batches_emptied + self.batches_dropped
        sizes = f", {self.bytes_before} to {self.bytes_after} bytes" if batches else ""
        lost = f"; {self.bytes_lost} damaged bytes left out" if self.bytes_lost else ""
        yield (
            f"{Path(self.path).name}: offsets {self.log_start_offset} to {self.log_end_offset}: "
            f"{self.records_dropped} record(s) dropped{sizes}{lost}"
        )


@dataclass(frozen=True, kw_only=True)
class RewriteReport(CopyReport):
    """Report of a rewrite, or of its dry run.

    Attributes
    ----------
    manifest : str or None
        The file beside it that says what went: counts, and the hashes of the files that were written.
    partitions : tuple of PartitionRewrite
        By topic and number; also folders of them that are not live.
    """

    manifest: str | None
    partitions: tuple[PartitionRewrite, ...]

    @property
    def records_dropped(self) -> int:
        """Records that are not in the result."""
        return sum(partition.records_dropped for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog rewrite`` prints."""
        dropped = "would be dropped" if self.dry_run else "dropped"
        for each in self.partitions:
            for line in each.lines():
                yield line.replace("dropped", dropped, 1)
        yield from not_in_result(self.left_out)
