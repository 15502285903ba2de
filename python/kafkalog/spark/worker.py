"""The process in which tasks run, one after the other: what it collects, and what is heard of it.

Spark's daemon has a worker collect all garbage after each task, before it takes the next one (``gc.collect()`` in
``pyspark/daemon.py``). That looks at every object of every module imported by then: with pyarrow and pandas 20 of the
24 ms that an empty task takes from its slot. What is imported is no garbage, so it is put where nobody looks for some.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from functools import cache

__all__ = ["settle", "tell"]

DAEMON = "pyspark.daemon"
# Spark 4.1 sets it where it keeps what workers log (``pyspark/logger/worker_io.py``).
KEPT = "PYSPARK_SPARK_SESSION_UUID"


@cache
def settle() -> None:
    """Put what is there at the end of a worker's first task beyond the collector, once; elsewhere do nothing."""
    # To ask the collector whether it was done is to have it count all that: 1 % of a long read.
    if _is_worker():
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    # Workers are forked from the module that was run.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == DAEMON


def tell(log: logging.Logger, text: str, *values: object) -> None:
    """Log a line that Spark is to keep: its handler takes all, but nobody asks Python for more than warnings."""
    if log.level == logging.NOTSET and os.environ.get(KEPT):
        log.setLevel(logging.INFO)
    log.info(text, *values)
