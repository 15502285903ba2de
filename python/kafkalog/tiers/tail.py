"""Last offset and leader epochs of a segment, from its own bytes, without metadata or manifest."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalog.errors import CorruptRecordError, KafkaLogError

if TYPE_CHECKING:
    from kafkalog.tiers.layout import RemoteFile, RemoteLayout, StoredSegment
    from kafkalog.tiers.objects import ObjectStore
    from kafkalog.tiers.segment import RemoteSegment

__all__ = ["complete", "cut_position", "epochs_of", "newest_timestamp"]

_HEADER = struct.Struct(">qiibIhi")  # offset, length, leader epoch, magic, crc, attributes, last offset delta
_OVERHEAD = 12
_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_MAX_SMALL = 16 << 20
_STEP = 64 << 10
_MAGIC_2 = 2


class _Batches:
    """A walk over the headers of a log."""

    def __init__(self, log: RemoteFile, position: int) -> None:
        self._log, self.position = log, position
        self._held, self._from = b"", 0

    def next(self) -> tuple[int, int, int] | None:
        """Return position, base offset and last offset of the next batch; None at the end of the log."""
        size = self._log.size
        if self.position >= size:
            return None
        header = self._bytes(min(_HEADER.size, size - self.position))
        if len(header) < _HEADER.size:
            raise CorruptRecordError(f"the log ends inside a batch at {self.position}", None, self.position)
        base, length, _, magic, _, _, delta = _HEADER.unpack(header)
        at = self.position
        if length <= 0 or base < 0 or at + _OVERHEAD + length > size:
            raise CorruptRecordError(f"the log ends inside a batch at {at}, or it is none", None, at)
        self.position = at + _OVERHEAD + length
        return at, base, base + delta if magic >= _MAGIC_2 else base

    def _bytes(self, length: int) -> bytes:
        begin = self.position - self._from
        if begin < 0 or begin + length > len(self._held):
            self._from = self.position
            try:
                self._held = self._log.read(self.position, min(max(_STEP, length), self._log.size - self.position))
            except CorruptRecordError:
                # The damage may be after the header.
                self._held = self._log.read(self.position, length)
            begin = 0
        return self._held[begin : begin + length]


def _small(layout: RemoteLayout, store: ObjectStore, stored: StoredSegment, kind: str) -> bytes:
    found = layout.open(store, stored, kind)
    if found is None or not 0 < found.size <= _MAX_SMALL:
        return b""
    return found.read(0, found.size)


def complete(segment: RemoteSegment, stored: StoredSegment, layout: RemoteLayout, store: ObjectStore) -> None:
    """Find a segment's last offset and leader epochs in its files.

    Raises
    ------
    CorruptRecordError
        If the log ends inside a batch, or before what its index names.
    """
    log = layout.open(store, stored, "log")
    start = stored.start_offset
    if log is None or start is None:
        return
    segment.size, segment.start_offset = log.size, start
    index = _small(layout, store, stored, "index")
    at = 0
    if len(index) >= _INDEX_ENTRY.size:
        last = len(index) // _INDEX_ENTRY.size * _INDEX_ENTRY.size - _INDEX_ENTRY.size
        _, at = _INDEX_ENTRY.unpack_from(index, last)
        if at >= log.size:
            raise CorruptRecordError(f"expected a batch at {at}, as its index says; the log has {log.size} bytes")
    walk = _Batches(log, max(at, 0))
    end = None
    while (batch := walk.next()) is not None:
        end = batch[2]
    if end is None:
        raise CorruptRecordError("the log is empty")
    segment.end_offset = end
    history = _parsed(_small(layout, store, stored, "leader_epochs"))
    segment.epochs = _within(history, start, end) or {-1: start}
    # Nothing tells when it was copied; a leader copies what is of its own epoch after those before it.
    segment.order = (max(segment.epochs), end)


def epochs_of(segment: RemoteSegment, layout: RemoteLayout, store: ObjectStore) -> dict[int, int]:
    """Return all leader epochs of the log up to a segment, as its copy has them."""
    if segment.stored is None:
        return {}
    return _parsed(_small(layout, store, segment.stored, "leader_epochs"))


def newest_timestamp(segment: RemoteSegment, layout: RemoteLayout, store: ObjectStore) -> int:
    """Return the largest timestamp that a segment's time index has; -1 without one."""
    if segment.stored is None:
        return -1
    try:
        index = _small(layout, store, segment.stored, "timeindex")
    except (KafkaLogError, OSError, ValueError):
        return -1
    whole = index[: len(index) // _TIME_ENTRY.size * _TIME_ENTRY.size]
    return max((time for time, _ in _TIME_ENTRY.iter_unpack(whole)), default=-1)


def _parsed(text: bytes) -> dict[int, int]:
    """Return the entries of a ``leader-epoch-checkpoint``; none if it is not one."""
    try:
        lines = text.decode("ascii").splitlines()
        entries = [tuple(map(int, line.split())) for line in lines[2:]]
        if not lines or lines[0] != "0" or int(lines[1]) != len(entries):
            return {}
        return {epoch: offset for epoch, offset in entries}  # noqa: C416 - checks that they are pairs
    except (ValueError, IndexError):
        return {}


def _within(history: dict[int, int], start: int, end: int) -> dict[int, int]:
    """Return the leader epochs of a range of offsets, the first of them from its beginning."""
    found: dict[int, int] = {}
    for epoch, offset in sorted(history.items()):
        if offset > end:
            break
        if offset <= start:
            found.clear()
        found[epoch] = max(offset, start)
    return found


def cut_position(log: RemoteFile, index: bytes, start_offset: int, offset: int) -> int:
    """Return the position of the first batch that begins at ``offset`` or later; the size where there is none."""
    at = 0
    for relative, position in _INDEX_ENTRY.iter_unpack(index[: len(index) // _INDEX_ENTRY.size * _INDEX_ENTRY.size]):
        if start_offset + relative >= offset or not 0 <= position < log.size:
            break
        at = position
    walk = _Batches(log, at)
    while (batch := walk.next()) is not None:
        if batch[1] >= offset:
            return batch[0]
    return log.size
