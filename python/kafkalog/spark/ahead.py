"""One batch ahead: the next one is decoded while Spark's worker sends the one before.

Both release the interpreter, so they overlap where a core is idle. Handing over takes 20 to 28 us a batch, and the
batch has left the sending core's cache by then; where each is sent to its end (``pipe``), the JVM has work meanwhile
anyway. So only for those who ask.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["ahead", "has_room"]

# Address space that a thread may take: its stack, an arena of the allocator (64 MiB, and as much to align it), a batch.
ROOM = 256 << 20

T = TypeVar("T")


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


def ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
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
