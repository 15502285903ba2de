"""Committed offsets beyond the ends of what was rescued, lowered by records that the group coordinator reads."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from kafkalog import _core
from kafkalog.writer import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog.rescue.model import GroupOffset

TOPIC = "__consumer_offsets"
# OffsetCommitValue without expiry, which every broker since 2.1 reads.
_VERSION = 3
_INT_BITS = 1 << 32


def coordinator_partition(group: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that holds a group (``GroupCoordinator.partitionFor``)."""
    # String.hashCode, over UTF-16; Utils.abs makes the least int 0.
    units = group.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) % _INT_BITS
    signed = hashed - _INT_BITS if hashed >= _INT_BITS // 2 else hashed
    return (0 if signed == -_INT_BITS // 2 else abs(signed)) % partitions


def lowered(offsets: Iterable[GroupOffset], partitions: int, now_ms: int) -> dict[int, list[Record]]:
    """Return the records to append, by partition of ``__consumer_offsets``."""
    records = defaultdict[int, list[Record]](list)
    for each in offsets:
        key = json.dumps({"group": each.group, "topic": each.topic, "partition": each.partition})
        value = {"offset": each.end_offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": now_ms}
        encoded = _core.encode_record(TOPIC, "OffsetCommit", _VERSION, key, json.dumps(value))
        records[coordinator_partition(each.group, partitions)].append(Record(encoded[1], encoded[0], timestamp=now_ms))
    return dict(records)
