"""What one Spark task reads: plain values that pickle small and mean the same on every machine and at every attempt.

File names and sizes are pinned when a read is planned, so a retried task reads the same bytes whatever a live broker
has appended meanwhile. A task costs about 20 ms of its slot whatever it reads, so small segments share one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalog.options import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog._core import PartitionRange, SegmentRange

__all__ = ["Split", "cut", "default_split_bytes", "shares"]

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


@dataclass(frozen=True)
class Split:
    """Consecutive segments of one or more partitions, in the order of the rows, and how to decode them."""

    ranges: tuple[PartitionRange, ...]
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
        return sum(each.bytes for each in self.ranges)

    @property
    def segments(self) -> int:
        """Number of segments."""
        return sum(each.segment_count for each in self.ranges)

    def to_json(self) -> str:
        """Serialize the split as one line of ASCII."""
        value = {
            "ranges": [each.to_plain() for each in self.ranges],
            "read": self.read.changed(),
            "decode_ahead": self.decode_ahead,
            "fail_on_data_loss": self.fail_on_data_loss,
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Split:
        """Restore what :meth:`to_json` serialized."""
        from kafkalog import _core

        found: dict[str, Any] = json.loads(text)
        return cls(
            tuple(_core.range_from_plain(each) for each in found["ranges"]),
            ReadOptions(**found["read"]),
            found["decode_ahead"],
            found["fail_on_data_loss"],
        )


def _restore(ranges: tuple[PartitionRange, ...], read: dict[str, Any], ahead: bool | None, fail: bool) -> Split:  # noqa: FBT001
    return Split(ranges, ReadOptions(**read), ahead, fail)


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


def shares(ranges: list[PartitionRange], split_bytes: int) -> Sequence[Sequence[PartitionRange]]:
    """Divide ranges into shares of about the same number of bytes, also inside segments.

    A segment is cut at a batch that its offset index names. Where there are very many segments and none is larger than
    a share, they stay whole: then no file has to be opened.
    """
    from kafkalog import _core

    sizes = [segment.bytes for each in ranges for segment in each.segments]
    if len(sizes) > MANY_SEGMENTS and max(sizes) <= split_bytes:
        return cut(ranges, split_bytes)
    return _core.pieces(ranges, split_bytes)


def cut(ranges: Iterable[PartitionRange], split_bytes: int) -> list[tuple[PartitionRange, ...]]:
    """Divide ranges at segment boundaries into shares of about the same number of bytes, in their order.

    A segment goes to the share that contains its middle, so a share is off by half a segment at each end at most.

    Parameters
    ----------
    ranges : iterable of PartitionRange
        In the order of the rows.
    split_bytes : int
        Bytes in a share.

    Returns
    -------
    list of tuple of PartitionRange
        None of them is empty.
    """
    found: list[tuple[PartitionRange, ...]] = []
    share: list[PartitionRange] = []
    number, position = 0, 0
    for each in ranges:
        taken: list[SegmentRange] = []
        for segment in each.segments:
            size = segment.bytes
            belongs = (position + size // 2) // split_bytes
            position += size
            if belongs != number:
                if taken:
                    share.append(each.with_segments(taken))
                    taken = []
                if share:
                    found.append(tuple(share))
                    share = []
                number = belongs
            taken.append(segment)
        if taken:
            share.append(each.with_segments(taken))
    if share:
        found.append(tuple(share))
    return found
