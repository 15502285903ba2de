"""One leg of the comparison: a process that makes one pass over partition folders for each line on standard input.

Usage: ``legs.py scan LAYOUT THREADS COLUMNS FOLDER...``, ``legs.py stream ...``, the same without the time of planning,
or ``legs.py batches FOLDER...``. It answers ``{"ready": true}`` once, then ``{"records", "value_bytes", "seconds",
"anon_kib"}`` a pass, as ``witness.Pass`` does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kafkalog
from kafkalog import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    #: What is timed; gives the records and the bytes of their values.
    Pass = Callable[[], tuple[int, int]]


def anonymous_kib() -> int:
    """Memory of this process that is no map of a file."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return -1


def plan(layout: str, threads: str, columns: str, *folders: str) -> kafkalog.RecordReader:
    return kafkalog.scan(
        list(folders),
        columns=columns.split(","),
        layout="view" if layout == "view" else "binary",
        threads=int(threads),
    )


def read(reader: kafkalog.RecordReader, layout: str) -> tuple[int, int]:
    records = value_bytes = 0
    for batch in reader:
        records += batch.num_rows
        if layout == "binary" and "value" in batch.schema.names:
            value = batch.column("value")
            value_bytes += value.nbytes - 4 * (len(value) + 1)
    return records, value_bytes


def scan(layout: str, *arguments: str) -> Pass:
    return lambda: read(plan(layout, *arguments), layout)


def stream(layout: str, *arguments: str) -> Pass:
    reader = plan(layout, *arguments)
    return lambda: read(reader, layout)


def batches(*folders: str) -> Pass:
    def headers() -> tuple[int, int]:
        rows = 0
        for folder in folders:
            for batch in kafkalog.scan_batches(folder):
                rows += sum(batch.column("count").to_pylist())
        return rows, 0

    return headers


LEGS: dict[str, Callable[..., Pass]] = {"scan": scan, "stream": stream, "batches": batches}


def main() -> int:
    if _core.build_profile != "release":
        print("a debug build is not worth measuring", file=sys.stderr)
        return 2
    leg = LEGS[sys.argv[1]]
    idle = anonymous_kib()
    print('{"ready": true}', flush=True)
    for _ in sys.stdin:
        timed = leg(*sys.argv[2:])
        begun = time.perf_counter()
        records, value_bytes = timed()
        seconds = time.perf_counter() - begun
        answer = {"records": records, "value_bytes": value_bytes or None, "seconds": seconds}
        print(json.dumps({**answer, "anon_kib": anonymous_kib() - idle}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
