"""DuckDB over ``kafkalog.dataset``, over ``scan`` and over the same rows in Parquet (zstd), side by side.

Usage: ``python3 benches/python/engines.py [--megabytes 256] [--value-bytes 400] [--rounds 5]``. The legs of a query run
in turn; medians of wall and CPU time are printed, and each leg's ratio to DuckDB's own reader of Parquet by CPU time.
The log is made in a folder of its own, uncompressed, with the broker's time (LogAppendTime). The legs:

- ``dataset``: as it comes; ``ordered``: with ``max_disorder_ms=0``; ``view``: with ``layout="view"``, where DuckDB
  keeps its filters to itself, as it does over every Arrow source with a column of views
- ``scan``: an Arrow stream, which DuckDB filters itself
- ``parquet``: ``read_parquet``; ``parquet-arrow``: ``pyarrow.dataset``

``nothing`` is what DuckDB takes to connect and to answer the same from an empty table.
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
WINDOW = """select count(*), sum(octet_length(value)) from logs
            where timestamp between make_timestamptz({low} * 1000) and make_timestamptz({high} * 1000)"""
QUERIES = {
    "begin": WINDOW,
    "middle": WINDOW,
    "end": WINDOW,
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
    wall, cpu = time.perf_counter(), time.process_time()
    connection: Any = duckdb.connect()
    found = source()
    if isinstance(found, Path):
        connection.execute(f"create view logs as select * from read_parquet('{found}')")  # noqa: S608 - ours
    else:
        connection.register("logs", found)
    answer = sorted(connection.sql(query).fetchall())
    connection.close()
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
        empty = kafkalog.read_table(folder, max_offset=-1)
        legs: dict[str, Callable[[], Any]] = {
            "dataset": lambda: kafkalog.dataset(folder),
            "ordered": lambda: kafkalog.dataset(folder, max_disorder_ms=0),
            "view": lambda: kafkalog.dataset(folder, layout="view"),
            "scan": lambda: kafkalog.scan(folder),
            "parquet": lambda: parquet,
            "parquet-arrow": lambda: ds.dataset(parquet),
            "nothing": lambda: empty,
        }
        width = max((last - NOW) // 200, 1)
        starts = {"begin": NOW + width, "middle": (NOW + last) // 2, "end": last - width}
        print(f"kafkalog {kafkalog.__version__} ({kafkalog.build_profile}), {options.megabytes} MB of log")
        for title, text in QUERIES.items():
            low = starts.get(title, NOW)
            query = text.format(low=low, high=low + width)
            found: dict[str, list[tuple[float, float]]] = {leg: [] for leg in legs}
            for _ in range(options.rounds):
                answers = []
                for leg, source in legs.items():
                    wall, cpu, answer = timed(query, source)
                    found[leg].append((wall, cpu))
                    if leg != "nothing":
                        answers.append(answer)
                if any(answer != answers[0] for answer in answers):
                    raise SystemExit(f"{title}: the legs differ")
            peer = statistics.median(cpu for _, cpu in found["parquet"])
            for leg, times in found.items():
                wall, cpu = (statistics.median(each) for each in zip(*times, strict=True))
                print(f"{title:6} {leg:13} wall {wall:7.3f} s  cpu {cpu:7.3f} s  {cpu / peer:5.2f} x parquet")


if __name__ == "__main__":
    main()
