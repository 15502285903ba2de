"""A sink into a log dir, rows for it, and the values that it has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog.spark.sink import Sink


def sink(path: Path, **given: Any) -> Sink:
    from kafkalog.spark.sink import Sink

    options = {"paths": (str(path),), "topic": "t", "partitions": 3, "compression": "zstd", "stream": None}
    return Sink(**{**options, **given})


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
    return [file.name for file in path.glob(".kafkalog-rows.*")]
