"""A slow reader of what writers leave, from the format's description and sharing nothing with kafkalog.

Record batches of magic 2, uncompressed or gzip, with their checksums; index entries against the batches they point at.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = struct.Struct(">qiibIhiqqqhii")
assert HEADER.size == 61


def _crc_table() -> list[int]:
    table = []
    for n in range(256):
        crc = n
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass(frozen=True)
class Row:
    """One record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Batch:
    """One batch and where it lies."""

    segment: int
    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    attributes: int
    leader_epoch: int
    rows: tuple[Row, ...]


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        shift = number = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number >> 1 ^ -(number & 1)

    def take(self, count: int) -> bytes:
        assert count >= 0
        found = self.data[self.at : self.at + count]
        assert len(found) == count
        self.at += count
        return found

    def optional(self) -> bytes | None:
        count = self.varint()
        return None if count < 0 else self.take(count)


def _rows(data: bytes, base_offset: int, base_timestamp: int, count: int, append_time: int | None) -> Iterator[Row]:
    cursor = _Cursor(data)
    for _ in range(count):
        length = cursor.varint()
        end = cursor.at + length
        assert cursor.take(1) == b"\0"
        timestamp = base_timestamp + cursor.varint()
        offset = base_offset + cursor.varint()
        key, value = cursor.optional(), cursor.optional()
        headers = tuple((cursor.take(cursor.varint()).decode(), cursor.optional()) for _ in range(cursor.varint()))
        assert cursor.at == end
        yield Row(offset, timestamp if append_time is None else append_time, key, value, headers)
    assert cursor.at == len(data)


def batches_of(log: Path) -> list[Batch]:
    """Give the batches of one ``.log``; every byte of it must belong to one."""
    data = log.read_bytes()
    found = []
    at = 0
    while at < len(data):
        fields = HEADER.unpack_from(data, at)
        base, length, epoch, magic, crc, attributes, last_delta, first_time, max_time, *_, count = fields
        size = length + 12
        assert magic == 2, (log, at)
        assert at + size <= len(data), (log, at)
        assert crc32c(data[at + 21 : at + size]) == crc, (log, at)
        payload = data[at + HEADER.size : at + size]
        assert attributes & 7 in {0, 1}, "only what Python can decompress by itself"
        if attributes & 7 == 1:
            payload = zlib.decompress(payload, 31)
        append_time = max_time if attributes & 8 else None
        rows = tuple(_rows(payload, base, first_time, count, append_time)) if not attributes & 0x20 else ()
        found.append(Batch(int(log.stem), at, size, base, base + last_delta, max_time, attributes, epoch, rows))
        at += size
    return found


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def batches(folder: Path) -> list[Batch]:
    """Give all batches of a partition; their offsets must rise."""
    found = [batch for log in segments(folder) for batch in batches_of(log)]
    end = -1
    for batch in found:
        assert batch.base_offset > end
        assert batch.base_offset >= batch.segment
        end = batch.last_offset
    return found


def rows(folder: Path) -> list[Row]:
    return [row for batch in batches(folder) for row in batch.rows]


def check_indexes(folder: Path) -> int:
    """Hold every index entry against the batches, and give how many there were."""
    entries = 0
    for log in segments(folder):
        base = int(log.stem)
        by_position = {batch.position: batch for batch in batches_of(log)}
        last = -1
        for offset, position in struct.iter_unpack(">ii", log.with_suffix(".index").read_bytes()):
            assert by_position[position].last_offset == base + offset, (log, offset, position)
            assert offset > last
            last, entries = offset, entries + 1
        times = log.with_suffix(".timeindex").read_bytes()
        seen = (-2, -1)
        for timestamp, offset in struct.iter_unpack(">qi", times):
            upto = [batch for batch in by_position.values() if batch.last_offset <= base + offset]
            assert upto, (log, timestamp, offset)
            assert upto[-1].last_offset == base + offset, (log, timestamp, offset)
            assert max(batch.max_timestamp for batch in upto) == timestamp == upto[-1].max_timestamp
            assert (timestamp, offset) > seen
            seen, entries = (timestamp, offset), entries + 1
    return entries
