"""Cost of ``kafkalog cat`` and ``kafkalog export``, beside pyarrow writing the same table from memory.

``python3 benches/python/output.py LOG_DIR TOPIC... [--rounds 5]``: seconds on the processor, medians, and ratios to
pyarrow's Parquet. A process of its own makes each pass; what such a process takes until it reads is also taken off.

Legs:
  start*     import kafkalog and pyarrow, and its Parquet where that is written
  cat        kafkalog cat: values, a line each
  json       kafkalog cat -J
  export     kafkalog export, Parquet with zstd, of the four columns
  parquet    pyarrow writes a table of those columns, which it holds, as Parquet with zstd: the writing alone
  csv        pyarrow writes the values as CSV, as text and without quotes: the writing alone
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import kafkalog

COLUMNS = "offset,timestamp,key,value"

WRITE = f"""
import sys, time
import pyarrow as pa, pyarrow.csv, pyarrow.parquet
import kafkalog
leg, logs, topic, out = sys.argv[1:]
table = kafkalog.read_table(logs, topics=topic, columns={COLUMNS.split(",")!r})
if leg == "csv":
    table = pa.table({{"value": table["value"].cast(pa.string())}})
before = time.process_time()
if leg == "csv":
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    pyarrow.csv.write_csv(table, out, options)
else:
    pyarrow.parquet.write_table(table, out, compression="zstd")
print(time.process_time() - before)
"""


def seconds(command: list[str], out: Path) -> float:
    """Processor seconds of a process, or those that it prints of itself."""
    with (out / "printed").open("w+b") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command[:5])} ended with {process.returncode}")
        if WRITE in command:
            printed.seek(0)
            return float(printed.read())
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a line for each topic."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs")
    parser.add_argument("topics", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if kafkalog.build_profile != "release":
        sys.exit(f"measures a release build, not {kafkalog.build_profile}")
    python, ours = [sys.executable, "-c"], [sys.executable, "-m", "kafkalog"]
    for topic in arguments.topics:
        with tempfile.TemporaryDirectory(prefix="kafkalog-output-") as scratch:
            out = Path(scratch)
            read = [arguments.logs, "-t", topic]
            target = [arguments.logs, topic, str(out / "written")]
            legs = {
                "parquet": [*python, WRITE, "parquet", *target],
                "csv": [*python, WRITE, "csv", *target],
                "start": [*python, "import kafkalog, pyarrow; kafkalog.scan"],
                "start-export": [*python, "import kafkalog, pyarrow.parquet; kafkalog.scan"],
                "cat": [*ours, "cat", *read],
                "json": [*ours, "cat", *read, "-J"],
                "export": [*ours, "export", arguments.logs, "-t", topic, str(out / "e.parquet"), "--columns", COLUMNS],
            }
            found: dict[str, list[float]] = {name: [] for name in legs}
            for turn in range(arguments.rounds + 1):
                for name, command in legs.items():
                    for file in out.glob("e.parquet*"):
                        file.unlink()
                    spent = seconds(command, out)
                    # The first round warms up.
                    if turn:
                        found[name].append(spent)
        medians = {name: statistics.median(each) for name, each in found.items()}
        print(f"{topic}: load {os.getloadavg()[0]:.1f}")
        for name, each in medians.items():
            base = {"cat": "start", "json": "start", "export": "start-export"}.get(name)
            after_start = each - (medians[base] if base else 0)
            print(
                f"  {name:12} {each:7.3f} s {each / medians['parquet']:6.2f}  after start {after_start:7.3f} s", end=""
            )
            print(f" {after_start / medians['parquet']:6.2f}")


if __name__ == "__main__":
    main()
