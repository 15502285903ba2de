"""Reports of recovery, rebuilding, truncation and retention: frozen, comparable, picklable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from kafkalog._display import camel, plain
from kafkalog._times import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = [
    "CheckpointChange",
    "CompactReport",
    "DeletedSegment",
    "FileChange",
    "LeftOut",
    "PartitionCompaction",
    "PartitionRecovery",
    "PartitionRetention",
    "PartitionRewrite",
    "RecoveryNote",
    "RecoveryReport",
    "RetainReport",
    "RewriteReport",
    "TruncateReport",
    "known_to_brokers",
]

# What kept the rest from being compacted, where it is not the active segment alone.
_HELD = {
    "open_transaction": (
        "held up by the open transaction of producer {partition.pin_producer_id} from offset {partition.pin_offset}"
    ),
    "high_watermark": "held up by the high watermark at offset {partition.first_uncleanable_offset}",
    "min_lag": "held up by min.compaction.lag.ms from offset {partition.first_uncleanable_offset}",
}


def known_to_brokers(producer_id: int | None, leader_epoch: int | None) -> str:
    """Name the highest producer id and leader epoch of a log, which must not be new to the cluster that mounts it."""
    named = "" if producer_id is None else f", highest producer id {producer_id}"
    # Every cluster begins with leader epoch 0.
    return f"{named}, leader epoch {leader_epoch}" if leader_epoch else named


class _Lines:
    """A report as text."""

    def lines(self) -> Iterator[str]:
        """Yield what the command prints, line by line."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.lines())


class _Report(_Lines):
    """A report of a verb as text and as a table."""

    def to_arrow(self) -> pa.Table:
        """Return the partitions as rows.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of a partition's report, spelled as in ``-J``.
        """
        import pyarrow as pa

        partitions = get_type_hints(type(self)).get("partitions")
        kind = type(self) if partitions is None else get_args(partitions)[0]
        rows = getattr(self, "partitions", (self,))
        return pa.Table.from_pylist([plain(each) for each in rows], schema=pa.schema(list(_fields(kind))))


def _fields(kind: type) -> Iterator[pa.Field[Any]]:
    """Yield the Arrow fields of a report's attributes."""
    import pyarrow as pa

    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    for name, hint in get_type_hints(kind).items():
        inner: Any = next((each for each in get_args(hint) if each not in (type(None), ...)), hint)
        found: Any = pa.struct(list(_fields(inner))) if inner not in types else types[inner]
        if get_origin(hint) is tuple:
            found = pa.list_(found)
        yield pa.field(camel(name), pa.int32() if name == "partition" else found)


def _not_in_result(left_out: tuple[LeftOut, ...]) -> Iterator[str]:
    return (f"not in the result: {left}" for left in left_out)


@dataclass(frozen=True)
class RecoveryNote:
    """One finding of a recovery, and what was done about it.

    Attributes
    ----------
    kind : str
        ``recovered`` (a segment was checked batch by batch, and its indexes rebuilt), ``deleted``, ``dropped``,
        ``split``, ``swapped``, ``lost`` (whole batches that go), ``out of order``, ``salvaged``, ``left out``,
        ``set aside`` or ``index full``.
    text : str
        The finding, in one line.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class FileChange:
    """Change of one file.

    Attributes
    ----------
    name : str
        Its name in the partition's folder.
    before, after : int or None
        Its length in bytes; None if it did not exist, or no longer exists.
    is_same : bool
        Whether its bytes are unchanged.
    """

    name: str
    before: int | None
    after: int | None
    is_same: bool


@dataclass(frozen=True)
class CheckpointChange:
    """Change of a partition's line in a checkpoint of the log dir.

    Attributes
    ----------
    file : str
        The checkpoint's name.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    before, after : int or None
        The offset in the line; None if there was no line, or no longer is.
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
class LeftOut:
    """A file or folder of the source that is not in the result.

    Attributes
    ----------
    path : str
        Where it is in the source.
    reason : str
        Why it was left out.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class PartitionRecovery(_Lines):
    """Report of the recovery of one partition.

    Attributes
    ----------
    path : str
        Its folder in the source.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    recovered_from : int
        The offset from which on batches were checked; everything below was trusted.
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written.
    segments : int
        The number of segments afterwards.
    size : int
        The size of their ``.log`` files in bytes.
    highest_producer_id : int or None
        The highest id among the producers that a broker would still know after loading the log; None for no producer.
    latest_leader_epoch : int or None
        The latest leader epoch in the log; None for a log without batches. The guide ``writing`` says why both matter
        to a cluster that mounts the log.
    bytes_cut : int
        Bytes of ``.log`` files that were truncated or deleted.
    notes : tuple of RecoveryNote
        The findings, in order.
    files : tuple of FileChange
        The files, by name.
    """

    path: str
    topic: str
    partition: int
    recovered_from: int
    log_start_offset: int
    log_end_offset: int
    segments: int
    size: int
    highest_producer_id: int | None
    latest_leader_epoch: int | None
    bytes_cut: int
    notes: tuple[RecoveryNote, ...]
    files: tuple[FileChange, ...]

    @property
    def is_unchanged(self) -> bool:
        """True if all files are unchanged."""
        return all(file.is_same for file in self.files)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog recover`` prints about a partition."""
        changed = sum(not file.is_same for file in self.files)
        yield (
            f"{self.topic}-{self.partition}: offsets {self.log_start_offset} to {self.log_end_offset}, "
            f"{self.segments} segment(s), {self.bytes_cut} bytes cut, {changed} file(s) changed"
            f"{known_to_brokers(self.highest_producer_id, self.latest_leader_epoch)}"
        )
        yield from (f"  {note}" for note in self.notes)


@dataclass(frozen=True)
class RecoveryReport(_Report):
    """Report of a recovery, or of its dry run.

    Attributes
    ----------
    path : str
        The log dir or the partition's folder.
    out : str or None
        Where the result was written; None if in place.
    dry_run : bool
        Whether nothing was written.
    clean : bool
        Whether the log dir had been closed cleanly, so that nothing was checked.
    partitions : tuple of PartitionRecovery
        By topic and number.
    checkpoints : tuple of CheckpointChange
        Lines of the log dir's checkpoints that changed, by file and partition.
    skipped : tuple of str
        Folders that a broker does not recover with the others: those being deleted, and the metadata log.
    left_out : tuple of LeftOut
        Files and folders of the source that are not in ``out``, by path: folders that are no partition's, for instance.
    """

    path: str
    out: str | None
    dry_run: bool
    clean: bool
    partitions: tuple[PartitionRecovery, ...]
    checkpoints: tuple[CheckpointChange, ...]
    skipped: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def highest_producer_id(self) -> int | None:
        """The highest producer id of all partitions; None for no producer."""
        return max((p.highest_producer_id for p in self.partitions if p.highest_producer_id is not None), default=None)

    @property
    def latest_leader_epoch(self) -> int | None:
        """The latest leader epoch of all partitions; None if no log has batches."""
        return max((p.latest_leader_epoch for p in self.partitions if p.latest_leader_epoch is not None), default=None)

    @property
    def bytes_cut(self) -> int:
        """Bytes of ``.log`` files that were truncated or deleted."""
        return sum(partition.bytes_cut for partition in self.partitions)

    @property
    def is_unchanged(self) -> bool:
        """True if all files are unchanged."""
        return not self.checkpoints and all(partition.is_unchanged for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog recover`` prints."""
        yield from (line for partition in self.partitions for line in partition.lines())
        yield from map(str, self.checkpoints)
        yield from _not_in_result(self.left_out)
        for path in self.skipped:
            yield f"{path}: not changed: a broker does not recover it with the others"


@dataclass(frozen=True)
class TruncateReport(_Report):
    """Report of a truncation, or of its dry run.

    Attributes
    ----------
    path : str
        The source.
    out : str or None
        The partition's folder that was written; None for a dry run.
    dry_run : bool
        Whether nothing was written.
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written, directly after the truncation. When the log is
        loaded again, it ends after its last batch, which may be lower.
    log_end_before : int
        The log end offset of the source.
    segments, size : int
        The number of segments afterwards, and the size of their ``.log`` files in bytes.
    bytes_cut : int
        Bytes of ``.log`` files that were left out.
    left_out : tuple of LeftOut
        Folders in the partition's folder that are not in ``out``.
    source_errors : tuple of str
        What verification found wrong in the source before the work: no failure of the result.
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
    left_out: tuple[LeftOut, ...] = ()
    source_errors: tuple[str, ...] = field(default=(), compare=False)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog truncate`` prints."""
        yield from _not_in_result(self.left_out)
        yield (
            f"{self.out or self.path}: offsets {self.log_start_offset} to {self.log_end_offset} "
            f"(before: {self.log_end_before}), {self.segments} segment(s), {self.bytes_cut} bytes cut"
        )


@dataclass(frozen=True)
class PartitionCompaction:
    """Report of the compaction of one partition.

    Attributes
    ----------
    path : str
        Its folder in the source.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written.
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
    records_read, records_kept : int
        Records that were looked at in all passes, and those that were kept.
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

    path: str
    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
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

    @property
    def bytes_saved(self) -> int:
        """Bytes by which the ``.log`` files are smaller."""
        return self.size_before - self.size

    def __str__(self) -> str:
        name = f"{self.topic}-{self.partition}"
        held = _HELD.get(self.held_by, "").format(partition=self)
        if not self.passes:
            ratio = f"dirty ratio {self.dirty_ratio:.2f}" if self.dirty_ratio else held or "nothing to compact"
            return f"{name}: not compacted, {ratio}; {self.segments} segment(s), {self.size} bytes"
        return (
            f"{name}: compacted to offset {self.compacted_to} in {self.passes} pass(es), "
            f"{self.records_kept} of {self.records_read} records kept, "
            f"{self.segments_before} to {self.segments} segment(s), "
            f"{self.size_before} to {self.size} bytes" + (f"; {held}" if held else "")
        )


@dataclass(frozen=True)
class CompactReport(_Report):
    """Report of a compaction, or of its dry run.

    Attributes
    ----------
    path : str
        The source.
    out : str or None
        The log dir that was written; None for a dry run.
    dry_run : bool
        Whether nothing was written.
    now_ms : int
        The time of the compaction, in milliseconds since the epoch.
    partitions : tuple of PartitionCompaction
        The partitions of compacted topics, by topic and number.
    damaged : tuple of PartitionRecovery
        Partitions, of all topics, that lost damaged bytes; empty unless damage was skipped.
    skipped : tuple of str
        Folders that are copied as they are: those being deleted, and the metadata log.
    left_out : tuple of LeftOut
        Files and folders of the source that are not in ``out``, by path: folders that are no partition's, for instance.
    source_errors : tuple of str
        What verification found wrong in the source before the work: no failure of the result.
    metadata_notes : tuple of str
        What was passed over in the metadata log, and records of it that cannot be applied, a line each: the settings of
        topics come from there.
    """

    path: str
    out: str | None
    dry_run: bool
    now_ms: int
    partitions: tuple[PartitionCompaction, ...]
    damaged: tuple[PartitionRecovery, ...]
    skipped: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    source_errors: tuple[str, ...] = field(default=(), compare=False)
    metadata_notes: tuple[str, ...] = ()

    @property
    def bytes_saved(self) -> int:
        """Bytes by which the ``.log`` files are smaller."""
        return sum(partition.bytes_saved for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog compact`` prints."""
        lost = {(each.topic, each.partition): each for each in self.damaged}
        for partition in self.partitions:
            yield str(partition)
            yield from _damage(lost.pop((partition.topic, partition.partition), None))
        yield from _not_in_result(self.left_out)
        for damage in lost.values():
            yield f"{damage.topic}-{damage.partition}: not compacted"
            yield from _damage(damage)
        done = "would be saved" if self.dry_run else "saved"
        yield f"{self.out or self.path}: {self.bytes_saved} bytes {done}"


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


@dataclass(frozen=True)
class PartitionRetention(_Lines):
    """Report of the retention of one partition.

    Attributes
    ----------
    path : str
        Its folder in the source.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    log_start_before, log_start_offset : int
        The first offset that is served, before and after.
    log_end_offset : int
        The next offset to be written.
    high_watermark : int
        No segment that reaches above it is deleted: the checkpoint's, else the log end offset.
    segments, size : int
        The number of segments afterwards, and the size of their ``.log`` files in bytes.
    deleted : tuple of DeletedSegment
        The deleted segments, oldest first.
    """

    path: str
    topic: str
    partition: int
    log_start_before: int
    log_start_offset: int
    log_end_offset: int
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


@dataclass(frozen=True)
class RetainReport(_Report):
    """Report of a retention, or of its dry run.

    Attributes
    ----------
    path : str
        The source.
    out : str or None
        The log dir that was written; None for a dry run.
    dry_run : bool
        Whether nothing was written.
    now_ms : int
        The time at which retention looked at the segments, in milliseconds since the epoch.
    partitions : tuple of PartitionRetention
        By topic and number.
    checkpoints : tuple of CheckpointChange
        Lines of checkpoints that differ from the source's, by file and partition.
    skipped : tuple of str
        Folders that are copied as they are: those being deleted, and the metadata log.
    left_out : tuple of LeftOut
        Files and folders of the source that are not in ``out``, by path: folders that are no partition's, for instance.
    source_errors : tuple of str
        What verification found wrong in the source before the work: no failure of the result.
    metadata_notes : tuple of str
        What was passed over in the metadata log, and records of it that cannot be applied, a line each: the settings of
        topics come from there.
    """

    path: str
    out: str | None
    dry_run: bool
    now_ms: int
    partitions: tuple[PartitionRetention, ...]
    checkpoints: tuple[CheckpointChange, ...]
    skipped: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    source_errors: tuple[str, ...] = field(default=(), compare=False)
    metadata_notes: tuple[str, ...] = ()

    @property
    def bytes_deleted(self) -> int:
        """Bytes of the ``.log`` files of deleted segments."""
        return sum(partition.bytes_deleted for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog retain`` prints."""
        yield from (line for partition in self.partitions for line in partition.lines())
        yield from _not_in_result(self.left_out)
        done = "would be left out" if self.dry_run else "left out"
        yield f"{self.out or self.path}: {self.bytes_deleted} bytes {done}"


@dataclass(frozen=True)
class PartitionRewrite:
    """Report of the rewrite of one partition.

    Attributes
    ----------
    path : str
        Its folder in the source.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written; both as in the source.
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

    path: str
    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    records_dropped: int
    batches_copied: int
    batches_rewritten: int
    batches_emptied: int
    batches_dropped: int
    bytes_before: int
    bytes_after: int
    bytes_lost: int


@dataclass(frozen=True)
class RewriteReport(_Report):
    """Report of a rewrite, or of its dry run.

    Attributes
    ----------
    path : str
        The source.
    out : str or None
        The log dir that was written; None for a dry run.
    manifest : str or None
        The file beside it that says what went: counts, and the hashes of the files that were written.
    dry_run : bool
        Whether nothing was written.
    partitions : tuple of PartitionRewrite
        By topic and number; also folders of them that are not live.
    left_out : tuple of LeftOut
        Files and folders of the source that are not in the result, by path: what is being deleted, leftovers, files
        that are not Kafka's, partitions that were not to be kept.
    source_errors : tuple of str
        What verification found wrong in the source before the work: no failure of the result.
    metadata_notes : tuple of str
        What was passed over in the metadata log, and records of it that cannot be applied, a line each: the settings of
        topics come from there.
    """

    path: str
    out: str | None
    manifest: str | None
    dry_run: bool
    partitions: tuple[PartitionRewrite, ...]
    left_out: tuple[LeftOut, ...] = ()
    source_errors: tuple[str, ...] = field(default=(), compare=False)
    metadata_notes: tuple[str, ...] = ()

    @property
    def records_dropped(self) -> int:
        """Records that are not in the result."""
        return sum(partition.records_dropped for partition in self.partitions)

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog rewrite`` prints."""
        dropped = "would be dropped" if self.dry_run else "dropped"
        for each in self.partitions:
            sizes = "" if self.dry_run else f", {each.bytes_before} to {each.bytes_after} bytes"
            lost = f"; {each.bytes_lost} damaged bytes left out" if each.bytes_lost else ""
            yield (
                f"{Path(each.path).name}: offsets {each.log_start_offset} to {each.log_end_offset}: "
                f"{each.records_dropped} record(s) {dropped}{sizes}{lost}"
            )
        yield from _not_in_result(self.left_out)
