"""Logs spelled byte by byte, of every magic and codec, with transactions; and the payloads of a log's batches.

Shares nothing with kafkalog: pyarrow compresses.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import naive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their number in a batch's attributes. Zstd needs magic 2."""
TRANSACTIONAL, CONTROL = 0x10, 0x20
_XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


@dataclass(frozen=True)
class Record:
    """One record."""

    offset: int
    time: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Producer:
    """Producer of a batch."""

    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1


def _codec(name: Any) -> pa.Codec:
    return pa.Codec(name)


def compressed(codec: str, data: bytes) -> bytes:
    """Compress as Kafka's clients do: Snappy in the framing of xerial, LZ4 in frames."""
    if codec == "none":
        return data
    if codec == "gzip":
        return gzip.compress(data, mtime=0)
    done: bytes = _codec(codec).compress(data, asbytes=True)
    return _XERIAL + struct.pack(">i", len(done)) + done if codec == "snappy" else done


def decompressed(codec: str, data: bytes) -> bytes:
    """Undo it."""
    if codec == "none":
        return data
    if codec != "snappy":
        named: Any = codec
        with pa.CompressedInputStream(pa.BufferReader(data), named) as stream:
            plain: bytes = stream.read()
        return plain
    assert data.startswith(_XERIAL[:8])
    at, out = len(_XERIAL), b""
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        block = data[at + 4 : at + 4 + size]
        length, shift, n = 0, 0, 0
        while True:
            length |= (block[n] & 0x7F) << shift
            shift, n = shift + 7, n + 1
            if block[n - 1] < 0x80:
                break
        out += _codec("snappy").decompress(block, length, asbytes=True)
        at += 4 + size
    return out


def varint(value: int) -> bytes:
    """Zig-zag, seven bits a byte."""
    left = value << 1 ^ value >> 63
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch(
    records: Sequence[Record], codec: str = "none", producer: Producer = Producer(), attributes: int = 0
) -> bytes:
    """Encode a batch of magic 2."""
    base, first_time = records[0].offset, records[0].time
    payload = b""
    for each in records:
        body = b"\0" + varint(each.time - first_time) + varint(each.offset - base)
        body += _sized(each.key) + _sized(each.value) + varint(0)
        payload += varint(len(body)) + body
    covered = struct.pack(
        ">hiqqqhii",
        attributes | CODECS.index(codec),
        records[-1].offset - base,
        first_time,
        max(each.time for each in records),
        producer.producer_id,
        producer.epoch,
        producer.sequence,
        len(records),
    )
    covered += compressed(codec, payload)
    return sealed(struct.pack(">qiibI", base, len(covered) + 9, 0, 2, 0) + covered)


def sealed(data: bytes) -> bytes:
    """Give a batch of magic 2 the checksum of what it holds."""
    return data[:17] + struct.pack(">I", naive.crc32c(data[21:])) + data[21:]


def marker(offset: int, time: int, producer_id: int, *, commit: bool) -> bytes:
    """Encode the marker that ends a transaction."""
    record = Record(offset, time, struct.pack(">hh", 0, commit), struct.pack(">hi", 0, 0))
    return batch([record], "none", Producer(producer_id, 0), TRANSACTIONAL | CONTROL)


def messages(records: Sequence[Record], magic: int, codec: str = "none") -> bytes:
    """Encode messages of magic 0 or 1; compressed, they are wrapped into one."""
    if codec == "none":
        return b"".join(_message(each, magic, each.offset) for each in records)
    relative = [each.offset - (records[0].offset if magic else 0) for each in records]
    inner = b"".join(_message(each, magic, offset) for each, offset in zip(records, relative, strict=True))
    last, time = records[-1].offset, max(each.time for each in records)
    return _message(Record(last, time, None, compressed(codec, inner)), magic, last, CODECS.index(codec))


def _message(record: Record, magic: int, offset: int, attributes: int = 0) -> bytes:
    covered = struct.pack(">bb", magic, attributes) + (struct.pack(">q", record.time) if magic else b"")
    for data in (record.key, record.value):
        covered += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    rest = struct.pack(">I", zlib.crc32(covered)) + covered
    return struct.pack(">qi", offset, len(rest)) + rest


def payloads(log: bytes) -> Iterator[tuple[int, str, bytes]]:
    """Give magic, codec and the decompressed records of every batch of a ``.log``."""
    at = 0
    while at < len(log):
        (size,) = struct.unpack_from(">i", log, at + 8)
        end, magic = at + 12 + size, log[at + 16]
        if magic == 2:
            codec = CODECS[struct.unpack_from(">h", log, at + 21)[0] & 7]
            yield magic, codec, decompressed(codec, log[at + 61 : end])
        else:
            codec = CODECS[log[at + 17] & 7]
            value = at + 18 + 8 * magic
            (key_size,) = struct.unpack_from(">i", log, value)
            value += 4 + max(key_size, 0)
            plain = log[at + 18 : end] if codec == "none" else decompressed(codec, log[value + 4 : end])
            yield magic, codec, plain
        at = end
    assert at == len(log)
