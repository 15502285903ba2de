"""The consumer protocol, which the groups of consumers put into ``GroupMetadata`` records as bytes.

======================= =====================================================
field                   encoding
======================= =====================================================
version                 int16
subscription: topics    int32 count of strings
userData                int32 length and bytes, -1 for null
ownedPartitions         version 1+: int32 count of (topic, int32 count of int32)
generationId            version 2+: int32
rackId                  version 3+: string, null if its length is -1
assignment: partitions  int32 count of (topic, int32 count of int32)
======================= =====================================================

A string is an int16 length and UTF-8; integers are big-endian. Later versions add fields at the end.
Source: ``ConsumerProtocol`` (``ConsumerProtocolSubscription.json``, ``ConsumerProtocolAssignment.json``).
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["assignment", "subscription"]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def count(self) -> int:
        # An element takes two bytes at least.
        count = self.number(">i")
        if count > (len(self._data) - self._at) // 2:
            raise ValueError("more elements than bytes")
        return count

    def take(self, length: int) -> bytes | None:
        if length < 0:
            return None
        end = self._at + length
        if end > len(self._data):
            raise ValueError("more bytes than there are")
        taken, self._at = self._data[self._at : end], end
        return taken

    def text(self) -> str | None:
        taken = self.take(self.number(">h"))
        return None if taken is None else taken.decode("utf-8", "replace")

    def partitions(self) -> list[dict[str, Any]]:
        return [
            {"topic": self.text(), "partitions": [self.number(">i") for _ in range(self.count())]}
            for _ in range(self.count())
        ]


def subscription(data: bytes) -> tuple[list[str], str | None] | None:
    """Return the topics and the rack of a subscription; None for bytes that are none."""
    reader = _Reader(data)
    try:
        version = reader.number(">h")
        topics = [reader.text() or "" for _ in range(reader.count())]
        if version < 3:  # noqa: PLR2004 - the version that has a rack
            return topics, None
        reader.take(reader.number(">i"))
        reader.partitions()
        reader.number(">i")
        return topics, reader.text()
    except (struct.error, ValueError):
        return None


def assignment(data: bytes) -> list[dict[str, Any]] | None:
    """Return the partitions of an assignment, by topic; None for bytes that are none."""
    reader = _Reader(data)
    try:
        reader.number(">h")
        return reader.partitions()
    except (struct.error, ValueError):
        return None
