"""As a script: every way to read, and a write, by a client of Spark Connect; the offsets as JSON.

Takes the log dir to read and a folder to write below.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

COLUMNS = "topic,offset"


def offsets(frame: DataFrame) -> list[int]:
    return [row["offset"] for row in frame.collect()]


def evens(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    numbers: list[Any] = batch.column("offset").to_pylist()
    kept = [n for n in numbers if n % 2 == 0]
    return pa.RecordBatch.from_pydict({"offset": pa.array(kept, pa.int64())})


def _unreadable(*_: Any) -> Any:
    raise AssertionError("planned by the client")


def main(data: str, folder: str) -> None:
    """Run everything on one server, which this process starts."""
    from pyspark.sql import SparkSession

    import kafkalog.spark
    from kafkalog.spark import planner

    out = Path(folder)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # The server would choose its address itself, possibly one that cannot be reached.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder: Any = SparkSession.builder
    spark = builder.remote("local[2]").getOrCreate()
    options: dict[str, Any] = {"subscribe": "orders", "splitBytes": "20k"}
    found: dict[str, Any] = {"session": type(spark).__module__}
    found["splits"] = kafkalog.spark.plan(spark, data, **options).count()
    found["read"] = offsets(kafkalog.spark.read(spark, data, columns=COLUMNS, **options))
    even = kafkalog.spark.read(spark, data, columns="offset", transform=evens, schema="offset bigint", **options)
    found["transform"] = offsets(even)
    # The client does not look at the files.
    planner.plan_splits = _unreadable  # type: ignore[assignment]
    found["count"] = kafkalog.spark.count(spark, data, **options)
    where = [("offset", "<", 100), ("topic", "in", ["orders", "none"])]
    found["where"] = offsets(kafkalog.spark.read(spark, data, columns=["offset"], topics=["orders"], where=where))
    importlib.reload(planner)
    found["export"] = kafkalog.spark.export(spark, data, out / "exported", **options)["rows"]
    kafkalog.spark.register(spark)
    source = spark.read.format("kafkalog").options(**options).load(data)
    found["dataSource"] = offsets(source)
    source.select("value").write.format("kafkalog").option("topic", "t").mode("append").save(str(out / "written"))
    reader = spark.readStream.format("kafkalog").options(**options).option("startingOffsets", "earliest")
    writer = reader.load(data).select("offset").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True)
    writer.start(str(out / "streamed")).awaitTermination(120)
    found["stream"] = sorted(offsets(spark.read.parquet(str(out / "streamed"))))
    sink = reader.load(data).select("value").writeStream.format("kafkalog").trigger(availableNow=True)
    sink.options(topic="s", path=str(out / "sunk"), checkpointLocation=str(out / "sinking")).start().awaitTermination(
        120
    )
    spark.sql(f"create temporary view logs using kafkalog options (path '{data}', subscribe 'orders')")
    found["view"] = offsets(spark.sql("select offset from logs"))
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
