"""Questions about a path that may be in a mounted store, and the paths beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog import _core

if TYPE_CHECKING:
    from collections.abc import Iterable


def exists(path: str) -> bool:
    """Report whether there is a file or folder."""
    return _core.path_kind(path) is not None if _core.is_mounted(path) else Path(path).exists()


def is_file(path: str) -> bool:
    """Report whether it is a file."""
    return _core.path_kind(path) == "file" if _core.is_mounted(path) else Path(path).is_file()


def is_folder(path: str) -> bool:
    """Report whether it is a folder."""
    return _core.path_kind(path) == "folder" if _core.is_mounted(path) else Path(path).is_dir()


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


def names(path: str) -> list[str]:
    """Return the names in a folder; none of one that cannot be listed."""
    try:
        if _core.is_mounted(path):
            return [name for name, *_ in _core.list_folder(path)]
        return os.listdir(path)  # noqa: PTH208 - a path of any bytes
    except OSError:
        return []
