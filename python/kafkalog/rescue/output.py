"""The output of a rescue: under another name until it is whole, and finished by the same command after a kill.

While it is written, ``OUT.unfinished`` holds

========================= =======================================================
``rescue.json``           which rescue it is, and the ids that were made up for it
``partitions/T-P``        a log dir for each partition that is being written
``whole``                 what will be ``OUT``: the partitions that are whole
========================= =======================================================

``OUT`` itself appears by one rename, at the very end.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog._atomic_files import read_small, replace, sync_folder
from kafkalog.log import PartitionLog
from kafkalog.rescue import group_offsets
from kafkalog.rescue.model import RescueReport
from kafkalog.rescue.new_image import new_image, replicas_of
from kafkalog.rescue.partition_copy import write_partition
from kafkalog.rescue.shared_work import SharedWork
from kafkalog.rescue.target import (
    meta_properties,
    random_id,
    reassignment,
    server_properties,
    target_of,
)
from kafkalog.tables import _rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalog.rescue.model import Choice, RescuePlan
    from kafkalog.rescue.shared_work import Progress
    from kafkalog.rescue.target import Node, Target
    from kafkalog.writer import Record

    # Topic, partition and offset.
    Entries = Sequence[tuple[str, int, int]]

UNFINISHED = ".unfinished"
NOTE = "rescue.json"
_METADATA = "__cluster_metadata-0"
_TRANSACTIONS = "__transaction_state"
# Of a TransactionLogValue.
_PRODUCER_IDS = ("producerId", "previousProducerId", "nextProducerId")
# Copying takes two; small partitions wait for the device most of their time.
_THREADS = 8


def check_out(out: Path, sources: Iterable[str]) -> None:
    """Refuse an output that exists and is not empty, or that lies in a log dir."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        if _is_whole(Path(os.path.realpath(out))):
            return
        raise _arguments.taken(out)
    _core.check_output(str(out), list(sources))


def _is_whole(out: Path) -> bool:
    """Return whether a rescue is complete except for the removal of its note."""
    unfinished = unfinished_of(out)
    return out.is_dir() and is_begun(unfinished) and not (unfinished / "whole").exists()


def write(
    plan: RescuePlan,
    out: Path,
    *,
    node_id: int = 1,
    nodes: int = 1,
    controller: str = "127.0.0.1:9093",
    listener: str = "127.0.0.1:9092",
    cluster_id: str | None = None,
    link: bool = False,
    progress: Progress | None = None,
    snapshot: Callable[[Choice], bytes | None] | None = None,
) -> RescueReport:
    """Write the result of a plan into a new directory; ``snapshot`` reads the state of producers from a tier."""
    out = Path.cwd() / out
    # Empty where a rescue ended between the removal of its note and of this folder.
    with contextlib.suppress(OSError):
        unfinished_of(out).rmdir()
    is_whole = _is_whole(out) and any(out.iterdir())
    check_out(out, [disk.path for disk in plan.disks])
    options = {"node_id": node_id, "nodes": nodes, "controller": controller, "listener": listener, "link": link}

    described = partial(target_of, plan.image, node_id=node_id, nodes=nodes, controller=controller, listener=listener)
    # What makes no sense is refused before anything is written.
    chosen = cluster_id or plan.cluster_id or random_id()
    target = described(cluster_id=chosen, directory_ids=[random_id() for _ in range(nodes)])
    unfinished = unfinished_of(out)
    noted = begin(
        unfinished,
        {
            "fingerprint": fingerprint(plan, {**options, "cluster_id": cluster_id}),
            "cluster_id": target.cluster_id,
            "directory_ids": [node.directory_id for node in target.nodes],
        },
    )
    target = described(cluster_id=noted["cluster_id"], directory_ids=noted["directory_ids"])
    placed = [(choice, target.node_of(index)) for index, choice in enumerate(plan.choices)]
    if is_whole:
        size = sum(_size(out / node.folder / f"{choice.topic}-{choice.partition}") for choice, node in placed)
        return _report(plan, target, out, size)
    whole = unfinished / "whole"
    for node in target.nodes:
        (whole / node.folder).mkdir(parents=True, exist_ok=True)
    size = copy_partitions(plan, placed, unfinished, link=link, progress=progress, snapshot=snapshot)
    for node in target.nodes:
        _finish(plan, target, node, whole, out)
    wanted = reassignment(plan.choices, target, replicas_of(plan.image))
    replace(whole / "reassignment.json", json.dumps(wanted, indent=1) + "\n")
    if out.exists():
        out.rmdir()
    whole.rename(out)
    sync_folder(out.parent)
    return _report(plan, target, out, size)


def _report(plan: RescuePlan, target: Target, out: Path, size: int) -> RescueReport:
    """Report the result, and remove the note."""
    shutil.rmtree(unfinished_of(out))
    log_dirs = tuple(str(out / node.folder) for node in target.nodes)
    return RescueReport(plan=plan, out=str(out), dry_run=False, log_dirs=log_dirs, bytes=size)


def _size(folder: Path) -> int:
    return sum(segment.size for segment in PartitionLog(folder).segments)


def unfinished_of(out: Path) -> Path:
    """Return the folder of unfinished output."""
    return out.with_name(out.name + UNFINISHED)


def fingerprint(plan: RescuePlan, options: dict[str, Any]) -> str:
    """Return the identity of a rescue: its disks and options."""
    return hashlib.sha256(
        repr((plan.disks, plan.image, plan.choices, plan.group_offsets, options)).encode()
    ).hexdigest()


def begin(unfinished: Path, note: dict[str, Any]) -> dict[str, Any]:
    """Begin a rescue, or continue the one that was begun; return its note."""
    path = unfinished / NOTE
    if is_begun(unfinished):
        found: dict[str, Any] = json.loads(read_small(path))
        if found["fingerprint"] != note["fingerprint"]:
            text = (
                f"holds an unfinished rescue of other disks or with other options, begun {found['begun']}; finish it "
                "by the same command, or remove it"
            )
            raise FileExistsError(errno.EEXIST, text, str(unfinished))
        return found
    if path.exists():
        end(unfinished)
    unfinished.mkdir(parents=True, exist_ok=True)
    if any(each.name != f"{NOTE}.tmp" for each in unfinished.iterdir()):
        raise FileExistsError(errno.EEXIST, f"is not an unfinished rescue: it has no {NOTE}", str(unfinished))
    begun = {**note, "begun": time.strftime("%Y-%m-%d %H:%M:%S")}
    replace(path, json.dumps(begun, indent=1) + "\n")
    return begun


def is_begun(unfinished: Path) -> bool:
    """Return whether a rescue was begun and has not ended."""
    path = unfinished / NOTE
    return path.exists() and "ended" not in json.loads(read_small(path))


def end(unfinished: Path) -> None:
    """Remove the files beside the output of a finished rescue; if this fails, the rescue does not start over."""
    replace(unfinished / NOTE, json.dumps({"ended": True}) + "\n")
    for each in unfinished.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
        elif each.name != NOTE:
            each.unlink()
    (unfinished / NOTE).unlink()
    unfinished.rmdir()


def copy_partitions(
    plan: RescuePlan,
    placed: Sequence[tuple[Choice, Node]],
    unfinished: Path,
    *,
    link: bool,
    progress: Progress | None,
    snapshot: Callable[[Choice], bytes | None] | None = None,
) -> int:
    """Write the partitions that are not whole yet; return the bytes of the segments of all."""
    appended = _appended(plan, placed)
    total = sum(piece.replica.size for choice in plan.choices for piece in choice.pieces[:1])
    shared = SharedWork("written", total, progress)

    def write(choice: Choice, node: Node) -> int:
        name = f"{choice.topic}-{choice.partition}"
        log_dir = unfinished / "whole" / node.folder
        if (log_dir / name).exists():
            size = _size(log_dir / name)
            shared.add(size)
            return size
        staging = unfinished / "partitions" / name
        records = appended.get((choice.topic, choice.partition), [])
        state = snapshot(choice) if snapshot is not None and choice.remote and not choice.pieces else None
        size = write_partition(
            choice, staging, log_dir, records=records, snapshot=state, link=link, progress=shared.add
        )
        shutil.rmtree(staging)
        return size

    # The largest first, so that no thread is left with it at the end.
    order = sorted(placed, key=lambda each: -sum(piece.replica.size for piece in each[0].pieces))
    with ThreadPoolExecutor(_THREADS) as pool:
        sizes = shared.results([pool.submit(shared.guarded, write, choice, node) for choice, node in order])
    shutil.rmtree(unfinished / "partitions", ignore_errors=True)
    return sum(sizes)


def _appended(plan: RescuePlan, placed: Sequence[tuple[Choice, Node]]) -> dict[tuple[str, int], list[Record]]:
    """Return the records that lower committed offsets, and those of segments in the tier, by their partition."""
    now = time.time_ns() // 1_000_000
    appended: dict[tuple[str, int], list[Record]] = {}
    partitions = sum(choice.topic == group_offsets.TOPIC for choice in plan.choices)
    if partitions and plan.group_offsets:
        lowered = group_offsets.lowered(plan.group_offsets, partitions, now)
        appended |= {(group_offsets.TOPIC, at): records for at, records in lowered.items()}
    if plan.tier is not None:
        from kafkalog.rescue import remote_metadata

        written = remote_metadata.written(plan, placed[0][1].id, now) if placed else {}
        appended |= {(remote_metadata.TOPIC, at): records for at, records in written.items()}
    return appended


def _highest_of_transactions(whole: Path) -> int:
    """Return the highest producer id that a transactional id has, which may not have written a batch yet; or -1."""
    folders = [str(path) for path in whole.rglob(f"{_TRANSACTIONS}-*") if path.is_dir()]
    if not folders:
        return -1
    values = (entry.value for entry in _rows.replayed(folders, _TRANSACTIONS) if entry.value is not None)
    return max((value.get(name, -1) for value in values for name in _PRODUCER_IDS), default=-1)


def write_checkpoints(log_dir: Path, starts: Entries, ends: Entries, kept: Mapping[str, Entries] | None = None) -> None:
    """Write where partitions begin and end, beside what is kept; everything was flushed, and was committed.

    A file (``OffsetCheckpointFile``) is version 0, the number of entries, and one on each line.
    """
    for kind, offsets in (("recovery-point", ends), ("replication", ends), ("log-start", starts)):
        name = f"{kind}-offset-checkpoint"
        entries = [*(kept or {}).get(name, ()), *offsets]
        text = "".join(f"{topic} {partition} {offset}\n" for topic, partition, offset in entries)
        replace(log_dir / name, f"0\n{len(entries)}\n{text}")


def _finish(plan: RescuePlan, target: Target, node: Node, whole: Path, out: Path) -> None:
    """Write what a log dir has beside its partitions."""
    placed = [(choice, target.node_of(index)) for index, choice in enumerate(plan.choices)]
    log_dir = whole / node.folder
    starts, ends = [], []
    for choice, at in placed:
        if at.id != node.id:
            continue
        log = PartitionLog(log_dir / f"{choice.topic}-{choice.partition}")
        ends.append((choice.topic, choice.partition, log.log_end_offset))
        # With tiered storage it may be below the first segment, and a broker that is not told takes 0.
        if choice.log_start_offset > log.segments[0].base_offset or choice.remote:
            starts.append((choice.topic, choice.partition, choice.log_start_offset))
    write_checkpoints(log_dir, starts, ends)
    metadata = log_dir / _METADATA
    metadata.mkdir(exist_ok=True)
    by_id = {(choice.topic_id, choice.partition): (choice, at) for choice, at in placed if choice.topic_id}
    highest = max(plan.highest_producer_id, _highest_of_transactions(whole))
    records = new_image(plan.image, by_id, highest)
    _core.write_metadata_snapshot(
        str(metadata),
        max(plan.image.end_offset, 1),
        max(plan.image.epoch, 0) + 1,
        [(record.type, record.version, json.dumps(record.value)) for record in records],
        timestamp=time.time_ns() // 1_000_000,
        voters=target.voters(),
    )
    replace(
        log_dir / "server.properties", server_properties(target, node, str(out / node.folder), plan.image, plan.tier)
    )
    replace(log_dir / ".kafka_cleanshutdown", "")
    replace(log_dir / "meta.properties", meta_properties(target, node))
