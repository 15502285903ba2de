"""Speed of a search in a log, beside GNU grep on the same file and ``cat | grep``.

``python3 benches/python/grep.py [--megabytes 512] [--rounds 5] [--codec CODEC,...] [--bytes 100,1000]``: processor
and wall seconds of one pass, medians of the rounds in turns, and GB of records a second. Logs are made for it; the
needle is in one of 10,000 values.

Legs:
  grep      grep -c -a -F on the .log, which counts lines; of a compressed log it finds nothing
  cat|grep  kafkalog cat and grep -c, as users do it
  unpacked  decompression alone, by pyarrow: the same C libraries
  offsets   scan of the offsets alone: reading, checksums and decompression
  literal   scan(containing=)
  literal:2 the same by two threads
  expression, folded, classes
            scan(matching=) with a literal in it, without regard to case, and without any literal
"""

from __future__ import annotations

import argparse
import random
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEEDLE = "needle-4711"


def make(folder: Path, codec: str, size: int, total: int) -> Path:
    """Write a log of JSON values of this size; return the segment."""
    chance = random.Random(7)  # noqa: S311 - to be repeated, not secret
    words = ["orders", "customer", "created", "status", "amount", "currency", "shipping", "address", "null", "true"]
    config = kafkalog.LogConfig(segment_bytes=(1 << 31) - 1, compression_type=codec)
    with kafkalog.LogWriter(folder, "t", 0, config=config) as log:
        written = 0
        while written < total:
            rows = []
            for n in range(2_000):
                text = f'{{"id":{chance.randrange(10**9)}'
                while len(text) < size - 20:
                    text += f',"{chance.choice(words)}":{chance.randrange(10**6)}'
                rows.append(kafkalog.Record(f'{text},"{NEEDLE if n == 0 and written % 5 == 0 else "x"}":1}}'.encode()))
                written += len(text)
            log.append(rows)
    return folder / "t-0" / f"{0:020}.log"


def compressed(log: Path) -> Iterator[tuple[str, pa.Buffer]]:
    """Give the compressed records of all batches, and their codec."""
    batches = pa.memory_map(str(log)).read_buffer()
    at = 0
    while at < len(batches):
        # Length and attributes; records follow 61 bytes of header.
        length, attributes = struct.unpack_from(">i9xh", batches, at + 8)
        if codec := {3: "lz4", 4: "zstd"}.get(attributes & 7):
            yield codec, batches.slice(at + 61, length - 49)
        at += length + 12


def legs(log: Path) -> dict[str, Callable[[], object]]:
    """Give what is measured."""

    def scan(**options: Any) -> int:
        return sum(batch.num_rows for batch in kafkalog.scan(log.parent, columns=["offset"], **options))

    def piped() -> None:
        with subprocess.Popen(["kafkalog", "cat", log.parent], stdout=subprocess.PIPE) as cat:
            subprocess.run(["grep", "-c", "-a", "-F", NEEDLE], stdin=cat.stdout, capture_output=True, check=False)

    def unpacked() -> None:
        for codec, records in compressed(log):
            with pa.CompressedInputStream(pa.BufferReader(records), codec) as stream:
                while stream.readinto(window):
                    pass

    window = bytearray(1 << 20)
    is_compressed = any(True for _ in compressed(log))
    return {
        "grep": lambda: subprocess.run(["grep", "-c", "-a", "-F", NEEDLE, log], capture_output=True, check=False),
        "cat|grep": piped,
        **({"unpacked": unpacked} if is_compressed else {}),
        "offsets": scan,
        "literal": lambda: scan(containing=NEEDLE),
        "literal:2": lambda: scan(containing=NEEDLE, threads=2),
        "expression": lambda: scan(matching=r"needle-\d+7"),
        "folded": lambda: scan(matching=f"(?i){NEEDLE.upper()}"),
        "classes": lambda: scan(matching=r"[a-z]{6}-[0-9]{4}"),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codec", default="uncompressed,zstd,lz4")
    parser.add_argument("--bytes", default="100,1000")
    given = parser.parse_args()
    for codec in given.codec.split(","):
        for size in map(int, given.bytes.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                log = make(Path(folder), codec, size, given.megabytes << 20)
                reader = kafkalog.scan(log.parent, columns=["offset"])
                rows = sum(batch.num_rows for batch in reader)
                plain = reader.metrics["copied"] or log.stat().st_size
                print(f"{codec}, {size} B: {rows} records, {plain / 1e6:.0f} MB in {log.stat().st_size / 1e6:.0f}")
                measured(legs(log), given.rounds, plain)


def measured(found: dict[str, Callable[[], object]], rounds: int, plain: int) -> None:
    """Run the legs in turns."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
    for _ in range(rounds + 1):
        for name, leg in found.items():
            before = time.perf_counter(), cpu()
            leg()
            taken[name].append((time.perf_counter() - before[0], cpu() - before[1]))
    for name, times in taken.items():
        wall, used = (statistics.median(each[n] for each in times[1:]) for n in (0, 1))
        print(
            f"  {name:10} wall {wall:6.3f} s, {plain / wall / 1e9:5.2f} GB/s; "
            f"cpu {used:6.3f} s, {plain / used / 1e9:5.2f}"
        )


def cpu() -> float:
    """Processor seconds of this process and those that it waited for."""
    import os

    spent = os.times()
    return sum(spent[:4])


if __name__ == "__main__":
    main()
