"""Logs with batches that look wrong and that Kafka reads, with the offsets and timestamps of its records."""

from __future__ import annotations

import struct

from byte_logs import CODECS, Record, _message, batch, compressed, sealed

T = 1_700_000_000_000


def _empty(codec: str, offset: int) -> bytes:
    """A batch with a codec, no records, and no bytes of any."""
    covered = struct.pack(">hiqqqhii", CODECS.index(codec), 0, T, T, -1, -1, -1, 0)
    return sealed(struct.pack(">qiibI", offset, len(covered) + 9, 0, 2, 0) + covered)


def _wrapper(magic: int, offset: int, inner: list[tuple[int, int, int]], codec: str = "gzip") -> bytes:
    """A wrapper of messages, each a magic, an offset and a timestamp."""
    plain = b"".join(_message(Record(at, time, b"k", b"v"), its, at) for its, at, time in inner)
    return _message(Record(offset, T, None, compressed(codec, plain)), magic, offset, CODECS.index(codec))


def cases() -> dict[str, tuple[bytes, list[tuple[int, int]]]]:
    """Give the logs by name."""
    one, other = batch([Record(0, T, b"k", b"v")]), batch([Record(50, T, b"k", b"v")])
    plain = _message(Record(0, T, b"k", b"v"), 0, 0)
    ends = {f"no records under {codec}": (one + _empty(codec, 1) + other, [(0, T), (50, T)]) for codec in CODECS}
    return {
        **ends,
        "a last inner offset below the wrapper's": (
            plain + _wrapper(0, 9, [(0, 7, 0), (0, 8, 0)]) + other,
            [(0, -1), (7, -1), (8, -1), (50, T)],
        ),
        "a last inner offset above the wrapper's": (
            plain + _wrapper(0, 9, [(0, 7, 0), (0, 12, 0)]) + other,
            [(0, -1), (7, -1), (12, -1), (50, T)],
        ),
        "all inner offsets above the wrapper's": (
            plain + _wrapper(0, 9, [(0, 11, 0), (0, 12, 0)]) + other,
            [(0, -1), (11, -1), (12, -1), (50, T)],
        ),
        "messages of magic 1 in a wrapper of magic 0": (
            plain + _wrapper(0, 8, [(1, 7, T + 7), (1, 8, T + 8)]) + other,
            [(0, -1), (7, T + 7), (8, T + 8), (50, T)],
        ),
        "messages of magic 0 in a wrapper of magic 1": (
            plain + _wrapper(1, 8, [(0, 0, 0), (1, 1, T + 8)]) + other,
            [(0, -1), (7, -1), (8, T + 8), (50, T)],
        ),
    }
