"""Partitions of a log dir: their sizes on disk, sums of their batches, and offsets."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog import _arguments, _core, _places
from kafkalog.errors import InternalError, KafkaLogError
from kafkalog.log import LogDir, PartitionFolder, PartitionOpener, partition_at
from kafkalog.options import ReadOptions
from kafkalog.reader import plan_ranges
from kafkalog.report.model import LogDirFigures, PartitionFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog._core import DirState, PartitionRange

# As many are answered between two looks at the progress.
_AT_ONCE = 256
_LATEST = -1

T = TypeVar("T")


@dataclass
class Progress:
    """The current step, for a line on a terminal."""

    phase: str = ""
    done: int = 0
    total: int = 0
    # counts for itself
    watched: _core.VerifyProgress | None = None

    def begin(self, phase: str, total: int = 0, watched: _core.VerifyProgress | None = None) -> None:
        """Begin a phase."""
        self.phase, self.done, self.total, self.watched = phase, 0, total, watched

    def add(self, number: int) -> None:
        """Count what is done."""
        self.done += number

    def line(self) -> str:
        """Return the line."""
        done, total = (self.done, self.total) if self.watched is None else (self.watched.done, self.watched.total)
        return f"{100 * done // total:3d}% {self.phase}" if total else self.phase


@dataclass
class Unread:
    """Faults of reading, a line each; the rest is shown."""

    lines: dict[str, None] = field(default_factory=dict)

    def add(self, error: BaseException | str) -> None:
        """Note an error, once."""
        self.lines[" ".join(str(error).split())] = None

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Note errors of the data and the system, rather than raise them."""
        try:
            yield
        except InternalError:
            raise
        except (KafkaLogError, OSError) as error:
            self.add(error)


@dataclass
class Listed:
    """A path that was given: its live partitions, and the ranges of their batches."""

    figures: LogDirFigures
    folders: list[PartitionFolder]
    disk_bytes: dict[str, int] = field(default_factory=dict)
    # of a partition's folder
    topic: str | None = None


def listed(given: str, unread: Unread) -> Listed:
    """List the live partitions of a log dir, or of the partition's folder that a path is."""
    path = _arguments.path(given)
    log = partition_at(path) if _places.is_folder(path) else None
    if log is not None:
        folder = PartitionFolder(path, log.topic, log.partition, log.state)
        return Listed(LogDirFigures(path, partitions=1), [folder], topic=log.topic)
    if _places.exists(path) and not _places.is_folder(path):
        raise ValueError(f"{path}: neither a log dir nor a partition's folder")
    log_dir = LogDir(path)
    folders = [folder for folder in log_dir.folders if folder.state == "live"]
    folders.sort(key=lambda folder: (folder.topic, folder.partition, folder.path))
    meta: dict[str, str] = {}
    with unread.aside():
        meta = log_dir.meta or {}
    node = meta.get("node.id", meta.get("broker.id"))
    figures = LogDirFigures(
        path, meta.get("cluster.id"), node, meta.get("directory.id"), log_dir.clean_shutdown, len(folders)
    )
    return Listed(figures, folders)


def bytes_on_disk(folder: str) -> int:
    """Return the length of all files in a folder, each once, as ``du -b`` counts them."""
    if _core.is_mounted(folder):
        return sum(size for _, is_folder, size, _ in _core.list_folder(folder) if not is_folder)
    found = 0
    seen = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                continue
            about = entry.stat(follow_symlinks=False)
            if about.st_nlink > 1:
                if (about.st_dev, about.st_ino) in seen:
                    continue
                seen.add((about.st_dev, about.st_ino))
            found += about.st_size
    return found


class Asked:
    """Puts questions of the core to the partitions of a log dir, many at a time."""

    def __init__(self, some: Listed, unread: Unread, progress: Progress) -> None:
        self._opener = PartitionOpener()
        self._listed, self._unread, self._progress = some, unread, progress
        self.magics: set[int] = set()

    def figures(self) -> Iterator[PartitionFigures]:
        """Yield the figures of each partition that can be read."""
        folders = self._listed.folders
        for first in range(0, len(folders), _AT_ONCE):
            some = folders[first : first + _AT_ONCE]
            for log_dir, group in groupby(some, lambda folder: self._opener.log_dir(folder.path)):
                yield from self._figures(list(group), log_dir)
            self._progress.add(len(some))

    def _figures(self, folders: list[PartitionFolder], log_dir: DirState | None) -> Iterator[PartitionFigures]:
        paths = [folder.path for folder in folders]
        sums = self._answers(paths, _core.statistics_all(paths, log_dir, on_corrupt="skip", segments=False))
        described = self._answers(paths, _core.describe_all(paths, log_dir))
        stable = self._answers(paths, _core.list_offsets(paths, log_dir, _LATEST, is_committed=True))
        for folder in folders:
            path = folder.path
            with self._unread.aside():
                self._listed.disk_bytes[path] = bytes_on_disk(path)
            if path in sums:
                yield self._figures_of(folder, sums[path], described.get(path), stable.get(path))

    def _answers(self, paths: list[str], answers: Sequence[T | BaseException]) -> dict[str, T]:
        """Return the answers by folder, without those of folders that cannot be read."""
        found: dict[str, T] = {}
        for path, answer in zip(paths, answers, strict=True):
            if not isinstance(answer, BaseException):
                found[path] = answer
            elif not isinstance(answer, (KafkaLogError, OSError)):
                raise answer
            # A running broker may have deleted the folder meanwhile.
            elif not isinstance(answer, FileNotFoundError) or _places.exists(path):
                self._unread.add(answer)
        return found

    def _figures_of(
        self, folder: PartitionFolder, sums: _core.Sums, described: _core.Description | None, stable: int | None
    ) -> PartitionFigures:
        log_start_offset, log_end_offset, segments, total, _ = sums
        self.magics.update(int(magic) for magic in total["magics"])
        numbers: dict[str, Any] = {
            name: total[name]
            for name in ("size", "batches", "records", "legacy_batches", "min_timestamp", "max_timestamp")
        }
        return PartitionFigures(
            log_dir=self._listed.figures.path,
            topic=folder.topic,
            partition=folder.partition,
            disk_bytes=self._listed.disk_bytes.get(folder.path, 0),
            segments=segments,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            high_watermark=None if described is None else described[3],
            last_stable_offset=stable,
            **numbers,
        )


def planned(paths: list[str], unread: Unread) -> list[PartitionRange]:
    """Plan to read the batches of partition folders; those that cannot be planned are noted."""
    # Everything in the files, also what lies below the log start offset: this is what ``stats`` adds up.
    everything = ReadOptions(topic_pattern=".*", starting_offsets="oldest", on_corrupt="skip")
    if not paths:
        return []
    try:
        return plan_ranges(paths, everything)
    except InternalError:
        raise
    except (KafkaLogError, OSError) as error:
        if len(paths) == 1:
            unread.add(error)
            return []
    half = len(paths) // 2
    return planned(paths[:half], unread) + planned(paths[half:], unread)


def asked(some: Listed, unread: Unread, progress: Progress, each: Callable[[PartitionFigures], object]) -> set[int]:
    """Give the figures of each partition of a log dir; return the magics of its batches."""
    questions = Asked(some, unread, progress)
    for figures in questions.figures():
        each(figures)
    return questions.magics
