"""A batch is sent completely before the next one is decoded."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog.spark.read_split as module
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.pyspark_private import batch_flusher
from kafkalog.spark.source_options import parse
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.full

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


class Socket(io.RawIOBase):
    """Keeps the bytes that were written to it."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.bytes += data
        return len(data)

    def rows(self) -> int:
        """Count the rows of the batches that have arrived completely, as the JVM would."""
        count = 0
        try:
            for batch in pa.ipc.open_stream(bytes(self.bytes)):
                count += batch.num_rows
        except (OSError, pa.ArrowInvalid):
            pass
        return count


def test_a_batch_is_sent_before_the_next_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer

    options = parse({"path": str(DATA), "subscribe": "orders", "batchRows": "50"})
    (split,) = plan_splits(options)
    socket = Socket()
    given, sent = [0], []

    def watched(made: Generator[Any, None, None]) -> Generator[Any, None, None]:
        for batch in made:
            sent.append((given[-1], socket.rows()))
            given.append(given[-1] + batch.num_rows)
            yield batch

    real: Callable[..., Any] = module._decoded
    monkeypatch.setattr(module, "_decoded", lambda *which: watched(real(*which)))
    with io.BufferedWriter(socket, 65536) as file:
        ArrowStreamSerializer().dump_stream(module.read_split(split), file)
    assert len(sent) > 3
    assert all(asked == come for asked, come in sent)
    assert socket.rows() == given[-1]


def test_outside_a_worker_there_is_nothing_to_flush() -> None:
    assert batch_flusher()() is None

    def dump_stream(stream: Any) -> Any:
        return batch_flusher()()

    assert dump_stream(None) is None
    assert dump_stream(io.StringIO()) is None


def test_a_function_in_a_worker_finds_the_file(spark: SparkSession) -> None:
    def found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kafkalog.spark.pyspark_private import batch_flusher

        for _ in batches:
            name = type(getattr(batch_flusher(), "__self__", None)).__name__
            yield pa.RecordBatch.from_arrays([pa.array([name])], names=["file"])

    frame = spark.range(0, 1, 1, 1).mapInArrow(found, "file string")
    assert [row["file"] for row in frame.collect()] == ["BufferedWriter"]


@needs_data_sources
def test_a_data_source_in_a_worker_finds_the_file(spark: SparkSession) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Reader(DataSourceReader):
        def read(self, partition: Any) -> Iterator[tuple[str]]:  # noqa: ARG002 - Spark names it
            from kafkalog.spark.pyspark_private import batch_flusher

            name = type(getattr(batch_flusher(), "__self__", None)).__name__
            yield pa.RecordBatch.from_arrays([pa.array([name])], names=["file"])  # type: ignore[misc]

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "which-file"

        def schema(self) -> str:
            return "file string"

        def reader(self, schema: Any) -> Reader:  # noqa: ARG002 - Spark names it
            return Reader()

    spark.dataSource.register(Source)
    assert [row["file"] for row in spark.read.format("which-file").load().collect()] == ["BufferedWriter"]
