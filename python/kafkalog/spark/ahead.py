"""One batch ahead: the next one is decoded while Spark's worker sends the one before.

Both release the interpreter, so they overlap where a core is idle. Where none is, handing over costs more than it saves
(1.2 of the pipe's ceiling, 1.1 without it). Nor does it save anything where the socket holds a batch, as TCP's does; a
unix socket does not, and the end of each batch stays in the worker's own buffer until the next one is there, for which
the JVM waits. So a task looks for itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

__all__ = ["ahead", "has_room", "where_idle"]

# Address space that a thread may take: its stack, an arena of the allocator (64 MiB, and as much to align it), a batch.
ROOM = 256 << 20
# Seconds in which a task sees whether cores are idle, and how much of one has to be.
LOOK, IDLE = 0.1, 0.5

T = TypeVar("T")


def where_idle(items: Generator[T, None, None]) -> Iterator[T]:
    """Run a generator in turn with whoever asks, and ahead from when that is seen to leave a core idle.

    Parameters
    ----------
    items : generator
        Closed when this one is.

    Yields
    ------
    T
        What the generator yields; what it raises is raised here.
    """
    idle = _idle_seconds() if _has_small_socket() and has_room() else None
    begun = time.monotonic()
    try:
        while idle is not None:
            item = next(items, None)
            if item is None:
                return
            yield item
            spent = time.monotonic() - begun
            if spent >= LOOK:
                is_idle = (_idle_seconds() or 0.0) - idle >= IDLE * spent
                idle = None
                if is_idle:
                    yield from ahead(items)
        yield from items
    finally:
        items.close()


def _has_small_socket() -> bool:
    """Tell whether this is a worker that sends over a unix socket, as Spark tells it."""
    return os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() == "true"


def _idle_seconds() -> float | None:
    """Give the time that cores of this machine were idle, all together, or None where nobody says."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
        return int(words[4]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def has_room() -> bool:
    """Tell whether this process may have another thread's memory.

    ``spark.executor.pyspark.memory`` limits a worker's address space, and who hits upon that limit is aborted.
    """
    if sys.platform == "win32":
        return True
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return True
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return False
    return limit - pages * resource.getpagesize() >= ROOM


def ahead(items: Generator[T, None, None]) -> Iterator[T]:
    """Run a generator in a thread of its own, one item ahead of whoever asks.

    Parameters
    ----------
    items : generator
        Closed when this one is, in its thread.

    Yields
    ------
    T
        What the generator yields; what it raises is raised here.
    """
    made: SimpleQueue[tuple[list[T], BaseException | None]] = SimpleQueue()
    # Permits to make an item: one is with the caller, one lies ready.
    room = threading.Semaphore(2)
    left = threading.Event()

    def make() -> None:
        try:
            while room.acquire() and not left.is_set():
                item = next(items, None)
                made.put(([] if item is None else [item], None))
                if item is None:
                    return
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asks
            made.put(([], error))
        finally:
            items.close()

    thread = threading.Thread(target=make, name="kafkalog-ahead", daemon=True)
    thread.start()
    try:
        while True:
            found, error = made.get()
            if error is not None:
                raise error
            if not found:
                return
            yield found.pop()
            room.release()
    finally:
        # A query with a limit leaves early; the file maps and the thread must not outlive the task.
        left.set()
        room.release()
        thread.join()
