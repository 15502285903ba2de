"""A log dir of local and remote segments together, in the shape of one: a store of files that readers list and read.

What a log dir has is there as it is. Before the first local segment of a partition there are those of the tier, cut
where another copy begins or where a leader epoch ends. A partition without a folder gets the files that a broker has
beside segments, and an empty segment at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog.errors import CorruptRecordError, KafkaLogError, UnsupportedFormatError
from kafkalog.tiers import tail
from kafkalog.tiers.layout import DamagedError
from kafkalog.tiers.objects import ObjectInfo, store_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog.tiers.choice import Run
    from kafkalog.tiers.layout import RemoteFile
    from kafkalog.tiers.segment import RemoteSegment, TierPartition
    from kafkalog.tiers.tier import Tier

__all__ = ["TierReadError", "TieredView"]

_INDEXES = ("index", "timeindex", "txnindex")
_MAX_INDEX = 64 << 20
_CACHE = "remote-log-index-cache/"
_CLEAN = ".kafka_cleanshutdown"


class TierReadError(OSError):
    """An object that cannot be read; ``kind`` is the failure, in the core's words."""

    def __init__(self, text: str, kind: str = "other") -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class _Bytes:
    """A file that is made here."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]


@dataclass
class _Part:
    """A part of a file."""

    file: RemoteFile
    start: int
    size: int

    def read(self, start: int, length: int) -> bytes:
        try:
            return self.file.read(self.start + start, min(length, self.size - start))
        except DamagedError as error:
            raise DamagedError(error.error, max(0, error.start - self.start), error.end - self.start) from None


@dataclass
class _Torn:
    """A log that is missing, or of another length than expected: only bytes up to the shorter length are read."""

    file: RemoteFile | None
    error: KafkaLogError
    whole: int
    size: int

    def read(self, start: int, length: int) -> bytes:
        if self.file is None or start + length > self.whole:
            raise DamagedError(self.error, self.whole, self.size)
        return self.file.read(start, length)


@dataclass
class _Unreadable:
    """A log that cannot be opened, for no fault of its own: reading it says why."""

    text: str
    size: int

    def read(self, start: int, length: int) -> bytes:  # noqa: ARG002
        raise TierReadError(self.text)


@dataclass
class _Entry:
    """A file of the view."""

    file: RemoteFile
    modified: int = 0


class TieredView:
    """A store that holds one log dir: ``list``, ``stat`` and ``read`` as any other.

    Parameters
    ----------
    tier : Tier
        The segments of the tier, and what they serve.
    log_dir : str or None
        The log dir that they belong to.
    is_first : bool
        Whether partitions without a folder are shown here.
    """

    def __init__(self, tier: Tier, log_dir: str | None, *, is_first: bool = True) -> None:
        self._tier = tier
        self._log_dir, self._is_first = log_dir, is_first
        self._local = None if log_dir is None else store_of(log_dir)
        self._files: dict[str, _Entry] = {}
        if log_dir is None:
            self._files[_CLEAN] = _Entry(_Bytes(b""))
        for at, partition in tier.partitions.items():
            runs = tier.runs.get(at, [])
            folder = tier.local.of(partition)
            if not runs or (folder is not None and folder.log_dir != log_dir) or (folder is None and not is_first):
                continue
            name = f"{partition.topic}-{partition.partition}"
            base = None if folder is None else folder.base_offset
            self._files.update((f"{name}/{file}", entry) for run in runs for file, entry in self._run(run, base))
            if base is None:
                beside = self._beside(partition, runs, is_new=folder is None)
                self._files.update((f"{name}/{file}", entry) for file, entry in beside)

    def _run(self, run: Run, base: int | None) -> Iterator[tuple[str, _Entry]]:
        """Yield the files of a run of offsets below ``base``."""
        first, last, segment = run
        if base is not None:
            last = min(last, base - 1)
        if first > last:
            return
        name = f"{first:020}"
        size = segment.size or 1
        try:
            yield from self._readable(segment, first, last, name)
        except (CorruptRecordError, UnsupportedFormatError) as error:
            yield f"{name}.log", _Entry(_Torn(None, error, 0, size))
        except (KafkaLogError, OSError, ValueError) as error:
            yield f"{name}.log", _Entry(_Unreadable(_said(segment, _fault(segment) or str(error)), size))

    def _readable(self, segment: RemoteSegment, first: int, last: int, name: str) -> Iterator[tuple[str, _Entry]]:
        stored = segment.stored
        log = None if stored is None else self._open(segment, "log")
        if stored is None or log is None:
            error = CorruptRecordError(_said(segment, _fault(segment) or "no log"))
            yield f"{name}.log", _Entry(_Torn(None, error, 0, segment.size or 1))
            return
        if segment.size is not None and log.size != segment.size:
            key = stored.objects["log"].key
            error = CorruptRecordError(f"{key}: expected a log of {segment.size} bytes, found {log.size}", key)
            log = _Torn(log, error, min(log.size, segment.size), max(log.size, segment.size))
        modified = max((each.modified for each in stored.objects.values()), default=0)
        if (first, last) == (segment.start_offset, segment.end_offset):
            yield f"{name}.log", _Entry(log, modified)
            for kind in _INDEXES:
                found = self._open(segment, kind)
                if found is not None:
                    yield f"{name}.{kind}", _Entry(found, modified)
            found = self._open(segment, "snapshot")
            if found is not None:
                yield f"{last + 1:020}.snapshot", _Entry(found, modified)
            return
        # Its indexes name other positions and offsets: without them readers walk over headers.
        start_offset = segment.start_offset or 0
        index = self._open(segment, "index")
        entries = b"" if index is None or index.size > _MAX_INDEX else index.read(0, index.size)
        begin = 0 if first == start_offset else tail.cut_position(log, entries, start_offset, first)
        end = log.size if last == segment.end_offset else tail.cut_position(log, entries, start_offset, last + 1)
        yield f"{name}.log", _Entry(_Part(log, begin, max(0, end - begin)), modified)

    def _open(self, segment: RemoteSegment, kind: str) -> RemoteFile | None:
        if segment.stored is None:
            return None
        try:
            return self._tier.layout.open(self._tier.store, segment.stored, kind)
        except (KafkaLogError, OSError, ValueError):
            if kind == "log":
                raise
            return None

    def _beside(self, partition: TierPartition, runs: list[Run], *, is_new: bool) -> Iterator[tuple[str, _Entry]]:
        """Yield what a folder has beside segments: the end of the log, the topic's id, its leader epochs."""
        end = runs[-1].last + 1
        for kind in ("log", "index", "timeindex"):
            yield f"{end:020}.{kind}", _Entry(_Bytes(b""))
        if is_new:
            about = f"version: 0\ntopic_id: {partition.topic_id}\n"
            yield "partition.metadata", _Entry(_Bytes(about.encode()))
            at = (partition.topic_id, partition.partition)
            lineage = [(epoch, offset) for epoch, offset in self._tier.lineages[at] if epoch >= 0]
            lines = ["0", str(len(lineage)), *(f"{epoch} {offset}" for epoch, offset in lineage)]
            yield "leader-epoch-checkpoint", _Entry(_Bytes("\n".join([*lines, ""]).encode()))

    def list(self, prefix: str, recursive: bool) -> tuple[list[ObjectInfo], list[str], int]:  # noqa: FBT001
        """Return the files below a prefix, folders that were not entered, and no request."""
        objects: list[ObjectInfo] = []
        folders: set[str] = set() if recursive or prefix or not self._is_first else set(self._tier.others)
        if self._local is not None:
            found, named, _ = self._local.list(prefix, recursive)
            objects = [each for each in found if not each.key.startswith(_CACHE)]
            folders = {each for each in named if each + "/" != _CACHE}
        for key, entry in self._files.items():
            if not key.startswith(prefix):
                continue
            below = key[len(prefix) :].split("/", 1)
            if recursive or len(below) == 1:
                objects.append(ObjectInfo(key, entry.file.size, entry.modified))
            else:
                folders.add(prefix + below[0])
        return objects, sorted(folders), 0

    def stat(self, key: str) -> ObjectInfo | None:
        """Return a file, or None if there is none."""
        entry = self._files.get(key)
        if entry is not None:
            return ObjectInfo(key, entry.file.size, entry.modified)
        return None if self._local is None else self._local.stat(key)

    def read(self, key: str, start: int, length: int, size: int, version: str | None = None, *_: object) -> bytes:
        """Return a range of a file."""
        entry = self._files.get(key)
        try:
            if entry is not None:
                return entry.file.read(start, length)
            if self._local is not None:
                return self._local.read(key, start, length, size, version)
        except FileNotFoundError as error:
            raise TierReadError(str(error), "missing") from error
        except (CorruptRecordError, UnsupportedFormatError) as error:
            if key.endswith(".log"):
                raise self._damaged(error, start, start + length) from None
            raise TierReadError(str(error)) from error
        except (KafkaLogError, ValueError) as error:
            raise TierReadError(str(error)) from error
        raise TierReadError(f"{key}: no such file", "missing")

    def _damaged(self, error: KafkaLogError, start: int, end: int) -> DamagedError:
        """Return the damage with the object's place, which layouts know within the tier."""
        damaged = error if isinstance(error, DamagedError) else DamagedError(error, start, end)
        inner = damaged.error
        text, path = str(inner), inner.path
        if path is not None:
            full = self._tier.store.path(path)
            text = full + text.removeprefix(path) if text.startswith(path) else f"{full}: {text}"
            inner = type(inner)(text, full, inner.position)
        return DamagedError(inner, damaged.start, damaged.end)


def _fault(segment: RemoteSegment) -> str | None:
    return None if segment.fault is None else segment.fault.text


def _said(segment: RemoteSegment, fault: str) -> str:
    place = f"{segment.topic}-{segment.partition}"
    offsets = f"offsets {segment.start_offset} to {segment.end_offset}"
    return f"remote segment {segment.segment_id} of {place}, {offsets}: {fault}"
