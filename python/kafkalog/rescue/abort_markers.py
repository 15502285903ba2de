"""Markers that abort transactions which no coordinator knows: batches as the leader writes them for a coordinator.

======================= ======= ==========================================================
field                   bytes   of a marker (``MemoryRecords.withEndTransactionMarker``)
======================= ======= ==========================================================
base offset             8
batch length            4       of all that follows
leader epoch            4
magic                   1       2
CRC-32C                 4       of all that follows
attributes              2       transactional and control
last offset delta       4       0
base, max timestamp     16
producer id, epoch      10
base sequence           4       -1
number of records       4       1
record                  17      key: version 0 and type 0, ABORT; value: version 0, coordinator epoch
======================= ======= ==========================================================
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog.rescue.model import OpenTransaction

__all__ = ["abort_markers"]

_TRANSACTIONAL_CONTROL = 0x30
_HEAD = struct.Struct(">qiiBI")
_BODY = struct.Struct(">hiqqqhii")
# Length 16 as a varint, attributes, two deltas of 0, the key with its length, the length of the value, no headers.
_RECORD = struct.Struct(">B3s5sBhiB")
_KEY = b"\x08\x00\x00\x00\x00"
# Of the batch length: leader epoch, magic and checksum.
_BEFORE_BODY = 9
# Castagnoli, reflected.
_POLYNOMIAL = 0x82F63B78


def abort_markers(transactions: Iterable[OpenTransaction], first_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """Return one batch for each transaction, at the offsets from the first one on."""
    batches = []
    for offset, each in enumerate(transactions, first_offset):
        record = _RECORD.pack(32, bytes(3), _KEY, 12, 0, max(each.coordinator_epoch, 0), 0)
        body = _BODY.pack(
            _TRANSACTIONAL_CONTROL, 0, timestamp_ms, timestamp_ms, each.producer_id, each.producer_epoch, -1, 1
        )
        length = _BEFORE_BODY + len(body) + len(record)
        batches.append(_HEAD.pack(offset, length, epoch, 2, _crc32c(body + record)) + body + record)
    return b"".join(batches)


def _crc32c(data: bytes) -> int:
    """Return the checksum; bit by bit, since a marker is short."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
