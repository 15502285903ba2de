"""Cost of the compacted view: ``latest_per_key=True`` beside what a user would write over a plain scan.

``python3 benches/python/latest.py [RECORDS] [--unique 0.1] [--legs LEG...] [--rounds 3]`` writes RECORDS records (4
million) of 16-byte keys and 100-byte values, of which a tenth are the only key of their kind, and takes the latest
record of every key. Each leg is a process of its own: the medians of its wall and CPU seconds, and the most memory it
held at once beyond what it took before the first pass. All legs must find the same keys and offsets.

Legs:
  scan        every record, none left out: what reading costs
  latest      kafkalog.scan(latest_per_key=True), streamed
  latest:2    the same by 2 threads
  dict        a dict of the key's latest offset and value, filled in Python from a scan
  group_by    pyarrow: the table's largest offset of each key, and the rows of these offsets
  duckdb      arg_max(value, "offset") grouped by key over a scan, where DuckDB is installed
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC = "latest"
COLUMNS = ["offset", "key", "value"]
AT_ONCE = 100_000
DEFAULT = ["scan", "latest", "latest:2", "dict", "group_by", *(["duckdb"] if find_spec("duckdb") else [])]

#: Rows, and the sum of their offsets: the same for all legs that give the latest.
Answer = tuple[int, int]


def write(log_dir: Path, records: int, unique: float) -> None:
    """Write batches of a hundred; keys in random order, none forgotten."""
    chance = random.Random(1)  # noqa: S311 - repeatable, not secret
    keys = max(1, int(records * unique))
    (log_dir / "meta.properties").write_text("version=1\n")
    with kafkalog.LogWriter(log_dir, TOPIC, 0) as log:
        for start in range(0, records, AT_ONCE):
            count = min(AT_ONCE, records - start)
            numbers = [n if n < keys else chance.randrange(keys) for n in range(start, start + count)]
            values = chance.randbytes(100 * count)
            log.append(
                pa.record_batch(
                    {
                        "key": pa.array([b"customer-%07d" % number for number in numbers], pa.binary()),
                        "value": pa.array([values[n : n + 100] for n in range(0, 100 * count, 100)], pa.binary()),
                    }
                )
            )


def total(column: Any) -> int:
    """Sum of a column of integers."""
    answer: int = pc.sum(column).as_py() or 0
    return answer


def streamed(log_dir: str, *, latest: bool, threads: int = 1) -> Answer:
    rows = offsets = 0
    for batch in kafkalog.scan(log_dir, TOPIC, columns=COLUMNS, latest_per_key=latest, threads=threads):
        rows += batch.num_rows
        offsets += total(batch.column("offset"))
    return rows, offsets


def by_dict(log_dir: str) -> Answer:
    found: dict[bytes, tuple[int, bytes]] = {}
    for batch in kafkalog.scan(log_dir, TOPIC, columns=COLUMNS, threads=1):
        columns = (batch.column(name).to_pylist() for name in COLUMNS)
        for offset, key, value in zip(*columns, strict=True):
            found[key] = (offset, value)
    return len(found), sum(offset for offset, _ in found.values())


def by_group(log_dir: str) -> Answer:
    table = kafkalog.read_table(log_dir, TOPIC, columns=COLUMNS, threads=1)
    last = table.select(["key", "offset"]).group_by("key", use_threads=False).aggregate([("offset", "max")])
    rows = table.filter(pc.is_in(table["offset"], value_set=last["offset_max"].combine_chunks()))
    return rows.num_rows, total(rows["offset"])


def by_duckdb(log_dir: str) -> Answer:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("log", kafkalog.scan(log_dir, TOPIC, columns=COLUMNS, threads=1))
        query = 'select key, max("offset") as last, arg_max(value, "offset") as value from log group by key'
        found = connection.execute(query).to_arrow_table()
    return found.num_rows, total(found["last"])


LEGS: dict[str, Callable[[str], Answer]] = {
    "scan": lambda log_dir: streamed(log_dir, latest_per_key=False),
    "latest": lambda log_dir: streamed(log_dir, latest_per_key=True),
    "latest:2": lambda log_dir: streamed(log_dir, latest_per_key=True, threads=2),
    "dict": by_dict,
    "group_by": by_group,
    "duckdb": by_duckdb,
}


def peak() -> int:
    """Most bytes that this process held in memory so far, pages of mapped files among them."""
    # Not `ru_maxrss`, which begins with that of the process before `exec`.
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    return 0


def measure(leg: str, log_dir: str, rounds: int) -> None:
    """Make the passes of one leg and print what they took."""
    if leg == "duckdb":
        __import__("duckdb")
    idle = peak()
    walls, cpus = [], []
    answer = LEGS[leg](log_dir)
    for _ in range(rounds):
        begun, spent = time.perf_counter(), time.process_time()
        if LEGS[leg](log_dir) != answer:
            sys.exit(f"{leg}: another answer than before")
        walls.append(time.perf_counter() - begun)
        cpus.append(time.process_time() - spent)
    found = {"answer": answer, "wall": statistics.median(walls), "cpu": statistics.median(cpus), "peak": peak() - idle}
    print(json.dumps(found))


def main() -> None:
    """Print a line a leg."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="?", type=int, default=4_000_000)
    parser.add_argument("--unique", type=float, default=0.1)
    parser.add_argument("--legs", nargs="+", default=DEFAULT, choices=LEGS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--leg", choices=LEGS, help=argparse.SUPPRESS)
    parser.add_argument("--log-dir", help="one that an earlier run wrote; default: a scratch folder")
    args = parser.parse_args()
    if args.leg:
        measure(args.leg, args.log_dir, args.rounds)
        return
    with tempfile.TemporaryDirectory() as scratch:
        log_dir = Path(args.log_dir or scratch)
        log_dir.mkdir(parents=True, exist_ok=True)
        if not (log_dir / "meta.properties").exists():
            write(log_dir, args.records, args.unique)
        size = sum(file.stat().st_size for file in log_dir.rglob("*.log"))
        print(f"{size / 1e6:.0f} MB, {kafkalog.build_profile} build")
        answers = {}
        for leg in args.legs:
            command = (sys.executable, __file__, "--leg", leg, "--log-dir", str(log_dir), "--rounds", str(args.rounds))
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found = json.loads(done.stdout)
            answers[leg] = found["answer"]
            rate = size / found["cpu"] / 1e6
            print(
                f"{leg:9} {found['answer'][0]:9} rows {found['wall']:7.2f} s wall {found['cpu']:7.2f} s CPU "
                f"{rate:6.0f} MB/s of CPU {found['peak'] / 1e6:7.0f} MB"
            )
        different = {tuple(answer) for leg, answer in answers.items() if leg != "scan"}
        if len(different) > 1:
            sys.exit(f"the legs do not agree: {answers}")


if __name__ == "__main__":
    main()
