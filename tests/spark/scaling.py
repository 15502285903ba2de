"""As a script: reads of very many segments with a driver of 1 GB and an event log; figures as JSON.

Takes a folder to work in, the number of segments and the number of tasks.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable

# Partitions of the log dir.
FOLDERS = 10


def fill(root: Path, segments: int) -> int:
    """Create a log dir of segments with one record each, and return the size of a segment."""
    with kafkalog.LogWriter(root.with_name("made"), "t") as writer:
        writer.append([kafkalog.Record(value=b"v", timestamp=0)])
    batch = next(root.with_name("made").glob("t-0/*.log")).read_bytes()
    for partition in range(FOLDERS):
        folder = root / f"t-{partition}"
        folder.mkdir(parents=True)
        for number in range(segments // FOLDERS):
            base = number * 1000
            # no checksum covers the base offset
            (folder / f"{base:020}.log").write_bytes(base.to_bytes(8, "big") + batch[8:])
    return len(batch)


def main(folder: Path, segments: int, tasks: int) -> None:
    """Read in both ways."""
    from pyspark.sql import SparkSession

    import kafkalog.spark

    events = folder / "events"
    events.mkdir()
    size = fill(folder / "logs", segments)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # what is kept for the UI takes memory of the driver
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.python.unix.domain.socket.enabled": "true",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark: Any = builder.getOrCreate()

    def logged() -> int:
        return sum(file.stat().st_size for file in events.iterdir() if file.is_file())

    options: dict[str, Any] = {"columns": "partition,offset", "splitBytes": str(size * segments // tasks)}
    ways: dict[str, Callable[[], Any]] = {"map": lambda: kafkalog.spark.read(spark, folder / "logs", **options)}
    if hasattr(spark, "dataSource"):
        kafkalog.spark.register(spark)
        ways["source"] = lambda: spark.read.format("kafkalog").options(**options).load(str(folder / "logs"))
    found: dict[str, Any] = {}
    for name, way in ways.items():
        before, begun = logged(), time.monotonic()
        frame = way()
        seen = {"tasks": frame.rdd.getNumPartitions(), "rows": frame.count()}
        # the last events come a moment later
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        seen["names"] = str(folder) in frame._jdf.queryExecution().toString()
        found[name] = {**seen, "logged": logged() - before, "seconds": time.monotonic() - begun}
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    found["heap"] = {"most": runtime.maxMemory(), "used": runtime.totalMemory() - runtime.freeMemory()}
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
