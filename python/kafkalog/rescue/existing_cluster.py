"""Topics of dead disks, written into a log dir of another cluster whose broker is stopped.

The cluster has the topics already, empty and with ids of its own: their partitions get the folders, under these ids. A
partition must have its one replica on this node, since a leader elsewhere would have it truncate what it gets.

Where the node is the only voter of the metadata quorum, one batch at the end of its metadata log carries out what else
the folders need:

======================= =================================================================================
``PARTITION_RECORD``    a leader epoch above those of the batches: leaders append with a later one (KIP-101)
``PRODUCER_IDS_RECORD`` ids above those in the batches: a new producer must not meet the state of an old one
======================= =================================================================================

``LOG_DIR.unfinished`` holds what is not in its place yet; the same command continues after a kill.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog._atomic_files import sync_folder
from kafkalog.config import LogConfig
from kafkalog.errors import CorruptIndexError, UnknownTopicOrPartitionError
from kafkalog.log import PartitionLog
from kafkalog.rescue import output
from kafkalog.rescue.inventory import METADATA
from kafkalog.rescue.metadata import UNASSIGNED, quorum
from kafkalog.rescue.model import Finding, RescueReport
from kafkalog.rescue.planner import LOWERED, by_severity, plan_rescue
from kafkalog.rescue.target import Node
from kafkalog.tables import cluster_metadata
from kafkalog.writer import LogWriter, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kafkalog.rescue.model import Choice, RescuePlan
    from kafkalog.rescue.shared_work import Progress

_INTERNAL = "__"
# DirectoryId: a broker looks for these replicas in all of its log dirs. The second is of metadata before 3.7.
_ANYWHERE = frozenset({UNASSIGNED, "AAAAAAAAAAAAAAAAAAAAAA"})
# ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
_PRODUCER_IDS = 1000
# The last segment of the metadata log gets a batch, and no other follows it.
_ONE_SEGMENT = LogConfig(segment_bytes=(1 << 31) - 1, segment_ms=(1 << 63) - 1)
# Of the new cluster's settings and internal topics, which are not taken here.
_ELSEWHERE = frozenset({"setting-raised", "setting-refused", "open-transaction"})


@dataclass(frozen=True)
class TargetLogDir:
    """The log dir to write into, and its cluster's metadata."""

    path: Path
    node_id: int
    directory_id: str | None
    # the folder of the metadata log; None if another log dir of the node has it
    metadata: Path | None
    # topic ids by name
    ids: dict[str, str]
    # version and value of each ``PARTITION_RECORD``, by topic id and number
    partitions: dict[tuple[str, int], tuple[int, dict[str, Any]]]
    # the first id that was not given out
    next_producer_id: int
    # whether the node alone decides what the metadata is
    is_only_voter: bool


def rescue_into(
    disks: Sequence[str],
    into: Path,
    topics: str | Iterable[str] | None,
    topic_ids: Mapping[str, str],
    *,
    link: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RescueReport:
    """Plan and write topics of disks into another cluster's log dir; the parameters are those of ``rescue``."""
    wanted = {*(_arguments.names("topics", topics) or ()), *topic_ids}
    if not wanted:
        raise ValueError("topics or topic_ids are needed with into")
    if internal := sorted(each for each in wanted if each.startswith(_INTERNAL)):
        raise ValueError(f"internal topics belong to their cluster: {', '.join(internal)}")
    if os.path.realpath(into) in {os.path.realpath(each) for each in disks}:
        raise ValueError(f"{into} is one of the disks that are read")
    if dry_run:
        return RescueReport(plan=_planned(disks, read_target(into), wanted, topic_ids, progress), dry_run=True)
    # What it finds there must not change until all is written.
    held = _core.HeldLogDirs([str(into)])
    try:
        to = read_target(into)
        plan = _planned(disks, to, wanted, topic_ids, progress)
        return write_into(plan, to, link=link, progress=progress)
    finally:
        held.close()


def _planned(
    disks: Sequence[str],
    to: TargetLogDir,
    wanted: Iterable[str],
    topic_ids: Mapping[str, str],
    progress: Progress | None,
) -> RescuePlan:
    # Reading the disks may take hours.
    for topic in sorted(wanted):
        _topic_id(topic, to, topic_ids)
    return plan_for_target(plan_rescue(disks, sorted(wanted), progress), to, topic_ids)


def read_target(path: Path) -> TargetLogDir:
    """Read a log dir that topics are to be written into."""
    meta = _core.LogDir(str(path)).meta or {}
    named = meta.get("node.id", "")
    if not named:
        raise ValueError(f"{path}: expected the log dir of a broker, found no node.id in meta.properties")
    if not re.fullmatch("[0-9]{1,10}", named) or int(named) >= 1 << 31:
        file = str(path / "meta.properties")
        raise CorruptIndexError(f"{file}: node.id: expected 0 to 2147483647, found {named!r}", file)
    node_id = int(named)
    metadata = path / f"{METADATA}-0"
    if not any(metadata.glob("*.log")):
        return TargetLogDir(path, node_id, meta.get("directory.id"), None, {}, {}, 0, is_only_voter=False)
    rows = cluster_metadata(str(metadata), secrets=True).select(["type", "valueVersion", "value"]).to_pylist()
    ids, partitions, following = {}, {}, 0
    for row in rows:
        value = json.loads(row["value"])
        if row["type"] == "TOPIC_RECORD":
            ids[value["name"]] = value["topicId"]
        elif row["type"] == "PARTITION_RECORD":
            partitions[value["topicId"], value["partitionId"]] = (row["valueVersion"], value)
        elif row["type"] == "PRODUCER_IDS_RECORD":
            following = value["nextProducerId"]
    voters, _ = quorum(str(metadata))
    return TargetLogDir(
        path, node_id, meta.get("directory.id"), metadata, ids, partitions, following, is_only_voter=voters == {node_id}
    )


def plan_for_target(plan: RescuePlan, to: TargetLogDir, topic_ids: Mapping[str, str]) -> RescuePlan:
    """Return the plan for the topics of another cluster: its ids, and what its users have to know."""
    begun = output.is_begun(output.unfinished_of(to.path))
    choices = []
    for choice in plan.choices:
        if choice.topic.startswith(_INTERNAL) or choice.replica is None:
            continue
        topic_id = _topic_id(choice.topic, to, topic_ids)
        if to.metadata is not None:
            _check_place(choice, topic_id, to)
        folder = to.path / _name(choice)
        if not begun and folder.exists() and PartitionLog(folder).log_end_offset > 0:
            raise FileExistsError(
                errno.EEXIST, "the partition has had records; delete its topic and create it again", str(folder)
            )
        choices.append(replace(choice, topic_id=topic_id))
    findings = [
        replace(each, message=each.message.removesuffix(LOWERED))
        for each in plan.findings
        if each.code not in _ELSEWHERE and not (each.topic or "").startswith(_INTERNAL)
    ]
    moved = replace(plan, choices=tuple(choices), group_offsets=(), findings=())
    return replace(moved, findings=by_severity([*findings, *_needed(moved, to)]))


def _name(choice: Choice) -> str:
    return f"{choice.topic}-{choice.partition}"


def _topic_id(topic: str, to: TargetLogDir, topic_ids: Mapping[str, str]) -> str:
    wanted, known = topic_ids.get(topic), to.ids.get(topic)
    if to.metadata is None:
        if wanted is None:
            raise ValueError(f"{to.path} has no metadata log: give the id of topic {topic}, as kafka-topics prints it")
        return wanted
    if known is None:
        raise UnknownTopicOrPartitionError(f"{to.metadata}: expected topic {topic}, found none; create it first")
    if wanted not in {None, known}:
        raise ValueError(f"{to.metadata}: expected id {wanted} of topic {topic}, found {known}")
    return known


def _check_place(choice: Choice, topic_id: str, to: TargetLogDir) -> None:
    """Refuse a partition whose only replica is not in this log dir."""
    name = _name(choice)
    _, value = to.partitions.get((topic_id, choice.partition), (0, None))
    if value is None:
        raise UnknownTopicOrPartitionError(
            f"{to.metadata}: expected partition {name}, found none; add partitions first"
        )
    if value["replicas"] != [to.node_id]:
        text = f"expected {name} on node {to.node_id} alone, found replicas {value['replicas']}"
        raise ValueError(f"{to.metadata}: {text}; other replicas would truncate what is written")
    directory = (value.get("directories") or [UNASSIGNED])[0]
    if to.directory_id is not None and directory not in {to.directory_id, *_ANYWHERE}:
        text = f"expected {name} in this log dir, {to.directory_id}, found it in directory {directory} of the node"
        raise ValueError(f"{to.metadata}: {text}")


def _highest_producer_id(plan: RescuePlan) -> int:
    return max((piece.replica.highest_producer_id for each in plan.choices for piece in each.pieces), default=-1)


def _records(plan: RescuePlan, to: TargetLogDir) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the records that the metadata lacks."""
    for choice in plan.choices:
        version, value = to.partitions[choice.topic_id or "", choice.partition]
        epoch = choice.last_epoch
        if value["leaderEpoch"] <= epoch:
            raised = {"leaderEpoch": epoch + 1, "partitionEpoch": value["partitionEpoch"] + 1}
            yield "PARTITION_RECORD", version, {**value, **raised}
    highest = _highest_producer_id(plan)
    if highest >= to.next_producer_id:
        following = (highest // _PRODUCER_IDS + 1) * _PRODUCER_IDS
        yield "PRODUCER_IDS_RECORD", 0, {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": following}


def _needed(plan: RescuePlan, to: TargetLogDir) -> Iterator[Finding]:
    """Say what the metadata gets, or lacks, and which transactions stay open."""
    if to.is_only_voter:
        kinds = [kind for kind, _, _ in _records(plan, to)]
        if epochs := kinds.count("PARTITION_RECORD"):
            text = f"the leader epochs of {epochs} partitions are raised above those of their records"
            yield Finding("info", "epochs-raised", text, str(to.metadata))
        if "PRODUCER_IDS_RECORD" in kinds:
            text = f"producer ids up to {_highest_producer_id(plan)} will not be assigned again"
            yield Finding("info", "producer-ids-raised", text, str(to.metadata))
    else:
        why = f"node {to.node_id} is not the only voter, so the metadata stays"
        for choice in plan.choices:
            version_and_value = to.partitions.get((choice.topic_id or "", choice.partition))
            epoch = choice.last_epoch
            known = None if version_and_value is None else version_and_value[1]["leaderEpoch"]
            if known is None or known <= epoch:
                of = "the partition's is not known" if known is None else f"the partition has {known}"
                text = f"records have leader epochs up to {epoch}, {of}; {why}"
                yield Finding("warning", "epochs-behind", text, None, choice.topic, choice.partition)
        highest = _highest_producer_id(plan)
        if highest >= to.next_producer_id:
            text = f"records have producer ids up to {highest}, which the cluster may assign again; {why}"
            yield Finding("warning", "producer-ids-behind", text, str(to.path))
    taken = {(choice.topic, choice.partition) for choice in plan.choices}
    for each in plan.open_transactions:
        if (each.topic, each.partition) in taken:
            text = (
                f"producer {each.producer_id} has an open transaction from offset {each.first_offset} on, which this "
                "cluster's coordinator does not know: end it with kafka-transactions abort"
            )
            yield Finding("warning", "hanging-transaction", text, None, each.topic, each.partition)


def write_into(
    plan: RescuePlan, to: TargetLogDir, *, link: bool = False, progress: Progress | None = None
) -> RescueReport:
    """Write the partitions of a plan into a log dir, which the caller has locked."""
    unfinished = output.unfinished_of(to.path)
    if to.path.stat().st_dev != unfinished.parent.stat().st_dev:
        raise ValueError(f"{to.path} is the root of a file system: partitions are moved in from a directory next to it")
    output.begin(unfinished, {"fingerprint": output.fingerprint(plan, {"into": str(to.path), "link": link})})
    whole = unfinished / "whole"
    copied = unfinished / "copied"
    if not copied.exists():
        whole.mkdir(exist_ok=True)
        node = Node(to.node_id, to.directory_id or "", ("", 0), ("", 0), "")
        placed = [(choice, node) for choice in plan.choices]
        output.copy_partitions(plan, placed, unfinished, link=link, progress=progress)
        copied.touch()
    for choice in plan.choices:
        _move(choice, unfinished, to.path)
    _checkpoints(plan.choices, to.path)
    if to.is_only_voter:
        _append_metadata(list(_records(plan, to)), to, unfinished)
    size = sum(segment.size for choice in plan.choices for segment in PartitionLog(to.path / _name(choice)).segments)
    output.end(unfinished)
    return RescueReport(plan=plan, out=str(to.path), dry_run=False, bytes=size)


def _move(choice: Choice, unfinished: Path, log_dir: Path) -> None:
    """Put a partition in the place of the empty one."""
    source, target = unfinished / "whole" / _name(choice), log_dir / _name(choice)
    if not source.exists():
        return
    if target.exists():
        replaced = unfinished / "replaced"
        replaced.mkdir(exist_ok=True)
        target.rename(replaced / target.name)
    source.rename(target)
    sync_folder(log_dir)


def _checkpoints(choices: Sequence[Choice], log_dir: Path) -> None:
    """Tell the broker that everything is on the device, and was committed."""
    ours = {(choice.topic, choice.partition) for choice in choices}
    found = _core.LogDir(str(log_dir)).checkpoints
    ends = [(each.topic, each.partition, each.log_end_offset) for each in choices]
    starts = [(each.topic, each.partition, each.log_start_offset) for each in choices if each.log_start_offset > 0]
    kept = {name: [each for each in entries if (each[0], each[1]) not in ours] for name, entries in found.items()}
    output.write_checkpoints(log_dir, starts, ends, kept)


def _append_metadata(records: Sequence[tuple[str, int, dict[str, Any]]], to: TargetLogDir, unfinished: Path) -> None:
    """Append one batch to a copy of the metadata log's last segment, which then takes the place of the first.

    The broker checks the whole log as it starts, and rebuilds the indexes (``KafkaRaftLog``).
    """
    if not records or to.metadata is None:
        return
    copies = unfinished / METADATA
    shutil.rmtree(copies, ignore_errors=True)
    shutil.copytree(to.metadata, copies / to.metadata.name, ignore=shutil.ignore_patterns("*.checkpoint", "*.index"))
    now = time.time_ns() // 1_000_000
    with LogWriter(copies, METADATA, 0, config=_ONE_SEGMENT) as writer:
        encoded = [
            _core.encode_record(METADATA, kind, version, None, json.dumps(value)) for kind, version, value in records
        ]
        writer.append([Record(value=value, key=None, timestamp=now) for _, value in encoded])
    last = max((copies / to.metadata.name).glob("*.log"))
    last.replace(to.metadata / last.name)
    sync_folder(to.metadata)
