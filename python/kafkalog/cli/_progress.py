"""Progress of a command, if stderr is a terminal: a line that changes."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TextIO

    from kafkalog.reader import RecordReader

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


@contextmanager
def on_terminal() -> Iterator[Callable[[str, int, int], object] | None]:
    """Give a function for ``progress=`` that shows how far a command is; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return

    def show(phase: str, done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        print(f"\r{percent:3d}% of {total / 1e9:.1f} GB {phase}\x1b[K", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


class Progress:
    """A progress bar on stderr if that is a terminal, and nothing otherwise."""

    _WIDTH = 30

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total, self._before = max(total, 1), 0
        self._shown = self._stream.isatty()
        self._begun = self._last = time.monotonic()

    def watched(self, reader: RecordReader) -> Iterator[Any]:
        """Yield the reader's batches, and show the progress."""
        for batch in reader:
            yield batch
            self.show_read(reader.metrics.get("bytes", 0))

    def finished(self, reader: RecordReader) -> None:
        """Add the bytes of a finished reader."""
        self._before += reader.metrics.get("bytes", 0)

    def begin(self, before: int) -> None:
        """Set the bytes that were read before the next source."""
        self._before = before

    def show_read(self, read: int) -> None:
        """Show the number of bytes read from this source."""
        self.show(self._before + read)

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def show(self, done: int) -> None:
        """Show the number of bytes done."""
        now = time.monotonic()
        if not self._shown or now - self._last < 0.1:  # noqa: PLR2004 - ten times a second is enough for an eye
            return
        self._last = now
        part = min(done / self._total, 1.0)
        bar = ("#" * int(part * self._WIDTH)).ljust(self._WIDTH, ".")
        rate = done / 1e6 / max(now - self._begun, 1e-9)
        self._stream.write(
            f"\r[{bar}] {part:4.0%} {done / 1e6:.0f} of {self._total / 1e6:.0f} MB, {rate:.0f} MB/s\x1b[K"
        )
        self._stream.flush()
