"""Ways to damage a ``.log``, and what is left of it: whole batches by number, and other bytes.

``tests/rust/corruption/kinds.rs`` has more of them, among them those after which nothing can tell which batch is wrong.
These leave no doubt, so that what a reader or a tool saves can be counted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from corpus import Line

    # A batch that is whole, by its number, or anything else.
    Part = int | bytes
    Kind = Callable[["Segment", random.Random, int], list[Part]]

LENGTH, LEADER_EPOCH, MAGIC, CRC = slice(8, 12), slice(12, 16), 16, 17
LEGACY_CRC = 12
TEXT = b"[2026-11-24 07:00:00,000] INFO [Log partition=t-0] Rolled new log segment\n"


@dataclass(frozen=True)
class Segment:
    """The bytes of a ``.log``, and the batches in it as Kafka lists them."""

    name: str
    data: bytes
    listed: Sequence[Line]

    @property
    def base_offset(self) -> int:
        """The offset in its name."""
        return int(self.name.partition(".")[0])

    @property
    def next_offset(self) -> int:
        """The offset after the last batch."""
        return int(self.listed[-1]["last_offset"]) + 1

    def __len__(self) -> int:
        """Count the batches."""
        return len(self.listed)

    def batch(self, number: int) -> bytes:
        """Give the bytes of a batch."""
        at = self.listed[number]["position"]
        return self.data[at : at + self.listed[number]["size"]]

    def is_legacy(self, number: int) -> bool:
        """Return whether a batch is one of magic 0 or 1."""
        return bool(self.listed[number]["magic"] < 2)

    def with_(self, number: int, other: bytes) -> list[Part]:
        """Give the segment with other bytes for a batch."""
        return [other if n == number else n for n in range(len(self))]

    def before(self, number: int, other: bytes) -> list[Part]:
        """Give the segment with other bytes before a batch."""
        return [*range(number), other, *range(number, len(self))]


@dataclass(frozen=True)
class Damaged:
    """A damaged segment: its bytes, the batches that are whole and where they are, and the rest."""

    data: bytes
    whole: list[tuple[int, int]]  # position and number
    lost: list[tuple[int, int]]  # first byte and the one after the last


def put(batch: bytes, at: int, other: bytes) -> bytes:
    """Write over some bytes."""
    return batch[:at] + other + batch[at + len(other) :]


def flip(batch: bytes, at: int, bit: int) -> bytes:
    """Flip one bit."""
    return put(batch, at, bytes([batch[at] ^ 1 << bit]))


def _body(segment: Segment, number: int) -> int:
    """Return where the bytes begin that only a checksum protects."""
    return 18 if segment.is_legacy(number) else 27


def _bit_of_body(s: Segment, chance: random.Random, n: int) -> list[Part]:
    batch = s.batch(n)
    return s.with_(n, flip(batch, chance.randrange(_body(s, n), len(batch)), chance.randrange(8)))


def _bit_of_checksum(s: Segment, chance: random.Random, n: int) -> list[Part]:
    at = LEGACY_CRC if s.is_legacy(n) else CRC
    return s.with_(n, flip(s.batch(n), at + chance.randrange(4), chance.randrange(8)))


def _written_over(fill: Callable[[random.Random, int], bytes]) -> Kind:
    def damage(s: Segment, chance: random.Random, n: int) -> list[Part]:
        batch = s.batch(n)
        at = chance.randrange(20, len(batch) - 4)
        other = bytearray(fill(chance, min(chance.randint(1, 100), len(batch) - at)))
        if bytes(other) == batch[at : at + len(other)]:
            other[0] ^= 1
        return s.with_(n, put(batch, at, bytes(other)))

    return damage


def _in_place_of(fill: Callable[[random.Random, int], bytes]) -> Kind:
    return lambda s, chance, n: s.with_(n, fill(chance, len(s.batch(n))))


def _length(of: Callable[[Segment, random.Random, int], int]) -> Kind:
    """Write another length, in bytes of the whole batch."""

    def damage(s: Segment, chance: random.Random, n: int) -> list[Part]:
        length = of(s, chance, n) - 12
        return s.with_(n, put(s.batch(n), 8, length.to_bytes(4, "big", signed=True)))

    return damage


def _field(at: int, of: Callable[[Segment, int], bytes]) -> Kind:
    return lambda s, _, n: s.with_(n, put(s.batch(n), at, of(s, n)))


def _signed(value: int, size: int) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def _gone_from_one(s: Segment, chance: random.Random, n: int) -> list[Part]:
    batch = s.batch(n)
    at = chance.randrange(1, len(batch) - 1)
    return s.with_(n, batch[:at] + batch[chance.randint(at + 1, len(batch)) :])


def _gone_across_two(s: Segment, chance: random.Random, n: int) -> list[Part]:
    n = min(n, len(s) - 2)
    first, second = s.batch(n), s.batch(n + 1)
    left = first[: chance.randrange(1, len(first))] + second[chance.randrange(1, len(second)) :]
    return [*range(n), left, *range(n + 2, len(s))]


def _put_in(s: Segment, chance: random.Random, n: int) -> list[Part]:
    batch = s.batch(n)
    at = chance.randrange(1, len(batch))
    return s.with_(n, batch[:at] + _noise(chance, chance.randint(1, 300)) + batch[at:])


def _noise(chance: random.Random, size: int) -> bytes:
    # Never the beginning of a base offset.
    return b"\xff" + chance.randbytes(size - 1)


def _zeros(_: random.Random, size: int) -> bytes:
    return bytes(size)


def _text(_: random.Random, size: int) -> bytes:
    return (TEXT * (size // len(TEXT) + 1))[:size]


def _sector(s: Segment, chance: random.Random, n: int) -> list[Part]:
    """Zero one sector of a disk, whatever batches it takes."""
    at = s.listed[n]["position"] + chance.randrange(len(s.batch(n)))
    begin = at - at % 512
    end = min(begin + 512, len(s.data))
    parts: list[Part] = []
    for number, line in enumerate(s.listed):
        first, last = line["position"], line["position"] + line["size"]
        inside = max(first, begin), min(last, end)
        # Nothing but a base offset is none of a sector's: no checksum covers it, so that 0 may look right.
        is_hit = max(inside[0], first + 8) < inside[1] and any(s.data[slice(*inside)])
        parts.append(put(s.batch(number), inside[0] - first, bytes(inside[1] - inside[0])) if is_hit else number)
    return parts


def _several(s: Segment, chance: random.Random, n: int) -> list[Part]:
    parts: list[Part] = list(range(len(s)))
    for number in {n, *(chance.randrange(len(s)) for _ in range(3))}:
        batch = s.batch(number)
        parts[number] = flip(batch, chance.randrange(_body(s, number), len(batch)), chance.randrange(8))
    parts[n] = put(s.batch(n), 8, _signed(1 << 30, 4))
    return parts


KINDS: dict[str, Kind] = {
    "a bit of the body": _bit_of_body,
    "a bit of the checksum": _bit_of_checksum,
    "zeros in the body": _written_over(_zeros),
    "noise in the body": _written_over(_noise),
    "a batch of zeros": _in_place_of(_zeros),
    "a batch of noise": _in_place_of(_noise),
    "a batch of text": _in_place_of(_text),
    "a sector of zeros": _sector,
    "length 0": _length(lambda *_: 12),
    "length -1": _length(lambda *_: 11),
    "length 2147483647": _length(lambda *_: (1 << 31) - 1 + 12),
    "length one more": _length(lambda s, _, n: len(s.batch(n)) + 1),
    "length one less": _length(lambda s, _, n: len(s.batch(n)) - 1),
    "a bit of the length": _length(lambda s, chance, n: (len(s.batch(n)) - 12 ^ 1 << chance.randrange(31)) + 12),
    "length over the next batch": _length(lambda s, _, n: len(s.batch(n)) + len(s.batch(min(n + 1, len(s) - 1)))),
    "length to the end": _length(lambda s, _, n: len(s.data) - s.listed[n]["position"] + (n == len(s) - 1)),
    "magic 3": _field(MAGIC, lambda *_: b"\3"),
    "magic -1": _field(MAGIC, lambda *_: b"\xff"),
    "a negative base offset": _field(0, lambda *_: _signed(-(1 << 62), 8)),
    "a base offset below the segment's": _field(0, lambda s, _: _signed(s.base_offset - 1, 8)),
    "a base offset far beyond": _field(0, lambda s, _: _signed(s.next_offset + (1 << 40), 8)),
    "bytes gone from a batch": _gone_from_one,
    "bytes gone across two batches": _gone_across_two,
    "a batch gone": lambda s, _, n: [number for number in range(len(s)) if number != n],
    "the beginning gone": lambda s, chance, _: s.with_(0, s.batch(0)[chance.randrange(1, len(s.batch(0))) :]),
    "the end gone": lambda s, chance, n: [*range(n), s.batch(n)[: chance.randrange(1, len(s.batch(n)))]],
    "a batch twice": lambda s, _, n: s.before(n + 1, s.batch(n)),
    "a batch again at the end": lambda s, _, n: s.before(len(s), s.batch(n)),
    "noise before a batch": lambda s, chance, n: s.before(n, _noise(chance, chance.randint(1, 300))),
    "zeros before a batch": lambda s, chance, n: s.before(n, bytes(chance.randint(1, 5000))),
    "noise inside a batch": _put_in,
    "a header without its batch": lambda s, _, n: s.before(n, s.batch(n)[: min(40, len(s.batch(n)) - 4)]),
    "zeros at the end": lambda s, chance, _: s.before(len(s), bytes(chance.randint(1, 5000))),
    "noise at the end": lambda s, chance, _: s.before(len(s), _noise(chance, chance.randint(1, 3000))),
    "several at once": _several,
}


def _header(size: int, magic: int) -> bytes:
    """Return the header of a batch that says it has this size, and whose checksum is wrong."""
    length = max(size - 12, 49)
    if magic == 0:
        return struct.pack(">qiIbb", 5, length, 0x12345678, 0, 0)
    return struct.pack(">qiibIhiqqqhii", 5, length, 0, 2, 0x12345678, 0, 0, 0, 0, -1, -1, -1, 1)


def _to_the_end(magic: int) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            out += _header(size - len(out), magic)
        return bytes(out[:size])

    return make


def _chained(size: int) -> bytes:
    """Give headers of which each leads to another one, some kilobytes on."""
    step = len(_header(0, 2))
    out = bytearray()
    while len(out) < size:
        left = size - len(out)
        hop = step * (1 + len(out) % 997)
        out += _header(hop if hop + step <= left else left, 2)
    return bytes(out[:size])


# Bytes that look like batches everywhere, and of which none is one.
ADVERSARIAL: dict[str, Callable[[int], bytes]] = {
    "v0": _to_the_end(0),
    "v2": _to_the_end(2),
    "chained lengths": _chained,
    "magic bytes": lambda size: b"\2" * size,
}


def damaged(segment: Segment, kind: str, chance: random.Random, number: int) -> list[Damaged]:
    """Damage a segment; nothing where the damage may as well be of another batch.

    Of a batch that is there twice either may be taken for the one in its place, unless they follow each other: then
    there is more than one answer.
    """
    parts = KINDS[kind](segment, chance, number)
    originals = [segment.batch(number) for number in range(len(segment))]
    first = _laid_out(segment, parts)
    for begin, other in first[1]:
        # A byte that is gone from a batch's end may be the one that the next batch begins with.
        for original in originals:
            if original != other and first[0].data.find(original, begin, begin + len(other) + len(original) - 1) >= 0:
                return []
    found = [first[0]]
    for at, part in enumerate(parts):
        if isinstance(part, bytes) and part in originals:
            twin = originals.index(part)
            if parts[at - 1] == twin:
                continue
            moved: list[Part] = [part if each == twin else each for each in parts]
            moved[at] = twin
            numbers = [each for each in moved if isinstance(each, int)]
            if numbers == sorted(numbers):
                found.append(_laid_out(segment, moved)[0])
    return found


def _laid_out(segment: Segment, parts: Sequence[Part]) -> tuple[Damaged, list[tuple[int, bytes]]]:
    """Give the file, and what in it is no whole batch, with its position."""
    data = bytearray()
    whole: list[tuple[int, int]] = []
    lost: list[tuple[int, int]] = []
    others = []
    for part in parts:
        begin = len(data)
        if isinstance(part, int):
            whole.append((begin, part))
            data += segment.batch(part)
            continue
        others.append((begin, part))
        data += part
        if lost and lost[-1][1] == begin:
            lost[-1] = (lost[-1][0], len(data))
        elif part:
            lost.append((begin, len(data)))
    return Damaged(bytes(data), whole, lost), others


def gaps(segment: Segment, damage: Damaged) -> list[tuple[int | None, int | None]]:
    """Give the first and last offset that each lost range may have had."""
    found: list[tuple[int | None, int | None]] = []
    for begin, _ in damage.lost:
        before = [number for position, number in damage.whole if position < begin]
        after = [number for position, number in damage.whole if position > begin]
        first = segment.listed[before[-1]]["last_offset"] + 1 if before else segment.base_offset
        last = (segment.listed[after[0]]["base_offset"] if after else segment.next_offset) - 1
        found.append((first, last) if first <= last else (None, None))
    return found


def of_corpus(lines: Sequence[Line], folder: Path) -> list[Segment]:
    """Give the segments of a partition, of two batches or more, whose listed batches fill them."""
    files: dict[str, list[Line]] = {}
    for line in lines:
        if "size" in line:
            files.setdefault(line["file"], []).append(line)
    found = []
    for name, listed in files.items():
        data = (folder / name).read_bytes()
        ends = [line["position"] + line["size"] for line in listed]
        starts = [line["position"] for line in listed]
        is_filled = starts == [0, *ends[:-1]] and all(line["valid"] for line in listed)
        is_ordered = all(a["last_offset"] < b["base_offset"] for a, b in pairwise(listed))
        if len(listed) > 1 and is_filled and is_ordered:
            found.append(Segment(name, data[: ends[-1]], listed))
    return found
