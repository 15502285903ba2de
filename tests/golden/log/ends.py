"""Write the inputs of cases about ends: ``append/truncate-at-marker`` and its kin, and those of ``recover`` below.

Usage: ``python3 tests/golden/log/ends.py FOLDER``. Makes ``<kind>/<case>/config.json``, ``input.jsonl``, ``before/``;
what Kafka made of them (``result.jsonl``, ``after/``) was answered by the program that answered the rest of the corpus.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

NOW = 1_700_000_000_000
POLYNOMIAL = 0x82F63B78


def begun(producer_id: int, sequence: int) -> dict[str, Any]:
    """Give a record of a producer's transaction."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
    return {"batches": [{**fields, "records": [{"value": "v"}]}]}


def aborted(producer_id: int) -> dict[str, Any]:
    """Give the marker of its end."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "coordinator_epoch": 0}
    return {"origin": "coordinator", "batches": [{"control": "abort", **fields}]}


# Offsets 0 to 6: two overlapping transactions, and one after them.
PLAIN: dict[str, Any] = {"batches": [{"records": [{}]}]}
TRANSACTIONS = [begun(1, 0), begun(2, 0), aborted(1), aborted(2), begun(1, 1), aborted(1), PLAIN]
CUTS = {
    "truncate-at-marker": (5, "The marker is the first to go: its transaction is open again, its entry gone."),
    "truncate-behind-marker": (6, "The marker is the last to stay, and so does its entry."),
    "truncate-at-transaction": (4, "The transaction's first record is the first to go."),
    "truncate-between-markers": (3, "Of two transactions that overlap one is open again."),
}


def crc32c(data: bytes) -> int:
    """By the definition, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def batch(offset: int, attributes: int = 0, producer_id: int = -1, record: bytes = b"\x0c\0\0\0\x01\x01\0") -> bytes:
    """Give a batch of one record, without key and value unless it is another one."""
    epoch, sequence = (-1, -1) if producer_id < 0 else (0, -1 if attributes & 0x20 else 0)
    body = struct.pack(">hiqqqhii", attributes, 0, NOW, NOW, producer_id, epoch, sequence, 1) + record
    return struct.pack(">qiibI", offset, 9 + len(body), 0, 2, crc32c(body)) + body


# Version 0, abort; version 0, coordinator epoch 0.
MARKER = b"\x20\0\0\0\x08\0\0\0\0\x0c\0\0\0\0\0\0\0"


def write(case: Path, config: dict[str, Any]) -> None:
    """Write what a case is about."""
    case.mkdir(parents=True)
    (case / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def snapshot() -> bytes:
    """Give a producer snapshot that knows of none."""
    entries = struct.pack(">i", 0)
    return struct.pack(">hI", 1, crc32c(entries)) + entries


def recovered(case: Path, about: str, logs: dict[int, bytes], swaps: dict[int, bytes], *, clean: bool) -> None:
    """Write a case of a folder that holds these segments, and these on their way in."""
    config = {"kind": "recover", "about": about, "now_ms": NOW + 10_000, "clean": clean, "recovery_point": 0}
    write(case, {**config, "log_start_offset": 0, "log": {"index.interval.bytes": 0, "segment.index.bytes": 480}})
    folder = case / "before" / "orders-0"
    folder.mkdir(parents=True)
    if clean:
        (case / "before" / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    for base, log in logs.items():
        (folder / f"{base:020}.log").write_bytes(log)
        # Else it is recovered for the lack of it.
        (folder / f"{base:020}.index").write_bytes(b"")
    for base, log in swaps.items():
        (folder / f"{base:020}.log.swap").write_bytes(log)


def main(root: Path) -> None:
    """Write all."""
    for name, (offset, about) in CUTS.items():
        write(root / "append" / name, {"kind": "append", "about": about})
        lines = [*TRANSACTIONS, {"op": "truncate", "offset": offset}]
        (root / "append" / name / "input.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    begins, ends = batch(0, 0x10, 7), batch(1, 0x30, 7, MARKER)
    recovered(
        root / "recover" / "dropped-behind-marker",
        "A segment that begins with a marker is emptied, as offsets in it go back.",
        {0: begins, 1: ends + batch(2) + batch(3) + batch(4) + batch(2)},
        {},
        clean=False,
    )
    recovered(
        root / "recover" / "replayed-to-the-end",
        "The log ends where its last batch does; a producer's batch from there on is not replayed.",
        {0: batch(0) + batch(5, 0, 7) + batch(2)},
        {},
        clean=True,
    )
    # Without one nothing is replayed after a clean stop.
    (root / "recover" / "replayed-to-the-end" / "before" / "orders-0" / f"{1:020}.snapshot").write_bytes(snapshot())
    recovered(
        root / "recover" / "swap-ends-before-another",
        "Of two swaps the later one ends before the other; what lies in the reach of that one goes.",
        {7: batch(7) + batch(8), 10: batch(10)},
        {0: b"".join(map(batch, range(10))), 5: b""},
        clean=False,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
