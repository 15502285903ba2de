"""One leg of the comparison: a process that makes one pass over partition folders for each line on standard input.

Usage: ``legs.py scan LAYOUT THREADS COLUMNS FOLDER...``, ``legs.py stream ...``, the same without the time of planning,
``legs.py skip ...`` and ``legs.py committed ...``, the same past damage and read committed, ``legs.py verify THREADS
FOLDER...`` or ``legs.py batches FOLDER...``. It answers ``{"ready": true}`` once, then ``{"records", "value_bytes",
"seconds", "cpu", "anon_kib"}`` a pass, as ``witness.Pass`` does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def plan(layout: str, threads: str, columns: str, *folders: str, **options: Any) -> kafkalog.RecordReader:
    return kafkalog.scan(
        list(folders),
        columns=columns.split(","),
        layout="view" if layout == "view" else "binary",
        threads=int(threads),
        **options,
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


def skip(layout: str, *arguments: str) -> Pass:
    return lambda: read(plan(layout, *arguments, on_corrupt="skip"), layout)


def committed(layout: str, *arguments: str) -> Pass:
    return lambda: read(plan(layout, *arguments, isolation_level="read_committed"), layout)


def verify(threads: str, *folders: str) -> Pass:
    def findings() -> tuple[int, int]:
        found = kafkalog.verify(list(folders), threads=int(threads)).to_pylist()
        damage = [row for row in found if row["severity"] != "info"]
        if damage:
            sys.exit(f"the log is damaged: {damage[0]}")
        return 0, 0

    return findings


def batches(*folders: str) -> Pass:
    def headers() -> tuple[int, int]:
        rows = 0
        for folder in folders:
            for batch in kafkalog.scan_batches(folder):
                rows += sum(batch.column("count").to_pylist())
        return rows, 0

    return headers


LEGS: dict[str, Callable[..., Pass]] = {
    "scan": scan,
    "stream": stream,
    "skip": skip,
    "committed": committed,
    "verify": verify,
    "batches": batches,
}


def main() -> int:
    if _core.build_profile != "release":
        print("a debug build is not worth measuring", file=sys.stderr)
        return 2
    leg = LEGS[sys.argv[1]]
    idle = anonymous_kib()
    print('{"ready": true}', flush=True)
    for _ in sys.stdin:
        timed = leg(*sys.argv[2:])
        begun, spent = time.perf_counter(), time.process_time()
        records, value_bytes = timed()
        seconds, cpu = time.perf_counter() - begun, time.process_time() - spent
        answer = {"records": records, "value_bytes": value_bytes or None, "seconds": seconds, "cpu": cpu}
        print(json.dumps({**answer, "anon_kib": anonymous_kib() - idle}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
