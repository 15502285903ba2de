"""Job for the cluster: every way to read, a stream, writes, and workers that are killed; the answers as JSON.

Submitted with the shipped environment; takes the log dir to read and a folder to write below.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

# a script's folder is on the driver's path
from growing import Growing  # type: ignore[import-not-found]
from killing import data_source, killing, map_in_arrow  # type: ignore[import-not-found]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "topic,partition,offset"


def rows_of(frame: DataFrame) -> list[list[Any]]:
    """Collect topic, partition and offset of each record."""
    return [list(row) for row in frame.select(*COLUMNS.split(",")).collect()]


def places(spark: SparkSession, data: str) -> list[tuple[str, str]]:
    """Return where the tasks ran, and which kafkalog they imported."""
    import pyarrow as pa

    import kafkalog.spark

    def here(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        import kafkalog

        for _ in kafkalog.spark.read_splits(batches):
            pass
        # long enough for the other executor to get tasks too
        time.sleep(0.5)
        row = {"cwd": [str(Path.cwd())], "module": [str(kafkalog.__file__)]}
        yield pa.RecordBatch.from_pydict(row)

    splits = kafkalog.spark.plan(spark, data, splitBytes="20k")
    return [(row[0], row[1]) for row in splits.mapInArrow(here, "cwd string, module string").collect()]


def stream(spark: SparkSession, data: str, out: Path) -> list[list[list[Any]]]:
    """Read a log in two runs of one query, and write it to another log; the log rolls between them."""
    orders = Growing(Path(data) / "orders-0", out / "grown" / "orders-0")
    batches: list[list[list[Any]]] = []
    reader = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
    source = reader.option("maxOffsetsPerTrigger", "200").load(str(out / "grown"))
    for end in (300, 10_000):
        orders.grow(end)
        keep = source.writeStream.foreachBatch(lambda batch, _: batches.append(rows_of(batch)))
        copy = source.select("key", "value", "timestamp").writeStream.format("kafkalog")
        copy = copy.option("topic", "copy").option("path", str(out / "copied"))
        for name, writer in (("kept", keep), ("copy", copy)):
            checkpoint = writer.option("checkpointLocation", str(out / f"checkpoint-{name}"))
            checkpoint.trigger(availableNow=True).start().awaitTermination(120)
    return batches


def write(spark: SparkSession, data: str, out: Path) -> None:
    """Write the rows of a read to a log dir; a task dies meanwhile."""
    import kafkalog.spark

    options: dict[str, Any] = {"columns": "key,value,timestamp", "subscribe": "orders", "splitBytes": "20k"}
    kill = killing("write", out / "marks")
    # so that the task dies between batches
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    frame = kafkalog.spark.read(spark, data, **options)
    dying = frame.mapInArrow(kill, frame.schema)
    dying.write.format("kafkalog").option("topic", "written").option("partitions", 2).mode("append").save(
        str(out / "written")
    )


def slow_once(marks: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Create a function that waits in the first attempt of the first task until Spark has started another attempt."""

    def dawdle(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if context.partitionId() == 0 and number == 1:
                (marks / f"{context.attemptNumber()}").touch()
                deadline = time.monotonic() + (60 if context.attemptNumber() == 0 else 0)
                while time.monotonic() < deadline and not (marks / "1").exists():
                    time.sleep(0.1)
                # the later attempt ends first
                time.sleep(2 if context.attemptNumber() == 0 else 0)
            yield batch

    return dawdle


def speculate(spark: SparkSession, data: str, out: Path) -> dict[str, list[list[Any]]]:
    """Read, write and count while a task runs in two attempts at the same time."""
    import kafkalog.spark

    options: dict[str, Any] = {"columns": COLUMNS, "subscribe": "orders", "splitBytes": "20k", "batchRows": 20}
    found: dict[str, list[list[Any]]] = {}
    for what in ("read", "write"):
        marks = out / "attempts" / what
        marks.mkdir(parents=True)
        frame = kafkalog.spark.read(spark, data, **options)
        slow = frame.mapInArrow(slow_once(marks), frame.schema)
        if what == "read":
            found[what] = rows_of(slow)
            continue
        values = slow.selectExpr("cast(offset as string) value", "partition")
        values.write.format("kafkalog").option("topic", "orders").mode("append").save(str(out / "speculated"))
    return found


def main(data: str, folder: str) -> None:
    """Run everything in one application."""
    from pyspark.sql import SparkSession

    import kafkalog
    import kafkalog.spark

    out = Path(folder)
    (out / "marks").mkdir(parents=True)
    builder = SparkSession.builder.appName("kafkalog on a cluster")
    speculation = {"": "true", ".interval": "100ms", ".multiplier": "1.1", ".quantile": "0.5", ".minTaskRuntime": "2s"}
    for name, value in speculation.items():
        builder = builder.config(f"spark.speculation{name}", value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, Any] = {"driver": kafkalog.__file__, "places": places(spark, data)}
    found["mapInArrow"] = rows_of(kafkalog.spark.read(spark, data, columns=COLUMNS, splitBytes="20k"))
    found["dataSource"] = rows_of(spark.read.format("kafkalog").option("splitBytes", "20k").load(data))
    found["count"] = kafkalog.spark.count(spark, data)
    found["stream"] = stream(spark, data, out)
    write(spark, data, out)
    found["speculated"] = speculate(spark, data, out)
    found["attempts"] = {
        folder.name: sorted(mark.name for mark in folder.iterdir()) for folder in (out / "attempts").iterdir()
    }
    orders = os.fspath(Path(data) / "orders-0")
    found["killed"] = {
        "mapInArrow": map_in_arrow(spark, orders, killing("mapInArrow", out / "marks")),
        "dataSource": data_source(spark, orders, killing("dataSource", out / "marks")),
        "executor": map_in_arrow(spark, orders, killing("executor", out / "marks", executor=True)),
    }
    found["marks"] = sorted(mark.name for mark in (out / "marks").iterdir())
    spark.stop()
    (out / "answers.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
