"""The best metadata log of all disks, and what of it is provably committed."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import urlsafe_b64encode
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import reader
from kafkalog._files import read_small
from kafkalog.errors import KafkaLogError
from kafkalog.rescue.inventory import METADATA
from kafkalog.rescue.lineage import agreed_end
from kafkalog.rescue.plan import Finding, Image, MetadataRecord
from kafkalog.tables import cluster_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog.rescue.inventory import Inventory
    from kafkalog.rescue.plan import Disk, Replica

__all__ = ["UNASSIGNED", "image_of", "quorum"]

# DirectoryId.UNASSIGNED: the broker places the replica when it starts.
UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"

_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
# Of a cluster without metadata: 3.9-IV0, the lowest that a dynamic quorum takes (KRaftVersion.KRAFT_VERSION_1).
_METADATA_VERSION = 21
_NO_LEADER = -1


class _Log(NamedTuple):
    """One metadata log."""

    replica: Replica
    # end and epoch of its last snapshot; 0 and 0 without one
    snapshot_end: int
    snapshot_epoch: int

    @property
    def end_offset(self) -> int:
        return max(self.replica.log_end_offset, self.snapshot_end)

    @property
    def epoch(self) -> int:
        return max(self.replica.last_epoch, self.snapshot_epoch)

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """Return its epochs; the end of a snapshot is known to be of its epoch."""
        known = dict(self.replica.leader_epochs)
        if self.snapshot_end > 0:
            known.setdefault(self.snapshot_epoch, self.snapshot_end - 1)
        return tuple(sorted(known.items()))


def image_of(inventory: Inventory) -> tuple[Image, list[Finding]]:
    """Return the image of the best metadata log; without any, one from the folders."""
    logs = [_log(each) for each in inventory.replicas if each.topic == METADATA and each.state == "live"]
    findings: list[Finding] = []
    # Raft: the log with the latest epoch, and the longest of these, has every record that was committed.
    for log in sorted(logs, key=lambda each: (-each.epoch, -each.end_offset, len(each.replica.damage))):
        folder = log.replica.path
        try:
            rows = cluster_metadata(folder, secrets=True).select(["type", "valueVersion", "value"]).to_pylist()
        except (KafkaLogError, OSError, ValueError) as error:
            findings.append(Finding("warning", "metadata-damaged", f"not usable: {error}", folder))
            continue
        records = tuple(MetadataRecord(row["type"], row["valueVersion"], json.loads(row["value"])) for row in rows)
        if not any(record.type == "FEATURE_LEVEL_RECORD" for record in records):
            findings.append(Finding("warning", "metadata-damaged", "not usable: it holds no feature levels", folder))
            continue
        if findings:
            text = f"a better metadata log is damaged: changes after offset {log.end_offset} may be missing"
            findings.append(Finding("error", "metadata-older", text, folder))
        return _with_commitment(log, logs, records, findings)
    findings.append(_nothing_known(inventory))
    return _from_folders(inventory), findings


def _log(replica: Replica) -> _Log:
    found = [_SNAPSHOT.fullmatch(each.name) for each in Path(replica.path).iterdir()]
    ends = [(int(match[1]), int(match[2])) for match in found if match]
    return _Log(replica, *max(ends, default=(0, 0)))


def _with_commitment(
    best: _Log, logs: Sequence[_Log], records: tuple[MetadataRecord, ...], findings: list[Finding]
) -> tuple[Image, list[Finding]]:
    """Find up to where a majority of the voters' disks have the same log."""
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
    image = Image(
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
    from kafkalog.tables import _rows

    counts: Counter[str] = Counter()
    try:
        for entry in _rows.replayed(folder, METADATA):
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
    topics = {each.topic for each in inventory.replicas if each.topic != METADATA}
    text = (
        f"no disk has a usable metadata log: {len(topics)} topics are restored from their folders; their settings, "
        "deleted topics, ACLs, users, quotas and features are not known"
    )
    return Finding("error", "no-metadata", text)


def _from_folders(inventory: Inventory) -> Image:
    """Make the records of topics and partitions that the folders show."""
    records = [
        MetadataRecord("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": _METADATA_VERSION})
    ]
    topics: dict[str, list[Replica]] = {}
    for replica in inventory.replicas:
        if replica.state == "live" and replica.topic != METADATA:
            topics.setdefault(replica.topic, []).append(replica)
    for topic, replicas in sorted(topics.items()):
        topic_id = _latest_id(topic, replicas)
        records.append(MetadataRecord("TOPIC_RECORD", 0, {"name": topic, "topicId": topic_id}))
        partitions: dict[int, list[Replica]] = {}
        for each in replicas:
            if each.topic_id in {topic_id, None}:
                partitions.setdefault(each.partition, []).append(each)
        records += [
            _partition_record(topic_id, partition, partitions.get(partition, []))
            for partition in range(max(partitions) + 1)
        ]
    return Image(records=tuple(records), path=None, end_offset=0, epoch=0)


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


def _partition_record(topic_id: str, partition: int, replicas: Sequence[Replica]) -> MetadataRecord:
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
