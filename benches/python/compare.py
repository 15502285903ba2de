"""Compare legs on one set of partition folders: round-robin, medians, ratios.

``compare.py FOLDER... [--legs LEG...] [--rounds 5]``. Every leg is a process that stays up; each round makes one pass
of every leg in turn, the order reversed every other round. The page cache is warm, and each leg has made two passes
before. Wall time is the leg's own, CPU time that of its process from /proc. Ratios are to the first leg given.

With ``--paired`` all legs run on one processor, and each leg's passes are compared with those of the first one that
they follow or go before: the median of the differences, and the interval that it lies in with 95 %. That settles
differences of a nanosecond a record where medians wander by ten.

Legs:
  view[:N] binary[:N]   kafkalog.scan from Python through the C stream (offset, timestamp, key, value), N threads
  stream:LAYOUT         the same without planning, by one thread: what Python adds to "rust:view held"
  all-view all-binary   the same with the default columns
  skip[:N] committed[:N] "view" with on_corrupt="skip"; with isolation_level="read_committed"
  verify[:N]            kafkalog.verify by N threads: of the same bytes all that verify looks at
  batches               kafkalog.scan_batches: headers and checksums
  rust:LEG              a leg of `cargo bench --bench read`, as "rust:view" or "rust:view x2": the same reading without
                        Python
  limit                 `cargo bench --bench limit`: map the file, read it once, CRC-32C of every batch
  java:copy java:sizes  Kafka's FileRecords, checksums verified; key and value as arrays / only examined
  dump:ours dump:kafka  `kafkalog dump` and Kafka's DumpLogSegments with --print-data-log, a fresh process a pass
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from interop.broker import Witness  # noqa: E402  (the path is set above)

TICK = os.sysconf("SC_CLK_TCK")
DEFAULT = ["limit", "view", "binary", "rust:limit x2", "view:2", "java:copy"]
COLUMNS = "offset,timestamp,key,value"
EVERY = "key,value,topic,partition,offset,timestamp,timestampType,headers"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of the children it has waited for."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    words = text.rpartition(")")[2].split()
    return sum(int(w) for w in words[11:15]) / TICK


@dataclass
class Leg:
    """One competitor."""

    name: str
    command: list[str]
    serve: bool = True
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    records: int = 0
    value_bytes: int | None = None
    anon_kib: int | None = None
    process: subprocess.Popen[str] | None = None

    @property
    def up(self) -> subprocess.Popen[str]:
        """The process of a leg that stays up."""
        if self.process is None:
            sys.exit(f"{self.name} was not started")
        return self.process

    def start(self) -> None:
        """Bring it up and warm it."""
        if self.serve:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.read()
        for _ in range(2):
            self.once()

    def read(self) -> dict[str, Any]:
        line = self.up.stdout.readline() if self.up.stdout else ""
        if not line:
            sys.exit(f"{self.name} ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def once(self) -> tuple[float, float]:
        """One pass: wall and CPU seconds. A leg may tell its own CPU seconds, without what is no part of it."""
        if not self.serve:
            before = os.times()
            begun = time.perf_counter()
            subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wall = time.perf_counter() - begun
            after = os.times()
            spent = after.children_user + after.children_system - before.children_user - before.children_system
            return wall, spent
        before_cpu = cpu_seconds(self.up.pid)
        print(file=self.up.stdin, flush=True)
        answer = self.read()
        self.records = int(answer.get("records") or self.records)
        self.value_bytes = answer.get("value_bytes") or self.value_bytes
        self.anon_kib = answer.get("anon_kib", self.anon_kib)
        return float(answer["seconds"]), float(answer.get("cpu") or cpu_seconds(self.up.pid) - before_cpu)

    def stop(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
            self.process.wait(30)


def bench(name: str) -> str:
    """Build a bench of the crate and give its path."""
    done = subprocess.run(
        ["cargo", "bench", "--bench", name, "--no-run", "--message-format", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return str(message["executable"])
    sys.exit(f"no such bench: {name}")


def of_python(kind: str, option: str) -> list[str]:
    """Arguments of ``legs.py`` for one of its legs, without the folders; none for others."""
    threads = option or "1"
    return {
        "view": ["scan", "view", threads, COLUMNS],
        "binary": ["scan", "binary", threads, COLUMNS],
        "all-view": ["scan", "view", threads, EVERY],
        "all-binary": ["scan", "binary", threads, EVERY],
        "skip": ["skip", "view", threads, COLUMNS],
        "committed": ["committed", "view", threads, COLUMNS],
        "stream": ["stream", option, "1", COLUMNS],
        "verify": ["verify", threads],
        "batches": ["batches"],
    }.get(kind, [])


def legs(names: list[str], folders: list[str]) -> list[Leg]:
    files = sorted(str(f) for folder in folders for f in Path(folder).glob("*.log"))
    here = str(Path(__file__).parent / "legs.py")
    witness = Witness.build() if any(n.startswith("java") or n == "dump:kafka" for n in names) else None
    made = []
    for name in names:
        kind, _, option = name.partition(":")
        ours = of_python(kind, option)
        if ours:
            made.append(Leg(name, [sys.executable, here, *ours, *folders]))
        elif kind == "limit":
            made.append(Leg(name, [bench("limit"), "--serve", *files]))
        elif kind == "rust":
            made.append(Leg(name, [bench("read"), "--serve", option, *folders]))
        elif kind == "java" and witness is not None:
            command = ["java", "-Xmx1g", "-cp", witness.class_path, "witness.Main", "pass", option, *files]
            made.append(Leg(name, command))
        elif name == "dump:ours":
            command = [sys.executable, "-m", "kafkalog", "dump", "--files", ",".join(files), "--print-data-log"]
            made.append(Leg(name, command, serve=False))
        elif name == "dump:kafka" and witness is not None:
            tool = ["java", "-Xmx256m", "-cp", witness.class_path, "org.apache.kafka.tools.DumpLogSegments"]
            made.append(Leg(name, [*tool, "--files", ",".join(files), "--print-data-log"], serve=False))
        else:
            sys.exit(f"no such leg: {name}")
    return made


def median_between(values: list[float]) -> tuple[float, float, float]:
    """Give the median, and the two values between which it lies with 95 % (order statistics)."""
    values = sorted(values)
    reach = 0.98 * len(values) ** 0.5
    low, high = int(len(values) / 2 - reach), int(len(values) / 2 + reach)
    return statistics.median(values), values[max(low, 0)], values[min(high, len(values) - 1)]


def print_differences(chosen: list[Leg], records: int) -> None:
    first = chosen[0]
    for leg in chosen[1:]:
        for name, ours, theirs in (("wall", leg.walls, first.walls), ("cpu", leg.cpus, first.cpus)):
            differences = [(a - b) * 1e9 / records for a, b in zip(ours, theirs, strict=True)]
            median, low, high = median_between(differences)
            print(f"{leg.name} - {first.name}: {name} {median:+.2f} ns a record, {low:+.2f} to {high:+.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--legs", nargs="+", default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--paired", action="store_true")
    args = parser.parse_args()
    size = sum(f.stat().st_size for folder in args.folders for f in Path(folder).glob("*.log"))
    chosen = legs(args.legs, args.folders)
    if args.paired:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for leg in chosen:
        leg.start()
    for number in range(args.rounds):
        for leg in chosen if number % 2 == 0 else chosen[::-1]:
            wall, cpu = leg.once()
            leg.walls.append(wall)
            leg.cpus.append(cpu)
    for leg in chosen:
        leg.stop()
    counted = {leg.records for leg in chosen if leg.records}
    records = max(counted, default=0)
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{records} records, {size / 1e6:.0f} MB of .log files, {args.rounds} rounds, medians; {load}")
    print(f"{'leg':14} {'ms':>8} {'ns/record':>10} {'cpu ns':>8} {'GB/s':>6} {'ratio':>6} {'spread':>7}  anonymous MiB")
    base = statistics.median(chosen[0].walls)
    for leg in chosen:
        wall, cpu = statistics.median(leg.walls), statistics.median(leg.cpus)
        spread = (max(leg.walls) - min(leg.walls)) / wall
        memory = f"{leg.anon_kib / 1024:.1f}" if leg.anon_kib is not None else ""
        each = f"{wall * 1e9 / records:10.1f} {cpu * 1e9 / records:8.1f}" if records else " " * 19
        rate = f"{size / wall / 1e9:6.2f} {wall / base:6.2f} {spread:7.0%}"
        print(f"{leg.name:14} {wall * 1e3:8.1f} {each} {rate}  {memory}")
    if args.paired and records:
        print_differences(chosen, records)
    if len(counted) > 1:
        print(f"legs disagree on the number of records: {sorted(counted)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
