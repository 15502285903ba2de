"""A rescue's plan as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kafkalog._reprs import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog.rescue.model import Choice, Disk, RemoteTier, RescuePlan

DISK_HEAD = ("LOG DIR", "NODE", "CLUSTER", "DIRECTORY", "STOPPED", "FOLDERS", "BYTES", "DAMAGED")
CHOICE_HEAD = ("PARTITION", "START", "END", "EPOCH", "TAKEN FROM", "LOST", "WHY")


def disk_rows(plan: RescuePlan) -> Iterator[tuple[Any, ...]]:
    """Yield a row of the inventory for each disk."""
    for disk in plan.disks:
        mine = [each for each in plan.replicas if each.disk is disk]
        yield (
            disk.path,
            disk.node_id,
            disk.cluster_id,
            disk.directory_id,
            "cleanly" if disk.clean_shutdown else "killed",
            disk.folders,
            sum(each.size for each in mine),
            sum(bool(each.damage) for each in mine),
        )


def metadata_line(plan: RescuePlan) -> str:
    """Return what the metadata is, in one line."""
    image = plan.image
    if image.path is None:
        of = [*(["the folders"] if plan.disks else []), *(["the tier"] if plan.tier else [])]
        return f"metadata: none; topics and partitions are those of {' and '.join(of)}"
    topics = len(image.values("TOPIC_RECORD"))
    known = "none" if image.committed_offset is None else str(image.committed_offset)
    voters = ", ".join(str(each) for each in image.voters) or "not known"
    return (
        f"metadata: {image.path}, offsets to {image.end_offset}, epoch {image.epoch}, provably committed to {known}; "
        f"voters {voters}; {topics} topics, {len(image.records)} records"
    )


def tier_line(plan: RescuePlan, tier: RemoteTier) -> str:
    """Return what is attached of a tier, in one line."""
    copies = [each for choice in plan.choices for each in choice.remote]
    partitions = sum(bool(choice.remote) for choice in plan.choices)
    size = sum(each.size for each in copies)
    made = sum(is_made(choice) for choice in plan.choices)
    topic = f"; {made} partitions of __remote_log_metadata are made" if made else ""
    return f"tier: {tier.name}, {tier.layout}; {len(copies)} segments of {partitions} partitions, {size} bytes{topic}"


def is_made(choice: Choice) -> bool:
    """Return whether a partition is of the metadata topic of tiered storage, and on no disk."""
    return choice.topic == "__remote_log_metadata" and choice.replica is None


def choice_rows(plan: RescuePlan) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each partition."""
    for choice in plan.choices:
        if plan.tier is not None and is_made(choice):
            continue
        yield (
            f"{choice.topic}-{choice.partition}",
            choice.log_start_offset,
            choice.log_end_offset,
            choice.leader_epoch,
            _sources(choice),
            sum(end - first for first, end in choice.lost),
            "; ".join(choice.reasons),
        )


def _sources(choice: Choice) -> str:
    if choice.remote:
        tier = f"the tier to {max(each.end_offset for each in choice.remote)}"
        return f"{tier}, {_of_disks(choice)}" if choice.pieces else tier
    return _of_disks(choice) if choice.replica is not None else "nothing"


def _of_disks(choice: Choice) -> str:
    if len({piece.replica.path for piece in choice.pieces}) <= 1:
        node = choice.replica
        return "nothing" if node is None else f"node {node.disk.node_id}"
    return ", ".join(
        f"node {piece.replica.disk.node_id} {piece.first_offset} to {piece.end_offset - 1}" for piece in choice.pieces
    )


def objects_of(plan: RescuePlan) -> Iterator[dict[str, Any]]:
    """Yield one object for each disk, the metadata, each partition, and each finding."""
    for disk in plan.disks:
        yield {"disk": plain(_disk(plan, disk))}
    image = plan.image
    names = ("path", "end_offset", "epoch", "committed_offset", "voters", "kraft_version")
    yield {"metadata": plain({**_fields(image, *names), "records": len(image.records)})}
    if plan.tier is not None:
        yield {"tier": plain(plan.tier)}
    for choice in plan.choices:
        yield {"partition": plain(_choice(choice))}
    for offset in plan.group_offsets:
        yield {"groupOffset": plain(offset)}
    for transaction in plan.open_transactions:
        yield {"openTransaction": plain(transaction)}
    for finding in plan.findings:
        yield {"finding": plain(finding)}


def _disk(plan: RescuePlan, disk: Disk) -> dict[str, Any]:
    names = ("path", "topic_id", "state", "log_start_offset", "log_end_offset", "high_watermark", "leader_epochs")
    mine = [each for each in plan.replicas if each.disk is disk]
    return {**asdict(disk), "replicas": [_fields(each, *names, "size", "damage") for each in mine]}


def _choice(choice: Choice) -> dict[str, Any]:
    of_log = ("log_start_offset", "local_start_offset", "log_end_offset", "leader_epochs", "leader_epoch")
    names = ("topic", "topic_id", "partition", *of_log, "remote")
    divergence = ("offset", "chosen_epoch", "epoch", "records")
    return {
        **_fields(choice, *names),
        "path": None if choice.replica is None else choice.replica.path,
        "pieces": [
            {"path": each.replica.path, **_fields(each, "first_offset", "end_offset")} for each in choice.pieces
        ],
        **_fields(choice, "reasons", "lost", "spliced"),
        "divergences": [{"path": each.replica.path, **_fields(each, *divergence)} for each in choice.divergences],
    }


def _fields(of: object, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}
