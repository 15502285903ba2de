"""Work on several threads that stops as one, whose progress the caller's thread reports."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Progress = Callable[[str, int, int], object]

# Seconds between two reports.
_PAUSE = 0.1

T = TypeVar("T")


class SharedWork:
    """Bytes that threads work on, and the error that ends them all."""

    def __init__(self, phase: str, total: int, progress: Progress | None) -> None:
        self._phase, self._total, self._progress = phase, total, progress
        self._done = self._reported = 0
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        """Count bytes that are done."""
        if self._error is not None:
            raise CancelledError
        with self._lock:
            self._done += size

    def guarded(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function; its error ends the others."""
        try:
            return function(*arguments)
        except BaseException as error:
            self._stop(error)
            raise

    def results(self, futures: Sequence[Future[T]]) -> list[T]:
        """Wait for all, and report how far they are; the first error ends them and is raised."""
        pending = set(futures)
        try:
            while pending and self._error is None:
                _, pending = wait(pending, None if self._progress is None else _PAUSE, FIRST_EXCEPTION)
                self._report()
        except BaseException as error:  # noqa: BLE001 - raised when no thread works any more
            self._stop(error)
        for future in futures:
            future.cancel()
        wait(futures)
        if self._error is not None:
            raise self._error from None
        return [future.result() for future in futures]

    def _stop(self, error: BaseException) -> None:
        """Keep the first error, of which others may be the consequence."""
        with self._lock:
            self._error = self._error or error

    def _report(self) -> None:
        done = min(self._done, self._total)
        if self._progress is not None and done != self._reported:
            self._reported = done
            self._progress(self._phase, done, self._total)
