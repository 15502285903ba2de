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
    from kafkalog._core import PartitionRange

__all__ = ["Split"]

# A batch should still be in the second-level cache when it is sent, and be large enough that Spark's cost per batch
# (about 30 us in the worker alone) does not matter. Of 256 KiB to 2 MiB, 1 MiB was the fastest at 100 B and 1 KB.
BATCH_ROWS, BATCH_BYTES = 65_536, 1 << 20


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
