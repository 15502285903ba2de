"""Spark over Kafka's files against the ceiling of Spark's own pipe, in one session, turn by turn.

The ceiling legs send batches that exist beforehand: the topic's own first batches, again and again, in the same tasks
and to the same number of rows. What is left to a reader is the ratio.

    python spark_read.py LOG_DIR --topics v100,v1k            # a table; ratios are what counts on a shared machine
    python spark_read.py LOG_DIR --serve map:v100:unix        # one leg; a pass for each line on standard input

Legs: ``map`` and ``source`` read, ``map-ceiling`` and ``source-ceiling`` send what they have; ``map@1m`` reads
in batches of another size, ``map@ahead`` and ``map@alone`` with and without decoding ahead.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import spark_read_source as source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEGS = ("map-ceiling", "map", "source-ceiling", "source")
CLOCK = os.sysconf("SC_CLK_TCK")


def session(cores: int, socket: str) -> SparkSession:
    """Start a session; workers must find the module beside this file."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    here = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    builder = SparkSession.builder.master(f"local[{cores}]").appName("kafkalog bench")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": str(socket == "unix").lower(),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(source.Bench)
    return spark


class Reads:
    """The frames of one topic, each over the same tasks."""

    def __init__(self, spark: SparkSession, options: dict[str, Any], times: int) -> None:
        from kafkalog.spark.options import parse
        from kafkalog.spark.planning import plan_splits, slots

        asked = parse(options)
        self.spark = spark
        self.columns = asked.columns
        planned = plan_splits(asked, slots(spark))
        self.splits = [replace(split, ranges=split.ranges * times) for split in planned]
        self.bytes = sum(split.bytes for split in self.splits)

    @cached_property
    def counts(self) -> list[int]:
        """Rows of each split."""
        from kafkalog.spark.rows import rows

        counted = [replace(split, scan=replace(split.scan, columns=("offset",))) for split in self.splits]
        return [sum(batch.num_rows for batch in rows(split)) for split in counted]

    def frame(self, leg: str) -> DataFrame:
        """Make the frame of a leg."""
        from kafkalog.spark.columns import ddl
        from kafkalog.spark.map_in_arrow import read_splits
        from kafkalog.spark.options import parse
        from kafkalog.spark.planning import frame_of

        ceiling = leg.endswith("-ceiling")
        leg, *changes = leg.split("@")
        scan = self.splits[0].scan
        for change in changes:
            if change in {"ahead", "alone"}:
                scan = replace(scan, decode_ahead=change == "ahead")
            else:
                scan = replace(scan, batch_bytes=parse({"path": "/", "batchBytes": change}).batch_bytes)
        splits = [replace(split, scan=scan) for split in self.splits]
        if leg.startswith("map"):
            tasks = frame_of(self.spark, splits)
            function = source.ceiling_function(self.counts) if ceiling else read_splits
            return tasks.mapInArrow(function, ddl(self.columns))
        given = [[split.to_json(), rows if ceiling else None] for split, rows in zip(splits, self.counts, strict=True)]
        return self.spark.read.format("kafkalog-bench").schema(ddl(self.columns)).load(json.dumps(given))


def spent() -> float:
    """Processor seconds of this process and all below it, the JVM and its workers."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            fields = text[text.rindex(")") + 2 :].split()
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / CLOCK
    total = 0.0
    for process, own in seconds.items():
        above = process
        while above not in {0, os.getpid()}:
            above = parents.get(above, 0)
        total += own if above else 0.0
    return total


def one_pass(frame: DataFrame) -> tuple[float, float]:
    """Send all rows to nowhere; wall and processor seconds."""
    busy, begun = spent(), time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    wall = time.perf_counter() - begun
    return wall, spent() - busy


def compare(args: argparse.Namespace, socket: str) -> None:
    """Print a table of one kind of socket."""
    spark = session(args.cores, socket)
    for topic in args.topics.split(","):
        options = {"path": args.logs, "subscribe": topic, "columns": args.columns, "splitBytes": args.split_bytes}
        options |= {"batchBytes": args.batch_bytes, "batchRows": args.batch_rows, "decodeAhead": args.decode_ahead}
        reads = Reads(spark, options, args.times)
        legs = args.legs.split(",")
        frames = {leg: reads.frame(leg) for leg in legs}
        for leg in legs * 2:
            one_pass(frames[leg])
        walls: dict[str, list[float]] = {leg: [] for leg in legs}
        busy: dict[str, list[float]] = {leg: [] for leg in legs}
        for round_ in range(args.rounds):
            for leg in legs if round_ % 2 == 0 else legs[::-1]:
                wall, cpu = one_pass(frames[leg])
                walls[leg].append(wall)
                busy[leg].append(cpu)
        rows = sum(reads.counts)
        print(f"{topic}: {rows:,} rows, {reads.bytes / 1e6:,.0f} MB of log, {len(reads.splits)} tasks, ", end="")
        print(f"local[{args.cores}], {socket}, medians of {args.rounds} rounds; ratios are medians of the rounds'")
        for leg in legs:
            base = "map-ceiling" if leg.startswith("map") else "source-ceiling"
            line = f"  {leg:15} {rows / statistics.median(walls[leg]) / 1e6:6.2f} M rows/s"
            line += f"  {statistics.median(busy[leg]) / rows * 1e9:6.0f} ns/row cpu"
            if base in walls:
                ratio = statistics.median(a / b for a, b in zip(walls[leg], walls[base], strict=True))
                cpu = statistics.median(a / b for a, b in zip(busy[leg], busy[base], strict=True))
                line += f"  {ratio:5.2f}x wall  {cpu:5.2f}x cpu of its ceiling"
            print(line, flush=True)
    spark.stop()


def serve(args: argparse.Namespace) -> None:
    """Answer every line on standard input with one pass."""
    leg, topic, socket = args.serve.split(":")
    spark = session(args.cores, socket)
    reads = Reads(spark, {"path": args.logs, "subscribe": topic, "columns": args.columns}, args.times)
    frame, rows = reads.frame(leg), sum(reads.counts) // args.times
    print('{"ready": true}', flush=True)
    for _ in sys.stdin:
        wall, _ = one_pass(frame)
        found = {"records": rows, "value_bytes": None, "seconds": wall, "first_s": None, "times": args.times}
        print(json.dumps(found), flush=True)


def main() -> None:
    """Read the command line and run."""
    from kafkalog import _core

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", help="log dir")
    parser.add_argument("--topics", default="v100")
    parser.add_argument("--legs", default=",".join(LEGS))
    parser.add_argument("--sockets", default="tcp,unix")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--times", type=int, default=3, help="read the topic so often in each task")
    parser.add_argument("--columns")
    parser.add_argument("--split-bytes")
    parser.add_argument("--batch-bytes")
    parser.add_argument("--batch-rows")
    parser.add_argument("--decode-ahead")
    parser.add_argument("--serve", metavar="LEG:TOPIC:SOCKET")
    args = parser.parse_args()
    if _core.build_profile != "release":
        sys.exit("this is a debug build: its numbers say nothing")
    if args.serve:
        serve(args)
        return
    for socket in args.sockets.split(","):
        compare(args, socket)


if __name__ == "__main__":
    main()
