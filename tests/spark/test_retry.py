"""A worker that dies: its task is tried again and gives the same rows, once each.

Retries need another master than the shared session's, so this is a session of its own, over unix sockets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import corpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOGS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"


@pytest.mark.spark
def test_killed_workers_cost_no_rows_and_double_none() -> None:
    pytest.importorskip("pyspark", minversion="4.1")
    env = dict(os.environ, PYSPARK_PYTHON=sys.executable)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, str(LOGS)], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    records = corpus.expected_records(next(each for each in corpus.partitions() if each.folder == LOGS))
    wanted = [offset for offset, control in zip(records["offset"], records["isControl"], strict=True) if not control]
    assert found["mapInArrow"] == wanted
    assert found["dataSource"] == wanted
    # one of each task's first attempts was killed, or the test shows nothing
    assert found["kills"] == {"mapInArrow": 1, "dataSource": 1}


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
