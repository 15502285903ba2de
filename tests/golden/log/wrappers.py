"""Write the states of the cases ``truncate/wrapper-*`` and ``recover/split-wrapper``: messages compressed together.

Usage: ``python3 tests/golden/log/wrappers.py FOLDER/truncate``. Makes ``<case>/config.json`` and ``<case>/before/``;
what Kafka made of them (``result.jsonl``, ``after/``) was answered by the program that answered the rest of the corpus.
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
import zlib
from pathlib import Path

NOW = 1_700_000_000_000
GZIP = 1


def message(magic: int, attributes: int, offset: int, timestamp: int, value: bytes) -> bytes:
    """Give a message without a key, as it lies in a log."""
    body = bytes([magic, attributes])
    if magic > 0:
        body += struct.pack(">q", timestamp)
    body += struct.pack(">ii", -1, len(value)) + value
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(body)) + body


def wrapper(first: int, last: int, *, magic: int = 1, named: int | None = None, is_damaged: bool = False) -> bytes:
    """Give a wrapper of these offsets; ``named`` in place of the last one."""
    inner = b"".join(
        message(magic, 0, n - first if magic > 0 else n, NOW + n, b"v%d" % n) for n in range(first, last + 1)
    )
    packed = gzip.compress(inner, mtime=0)
    if is_damaged:
        packed = bytes([packed[0] ^ 0xFF]) + packed[1:]
    return message(magic, GZIP, last if named is None else named, NOW + last, packed)


def healthy(magic: int = 1) -> list[bytes]:
    """Give three wrappers in order."""
    return [wrapper(0, 3, magic=magic), wrapper(4, 8, magic=magic), wrapper(9, 12, magic=magic)]


def overlapping(magic: int) -> list[bytes]:
    """Give three wrappers, of which the second lies within the first."""
    return [wrapper(0, 9, magic=magic), wrapper(5, 7, magic=magic), wrapper(10, 12, magic=magic)]


DAMAGED = [healthy()[0], wrapper(4, 8, is_damaged=True), healthy()[2]]
NAMED_0 = [healthy(0)[0], wrapper(4, 8, magic=0, named=0), healthy(0)[2]]

# name -> what it is for, where the log is cut, and its messages
CASES: dict[str, tuple[str, int, list[bytes]]] = {
    "wrapper-inside": ("Inside a wrapper, which goes whole.", 6, healthy()),
    "wrapper-overlapping": ("Wrappers that overlap: the later one that holds the offset goes.", 6, overlapping(1)),
    "wrapper-overlapping-0": ("Wrappers of magic 0 that overlap.", 6, overlapping(0)),
    "wrapper-named-0": ("A wrapper of offset 0, absolute offsets inside.", 6, NAMED_0),
    "wrapper-damaged": ("A damaged wrapper before the offset: Kafka cuts nothing.", 9, DAMAGED),
    "wrapper-damaged-behind": ("A damaged wrapper behind the offset: Kafka cuts nothing.", 2, DAMAGED),
}


# Its first offset still fits into the segment, and its last one does not.
FAR = [wrapper(0, 3), wrapper(2**31 - 3, 2**31 + 3)]


def split(case: Path) -> None:
    """Write the log whose segment recovery splits."""
    folder = case / "before" / "orders-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(FAR))
    config = {
        "kind": "recover",
        "about": "The wrapper that overflows the segment begins the next one, named by its first offset inside.",
        "now_ms": NOW + 10_000,
        "clean": False,
        "recovery_point": 0,
        "log_start_offset": 0,
        "log": {"segment.index.bytes": 480, "index.interval.bytes": 180},
    }
    (case / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write all of them."""
    split(Path(sys.argv[1]).parent / "recover" / "split-wrapper")
    for name, (about, offset, batches) in CASES.items():
        case = Path(sys.argv[1]) / name
        folder = case / "before" / "orders-0"
        folder.mkdir(parents=True)
        (folder / f"{0:020}.log").write_bytes(b"".join(batches))
        for suffix in ("index", "timeindex"):
            (folder / f"{0:020}.{suffix}").touch()
        config = {
            "kind": "truncate",
            "about": about,
            "now_ms": NOW + 10_000,
            "offset": offset,
            "log": {"segment.index.bytes": 480, "index.interval.bytes": 180},
        }
        (case / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
