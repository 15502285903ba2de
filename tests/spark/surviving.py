"""A driver with a query into each kind of sink, which the test kills and restarts; its checkpoints survive.

``run`` continues until it is killed, ``finish`` reads what there is and ends. With a step, such as ``begin:after``, the
driver is killed by its sink into a log, at that step of the next batch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark 4.0 passes no trigger limits to a Python data source, and no Arrow batches to a streaming sink.
LIMIT = {"maxOffsetsPerTrigger": "100"}


def die_at(step: str, group: int) -> None:
    """Replace a step of the commit by the death of a process group, before or after it."""
    from kafkalog.spark import append_job, commit

    name, when = step.split(":")
    owners: dict[str, Any] = {"begin": append_job.Job, "get": commit._Writers, "_append": commit}
    owners |= {"close": commit._Writers, "commit": append_job.Job, "_finish": append_job.Job}
    real = getattr(owners[name], name)

    def die(*args: Any, **given: Any) -> None:
        if when == "after":
            real(*args, **given)
        os.killpg(group, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owners[name], name, die)


def dying_sink(step: str) -> Any:
    """Create a data source with our sink, which kills its driver before or after a step of the commit."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter

    # The driver, the JVM and the process that commits, which Spark starts without a group of its own.
    group = os.getpgid(0)

    class DyingWriter(DataSourceStreamArrowWriter):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def write(self, iterator: Any) -> Any:
            return self.inner.write(iterator)

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            die_at(step, group)
            self.inner.commit(messages, batchId)

        def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
            self.inner.abort(messages, batchId)

    class DyingSink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002, N802, FBT001
            from kafkalog.spark.sink import make_stream_writer

            return DyingWriter(make_stream_writer(self.options, schema))

    return DyingSink


def start(spark: SparkSession, folder: Path, trigger: dict[str, Any], step: str) -> list[Any]:
    """Start a query into a folder of files, one into Parquet and one into another log."""
    import pyspark

    major, minor = (int(word) for word in pyspark.__version__.split(".")[:2])
    reader = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
    reader = reader.options(**LIMIT) if (major, minor) >= (4, 2) else reader
    values = reader.load(str(folder / "logs")).select("value")

    def keep(batch: DataFrame, number: int) -> None:
        file = folder / "each" / f"{number}.json"
        file.with_suffix(".tmp").write_text(json.dumps([bytes(row[0]).decode() for row in batch.collect()]))
        file.with_suffix(".tmp").replace(file)

    (folder / "each").mkdir(exist_ok=True)
    writers = {
        "each": values.writeStream.foreachBatch(keep),
        "parquet": values.writeStream.format("parquet").option("path", str(folder / "parquet")),
    }
    if (major, minor) >= (4, 1):
        if step:
            spark.dataSource.register(dying_sink(step))
        log = (
            values.writeStream.format("dying" if step else "kafkalog").option("topic", "copy").option("partitions", "3")
        )
        writers["log"] = log.option("path", str(folder / "log"))
    return [
        writer.option("checkpointLocation", str(folder / "checkpoints" / name)).trigger(**trigger).start()
        for name, writer in writers.items()
    ]


def main(what: str, folder: Path, step: str = "") -> None:
    """Run the queries."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    trigger: dict[str, Any] = {"processingTime": "0 seconds"} if what == "run" else {"availableNow": True}
    queries = start(spark, folder, trigger, step)
    if what == "run":
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()
        assert query.exception() is None, query.exception()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
