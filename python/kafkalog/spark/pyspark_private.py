"""Everything here that relies on undocumented behaviour of PySpark, behind one switch.

The environment variable ``KAFKALOG_SPARK_INTERNALS=0`` turns all of it off; set it for the driver, and for executors
with ``spark.executorEnv.KAFKALOG_SPARK_INTERNALS=0``. Then, and wherever a PySpark lacks what is looked for, reads and
writes give the same rows through PySpark's public interfaces alone, but

* a batch may wait in the worker's output buffer until the next one is decoded,
* each task's garbage collection visits every imported object,
* filters are evaluated by Spark, not pushed down,
* what tasks log below WARNING does not reach the worker log that Spark keeps,
* batches of ``transform`` are passed to Spark unchecked.
"""

from __future__ import annotations

import gc
import inspect
import logging
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql.types import StructType

SWITCH = "KAFKALOG_SPARK_INTERNALS"

# ``ArrowStreamSerializer`` and its subclasses, Spark 3.5 to 4.3: the output file is a local variable of this method.
_PACKAGE, _METHOD, _FILE = "pyspark.", "dump_stream", "stream"
# The module that workers are forked from.
_DAEMON = "pyspark.daemon"
# The planner process that pushes filters is the only process that has loaded this module.
_FILTER_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"
# Set where Spark 4.1 and newer keep what workers log (``pyspark/logger/worker_io.py``).
_KEPT_LOG = "PYSPARK_SPARK_SESSION_UUID"


def enabled() -> bool:
    """Tell whether the switch is on, as it is by default."""
    return os.environ.get(SWITCH, "1").strip().lower() not in {"0", "false"}


def batch_flusher() -> Callable[[], object]:
    """Find the function that flushes the file through which this task sends batches to the JVM.

    Spark's serializer writes into a buffer of 64 KiB. The short columns at the end of a batch do not fill it: they stay
    there until the next batch is decoded, and the JVM waits for them. A flush before that lets the JVM work meanwhile
    (unix socket, values of 1 KB, an idle core: 1.0 of the ceiling instead of 1.8).
    """
    frame = inspect.currentframe() if enabled() else None
    while frame is not None:
        if frame.f_code.co_name == _METHOD and str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
            flush = getattr(frame.f_locals.get(_FILE), "flush", None)
            if callable(flush):
                found: Callable[[], object] = flush
                return found
        frame = frame.f_back
    return lambda: None


@cache
def freeze_imports() -> None:
    """Exempt what exists at the end of a worker's first task from garbage collection; outside a worker do nothing.

    Spark's daemon collects garbage after each task, before the worker takes the next one (``gc.collect()`` in
    ``pyspark/daemon.py``). That visits every object of every imported module: with pyarrow and pandas, 20 of the 24 ms
    that an empty task takes. Modules are not garbage.
    """
    # Cached: to ask the collector for its count of frozen objects takes 1 % of a long read.
    if enabled() and _is_worker():
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    specification = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(specification, "name", None) == _DAEMON


def is_pushing_filters() -> bool:
    """Tell whether this is the planner process that pushes filters.

    Spark refuses every read of a reader that has ``pushFilters`` unless ``spark.sql.python.filterPushdown.enabled`` is
    set, and a reader cannot ask for that setting.
    """
    return enabled() and _FILTER_PUSHDOWN in sys.modules


def log_info(log: logging.Logger, text: str, *values: object) -> None:
    """Log a line that Spark should keep: its handler takes every level, but loggers start at WARNING."""
    if log.level == logging.NOTSET and os.environ.get(_KEPT_LOG) and enabled():
        log.setLevel(logging.INFO)
    log.info(text, *values)


def spark_arrow_schema(schema: StructType) -> pa.Schema | None:
    """Return the Arrow types that Spark uses for a schema, or None if PySpark does not expose them."""
    if not enabled():
        return None
    try:
        from pyspark.sql.pandas.types import to_arrow_schema
    except ImportError:
        return None
    signature = inspect.signature(to_arrow_schema)
    # Before Spark 4.2 it is always this one.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature.parameters else {}
    try:
        signature.bind(schema, **zone)
    except TypeError:
        return None
    found: pa.Schema = to_arrow_schema(schema, **zone)
    return found
