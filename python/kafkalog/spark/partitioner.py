"""Which partition a record goes to: Kafka's default for records with a key, in turn for those without.

Source: ``Utils.murmur2`` and ``BuiltInPartitioner`` of Kafka's clients.
"""

from __future__ import annotations

import struct

__all__ = ["murmur2", "partition_for_key"]

_SEED, _MIX, _SHIFT, _WORD = 0x9747B28C, 0x5BD1E995, 24, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Hash bytes as Kafka does; the 32 bits are given without a sign."""
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
    """Choose a key's partition among so many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
