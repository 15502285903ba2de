"""Random logs, and what Kafka's cleaner leaves of them, by rules over plain lists and dicts.

A log has keys that come again, tombstones, records without a key, transactions (committed, aborted, open), every codec,
sometimes messages of magic 0 or 1 at its beginning, and batches whose bytes are damaged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from byte_logs import CODECS, TRANSACTIONAL, Producer, Record, batch, marker, messages

if TYPE_CHECKING:
    import random
    from pathlib import Path

NOW = 1_700_000_000_000
HOUR = 3_600_000


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch, or a message of magic 0 or 1."""

    data: bytes
    records: list[Record]
    last_offset: int
    time: int
    """The largest timestamp."""
    magic: int = 2
    producer: int | None = None
    """Producer of its transaction."""
    commit: bool | None = None
    """Of a marker, how it ends the transaction."""


@dataclass
class Log:
    """The segments of a partition, each with its batches; and those that are damaged."""

    segments: list[list[Batch]]
    lost: set[Batch] = field(default_factory=set)

    @property
    def bases(self) -> list[int]:
        """The base offset of each segment."""
        return [
            segment[0].records[0].offset if segment[0].records else segment[0].last_offset for segment in self.segments
        ]

    @property
    def batches(self) -> list[Batch]:
        """Those that can be read."""
        return [each for segment in self.segments for each in segment if each not in self.lost]

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.batches[-1].last_offset + 1

    def write(self, log_dir: Path, chance: random.Random) -> Path:
        """Write the segments as a killed broker leaves them, with the damage; return the partition's folder."""
        folder = log_dir / "orders-0"
        folder.mkdir(parents=True)
        for base, segment in zip(self.bases, self.segments, strict=True):
            parts = [_damaged(each, chance) if each in self.lost else each.data for each in segment]
            (folder / f"{base:020}.log").write_bytes(b"".join(parts))
        return folder

    def aborted(self) -> tuple[set[Batch], int]:
        """Give the batches of aborted transactions, and the last stable offset."""
        open_ones: dict[int, list[Batch]] = {}
        aborted: set[Batch] = set()
        for each in self.batches:
            if each.producer is not None and each.commit is None:
                open_ones.setdefault(each.producer, []).append(each)
            elif each.producer is not None:
                ended = open_ones.pop(each.producer, [])
                aborted |= set() if each.commit else set(ended)
        firsts = [batches[0].records[0].offset for batches in open_ones.values()]
        return aborted, min(firsts, default=self.end)

    def first_uncleanable(self, *, roll: bool, lag_ms: int) -> int:
        """Give the base of the first segment that the cleaner leaves alone."""
        closed = [*self.bases, self.end] if roll else self.bases
        bounds = [closed[-1], self.aborted()[1]]
        for base, segment in zip(closed[:-1], self.segments, strict=False):
            if lag_ms and max(each.time for each in segment if each not in self.lost) > NOW - lag_ms:
                bounds.append(base)
        return max(base for base in closed if base <= min(bounds))

    def cleaned(self, *, roll: bool, lag_ms: int) -> list[Record]:
        """Give the records that the cleaner leaves: of each key the last one, and all that it may not look at."""
        end, (aborted, _) = self.first_uncleanable(roll=roll, lag_ms=lag_ms), self.aborted()
        counting = [each for each in self.batches if each not in aborted and each.last_offset < end]
        last = {record.key: record.offset for each in counting for record in each.records}
        left = []
        for each in self.batches:
            for record in each.records:
                is_last = each not in aborted and record.key is not None and last.get(record.key) == record.offset
                if each.last_offset >= end or is_last:
                    left.append(record)
        return left

    def committed(self, records: list[Record]) -> list[Record]:
        """Give those that a consumer of ``read_committed`` gets."""
        aborted, stable = self.aborted()
        gone = {record.offset for each in aborted for record in each.records}
        return [each for each in records if each.offset < stable and each.offset not in gone]


def _damaged(whole: Batch, chance: random.Random) -> bytes:
    """Flip a bit of the checksum, or of the last byte."""
    at = (17 if whole.magic == 2 else 12) + chance.randrange(4) if chance.random() < 0.5 else len(whole.data) - 1
    return whole.data[:at] + bytes([whole.data[at] ^ 1 << chance.randrange(8)]) + whole.data[at + 1 :]


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance, self.offset = chance, chance.choice([0, 0, 1000])
        self.open: set[int] = set()
        self.sequences: dict[int, int] = {}
        self.keys = chance.choice([3, 12, 60])

    def records(self, magic: int) -> list[Record]:
        chance, found = self.chance, []
        for _ in range(chance.randint(1, 6)):
            # Offsets that earlier passes, or other records, left out.
            self.offset += chance.choice([0, 0, 0, 0, 3])
            key = None if chance.random() < 0.08 else b"k%d" % chance.randrange(self.keys)
            value = None if chance.random() < 0.15 else chance.randbytes(chance.randint(0, 30))
            time = NOW - chance.randrange(10 * HOUR) if magic else -1
            found.append(Record(self.offset, time, key, value))
            self.offset += 1
        return found

    def batch(self) -> Batch:
        chance = self.chance
        if self.open and chance.random() < 0.25:
            producer, commit = chance.choice(sorted(self.open)), chance.random() < 0.5
            self.open.discard(producer)
            time = NOW - chance.randrange(10 * HOUR)
            data = marker(self.offset, time, producer, commit=commit)
            self.offset += 1
            return Batch(data, [], self.offset - 1, time, producer=producer, commit=commit)
        records = self.records(2)
        codec = chance.choice(CODECS)
        kind = chance.choice(["plain", "plain", "idempotent", "transaction"])
        writer, attributes, owner = Producer(), 0, None
        if kind != "plain":
            number = chance.randrange(3) + (10 if kind == "transaction" else 20)
            sequence = self.sequences.get(number, 0)
            count = records[-1].offset - records[0].offset + 1
            self.sequences[number] = sequence + count
            writer = Producer(number, 0, sequence)
        if kind == "transaction":
            self.open.add(writer.producer_id)
            attributes, owner = TRANSACTIONAL, writer.producer_id
        data = batch(records, codec, writer, attributes)
        return Batch(data, records, records[-1].offset, max(each.time for each in records), producer=owner)

    def legacy(self, magic: int) -> list[Batch]:
        records = self.records(magic)
        codec = self.chance.choice(CODECS[:4])
        groups = [[each] for each in records] if codec == "none" else [records]
        return [
            Batch(messages(group, magic, codec), group, group[-1].offset, max(each.time for each in group), magic)
            for group in groups
        ]


def random_log(chance: random.Random, *, legacy: bool, damage: bool) -> Log:
    """Make a log of a few segments."""
    maker = _Maker(chance)
    magics = sorted(chance.choice([0, 1, 2]) if legacy else 2 for _ in range(chance.randint(2, 5)))
    segments: list[list[Batch]] = []
    for magic in magics:
        batches: list[Batch] = []
        for _ in range(chance.randint(1, 7)):
            batches += [maker.batch()] if magic == 2 else maker.legacy(magic)
        segments.append(batches)
    log = Log(segments)
    if damage:
        for segment in segments:
            # Something of each segment is left.
            hit = [each for each in segment if chance.random() < 0.2]
            log.lost |= set(hit[: len(segment) - 1])
    return log
