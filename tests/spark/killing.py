"""Read a partition both ways on Spark while a worker of each job is killed; the offsets as JSON.

A script of its own: classes and functions of ``__main__`` travel to the workers by value.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def main(path: str) -> None:  # noqa: C901 - classes that cloudpickle takes by value
    import signal
    import tempfile

    from pyspark import TaskContext
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader

    import kafkalog.spark

    marks = tempfile.mkdtemp()

    def killing(name: str, batches: Iterator[Any]) -> Iterator[Any]:
        """Die behind the second batch of the task in the middle, at its first attempt."""
        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 2 and context.partitionId() == 1 and context.attemptNumber() == 0:
                (Path(marks) / name).write_text("killed")
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    def read_splits(batches: Iterable[Any]) -> Iterator[Any]:
        return killing("mapInArrow", kafkalog.spark.read_splits(batches))

    class KillingReader(DataSourceReader):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def partitions(self) -> Any:
            return self.inner.partitions()

        def read(self, partition: Any) -> Iterator[Any]:
            return killing("dataSource", self.inner.read(partition))

    class Killing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "killing"

        def schema(self) -> str:
            from kafkalog.spark.datasource import source_schema

            return source_schema(self.options)

        def reader(self, schema: Any) -> DataSourceReader:
            from kafkalog.spark.datasource import make_reader

            return KillingReader(make_reader(self.options, schema))

    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    options = {"splitBytes": "20k", "batchRows": "10", "columns": "offset"}
    splits = kafkalog.spark.plan(spark, path, **options)
    mapped = splits.mapInArrow(read_splits, kafkalog.spark.schema(["offset"])).collect()
    spark.dataSource.register(Killing)
    sourced = spark.read.format("killing").options(**options).load(path).collect()
    spark.stop()
    kills = {name: int((Path(marks) / name).exists()) for name in ("mapInArrow", "dataSource")}
    print(
        json.dumps(
            {"mapInArrow": [row[0] for row in mapped], "dataSource": [row[0] for row in sourced], "kills": kills}
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
