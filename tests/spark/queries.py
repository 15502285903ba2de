"""A streaming query in tests: the rows of its batches, over all its runs, and what Kafka reads of the same log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import corpus

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spark.growing import Growing

AVAILABLE_NOW = {"availableNow": True}


class Stream:
    """One query: the rows of its batches, in order, over all its runs."""

    def __init__(self, spark: SparkSession, path: Path | str, checkpoint: Path, **options: str) -> None:
        self.checkpoint = checkpoint
        self.frame = spark.readStream.format("kafkalog").options(columns="topic,partition,offset", **options)
        self.path = str(path)
        self.batches: list[list[tuple[str, int, int]]] = []

    def start(self, **trigger: Any) -> Any:
        """Start it, from its checkpoint if it has one."""

        def keep(batch: DataFrame, number: int) -> None:
            rows = sorted(tuple(row) for row in batch.collect())
            # a repeated batch replaces its first attempt
            self.batches[number:] = [rows]

        writer = self.frame.load(self.path).writeStream.foreachBatch(keep)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def run(self) -> list[list[tuple[str, int, int]]]:
        """Read all available rows, and return the batches of this run."""
        before = len(self.batches)
        self.start(**AVAILABLE_NOW).awaitTermination(120)
        return self.batches[before:]

    @property
    def offsets(self) -> list[int]:
        return [offset for batch in self.batches for _, _, offset in batch]

    def until(self, query: Any, rows: int) -> None:
        """Wait until that many rows have been read."""
        deadline = time.monotonic() + 120
        while len(self.offsets) < rows:
            assert query.exception() is None, str(query.exception())
            assert time.monotonic() < deadline, f"{len(self.offsets)} rows of {rows}"
            time.sleep(0.05)


def places(growing: Growing, topic: str, partition: int, start: int = 0) -> list[tuple[str, int, int]]:
    """The records that Kafka reads of a partition from an offset, as far as it has grown."""
    found = next(each for each in corpus.partitions() if each.folder == growing.source)
    records = corpus.expected_records(found)
    rows = zip(records["offset"], records["isControl"], strict=True)
    return [(topic, partition, n) for n, is_control in rows if not is_control and start <= n < growing.end]


def offsets_reader(path: Path, **options: str) -> Any:
    """Create a stream reader of offsets only, as Spark does."""
    from pyspark.sql.types import LongType, StructField, StructType

    from kafkalog.spark.stream_reader import make_stream_reader

    return make_stream_reader({"path": str(path), **options}, StructType([StructField("offset", LongType())]))
