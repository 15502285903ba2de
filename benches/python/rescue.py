"""Cost of a rescue beside ``cp`` of the bytes that it takes, and of a plan of many partitions.

``python3 benches/python/rescue.py FOLDER`` makes the disk of a dead broker in ``FOLDER``, which it removes at the end,
then copies it with ``cp -r`` and ``sync``, and rescues it, in turn. A rescue reads every byte twice and compares every
checksum twice: for its plan, and as it writes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kafkalog
from kafkalog import LogConfig, LogWriter, Record

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC_ID = "Kg9G5ejeSYObKLC0PvPpSw"
META = "version=1\nnode.id=1\ncluster.id=uxrVcxm4nNho-w5vaE35kg\ndirectory.id=agWSv5uSTbmkO_DNaK0Yww\n"
BATCH_RECORDS, VALUE_BYTES = 500, 1000


def make_disk(root: Path, partitions: int, batches: int, batch_records: int = BATCH_RECORDS) -> Path:
    """Write a partition, and copies of it."""
    root.mkdir(parents=True)
    (root / "meta.properties").write_text(META)
    values = os.urandom(batch_records * VALUE_BYTES)
    records = [
        Record(value=values[at : at + VALUE_BYTES], key=str(at).encode()) for at in range(0, len(values), VALUE_BYTES)
    ]
    config = LogConfig(segment_bytes=256 << 20)
    with LogWriter(root, "orders", 0, config=config, topic_id=TOPIC_ID, leader_epoch=3) as writer:
        for _ in range(batches):
            writer.append(records)
    for n in range(1, partitions):
        shutil.copytree(root / "orders-0", root / f"orders-{n}")
    (root / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (root / "replication-offset-checkpoint").unlink(missing_ok=True)
    return root


def seconds(run: Callable[[], object]) -> float:
    """Time one call, with what it leaves to the device."""
    os.sync()
    start = time.perf_counter()
    run()
    os.sync()
    return time.perf_counter() - start


def compare(scratch: Path, partitions: int, megabytes: int, rounds: int) -> None:
    """Print medians of ``cp`` and of a rescue, and their ratio."""
    batches = max(megabytes * 1_000_000 // partitions // (BATCH_RECORDS * VALUE_BYTES), 1)
    disk = make_disk(scratch / "disk", partitions, batches)
    size = sum(each.stat().st_size for each in disk.rglob("*.log"))
    out = scratch / "out"
    legs: dict[str, Callable[[], object]] = {
        "cp": lambda: subprocess.run(["cp", "-r", str(disk), str(out)], check=True),
        "rescue": lambda: kafkalog.rescue(disk, out),
        "plan": lambda: kafkalog.rescue(disk, dry_run=True),
    }
    taken: dict[str, list[float]] = {name: [] for name in legs}
    for _ in range(rounds):
        for name, run in legs.items():
            taken[name].append(seconds(run))
            shutil.rmtree(out, ignore_errors=True)
    middle = {name: statistics.median(each) for name, each in taken.items()}
    for name, each in taken.items():
        rate, ratio = size / 1e6 / middle[name], middle[name] / middle["cp"]
        times = " ".join(f"{one:.2f}" for one in each)
        print(f"{name:8}{middle[name]:7.2f} s {rate:7.0f} MB/s, {ratio:.2f}x cp ({times})")
    shutil.rmtree(disk)


def plan(scratch: Path, partitions: int, rounds: int) -> None:
    """Print the time of a plan of small partitions."""
    disk = make_disk(scratch / "many", partitions, 1, 4)
    taken = [seconds(lambda: kafkalog.rescue(disk, dry_run=True)) for _ in range(rounds)]
    times = " ".join(f"{each:.2f}" for each in taken)
    print(f"plan of {partitions} partitions: {statistics.median(taken):.2f} s ({times})")
    shutil.rmtree(disk)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder, on the device to measure")
    parser.add_argument("--megabytes", type=int, default=2000, help="of all partitions; default 2000")
    parser.add_argument("--partitions", type=int, default=4, help="of these; default 4")
    parser.add_argument("--plan", type=int, default=10_000, help="partitions of the plan; default 10000, 0 for no plan")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if kafkalog.build_profile != "release":
        sys.exit(f"measures a release build, not {kafkalog.build_profile}")
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    arguments.folder.mkdir()
    try:
        compare(arguments.folder, arguments.partitions, arguments.megabytes, arguments.rounds)
        if arguments.plan:
            plan(arguments.folder, arguments.plan, 3)
    finally:
        shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
