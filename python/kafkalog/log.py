"""Log dirs, partitions and segments: what a log holds, and where."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kafkalog import _arguments, _core, _reprs, _tiered, storage
from kafkalog._times import format_time
from kafkalog.errors import KafkaLogError
from kafkalog.options import BatchRangeKeywords, PartitionScanKeywords, expand_signature, merged
from kafkalog.reader import batch_reader, record_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from typing_extensions import Self, Unpack

    from kafkalog.options import ReadOptions
    from kafkalog.reader import RecordReader
    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.typing import StrPath

__all__ = [
    "LeaderEpoch",
    "LogDir",
    "Lookup",
    "OffsetAndTimestamp",
    "PartitionFolder",
    "PartitionLog",
    "PartitionOffset",
    "SegmentInfo",
]


class SegmentInfo(NamedTuple):
    """One ``.log`` file.

    Attributes
    ----------
    base_offset : int
        From its name.
    name : str
        The file's name.
    size : int
        Its size in bytes when the log was opened.
    is_active : bool
        Whether it is the last one, to which a broker would append.
    modified : int
        When it was last modified, in milliseconds since the epoch.
    """

    base_offset: int
    name: str
    size: int
    is_active: bool
    modified: int


class Lookup(NamedTuple):
    """Place of a record.

    Attributes
    ----------
    segment_base_offset : int
        The segment's base offset.
    position : int
        The byte in the segment at which the record's batch begins.
    offset : int
        The record's offset.
    """

    segment_base_offset: int
    position: int
    offset: int


class OffsetAndTimestamp(NamedTuple):
    """Kafka's answer to "which offset at this time".

    Attributes
    ----------
    offset : int
        The record's offset.
    timestamp : int
        The record's timestamp, milliseconds since the epoch.
    leader_epoch : int or None
        The leader epoch in which it was written, where the batch has one.
    """

    offset: int
    timestamp: int
    leader_epoch: int | None


class LeaderEpoch(NamedTuple):
    """An entry of ``leader-epoch-checkpoint``.

    Attributes
    ----------
    epoch : int
        The leader epoch.
    start_offset : int
        Its first offset.
    """

    epoch: int
    start_offset: int


class PartitionOffset(NamedTuple):
    """An entry of a log dir's checkpoint.

    Attributes
    ----------
    topic : str
        The topic.
    partition : int
        The partition.
    offset : int
        The offset in the checkpoint.
    """

    topic: str
    partition: int
    offset: int


class PartitionFolder(NamedTuple):
    """A partition's folder in a log dir, not opened.

    Attributes
    ----------
    path : str
        The folder.
    topic : str
        The topic.
    partition : int
        The partition.
    state : {"live", "delete", "future", "stray"}
        Its state, from the suffix of the folder's name: live, being deleted, being moved to this log dir, or stray.
    """

    path: str
    topic: str
    partition: int
    state: Literal["live", "delete", "future", "stray"]


class LogDir:
    """A log dir (one entry of a broker's ``log.dirs``), as it was when it was opened. Nothing is written to it.

    Iterating gives its live partitions; ``dirs["orders", 0]`` gives one. Every function that takes a path takes it too.
    A folder named like a partition counts as one if it holds a segment file, ``partition.metadata`` or
    ``leader-epoch-checkpoint``, or if the log dir has ``meta.properties``, a checkpoint or the marker of a clean
    shutdown. A pickle holds the path only: the log dir is opened again where it is unpickled.

    Parameters
    ----------
    path : path
        The folder that holds ``meta.properties`` and the partitions' folders. A relative path is resolved at once, and
        holds when the process changes its working directory. Or a URL of a store, whose listing is that of now.
    storage_options, filesystem : optional
        The store of a URL, as for :func:`kafkalog.scan`.
    remote, remote_layout, keyring : optional
        Tiered storage whose segments are those of the log dir's partitions, too, as for :func:`kafkalog.scan`.

    Raises
    ------
    ValueError
        For a partition's folder, which :class:`PartitionLog` opens, and for a folder that has files, but none of
        Kafka's.

    Examples
    --------
    >>> dirs = kafkalog.LogDir("/var/lib/kafka/data")  # doctest: +SKIP
    >>> dirs["orders", 0].log_end_offset  # doctest: +SKIP
    880
    """

    __slots__ = ("_core", "_listed", "_path")

    def __init__(
        self,
        path: StrPath | None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: object | None = None,
        remote: StrPath | None = None,
        remote_layout: LayoutChoice = "auto",
        keyring: Mapping[str, StrPath] | None = None,
    ) -> None:
        here = _tiered.located(
            path,
            remote=remote,
            remote_layout=remote_layout,
            keyring=keyring,
            storage_options=storage_options,
            filesystem=filesystem,
        )
        self._path = _arguments.path(here if remote is None else here[0])
        self._core = _core.LogDir(self._path)
        self._listed: _Listed | None = None

    def __repr__(self) -> str:
        live = self._live()
        topics = [f"{topic} ({number})" for topic, number in Counter(folder.topic for folder in live).items()]
        listed = f": {_reprs.short_list(topics)}" if topics else ""
        return (
            f"<kafkalog.LogDir {self._path!r}, {_reprs.count(len(topics), 'topic')}, "
            f"{_reprs.count(len(live), 'partition')}{listed}>"
        )

    def _repr_html_(self) -> str:
        from kafkalog.report.small import overview

        live = self._live()
        opener = PartitionOpener()
        rows = [_row(folder, opener) for folder in live[:_SHOWN]]
        more = f"... and {len(live) - _SHOWN} more" if len(live) > _SHOWN else ""
        head = ("topic", "partition", "log start", "high watermark", "segments", "size")
        listing = _reprs.html_table(f"LogDir {self._path}", head, rows, more)
        identities = zip(self.folders, self._core.identities(), strict=True)
        sizes = {folder.path: sum(size for _, size in found[4]) for folder, found in identities}
        partitions = [
            {
                "topic": folder.topic,
                "partition": folder.partition,
                "diskBytes": sizes.get(folder.path, 0),
                "bytesFreeable": 0,
            }
            for folder in live
        ]
        return overview(self._path, self.meta or {}, partitions, listing)

    def __reduce__(self) -> tuple[type[Self], tuple[Any]]:
        return type(self), (storage.pickled(self._path),)

    def __fspath__(self) -> str:
        return self._path

    def __iter__(self) -> Iterator[PartitionLog]:
        opener = PartitionOpener()
        return (opener.open(folder.path) for folder in self._live())

    def __len__(self) -> int:
        return len(self._live())

    def __contains__(self, topic_partition: object) -> bool:
        return isinstance(topic_partition, tuple) and topic_partition in self._listing().by_partition

    def __getitem__(self, topic_partition: tuple[str, int]) -> PartitionLog:
        if not isinstance(topic_partition, tuple) or len(topic_partition) != 2:  # noqa: PLR2004 - a pair
            raise TypeError(f"a LogDir is indexed by (topic, partition), not by {topic_partition!r}")
        topic, partition = topic_partition
        folder = self._listing().by_partition.get(topic_partition)
        if folder is not None:
            return PartitionOpener().open(folder.path)
        of_topic = [str(folder.partition) for folder in self._live() if folder.topic == topic]
        if of_topic:
            raise KeyError(f"no partition {partition} of topic {topic!r} in {self._path}, only {', '.join(of_topic)}")
        raise KeyError(f"no topic {topic!r} in {self._path}, only {', '.join(self.topics) or 'none'}")

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    @property
    def topics(self) -> list[str]:
        """Names of the topics with a live partition here, including internal ones."""
        return sorted({folder.topic for folder in self._live()})

    @property
    def folders(self) -> list[PartitionFolder]:
        """All partition folders, including those being deleted, being moved, and stray ones."""
        return [PartitionFolder(*folder) for folder in self._core.folders()]

    @property
    def meta(self) -> dict[str, str] | None:
        """``meta.properties`` (cluster id, node id, directory id), or None if the file does not exist."""
        return self._core.meta

    @property
    def checkpoints(self) -> dict[str, list[PartitionOffset]]:
        """The log dir's checkpoints by file name, as far as the files exist."""
        return {
            name: [PartitionOffset(*entry) for entry in entries] for name, entries in self._core.checkpoints.items()
        }

    @property
    def clean_shutdown(self) -> bool:
        """True if the clean-shutdown marker exists."""
        return self._core.clean_shutdown

    def partitions(self, topic: str | None = None) -> list[PartitionLog]:
        """Open the live partitions, or those of one topic, sorted."""
        wanted = _arguments.text("topic", topic)
        opener = PartitionOpener()
        return [opener.open(folder.path) for folder in self._live() if wanted is None or folder.topic == wanted]

    def _live(self) -> list[PartitionFolder]:
        return self._listing().live

    def _listing(self) -> _Listed:
        if self._listed is None:
            live = [folder for folder in self.folders if folder.state == "live"]
            live.sort(key=lambda folder: (folder.topic, folder.partition))
            # Of two folders for one partition the first counts.
            self._listed = _Listed(live, {(folder.topic, folder.partition): folder for folder in reversed(live)})
        return self._listed


class _Listed(NamedTuple):
    """The live folders of a log dir, by topic and partition: a log dir may have many, and a loop looks up each."""

    live: list[PartitionFolder]
    by_partition: dict[tuple[str, int], PartitionFolder]


# Partitions and segments in a table: each partition costs a look at its folder.
_SHOWN = 50


def _row(folder: PartitionFolder, opener: PartitionOpener) -> tuple[Any, ...]:
    try:
        log = opener.open(folder.path)
    except (KafkaLogError, OSError):
        # A broker may have deleted it since.
        return folder.topic, folder.partition, None, None, None, None
    segments = log.segments
    total = _reprs.size(sum(segment.size for segment in segments))
    return folder.topic, folder.partition, log.log_start_offset, log.high_watermark, len(segments), total


class PartitionLog:
    """The log of one partition, as it was when it was opened. Nothing is written to it.

    A pickle holds the path only: the log is opened again where it is unpickled.

    Parameters
    ----------
    path : path
        The partition's folder, or its URL. The checkpoints of its log dir are read as well.
    storage_options, filesystem : optional
        The store of a URL, as for :func:`kafkalog.scan`.
    """

    __slots__ = ("_core", "_path")

    def __init__(
        self, path: StrPath, *, storage_options: Mapping[str, Any] | None = None, filesystem: object | None = None
    ) -> None:
        self._path = _arguments.path(storage.located(path, storage_options, filesystem))
        self._core = _core.PartitionLog(self._path)

    @classmethod
    def _of(cls, core: _core.PartitionLog) -> Self:
        log = cls.__new__(cls)
        log._path, log._core = core.path, core  # noqa: SLF001 - its own
        return log

    def __repr__(self) -> str:
        segments = self.segments
        return (
            f"<kafkalog.PartitionLog {self._path!r}, offsets {self.log_start_offset} to {self._shown_end()}, "
            f"{_reprs.count(len(segments), 'segment')}, {_reprs.size(self.size)}>"
        )

    def _repr_html_(self) -> str:
        segments = self.segments
        rows = [
            (each.name, each.base_offset, _reprs.size(each.size), format_time(each.modified))
            for each in segments[-_SHOWN:]
        ]
        more = f"... and {len(segments) - _SHOWN} before them" if len(segments) > _SHOWN else ""
        title = f"PartitionLog {self._path}, offsets {self.log_start_offset} to {self._shown_end()}"
        return _reprs.html_table(title, ("segment", "base offset", "size", "modified"), rows, more)

    def _shown_end(self) -> int | str:
        """Return the log end offset; a person who looks at a damaged log wants to see the rest."""
        try:
            return self.log_end_offset
        except (KafkaLogError, OSError):
            return "unknown"

    def __reduce__(self) -> tuple[type[Self], tuple[Any]]:
        return type(self), (storage.pickled(self._path),)

    def __fspath__(self) -> str:
        return self._path

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    @property
    def topic(self) -> str:
        """The topic, from the folder's name."""
        return self._core.topic

    @property
    def partition(self) -> int:
        """The partition, from the folder's name."""
        return self._core.partition

    @property
    def state(self) -> Literal["live", "delete", "future", "stray"]:
        """Its state, from the suffix of the folder's name."""
        return self._core.state

    @property
    def topic_id(self) -> str | None:
        """The topic's id from ``partition.metadata``, or None (logs of brokers before 2.8)."""
        return self._core.topic_id

    @property
    def segments(self) -> list[SegmentInfo]:
        """The segments, in offset order."""
        return [SegmentInfo(*segment) for segment in self._core.segments()]

    @property
    def other_files(self) -> dict[str, int]:
        """Names and sizes of all other files in the folder: indexes, snapshots, ``.deleted`` files and so on."""
        return dict(self._core.other_files())

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def log_start_offset(self) -> int:
        """The first offset that a broker would serve."""
        return self._core.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""
        return self._core.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of a ``read_committed`` read: the start of the oldest open transaction, or the log end offset.

        If the log starts inside that transaction, it is the base offset of the batch that contains the log start
        offset.
        """
        return self._core.last_stable_offset

    @property
    def high_watermark(self) -> int | None:
        """The checkpointed high watermark, or None if the log dir has none for this partition."""
        return self._core.high_watermark

    @property
    def leader_epochs(self) -> list[LeaderEpoch]:
        """The entries of ``leader-epoch-checkpoint``."""
        return [LeaderEpoch(*entry) for entry in self._core.leader_epochs]

    @expand_signature(PartitionScanKeywords)
    def scan(self, *, options: ReadOptions | None = None, **keywords: Unpack[PartitionScanKeywords]) -> RecordReader:
        """Read the partition's records, as :func:`kafkalog.scan` with the options that do not choose partitions."""
        chosen = merged("PartitionLog.scan", PartitionScanKeywords.__annotations__, options, {**keywords})
        return record_reader(self._path, chosen)

    @expand_signature(BatchRangeKeywords)
    def batches(self, *, options: ReadOptions | None = None, **keywords: Unpack[BatchRangeKeywords]) -> RecordReader:
        """Read the partition's batches, one row each, as :func:`kafkalog.scan_batches`."""
        chosen = merged("PartitionLog.batches", BatchRangeKeywords.__annotations__, options, {**keywords})
        return batch_reader(self._path, chosen)

    def lookup(self, offset: int) -> Lookup | None:
        """Find the first record at or after an offset; None at the log end offset.

        Raises
        ------
        OffsetOutOfRangeError
            Below the log start offset, or beyond the log end offset.
        """
        found = self._core.lookup(_arguments.integer("offset", offset))
        return None if found is None else Lookup(*found)

    def offset_for_timestamp(self, timestamp: int | datetime, *, exact: bool = False) -> OffsetAndTimestamp | None:
        """Find the first record at or after a time, as the broker answers ListOffsets.

        Parameters
        ----------
        timestamp : int or datetime
            Milliseconds since the epoch, or a datetime with a time zone; not before 1970.
        exact : bool
            Ignore time indexes and modification times, and check every record.

        Returns
        -------
        OffsetAndTimestamp or None
            None if no record is that late; without ``exact`` also where a broker finds none: it takes the modification
            time of a segment without timestamps, or without a time index, for the time of its records.
        """
        found = self._core.offset_for_timestamp(
            _arguments.lookup_time("timestamp", timestamp), _arguments.flag("exact", exact)
        )
        return None if found is None else OffsetAndTimestamp(*found)

    def offset_of_max_timestamp(self) -> OffsetAndTimestamp | None:
        """Find the record with the largest timestamp, as the broker answers ListOffsets: by the time indexes.

        None if no record has a timestamp.
        """
        found = self._core.offset_of_max_timestamp()
        return None if found is None else OffsetAndTimestamp(*found)

    def statistics(self, *, on_corrupt: Literal["raise", "skip"] = "raise") -> dict[str, Any]:
        """Count batches, records, codecs and producers, from batch headers alone.

        Parameters
        ----------
        on_corrupt : {"raise", "skip"}
            Damage in a header is an error, or the batches around it are counted. Checksums are compared only in
            segments that have such damage.

        Returns
        -------
        dict
            ``topic``, ``partition``, ``log_start_offset``, ``log_end_offset``; then sums over the segments: ``size``,
            ``valid_bytes`` (without a torn or zero tail, and without what was skipped),
            ``batches``, ``records`` (control records among them; batches
            of v0 and v1 do not say how many they hold and count in ``legacy_batches`` only), ``control_batches``,
            ``transactional_batches``, ``empty_batches``; the ranges ``first_offset``, ``last_offset``,
            ``min_timestamp`` (of each batch the first record, which may not be its earliest; of a wrapper the latest),
            ``max_timestamp``; ``codecs`` and ``magics`` with batches and bytes of each; the ids of
            ``producers``; ``leader_epochs``; and the same for each of ``segments``.
        """
        sums = self._core.statistics(on_corrupt=_arguments.choose("on_corrupt", on_corrupt, ("raise", "skip")))
        return sums_by_name(self.topic, self.partition, sums)


def partition_at(path: StrPath) -> PartitionLog | None:
    """Open the partition whose folder a path is; None for a log dir."""
    try:
        return PartitionLog(path)
    except ValueError:
        return None


def sums_by_name(topic: str, partition: int, sums: _core.Sums) -> dict[str, Any]:
    """Return what :meth:`PartitionLog.statistics` does."""
    log_start_offset, log_end_offset, _, total, segments = sums
    return {
        "topic": topic,
        "partition": partition,
        "log_start_offset": log_start_offset,
        "log_end_offset": log_end_offset,
        **total,
        "segments": segments,
    }


class PartitionOpener:
    """Opens partitions that listings of log dirs found; the checkpoints of each log dir are read once for all."""

    def __init__(self) -> None:
        self._states: dict[str, _core.DirState] = {}

    def open(self, folder: str) -> PartitionLog:
        """Open one, given by its absolute path."""
        return PartitionLog._of(_core.PartitionLog(folder, self.log_dir(folder)))  # noqa: SLF001 - of this module

    def log_dir(self, folder: str) -> _core.DirState | None:
        """Return the log dir's facts about all partitions; None if the path alone does not determine the log dir."""
        log_dir, name = os.path.split(folder)
        if name in {"", ".", ".."}:
            return None
        if log_dir not in self._states:
            self._states[log_dir] = _core.DirState(log_dir)
        return self._states[log_dir]
