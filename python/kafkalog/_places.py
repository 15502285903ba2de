"""Questions about a path that may be in a mounted store, and the paths beside it."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalog import _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Bytes that are read at once.
_BLOCK = 4 << 20


def at(path: str) -> str:
    """Return a path as it was given; the store of a URL is mounted now."""
    from kafkalog import storage

    return storage.place(path) or path


def exists(path: str) -> bool:
    """Report whether there is a file or folder."""
    return _core.path_kind(path) is not None if _core.is_mounted(path) else Path(path).exists()


def is_file(path: str) -> bool:
    """Report whether it is a file."""
    return _core.path_kind(path) == "file" if _core.is_mounted(path) else Path(path).is_file()


def is_folder(path: str) -> bool:
    """Report whether it is a folder."""
    return _core.path_kind(path) == "folder" if _core.is_mounted(path) else Path(path).is_dir()


def known_as(path: str) -> str:
    """Return the path by which a place is known again under other names: on a disk, without links and dots."""
    return path if _core.is_mounted(path) else os.path.realpath(path)


def above(path: str) -> str:
    """Return the folder that it is in."""
    return path.rpartition("/")[0] if _core.is_mounted(path) else str(Path(path).parent)


def on_disk(paths: Iterable[str]) -> list[str]:
    """Return those of some paths that are no URLs."""
    from kafkalog.storage._urls import is_url

    return [path for path in paths if not is_url(path)]


def fault(path: str) -> OSError | None:
    """Return why a local folder cannot be listed, or a path not be looked at; None if there is no fault."""
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 - a path of any bytes
            os.listdir(path)  # noqa: PTH208 - likewise
    except OSError as error:
        return error
    return None


def listed(path: str) -> list[str]:
    """Return the names in a folder."""
    if _core.is_mounted(path):
        return [name for name, *_ in _core.list_folder(path)]
    return os.listdir(path)  # noqa: PTH208 - a path of any bytes


def names(path: str) -> list[str]:
    """Return the names in a folder; none of one that cannot be listed."""
    try:
        return listed(path)
    except OSError:
        return []


class Stamp(NamedTuple):
    """Size of a file, and what changes when it is written or replaced."""

    size: int
    rest: tuple[int, ...]


def files(path: str) -> dict[str, Stamp]:
    """Return every file at or below a path, in the order of names."""
    if _core.is_mounted(path):
        return dict(_objects(path))
    found = {path} if not Path(path).is_dir() else set[str]()
    for folder, _, in_it in os.walk(path):
        found.update(f"{folder}/{name}" for name in in_it)
    stamps = ((each, stamp(each)) for each in sorted(found, key=Path) if Path(each).is_file())
    return {each: about for each, about in stamps if about is not None}


def _objects(path: str) -> Iterator[tuple[str, Stamp]]:
    if is_file(path):
        name = path.rpartition("/")[2]
        yield from ((path, Stamp(size, (time,))) for n, _, size, time in _core.list_folder(above(path)) if n == name)
        return
    for name, is_in, size, time in _core.list_folder(path):
        below = f"{path}/{name}"
        if is_in:
            yield from _objects(below)
        else:
            yield below, Stamp(size, (time,))


def stamp(path: str) -> Stamp | None:
    """Return the stamp of a file; None if it is gone."""
    if _core.is_mounted(path):
        return files(path).get(path) if is_file(path) else None
    try:
        about = Path(path).stat()
    except FileNotFoundError:
        return None
    return Stamp(about.st_size, (about.st_ino, about.st_mtime_ns, about.st_ctime_ns))


def sha256(path: str) -> str:
    """Return the SHA-256 of a file."""
    digest, start = hashlib.sha256(), 0
    while block := _core.read_range(path, start, _BLOCK):
        digest.update(block)
        start += len(block)
    return digest.hexdigest()
