"""A sink into a log dir, rows for it, a commit that dies, and the values that it has written."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog.spark.sink import Sink

# Names that Topic.validate refuses.
ILLEGAL = ["", ".", "..", "bad/name", "zwei worte", "caf\u00e9", "n" * 250]


def sink(path: Path, **given: Any) -> Sink:
    from kafkalog.spark.sink import Sink

    options = {"paths": (str(path),), "topic": "t", "partitions": 3, "compression": "zstd", "stream": None}
    return Sink(**{**options, **given})


def make(path: Path, **options: str) -> Sink:
    """Make a sink for rows with a value, as Spark does: from options by their names."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkalog.spark.sink import make_writer

    value = StructType([StructField("value", BinaryType())])
    return make_writer({"path": str(path), **options}, value, overwrite=False).sink


def dies(target: Sink, messages: list[Any], batch: int | None = None, *, after: str) -> None:
    """Commit in a process that dies after a step."""
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        return
    from kafkalog.spark import append_job, commit

    owner: Any = commit if after == "append" else append_job.Job
    name = {"begin": "begin", "append": "_append", "commit": "_note"}.get(after, "open")
    step = getattr(owner, name)

    def killing(*given: Any) -> None:
        step(*given)
        if after != "commit" or given[0].committed:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, killing)
    try:
        target.commit(messages, batch)
    finally:
        os._exit(1)


def rows(start: int, count: int) -> pa.RecordBatch:
    keys = [None if n % 5 == 4 else b"k%d" % (n % 7) for n in range(start, start + count)]
    columns: dict[str, list[Any]] = {
        "value": [str(n) for n in range(start, start + count)],
        "key": keys,
        "other": [1] * count,
    }
    return pa.RecordBatch.from_pydict(columns)


def values(path: Path) -> list[int]:
    found: list[Any] = kafkalog.read_table(path)["value"].to_pylist()
    return sorted(int(value) for value in found)


def left(path: Path) -> list[str]:
    return [file.name for file in path.glob(".kafkalog-rows.*.arrows")]
