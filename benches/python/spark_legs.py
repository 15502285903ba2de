"""One Spark session and its legs; a pass for each line of JSON on standard input.

Ours: ``map`` (``kafkalog.spark.read``), ``source`` (``format("kafkalog")``), both to nowhere; ``transform`` (bytes of
values summed in the executor), ``sizes`` (the columns keySize and valueSize), ``count``, ``export`` (Parquet),
``even`` and ``skewed``. ``map-ceiling`` and ``source-ceiling`` send batches that were decoded beforehand, in the same
tasks to the same number of rows. ``kafka``, ``kafka-bytes``, ``kafka-sizes``, ``kafka-count``, ``kafka-write``: the
same with Spark's Kafka source. ``parquet``: Spark's scan of the rows as Spark wrote them. ``micro``: what planning and
importing take.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spark_worker as worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from kafkalog.spark.split import Split


# Sixteen batches of this size are sent in turn, whatever our size: more than caches hold, from a decoder that is free.
CEILING = {"batchBytes": "2m"}


def session(cores: int, socket: str, settings: dict[str, Any]) -> SparkSession:
    """Start a session; workers find the module beside this file through PYTHONPATH."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{cores}]").appName("kafkalog bench")
    options = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": settings["heap"],
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(Path(settings["scratch"]) / "spark"),
        # The times of imports need a new worker for every task.
        "spark.python.worker.reuse": str(not settings["fresh"]).lower(),
        "spark.python.unix.domain.socket.enabled": str(socket == "unix").lower(),
    }
    if settings["jars"]:
        options["spark.driver.extraClassPath"] = os.pathsep.join(settings["jars"])
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(worker.Made)
    return spark


def nowhere(frame: DataFrame) -> None:
    """Send complete rows to the sink that drops them."""
    frame.write.format("noop").mode("overwrite").save()


class Legs:
    """The legs of one session."""

    def __init__(self, spark: SparkSession, settings: dict[str, Any]) -> None:
        self.spark = spark
        self.topic = settings["topic"]
        self.settings = settings
        self.scratch = Path(settings["scratch"])
        self.logs = str(self.scratch / "logs")

    @functools.cached_property
    def rows(self) -> int:
        """The rows that our legs read in one pass."""
        return self.count({})

    @functools.cached_property
    def kafka_rows(self) -> int:
        """The rows that the Kafka legs read in one pass."""
        import kafkalog.spark

        once = kafkalog.spark.count(self.spark, self.settings["logs"], subscribe=self.topic)
        return once * int(self.settings["kafka_times"])

    def splits(self, options: dict[str, str]) -> list[Split]:
        """Plan as ``read`` does."""
        from kafkalog.spark.planner import plan_splits
        from kafkalog.spark.source_options import parse

        return plan_splits(parse({"path": self.logs, "subscribe": self.topic, **options}))

    @functools.cache  # noqa: B019 - one for each process
    def counted(self, options: str) -> tuple[list[Split], list[int]]:
        """The tasks of a ceiling: the planned splits, and the rows of each."""
        from kafkalog.spark.read_split import read_split

        planned = self.splits(json.loads(options))
        narrow = self.splits({**json.loads(options), "columns": "offset"})
        return planned, [sum(batch.num_rows for batch in read_split(split)) for split in narrow]

    def read(self, options: dict[str, Any], path: str | None = None) -> DataFrame:
        import kafkalog.spark

        return kafkalog.spark.read(self.spark, path or self.logs, subscribe=self.topic, **options)

    def map(self, options: dict[str, str]) -> int:
        nowhere(self.read(options))
        return self.rows

    def map_ceiling(self, options: dict[str, str]) -> int:
        from kafkalog.spark.columns import ddl
        from kafkalog.spark.planner import over_splits

        splits, counts = self.counted(json.dumps(CEILING | options))
        function = worker.ceiling_function(counts)
        nowhere(over_splits(self.spark, splits, function, ddl(splits[0].columns)))
        return self.rows

    def source(self, options: dict[str, str]) -> int:
        reader = self.spark.read.format("kafkalog").option("subscribe", self.topic)
        nowhere(reader.options(**options).load(self.logs))
        return self.rows

    def source_ceiling(self, options: dict[str, str]) -> int:
        from kafkalog.spark.columns import ddl

        splits, counts = self.counted(json.dumps(CEILING | options), os.cpu_count() or 1)
        tasks = json.dumps([[split.to_json(), rows] for split, rows in zip(splits, counts, strict=True)])
        nowhere(self.spark.read.format("kafkalog-made").schema(ddl(splits[0].columns)).load(tasks))
        return self.rows

    def transform(self, options: dict[str, str]) -> int:
        made = {"transform": worker.value_bytes, "schema": "rows bigint, bytes bigint"}
        frame = self.read({"columns": "value", **made, **options})
        return int(frame.groupBy().sum("rows").first()[0])  # type: ignore[index]

    def sizes(self, options: dict[str, str]) -> int:
        nowhere(self.read({"columns": "keySize,valueSize", **options}))
        return self.rows

    def count(self, options: dict[str, str]) -> int:
        import kafkalog.spark

        return kafkalog.spark.count(self.spark, self.logs, subscribe=self.topic, **options)

    def export(self, options: dict[str, str]) -> int:
        import kafkalog.spark

        out = self.scratch / f"out-{os.getpid()}"
        shutil.rmtree(out, ignore_errors=True)
        columns = {"columns": "key,value,topic,partition,offset,timestamp,timestampType"}
        found = kafkalog.spark.export("", self.logs, out, subscribe=self.topic, **columns, **options)
        return int(found["rows"])

    def even(self, options: dict[str, str]) -> int:
        nowhere(self.read(options, str(self.scratch / "skew" / "even")))
        return self.skew_rows

    def skewed(self, options: dict[str, str]) -> int:
        nowhere(self.read(options, str(self.scratch / "skew" / "skewed")))
        return self.skew_rows

    @functools.cached_property
    def skew_rows(self) -> int:
        import kafkalog.spark

        found = {kafkalog.spark.count(self.spark, self.scratch / "skew" / name) for name in ("even", "skewed")}
        return found.pop()

    def parquet(self, options: dict[str, str]) -> int:
        folder = self.scratch / "parquet" / f"{self.topic}-{self.rows}"
        if not folder.exists():
            self.read({}).write.parquet(str(folder))
        nowhere(self.spark.read.options(**options).parquet(str(folder)))
        return self.rows

    def kafka_frame(self, options: dict[str, str]) -> DataFrame:
        def once() -> DataFrame:
            reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.settings["broker"])
            return reader.option("subscribe", self.topic).options(**options).load()

        return functools.reduce(lambda a, b: a.union(b), (once() for _ in range(self.settings["kafka_times"])))

    def kafka(self, options: dict[str, str]) -> int:
        nowhere(self.kafka_frame(options))
        return self.kafka_rows

    def kafka_bytes(self, options: dict[str, str]) -> int:
        from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

        found = self.kafka_frame(options).agg(F.count("*"), F.sum(F.length("value"))).first()
        return int(found[0])  # type: ignore[index]

    def kafka_sizes(self, options: dict[str, str]) -> int:
        nowhere(self.kafka_frame(options).selectExpr("length(key) as keySize", "length(value) as valueSize"))
        return self.kafka_rows

    def kafka_count(self, options: dict[str, str]) -> int:
        return self.kafka_frame(options).count()

    def kafka_write(self, options: dict[str, str]) -> int:
        out = str(self.scratch / f"out-{os.getpid()}")
        self.kafka_frame(options).write.mode("overwrite").parquet(out)
        return self.kafka_rows

    def micro(self) -> dict[str, Any]:
        """Milliseconds of planning ten partitions, and of imports in a worker that was forked for them."""
        import kafkalog.spark

        ten = json.dumps({self.topic: list(range(10))})
        options = {"path": self.logs, "assign": ten}

        def timed(do: Callable[[], object], times: int = 9) -> list[float]:
            found = []
            for _ in range(times):
                begun = time.perf_counter()
                do()
                found.append(round((time.perf_counter() - begun) * 1e3, 2))
            return [found[0], statistics.median(found[1:])]

        from kafkalog.spark.planner import plan_splits
        from kafkalog.spark.source_options import parse

        imports = self.spark.range(0, 9, 1, 9).mapInArrow(worker.import_time, worker.IMPORTED).collect()
        return {
            "plan_splits of 10 partitions, ms, first and median": timed(lambda: plan_splits(parse(options))),
            "kafkalog.spark.read, 10 partitions, to a DataFrame, ms": timed(
                lambda: kafkalog.spark.read(self.spark, self.logs, assign=ten)
            ),
            "imports in a new worker, ms": {
                name: round(statistics.median(each[name] for each in imports), 1) for name in imports[0].asDict()
            },
        }


def main() -> None:
    """Run one pass for every line."""
    cores, socket, text = sys.argv[1:]
    settings = json.loads(text)
    legs = Legs(session(int(cores), socket, settings), settings)
    print('{"ready": true}', flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["leg"] == "micro":
            print(json.dumps({"figures": legs.micro()}), flush=True)
            continue
        leg = getattr(legs, asked["leg"].replace("-", "_"))
        begun = time.perf_counter()
        rows = leg(asked["options"])
        print(json.dumps({"seconds": time.perf_counter() - begun, "rows": rows}), flush=True)
    legs.spark.stop()
    for left in legs.scratch.glob(f"out-{os.getpid()}"):
        shutil.rmtree(left)


if __name__ == "__main__":
    main()
