"""Which partition a row goes to: Kafka's default partitioner for rows with a key, in turn for rows without one.

Source: ``Utils.murmur2`` and ``BuiltInPartitioner`` of Kafka's clients.
"""

from __future__ import annotations

import struct
import uuid
from typing import TYPE_CHECKING

from kafkalog import _core
from kafkalog.spark.topics import format_numbers, live_partitions

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Partitioner", "murmur2", "partition_for_key"]

_SEED, _MIX, _SHIFT, _WORD = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Hash bytes as Kafka does; the result is unsigned, 32 bits."""
    found = (_SEED ^ len(data)) & _WORD
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * _MIX & _WORD
        mixed = (mixed ^ mixed >> _SHIFT) * _MIX & _WORD
        found = (found * _MIX & _WORD) ^ mixed
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * _MIX & _WORD
    found = (found ^ found >> 13) * _MIX & _WORD
    return found ^ found >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key, of that many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Partitioner:
    """Assigns partitions to the rows of a task.

    Parameters
    ----------
    paths : sequence of str
        The log dirs.
    partitions : int
        How many partitions a new topic gets.
    """

    def __init__(self, paths: Sequence[str], partitions: int) -> None:
        self._paths, self._partitions = paths, partitions
        self._live: dict[str, frozenset[int]] = {}
        # Rows without a key take partitions in turn, from a random one on.
        self._turn = uuid.uuid4().int

    def assign(self, topic: str, requested: int | None, key: bytes | None) -> int:
        """Return the partition of a row.

        Raises
        ------
        ValueError
            For an invalid topic, and where the log dirs lack the partition.
        """
        if topic not in self._live:
            _core.check_topic(topic)
            self._live[topic] = live_partitions(self._paths, topic) or frozenset(range(self._partitions))
        live = self._live[topic]
        if requested is not None and requested in live:
            return requested
        number = max(live) + 1
        if requested is not None and not 0 <= requested < number:
            raise ValueError(
                f"cannot assign partition {requested}: topic {topic} has only {format_numbers(live)} here; correct the "
                "column `partition`, leave it out to assign partitions by key, or set the option `partitions` if the "
                "topic is new"
            )
        if len(live) < number:
            what = "a partition to a row" if requested is None else f"partition {requested}"
            raise ValueError(
                f"cannot assign {what}: topic {topic} has only {format_numbers(live)} here; list every log dir in "
                "`path`, or write only rows for these partitions"
            )
        if key is not None:
            return partition_for_key(key, number)
        self._turn += 1
        return self._turn % number
