"""Compare appending: ours from Arrow, Kafka's ``UnifiedLog.appendAsLeader``, and the limit of both, in one run.

``compare_append.py [--records 1000000] [--value-bytes 100] [--rounds 9] [--times 3] [--folder FOLDER]``. The same
records, batches of 16 KB, no compression, Kafka's default sync policy, all in one folder. Every leg is a process that
stays up; each round makes some passes of every leg in turn, the order reversed every other round. Each leg has made
passes before, so that Java is compiled, and one more right before those that count: page cache that was just given back
is quicker to get again than memory that a virtual machine's host has to find. A pass makes a new folder with a new log
in it and appends to it, whichever leg it is; the log is removed outside the clock. Wall time and CPU time, of all
threads, are the leg's own (Java tells CPU time in steps of 10 ms); medians, their ratios to the first leg's, and the
best.

Legs:
  ours          rows of Arrow batches to Kafka batches to a log (`cargo bench --bench append`)
  limit:memory  the bytes of that log copied batch by batch into the same few pages, and a CRC-32C over each
  limit:whole   the same, one after the other into memory as large as the log, already mapped
  limit:fresh   the same into memory that has to be found, as the pages of a growing log have to
  limit:16k     the bytes copied and summed as in limit:memory, each batch written to a file
  limit:256k    the same, written by 256 KB
  kafka:leader  appendAsLeader of batches that were made before the clock runs
  kafka:build   the same, made while it runs
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from compare import Leg, bench

from interop.broker import Witness

BATCH_BYTES = 16_384
WARM = 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    args = parser.parse_args()
    os.environ |= {"ROWS": str(args.records), "VALUE": str(args.value_bytes), "FOLDER": str(args.folder)}
    classes = Witness.build().class_path
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        sizes = [str(args.records), str(args.value_bytes), str(BATCH_BYTES)]
        java = ["java", "-Xmx1g", "-cp", classes, "witness.Main", "append"]
        program = bench("append")
        legs = [
            Leg("ours", [program, "--serve", "append"]),
            *(Leg(f"limit:{name}", [program, "--serve", name]) for name in ("memory", "whole", "fresh", "16k", "256k")),
            Leg("kafka:leader", [*java, "leader", scratch, *sizes]),
            Leg("kafka:build", [*java, "build", scratch, *sizes]),
        ]
        for leg in legs:
            leg.start()
            for _ in range(WARM):
                leg.once()
        for number in range(args.rounds):
            for leg in legs if number % 2 == 0 else legs[::-1]:
                leg.once()
                for _ in range(args.times):
                    wall, cpu = leg.once()
                    leg.walls.append(wall)
                    leg.cpus.append(cpu)
        for leg in legs:
            leg.stop()
    each = 1e9 / args.records
    load = f"load {os.getloadavg()[0]:.1f}"
    print(f"{args.records} records of {args.value_bytes} B, {args.rounds} x {args.times} passes; medians, best; {load}")
    print(f"{'leg':14} {'wall ns':>8} {'ratio':>6} {'best':>6} {'cpu ns':>8} {'ratio':>6} {'best':>6}")
    base_wall, base_cpu = (statistics.median(of) for of in (legs[0].walls, legs[0].cpus))
    for leg in legs:
        wall, cpu = statistics.median(leg.walls), statistics.median(leg.cpus)
        walls = f"{wall * each:8.1f} {wall / base_wall:6.2f} {min(leg.walls) * each:6.1f}"
        print(f"{leg.name:14} {walls} {cpu * each:8.1f} {cpu / base_cpu:6.2f} {min(leg.cpus) * each:6.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
