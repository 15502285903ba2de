"""The plan: inventory, metadata, and a choice for each partition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.rescue.config_compat import about_settings
from kafkalog.rescue.inventory import METADATA, scan_disks
from kafkalog.rescue.metadata import image_of
from kafkalog.rescue.model import Finding, GroupOffset, OpenTransaction, RescuePlan
from kafkalog.rescue.replica_choice import Partition, choose, nothing
from kafkalog.tables import _rows
from kafkalog.tables._image import TOPIC_CONFIG
from kafkalog.tables._rows import notes_of
from kafkalog.tables.offsets import read_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog.rescue.inventory import Inventory
    from kafkalog.rescue.model import Choice, Damage, Replica, RescueImage
    from kafkalog.rescue.remote_tier import DeadTier
    from kafkalog.rescue.shared_work import Progress
    from kafkalog.typing import Paths

_SEVERITIES = ("error", "warning", "info")
# What becomes of a committed offset beyond the end, in a cluster of its own.
LOWERED = ": lowered to it"
_OFFSETS, _TRANSACTIONS = "__consumer_offsets", "__transaction_state"
_REMOTE = "__remote_log_metadata"
# Whatever topics are wanted.
_KEPT = {_OFFSETS, _TRANSACTIONS}


def plan_rescue(
    paths: Paths | None,
    topics: str | Iterable[str] | None = None,
    progress: Progress | None = None,
    tier: DeadTier | None = None,
) -> RescuePlan:
    """Read the disks of a dead cluster, and decide what to take from which, and what of its tier is attached."""
    wanted = _arguments.names("topics", topics)
    inventory = scan_disks([] if paths is None else _arguments.local_paths(paths), progress)
    image, findings = image_of(inventory)
    if tier is not None:
        image, about = tier.read(inventory, image)
        findings += about
    partitions = _partitions(image)
    if tier is not None and not partitions:
        raise ValueError(f"{tier.name}: expected segments in tiered storage, found none of a topic that can be served")
    unknown = {*(wanted or ())} - {each.topic for each in partitions}
    if unknown:
        known = ", ".join(sorted({each.topic for each in partitions})) or "none"
        named = ", ".join(sorted(unknown))
        of = "the metadata of the disks" if tier is None else "the metadata of the disks, nor in the tier"
        raise UnknownTopicOrPartitionError(f"topics not in {of}: {named}; found: {known}")
    choices, about = _choices(partitions, inventory, wanted, tier)
    findings += about
    attached = None
    findings += [*inventory.findings, *_unknown_folders(inventory, partitions), *_damage(inventory, choices)]
    if tier is None:
        findings += _moved_away(image, choices)
    findings += about_settings(image.records, {choice.topic for choice in choices})
    offsets, about = _beyond_ends(choices)
    findings += about
    transactions, about = _open_transactions(choices, inventory.transactional)
    findings += about
    if tier is not None:
        highest, cut = tier.producers(choices)
        choices = [_with_aborted(each, cut) for each in choices]
        findings += [*tier.findings(), *(_cut(each) for each in cut)]
        attached = tier.facts(image, highest)
    findings += [Finding("warning", "transactions-unknown", each) for each in _undecoded(choices)]
    return RescuePlan(
        cluster_id=next((disk.cluster_id for disk in inventory.disks if disk.cluster_id), None),
        disks=inventory.disks,
        replicas=inventory.replicas,
        image=image,
        choices=tuple(choices),
        group_offsets=tuple(offsets),
        open_transactions=tuple(transactions),
        findings=by_severity(findings),
        tier=attached,
    )


def _choices(
    partitions: Iterable[Partition], inventory: Inventory, wanted: Iterable[str] | None, tier: DeadTier | None
) -> tuple[list[Choice], list[Finding]]:
    """Choose for each partition of the wanted topics, and of those that are always kept."""
    kept = _KEPT if tier is None else _KEPT | {_REMOTE}
    by_place: dict[tuple[str, int], list[Replica]] = {}
    for replica in inventory.replicas:
        by_place.setdefault((replica.topic, replica.partition), []).append(replica)
    choices, findings = [], []
    for partition in partitions:
        if wanted is not None and partition.topic not in wanted and partition.topic not in kept:
            continue
        found = by_place.get((partition.topic, partition.number), [])
        if tier is None:
            choice, about = choose(partition, found, inventory.runs)
        elif partition.topic == _REMOTE and not found:
            choice, about = nothing(partition, "made from the tier"), []
        else:
            choice, about = choose(partition, found, inventory.runs, tier.attached)
        choices.append(choice)
        findings += about
    return choices, findings


def _with_aborted(choice: Choice, cut: Iterable[OpenTransaction]) -> Choice:
    """Return a choice with markers for the transactions that have no end in the tier."""
    mine = [each for each in cut if (each.topic, each.partition) == (choice.topic, choice.partition)]
    if not mine:
        return choice
    aborted = tuple(sorted(mine, key=lambda each: each.first_offset))
    return replace(choice, aborted=aborted, log_end_offset=choice.log_end_offset + len(aborted))


def _cut(each: OpenTransaction) -> Finding:
    text = (
        f"the transaction of producer {each.producer_id} from offset {each.first_offset} on is aborted: its end was "
        "not copied to the tier"
    )
    return Finding("error", "transaction-cut", text, None, each.topic, each.partition)


def by_severity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, the worst first."""
    return tuple(sorted(findings, key=lambda each: _SEVERITIES.index(each.severity)))


def _partitions(image: RescueImage) -> list[Partition]:
    """Return the partitions of the image, by topic and number."""
    names = {value["topicId"]: value["name"] for value in image.values("TOPIC_RECORD")}
    policies = {
        value["resourceName"]: value["value"] or ""
        for value in image.values("CONFIG_RECORD")
        if (value["resourceType"], value["name"]) == (TOPIC_CONFIG, "cleanup.policy")
    }
    partitions = []
    for value in image.values("PARTITION_RECORD"):
        topic = names[value["topicId"]]
        # Without metadata any topic may have been compacted.
        is_known = image.path is not None and topic not in image.guessed
        policy = policies.get(topic, "delete" if is_known else "compact")
        partitions.append(
            Partition(
                topic=topic,
                topic_id=value["topicId"],
                number=value["partitionId"],
                replicas=tuple(value["replicas"]),
                isr=tuple(value["isr"]),
                elr=tuple(value.get("eligibleLeaderReplicas") or ()),
                leader_epoch=value["leaderEpoch"],
                partition_epoch=value["partitionEpoch"],
                is_compacted="compact" in policy,
                is_known=is_known,
            )
        )
    return sorted(partitions, key=lambda each: (each.topic, each.number))


def _unknown_folders(inventory: Inventory, partitions: Iterable[Partition]) -> Iterator[Finding]:
    """Name folders of topics and partitions that the metadata does not have."""
    known = {(each.topic, each.number) for each in partitions}
    for replica in inventory.replicas:
        if replica.topic != METADATA and (replica.topic, replica.partition) not in known:
            text = (
                f"not in the metadata (id {replica.topic_id}, offsets to {replica.log_end_offset}): deleted, "
                "or newer than the metadata; left out"
            )
            yield Finding("info", "unknown-partition", text, replica.path, replica.topic, replica.partition)


def _moved_away(image: RescueImage, choices: Iterable[Choice]) -> Iterator[Finding]:
    """Name topics whose lost offsets may be in tiered storage."""
    tiered = {
        value["resourceName"]
        for value in image.values("CONFIG_RECORD")
        if (value["resourceType"], value["name"], value["value"]) == (TOPIC_CONFIG, "remote.storage.enable", "true")
    }
    for topic in sorted({each.topic for each in choices if each.lost or each.replica is None} & tiered):
        text = "has tiered storage, where what is missing here may be: name it with remote"
        yield Finding("warning", "tiered", text, None, topic)


def _damage(inventory: Inventory, choices: Iterable[Choice]) -> Iterator[Finding]:
    """Name what is not whole on the disks, but for segments that a broker has moved to the tier."""
    moved = {(each.topic, each.partition): each for each in choices if each.remote}
    for replica in inventory.replicas:
        choice = moved.get((replica.topic, replica.partition))
        for each in replica.damage:
            if choice is not None and each.reason == "missing" and not _overlap(choice.lost, each):
                continue
            last = "the end" if each.end_offset <= each.first_offset else str(each.end_offset - 1)
            bytes_ = "" if each.reason == "missing" else f"bytes {each.position} to {each.end_position - 1}, "
            text = f"{each.segment}: {bytes_}offsets {each.first_offset} to {last}: {each.reason}"
            is_tail = each.reason == "torn" and last == "the end"
            yield Finding(
                "info" if is_tail else "warning", "damaged", text, replica.path, replica.topic, replica.partition
            )


def _overlap(lost: Iterable[tuple[int, int]], damage: Damage) -> bool:
    return any(first < damage.end_offset and damage.first_offset < end for first, end in lost)


def _folders(choices: Iterable[Choice], topic: str | None = None) -> list[str]:
    return [each.replica.path for each in choices if each.replica is not None and topic in {each.topic, None}]


def _beyond_ends(choices: Iterable[Choice]) -> tuple[list[GroupOffset], list[Finding]]:
    """Find committed offsets beyond the ends of the logs: a consumer would start elsewhere (``auto.offset.reset``)."""
    folders = _folders(choices, _OFFSETS)
    if not folders:
        return [], []
    ends = {(each.topic, each.partition): each.log_end_offset for each in choices}
    try:
        table = read_offsets(_core.table_offsets(folders))
    except (KafkaLogError, OSError) as error:
        return [], [Finding("warning", "offsets-unknown", f"committed offsets are not known: {error}")]
    offsets: list[GroupOffset] = []
    findings = [Finding("warning", "offsets-unknown", each) for each in notes_of(table)]
    columns = (table[name].to_pylist() for name in ("group", "topic", "partition", "offset"))
    for group, topic, partition, offset in zip(*columns, strict=True):
        end = ends.get((topic, partition))
        if end is not None and offset > end:
            offsets.append(GroupOffset(group, topic, partition, offset, end))
            text = f"group {group} has committed offset {offset}, beyond the end {end}{LOWERED}"
            findings.append(Finding("error", "group-beyond-end", text, None, topic, partition))
    return offsets, findings


def _undecoded(choices: Iterable[Choice]) -> list[str]:
    """Name what cannot be decoded of transactional ids, whose producer ids are then not known."""
    notes = _rows.Notes()
    folders = _folders(choices, _TRANSACTIONS)
    try:
        for _ in _rows.replayed(folders, _TRANSACTIONS, notes=notes) if folders else ():
            pass
    except (KafkaLogError, OSError) as error:
        return [f"producer ids of transactional ids are not known: {error}"]
    return notes.lines


def _open_transactions(
    choices: Iterable[Choice], transactional: set[str]
) -> tuple[list[OpenTransaction], list[Finding]]:
    """Find transactions that the new cluster's coordinator will abort."""
    import pyarrow as pa

    folders = [each for each in _folders(choices) if each in transactional]
    if not folders:
        return [], []
    try:
        table, unread = _core.table_open_transactions(folders)
    except (KafkaLogError, OSError) as error:
        return [], [Finding("warning", "transactions-unknown", f"open transactions are not known: {error}")]
    transactions = []
    findings = [
        Finding("warning", "transactions-unknown", f"open transactions are not known: {error}") for error in unread
    ]
    # Not its times: a datetime ends with the year 9999.
    columns = ["topic", "partition", "producerId", "producerEpoch", "firstOffset", "transactionalId"]
    rows: list[dict[str, Any]] = pa.table(table).select(columns).to_pylist()
    for row in rows:
        found = OpenTransaction(
            topic=row["topic"],
            partition=row["partition"],
            producer_id=row["producerId"],
            producer_epoch=row["producerEpoch"],
            first_offset=row["firstOffset"],
            transactional_id=row["transactionalId"],
        )
        named = f" ({found.transactional_id})" if found.transactional_id else ""
        text = f"producer {found.producer_id}{named} has an open transaction from offset {found.first_offset} on"
        transactions.append(found)
        findings.append(Finding("info", "open-transaction", text, None, found.topic, found.partition))
    return transactions, findings
