"""Imported modules are exempt from the garbage collection after each task, and what tasks log is kept."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import corpus
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.read_split import read_split
from kafkalog.spark.source_options import parse
from spark.sinks import rows, sink
from spark.ways import both_ways, has_data_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    Way = Callable[..., DataFrame]

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
# The main module is Spark's daemon, of which a worker is a fork, or another one.
MODULE = """
import gc, importlib.machinery, sys, weakref
from kafkalog.spark.pyspark_private import freeze_imports
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec(sys.argv[1], None)
gc.disable()
class Garbage: pass
garbage = Garbage()
garbage.own = garbage
alive = weakref.ref(garbage)
del garbage
freeze_imports()
print(gc.get_freeze_count(), len(gc.get_objects()), int(alive() is not None))
later = [[] for _ in range(5000)]
freeze_imports()
print(gc.get_freeze_count(), len(gc.get_objects()), 0)
"""


def state(module: str) -> list[list[int]]:
    command = [sys.executable, "-c", MODULE, module]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [list(map(int, line.split())) for line in done.stdout.splitlines()]


def test_once_in_a_worker_and_nowhere_else() -> None:
    (frozen, looked_at, garbage), (then, looked_at_then, _) = state("pyspark.daemon")
    assert frozen > 1000
    assert looked_at < frozen / 10
    assert garbage == 0
    # Later objects are collected as usual.
    assert then <= frozen
    assert looked_at_then >= 5000
    (frozen, looked_at, garbage), _ = state("pytest")
    assert frozen == 0
    assert looked_at > 1000
    assert garbage == 1


def test_every_task_that_ends_freezes_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls: list[str] = []
    monkeypatch.setattr("kafkalog.spark.pyspark_private.freeze_imports", lambda: calls.append("read"))
    (split,) = plan_splits(parse({"path": str(DATA), "subscribe": "orders"}))
    for _ in read_split(split):
        assert calls == []
    assert calls == ["read"]
    if has_data_sources():
        monkeypatch.setattr("kafkalog.spark.sink.freeze_imports", lambda: calls.append("written"))
        sink(tmp_path).write(iter([rows(0, 5)]))
        assert calls == ["read", "written"]


def test_metrics_of_a_task_are_in_the_log_that_spark_keeps(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    worker_io = pytest.importorskip("pyspark.logger.worker_io", reason="Spark keeps what workers log from 4.1 on")
    (split,) = plan_splits(parse({"path": str(DATA), "subscribe": "orders"}))
    log = logging.getLogger("kafkalog.spark")
    monkeypatch.setattr(log, "level", logging.NOTSET)
    for kept in (False, True):
        if kept:
            monkeypatch.setenv("PYSPARK_SPARK_SESSION_UUID", "kept")
        with worker_io.capture_outputs():
            number = sum(batch.num_rows for batch in read_split(split))
        told = capfd.readouterr()
        assert (f"'records': {number}" in told.out + told.err) == kept


def settled(spark: SparkSession) -> bool:
    """Ask workers whether the collector skips more objects than it visits."""

    def asked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        for _ in batches:
            answer = pa.array([gc.get_freeze_count() > len(gc.get_objects())])
            yield pa.RecordBatch.from_arrays([answer], names=["settled"])

    slots = spark.sparkContext.defaultParallelism
    # At least one worker has run a task before; others may have been started for this.
    return any(row["settled"] for row in spark.range(0, slots, 1, slots).mapInArrow(asked, "settled boolean").collect())


@both_ways
def test_after_a_task(spark: SparkSession, way: Way) -> None:
    assert way(spark, DATA, subscribe="orders").count() > 0
    assert settled(spark)
