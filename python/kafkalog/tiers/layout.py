"""Names and contents of a tier's objects: one small class for each plugin of Kafka's.

A remote storage manager (KIP-405) copies the files of a segment to wherever it likes. :class:`RemoteLayout` says where
that is; subclass it for a plugin of your own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalog.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog.errors import KafkaLogError
    from kafkalog.tiers.objects import ObjectInfo, ObjectStore

__all__ = [
    "FILES",
    "DamagedError",
    "ObjectFile",
    "ObjectName",
    "RemoteFile",
    "RemoteLayout",
    "SegmentFacts",
    "StoredSegment",
    "WrongSizeError",
]

# Files of a segment, by the suffix that each has in a log dir.
FILES = ("log", "index", "timeindex", "txnindex", "snapshot", "leader_epochs")


class WrongSizeError(CorruptRecordError):
    """An object is shorter or longer than it has to be."""


class DamagedError(CorruptRecordError):
    """Some bytes of a segment's file cannot be had, as what they are made of is damaged. The others can.

    Parameters
    ----------
    error : KafkaLogError
        The damage, and the object and position where it is.
    start, end : int
        The bytes of the file, from the first to before the second.
    """

    # By which the core knows it.
    kind = "damaged"

    def __init__(self, error: KafkaLogError, start: int, end: int) -> None:
        super().__init__(str(error), error.path, error.position)
        self.error: KafkaLogError = error.error if isinstance(error, DamagedError) else error
        self.start, self.end = start, end


class ObjectName(NamedTuple):
    """Facts in the key of an object.

    Attributes
    ----------
    topic : str
        The topic.
    topic_id : str
        Its id as Kafka prints it, 22 characters.
    partition : int
        The partition.
    segment_id : str
        The id of the copied segment, likewise.
    start_offset : int or None
        The segment's first offset, if the key has it.
    kind : str
        One of ``log``, ``index``, ``timeindex``, ``txnindex``, ``snapshot``, ``leader_epochs``; or a name of the
        layout's own for an object that holds several of them, or describes the segment.
    """

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int | None
    kind: str

    @classmethod
    def of(cls, found: Mapping[str, str], kind: str) -> ObjectName:
        """Return the name whose parts were found in a key."""
        ids = found["topic"], found["topic_id"], int(found["partition"]), found["segment_id"]
        return cls(*ids, int(found["start"]), kind)


class SegmentFacts(NamedTuple):
    """Facts that the tier itself holds about a segment, for instance in a manifest.

    Attributes
    ----------
    start_offset, end_offset : int
        Its first and last offset.
    epochs : dict of int to int
        The first offset in the segment of each leader epoch.
    size : int
        Bytes of its log.
    copied_at : int
        When it was copied, in milliseconds since the epoch.
    topic : str or None
        The topic's name, if the key need not have it.
    max_timestamp : int or None
        The largest timestamp in it, in milliseconds, if the tier tells.
    """

    start_offset: int
    end_offset: int
    epochs: dict[int, int]
    size: int
    copied_at: int
    topic: str | None = None
    max_timestamp: int | None = None


@dataclass
class StoredSegment:
    """The objects of one segment, as they were listed.

    Attributes
    ----------
    topic, topic_id, partition, segment_id, start_offset
        As in :class:`ObjectName`.
    objects : dict of str to ObjectInfo
        Its objects by kind.
    """

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int | None
    objects: dict[str, ObjectInfo] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all its objects."""
        return sum(each.size for each in self.objects.values())


class RemoteFile(Protocol):
    """A file of a segment."""

    @property
    def size(self) -> int:
        """Its length."""

    def read(self, start: int, length: int) -> bytes:
        """Return a range of it."""


@dataclass
class ObjectFile:
    """A file of a segment that is an object, or a range of one, as it is."""

    store: ObjectStore
    object: ObjectInfo

    @property
    def size(self) -> int:
        """Its length."""
        return self.object.size

    def read(self, start: int, length: int) -> bytes:
        """Return a range of it."""
        return read_range(self.store, self.object, start, length)


def read_range(store: ObjectStore, each: ObjectInfo, start: int, length: int) -> bytes:
    """Read a range of an object, all of it."""
    data = bytes(store.read(each.key, start, length, each.size, each.version)) if length else b""
    if len(data) != length:
        found = f"{start + len(data)} bytes"
        raise WrongSizeError(f"{each.key}: expected {start + length} bytes, found {found}", each.key, start)
    return data


class RemoteLayout(ABC):
    r"""Layout in which a plugin stores the files of a segment. Subclass it for a plugin that kafkalog does not know.

    :meth:`parse` is all that a layout needs whose objects are the segment's files as they are. One that stores them in
    another way also overrides :meth:`open`; one that describes segments, :meth:`describe`.

    Examples
    --------
    >>> class Flat(kafkalog.tiers.RemoteLayout):  # doctest: +SKIP
    ...     def parse(self, key):
    ...         found = re.fullmatch(r"(.+)\.(.{22})\.(\d+)/(.{22})\.(\d{20})\.(log|index|timeindex)", key)
    ...         if found:
    ...             topic, topic_id, partition, segment_id, start, kind = found.groups()
    ...             return kafkalog.tiers.ObjectName(topic, topic_id, int(partition), segment_id, int(start), kind)
    >>> kafkalog.read_table("/data/kafka-logs", remote="s3://bucket/tier", remote_layout=Flat())  # doctest: +SKIP
    """

    # How the source of a segment's facts is called: by names alone, or by what describe() reads.
    source = "listing"
    # The kinds of objects that a whole copy has.
    required: tuple[str, ...] = ("log", "index", "timeindex")

    @abstractmethod
    def parse(self, key: str) -> ObjectName | None:
        """Return the facts in an object's key; None for an object that is of no segment.

        Parameters
        ----------
        key : str
            The key below the remote root.
        """

    def describe(self, store: ObjectStore, stored: StoredSegment) -> SegmentFacts | None:  # noqa: ARG002
        """Return the tier's facts about a segment; None where it has names alone.

        Raises
        ------
        CorruptRecordError
            If the tier contradicts itself.
        """
        return None

    def open(self, store: ObjectStore, stored: StoredSegment, kind: str) -> RemoteFile | None:
        """Open a file of a segment; None if there is none.

        Parameters
        ----------
        store : ObjectStore
            What reads objects.
        stored : StoredSegment
            The segment.
        kind : str
            One of ``log``, ``index``, ``timeindex``, ``txnindex``, ``snapshot``, ``leader_epochs``.
        """
        found = stored.objects.get(kind)
        return None if found is None else ObjectFile(store, found)

    def missing(self, stored: StoredSegment) -> str | None:
        """Return what is missing to a whole copy, as far as names tell; None if it is whole."""
        lacks = [kind for kind in self.required if kind not in stored.objects]
        return f"no {' and no '.join(lacks)}" if lacks else None

    def group(self, objects: Iterable[ObjectInfo]) -> dict[tuple[str, int, str], StoredSegment]:
        """Return segments by topic id, partition and segment id."""
        found: dict[tuple[str, int, str], StoredSegment] = {}
        for each in objects:
            name = self.parse(each.key)
            if name is None:
                continue
            place = (name.topic_id, name.partition, name.segment_id)
            stored = found.get(place)
            if stored is None:
                stored = found[place] = StoredSegment(
                    name.topic, name.topic_id, name.partition, name.segment_id, name.start_offset
                )
            stored.objects[name.kind] = each
        return found
