"""Offset commits per second that ``kafkalog.tables.records`` decodes, on one core.

``python3 benches/python/tables.py [COMMITS]`` writes that many commits (a million) of a thousand groups, as Kafka 4.1
and later write them (value version 4), and decodes them: medians of the process's own time, beside a scan that returns
keys and values as they are.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import kafkalog
from kafkalog import tables

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
COMMITS = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
TOPIC = "__consumer_offsets"


def string(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(2, "big") + raw


def commit(number: int) -> tuple[bytes, bytes]:
    """Give key and value, in the encoding of OffsetCommitKey 0 and OffsetCommitValue 4."""
    group, topic = f"group-{number % 1000:04}", f"orders-{number % 7}"
    key = b"\0\x01" + string(group) + string(topic) + (number % 64).to_bytes(4, "big")
    value = b"\0\x04" + (number * 3).to_bytes(8, "big") + b"\xff\xff\xff\xff\x01"
    value += (1_700_000_000_000 + number).to_bytes(8, "big") + b"\x01\0\x10" + bytes(range(16))
    return key, value


def write(log_dir: Path) -> None:
    """Write the commits in batches of a hundred, as a busy coordinator appends them."""
    (log_dir / "meta.properties").write_text("version=1\n")
    with kafkalog.LogWriter(log_dir, TOPIC, 0) as log:
        for start in range(0, COMMITS, 100):
            keys, values = zip(*map(commit, range(start, min(start + 100, COMMITS))), strict=True)
            log.append(pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}))


def rate(leg: Callable[[], pa.Table]) -> float:
    """Give rows a second of the process's time."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        rows = leg().num_rows
        seconds.append(time.process_time() - start)
        if rows != COMMITS:
            sys.exit(f"{rows} rows")
    return COMMITS / statistics.median(seconds)


def main() -> None:
    """Print a line a leg."""
    with tempfile.TemporaryDirectory() as scratch:
        log_dir = Path(scratch)
        write(log_dir)
        size = sum(file.stat().st_size for file in log_dir.rglob("*.log"))
        print(f"{COMMITS} commits, {size / 1e6:.0f} MB, {kafkalog.build_profile} build")
        decoded = rate(lambda: tables.records(log_dir, TOPIC))
        raw = rate(lambda: kafkalog.read_table(log_dir, TOPIC, columns=["offset", "timestamp", "key", "value"]))
        print(f"tables.records {decoded / 1e6:6.2f} M rows/s")
        print(f"read_table     {raw / 1e6:6.2f} M rows/s")


if __name__ == "__main__":
    main()
