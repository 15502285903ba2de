"""What one Spark task reads: plain values that pickle small and mean the same on every machine and at every attempt.

File names and sizes are pinned at planning, so a task that is tried again reads the same bytes, whatever a live
broker has appended meanwhile. A task costs some 20 ms of its slot whatever it does, so small segments share one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog._core import _Range, _Segment

__all__ = ["ScanOptions", "Split", "bytes_of", "cut", "default_split_bytes", "shares"]

# One task: about as much as its own cost is worth, up to a second or two of work. Of 16 MiB to 512, 256 was the fastest
# for a gigabyte on two slots; 32, which is half as fast, is for reads too small to give each slot more.
LEAST_SPLIT, LARGEST_SPLIT = 32 << 20, 256 << 20
# One batch: what is still in the second-level cache when it is sent, and large enough that what Spark does for each
# (some 30 us in the worker alone) does not count. Of 256 KiB to 2 MiB, 1 was the fastest at 100 B and 1 KB.
BATCH_ROWS, BATCH_BYTES = 65_536, 1 << 20
# Spark's driver keeps all of them; a longer read has larger ones.
MOST_SPLITS = 20_000
# More than these are only divided between.
MANY_SEGMENTS = 20_000


@dataclass(frozen=True)
class ScanOptions:
    """How rows are made of the bytes; the same in every split of a read."""

    columns: tuple[str, ...]
    check_crcs: bool = True
    include_control: bool = False
    batch_rows: int = BATCH_ROWS
    batch_bytes: int = BATCH_BYTES
    # In a thread beside the sending; by default where that pays.
    decode_ahead: bool | None = None
    fail_on_data_loss: bool = True


@dataclass(frozen=True)
class Split:
    """Consecutive segments of one or more partitions, in the order of the rows."""

    ranges: tuple[_Range, ...]
    scan: ScanOptions

    @property
    def bytes(self) -> int:
        """Bytes of log that may have to be read."""
        return sum(bytes_of(segment) for each in self.ranges for segment in each[5])

    @property
    def segments(self) -> int:
        """Number of files."""
        return sum(len(each[5]) for each in self.ranges)

    def to_json(self) -> str:
        """Write the split as one line of ASCII."""
        ranges = [(*each[:5], [_short(segment) for segment in each[5]], *each[6:]) for each in self.ranges]
        return json.dumps({"ranges": ranges, "scan": asdict(self.scan)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Split:
        """Read what ``to_json`` wrote."""
        found: dict[str, Any] = json.loads(text)
        scan = dict(found["scan"], columns=tuple(found["scan"]["columns"]))
        ranges = tuple((*each[:5], [_whole(segment) for segment in each[5]], *each[6:]) for each in found["ranges"])
        return cls(ranges, ScanOptions(**scan))


def _short(segment: _Segment) -> tuple[Any, ...]:
    """Most segments are closed, whole and named by their offset: a plan may have a million of them."""
    base, name, size, is_active, start, behind, aborted, first, end, _ = segment
    is_whole = not is_active and start == 0 and first == base and end is None
    return (base, size, behind) if is_whole and aborted is None and name == f"{base:020}.log" else segment


def _whole(values: list[Any]) -> _Segment:
    if len(values) != len(("base", "size", "behind")):
        segment: Any = tuple(values)
        return segment  # type: ignore[no-any-return]
    base, size, behind = values
    return (base, f"{base:020}.log", size, False, 0, behind, None, base, None, None)


def default_split_bytes(total: int, slots: int) -> int:
    """Choose the size of a split: equal shares for every slot, in as few rounds as the largest split allows.

    Parameters
    ----------
    total : int
        Bytes of log to be read.
    slots : int
        Tasks that run at the same time.

    Returns
    -------
    int
        Bytes of log for one split.
    """
    slots = max(slots, 1)
    rounds = max(-(-total // (slots * LARGEST_SPLIT)), 1)
    rounds = min(rounds, max(MOST_SPLITS // slots, 1))
    return max(-(-total // (rounds * slots)), LEAST_SPLIT)


def shares(ranges: list[_Range], split_bytes: int) -> Sequence[Sequence[_Range]]:
    """Divide ranges into shares of about the same number of bytes, inside segments as well.

    A cut inside a segment is a batch that its offset index names. Where there are very many segments and none is larger
    than a share, they are left whole: that needs no file to be opened.
    """
    from kafkalog import _core

    sizes = [bytes_of(segment) for each in ranges for segment in each[5]]
    if len(sizes) > MANY_SEGMENTS and max(sizes) <= split_bytes:
        return cut(ranges, split_bytes)
    return _core.pieces(ranges, split_bytes)


def cut(ranges: Iterable[_Range], split_bytes: int) -> list[tuple[_Range, ...]]:
    """Divide the ranges at segment boundaries into shares of about the same number of bytes, in their order.

    Every segment goes to the share that its middle lies in, so a share is off by half a segment at each end at most.

    Parameters
    ----------
    ranges : iterable of range
        As planned, in the order of the rows.
    split_bytes : int
        Bytes for one share.

    Returns
    -------
    list of tuple of range
        None of them empty.
    """
    shares: list[tuple[_Range, ...]] = []
    share: list[_Range] = []
    number, position = 0, 0
    for each in ranges:
        head, segments, tail = each[:5], each[5], each[6:]
        taken: list[_Segment] = []
        for segment in segments:
            size = bytes_of(segment)
            belongs = (position + size // 2) // split_bytes
            position += size
            if belongs != number:
                if taken:
                    share.append((*head, taken, *tail))
                    taken = []
                if share:
                    shares.append(tuple(share))
                    share = []
                number = belongs
            taken.append(segment)
        if taken:
            share.append((*head, taken, *tail))
    if share:
        shares.append(tuple(share))
    return shares


def bytes_of(segment: _Segment) -> int:
    """Bytes of a segment, or of a piece of one, that may have to be read."""
    size, start, end = segment[2], segment[4], segment[8]
    return (size if end is None else end) - start
