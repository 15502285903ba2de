"""Make the damaged partition folders of this directory, and the README that says what must stop each.

Every case is ``<case>/t-0``: a closed segment of three batches (offsets 0-5) and an active one of two (6-9),
spelled byte by byte here and then damaged in one place. ``cases.json`` is the same table for the tests.
The damage lies in the closed segment unless the case says otherwise.
"""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import sys
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
CLOSED = "00000000000000000000.log"
ACTIVE = "00000000000000000006.log"
BASE_TIME = 1_700_000_000_000

# What a case must end in: "corrupt" is CorruptRecordError or InvalidRecordError, "unsupported" is
# UnsupportedFormatError, "end" is a quiet end of the log, "whole" is every record; "either" is "corrupt" or
# "whole": Kafka's own reader takes these for sound.
CORRUPT, UNSUPPORTED, END, WHOLE, EITHER = "corrupt", "unsupported", "end", "whole", "either"

# Positions in a batch of format v2.
SIZE, EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, COUNT, RECORDS = 8, 12, 16, 17, 21, 23, 57, 61


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit: these inputs are small."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(value: int) -> bytes:
    """Zig-zag, seven bits a byte."""
    left = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    """Bytes after their varint length, -1 for null."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(delta: int, body: bytes | None = None) -> bytes:
    """Encode one record of format v2; ``body`` replaces what follows the offset delta."""
    if body is None:
        body = sized(b"k%d" % delta) + sized(b"value-%d" % delta) + varint(0)
    content = b"\0" + varint(delta) + varint(delta) + body
    return varint(len(content)) + content


def batch(base: int, payload: bytes | None = None, count: int = 2, attributes: int = 0, last: int = 1) -> bytes:
    """Encode one batch of format v2 with a checksum that holds."""
    if payload is None:
        payload = record(0) + record(1)
    covered = struct.pack(">hiqqqhii", attributes, last, BASE_TIME, BASE_TIME + 1, -1, -1, -1, count) + payload
    rest = struct.pack(">ibI", 0, 2, crc32c(covered)) + covered
    return struct.pack(">qi", base, len(rest)) + rest


def message(offset: int, value: bytes | None, attributes: int = 0, magic: int = 1, key: bytes | None = b"k") -> bytes:
    """Encode one message of format v0 or v1 with a checksum that holds."""
    stamp = struct.pack(">q", BASE_TIME) if magic else b""

    def field(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    covered = struct.pack(">bb", magic, attributes) + stamp + field(key) + field(value)
    rest = struct.pack(">I", zlib.crc32(covered)) + covered
    return struct.pack(">qi", offset, len(rest)) + rest


def wrapper(offset: int, inner: bytes, magic: int = 1) -> bytes:
    """Wrap messages into one, compressed by gzip."""
    return message(offset, gzip.compress(inner, mtime=0), attributes=1, magic=magic, key=None)


def patch(data: bytes, at: int, new: bytes) -> bytes:
    """Write over some bytes."""
    return data[:at] + new + data[at + len(new) :]


def resealed(data: bytes) -> bytes:
    """Give a batch of format v2 the checksum of what it now holds."""
    return patch(data, CRC, struct.pack(">I", crc32c(data[ATTRIBUTES:])))


def zstd_frame(prefix: bytes, zeros: int) -> bytes:
    """Give a zstd frame that expands to ``prefix`` and then zeros, as blocks of one repeated byte."""
    block = 128 << 10
    full, rest = divmod(zeros, block)

    def header(size: int, kind: int, last: int = 0) -> bytes:
        return struct.pack("<I", size << 3 | kind << 1 | last)[:3]

    out = bytes.fromhex("28b52ffd") + b"\0" + b"\x38" + header(len(prefix), 0) + prefix
    return out + (header(block, 1) + b"\0") * full + header(rest, 1, 1) + b"\0"


def lz4_frame(zeros: int) -> bytes:
    """Give an LZ4 frame (4 MiB blocks) that expands to zeros."""
    block = 4 << 20
    matched = block - 5 - 1
    left = matched - 4 - 15
    body = bytes([0x1F, 0, 1, 0]) + b"\xff" * (left // 255) + bytes([left % 255]) + bytes([0x50]) + b"\0" * 5
    head = bytes.fromhex("04224d18") + bytes([0x60, 0x70])
    return head + bytes([0x73]) + (struct.pack("<I", len(body)) + body) * (zeros // block) + b"\0" * 4


README = """\
# Damaged folders, and what must stop each

Made by `make.py`; do not edit. Each case is `<case>/t-0`: a closed segment (offsets 0-5) and an active one (6-9).
`corrupt`: CorruptRecordError or InvalidRecordError; `unsupported`: UnsupportedFormatError, both with the file and a
byte position inside the damaged batch, which begins at the position given. `end`: a quiet end of the log. `whole`:
every record and the same answers to every lookup. `either`: `corrupt` or `whole`, as Kafka's reader takes them for
sound. Records: how many stand before the damage. No case may panic, hang, or take memory beyond the limits.

| case | what is wrong | must end in | file | at | records |
|---|---|---|---|---:|---:|"""


@dataclass(frozen=True)
class Case:
    """Damage, the error that must stop it, and its place."""

    name: str
    stop: str
    file: str
    position: int
    records: int
    why: str


CASES: list[Case] = []
FIRST = batch(0)
STEP = len(FIRST)
ACTIVE_BYTES = batch(6) + batch(8)


def emit(
    name: str,
    why: str,
    *,
    closed: bytes,
    active: bytes = ACTIVE_BYTES,
    stop: str = CORRUPT,
    position: int = STEP,
    records: int = 2,
    file: str = CLOSED,
    extra: dict[str, bytes] | None = None,
) -> None:
    """Write one case; ``records`` is how many stand before the damage."""
    folder = HERE / name / "t-0"
    folder.mkdir(parents=True)
    for each, data in {CLOSED: closed, ACTIVE: active, **(extra or {})}.items():
        (folder / each).write_bytes(data)
    CASES.append(Case(name, stop, file, position, records, why))


def damaged(name: str, why: str, change: Callable[[bytes], bytes], stop: str = CORRUPT) -> None:
    """Damage the second batch of the closed segment."""
    emit(name, why, closed=batch(0) + change(batch(2)) + batch(4), stop=stop)


def torn() -> None:
    """Files that end too early or continue too long."""
    whole = batch(0) + batch(2) + batch(4)
    emit(
        "torn-tail",
        "the active segment ends inside a batch: the end of the log",
        closed=whole,
        active=ACTIVE_BYTES[: STEP + 70],
        stop=END,
        file=ACTIVE,
        position=STEP,
        records=8,
    )
    emit(
        "torn-header",
        "the active segment ends inside a batch's first 12 bytes: the end of the log",
        closed=whole,
        active=ACTIVE_BYTES + batch(10)[:7],
        stop=END,
        file=ACTIVE,
        position=2 * STEP,
        records=10,
    )
    emit(
        "zero-tail",
        "the active segment was preallocated: the zeros are the end of the log",
        closed=whole,
        active=ACTIVE_BYTES + bytes(300),
        stop=END,
        file=ACTIVE,
        position=2 * STEP,
        records=10,
    )
    emit(
        "only-zeros",
        "the active segment is nothing but preallocated zeros",
        closed=whole,
        active=bytes(512),
        stop=END,
        file=ACTIVE,
        position=0,
        records=6,
    )
    emit(
        "five-bytes",
        "the active segment is five bytes long",
        closed=whole,
        active=batch(6)[:5],
        stop=END,
        file=ACTIVE,
        position=0,
        records=6,
    )
    emit("torn-closed", "a closed segment ends inside a batch", closed=whole[:-9], position=2 * STEP, records=4)
    emit("zeros-closed", "a closed segment ends in zeros", closed=whole + bytes(64), position=3 * STEP, records=6)
    emit(
        "flipped-bit-active",
        "a bit of a value in the active segment: the checksum",
        closed=whole,
        active=ACTIVE_BYTES[:-4] + bytes([ACTIVE_BYTES[-4] ^ 4]) + ACTIVE_BYTES[-3:],
        file=ACTIVE,
        position=STEP,
        records=8,
    )


def headers() -> None:
    """Fields of the batch header."""
    damaged("flipped-bit", "one bit of a value: the checksum", lambda b: patch(b, 75, bytes([b[75] ^ 0x10])))
    damaged("flipped-crc", "one bit of the checksum itself", lambda b: patch(b, CRC, bytes([b[CRC] ^ 1])))
    damaged(
        "flipped-attributes", "the codec bits, without resealing: the checksum", lambda b: patch(b, ATTRIBUTES, b"\0\1")
    )
    damaged(
        "huge-length",
        "batch length 2147483647: more than the closed segment has",
        lambda b: patch(b, SIZE, b"\x7f\xff\xff\xff"),
    )
    damaged("negative-length", "batch length -1: below the minimum", lambda b: patch(b, SIZE, b"\xff\xff\xff\xff"))
    damaged("zero-length", "batch length 0 where a batch follows", lambda b: patch(b, SIZE, bytes(4)))
    damaged(
        "short-length", "batch length 20: below a header of format v2", lambda b: patch(b, SIZE, struct.pack(">i", 20))
    )
    damaged(
        "longer-length",
        "batch length one more than it is: the checksum",
        lambda b: patch(b, SIZE, struct.pack(">i", len(b) - 11)),
    )
    damaged("unknown-magic", "magic 3", lambda b: patch(b, MAGIC, b"\3"), UNSUPPORTED)
    damaged("negative-magic", "magic -1", lambda b: patch(b, MAGIC, b"\xff"), UNSUPPORTED)
    damaged("unknown-codec", "codec 7, resealed", lambda b: resealed(patch(b, ATTRIBUTES, b"\0\7")), UNSUPPORTED)
    damaged(
        "base-offset-back",
        "a base offset below the batch before, outside the checksum: the order",
        lambda b: patch(b, 0, struct.pack(">q", 1)),
    )
    damaged(
        "base-offset-far",
        "a base offset beyond the next segment's, outside the checksum: the order",
        lambda b: patch(b, 0, struct.pack(">q", 1 << 40)),
    )
    damaged("negative-base-offset", "a negative base offset", lambda b: patch(b, 0, struct.pack(">q", -5)))
    damaged(
        "negative-last-delta",
        "last offset delta -3, resealed",
        lambda b: resealed(patch(b, LAST_DELTA, struct.pack(">i", -3))),
        EITHER,
    )
    damaged("negative-count", "record count -1, resealed", lambda b: resealed(patch(b, COUNT, struct.pack(">i", -1))))
    damaged(
        "huge-count",
        "record count 2147483647, resealed: the batch ends first",
        lambda b: resealed(patch(b, COUNT, b"\x7f\xff\xff\xff")),
    )
    damaged(
        "small-count",
        "record count 1 of 2, resealed: bytes remain",
        lambda b: resealed(patch(b, COUNT, struct.pack(">i", 1))),
    )


def records() -> None:
    """Fields of a record, all under a checksum that holds."""

    def second(name: str, why: str, body: bytes, stop: str = CORRUPT) -> None:
        damaged(name, why, lambda _: batch(2, record(0) + record(1, body)), stop)

    good = sized(b"k") + sized(b"v")
    second("negative-key-length", "key length -2", varint(-2) + sized(b"v") + varint(0), EITHER)
    second("huge-key-length", "key length 2147483647", varint(0x7FFFFFFF) + b"k" + sized(b"v") + varint(0))
    second("negative-value-length", "value length -2", sized(b"k") + varint(-2) + varint(0), EITHER)
    second("value-past-record", "a value that reaches into the next record", sized(b"k") + varint(9) + b"v" + varint(0))
    second("negative-header-count", "header count -1", good + varint(-1))
    second("huge-header-count", "header count 2147483647", good + varint(0x7FFFFFFF))
    second("null-header-key", "a header key of length -1", good + varint(1) + varint(-1) + sized(b"v"))
    second(
        "header-past-record",
        "a header value longer than the record",
        good + varint(1) + sized(b"h") + varint(99) + b"v",
    )
    second("bytes-behind-headers", "two bytes after the last header", good + varint(0) + b"\0\0")
    damaged("negative-record-length", "record length -4", lambda _: batch(2, record(0) + varint(-4) + record(1)[1:]))
    damaged(
        "huge-record-length",
        "record length 2147483647",
        lambda _: batch(2, record(0) + varint(0x7FFFFFFF) + record(1)[1:]),
    )
    damaged(
        "endless-varint",
        "a varint whose every byte says that another follows",
        lambda _: batch(2, record(0) + b"\xff" * 11),
    )
    damaged(
        "delta-past-last", "an offset delta beyond the batch's last", lambda _: batch(2, record(0) + record(5)), EITHER
    )
    damaged(
        "control-key-short",
        "a control batch whose key has two bytes instead of four",
        lambda _: batch(2, record(0, sized(b"\0\0") + sized(bytes(6)) + varint(0)), 1, attributes=0x30, last=0),
        EITHER,
    )


def compressed() -> None:
    """Codecs: streams that are not, that end, and that never end."""

    def coded(name: str, why: str, codec: int, payload: bytes, count: int = 2) -> None:
        damaged(name, why, lambda _: batch(2, payload, count, attributes=codec, last=count - 1))

    plain = record(0) + record(1)
    packed = gzip.compress(plain, mtime=0)
    for codec, name in enumerate(("gzip", "snappy", "lz4", "zstd"), start=1):
        coded(f"not-{name}", f"plain records marked as {name}, resealed", codec, plain)
    coded("gzip-cut", "a gzip stream that ends early", 1, packed[:-14])
    coded("gzip-checksum", "a gzip stream whose own checksum is wrong", 1, packed[:-8] + bytes(4) + packed[-4:])
    coded(
        "lz4-header-checksum",
        "an LZ4 frame whose header checksum is wrong, in format v2",
        3,
        bytes.fromhex("04224d186070") + b"\0" + struct.pack("<I", 1 << 31 | len(plain)) + plain + bytes(4),
    )
    huge = 3 << 30
    head = b"\0" + varint(0) + varint(0) + varint(-1) + varint(huge)
    bomb = varint(len(head) + huge + 1) + head
    coded("bomb-zstd", "3 GiB of zeros as one value in 100 KB of zstd: the limit", 4, zstd_frame(bomb, huge + 1), 1)
    coded(
        "bomb-zstd-declared",
        "a zstd frame that declares 2^60 bytes and has 8",
        4,
        bytes.fromhex("28b52ffde0") + struct.pack("<Q", 1 << 60) + bytes.fromhex("410000") + b"\0" * 8,
    )
    coded("bomb-snappy", "a raw snappy block that declares 4294967295 bytes", 2, b"\xff\xff\xff\xff\x0f\0\0")
    coded(
        "bomb-snappy-xerial",
        "a framed snappy chunk of 2147483647 bytes",
        2,
        b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 0x7FFFFFFF) + b"\0\0",
    )
    coded("bomb-lz4", "64 MiB of zeros in 256 KB of LZ4: records of size 0", 3, lz4_frame(64 << 20), 0x3FFFFFF)
    coded(
        "bomb-gzip",
        "64 MiB of zeros in 64 KB of gzip: records of size 0",
        1,
        gzip.compress(bytes(64 << 20), 9, mtime=0),
        0x3FFFFFF,
    )


def legacy() -> None:
    """Formats v0 and v1."""

    def old(name: str, why: str, bad: bytes, stop: str = CORRUPT, magic: int = 1) -> None:
        first = message(0, b"a", magic=magic) + message(1, b"b", magic=magic)
        active = message(6, b"y", magic=magic) + message(7, b"z", magic=magic)
        emit(
            name, why, closed=first + bad + message(5, b"x", magic=magic), active=active, stop=stop, position=len(first)
        )

    inner = message(0, b"c") + message(1, b"d")
    good = message(2, b"value")
    old(
        "v0-flipped-bit",
        "one bit of a v0 message: the checksum",
        patch(message(2, b"value", magic=0), 28, b"Z"),
        magic=0,
    )
    old("v1-flipped-bit", "one bit of a v1 message: the checksum", patch(good, len(good) - 1, b"Z"))
    old("v1-huge-length", "message size 2147483647 in a closed segment", patch(good, SIZE, b"\x7f\xff\xff\xff"))
    old("v1-short-length", "message size 13: one below the minimum", patch(good, SIZE, struct.pack(">i", 13)))
    covered = struct.pack(">bbqii", 1, 0, BASE_TIME, -1, 1 << 30) + b"v"
    rest = struct.pack(">I", zlib.crc32(covered)) + covered
    old("v1-huge-value", "value size 2^30 under a checksum that holds", struct.pack(">qi", 2, len(rest)) + rest)
    old("v1-null-wrapper", "a compressed wrapper without value", message(3, None, attributes=1, key=None))
    old("v1-empty-wrapper", "a compressed wrapper with no message inside", wrapper(3, b""))
    old("v1-nested-wrapper", "a wrapper inside a wrapper", wrapper(3, wrapper(1, inner)))
    old("v1-wrapper-not-gzip", "a wrapper whose value is not gzip", message(3, b"no gzip here", attributes=1, key=None))
    old("v1-inner-size", "an inner message of size 3", wrapper(3, struct.pack(">qi", 0, 3) + b"abc"))
    old(
        "v0-bomb", "64 MiB of zeros in 64 KB of gzip inside a v0 wrapper", wrapper(3, bytes(64 << 20), magic=0), magic=0
    )


def hints() -> None:
    """Unsound indexes: never an error for a read, the answer comes from the log."""
    whole = batch(0) + batch(2) + batch(4)
    index, times = CLOSED.replace(".log", ".index"), CLOSED.replace(".log", ".timeindex")

    def hint(name: str, why: str, extra: dict[str, bytes]) -> None:
        emit(name, why, closed=whole, stop=WHOLE, position=0, records=10, extra=extra)

    good_index = struct.pack(">ii", 3, STEP) + struct.pack(">ii", 5, 2 * STEP)
    good_times = struct.pack(">qi", BASE_TIME + 1, 5)
    hint(
        "index-good",
        "both indexes are sound: the others are measured by this one",
        {index: good_index, times: good_times},
    )
    hint("index-empty", "both indexes have no entry", {index: b"", times: b""})
    hint("index-short", "both indexes end inside an entry", {index: good_index[:-3], times: good_times[:-5]})
    hint("index-noise", "both indexes hold noise", {index: b"\xa5\x5a\x17" * 16, times: b"\x7e\x81\x33" * 20})
    hint("index-mid-batch", "a position inside a batch", {index: struct.pack(">ii", 3, STEP + 11), times: good_times})
    hint(
        "index-past-end",
        "a position beyond the end of the log",
        {index: struct.pack(">ii", 3, 1 << 30), times: struct.pack(">qi", BASE_TIME, 1 << 30)},
    )
    hint(
        "index-too-late",
        "an entry that names a batch after the one sought",
        {index: struct.pack(">ii", 1, 2 * STEP), times: struct.pack(">qi", BASE_TIME - 10, 5)},
    )
    hint(
        "index-negative",
        "negative offsets and positions",
        {index: struct.pack(">ii", -7, -9), times: struct.pack(">qi", -9, -7)},
    )
    hint(
        "index-back",
        "entries in falling order",
        {index: good_index[8:] + good_index[:8], times: good_times + struct.pack(">qi", BASE_TIME, 3)},
    )


def readme() -> str:
    """Give the table for people."""
    lines = [README]
    lines += [f"| {c.name} | {c.why} | {c.stop} | {c.file} | {c.position} | {c.records} |" for c in CASES]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write all cases."""
    for old in HERE.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
    for group in (torn, headers, records, compressed, legacy, hints):
        group()
    (HERE / "cases.json").write_text(json.dumps([asdict(c) for c in CASES], indent=1) + "\n", encoding="utf-8")
    (HERE / "README.md").write_text(readme(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
