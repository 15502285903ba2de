"""A segment of a tier, as far as metadata, manifests and names tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from kafkalog.tiers.layout import StoredSegment

__all__ = ["DELETED", "FINISHED", "STARTED", "STATES", "Fault", "RemoteSegment", "TierPartition"]

STARTED, FINISHED = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"
DELETING, DELETED = "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"
# By the number in records (RemoteLogSegmentState).
STATES = (STARTED, FINISHED, DELETING, DELETED)


class Fault(NamedTuple):
    """Defects of a segment's objects.

    Attributes
    ----------
    code : str
        A stable word for it, as in the findings of ``kafkalog.verify``.
    text : str
        What was expected, and what was found.
    """

    code: str
    text: str


@dataclass
class RemoteSegment:
    """One copy of a segment.

    Attributes
    ----------
    topic, topic_id, partition, segment_id
        What it is.
    source : {"metadata", "manifest", "listing"}
        Where the rest is from.
    start_offset, end_offset : int or None
        Its first and last offset.
    epochs : dict of int to int or None
        The first offset in it of each leader epoch.
    state : str or None
        Kafka's name of its state; None without a record of it.
    size : int or None
        Bytes of its log.
    max_timestamp : int or None
        The largest timestamp in it, in milliseconds, if metadata or a manifest tells.
    order : tuple
        Rises with the time at which its copy ended.
    stored : StoredSegment or None
        Its objects.
    fault : Fault or None
        Defects of its objects.
    reason : str or None
        Why it serves nothing.
    """

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    source: Literal["metadata", "manifest", "listing"]
    start_offset: int | None = None
    end_offset: int | None = None
    epochs: dict[int, int] | None = None
    state: str | None = None
    size: int | None = None
    max_timestamp: int | None = None
    order: tuple[int, ...] = (0,)
    stored: StoredSegment | None = None
    fault: Fault | None = None
    reason: str | None = None

    @property
    def place(self) -> tuple[str, int, str]:
        """Its identity."""
        return self.topic_id, self.partition, self.segment_id

    def end_in_epoch(self, epoch: int) -> int:
        """Return its last offset of a leader epoch."""
        later = [offset for each, offset in (self.epochs or {}).items() if each > epoch]
        end = -1 if self.end_offset is None else self.end_offset
        return min(later) - 1 if later else end


@dataclass
class TierPartition:
    """A partition of one topic id, and its segments in the tier."""

    topic: str
    topic_id: str
    partition: int
    segments: list[RemoteSegment] = field(default_factory=list)
