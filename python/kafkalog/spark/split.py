"""Input of one Spark task: small plain values that mean the same on every machine and at every attempt.

File names and sizes are pinned when a read is planned, so a retried task reads the same bytes whatever a live broker
has appended meanwhile. A task costs about 20 ms of its slot whatever it reads, so small segments share one.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkalog.options import ReadOptions
from kafkalog.storage import restored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog import _core
    from kafkalog._core import PartitionRange
    from kafkalog.storage import Storage
    from kafkalog.tiers.mounting import MountedTier

# A batch should still be in the second-level cache when it is sent, and be large enough that Spark's cost per batch
# (about 30 us in the worker alone) does not matter. Of 256 KiB to 2 MiB, 1 MiB was the fastest at 100 B and 1 KB.
BATCH_ROWS, BATCH_BYTES = 65_536, 1 << 20

# How far back deflate looks.
_WINDOW = 1 << 15


@dataclass(frozen=True)
class Split:
    """Consecutive segments of one or more partitions, in the order of the rows, and how to decode them."""

    ranges: tuple[PartitionRange, ...]
    # the same in every split of a read
    read: ReadOptions
    fail_on_data_loss: bool = True
    # how keys and values are decoded, with all schemas for it
    decoding: _core.Decoding | None = None
    # what the ranges are in, if that is no disk
    stores: tuple[Storage | MountedTier, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # One for each task crosses to the executors: of the options, only those that differ from their defaults. The
        # stores come first: they must be open when the ranges are unpickled.
        return _restore, (self.stores, self.ranges, self.read.changed(), self.fail_on_data_loss, self.decoding)

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
        read = self.read.changed()
        if self.read.containing is not None:
            # JSON has no bytes: a character for each.
            read["containing"] = os.fsencode(self.read.containing).decode("latin-1")
        value: dict[str, Any] = {
            "ranges": [each.to_json() for each in self.ranges],
            "read": read,
            "fail_on_data_loss": self.fail_on_data_loss,
        }
        if self.stores:
            value["stores"] = [each.to_json() for each in self.stores]
        if self.decoding is not None:
            value["decoding"] = self.decoding.to_json()
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Split:
        """Restore what :meth:`to_json` serialized."""
        from kafkalog import _core

        found: dict[str, Any] = json.loads(text)
        decoding, read = found.get("decoding"), found["read"]
        if "containing" in read:
            read["containing"] = read["containing"].encode("latin-1")
        stores = tuple(restored(*each) for each in found.get("stores", ()))
        return cls(
            tuple(_core.range_from_json(each) for each in found["ranges"]),
            ReadOptions(**read),
            found["fail_on_data_loss"],
            None if decoding is None else _core.decoding_from_json(decoding),
            stores,
        )


def _restore(
    stores: tuple[Storage | MountedTier, ...],
    ranges: tuple[PartitionRange, ...],
    read: dict[str, Any],
    fail: bool,  # noqa: FBT001
    decoding: _core.Decoding | None = None,
) -> Split:
    return Split(ranges, ReadOptions(**read), fail, decoding, stores)


@dataclass(frozen=True)
class PackedSplits:
    """All splits of a read in about 17 bytes for each segment; a task unpacks its own."""

    # Splits differ in little: with the first one as dictionary, each of the others is compressed by itself.
    dictionary: bytes
    packed: tuple[bytes, ...]
    # Of all splits, once: it holds schemas.
    decoding: bytes = b""

    @classmethod
    def pack(cls, splits: Iterable[Split]) -> PackedSplits:
        """Pack the splits of a read."""
        splits = list(splits)
        decoding = splits[0].decoding if splits else None
        texts = [replace(split, decoding=None).to_json().encode("ascii") for split in splits]
        dictionary = texts[0][-_WINDOW:] if texts else b""
        schemas = b"" if decoding is None else zlib.compress(decoding.to_json().encode())
        return cls(dictionary, tuple(_deflate(text, dictionary) for text in texts), schemas)

    @property
    def bytes(self) -> int:
        """Bytes of all of them."""
        return len(self.dictionary) + sum(map(len, self.packed)) + len(self.decoding)

    def __getitem__(self, number: int) -> Split:
        """Unpack a split."""
        inflater = zlib.decompressobj(wbits=-15, zdict=self.dictionary)
        split = Split.from_json(inflater.decompress(self.packed[number]).decode("ascii"))
        if not self.decoding:
            return split
        from kafkalog import _core

        return replace(split, decoding=_core.decoding_from_json(zlib.decompress(self.decoding).decode()))


def _deflate(text: bytes, dictionary: bytes) -> bytes:
    deflater = zlib.compressobj(level=6, wbits=-15, zdict=dictionary)
    return deflater.compress(text) + deflater.flush()
