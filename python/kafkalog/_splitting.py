"""Planned ranges divided into shares of about the same number of bytes, for tasks that run side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog._core import PartitionRange, SegmentRange

# Bytes of log in a task, as Spark cuts its own files (``spark.sql.files.maxPartitionBytes``).
SPLIT_BYTES = 128 << 20
# Spark's driver keeps every split in memory; a longer read gets larger splits.
MAX_SPLITS = 20_000
# More segments than this are not divided, only distributed.
MANY_SEGMENTS = 20_000


def default_split_bytes(total: int) -> int:
    """Choose the size of a split."""
    return max(SPLIT_BYTES, -(-total // MAX_SPLITS))


def split_ranges(
    ranges: list[PartitionRange], split_bytes: int, *, whole_segments: bool = False
) -> Sequence[Sequence[PartitionRange]]:
    """Divide ranges into shares of about the same number of bytes, also inside segments.

    A segment is cut at a batch that its offset index names. Where there are very many segments and none is larger than
    a share, they stay whole: then no file has to be opened. They do so, too, for a read past damage: only a reader that
    sees a whole segment can tell which of its batches are in their place.
    """
    from kafkalog import _core

    sizes = [segment.bytes for each in ranges for segment in each.segments]
    if whole_segments or (len(sizes) > MANY_SEGMENTS and max(sizes) <= split_bytes):
        return split_at_segments(ranges, split_bytes)
    return _core.pieces(ranges, split_bytes)


def split_at_segments(ranges: Iterable[PartitionRange], split_bytes: int) -> list[tuple[PartitionRange, ...]]:
    """Divide ranges at segment boundaries into shares of about the same number of bytes, in their order.

    A segment goes to the share that contains its middle, so a share is off by half a segment at each end at most.
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
