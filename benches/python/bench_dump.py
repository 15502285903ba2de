"""Compare `kafkalog dump` with kafka-dump-log: whole processes, the page cache warm, output to /dev/null.

``bench_dump.py FILE... [--rounds 5]``. The two take turns; medians and their ratio for each set of flags. The real tool
makes indexes beside what it reads and cuts others: give it copies.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from interop.broker import Witness  # noqa: E402  (the path is set above)

FLAGS = ([], ["--deep-iteration"], ["--print-data-log"])


def seconds(command: list[str]) -> float:
    """Wall time of one process."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    files = ",".join(options.files)
    java = ["java", "-Xmx1g", "-cp", Witness.build().class_path, "org.apache.kafka.tools.DumpLogSegments"]
    mebibytes = sum(Path(file).stat().st_size for file in options.files) / 2**20
    print(f"{len(options.files)} files, {mebibytes:.1f} MiB")
    for flags in FLAGS:
        ours = [sys.executable, "-m", "kafkalog", "dump", "--files", files, *flags]
        kafka = [*java, "--files", files, *flags]
        seconds(ours)
        times = [(seconds(ours), seconds(kafka)) for _ in range(options.rounds)]
        mine, theirs = (statistics.median(column) for column in zip(*times, strict=True))
        name = " ".join(flags) or "batches"
        print(f"{name:18} ours {mine:7.3f} s  kafka {theirs:7.3f} s  {theirs / mine:6.1f} times faster")


if __name__ == "__main__":
    main()
