"""What recovery, rebuilding and truncation report: frozen, comparable, picklable."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CheckpointChange",
    "FileChange",
    "PartitionRecovery",
    "RecoveryNote",
    "RecoveryReport",
    "TruncateReport",
]


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
