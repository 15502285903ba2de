"""A tier: what metadata, manifests and names say about its segments, and which of them serve the log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kafkalog.errors import KafkaLogError
from kafkalog.tiers import tail
from kafkalog.tiers.choice import Run, choose, lineage_of
from kafkalog.tiers.layout import WrongSizeError
from kafkalog.tiers.segment import DELETED, FINISHED, STARTED, Fault, RemoteSegment, TierPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog.tiers.layout import RemoteLayout, StoredSegment
    from kafkalog.tiers.local_logs import LocalLogs
    from kafkalog.tiers.metadata_log import RemoteMetadata
    from kafkalog.tiers.objects import ObjectInfo, ObjectStore

__all__ = ["Tier"]

_THREADS = 16
_WHY = {
    STARTED: "its copy never finished",
    "DELETE_SEGMENT_STARTED": "its deletion began",
    DELETED: "it was deleted",
}


class Tier:
    """The segments of a tier, by partition, and the runs that serve each.

    Parameters
    ----------
    store : ObjectStore
        What lists and reads objects.
    layout : RemoteLayout
        How they are named and stored.
    objects : list of ObjectInfo
        All objects of the tier.
    metadata : RemoteMetadata
        What ``__remote_log_metadata`` says.
    local : LocalLogs
        The log dirs beside it, perhaps none.
    wanted : callable
        Whether a topic's partition is of interest; the objects of others are not read.
    name : str
        What messages call it.
    """

    def __init__(
        self,
        store: ObjectStore,
        layout: RemoteLayout,
        *,
        objects: Iterable[ObjectInfo],
        metadata: RemoteMetadata,
        local: LocalLogs,
        wanted: Callable[[str, int], bool],
        name: str = "",
    ) -> None:
        self.name = name
        self.store, self.layout, self.local = store, layout, local
        self.metadata = metadata
        # Folders that partitions which are not of interest would have; a reader names them if it does not find its own.
        self.others: set[str] = set()
        stored = layout.group(objects)
        segments = {place: each for place, each in metadata.segments.items() if wanted(each.topic, each.partition)}
        for place, found in stored.items():
            if place not in metadata.segments:
                if layout.source == "listing" and not wanted(found.topic, found.partition):
                    self.others.add(f"{found.topic}-{found.partition}")
                    continue
                # The key may have more before the topic's name: its facts decide.
                segments[place] = self._unknown(found)
            if place in segments:
                segments[place].stored = found
        self._check(list(segments.values()))
        self.partitions: dict[tuple[str, int], TierPartition] = {}
        for each in segments.values():
            if not wanted(each.topic, each.partition):
                self.others.add(f"{each.topic}-{each.partition}")
                continue
            at = (each.topic_id, each.partition)
            known_partition = self.partitions.setdefault(at, TierPartition(each.topic, *at))
            known_partition.segments.append(each)
        self._newest: dict[str, str] = {}
        self.runs: dict[tuple[str, int], list[Run]] = {}
        self.lineages: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self._choose()

    def _unknown(self, stored: StoredSegment) -> RemoteSegment:
        source = "manifest" if self.layout.source == "manifest" else "listing"
        made = RemoteSegment(
            stored.topic,
            stored.topic_id,
            stored.partition,
            stored.segment_id,
            source,  # type: ignore[arg-type]
            stored.start_offset,
            stored=stored,
        )
        if self.metadata.covers(stored.topic_id, stored.partition):
            made.reason = "no record of __remote_log_metadata names it"
        return made

    def _check(self, segments: list[RemoteSegment]) -> None:
        """Complete the facts about segments that may serve reads, and find their defects."""
        for each in segments:
            if each.reason is None and each.state not in (FINISHED, None):
                each.reason = _WHY.get(each.state or "")
            state = self.metadata.partitions.get((each.topic_id, each.partition))
            if each.reason in (None, _WHY[DELETED]) and state is not None:
                each.reason = f"its partition was deleted ({state})"
        asked = [each for each in segments if each.reason is None or each.source != "metadata"]
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._examine, asked))

    def _examine(self, segment: RemoteSegment) -> None:
        stored = segment.stored
        if stored is None:
            segment.fault = Fault("remote-missing", "expected its objects, found none")
            return
        try:
            self._complete(segment, stored)
        except WrongSizeError as error:
            segment.fault = Fault("remote-size", str(error))
        except (KafkaLogError, OSError, ValueError) as error:
            code = "remote-manifest" if self.layout.source == "manifest" else "remote-size"
            segment.fault = Fault(code, str(error))

    def _complete(self, segment: RemoteSegment, stored: StoredSegment) -> None:
        lacks = self.layout.missing(stored)
        if lacks is not None and ("log" in lacks.split() or segment.source != "metadata"):
            # Without its indexes a segment can be read, but nothing shows that it is whole if no record says so.
            segment.fault = Fault("remote-missing", f"{lacks}: its copy is not whole")
        elif lacks is not None:
            segment.fault = Fault("remote-missing", lacks)
        if "log" not in stored.objects:
            return
        facts = self.layout.describe(self.store, stored)
        if facts is None:
            log = self.layout.open(self.store, stored, "log")
            size = None if log is None else log.size
            if segment.size is not None and size is not None and size != segment.size:
                segment.fault = Fault("remote-size", f"expected a log of {segment.size} bytes, found {size}")
            if segment.epochs is None:
                order = segment.order
                tail.complete(segment, stored, self.layout, self.store)
                # Records tell the order of copies, even where they do not tell more.
                segment.order = order if segment.source == "metadata" else segment.order
            return
        if segment.source == "metadata" and segment.start_offset is not None:
            said = (segment.start_offset, segment.end_offset, segment.size)
            if said != (facts.start_offset, facts.end_offset, facts.size):
                found = f"{facts.start_offset} to {facts.end_offset}, {facts.size} bytes"
                expected = f"offsets {said[0]} to {said[1]}, {said[2]} bytes"
                segment.fault = Fault("remote-manifest", f"expected {expected}, its manifest says {found}")
            return
        segment.topic = facts.topic or segment.topic
        segment.start_offset, segment.end_offset = facts.start_offset, facts.end_offset
        segment.epochs, segment.size = facts.epochs, facts.size
        segment.max_timestamp = facts.max_timestamp
        if segment.source == "manifest":
            segment.order = (facts.copied_at,)

    def _choose(self) -> None:
        for at, partition in self.partitions.items():
            gone = self.local.why_gone(partition)
            if gone is None and self.local.is_empty:
                gone = self._why_older(partition)
            for each in partition.segments:
                if gone is not None and each.reason is None:
                    each.reason = gone
            lineage = self.local.lineage(partition)
            if not lineage:
                lineage = self._own_lineage(partition)
            self.lineages[at] = lineage
            self.runs[at] = choose(partition.segments, lineage)
            start = self.local.log_start(partition)
            for each in partition.segments:
                if each.reason is None and start is not None and (each.end_offset or 0) < start:
                    each.reason = f"below the log start offset {start}"

    def _why_older(self, partition: TierPartition) -> str | None:
        """Return why a partition is that of an older topic of the same name: nothing but the copies' times tells."""
        newest = self._newest_id(partition.topic)
        return None if newest == partition.topic_id else f"topic {partition.topic!r} has a newer id, {newest}"

    def _newest_id(self, topic: str) -> str:
        """Return the id of the topic of this name that was copied last."""
        if topic not in self._newest:
            named = [each for each in self.partitions.values() if each.topic == topic]
            same = [each for each in named if self.local.why_gone(each) is None]
            is_one = len({each.topic_id for each in same}) == 1
            newest = same[0] if is_one else max(same, key=self._newest_time)
            self._newest[topic] = newest.topic_id
        return self._newest[topic]

    def _own_lineage(self, partition: TierPartition) -> list[tuple[int, int]]:
        """Return the leader epochs of the newest history: those that its last segment was copied with."""
        usable = [each for each in partition.segments if each.reason is None and each.epochs]
        if not usable:
            return []
        last = max(usable, key=lambda each: (max(each.epochs or {0: 0}), each.end_offset or 0))
        try:
            known = tail.epochs_of(last, self.layout, self.store)
        except (KafkaLogError, OSError, ValueError):
            known = {}
        return lineage_of(known or last.epochs or {}, usable)

    def _newest_time(self, partition: TierPartition) -> tuple[int, int]:
        """Return the time of a partition's last copy if manifests tell; else that of its newest record."""
        copied = max((each.order[0] for each in partition.segments if each.source == "manifest"), default=0)
        stamped = [tail.newest_timestamp(each, self.layout, self.store) for each in partition.segments]
        return copied, max(stamped, default=0)
