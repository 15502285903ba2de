"""A writer with a clock of its own, and its log read back by our reader and by a naive one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import kafkalog
import naive
from kafkalog import LogWriter
from naive import Row

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000


def clock() -> int:
    return NOW


def writer(log_dir: Path, **options: Any) -> LogWriter:
    options = {"clock": clock, **options}
    return LogWriter(log_dir, "orders", options.pop("partition", 0), **options)


def ours(folder: Path) -> list[Row]:
    """Read by our own reader."""
    columns = ["offset", "timestamp", "key", "value", "headers"]
    table = kafkalog.read_table(folder, columns=columns)
    table = table.set_column(1, "timestamp", table["timestamp"].cast(pa.int64()))
    return [
        Row(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in table.to_pylist()
    ]


def both(folder: Path) -> list[Row]:
    """Read twice, and once by somebody else."""
    rows = naive.rows(folder)
    assert ours(folder) == rows
    naive.check_indexes(folder)
    return rows
