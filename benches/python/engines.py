"""DuckDB over ``kafkalog.dataset``, over ``scan`` and over the same rows in Parquet (zstd), side by side.

Usage: ``python3 benches/python/engines.py [--megabytes 256] [--value-bytes 400] [--rounds 5]``. The legs of a query run
in turn; medians of wall and CPU time are printed, and each leg's ratio to Parquet's by CPU time. The log is made in a
folder of its own, uncompressed, with the broker's time (LogAppendTime).
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 1_700_000_000_000
STEP = 512
# Rows of a row group, as DuckDB writes Parquet.
GROUP_ROWS = 122_880
QUERIES = {
    "window": """select count(*), sum(octet_length(value)) from logs
                 where timestamp between make_timestamptz({low} * 1000) and make_timestamptz({high} * 1000)""",
    "full": """select partition, timestampType, count(*), sum(octet_length(value)), max("offset") from logs
               group by all""",
}


def make(folder: Path, size: int, value_bytes: int) -> int:
    """Write the log; give its last timestamp."""
    chance = random.Random(1)  # noqa: S311 - to be repeated, not secret
    words = [chance.randbytes(8).hex().encode() for _ in range(1000)]
    clock = itertools.count(NOW)
    config = kafkalog.LogConfig(message_timestamp_type="LogAppendTime", segment_bytes=64 << 20)
    with kafkalog.LogWriter(folder, "logs", config=config, clock=lambda: next(clock), sync="never") as log:
        for _ in range(max(size // (STEP * value_bytes), 1)):
            values = [b" ".join(chance.choices(words, k=value_bytes // 17)) for _ in range(STEP)]
            log.append(pa.table({"value": values}))
    return next(clock)


def timed(query: str, source: Callable[[], Any]) -> tuple[float, float, Any]:
    """Give wall and CPU seconds of a query, and its answer."""
    connection: Any = duckdb.connect()
    wall, cpu = time.perf_counter(), time.process_time()
    connection.register("logs", source())
    answer = sorted(connection.sql(query).fetchall())
    return time.perf_counter() - wall, time.process_time() - cpu, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--value-bytes", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, parquet = Path(name) / "log", Path(name) / "log.parquet"
        last = make(folder, options.megabytes << 20, options.value_bytes)
        pq.write_table(kafkalog.read_table(folder), parquet, compression="zstd", row_group_size=GROUP_ROWS)
        legs: dict[str, Callable[[], Any]] = {
            "dataset": lambda: kafkalog.dataset(folder),
            "dataset-view": lambda: kafkalog.dataset(folder, layout="view"),
            "scan": lambda: kafkalog.scan(folder),
            "parquet": lambda: ds.dataset(parquet),
        }
        middle = (NOW + last) // 2
        print(f"kafkalog {kafkalog.__version__} ({kafkalog.build_profile}), {options.megabytes} MB of log")
        for title, text in QUERIES.items():
            query = text.format(low=middle, high=middle + max((last - NOW) // 200, 1))
            found: dict[str, list[tuple[float, float]]] = {leg: [] for leg in legs}
            for _ in range(options.rounds):
                answers = []
                for leg, source in legs.items():
                    wall, cpu, answer = timed(query, source)
                    found[leg].append((wall, cpu))
                    answers.append(answer)
                if any(answer != answers[0] for answer in answers):
                    raise SystemExit(f"{title}: the legs differ")
            peer = statistics.median(cpu for _, cpu in found["parquet"])
            for leg, times in found.items():
                wall, cpu = (statistics.median(each) for each in zip(*times, strict=True))
                print(f"{title:8} {leg:14} wall {wall:7.3f} s  cpu {cpu:7.3f} s  {cpu / peer:5.2f} x parquet")


if __name__ == "__main__":
    main()
