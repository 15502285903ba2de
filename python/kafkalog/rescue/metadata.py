"""The best metadata log of all disks, and what of it is provably committed."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64encode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _places, reader
from kafkalog._atomic_files import read_small
from kafkalog.errors import KafkaLogError
from kafkalog.rescue.inventory import METADATA
from kafkalog.rescue.lineage import agreed_end
from kafkalog.rescue.model import Finding, MetadataRecord, RescueImage
from kafkalog.tables import _rows
from kafkalog.tables.cluster import partial_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog.rescue.inventory import Inventory
    from kafkalog.rescue.model import Disk, Replica
    from kafkalog.tables._rows import Notes

# DirectoryId.UNASSIGNED: the broker places the replica when it starts.
UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"

_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
# Of a cluster without metadata: 3.9-IV0, the lowest that a dynamic quorum takes (KRaftVersion.KRAFT_VERSION_1).
_METADATA_VERSION = 21
_NO_LEADER = -1


class MetadataLog(NamedTuple):
    """One metadata log."""

    replica: Replica
    # end and epoch of its last snapshot; 0 and 0 without one
    snapshot_end: int
    snapshot_epoch: int

    @property
    def end_offset(self) -> int:
        """Return the end of the log or of its last snapshot."""
        return max(self.replica.log_end_offset, self.snapshot_end)

    @property
    def epoch(self) -> int:
        """Return the epoch of its end."""
        return max(self.replica.last_epoch, self.snapshot_epoch)

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """Return its epochs; the end of a snapshot is known to be of its epoch."""
        known = dict(self.replica.leader_epochs)
        if self.snapshot_end > 0:
            known.setdefault(self.snapshot_epoch, self.snapshot_end - 1)
        return tuple(sorted(known.items()))


class LogRead(NamedTuple):
    """Content of a metadata log."""

    log: MetadataLog
    records: tuple[MetadataRecord, ...]
    notes: Notes


def image_of(inventory: Inventory) -> tuple[RescueImage, list[Finding]]:
    """Return the image of the best metadata log; without any, one from the folders."""
    logs = logs_among(inventory.replicas)
    best, findings = best_log(logs)
    if best is None:
        findings.append(_nothing_known(inventory))
        return RescueImage(records=_from_folders(inventory), path=None, end_offset=0, epoch=0), findings
    image, findings = _with_commitment(best, logs, findings)
    if best.notes.gap is None:
        return image, findings
    added = _from_folders(inventory, best.records)
    guessed = frozenset(each.value["name"] for each in added if each.type == "TOPIC_RECORD")
    for topic in sorted(guessed):
        text = "not in the metadata that is left: restored from its folders, without its settings"
        findings.append(Finding("error", "topic-from-folders", text, None, topic))
    return replace(image, records=(*image.records, *added), guessed=guessed), findings


def logs_among(replicas: Iterable[Replica]) -> list[MetadataLog]:
    """Return the metadata logs of nodes."""
    return [_log(each) for each in replicas if each.topic == METADATA and each.state == "live"]


def best_log(logs: Iterable[MetadataLog], *, secrets: bool = True) -> tuple[LogRead | None, list[Finding]]:
    """Return the content of the best log, or of the best one that misses changes, and findings; None without topics."""
    findings: list[Finding] = []
    partial: list[LogRead] = []
    # Raft: the log with the latest epoch, and the longest of these, has every record that was committed.
    for log in sorted(logs, key=lambda each: (-each.epoch, -each.end_offset, len(each.replica.damage))):
        folder = log.replica.path
        try:
            things, notes = partial_image(folder, secrets=secrets)
        except (KafkaLogError, OSError, ValueError) as error:
            findings.append(Finding("warning", "metadata-damaged", f"not usable: {error}", folder))
            continue
        records = tuple(MetadataRecord(each.type, each.version, each.value) for each in things.things.values())
        if notes.gap is None and not any(record.type == "FEATURE_LEVEL_RECORD" for record in records):
            notes.gap = "it holds no feature levels"
        read = LogRead(log, records, notes)
        if notes.gap is None:
            if findings:
                text = f"a better metadata log is damaged: changes after offset {log.end_offset} may be missing"
                findings.append(Finding("error", "metadata-older", text, folder))
            return read, [*findings, *_noted(read)]
        text = "; ".join([f"changes are missing: {notes.gap}", *(f"not usable: {each}" for each in notes.passed)])
        findings.append(Finding("warning", "metadata-damaged", text, folder))
        if any(record.type == "TOPIC_RECORD" for record in records):
            partial.append(read)
    if not partial:
        return None, findings
    return partial[0], [*findings, *_noted(partial[0])]


def _noted(read: LogRead) -> Iterator[Finding]:
    """Name missing changes of the log that is used, skipped damage in it, and records that cannot be applied."""
    folder, notes = read.log.replica.path, read.notes
    for each in notes.passed:
        yield Finding("info", "metadata-passed-over", f"passed over: {each}", folder)
    if notes.gap is not None:
        text = f"{notes.gap}: topics, settings, ACLs, users and quotas may be older than they were, or missing"
        yield Finding("error", "metadata-gap", text, folder)
    for each in notes.named:
        yield Finding("error", "metadata-record", f"left out: {each}", folder)
    if notes.unapplied > len(notes.named):
        text = f"left out: {notes.unapplied - len(notes.named)} records more that cannot be applied"
        yield Finding("error", "metadata-record", text, folder)


def _log(replica: Replica) -> MetadataLog:
    found = map(_SNAPSHOT.fullmatch, _places.listed(replica.path))
    ends = [(int(match[1]), int(match[2])) for match in found if match]
    return MetadataLog(replica, *max(ends, default=(0, 0)))


def _with_commitment(
    read: LogRead, logs: Sequence[MetadataLog], findings: list[Finding]
) -> tuple[RescueImage, list[Finding]]:
    """Find up to where a majority of the voters' disks have the same log."""
    best, records, _ = read
    folder, end = best.replica.path, best.end_offset
    voters, kraft_version = quorum(folder)
    agreed: dict[int, int] = {}
    for log in logs:
        node = log.replica.disk.node_id
        if node in voters:
            same = agreed_end(best.epochs, end, log.epochs, log.end_offset)
            agreed[node] = max(agreed.get(node, 0), same)
    majority = len(voters) // 2 + 1
    # A snapshot holds only what was committed.
    committed = max((log.snapshot_end for log in logs if log.snapshot_end <= end), default=0)
    if voters and len(agreed) >= majority:
        committed = max(committed, sorted(agreed.values(), reverse=True)[majority - 1])
    if committed < end:
        nodes = ", ".join(str(node) for node in sorted(agreed)) or "none"
        text = (
            f"records from offset {committed} to {end} are not provably committed: "
            f"{_kinds(folder, committed)}; voters {listed(voters)}, of whose disks given: {nodes}"
        )
        findings.append(Finding("warning", "metadata-uncommitted", text, folder))
    image = RescueImage(
        records=records,
        path=folder,
        end_offset=end,
        epoch=best.epoch,
        committed_offset=committed or None,
        voters=tuple(sorted(voters)),
        kraft_version=kraft_version,
    )
    return image, findings


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as text, ``none`` for none."""
    return ", ".join(str(each) for each in sorted(numbers)) or "none"


def _kinds(folder: str, offset: int) -> str:
    """Count the records of a metadata log from an offset on, by type."""
    counts: Counter[str] = Counter()
    try:
        entries, _ = _rows.metadata(folder, history=True, partial=True)
        for entry in entries:
            if not entry.segment.endswith(".checkpoint") and entry.offset >= offset:
                counts[entry.type] += 1
    except (KafkaLogError, OSError):
        return "their number is not known"
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "no changes"


def quorum(folder: str) -> tuple[set[int], int]:
    """Return the voters and ``kraft.version``, as the log's control records or ``quorum-state`` say."""
    voters: set[int] = set()
    version = 0
    for kind, value in _control_records(folder):
        if kind == "LEADER_CHANGE":
            voters = _voters(value) or voters
        elif kind == "KRAFT_VERSION":
            version = int.from_bytes(value[2:4], "big")
    if not voters:
        try:
            state: dict[str, Any] = json.loads(read_small(Path(folder, "quorum-state"), 1 << 20))
            voters = {int(each["voterId"]) for each in state.get("currentVoters", ())}
        except (OSError, ValueError, KeyError, TypeError):
            voters = set()
    return voters, version


def _control_records(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield type and value of the log's control records; those of snapshots do not name who votes in an epoch."""
    if not any(Path(folder).glob("*.log")):
        return
    columns = ["value", "controlType"]
    with reader.scan(folder, [METADATA], columns=columns, include_control=True, on_corrupt="skip") as batches:
        for batch in batches:
            for row in batch.filter(batch["controlType"].is_valid()).to_pylist():
                yield row["controlType"], row["value"]


def _voters(value: bytes) -> set[int]:
    """Return the voters' ids of a ``LeaderChangeMessage``; none if it is cut off.

    ========== ======= ===============================================================
    field      bytes
    ========== ======= ===============================================================
    version    2       0 or 1
    leaderId   4
    voters     1       their number + 1 (fewer than 127), then for each
    voterId    4
    directory  16      version 1 only
    tags       1       0
    ========== ======= ===============================================================
    """
    if len(value) < 7:  # noqa: PLR2004 - up to the number of voters
        return set()
    each = 5 if int.from_bytes(value[:2], "big") == 0 else 21
    count = value[6] - 1
    starts = range(7, 7 + count * each, each)
    if count < 1 or len(value) < 7 + count * each:
        return set()
    return {int.from_bytes(value[start : start + 4], "big") for start in starts}


def _nothing_known(inventory: Inventory) -> Finding:
    if not inventory.disks:
        text = "there are no disks: settings, deleted topics, ACLs, users, quotas, features, groups are not known"
        return Finding("error", "no-metadata", text)
    topics = {each.topic for each in inventory.replicas if each.topic != METADATA}
    text = (
        f"no disk has a usable metadata log: {len(topics)} topics are restored from their folders; their settings, "
        "deleted topics, ACLs, users, quotas and features are not known"
    )
    return Finding("error", "no-metadata", text)


def _from_folders(inventory: Inventory, known: Sequence[MetadataRecord] = ()) -> tuple[MetadataRecord, ...]:
    """Make the records of topics and partitions that the folders show and that are not known."""
    ids = {each.value["name"]: each.value["topicId"] for each in known if each.type == "TOPIC_RECORD"}
    places = {(each.value["topicId"], each.value["partitionId"]) for each in known if each.type == "PARTITION_RECORD"}
    records = []
    if not any(each.type == "FEATURE_LEVEL_RECORD" for each in known):
        level = {"name": "metadata.version", "featureLevel": _METADATA_VERSION}
        records.append(MetadataRecord("FEATURE_LEVEL_RECORD", 0, level))
    topics: dict[str, list[Replica]] = {}
    for replica in inventory.replicas:
        if replica.state == "live" and replica.topic != METADATA:
            topics.setdefault(replica.topic, []).append(replica)
    for topic, replicas in sorted(topics.items()):
        topic_id = ids.get(topic) or _latest_id(topic, replicas)
        if topic not in ids:
            records.append(MetadataRecord("TOPIC_RECORD", 0, {"name": topic, "topicId": topic_id}))
        partitions: dict[int, list[Replica]] = {}
        for each in replicas:
            if each.topic_id in {topic_id, None}:
                partitions.setdefault(each.partition, []).append(each)
        records += [
            partition_record(topic_id, partition, partitions.get(partition, []))
            for partition in range(max(partitions, default=-1) + 1)
            if (topic_id, partition) not in places
        ]
    return tuple(records)


def _latest_id(topic: str, replicas: Sequence[Replica]) -> str:
    """Return the id of the topic's latest incarnation: that of the file modified last."""
    known = [each for each in replicas if each.topic_id is not None]
    if len({each.topic_id for each in known}) > 1:
        known.sort(key=lambda each: _modified(each.path))
    if known:
        return known[-1].topic_id or ""
    # Before 2.8 topics had no ids. The same disks give the same id again.
    return urlsafe_b64encode(hashlib.sha256(topic.encode()).digest()[:16]).decode().rstrip("=")


def _modified(folder: str) -> float:
    return max((each.stat().st_mtime for each in Path(folder).glob("*.log")), default=0.0)


def partition_record(topic_id: str, partition: int, replicas: Sequence[Replica]) -> MetadataRecord:
    """Return the record of a partition of which the metadata does not know, with these replicas."""
    nodes = sorted({each.disk.node_id for each in replicas if each.disk.node_id is not None})
    value = {
        "partitionId": partition,
        "topicId": topic_id,
        "replicas": nodes,
        # Unknown: the lineage decides.
        "isr": nodes,
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": _NO_LEADER,
        "leaderEpoch": max((each.last_epoch for each in replicas), default=0),
        "partitionEpoch": 0,
        "directories": [_disk_id(each.disk) for each in replicas],
    }
    return MetadataRecord("PARTITION_RECORD", 1, value)


def _disk_id(disk: Disk) -> str:
    return disk.directory_id or UNASSIGNED
