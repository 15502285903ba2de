"""Progress of a command: a line on stderr that changes, if that is a terminal."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds between two looks.
_PAUSE = 0.5


class Shown:
    """Shows a line while something else is done, and takes it away afterwards."""

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if sys.stderr.isatty() else None

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self) -> None:
        while not self._over.wait(_PAUSE):
            if line := self._line():
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def written(source: str, out: str) -> Shown:
    """Show how many bytes of logs a command has in its output, beside those of its source."""
    total = _logs_below(Path(source)) if sys.stderr.isatty() else 0

    def line() -> str:
        size = _logs_below(Path(out))
        return f"{size / 1e9:.1f} GB written, from a source of {total / 1e9:.1f} GB" if size else ""

    return Shown(line)


def _logs_below(path: Path) -> int:
    """Return the bytes of the ``.log`` files below a folder, those that are not finished too."""
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            if ".log" in name:
                try:
                    size += Path(folder, name).stat().st_size
                except FileNotFoundError:
                    continue
    return size
