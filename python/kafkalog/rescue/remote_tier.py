"""The tiered storage of a dead cluster (KIP-405): the copies of segments that a new broker can serve.

A copy is attached if it is whole, as far as ``__remote_log_metadata`` on the disks, a manifest or its files tell, and
of the history that the new cluster continues. Where no disk has a partition, its log begins empty where the tier ends.
"""

from __future__ import annotations

import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalog import _arguments, _core
from kafkalog.errors import KafkaLogError
from kafkalog.rescue.model import Finding, OpenTransaction, RemoteCopy, RemoteTier
from kafkalog.rescue.remote_metadata import TOPIC, topics_made
from kafkalog.tables._image import TOPIC_CONFIG
from kafkalog.tiers import tail
from kafkalog.tiers.aiven_layout import AivenLayout
from kafkalog.tiers.local_layout import LocalLayout
from kafkalog.tiers.local_logs import LocalLogs
from kafkalog.tiers.metadata_log import replay
from kafkalog.tiers.opening import list_tier
from kafkalog.tiers.segment import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog.rescue.inventory import Inventory
    from kafkalog.rescue.model import Choice, Replica, RescueImage
    from kafkalog.tiers.choice import Run
    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.tiers.segment import RemoteSegment, TierPartition
    from kafkalog.tiers.tier import Tier
    from kafkalog.typing import StrPath

    Ranges = list[tuple[int, int]]

_ENABLED = "remote.storage.enable"
_LAYOUTS: dict[type, str] = {LocalLayout: "local", AivenLayout: "aiven"}
# LocalTieredStorage keeps all below a folder of this name, in the one of its setting.
_LOCAL_ROOT = "kafka-tiered-storage"
_THREADS = 16
# Numbers come from names of objects, and each up to the highest becomes a partition. A cluster has some 200,000 in all.
_MAX_PARTITIONS = 1 << 17


class DeadLogs(LocalLogs):
    """Partitions of a dead cluster as its disks know them: ids, and the history of the best replica."""

    def __init__(self, inventory: Inventory, image: RescueImage) -> None:
        super().__init__([])
        self._is_known = image.path is not None
        self._ids = {value["name"]: value["topicId"] for value in image.values("TOPIC_RECORD")}
        self._numbers = {(value["topicId"], value["partitionId"]) for value in image.values("PARTITION_RECORD")}
        self._guessed = set(image.guessed)
        self._enabled = enabled(image)
        self._best = _best_replicas(inventory)

    @property
    def is_empty(self) -> bool:
        """True if nothing says which of two topics of one name existed last."""
        return not self._is_known

    def why_gone(self, partition: TierPartition) -> str | None:
        """Return why a partition of the tier is none of the cluster's; None if it is one."""
        if not _arguments.TOPIC_NAME.fullmatch(partition.topic):
            return "no topic has this name"
        if partition.partition >= _MAX_PARTITIONS:
            return f"no topic has {_MAX_PARTITIONS} partitions"
        topic_id = self._ids.get(partition.topic)
        if topic_id is None:
            return "not in the metadata: deleted, or newer than the metadata" if self._is_known else None
        if topic_id != partition.topic_id:
            return f"of another incarnation of the topic, whose id was {topic_id} in the end"
        if not self._is_known or partition.topic in self._guessed:
            return None
        if (topic_id, partition.partition) not in self._numbers:
            return "of a partition that is not in the metadata"
        return None if partition.topic in self._enabled else f"the topic has no {_ENABLED}"

    def lineage(self, partition: TierPartition) -> list[tuple[int, int]]:
        """Return the leader epochs of the best replica, unless the tier has a later history."""
        best = self._best.get((partition.topic_id, partition.partition))
        newest = max(
            (max(each.epochs) for each in partition.segments if each.reason is None and each.epochs), default=-1
        )
        return [] if best is None or newest > best.last_epoch else list(best.leader_epochs)

    def log_start(self, partition: TierPartition) -> int | None:
        """Return where the log began, as the replicas know."""
        best = self._best.get((partition.topic_id, partition.partition))
        return None if best is None else best.log_start_offset


def _best_replicas(inventory: Inventory) -> dict[tuple[str | None, int], Replica]:
    """Return the replicas with the latest leader epoch, and of these the longest, by topic id and partition."""
    best: dict[tuple[str | None, int], Replica] = {}
    for each in sorted(inventory.replicas, key=lambda each: (each.last_epoch, each.log_end_offset)):
        if each.state == "live":
            best[each.topic_id, each.partition] = each
    return best


def enabled(image: RescueImage) -> set[str]:
    """Return the topics that the metadata says are tiered."""
    return {
        value["resourceName"]
        for value in image.values("CONFIG_RECORD")
        if (value["resourceType"], value["name"], value["value"]) == (TOPIC_CONFIG, _ENABLED, "true")
    }


class DeadTier:
    """A tier, and which of its copies the new cluster serves.

    Parameters
    ----------
    remote, layout, keyring
        As for ``kafkalog.scan``, where the storage options are applied.
    topics : set of str or None
        The only topics to attach.
    """

    def __init__(
        self,
        remote: StrPath,
        layout: LayoutChoice = "auto",
        keyring: Mapping[str, StrPath] | None = None,
        topics: set[str] | None = None,
    ) -> None:
        self._listed = list_tier(remote, layout, keyring)
        self._topics = topics
        self._tier: Tier | None = None

    @property
    def name(self) -> str:
        """Name in messages."""
        return self._listed.name

    @property
    def tier(self) -> Tier:
        """The tier as the disks know it."""
        if self._tier is None:
            raise ValueError(f"{self.name}: the disks were not read yet")
        return self._tier

    def read(self, inventory: Inventory, image: RescueImage) -> tuple[RescueImage, list[Finding]]:
        """Find the copies that serve; return the image with the topics that the tier alone has, and findings."""
        ids = {value["topicId"] for value in image.values("TOPIC_RECORD") if value["name"] == TOPIC}
        folders = [each.path for (topic_id, _), each in _best_replicas(inventory).items() if topic_id in ids]
        findings = []
        try:
            metadata = replay(folders or None)
        except (KafkaLogError, OSError) as error:
            metadata = replay(None)
            findings.append(Finding("warning", "tier-metadata", f"not usable: {error}; the tier itself tells", TOPIC))
        metadata.count = metadata_partitions(image)
        self._tier = self._listed.tier(metadata, DeadLogs(inventory, image), self._is_wanted)
        self._note_timestamps()
        findings += [
            Finding("warning", "tier-metadata", f"a record cannot be applied: {each}", TOPIC)
            for each in metadata.notes.named
        ]
        found: dict[tuple[str, str], int] = {}
        for at, partition in self._tier.partitions.items():
            if any(_is_usable(run.segment) for run in self._tier.runs[at]):
                topic = (partition.topic, partition.topic_id)
                found[topic] = max(found.get(topic, 0), partition.partition + 1)
        if not found:
            findings.append(Finding("warning", "tier-empty", "no segment of a topic that can be served", self.name))
            return image, findings
        made, about = topics_made(image, found, enabled(image))
        return replace(image, records=(*image.records, *made)), [*findings, *about]

    def _note_timestamps(self) -> None:
        """Find the largest timestamp of each copy that serves, where neither metadata nor manifests tell."""
        tier = self.tier
        serving = {run.segment.place: run.segment for runs in tier.runs.values() for run in runs}
        unknown = [each for each in serving.values() if each.max_timestamp is None]
        with ThreadPoolExecutor(_THREADS) as pool:
            found = pool.map(lambda each: tail.newest_timestamp(each, tier.layout, tier.store), unknown)
            for each, timestamp in zip(unknown, found, strict=True):
                each.max_timestamp = timestamp

    def _is_wanted(self, topic: str, partition: int) -> bool:  # noqa: ARG002
        return self._topics is None or topic in self._topics

    def facts(self, image: RescueImage, highest_producer_id: int) -> RemoteTier:
        """Return what the new cluster has to know of it."""
        layout = type(self._listed.layout)
        folder = Path(self.name)
        folder = folder.parent if folder.name == _LOCAL_ROOT else folder
        is_local = not _core.is_mounted(self.name) and folder.is_dir()
        return RemoteTier(
            self.name,
            _LAYOUTS.get(layout, layout.__name__),
            str(folder.absolute()) if is_local else None,
            metadata_partitions(image),
            highest_producer_id,
        )

    def attached(self, choice: Choice) -> Choice:
        """Return a choice with the copies of its partition, in place of what the disks lack or have damaged."""
        at = (choice.topic_id or "", choice.partition)
        runs = [run for run in self.tier.runs.get(at, ()) if run.last >= choice.log_start_offset]
        good = [run for run in runs if _is_usable(run.segment)]
        if not good:
            return choice
        end = good[-1].last + 1
        if choice.replica is None or choice.log_end_offset < end:
            lineage = tuple((epoch, first) for epoch, first in self.tier.lineages[at] if epoch >= 0)
            known = [choice.leader_epoch, *(epoch for epoch, _ in lineage)]
            whole = (max(choice.log_start_offset, runs[0].first), max(run.last for run in runs) + 1)
            choice = replace(
                choice,
                replica=None,
                pieces=(),
                spliced=(),
                log_end_offset=end,
                leader_epochs=lineage,
                leader_epoch=max(known),
                reasons=("the tier: no disk has as much",) if choice.replica else ("the tier: no disk has a replica",),
            )
            lost = _without([whole], good, end)
        else:
            choice, lost = _with_best_start(choice, good)
        first = choice.pieces[0].first_offset if choice.pieces else end
        start = max(choice.log_start_offset, min(good[0].first, first))
        return replace(choice, remote=tuple(self._copies(good)), lost=tuple(lost), log_start_offset=start)

    def _copies(self, good: Sequence[Run]) -> Iterator[RemoteCopy]:
        seen = set()
        for n, (_, last, each) in enumerate(good):
            if each.place in seen:
                continue
            seen.add(each.place)
            # Offsets that are missing before the next copy are this one's: a broker passes over them (KAFKA-15388),
            # and has no answer for an offset of none.
            following = next((run.first for run in good[n + 1 :] if run.segment is not each), None)
            is_recorded = each.state == FINISHED
            end, epochs = each.end_offset or 0, dict(each.epochs or {})
            if following is not None and not is_recorded and following > max(last, end) + 1:
                lineage = self.tier.lineages[each.topic_id, each.partition]
                epochs |= {epoch: at for epoch, at in lineage if end < at < following}
                end = following - 1
            yield RemoteCopy(
                segment_id=each.segment_id,
                start_offset=each.start_offset or 0,
                end_offset=end,
                leader_epochs=tuple(sorted(epochs.items())),
                size=each.size or 0,
                max_timestamp=-1 if each.max_timestamp is None else each.max_timestamp,
                is_without_transactions=not self._has_transactions(each),
                is_recorded=is_recorded,
            )

    def _has_transactions(self, segment: RemoteSegment) -> bool:
        if segment.stored is None:
            return False
        try:
            found = self.tier.layout.open(self.tier.store, segment.stored, "txnindex")
        except (KafkaLogError, OSError, ValueError):
            # Unknown: a broker asks for the index, and takes none for an empty one.
            return True
        return found is not None and found.size > 0

    def snapshot(self, choice: Choice) -> bytes | None:
        """Return the state of producers at the end of the tier, as the last copy has it; None if it has none."""
        last = choice.remote[-1].segment_id
        partition = self.tier.partitions[choice.topic_id or "", choice.partition]
        segment = next(each for each in partition.segments if each.segment_id == last)
        if segment.stored is None:
            return None
        try:
            found = self.tier.layout.open(self.tier.store, segment.stored, "snapshot")
            return None if found is None else found.read(0, found.size)
        except (KafkaLogError, OSError, ValueError):
            # Encrypted with a key that is not given: a broker does without.
            return None

    def producers(self, choices: Iterable[Choice]) -> tuple[int, list[OpenTransaction]]:
        """Return the highest producer id that the new cluster will know, and transactions without an end.

        Both are of partitions which the tier alone has. A segment is copied when its transactions have ended, but their
        ends may lie in the next segment.
        """
        alone = [choice for choice in choices if choice.remote and not choice.pieces]
        with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(_THREADS) as pool:
            (Path(scratch) / ".kafka_cleanshutdown").touch()
            folders = []
            for choice, state in zip(alone, pool.map(self.snapshot, alone), strict=True):
                if state is not None:
                    folder = Path(scratch) / f"{choice.topic}-{choice.partition}"
                    folder.mkdir()
                    # A log that was stopped cleanly, and begins before the snapshot: any other is of no use.
                    for offset in {0, choice.log_end_offset}:
                        (folder / f"{offset:020}.log").touch()
                        (folder / f"{offset:020}.index").touch()
                    (folder / f"{choice.log_end_offset:020}.snapshot").write_bytes(state)
                    folders.append(str(folder))
            if not folders:
                return -1, []
            # What is damaged, a broker removes.
            names = ["topic", "partition", "producerId", "coordinatorEpoch"]
            producers = pa.table(_core.table_producers(folders)[0]).select(names).to_pylist()
            # Not its times: a datetime ends with the year 9999.
            columns = ["topic", "partition", "producerId", "producerEpoch", "firstOffset"]
            transactions = pa.table(_core.table_open_transactions(folders)[0]).select(columns)
        epochs = {(row["topic"], row["partition"], row["producerId"]): row["coordinatorEpoch"] for row in producers}
        return max((row["producerId"] for row in producers), default=-1), [
            OpenTransaction(
                topic=row["topic"],
                partition=row["partition"],
                producer_id=row["producerId"],
                producer_epoch=row["producerEpoch"],
                first_offset=row["firstOffset"],
                transactional_id=None,
                coordinator_epoch=epochs[row["topic"], row["partition"], row["producerId"]],
            )
            for row in transactions.to_pylist()
        ]

    def findings(self) -> Iterator[Finding]:
        """Yield what is left out of the tier, and why."""
        for at, partition in sorted(self.tier.partitions.items(), key=lambda item: (item[1].topic, item[0])):
            serving = {run.segment.place for run in self.tier.runs[at]}
            left: dict[str, list[RemoteSegment]] = {}
            for each in partition.segments:
                fault = _unusable(each)
                if each.place in serving and fault is not None:
                    text = f"{_offsets([each])}: segment {each.segment_id}: {fault}"
                    yield Finding("warning", "tier-damaged", text, self.name, partition.topic, partition.partition)
                elif each.reason is not None:
                    # One finding for those that differ in ids or offsets alone.
                    left.setdefault(re.split(":| by ", each.reason)[0], []).append(each)
            for copies in left.values():
                reason = copies[0].reason or ""
                more = "" if len(copies) == 1 else f" (and {len(copies) - 1} more, {_offsets(copies)})"
                text = f"copy {copies[0].segment_id} in the tier, {_offsets(copies[:1])}, left out: {reason}{more}"
                if "incarnation" in reason or "newer id" in reason:
                    yield Finding("info", "other-incarnation", text, self.name, partition.topic, partition.partition)
                else:
                    yield Finding("info", "tier-left-out", text, self.name, partition.topic, partition.partition)


def metadata_partitions(image: RescueImage) -> int:
    """Return the number of partitions of the metadata topic of tiered storage."""
    ids = {value["topicId"] for value in image.values("TOPIC_RECORD") if value["name"] == TOPIC}
    return sum(value["topicId"] in ids for value in image.values("PARTITION_RECORD"))


def _unusable(segment: RemoteSegment) -> str | None:
    """Return why a broker cannot serve a copy."""
    if segment.fault is not None:
        return segment.fault.text
    if not segment.epochs or min(segment.epochs) < 0:
        return "its leader epochs are not known"
    return "its last offset is not known" if segment.end_offset is None else None


def _is_usable(segment: RemoteSegment) -> bool:
    return _unusable(segment) is None


def _with_best_start(choice: Choice, good: Sequence[Run]) -> tuple[Choice, Ranges]:
    """Return the choice without its first pieces where the tier has more than these, and what is lost even so.

    A broker reads the tier only below the first local offset.
    """
    whole = (choice.log_start_offset, choice.log_end_offset)
    best: tuple[int, int, Ranges] | None = None
    for n, piece in enumerate(choice.pieces):
        local = [(each.first_offset, each.end_offset) for each in choice.pieces[n:]]
        lost = _without([whole], good, piece.first_offset, local)
        size = sum(end - first for first, end in lost)
        if best is None or size < best[1]:
            best = n, size, lost
    if best is None:
        return choice, list(choice.lost)
    return replace(choice, pieces=choice.pieces[best[0] :]), best[2]


def _without(ranges: Ranges, good: Sequence[Run], below: int, more: Ranges | None = None) -> Ranges:
    """Return what of the ranges neither the runs below an offset have, nor the other ranges."""
    taken = [(run.first, min(run.last + 1, below)) for run in good] + (more or [])
    left = ranges
    for first, end in taken:
        cut = [part for low, high in left for part in ((low, min(high, first)), (max(low, end), high))]
        left = [(low, high) for low, high in cut if low < high] if first < end else left
    return left


def _offsets(segments: Sequence[RemoteSegment]) -> str:
    starts = [each.start_offset for each in segments if each.start_offset is not None]
    ends = [each.end_offset for each in segments if each.end_offset is not None]
    return f"offsets {min(starts, default='?')} to {max(ends, default='?')}"
