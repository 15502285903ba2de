"""Jobs whose workers are killed; as a script, both ways of reading and a write on a local master, the offsets as JSON.

Functions and classes of a function's own travel to the workers by value.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

OPTIONS: dict[str, Any] = {"splitBytes": "20k", "batchRows": "10", "columns": "offset"}


def killing(name: str, marks: Path, *, executor: bool = False) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Create a function that dies after the second batch of the second task, in its first attempt.

    It leaves a mark of the name. What dies is the Python worker, or the executor around it.
    """

    def victim() -> int:
        """Return the process of the executor: the parent of the daemon that is the worker's parent."""
        if not executor:
            return os.getpid()
        status = Path(f"/proc/{os.getppid()}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:"))

    def kill(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 2 and context.partitionId() == 1 and not (marks / name).exists():
                (marks / name).write_text("killed")
                os.kill(victim(), signal.SIGKILL)
            yield batch

    return kill


def map_in_arrow(spark: SparkSession, path: str, kill: Callable[[Iterator[Any]], Iterator[Any]]) -> list[int]:
    """Read offsets with ``mapInArrow``."""
    import kafkalog.spark

    def read_splits(batches: Iterable[Any]) -> Iterator[Any]:
        return kill(kafkalog.spark.read_splits(batches))

    splits = kafkalog.spark.plan(spark, path, **OPTIONS)
    return [row[0] for row in splits.mapInArrow(read_splits, kafkalog.spark.schema(["offset"])).collect()]


def data_source(spark: SparkSession, path: str, kill: Callable[[Iterator[Any]], Iterator[Any]]) -> list[int]:
    """Read offsets with a data source that wraps ours."""
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class KillingReader(DataSourceReader):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def partitions(self) -> Any:
            return self.inner.partitions()

        def read(self, partition: Any) -> Iterator[Any]:
            return kill(self.inner.read(partition))

    class Killing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "killing"

        def schema(self) -> str:
            from kafkalog.spark.data_source import source_schema

            return source_schema(self.options)

        def reader(self, schema: Any) -> DataSourceReader:
            from kafkalog.spark.data_source import make_reader

            return KillingReader(make_reader(self.options, schema))

    spark.dataSource.register(Killing)
    return [row[0] for row in spark.read.format("killing").options(**OPTIONS).load(path).collect()]


def write(spark: SparkSession, path: str, target: Path, kill: Callable[[Iterator[Any]], Iterator[Any]]) -> list[int]:
    """Write offsets with a data source that wraps ours and whose worker dies in its file, and read them back."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter

    import kafkalog.spark

    class KillingWriter(DataSourceArrowWriter):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def write(self, iterator: Any) -> Any:
            return self.inner.write(kill(iterator))

        def commit(self, messages: Any) -> None:
            self.inner.commit(messages)

        def abort(self, messages: Any) -> None:
            self.inner.abort(messages)

    class KillingSink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "killing_sink"

        def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001
            from kafkalog.spark.sink import make_writer

            return KillingWriter(make_writer(self.options, schema, overwrite=overwrite))

    spark.dataSource.register(KillingSink)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    frame = kafkalog.spark.read(spark, path, **OPTIONS).selectExpr("cast(offset as string) value", "0 partition")
    frame.write.format("killing_sink").option("topic", "t").mode("append").save(str(target))
    return [int(row[0]) for row in kafkalog.spark.read(spark, str(target), columns="value").collect()]


def sockets(spark: SparkSession) -> str:
    """Return the setting of unix sockets that workers see."""

    def told(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"told": [os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "")]})

    (row,) = spark.range(1).mapInArrow(told, "told string").collect()
    return str(row[0])


def main(path: str, options: str) -> None:
    """Read both ways and write, killing a worker of each, in a JVM with these options."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.driver.extraJavaOptions", options)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    marks = Path(tempfile.mkdtemp())
    mapped = map_in_arrow(spark, path, killing("mapInArrow", marks))
    found: dict[str, Any] = {"mapInArrow": mapped}
    # from Spark 4.0 on
    if importlib.util.find_spec("pyspark.sql.datasource") is not None:
        found["dataSource"] = data_source(spark, path, killing("dataSource", marks))
        found["write"] = write(spark, path, marks / "data", killing("write", marks))
        left = [file.name for file in marks.glob("data/.kafkalog*")]
        assert not left, left
    kills = sorted(mark.name for mark in marks.iterdir() if mark.is_file())
    arrow: Any = spark._jvm.org.apache.arrow  # type: ignore[union-attr]
    checks = [
        arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED,
        arrow.vector.NullCheckingForGet.NULL_CHECKING_ENABLED,
    ]
    transport = {"sockets": sockets(spark), "checks": checks, "spark": spark.version}
    print(json.dumps({"found": found, "kills": kills, **transport}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
