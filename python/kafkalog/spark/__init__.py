"""Kafka's on-disk logs as Spark DataFrames, without a broker.

There are two ways, which return the same rows: ``read`` (Spark 3.5 and newer) is the faster one;
``format("kafkalog")`` (Spark 4.0 and newer) also works from SQL, as a stream and for writing. Spark does not tell a
source which columns a query needs: name them in ``columns`` or in the schema. ``count``, ``export`` and ``read`` with a
``transform`` send no record to the JVM.

On a cluster:

* Executors must see the log dirs under the driver's paths, and their Python must have kafkalog: installed, or shipped
  as an archive (``--archives env.tar.gz#environment`` with
  ``spark.sql.execution.pyspark.python=./environment/bin/python``; ``--py-files`` cannot carry a compiled module).
* ``spark.python.unix.domain.socket.enabled=true`` (Spark 4.1) gives up to 1.6 times the rows where all cores are busy.
  ``-Darrow.enable_unsafe_memory_access=true`` in ``spark.executor.extraJavaOptions`` gives 1.1 to 1.2 times the rows:
  Arrow's Java then checks no bounds, for any user of Arrow in that JVM.
* ``splitBytes`` sets the log bytes of a task, by default 128 MiB, as Spark reads its own files.
* With ``spark.executor.pyspark.memory``, 512 MiB for each core are enough.
* ``read(..., metrics=totals(spark))`` sums up what the tasks read and skipped; ``export`` returns the same. Up to Spark
  4.3, tasks of a Python data source have no metrics: there, each task logs them.
* ``KAFKALOG_SPARK_INTERNALS=0`` in the environment of driver and executors (``spark.executorEnv``) turns off all that
  relies on undocumented behaviour of PySpark (``kafkalog.spark.pyspark_private``). The rows are the same, some reads
  slower.

Importing this imports neither pyspark nor pyarrow, and little of kafkalog: the worker of every task does it.
"""

# The modules, by job:
#   options   option_names, option_values, topics, predicates, source_options
#   plan      offset_ranges, split, planner
#   read      map_in_arrow, data_source (format), read_split, transform, metrics, remote (Connect)
#   stream    stream_reader, stream_offsets
#   write     sink, row_partitioner, commit, append_job
#   export    exporter
#   rewrite   rewriter
#   shared    columns, pyspark_private, interpreter

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kafkalog.spark.map_in_arrow import count, read, read_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkalog.spark.columns import schema
    from kafkalog.spark.exporter import export
    from kafkalog.spark.metrics import totals
    from kafkalog.spark.planner import plan
    from kafkalog.spark.rewriter import rewrite

__all__ = ["count", "export", "plan", "read", "read_splits", "register", "rewrite", "schema", "totals"]

# What only the driver needs. No module has the name of a function: it would replace the function on this package.
_HOMES = {"export": "exporter", "plan": "planner", "rewrite": "rewriter", "schema": "columns", "totals": "metrics"}


def __getattr__(name: str) -> object:
    """Import what only the driver needs when it is first used."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"kafkalog.spark.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register(spark: SparkSession) -> None:
    """Register ``format("kafkalog")`` in a session that did not discover it.

    Parameters
    ----------
    spark : SparkSession
        A session of Spark 4.0 or newer; Spark 3.5 has :func:`read` only.

    Raises
    ------
    ImportError
        If this Spark has no Python data sources, or the Python of a local session's workers has no kafkalog.
    """
    from kafkalog.spark.interpreter import check_interpreter

    check_interpreter(spark)
    try:
        from pyspark_kafkalog import DefaultSource
    except ImportError as error:
        raise ImportError(
            'format("kafkalog") needs Spark 4.0, which has Python data sources; use kafkalog.spark.read'
        ) from error
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(DefaultSource)
    except AnalysisException as error:
        # Spark 4.0 does not replace a source that it discovered.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
