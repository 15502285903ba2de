"""The same rows without PySpark's internals: with the switch off, and on a PySpark that no longer has them."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import types
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog.spark
from kafkalog.spark import pyspark_private
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.read_split import read_split
from kafkalog.spark.source_options import parse
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
OPTIONS: dict[str, Any] = {"subscribe": "orders", "columns": "offset", "batchRows": "50"}

# PySpark's serializer. How a real one is flushed, test_flush shows.
SERIALIZER = """
import pyarrow as pa
def dump_stream(iterator, stream):
    with pa.RecordBatchStreamWriter(stream, schema) as writer:
        for batch in iterator:
            writer.write_batch(batch)
"""


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pyspark_private.SWITCH, "0")


def serialized(code: str, module: str) -> tuple[list[int], list[int]]:
    """Send a split through a serializer; return the offsets, and the numbers of rows at which its file was flushed."""
    (split,) = plan_splits(parse({"path": str(DATA), **OPTIONS}))
    flushed: list[int] = []
    count = [0]

    class File(io.BytesIO):
        def flush(self) -> None:
            flushed.append(count[0])

    def counted() -> Iterator[pa.RecordBatch]:
        for batch in read_split(split):
            count[0] += batch.num_rows
            yield batch

    names: dict[str, Any] = {"__name__": module, "schema": pa.schema([("offset", pa.int64())])}
    exec(code, names)  # noqa: S102 - our own code
    file = File()
    names["dump_stream"](counted(), file)
    offsets: list[Any] = pa.ipc.open_stream(file.getvalue()).read_all()["offset"].to_pylist()
    return offsets, [n for n in flushed if 0 < n < 880]


def test_a_serializer_whose_file_has_another_name() -> None:
    renamed = SERIALIZER.replace("stream)", "sink)").replace("(stream,", "(sink,")
    assert serialized(renamed, "pyspark.sql.pandas.serializers") == (list(range(880)), [])


def test_the_switch_keeps_batches_in_the_buffer(off: None) -> None:
    assert serialized(SERIALIZER, "pyspark.sql.pandas.serializers") == (list(range(880)), [])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, True), ("1", True), ("true", True), ("", True), ("0", False), (" False ", False), ("false", False)],
)
def test_values_of_the_switch(monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool) -> None:  # noqa: FBT001
    monkeypatch.delenv(pyspark_private.SWITCH, raising=False)
    if value is not None:
        monkeypatch.setenv(pyspark_private.SWITCH, value)
    assert pyspark_private.enabled() == expected


FREEZES = """
import gc, importlib.machinery, sys
from kafkalog.spark.pyspark_private import freeze_imports
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec(sys.argv[1], None) if sys.argv[1] else None
freeze_imports()
print(gc.get_freeze_count())
"""


@pytest.mark.parametrize(
    ("daemon", "switch", "expected"),
    [("pyspark.daemon", "1", True), ("pyspark.daemon", "0", False), ("pyspark.workers", "1", False), ("", "1", False)],
)
def test_a_worker_freezes_what_it_imported(daemon: str, switch: str, expected: bool) -> None:  # noqa: FBT001
    command = ["env", f"{pyspark_private.SWITCH}={switch}", sys.executable, "-c", FREEZES, daemon]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (int(done.stdout) > 0) == expected


@needs_data_sources
def test_filters_are_pushed_only_in_the_process_that_pushes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from kafkalog.spark.data_source import make_reader

    def pushes() -> bool:
        schema = StructType([StructField("offset", LongType())])
        return (
            hasattr(type(make_reader({"path": str(DATA)}, schema)), "pushFilters")
            and pyspark_private.is_pushing_filters()
        )

    base = pushes()
    assert not base
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.filters_of_tomorrow", types.ModuleType("x"))
    assert not pushes()
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", types.ModuleType("x"))
    assert pushes()
    monkeypatch.setenv(pyspark_private.SWITCH, "0")
    assert not pushes()


def test_the_level_of_the_log_stays(monkeypatch: pytest.MonkeyPatch, off: None) -> None:
    log = logging.getLogger("kafkalog.spark.test")
    monkeypatch.setenv("PYSPARK_SPARK_SESSION_UUID", "kept")
    pyspark_private.log_info(log, "read %s", 1)
    assert log.level == logging.NOTSET
    monkeypatch.setenv(pyspark_private.SWITCH, "1")
    pyspark_private.log_info(log, "read %s", 1)
    assert log.level == logging.INFO


def future_types(name: str) -> types.ModuleType:
    """PySpark's module of types, without its function or with one that has other parameters."""
    module = types.ModuleType("pyspark.sql.pandas.types")
    if name == "other parameters":
        module.to_arrow_schema = lambda schema, dialect: (schema, dialect)  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("how", ["off", "no function", "other parameters"])
def test_a_transform_whose_schema_is_not_known(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        return pa.RecordBatch.from_arrays([pc.multiply(batch["offset"], 2)], names=["twice"])

    if how == "off":
        monkeypatch.setenv(pyspark_private.SWITCH, "0")
    else:
        monkeypatch.setitem(sys.modules, "pyspark.sql.pandas.types", future_types(how))
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField("twice", LongType())])
    assert pyspark_private.spark_arrow_schema(schema) is None
    frame = kafkalog.spark.read(spark, DATA, transform=doubled, schema=schema, **OPTIONS)
    monkeypatch.undo()
    assert [row["twice"] for row in frame.collect()] == list(range(0, 1760, 2))


def test_a_worker_with_the_switch_off(spark: SparkSession) -> None:
    """It returns the same rows, and does not search for its file."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        from kafkalog.spark import read_splits
        from kafkalog.spark.pyspark_private import SWITCH, batch_flusher

        os.environ[SWITCH] = "0"
        try:
            assert not hasattr(batch_flusher(), "__self__")
            yield from read_splits(batches)
        finally:
            del os.environ[SWITCH]

    frame = kafkalog.spark.plan(spark, DATA, splitBytes="20k", **OPTIONS).mapInArrow(read, "offset bigint")
    assert [row["offset"] for row in frame.collect()] == list(range(880))
