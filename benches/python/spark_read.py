"""Spark over Kafka's files, compared with the ceiling of Spark's own pipe and with other ways to read the same rows.

    python spark_read.py LOG_DIR --scratch DIR --topic v100          # our two ways and their ceilings
    python spark_read.py LOG_DIR --scratch DIR --topic v100 --legs peers --jars DIR --broker HOST:PORT --broker-pid PID

Needs a log dir (``generate.py`` makes one, or any broker), a release build, and for the Kafka legs a running broker
that has the same topic, with the jars of spark-sql-kafka-0-10. Each session (a number of slots, a kind of socket) is a
process that stays up. A pass is one Spark job; each round makes one pass of every leg in turn, the order reversed every
other round. Jobs are long: our legs read a topic whose partitions are linked ``--times`` times under further numbers in
``--scratch``, the Kafka source reads its own as often in one job. What sends little to the JVM (``before``) wants
``--times 16`` or more: its jobs are so short otherwise that Spark's own start of one is half of them. Processor time is
that of the session's whole process tree, and the broker's.

Groups of legs for ``--legs``: read peers before exports skew splits batches ahead micro. A leg of one's own is
``NAME[:OPTION=VALUE...][@CORES-SOCKET]``, as ``map:splitBytes=64m:columns=value@2-unix``; names: see ``spark_legs.py``.
Ratios are medians of those of the rounds, and in parentheses of the best rounds; above 1 under ``wall`` and ``cpu`` is
worse than the other leg.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from processes import Spent, busy_seconds, tree_seconds, tree_spent
from spark_data import SKEWED, make_long, make_skewed

SESSIONS = ("1-tcp", "1-unix", "2-tcp", "2-unix")
GROUPS = {
    "read": [f"{leg}@{s}" for s in SESSIONS for leg in ("map-ceiling", "map", "source-ceiling", "source")],
    "peers": ["kafka@2-tcp", "parquet@2-tcp", "map@2-tcp", "map@2-unix", "source@2-unix", "map-ceiling@2-unix"],
    "before": [
        *(f"{leg}@2-tcp" for leg in ("kafka-bytes", "kafka-sizes", "kafka-count")),
        *(f"{leg}@2-unix" for leg in ("transform", "sizes", "count")),
    ],
    "exports": ["kafka-write@2-tcp", "export@2-tcp"],
    "skew": ["even@2-unix", "skewed@2-unix"],
    "splits": [f"map:splitBytes={size}m@2-unix" for size in (8, 16, 32, 64, 128, 256, 512)],
    "batches": [f"map:batchBytes={size}k@2-unix" for size in (256, 512, 1024, 2048, 4096, 8192)],
    "micro": ["micro@2-unix-fresh"],
}
# What a leg is compared with.
AGAINST = {
    "map": ("map-ceiling", "kafka", "parquet"),
    "source": ("source-ceiling", "kafka", "parquet"),
    "transform": ("kafka-bytes",),
    "sizes": ("kafka-sizes",),
    "count": ("kafka-count",),
    "export": ("kafka-write",),
    "skewed": ("even",),
}


@dataclass
class Leg:
    """One column of the comparison."""

    text: str
    walls: list[float] = field(default_factory=list)
    parts: list[Spent] = field(default_factory=list)
    brokers: list[float] = field(default_factory=list)
    rows: int = 0

    def __post_init__(self) -> None:
        what, _, self.session = self.text.partition("@")
        self.session = self.session or "2-unix"
        self.name, *options = what.split(":")
        self.options = dict(option.split("=", 1) for option in options)

    def cpus(self) -> list[float]:
        """Processor seconds of every round, without the broker's."""
        return [each.seconds for each in self.parts]

    def spent(self) -> list[float]:
        """Processor seconds of every round, with the broker's."""
        return [a + b for a, b in zip(self.cpus(), self.brokers, strict=True)]


class Session:
    """A process with a Spark session."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        cores, socket, *fresh = name.split("-")
        settings = {**settings, "fresh": bool(fresh)}
        here = str(Path(__file__).parent)
        above = os.environ.get("PYTHONPATH")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *([above] if above else [])])}
        command = [sys.executable, str(Path(__file__).with_name("spark_legs.py")), cores, socket, json.dumps(settings)]
        with (Path(settings["scratch"]) / "errors.txt").open("ab") as errors:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            self.process = subprocess.Popen(command, **pipes, text=True, env=environment)

    def answer(self) -> dict[str, Any]:
        for line in self.process.stdout or ():
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        sys.exit(f"a session ended with {self.process.wait()}; see errors.txt in the scratch folder")

    def ask(self, leg: Leg) -> dict[str, Any]:
        print(json.dumps({"leg": leg.name, "options": leg.options}), file=self.process.stdin, flush=True)
        return self.answer()

    def stop(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(60)


def one_pass(leg: Leg, session: Session, broker: int | None) -> dict[str, Any]:
    """Run one job, and measure it."""
    before, before_broker = tree_spent(session.process.pid), tree_seconds(broker) if broker else 0.0
    found = session.ask(leg)
    leg.rows = found["rows"]
    leg.walls.append(found["seconds"])
    leg.parts.append(tree_spent(session.process.pid).since(before))
    used = tree_seconds(broker) - before_broker if broker and leg.name.startswith("kafka") else 0.0
    leg.brokers.append(used)
    return found


def run(legs: list[Leg], args: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Start the sessions, warm up every leg, and run the rounds."""
    sessions = {name: Session(name, settings) for name in dict.fromkeys(leg.session for leg in legs)}
    for session in sessions.values():
        session.answer()
    try:
        micro = [leg for leg in legs if leg.name == "micro"]
        for leg in micro:
            print(json.dumps(sessions[leg.session].ask(leg)["figures"], indent=1))
        legs = [leg for leg in legs if leg not in micro]
        for leg in legs:
            for _ in range(1 if leg.name.startswith(("kafka", "export")) else args.warm):
                sessions[leg.session].ask(leg)
        begun, busy, ours = time.perf_counter(), busy_seconds(), 0.0
        for turn in range(args.rounds):
            for leg in legs if turn % 2 == 0 else legs[::-1]:
                one_pass(leg, sessions[leg.session], args.broker_pid)
                ours += leg.parts[-1].seconds + leg.brokers[-1]
        if legs and args.rounds:
            others = max(busy_seconds() - busy - ours, 0.0) / (time.perf_counter() - begun)
            print_table(legs, args, others)
    finally:
        for session in sessions.values():
            session.stop()


def print_table(legs: list[Leg], args: argparse.Namespace, others: float) -> None:
    """Print medians, and each leg's ratios to those it is compared with."""
    print(f"{args.topic}, medians of {args.rounds} rounds; other processes used {others:.2f} cores")
    print("cpu ns a row: all, of the JVM and of Python (program + kernel), of the broker")
    head = f"{'leg':42} {'rows':>9} {'M rows/s':>9} {'spread':>7}"
    print(f"{head} {'cpu':>5} {'JVM':>9} {'Python':>9} {'broker':>6}  against")
    by_name = {(leg.name, leg.session, not leg.options): leg for leg in legs}
    for leg in legs:
        wall = statistics.median(leg.walls)
        spread = (max(leg.walls) - min(leg.walls)) / wall
        each = 1e9 / leg.rows
        line = f"{leg.text:42} {leg.rows:9} {leg.rows / wall / 1e6:9.2f} {spread:7.0%}"
        parts = [statistics.median(part) * each for part in zip(*map(astuple, leg.parts), strict=True)]
        jvm, python = (f"{parts[at]:.0f} + {parts[at + 1]:.0f}" for at in (0, 2))
        line += f" {statistics.median(leg.cpus()) * each:5.0f} {jvm:>9} {python:>9}"
        line += f" {statistics.median(leg.brokers) * each:6.0f}"
        for name in AGAINST.get(leg.name, ()):
            # The peers need no socket, so they run in one session only.
            same = by_name.get((name, leg.session, True))
            other = same or next(
                (each for each in legs if each.name == name and each.session[0] == leg.session[0]), None
            )
            if other is not None and (same is not None or not name.endswith("-ceiling")):
                line += f"  {name} {compared(leg, other)}"
        print(line, flush=True)


def compared(leg: Leg, other: Leg) -> str:
    """Return the ratios of time per row, and those of the best rounds: below 1 the leg is faster."""
    scale = other.rows / leg.rows
    wall = statistics.median(a / b * scale for a, b in zip(leg.walls, other.walls, strict=True))
    cpu = statistics.median(a / b * scale for a, b in zip(leg.spent(), other.spent(), strict=True))
    best_wall = min(leg.walls) / min(other.walls) * scale
    best_cpu = min(leg.spent()) / min(other.spent()) * scale
    faster = f", {1 / wall:.1f}x the rows/s" if wall < 1 / 2 else ""
    return f"{wall:.2f} ({best_wall:.2f}) wall{faster}, {cpu:.2f} ({best_cpu:.2f}) cpu;"


def main() -> None:
    """Parse the command line and run."""
    from kafkalog import _core

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", type=Path, help="log dir; never written to")
    parser.add_argument("--scratch", type=Path, required=True, help="folder for links, skewed logs and output; kept")
    parser.add_argument("--topic", default="v100")
    parser.add_argument("--legs", default="read", help="groups and legs, with commas between them")
    parser.add_argument("--sessions", help="only the legs of these, as 1-tcp,2-unix")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="passes before the rounds")
    parser.add_argument("--times", type=int, default=6, help="how often a job reads the topic")
    parser.add_argument("--kafka-times", type=int, default=3, help="the same for the Kafka source, which takes longer")
    parser.add_argument("--jars", type=Path, help="folder of Spark's Kafka source, its client and commons-pool2")
    parser.add_argument("--broker", metavar="HOST:PORT", help="has the topic as the log dir does")
    parser.add_argument("--broker-pid", type=int, help="counts its processor time")
    parser.add_argument("--heap", default="2g", help="of each JVM")
    args = parser.parse_args()
    if _core.build_profile != "release":
        sys.exit("this is a debug build: its numbers say nothing")
    legs = [Leg(text) for word in args.legs.split(",") for text in GROUPS.get(word, [word])]
    legs = [leg for leg in legs if leg.session in args.sessions.split(",")] if args.sessions else legs
    if any(leg.name.startswith("kafka") for leg in legs) and not (args.jars and args.broker):
        sys.exit("the Kafka legs need --jars and --broker")
    scratch = args.scratch.resolve()
    make_long(args.logs.resolve(), scratch / "logs", args.topic, args.times)
    if any(leg.name in SKEWED for leg in legs):
        make_skewed(args.logs.resolve(), scratch, args.topic)
    settings = {
        "logs": str(args.logs.resolve()),
        "scratch": str(scratch),
        "topic": args.topic,
        "kafka_times": args.kafka_times,
        "jars": sorted(map(str, args.jars.resolve().glob("*.jar"))) if args.jars else [],
        "broker": args.broker,
        "heap": args.heap,
    }
    run(legs, args, settings)


if __name__ == "__main__":
    main()
