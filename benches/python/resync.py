"""Time of reading past damage where everything looks like a batch: it grows as the file does.

``python3 benches/python/resync.py`` writes bytes of each kind of ``ADVERSARIAL`` (``tests/damages.py``), of sizes that
double, and reads them with ``on_corrupt="skip"``: the process's own time, in MB a second. A figure that halves from one
size to the next would be quadratic time.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import kafkalog

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import damages

ROUNDS = 3
SIZES = [1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20]


def seconds(log: Path, data: bytes) -> float:
    """Give the shortest time of some rounds."""
    (log / f"{0:020}.log").write_bytes(data)
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        reader = kafkalog.scan_batches(log, on_corrupt="skip")
        rows = reader.read_all().num_rows
        taken.append(time.process_time() - start)
        if rows or reader.metrics["bytes_lost"] != len(data):
            sys.exit(f"{rows} batches")
    return min(taken)


def main() -> None:
    """Print a line a kind."""
    print(f"{kafkalog.build_profile} build, MB/s for files of {', '.join(f'{size >> 20}' for size in SIZES)} MiB")
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "t-0"
        log.mkdir()
        (log / f"{1000:020}.log").touch()
        for kind, make in damages.ADVERSARIAL.items():
            rates = [size / 1e6 / seconds(log, make(size)) for size in SIZES]
            print(f"{kind:16}" + "".join(f"{rate:8.0f}" for rate in rates))


if __name__ == "__main__":
    main()
