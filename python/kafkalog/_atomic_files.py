"""Small files that are whole or absent, also after a crash."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOTE_LIMIT = 64 << 20
"""The most that is read of a note of ours: the ends of 200,000 partitions."""


def regular(path: str, flags: int) -> int:
    """Open a regular file, an ``opener`` for ``open``: a pipe would block, a device may have no end."""
    opened = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.ESPIPE, "is not a regular file", path)
    return opened


def read_small(path: Path, limit: int = NOTE_LIMIT) -> str:
    """Read the text of a small file; one that is longer than its kind may be, or is not UTF-8, is a ValueError."""
    with open(path, "rb", opener=regular) as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise ValueError(f"{path}: file length: expected at most {limit} bytes, found more")
    return text.decode()


def replace(path: Path, text: str) -> None:
    """Make a text the content of a file, on the device when this returns. One process at a time may do so."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", opener=regular) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring the names in a folder to the device."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
