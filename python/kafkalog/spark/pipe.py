"""The file through which a task's batches go to the JVM.

Spark's serializer writes into a buffer of 64 KiB, which the short columns at a batch's end do not fill: they would
stay there until the next batch is decoded, and the JVM would wait for them. A generator that flushes when it is asked
for the next one lets the JVM work meanwhile (a unix socket, values of 1 KB, a core idle: 1.0 of the ceiling instead
of 1.8).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["flush_of_pipe"]

# ``ArrowStreamSerializer`` and those derived from it, Spark 3.5 to 4.3: the file is nobody else's to be asked for.
METHOD, FILE = "dump_stream", "stream"


def flush_of_pipe() -> Callable[[], object]:
    """Find what flushes the file into which a serializer up the stack writes batches.

    Returns
    -------
    callable
        Does nothing where nobody up the stack does: outside a worker, or in another thread.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == METHOD:
            flush = getattr(frame.f_locals.get(FILE), "flush", None)
            if callable(flush):
                found: Callable[[], object] = flush
                return found
        frame = frame.f_back
    return lambda: None
