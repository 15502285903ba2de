"""The process in which tasks run, one after the other.

Spark's daemon has a worker collect all garbage after each task, before it takes the next one (``gc.collect()`` in
``pyspark/daemon.py``). That looks at every object of every module imported by then: with pyarrow and pandas 20 of the
24 ms that an empty task takes from its slot. What is imported is no garbage, so it is put where nobody looks for some.
"""

from __future__ import annotations

import gc
import sys

__all__ = ["settle"]

DAEMON = "pyspark.daemon"


def settle() -> None:
    """Put what is there at the end of a worker's first task beyond the collector, once; elsewhere do nothing."""
    if gc.get_freeze_count() or not _is_worker():
        return
    gc.collect()
    gc.freeze()


def _is_worker() -> bool:
    # Workers are forked from the module that was run.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == DAEMON
