"""Objects of a tier: in a folder of a disk, or in whatever else lists and reads as this does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalog.storage._failures import patiently

if TYPE_CHECKING:
    from kafkalog.storage import Storage

__all__ = ["FolderStore", "ObjectInfo", "ObjectStore", "StorePart", "store_of"]


class ObjectInfo(NamedTuple):
    """One object.

    Attributes
    ----------
    key : str
        Its whole key, below the root of the store.
    size : int
        Its length in bytes.
    modified : int
        When it was last modified, in milliseconds since the epoch.
    version : str or None
        Text that changes with its content, if the store has one.
    """

    key: str
    size: int
    modified: int = 0
    version: str | None = None


class ObjectStore(Protocol):
    """A store that lists and reads objects, as those of ``kafkalog.storage`` do."""

    def path(self, key: str) -> str:
        """Return what messages call an object."""

    def list(self, prefix: str, recursive: bool) -> tuple[list[ObjectInfo], list[str], int]:  # noqa: FBT001
        """Return the objects below a prefix that is empty or ends with a slash, folders not entered, and requests."""

    def stat(self, key: str) -> ObjectInfo | None:
        """Return an object, or None if there is none."""

    def read(self, key: str, start: int, length: int, size: int, version: str | None) -> bytes:
        """Return a range of an object that has this size and version."""


class StorePart:
    """The objects below a place in a store, by the rest of their keys. What may pass is tried again.

    Parameters
    ----------
    place : Storage
        The place.
    """

    def __init__(self, place: Storage) -> None:
        self._place = place
        key = place.key
        self._before = f"{key}/" if key else ""

    def path(self, key: str) -> str:
        """Return the URL of a key."""
        return f"{self._place.url}/{key}"

    def list(self, prefix: str, recursive: bool) -> tuple[list[ObjectInfo], list[str], int]:  # noqa: FBT001
        """Return the objects below a prefix, folders that were not entered, and requests."""
        objects, folders, requests = patiently(lambda: self._place.list(self._before + prefix, recursive))
        cut = len(self._before)
        found = [ObjectInfo(key[cut:], size, at, version) for key, size, at, version in objects]
        return found, [each[cut:] for each in folders], requests

    def stat(self, key: str) -> ObjectInfo | None:
        """Return an object, or None if there is none."""
        found = patiently(lambda: self._place.stat(self._before + key))
        return None if found is None else ObjectInfo(key, *found[1:])

    def read(self, key: str, start: int, length: int, size: int, version: str | None) -> bytes:
        """Return a range of an object."""
        return patiently(lambda: bytes(self._place.read(self._before + key, start, length, size, version)))


class FolderStore:
    """The files below a folder of a disk.

    Parameters
    ----------
    root : str
        The folder.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"FolderStore({self.root!r})"

    def path(self, key: str) -> str:
        """Return the path of a key."""
        return os.path.join(self.root, key)  # noqa: PTH118 - keys have slashes of their own

    def list(self, prefix: str, recursive: bool) -> tuple[list[ObjectInfo], list[str], int]:  # noqa: FBT001
        """Return the files below a prefix, folders that were not entered, and no request."""
        objects: list[ObjectInfo] = []
        folders: list[str] = []
        pending = [prefix]
        while pending:
            at = pending.pop()
            if not Path(self.path(at)).is_dir() and at:
                continue
            with os.scandir(self.path(at)) as entries:
                for entry in entries:
                    key = f"{at}{entry.name}"
                    if entry.is_dir():
                        if recursive:
                            pending.append(f"{key}/")
                        else:
                            folders.append(key)
                    elif entry.is_file():
                        about = entry.stat()
                        objects.append(ObjectInfo(key, about.st_size, about.st_mtime_ns // 1_000_000))
        return objects, folders, 0

    def stat(self, key: str) -> ObjectInfo | None:
        """Return a file, or None if there is none."""
        try:
            about = Path(self.path(key)).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return ObjectInfo(key, about.st_size, about.st_mtime_ns // 1_000_000)

    def read(self, key: str, start: int, length: int, size: int, version: str | None) -> bytes:  # noqa: ARG002
        """Return a range of a file; less where the file ends before."""
        with Path(self.path(key)).open("rb", buffering=0) as file:
            file.seek(start)
            parts = []
            while length > 0 and (part := file.read(length)):
                parts.append(part)
                length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def store_of(path: str) -> ObjectStore:
    """Return what reads a folder: on a disk, or in a mounted store."""
    from kafkalog import _core, storage

    return StorePart(storage.open_storage(path)) if _core.is_mounted(path) else FolderStore(path)
