"""Mutants of small logs: fields and bytes of batches are changed, and their checksums taken afterwards.

What no checksum finds, a load, a reader or a writer must.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

import byte_logs
import corpus
import kafkalog
from byte_logs import CODECS
from kafkalog import LogConfig
from random_logs import NOW, random_log

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS = (
    "clean-restarts/data-1/ledger-0",
    "clean-restarts/data-0/state-0",
    "codecs/data-1/codec-mixed-0",
    "compact/data-0/compact-codecs-0",
    "compact/data-0/compact-keys-0",
    "compact/data-0/compact-txn-gone-0",
)
CLEANED = "cleaner-offset-checkpoint"
# Of a header of magic 2: where, how many bytes.
FIELDS = {
    "base offset": (0, 8),
    "leader epoch": (12, 4),
    "attributes": (21, 2),
    "last offset delta": (23, 4),
    "base timestamp": (27, 8),
    "max timestamp": (35, 8),
    "producer id": (43, 8),
    "producer epoch": (51, 2),
    "base sequence": (53, 4),
    "count": (57, 4),
}
LEGACY_FIELDS = {"offset": (0, 8), "magic": (16, 1), "attributes": (17, 1), "timestamp": (18, 8), "key size": (18, 4)}


class Mutant(NamedTuple):
    """A partition folder, and what was done to its batches."""

    folder: Path
    done: tuple[str, ...]


def mutant(chance: random.Random, root: Path) -> Mutant:
    """Write a log dir of one partition, and change one to five places in it."""
    folder = _written(chance, root)
    done = []
    for _ in range(chance.choice([1, 1, 1, 2, 3, 5])):
        log = chance.choice([log for log in sorted(folder.glob("*.log")) if log.stat().st_size] or [None])
        if log is not None:
            done.append(_change(log, chance))
    # Without them a load builds them from what the batches say; with them it takes what they say.
    for suffix in ("index", "timeindex", "txnindex", "snapshot"):
        if chance.random() < 0.4:
            done.append(f"no .{suffix}")
            for file in folder.glob(f"*.{suffix}"):
                file.unlink()
    marker = folder.parent / ".kafka_cleanshutdown"
    marker.unlink(missing_ok=True)
    # After a clean stop a broker leaves a new time index empty, and so does a writer (`LogSegment.sanityCheck`).
    if chance.random() < 0.3 and "no .timeindex" not in done:
        done.append("marker")
        marker.touch()
    return Mutant(folder, tuple(done))


def _written(chance: random.Random, root: Path) -> Path:
    if chance.random() < 0.5:
        source = corpus.GOLDEN / chance.choice(FOLDERS)
        shutil.copytree(source, root / source.name)
        topic, _, number = source.name.rpartition("-")
        cleaned = source.parent / CLEANED
        lines = cleaned.read_text(encoding="utf-8").splitlines() if cleaned.exists() else []
        if mine := [line for line in lines if line.startswith(f"{topic} {number} ")]:
            (root / CLEANED).write_text("\n".join(["0", "1", *mine, ""]), encoding="utf-8")
        return root / source.name
    folder = random_log(chance, legacy=chance.random() < 0.3, damage=False).write(root, chance)
    config = LogConfig(index_interval_bytes=chance.choice([0, 100, 4096]))
    kafkalog.recover(root, config=config, now=NOW)
    return folder


def split(log: bytes) -> Iterator[bytes]:
    """Give the batches of a whole ``.log``."""
    at = 0
    while at < len(log):
        size = 12 + struct.unpack_from(">i", log, at + 8)[0]
        yield log[at : at + size]
        at += size


def _change(log: Path, chance: random.Random) -> str:
    try:
        batches = list(split(log.read_bytes()))
    except struct.error:
        return "nothing"
    at = chance.randrange(len(batches))
    other = chance.choice(batches)
    what, batches[at] = _changed(batches[at], other, chance)
    log.write_bytes(b"".join(batches))
    return f"{log.name}: batch {at}: {what}"


def _changed(batch: bytes, other: bytes, chance: random.Random) -> tuple[str, bytes]:
    is_new = batch[16] == 2
    if chance.random() < 0.35:
        return _payload(batch, chance) if is_new else _sealed_legacy("bytes", _bytes(batch, 18, chance))
    name, (begin, size) = chance.choice(sorted((FIELDS if is_new else LEGACY_FIELDS).items()))
    now = batch[begin : begin + size]
    value = int.from_bytes(now, "big")
    bits = 8 * size
    some = chance.choice(
        [
            other[begin : begin + size].ljust(size, b"\0"),
            bytes(size),
            b"\xff" * size,
            chance.randbytes(size),
            b"\x7f" + b"\xff" * (size - 1),
            b"\x80" + bytes(size - 1),
            *[((value + step) % (1 << bits)).to_bytes(size, "big") for step in (-1, 1, chance.randrange(-99, 99))],
            (value ^ 1 << chance.randrange(bits)).to_bytes(size, "big"),
        ]
    )
    data = batch[:begin] + some + batch[begin + size :]
    what = f"{name} {now.hex()} to {some.hex()}"
    return (what, byte_logs.sealed(data)) if is_new else _sealed_legacy(what, data)


def _bytes(data: bytes, begin: int, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        if len(changed) > begin:
            some = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            changed[chance.randrange(begin, len(changed))] = some
    return bytes(changed)


def _payload(batch: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Change bytes of the records; under a codec, before or after they are compressed."""
    codec = CODECS[batch[22] & 7] if batch[22] & 7 < len(CODECS) else "none"
    if codec == "none" or chance.random() < 0.3:
        return "bytes", byte_logs.sealed(_bytes(batch, 61, chance))
    try:
        plain = byte_logs.decompressed(codec, batch[61:])
    except Exception:  # noqa: BLE001 - changed before
        return "nothing", batch
    data = byte_logs.compressed(codec, _bytes(plain, 0, chance))
    whole = batch[:8] + struct.pack(">i", 49 + len(data)) + batch[12:61] + data
    return "bytes under a codec", byte_logs.sealed(whole)


def _sealed_legacy(what: str, data: bytes) -> tuple[str, bytes]:
    return what, data[:12] + struct.pack(">I", zlib.crc32(data[16:])) + data[16:]
