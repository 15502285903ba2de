"""Kafka's on-disk logs as Spark DataFrames, without a broker.

Two ways give the same rows: ``read`` here (Spark 3.5 and newer) is the faster one, ``format("kafkalog")`` (Spark 4.0
and newer) works from SQL, as a stream and for writing too. Spark asks no source for fewer columns: name those you
need, in ``columns`` or in the schema. ``count``, ``export`` and ``read`` with a ``transform`` send the JVM no record.

What helps on a cluster:

* Executors see the log dirs under the driver's paths, and their Python has kafkalog: installed there, or shipped as an
  archive (``--archives env.tar.gz#environment`` with ``spark.sql.execution.pyspark.python=./environment/bin/python``;
  ``--py-files`` cannot carry a compiled module).
* ``spark.python.unix.domain.socket.enabled=true`` (Spark 4.1) where all cores are busy: up to 1.6 times the rows.
  ``-Darrow.enable_unsafe_memory_access=true`` in ``spark.executor.extraJavaOptions``: 1.1 to 1.2 times, as Arrow's Java
  then checks no bounds at each value, whoever uses it in that JVM.
* ``splitBytes`` sets the log bytes of a task; by default all slots get equal shares of 32 to 256 MiB.
* ``decodeAhead=true`` gives a task a second thread, for the next batch, but where an allowance of memory has no room
  for it. Where ``spark.executor.pyspark.memory`` is set, 512 MiB for every core are enough.
* ``read(..., metrics=totals(spark))`` sums up what the tasks read and passed over, and ``export`` returns that. Spark
  gives the tasks of a Python data source no way to count (no version to 4.3 has one): there, each task logs it.

Importing this imports neither pyspark nor pyarrow, and little of kafkalog: every task's worker does it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kafkalog.spark.map_in_arrow import count, read, read_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog.spark.columns import schema
    from kafkalog.spark.exporting import export
    from kafkalog.spark.planning import plan
    from kafkalog.spark.summing import totals

__all__ = ["count", "export", "plan", "read", "read_splits", "register", "schema", "totals"]

# What only the driver needs.
_HOMES = {"export": "exporting", "plan": "planning", "schema": "columns", "totals": "summing"}


def __getattr__(name: str) -> object:
    """Import what only the driver needs when it is first asked for."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"kafkalog.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: SparkSession) -> None:
    """Make ``format("kafkalog")`` known to a session that did not find it by itself.

    Parameters
    ----------
    spark : SparkSession
        A session of Spark 4.0 or newer; Spark 3.5 has ``read`` only.

    Raises
    ------
    ImportError
        When this Spark has no Python data sources.
    """
    try:
        from pyspark_kafkalog import DefaultSource
    except ImportError as error:
        raise ImportError("this Spark has no Python data sources (4.0 has); kafkalog.spark.read works") from error
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as error:
        # Spark 4.0 does not replace a source that it found by itself.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise
