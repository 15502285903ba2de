"""What one Spark task reads: plain values that pickle small and mean the same on every machine and at every attempt.

File names and sizes are pinned when a read is planned, so a retried task reads the same bytes whatever a live broker
has appended meanwhile. A task costs about 20 ms of its slot whatever it reads, so small segments share one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog.options import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Range", "Segment", "Split", "cut", "default_split_bytes", "segment_bytes", "shares"]

# Bytes of log in a task: enough that the cost of a task does not matter, at most a second or two of work. Of 16 to
# 512 MiB, 256 was the fastest for 1 GiB on two slots; 32 MiB is half as fast and only for reads too small to give
# each slot more.
MIN_SPLIT_BYTES, MAX_SPLIT_BYTES = 32 << 20, 256 << 20
# A batch should still be in the second-level cache when it is sent, and be large enough that Spark's cost per batch
# (about 30 us in the worker alone) does not matter. Of 256 KiB to 2 MiB, 1 MiB was the fastest at 100 B and 1 KB.
BATCH_ROWS, BATCH_BYTES = 65_536, 1 << 20
# Spark's driver keeps every split in memory; a longer read gets larger splits.
MAX_SPLITS = 20_000
# More segments than this are not divided, only distributed.
MANY_SEGMENTS = 20_000


class Segment(NamedTuple):
    """A segment, or a piece of one, as ``_core.plan`` returns it (``src/scan/range.rs``)."""

    base_offset: int
    name: str
    size: int
    is_active: bool
    start_position: int
    next_base_offset: int | None
    # under read_committed: producer id, first and last offset of each aborted transaction, one after the other
    aborted: list[int] | None
    start_offset: int
    end_position: int | None
    end_offset: int | None


class Range(NamedTuple):
    """Consecutive segments of one partition, as ``_core.plan`` returns them."""

    folder: str
    topic: str
    partition: int
    start: int
    end: int | None
    segments: list[tuple[int, str, int, bool, int, int | None, list[int] | None, int, int | None, int | None]]
    min_timestamp: int | None
    max_timestamp: int | None


# Plain tuples stay plain: there may be a million segments.
_EXTENT = itemgetter(*map(Segment._fields.index, ("size", "start_position", "end_position")))


@dataclass(frozen=True)
class Split:
    """Consecutive segments of one or more partitions, in the order of the rows, and how to decode them."""

    ranges: tuple[Range, ...]
    # the same in every split of a read
    read: ReadOptions
    # whether a second thread decodes the next batch
    decode_ahead: bool | None = None
    fail_on_data_loss: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        # One for each task crosses to the executors: of the options, only those that differ from their defaults.
        return _restore, (self.ranges, self.read.changed(), self.decode_ahead, self.fail_on_data_loss)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return tuple(self.read.columns or ())

    @property
    def bytes(self) -> int:
        """Bytes of log that may have to be read."""
        return sum(segment_bytes(segment) for each in self.ranges for segment in each.segments)

    @property
    def segments(self) -> int:
        """Number of segments."""
        return sum(len(each.segments) for each in self.ranges)

    def to_json(self) -> str:
        """Serialize the split as one line of ASCII."""
        value = {
            "ranges": [each._replace(segments=[_packed(segment) for segment in each.segments]) for each in self.ranges],
            "read": self.read.changed(),
            "decode_ahead": self.decode_ahead,
            "fail_on_data_loss": self.fail_on_data_loss,
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Split:
        """Restore what :meth:`to_json` serialized."""
        found: dict[str, Any] = json.loads(text)
        ranges = [Range(*each) for each in found["ranges"]]
        return cls(
            tuple(each._replace(segments=[_unpacked(segment) for segment in each.segments]) for each in ranges),
            ReadOptions(**found["read"]),
            found["decode_ahead"],
            found["fail_on_data_loss"],
        )


def _restore(ranges: tuple[Range, ...], read: dict[str, Any], ahead: bool | None, fail: bool) -> Split:  # noqa: FBT001
    return Split(ranges, ReadOptions(**read), ahead, fail)


def _packed(values: tuple[Any, ...]) -> Any:
    """Shorten the usual segment, which is closed, whole and named by its offset: a plan may have a million of them."""
    segment = Segment(*values)
    base = segment.base_offset
    packed = (base, segment.size, segment.next_base_offset)
    return packed if segment == _unpacked(packed) else values


def _unpacked(values: Any) -> Any:
    if len(values) == len(Segment._fields):
        return tuple(values)
    base, size, next_base = values
    return (base, f"{base:020}.log", size, False, 0, next_base, None, base, None, None)


def default_split_bytes(total: int, slots: int) -> int:
    """Choose the size of a split: equal shares for all slots, in as few rounds as the largest split allows.

    Parameters
    ----------
    total : int
        Bytes of log to read.
    slots : int
        Tasks that run at the same time.

    Returns
    -------
    int
        Bytes of log in a split.
    """
    slots = max(slots, 1)
    rounds = max(-(-total // (slots * MAX_SPLIT_BYTES)), 1)
    rounds = min(rounds, max(MAX_SPLITS // slots, 1))
    return max(-(-total // (rounds * slots)), MIN_SPLIT_BYTES)


def shares(ranges: list[Range], split_bytes: int) -> Sequence[Sequence[Range]]:
    """Divide ranges into shares of about the same number of bytes, also inside segments.

    A segment is cut at a batch that its offset index names. Where there are very many segments and none is larger than
    a share, they stay whole: then no file has to be opened.
    """
    from kafkalog import _core

    sizes = [segment_bytes(segment) for each in ranges for segment in each.segments]
    if len(sizes) > MANY_SEGMENTS and max(sizes) <= split_bytes:
        return cut(ranges, split_bytes)
    return [[Range(*each) for each in share] for share in _core.pieces(list(ranges), split_bytes)]


def cut(ranges: Iterable[Range], split_bytes: int) -> list[tuple[Range, ...]]:
    """Divide ranges at segment boundaries into shares of about the same number of bytes, in their order.

    A segment goes to the share that contains its middle, so a share is off by half a segment at each end at most.

    Parameters
    ----------
    ranges : iterable of Range
        In the order of the rows.
    split_bytes : int
        Bytes in a share.

    Returns
    -------
    list of tuple of Range
        None of them is empty.
    """
    found: list[tuple[Range, ...]] = []
    share: list[Range] = []
    number, position = 0, 0
    for each in ranges:
        taken: list[Any] = []
        for segment in each.segments:
            size = segment_bytes(segment)
            belongs = (position + size // 2) // split_bytes
            position += size
            if belongs != number:
                if taken:
                    share.append(each._replace(segments=taken))
                    taken = []
                if share:
                    found.append(tuple(share))
                    share = []
                number = belongs
            taken.append(segment)
        if taken:
            share.append(each._replace(segments=taken))
    if share:
        found.append(tuple(share))
    return found


def segment_bytes(segment: tuple[Any, ...]) -> int:
    """Return the bytes of a segment, or of a piece of one, that may have to be read."""
    size, start, end = _EXTENT(segment)
    return int((size if end is None else end) - start)
