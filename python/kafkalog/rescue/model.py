"""Model of a rescue: what was found on the disks, and what will be written; frozen, picklable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kafkalog._reprs import camel

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Choice",
    "Damage",
    "Disk",
    "Divergence",
    "Finding",
    "GroupOffset",
    "MetadataRecord",
    "OpenTransaction",
    "Piece",
    "RemoteCopy",
    "RemoteTier",
    "Replica",
    "RescueImage",
    "RescuePlan",
    "RescueReport",
]

State = Literal["live", "delete", "future", "stray"]


def _last_epoch(leader_epochs: tuple[tuple[int, int], ...], end: int) -> int:
    """Return the latest epoch that begins below an end; -1 for none."""
    return max((epoch for epoch, first in leader_epochs if first < end), default=-1)


@dataclass(frozen=True)
class Disk:
    """One log dir of one dead node.

    Attributes
    ----------
    path : str
        The log dir.
    node_id : int or None
        ``node.id`` (or ``broker.id``) of its ``meta.properties``; None if it has none.
    directory_id, cluster_id : str or None
        As in ``meta.properties``.
    meta_version : int or None
        The version of ``meta.properties``: 0 for a broker that used ZooKeeper, 1 for KRaft.
    clean_shutdown : bool
        Whether the broker stopped cleanly.
    folders : int
        How many partition folders it has, in any state.
    """

    path: str
    node_id: int | None
    directory_id: str | None
    cluster_id: str | None
    meta_version: int | None
    clean_shutdown: bool
    folders: int


@dataclass(frozen=True)
class Damage:
    """A range of a replica without whole batches.

    Attributes
    ----------
    segment : str
        The file.
    position, end_position : int
        Bytes of the file; both 0 for a segment that is missing.
    first_offset, end_offset : int
        Offsets that may have been there: ``first_offset`` up to but without ``end_offset``.
    reason : str
        As in ``RecordReader.lost``: ``crc``, ``torn``, ``missing`` and so on.
    """

    segment: str
    position: int
    end_position: int
    first_offset: int
    end_offset: int
    reason: str


@dataclass(frozen=True)
class Replica:
    """One partition folder of a disk.

    Attributes
    ----------
    disk : Disk
        The log dir.
    path : str
        The folder.
    topic, partition, state : str, int, {"live", "delete", "future", "stray"}
        From the folder's name.
    topic_id : str or None
        From ``partition.metadata``; None if there is none.
    log_start_offset : int
        The first offset that a broker would serve.
    log_end_offset : int
        The offset after the last whole batch.
    high_watermark : int or None
        The checkpointed high watermark.
    leader_epochs : tuple of (int, int)
        Epochs with their first offsets, as the batches and ``leader-epoch-checkpoint`` have them.
    damage : tuple of Damage
        What is not whole, in offset order.
    size : int
        Bytes of its ``.log`` files.
    highest_producer_id : int
        The highest producer id in its batches; -1 for none.
    """

    disk: Disk
    path: str
    topic: str
    topic_id: str | None
    partition: int
    state: State
    log_start_offset: int
    log_end_offset: int
    high_watermark: int | None
    leader_epochs: tuple[tuple[int, int], ...]
    damage: tuple[Damage, ...] = ()
    size: int = 0
    highest_producer_id: int = -1

    @property
    def last_epoch(self) -> int:
        """The leader epoch of its last batch; -1 without any."""
        return _last_epoch(self.leader_epochs, self.log_end_offset)


@dataclass(frozen=True)
class Piece:
    """Offsets to take from one replica: ``first_offset`` up to but without ``end_offset``.

    Batches are taken whole. The first piece may begin inside a batch, at the log start offset; all other borders are
    those of batches.
    """

    replica: Replica
    first_offset: int
    end_offset: int


@dataclass(frozen=True)
class RemoteCopy:
    """A segment in tiered storage that the new cluster serves.

    Attributes
    ----------
    segment_id : str
        Its id.
    start_offset, end_offset : int
        Its first and last offset. Where offsets are missing after it, the end is the last of these, so that consumers
        pass over them.
    leader_epochs : tuple of (int, int)
        Epochs with their first offsets in it.
    size : int
        Bytes of its log.
    max_timestamp : int
        The largest timestamp in it, in milliseconds; -1 for none.
    is_without_transactions : bool
        Whether it has no index of aborted transactions.
    is_recorded : bool
        Whether ``__remote_log_metadata`` on the disks says that it is whole; else the new cluster's has to.
    """

    segment_id: str
    start_offset: int
    end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]
    size: int
    max_timestamp: int
    is_without_transactions: bool
    is_recorded: bool


@dataclass(frozen=True)
class RemoteTier:
    """The tiered storage of the dead cluster, which the new one serves.

    Attributes
    ----------
    name : str
        Where it is.
    layout : str
        How it is stored: ``local``, ``aiven``, or the name of a class.
    folder : str or None
        The folder, if it is on a disk.
    metadata_partitions : int
        Number of partitions of ``__remote_log_metadata``.
    highest_producer_id : int
        The highest producer id in the state of producers that is taken from it; -1 for none.
    """

    name: str
    layout: str
    folder: str | None
    metadata_partitions: int
    highest_producer_id: int = -1


@dataclass(frozen=True)
class Divergence:
    """Offset from which a replica that was not chosen has other batches than the chosen one.

    Attributes
    ----------
    replica : Replica
        The other one.
    offset : int
        The first offset at which they differ.
    chosen_epoch, epoch : int
        The leader epochs of the two at that offset; -1 beyond the end of one.
    records : int
        Offsets of the other replica at and after that one. They are not rescued.
    """

    replica: Replica
    offset: int
    chosen_epoch: int
    epoch: int
    records: int


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction without an end in a partition; ``transactional_id`` is None where no coordinator's log has it.

    ``coordinator_epoch`` is that of the producer's last marker; -1 if it is not known.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    transactional_id: str | None
    coordinator_epoch: int = -1


@dataclass(frozen=True)
class Choice:
    """Decision about one partition.

    Attributes
    ----------
    topic, topic_id, partition
        The partition.
    replica : Replica or None
        The replica chosen; None if no disk has one. The partition then exists, and is empty.
    pieces : tuple of Piece
        What to copy, in offset order. One piece of the chosen replica where nothing is damaged.
    log_start_offset, log_end_offset : int
        Of the result. The log start offset may lie inside the first piece.
    leader_epochs : tuple of (int, int)
        Epochs with their first offsets, for ``leader-epoch-checkpoint``.
    leader_epoch, partition_epoch : int
        Those of the image, which the new cluster has to exceed; ``leader_epoch`` is at least that of every batch on the
        disks.
    reasons : tuple of str
        Why this replica.
    lost : tuple of (int, int)
        Ranges of offsets, with the end excluded, that no replica has whole.
    spliced : tuple of (int, int)
        Ranges of offsets that are damaged in the chosen replica and taken from others.
    divergences : tuple of Divergence
        Replicas that hold something else.
    remote : tuple of RemoteCopy
        Segments in tiered storage, in offset order: what the partition has before ``local_start_offset``, and perhaps
        the same offsets as its first pieces.
    aborted : tuple of OpenTransaction
        Transactions without an end in the tier, which alone has the partition. Each is aborted by a marker at the end
        of the log.
    """

    topic: str
    topic_id: str | None
    partition: int
    replica: Replica | None
    pieces: tuple[Piece, ...]
    log_start_offset: int
    log_end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int
    reasons: tuple[str, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()
    spliced: tuple[tuple[int, int], ...] = ()
    divergences: tuple[Divergence, ...] = ()
    remote: tuple[RemoteCopy, ...] = ()
    aborted: tuple[OpenTransaction, ...] = ()

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; -1 without any."""
        return _last_epoch(self.leader_epochs, self.log_end_offset)

    @property
    def local_start_offset(self) -> int:
        """The first offset that is written; those before it are in tiered storage."""
        if self.pieces:
            return self.pieces[0].first_offset
        return self.log_end_offset - len(self.aborted) if self.remote else self.log_start_offset


@dataclass(frozen=True)
class MetadataRecord:
    """One record of the metadata image: name of its type, version, and Kafka's JSON for it as a dict."""

    type: str
    version: int
    value: dict[str, Any]


@dataclass(frozen=True)
class RescueImage:
    """The cluster's metadata: snapshot and log merged.

    Attributes
    ----------
    records : tuple of MetadataRecord
        One for each thing that exists, in the order of creation, secrets included. Without any metadata log on the
        disks: topics and partitions as the folders say.
    path : str or None
        The folder it comes from; None if no disk has metadata.
    end_offset, epoch : int
        The end of that log and the epoch of its last batch.
    committed_offset : int or None
        Up to here, excluded, a majority of the voters' disks have the same log. None if the voters are not known or
        fewer than a majority of their disks are given: then nothing is provable.
    voters : tuple of int
        The ids of the voters, as far as the disks say.
    kraft_version : int
        0 for a static quorum, 1 for a dynamic one.
    guessed : frozenset of str
        Topics that are in no metadata that is left, and were made from their folders.
    """

    records: tuple[MetadataRecord, ...]
    path: str | None
    end_offset: int
    epoch: int
    committed_offset: int | None = None
    voters: tuple[int, ...] = ()
    kraft_version: int = 0
    guessed: frozenset[str] = frozenset()

    def values(self, kind: str) -> list[dict[str, Any]]:
        """Return the values of the records of a type."""
        return [record.value for record in self.records if record.type == kind]


@dataclass(frozen=True)
class GroupOffset:
    """A committed offset beyond the end of what is rescued: it becomes ``end_offset``."""

    group: str
    topic: str
    partition: int
    offset: int
    end_offset: int


@dataclass(frozen=True)
class Finding:
    """One thing that the user should know.

    Attributes
    ----------
    severity : {"info", "warning", "error"}
        ``error``: something that was, or may have been, acknowledged is missing.
    code, message : str
        A stable name in kebab-case, and one line.
    path, topic, partition : str or int or None
        The disk or folder, topic and partition that it is about.
    """

    severity: Literal["info", "warning", "error"]
    code: str
    message: str
    path: str | None = None
    topic: str | None = None
    partition: int | None = None

    def __str__(self) -> str:
        place = self.path if self.topic is None else self.topic
        if self.topic is not None and self.partition is not None:
            place = f"{self.topic}-{self.partition}"
        return f"{'' if place is None else f'{place}: '}{self.severity}: {self.message} [{self.code}]"


@dataclass(frozen=True)
class RescuePlan:
    """Inventory of the disks, and the decisions about it.

    Attributes
    ----------
    cluster_id : str or None
        The cluster's id, which all disks share.
    disks : tuple of Disk
        The inventory.
    replicas : tuple of Replica
        Every partition folder, by topic, partition and node.
    image : RescueImage
        The metadata.
    choices : tuple of Choice
        One for each partition of the image, or of the folders without one; by topic and partition.
    group_offsets : tuple of GroupOffset
        Committed offsets that have to be lowered.
    open_transactions : tuple of OpenTransaction
        Transactions that the new cluster's coordinator will abort.
    findings : tuple of Finding
        The worst first.
    tier : RemoteTier or None
        The tiered storage that is attached.
    """

    cluster_id: str | None
    disks: tuple[Disk, ...]
    replicas: tuple[Replica, ...]
    image: RescueImage
    choices: tuple[Choice, ...]
    group_offsets: tuple[GroupOffset, ...] = ()
    open_transactions: tuple[OpenTransaction, ...] = ()
    findings: tuple[Finding, ...] = ()
    tier: RemoteTier | None = None

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id in any batch on the disks, or in what is taken from the tier; -1 for none."""
        of_tier = -1 if self.tier is None else self.tier.highest_producer_id
        return max([of_tier, *(replica.highest_producer_id for replica in self.replicas)])

    @property
    def is_complete(self) -> bool:
        """True if nothing is missing that may have been acknowledged."""
        return all(finding.severity != "error" for finding in self.findings)


@dataclass(frozen=True)
class RescueReport:
    """Result of a rescue, or of its dry run.

    Attributes
    ----------
    plan : RescuePlan
        What was found and chosen.
    out : str or None
        The new directory, or the log dir of ``into``; None for a dry run.
    dry_run : bool
        Whether nothing was written.
    log_dirs : tuple of str
        The log dirs that were written, one for each new node.
    bytes : int
        Bytes of the ``.log`` files that were copied or linked.
    """

    plan: RescuePlan
    out: str | None = None
    dry_run: bool = False
    log_dirs: tuple[str, ...] = ()
    bytes: int = 0

    @property
    def is_complete(self) -> bool:
        """True if nothing is missing that may have been acknowledged."""
        return self.plan.is_complete

    def __str__(self) -> str:
        partitions, topics = len(self.plan.choices), len({each.topic for each in self.plan.choices})
        done = "would be written" if self.dry_run else f"written to {self.out}"
        whole = "complete" if self.is_complete else "not complete: acknowledged records are missing"
        size = "" if self.dry_run else f", {self.bytes} bytes"
        summary = f"{partitions} partition(s) of {topics} topic(s) {done}{size}; {whole}"
        return "\n".join([*map(str, self.plan.findings), summary])

    def to_arrow(self) -> pa.Table:
        """Return the partitions as rows.

        Returns
        -------
        pyarrow.Table
            ``topic``, ``partition``, ``topicId``, ``logStartOffset``, ``localStartOffset``, ``logEndOffset``,
            ``leaderEpoch``, ``path`` (the folder that most was taken from, null for none), ``remoteSegments`` (their
            number), ``lost`` (offsets without a record) and ``reasons``.
        """
        import pyarrow as pa

        kinds: dict[str, pa.DataType] = {
            "topic": pa.string(),
            "partition": pa.int32(),
            "topic_id": pa.string(),
            **dict.fromkeys(("log_start_offset", "local_start_offset", "log_end_offset"), pa.int64()),
            "leader_epoch": pa.int32(),
            "path": pa.string(),
            "remote_segments": pa.int32(),
            "lost": pa.int64(),
            "reasons": pa.list_(pa.string()),
        }
        rows = [
            {
                **{camel(name): getattr(each, name, None) for name in kinds},
                "path": None if each.replica is None else each.replica.path,
                "remoteSegments": len(each.remote),
                "lost": sum(end - first for first, end in each.lost),
            }
            for each in self.plan.choices
        ]
        schema = pa.schema([(camel(name), kind) for name, kind in kinds.items()])
        return pa.Table.from_pylist(rows, schema=schema)
