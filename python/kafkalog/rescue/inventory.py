"""Inventory of the disks: log dirs, partition folders, the batches in them and their damage."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _core, _places
from kafkalog.errors import CorruptIndexError, KafkaLogError
from kafkalog.reader import RecordReader
from kafkalog.rescue.model import Damage, Disk, Finding, Replica
from kafkalog.rescue.shared_work import SharedWork

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog.rescue.shared_work import Progress

METADATA = "__cluster_metadata"
# Offsets of a run: replicas are compared run by run, so that memory does not grow with the number of batches.
_RUN_OFFSETS = 4096
# Batches are read in groups of partitions of about this many bytes: a person who waits sees progress.
_GROUP_BYTES = 1 << 28
_CHECKPOINTED_START = "log-start-offset-checkpoint"
# Odd numbers for the digest of a run.
_FACTOR, _SUMMAND = 1_000_003, 0x9E3779B97F4A7C1


class Run(NamedTuple):
    """Consecutive batches of one leader epoch whose base offsets are in one block of ``_RUN_OFFSETS``."""

    first_offset: int
    end_offset: int
    epoch: int
    # of the batches' offsets and checksums: equal in two replicas that hold the same batches
    digest: int


class _Identity(NamedTuple):
    topic_id: str | None
    log_start_offset: int
    high_watermark: int | None
    leader_epochs: list[tuple[int, int]]
    segments: list[tuple[int, int]]
    errors: list[str]


@dataclass(frozen=True)
class Inventory:
    """The disks and their replicas."""

    disks: tuple[Disk, ...]
    replicas: tuple[Replica, ...]
    # the batches of each replica, by its folder
    runs: dict[str, list[Run]]
    # folders that have batches of transactions
    transactional: set[str]
    findings: tuple[Finding, ...]


def scan_disks(paths: Sequence[str], progress: Progress | None = None, threads: int | None = None) -> Inventory:
    """Read every batch of all disks, and compare its checksum."""
    opened, findings = open_disks(paths)
    surveys = [_DiskScan(*each) for each in opened]
    work = SharedWork("read", sum(survey.size for survey in surveys), progress)
    threads = threads or os.cpu_count() or 1
    of_each = max(threads // max(len(surveys), 1), 1)
    with ThreadPoolExecutor(threads) as pool:
        work.results([pool.submit(work.guarded, survey.read, work, of_each) for survey in surveys])
    replicas = sorted(
        (replica for survey in surveys for replica in survey.replicas),
        key=lambda r: (r.topic, r.partition, r.disk.node_id or 0, r.path),
    )
    return Inventory(
        disks=tuple(disk for disk, _ in opened),
        replicas=tuple(replicas),
        runs={path: runs for survey in surveys for path, runs in survey.runs.items()},
        transactional={path for survey in surveys for path in survey.transactional},
        findings=(
            *findings,
            *(finding for survey in surveys for finding in survey.findings),
            *_duplicate_replicas(replicas),
        ),
    )


def open_disks(paths: Iterable[str]) -> tuple[list[tuple[Disk, _core.LogDir]], list[Finding]]:
    """Open the log dirs, each once."""
    opened: list[tuple[Disk, _core.LogDir]] = []
    findings = []
    for path in paths:
        try:
            log_dir = _core.LogDir(path)
        except NotADirectoryError as error:
            raise ValueError(f"{path}: expected a log dir, found a file") from error
        disk, lack = _disk(path, log_dir)
        for known, _ in opened:
            if _places.known_as(known.path) == _places.known_as(path):
                findings.append(Finding("warning", "same-disk", f"the same directory as {known.path}: left out", path))
                break
            if disk.directory_id is not None and disk.directory_id == known.directory_id:
                text = f"a copy of {known.path}, directory.id {disk.directory_id}: left out"
                findings.append(Finding("warning", "same-disk", text, path))
                break
        else:
            opened.append((disk, log_dir))
            if lack:
                findings.append(Finding("warning", "unknown-disk", lack, path))
    clusters: dict[str, list[str]] = {}
    for disk, _ in opened:
        if disk.cluster_id is not None:
            clusters.setdefault(disk.cluster_id, []).append(disk.path)
    if len(clusters) > 1:
        named = "; ".join(f"cluster {cluster}: {', '.join(of)}" for cluster, of in clusters.items())
        raise ValueError(f"the disks belong to different clusters: {named}")
    return opened, findings


def _disk(path: str, log_dir: _core.LogDir) -> tuple[Disk, str | None]:
    """Return the identity of a log dir, and findings about missing parts of it."""
    lack = None
    try:
        meta = log_dir.meta
    except CorruptIndexError as error:
        meta, lack = {}, f"meta.properties is damaged: {error}"
    except OSError as error:
        meta, lack = {}, f"meta.properties cannot be read: {error}"
    if meta is None:
        meta, lack = {}, "no meta.properties says which cluster and node it belongs to"

    def number(*names: str) -> int | None:
        found = next((meta[name] for name in names if name in meta), "")
        # A Java int, as brokers read it.
        return int(found) if re.fullmatch("[0-9]{1,10}", found) and int(found) < 1 << 31 else None

    disk = Disk(
        path=path,
        node_id=number("node.id", "broker.id"),
        directory_id=meta.get("directory.id"),
        cluster_id=meta.get("cluster.id"),
        meta_version=number("version"),
        clean_shutdown=log_dir.clean_shutdown,
        folders=len(log_dir.folders()),
    )
    said = {"version": disk.meta_version, "node.id": disk.node_id, "cluster.id": disk.cluster_id}
    missing = [name for name, value in said.items() if value is None]
    if lack is None and missing:
        lack = f"meta.properties is damaged or cut: expected {', '.join(missing)}, found none"
    return disk, lack


def _duplicate_replicas(replicas: Iterable[Replica]) -> Iterator[Finding]:
    """Find partitions that a node has in two log dirs; a broker refuses to start on them."""
    known: dict[tuple[str, int, int, str | None], Replica] = {}
    for replica in replicas:
        node = replica.disk.node_id
        if replica.state != "live" or node is None or replica.topic == METADATA:
            continue
        other = known.setdefault((replica.topic, replica.partition, node, replica.topic_id), replica)
        if other is not replica:
            text = f"node {node} has the partition twice: {other.path} and {replica.path}"
            yield Finding("warning", "two-replicas", text, replica.path, replica.topic, replica.partition)


class _DiskScan:
    """The replicas of one disk."""

    def __init__(self, disk: Disk, log_dir: _core.LogDir) -> None:
        self.disk = disk
        self.findings: list[Finding] = []
        self.runs: dict[str, list[Run]] = {}
        self.transactional: set[str] = set()
        self.replicas: list[Replica] = []
        # by folder
        self._damage: dict[str, list[Damage]] = {}
        self._producer: dict[str, int] = {}
        self._unreadable: set[str] = set()
        self._starts = self._checkpointed_starts(log_dir)
        self._folders = log_dir.folders()
        self._identities = [_Identity(*each) for each in log_dir.identities()]

    @property
    def size(self) -> int:
        """Return the bytes of all segments."""
        return sum(size for identity in self._identities for _, size in identity.segments)

    def read(self, work: SharedWork, threads: int) -> None:
        """Read the batches with several threads, and describe the replicas."""
        both = list(zip(self._folders, self._identities, strict=True))
        with_segments = [folder for folder, identity in both if identity.segments]
        groups = list(_grouped(self._planned([folder for folder in with_segments if folder[3] == "live"])))
        # One disk has one live folder of a partition; others are read alone.
        groups += [[each] for folder in with_segments if folder[3] != "live" for each in self._planned_alone(*folder)]
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(work.guarded, self._read_group, group, work) for group in groups]
            for future in futures:
                future.result()
        self.findings.sort(key=lambda each: each.path or "")
        for (path, topic, partition, state), identity in both:
            if identity.errors and not identity.segments:
                self._unreadable.add(path)
            for error in identity.errors:
                self.findings.append(Finding("warning", "unreadable", error, path, topic, partition))
            replica = Replica(
                disk=self.disk,
                path=path,
                topic=topic,
                topic_id=identity.topic_id,
                partition=partition,
                state=state,
                log_start_offset=identity.log_start_offset,
                log_end_offset=max([identity.log_start_offset, *(base for base, _ in identity.segments)]),
                high_watermark=identity.high_watermark,
                leader_epochs=tuple(identity.leader_epochs),
                size=sum(size for _, size in identity.segments),
            )
            runs = self.runs.setdefault(path, [])
            end = max([replica.log_end_offset, *(run.end_offset for run in runs[-1:])])
            replica = replace(
                replica,
                # What cannot be read ends where it begins.
                log_end_offset=replica.log_start_offset if path in self._unreadable else end,
                leader_epochs=_epochs(identity.leader_epochs, runs),
                highest_producer_id=self._producer.get(path, -1),
            )
            self.replicas.append(self._with_damage(replica, identity, self._starts.get((topic, partition))))

    def _checkpointed_starts(self, log_dir: _core.LogDir) -> dict[tuple[str, int], int]:
        try:
            entries = log_dir.checkpoints.get(_CHECKPOINTED_START, [])
        except (KafkaLogError, OSError) as error:
            self.findings.append(Finding("warning", "unreadable", str(error), self.disk.path))
            return {}
        return {(topic, partition): offset for topic, partition, offset in entries}

    def _planned(self, folders: Sequence[tuple[str, str, int, Any]]) -> list[_core.PartitionRange]:
        if not folders:
            return []
        topics = sorted({topic for _, topic, _, _ in folders})
        try:
            return _core.plan([self.disk.path], topics=topics, starting_offsets="oldest", on_corrupt="skip")
        except (KafkaLogError, OSError):
            # One folder that cannot be listed must not hide the others.
            return [each for folder in folders for each in self._planned_alone(*folder)]

    def _planned_alone(self, path: str, topic: str, partition: int, _: str) -> list[_core.PartitionRange]:
        try:
            return _core.plan([path], starting_offsets="oldest", on_corrupt="skip")
        except (KafkaLogError, OSError) as error:
            self._cannot_read(error, path, topic, partition)
            return []

    def _cannot_read(self, error: Exception, path: str, topic: str, partition: int) -> None:
        self._unreadable.add(path)
        self.findings.append(Finding("warning", "unreadable", str(error), path, topic, partition))

    def _read_group(self, group: list[_core.PartitionRange], work: SharedWork) -> None:
        import pyarrow.compute as pc

        folders = {(each.topic, each.partition): each.folder for each in group}
        found: dict[str, list[Run]] = {}
        producers: dict[str, int] = {}
        transactional: set[str] = set()
        try:
            with RecordReader(_core.scan_batch_ranges(group, check_crcs=True, on_corrupt="skip")) as reader:
                for batch in reader:
                    work.add(pc.sum(batch["size"]).as_py() or 0)
                    for topic, partition, run, producer, is_transactional in _runs(batch):
                        folder = folders[topic, partition]
                        if is_transactional:
                            transactional.add(folder)
                        _append(found.setdefault(folder, []), run)
                        producers[folder] = max(producers.get(folder, -1), producer)
                lost = reader.lost.to_pylist()
        except (KafkaLogError, OSError) as error:
            # A disk that answers with an I/O error for one file: the others count.
            if len(group) > 1:
                for each in group:
                    self._read_group([each], work)
            else:
                one = group[0]
                self._cannot_read(error, one.folder, one.topic, one.partition)
            return
        self.runs |= found
        self._producer |= producers
        self.transactional |= transactional
        for row in lost:
            if row["firstOffset"] is not None:
                last = row["lastOffset"]
                damage = Damage(
                    segment=row["segment"],
                    position=row["position"],
                    end_position=row["endPosition"],
                    first_offset=row["firstOffset"],
                    end_offset=row["firstOffset"] if last is None else last + 1,
                    reason=row["reason"],
                )
                self._damage.setdefault(folders[row["topic"], row["partition"]], []).append(damage)

    def _with_damage(self, replica: Replica, identity: _Identity, checkpointed: int | None) -> Replica:
        """Add the damage, and the offsets missing before the first segment.

        A log start offset moves by deleting records or by retention. The broker then moves the first entry of
        ``leader-epoch-checkpoint`` with it (``LeaderEpochFileCache.truncateFromStart``), and writes
        ``log-start-offset-checkpoint`` where the offset lies inside a segment. A first entry below the first segment
        says that files are missing.
        """
        damage = self._damage.get(replica.path, [])
        first = identity.segments[0][0] if identity.segments else None
        declared = identity.leader_epochs[0][1] if identity.leader_epochs else None
        start = replica.log_start_offset
        if declared is not None and (first is None or declared < first) and replica.topic != METADATA:
            start = max(declared, checkpointed or 0)
            # Without any segment its end is unknown.
            end = start if first is None else first
            if start < end or first is None:
                damage = [Damage(f"{start:020}.log", 0, 0, start, end, "missing"), *damage]
        if replica.path in self._unreadable:
            damage = [*damage, Damage(f"{start:020}.log", 0, 0, start, start, "unreadable")]
        return replace(replica, log_start_offset=start, damage=tuple(damage))


def _grouped(ranges: Iterable[_core.PartitionRange]) -> Iterator[list[_core.PartitionRange]]:
    """Yield groups of about ``_GROUP_BYTES``."""
    group: list[_core.PartitionRange] = []
    size = 0
    for each in ranges:
        group.append(each)
        size += each.bytes
        if size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _runs(batch: Any) -> Iterator[tuple[str, int, Run, int, bool]]:
    """Yield runs of the rows: topic, partition, run, its highest producer id, and whether a transaction is in it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    base, crc = batch["baseOffset"], batch["crc"].cast(pa.int64())
    # Unchecked arithmetic wraps; a product keeps two batches with swapped checksums apart.
    digest = pc.multiply(pc.add(pc.multiply(base, _FACTOR), batch["lastOffset"]), pc.add(crc, _SUMMAND))
    table = pa.table(
        {
            "topic": batch["topic"],
            "partition": batch["partition"],
            "block": pc.divide(base, _RUN_OFFSETS),
            "epoch": batch["partitionLeaderEpoch"],
            "base": base,
            "last": batch["lastOffset"],
            "digest": digest,
            "producer": batch["producerId"],
            "transactional": batch["isTransactional"],
        }
    )
    by = ["topic", "partition", "block", "epoch"]
    folded = table.group_by(by, use_threads=False).aggregate(
        [("base", "min"), ("last", "max"), ("digest", "sum"), ("producer", "max"), ("transactional", "any")]
    )
    # Groups come in no order.
    folded = folded.sort_by("base_min")
    columns = (folded[name].to_pylist() for name in ("topic", "partition", "epoch", "base_min", "last_max"))
    rest = (folded[name].to_pylist() for name in ("digest_sum", "producer_max", "transactional_any"))
    for topic, partition, epoch, first, last, total, producer, any_ in zip(*columns, *rest, strict=True):
        yield topic, partition, Run(first, last + 1, epoch, total), producer, bool(any_)


def _append(runs: list[Run], run: Run) -> None:
    """Append a run, or extend the last one: two batches of rows may share a block."""
    if (
        runs
        and runs[-1].epoch == run.epoch
        and runs[-1].first_offset // _RUN_OFFSETS == run.first_offset // _RUN_OFFSETS
    ):
        total = (runs[-1].digest + run.digest + (1 << 63)) % (1 << 64) - (1 << 63)
        runs[-1] = Run(runs[-1].first_offset, run.end_offset, run.epoch, total)
    else:
        runs.append(run)


def _epochs(checkpointed: Iterable[tuple[int, int]], runs: Iterable[Run]) -> tuple[tuple[int, int], ...]:
    """Merge the entries of the checkpoint with the epochs of the batches, which may be newer than the file."""
    first = dict(checkpointed)
    for run in runs:
        if run.epoch >= 0:
            first.setdefault(run.epoch, run.first_offset)
    return tuple(sorted(first.items()))
