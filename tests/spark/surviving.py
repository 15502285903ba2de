"""A driver with a query into each kind of sink, which the test kills and restarts; its checkpoints survive.

``run`` goes on until it is killed, ``finish`` reads what there is and ends.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark 4.0 passes no trigger limits to a Python data source, and no Arrow batches to a streaming sink.
LIMIT = {"maxOffsetsPerTrigger": "100"}


def start(spark: SparkSession, folder: Path, trigger: dict[str, Any]) -> list[Any]:
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
        log = values.writeStream.format("kafkalog").option("topic", "copy").option("partitions", "3")
        writers["log"] = log.option("path", str(folder / "log"))
    return [
        writer.option("checkpointLocation", str(folder / "checkpoints" / name)).trigger(**trigger).start()
        for name, writer in writers.items()
    ]


def main(what: str, folder: Path) -> None:
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
    queries = start(spark, folder, {"processingTime": "0 seconds"} if what == "run" else {"availableNow": True})
    if what == "run":
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()
        assert query.exception() is None, query.exception()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
