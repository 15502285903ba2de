"""Reports of recovery, rebuilding and truncation, and what all reports share: frozen, comparable, picklable."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from kafkalog._reprs import camel, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

__all__ = [
    "CheckpointChange",
    "CopyReport",
    "FileChange",
    "LeftOut",
    "PartitionRecovery",
    "PartitionReport",
    "RecoveryNote",
    "RecoveryReport",
    "Report",
    "TruncateReport",
    "from_core",
    "known_to_brokers",
    "not_in_result",
]


_T = TypeVar("_T")
_hints = cache(get_type_hints)


def from_core(kind: Callable[..., _T], found: Mapping[str, Any], **others: Any) -> _T:
    """Build a report from the core's mapping, of which it takes the fields that it has, and from other fields."""
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in found.items() if name in hints}, **others)


def _value(hint: Any, value: Any) -> Any:
    if isinstance(value, bytes):
        # A path.
        return os.fsdecode(value)
    if isinstance(value, list):
        return tuple(_value(get_args(hint)[0], each) for each in value)
    return from_core(hint, value) if isinstance(value, dict) else value


def known_to_brokers(producer_id: int | None, leader_epoch: int | None) -> str:
    """Name the highest producer id and leader epoch of a log, which must not be new to the cluster that mounts it."""
    named = "" if producer_id is None else f", highest producer id {producer_id}"
    # Every cluster begins with leader epoch 0.
    return f"{named}, leader epoch {leader_epoch}" if leader_epoch else named


class _Lines(ABC):
    """A report as text."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Yield what the command prints, line by line."""

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True, kw_only=True)
class Report(_Lines):
    """A report of a verb as text and as a table.

    Attributes
    ----------
    path : str
        The source: a log dir, or a partition's folder.
    out : str or None
        What was written; None for a dry run, and for a recovery in place.
    dry_run : bool
        Whether nothing was written.
    left_out : tuple of LeftOut
        Files and folders of the source that are not in ``out``, by path: folders that are not a partition's, for
        instance.
    """

    path: str
    out: str | None
    dry_run: bool
    left_out: tuple[LeftOut, ...] = ()

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


@dataclass(frozen=True, kw_only=True)
class CopyReport(Report):
    """A report of a verb that verifies the copy it writes.

    Attributes
    ----------
    source_errors : tuple of str
        What verification found wrong in the source before the work: no failure of the result.
    metadata_notes : tuple of str
        What was skipped in the metadata log, and records of it that cannot be applied, a line each: the settings of
        topics come from there.
    """

    source_errors: tuple[str, ...] = field(default=(), compare=False)
    metadata_notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PartitionReport(_Lines):
    """A report on one partition.

    Attributes
    ----------
    path : str
        Its folder in the source.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written, afterwards.
    """

    path: str
    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int


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


def not_in_result(left_out: tuple[LeftOut, ...]) -> Iterator[str]:
    """Yield a line for each thing of the source that is not in the result."""
    return (f"not in the result: {left}" for left in left_out)


@dataclass(frozen=True)
class RecoveryNote:
    """One finding of a recovery, and its treatment.

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


@dataclass(frozen=True, kw_only=True)
class PartitionRecovery(PartitionReport):
    """Report of the recovery of one partition.

    Attributes
    ----------
    recovered_from : int
        The offset from which on batches were checked; everything below was trusted.
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

    recovered_from: int
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


@dataclass(frozen=True, kw_only=True)
class RecoveryReport(Report):
    """Report of a recovery, or of its dry run.

    Attributes
    ----------
    clean : bool
        Whether the log dir had been closed cleanly, so that nothing was checked.
    partitions : tuple of PartitionRecovery
        By topic and number.
    checkpoints : tuple of CheckpointChange
        Lines of the log dir's checkpoints that changed, by file and partition.
    skipped : tuple of str
        Folders that a broker does not recover with the others: those being deleted, and the metadata log.
    """

    clean: bool
    partitions: tuple[PartitionRecovery, ...]
    checkpoints: tuple[CheckpointChange, ...]
    skipped: tuple[str, ...]

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
        yield from not_in_result(self.left_out)
        for path in self.skipped:
            yield f"{path}: not changed: a broker does not recover it with the others"


@dataclass(frozen=True, kw_only=True)
class TruncateReport(CopyReport):
    """Report of a truncation, or of its dry run.

    Attributes
    ----------
    log_start_offset, log_end_offset : int
        The first offset that is served, and the next to be written, directly after the truncation. When the log is
        loaded again, it ends after its last batch, which may be lower.
    log_end_before : int
        The log end offset of the source.
    segments, size : int
        The number of segments afterwards, and the size of their ``.log`` files in bytes.
    bytes_cut : int
        Bytes of ``.log`` files that were left out.
    """

    log_start_offset: int
    log_end_offset: int
    log_end_before: int
    segments: int
    size: int
    bytes_cut: int

    def lines(self) -> Iterator[str]:
        """Yield what ``kafkalog truncate`` prints."""
        yield from not_in_result(self.left_out)
        yield (
            f"{self.out or self.path}: offsets {self.log_start_offset} to {self.log_end_offset} "
            f"(before: {self.log_end_before}), {self.segments} segment(s), {self.bytes_cut} bytes cut"
        )
