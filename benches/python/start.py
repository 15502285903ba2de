"""Cost of starting on a log dir of many partitions: fresh processes, beside a listing of the same files.

``python3 benches/python/start.py [--partitions 10000] [--rounds 5] [--spark]`` makes topics of a hundred
partitions, each of four segments, and runs the legs in turn: medians of wall and CPU seconds, and the ratio of CPU time
to the listing's. The names of files are in the kernel's cache. All legs must find what was written.

Legs:
  listing   every folder listed, every file's length requested: what any start needs
  import    import kafkalog
  topic     kafkalog.scan of one topic, until its first batch
  offsets   kafkalog offsets
  stats     kafkalog stats
  ls        kafkalog ls
  read      the offsets of all records, by kafkalog.scan
  spark     with --spark: from spark.read until the first row is there, in a session that has run a job; wall time
            alone
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kafkalog

TOPIC_PARTITIONS, SEGMENTS, RECORDS = 100, 4, 10

LISTING = """
import os, sys
files = 0
with os.scandir(sys.argv[1]) as folders:
    for folder in folders:
        if folder.is_dir():
            with os.scandir(folder) as entries:
                files += sum(entry.stat().st_size >= 0 for entry in entries if entry.name.endswith(".log"))
print(files)
"""

TOPIC = """
import sys
import kafkalog
print(next(iter(kafkalog.scan(sys.argv[1], topics="topic-0"))).num_rows)
"""

READ = """
import sys
import kafkalog
print(sum(batch.num_rows for batch in kafkalog.scan(sys.argv[1], columns=["offset"])))
"""

SPARK = """
import os, sys, time
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
from pyspark.sql import SparkSession
import kafkalog.spark
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.range(2).collect()
begun = time.perf_counter()
kafkalog.spark.read(spark, sys.argv[1]).select("offset").limit(1).collect()
print(time.perf_counter() - begun)
"""


def make(log_dir: Path, partitions: int) -> None:
    """Write one partition and copies of it."""
    (log_dir / "meta.properties").write_text("version=1\n")
    with kafkalog.LogWriter(log_dir, "first", 0, leader_epoch=0) as writer:
        for segment in range(SEGMENTS):
            if segment:
                writer.roll()
            writer.append([kafkalog.Record(value=b"value", key=b"%d" % n) for n in range(RECORDS)])
    first = log_dir / "first-0"
    files = [each for each in first.iterdir() if each.is_file()]
    for number in range(partitions):
        folder = log_dir / f"topic-{number // TOPIC_PARTITIONS}-{number % TOPIC_PARTITIONS}"
        folder.mkdir()
        for file in files:
            # A topic id would have to differ from topic to topic.
            if file.name != "partition.metadata":
                shutil.copyfile(file, folder / file.name)
    shutil.rmtree(first)
    # A broker's checkpoints have a line for each partition.
    for name, offset in (("recovery-point", 0), ("replication", SEGMENTS * RECORDS), ("log-start", 0)):
        lines = [f"topic-{n // TOPIC_PARTITIONS} {n % TOPIC_PARTITIONS} {offset}\n" for n in range(partitions)]
        (log_dir / f"{name}-offset-checkpoint").write_text(f"0\n{partitions}\n{''.join(lines)}")


def run(command: list[str]) -> tuple[str, float, float]:
    """Run a process; its output, wall and CPU seconds."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command[:5])} ended with {process.returncode}")
        wall = time.perf_counter() - begun
        output.seek(0)
        return output.read().decode(), wall, used.ru_utime + used.ru_stime


def count(name: str, answer: str) -> int:
    """Return the result of a leg, as a number that is known beforehand."""
    match name:
        case "listing" | "topic" | "read":
            return int(answer)
        case "offsets" | "ls" | "stats":
            return answer.count("\ntopic-") + answer.startswith("topic-")
    return 0


def main() -> None:
    """Print a line for each leg."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--spark", action="store_true", help="also how long Spark plans")
    arguments = parser.parse_args()
    if kafkalog.build_profile != "release":
        sys.exit(f"measures a release build, not {kafkalog.build_profile}")
    partitions = arguments.partitions
    with tempfile.TemporaryDirectory(prefix="kafkalog-start-") as scratch:
        make(Path(scratch), partitions)
        python, ours = [sys.executable, "-c"], [sys.executable, "-m", "kafkalog"]
        legs = {
            "listing": ([*python, LISTING, scratch], partitions * SEGMENTS),
            "import": ([*python, "import kafkalog"], 0),
            "topic": ([*python, TOPIC, scratch], None),
            "offsets": ([*ours, "offsets", scratch], partitions),
            "stats": ([*ours, "stats", scratch], None),
            "ls": ([*ours, "ls", scratch], partitions * SEGMENTS),
            "read": ([*python, READ, scratch], partitions * SEGMENTS * RECORDS),
        }
        if arguments.spark:
            legs["spark"] = ([*python, SPARK, scratch], 0)
        walls: dict[str, list[float]] = {name: [] for name in legs}
        cpus: dict[str, list[float]] = {name: [] for name in legs}
        for turn in range(arguments.rounds + 1):
            for name, (command, expected) in legs.items():
                answer, wall, cpu = run(command)
                found = count(name, answer)
                if expected is not None and found != expected:
                    sys.exit(f"{name} found {found}, not {expected}")
                # The first round warms up.
                if turn:
                    walls[name].append(float(answer.split()[-1]) if name == "spark" else wall)
                    cpus[name].append(cpu)
    print(f"{partitions} partitions of {SEGMENTS} segments; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print("leg        wall s    cpu s  x listing")
    limit = statistics.median(cpus["listing"])
    for name in legs:
        wall, cpu = statistics.median(walls[name]), statistics.median(cpus[name])
        spent = f"{cpu:8.3f} {cpu / limit:10.2f}" if name != "spark" else ""
        print(f"{name:8} {wall:8.3f} {spent}")


if __name__ == "__main__":
    main()
