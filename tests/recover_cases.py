"""The golden cases of recovery, laid out to be recovered; and what a folder holds, to see that nothing changed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
from typing import TYPE_CHECKING, Any

import corpus
import naive

if TYPE_CHECKING:
    from pathlib import Path

CASES = corpus.GOLDEN / "log" / "recover"
NAMES = sorted(path.name for path in CASES.iterdir() if path.name != "_base")


def laid_out(case: Path, to: Path) -> dict[str, Any]:
    """Lay out what was there before, and give the case's settings."""
    config: dict[str, Any] = json.loads((case / "config.json").read_text())
    to.mkdir(parents=True)
    if "base" in config:
        shutil.copytree(case.parent / "_base" / config["base"], to, dirs_exist_ok=True)
    for name in config.get("removed", []):
        (to / name).unlink()
    if (case / "before").exists():
        shutil.copytree(case / "before", to, dirs_exist_ok=True)
    (to / "orders-0").mkdir(exist_ok=True)
    return config


def stopped_cleanly(config: dict[str, Any], log_dir: Path, high_watermark: int) -> None:
    """Add what a broker that stopped cleanly leaves: the marker, the high watermark, the times of the files."""
    (log_dir / ".kafka_cleanshutdown").touch()
    (log_dir / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {high_watermark}\n")
    times = config.get("mtimes", {})
    for path in (log_dir / "orders-0").iterdir():
        ms = times.get(f"orders-0/{path.name}", times.get("*", config["now_ms"]))
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))


def loaded(case: Path) -> dict[str, Any]:
    """Give what Kafka said of the log that it loaded."""
    return next(line for line in outcome(case) if line["event"] == "loaded")


def outcome(case: Path) -> list[dict[str, Any]]:
    """Give what Kafka answered."""
    return [json.loads(line) for line in (case / "result.jsonl").read_text().splitlines()]


def digests(root: Path) -> dict[str, str]:
    """Give the SHA-256 of every file below."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def digests_as_kafkas(root: Path, kafkas: Path) -> dict[str, str]:
    """Give the digests, a snapshot's as Kafka's where both hold the same producers: their order does not count."""
    found, stored = digests(root), digests(kafkas) if kafkas.exists() else {}
    for name in found.keys() & stored.keys():
        if name.endswith(".snapshot") and producers(root / name) == producers(kafkas / name):
            found[name] = stored[name]
    return found


def producers(snapshot: Path) -> list[bytes]:
    """Give a snapshot's count and its producers, sorted; of an unsound one its bytes."""
    data = snapshot.read_bytes()
    if len(data) < 10 or struct.unpack_from(">I", data, 2)[0] != naive.crc32c(data[6:]):
        return [data]
    return [data[:2] + data[6:10], *sorted(data[at : at + 46] for at in range(10, len(data), 46))]


def is_of_a_full_index(lines: list[dict[str, Any]]) -> bool:
    """Return whether Kafka does not load the log because an index has no room for its entries."""
    messages = [line["error"]["message"] or "" for line in lines if line["event"] == "failed"]
    return any(said.startswith(("Attempt to append to a full", "newPosition")) for said in messages)


def fails_in_kafka(lines: list[dict[str, Any]]) -> bool:
    """Return whether Kafka does not load the log, for another reason than a full index."""
    return any(line["event"] == "failed" for line in lines) and not is_of_a_full_index(lines)
