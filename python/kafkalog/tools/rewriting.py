"""Rewriting logs: without some records, with another codec, in other segments."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from kafkalog import _arguments, _core, _places, _reprs
from kafkalog._atomic_files import replace
from kafkalog._times import clock
from kafkalog.config import LogConfig
from kafkalog.errors import KafkaLogError, LogLockedError, UnknownTopicOrPartitionError
from kafkalog.log import LogDir, PartitionLog, PartitionOpener, partition_at
from kafkalog.reader import scan
from kafkalog.tools.copy_reports import PartitionRewrite, RewriteReport
from kafkalog.tools.record_filter import Dropped, RecordFilter
from kafkalog.tools.recovery import recover
from kafkalog.tools.reports import from_core
from kafkalog.tools.soundness import UNFINISHED, checked, way_out
from kafkalog.tools.topic_settings import topic_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from kafkalog.config import Config
    from kafkalog.tools.record_filter import Predicate
    from kafkalog.tools.topic_settings import TopicSettings
    from kafkalog.typing import Partitions, StrPath

# Partition numbers, of every topic or by topic.
_Numbers: TypeAlias = "list[int] | dict[str, list[int]]"

_ON_CORRUPT: tuple[Literal["raise", "skip"], ...] = ("raise", "skip")
_ON_LOSS: dict[str, Literal["refuse", "salvage"]] = {"raise": "refuse", "skip": "salvage"}
_SEGMENTS = {"segment_bytes", "segment_ms"}
# ``Topic.INTERNAL_TOPICS``, and that of tiered storage. Other topics may have names that begin with ``__``.
_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata"}


def rewrite(
    source: StrPath,
    out: StrPath,
    *,
    drop_keys: Iterable[bytes | str] | StrPath | None = None,
    drop_key_pattern: str | None = None,
    drop: Predicate | None = None,
    drop_offsets: Mapping[str, Mapping[int, Iterable[tuple[int, int]]]] | None = None,
    drop_timestamps: tuple[int | datetime | None, int | datetime | None] | None = None,
    topics: str | Iterable[str] | None = None,
    partitions: Partitions | None = None,
    keep_partitions: Partitions | None = None,
    compression_type: str | None = None,
    config: Config = None,
    magic: Literal[2] | None = None,
    on_corrupt: Literal["raise", "skip"] = "raise",
    dry_run: bool = False,
    progress: Callable[[str, int, int], object] | None = None,
) -> RewriteReport:
    """Copy logs into a new log dir that a broker can mount, without some records, or in another format.

    Offsets stay. A batch that loses nothing is copied byte for byte. A batch that loses some records is rewritten with
    its own codec; one that loses all keeps its header if the state of its producer or the end of the log depends on it.
    All indexes are rebuilt. Control records, producer snapshots, aborted transactions and leader epochs stay. At the
    end the result is verified, and a manifest beside it (``<out>.rewrite.json``) contains counts and the hashes of the
    written files, and nothing of the dropped records.

    The source is not changed, and dropped records are never written to ``out``. If the process is killed, ``out`` holds
    the file ``.kafkalog-unfinished``, and the same call starts over.

    Parameters
    ----------
    source, progress
        As for :func:`retain`; the phases are ``read``, while the records to drop are determined, then ``written``.
    out : path
        A new log dir. Of a log dir, Kafka's own files and the metadata log are copied as well, and nothing that may
        contain dropped records: no leftovers, no files or folders that are not Kafka's, no partition that is being
        deleted. Partitions that are being moved (``-future``) or were set aside (``-stray``) are rewritten like the
        others if they can be loaded. The report names everything that is left out.
    drop_keys : iterable of bytes or str, or path, optional
        Keys of the records to drop; a path is that of a file with one key per line.
    drop_key_pattern : str, optional
        Drops records whose key contains a match of this regular expression (RE2).
    drop : expression, str or callable, optional
        Drops records for which this is true: an expression of ``pyarrow.compute``, a condition in SQL (which needs
        DuckDB), or a function that gets a ``pyarrow.RecordBatch`` and returns a mask. The columns are those of
        ``scan``. SQL is one boolean expression over them, without subqueries; it reads nothing else.
    drop_offsets : mapping, optional
        ``{topic: {partition: [(first, end), ...]}}``, with the end excluded.
    drop_timestamps : (int or datetime or None, int or datetime or None), optional
        Drops records with a timestamp from the first to before the second. None is no bound.
    topics : str or iterable of str, optional
        The topics from which records are dropped. Default: all. In a log dir Kafka's internal topics then lose only
        records with one of ``drop_keys``.
    partitions : optional
        The partitions from which records are dropped, as for ``scan``. Default: all of these topics.
    keep_partitions : optional
        The partitions of the result, in the same form; the others are left out. Default: all.
    compression_type : str, optional
        The codec of all batches; ``config`` has its level. Default: each batch keeps its own.
    config : LogConfig or mapping, optional
        As for :func:`retain`: the settings by which indexes are built. With ``segment.bytes`` or ``segment.ms`` in a
        mapping, or with a ``LogConfig``, segments are rolled by these settings. Default: segments begin where the
        source's do.
    magic : 2, optional
        Write messages of magic 0 and 1 as batches of magic 2. Default: those that lose nothing are unchanged.
    on_corrupt : {"raise", "skip"}
        ``skip`` leaves out what is damaged, as ``recover(salvage=True)`` does. A partition whose batches overlap is
        then copied to a temporary folder beside ``out``, to read what will be kept.
    dry_run : bool
        Only count the records that would be dropped, and name what would be left out.

    Returns
    -------
    RewriteReport
        Counts for each partition, and what was left out.

    Raises
    ------
    CorruptRecordError
        If the source is damaged, or the result would not verify; or another ``KafkaLogError``.
    FileExistsError
        If ``out``, or the manifest, exists.
    LogLockedError
        If records are appended to the source meanwhile: it is not known whether they would go.
    UnknownTopicOrPartitionError
        If a topic or partition does not exist.
    ValueError
        If ``out`` lies among logs, or an argument makes no sense.

    Examples
    --------
    >>> kafkalog.rewrite("/data/kafka-logs", "/clean/kafka-logs", drop_keys=["customer-4711"])  # doctest: +SKIP
    """
    path, target = _arguments.local(source), _arguments.local(out)
    dry_run = _arguments.flag("dry_run", dry_run)
    work = Rewriting.of(
        path,
        drop_keys=drop_keys,
        drop_key_pattern=drop_key_pattern,
        drop=drop,
        drop_offsets=drop_offsets,
        drop_timestamps=drop_timestamps,
        topics=topics,
        partitions=partitions,
        keep_partitions=keep_partitions,
        compression_type=compression_type,
        config=config,
        magic=magic,
        on_corrupt=on_corrupt,
    )
    manifest = manifest_of(Path(target))
    if manifest.exists() and not Path(target, UNFINISHED).exists():
        advice = "; an earlier rewrite is complete here: choose another path, or remove this file and the folder"
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST) + advice, str(manifest))
    tell = _arguments.function("progress", progress)
    soundness = checked(path, target)
    with way_out(work.on_corrupt):
        report = work.write(target, dry_run=dry_run, tell=tell)
    report = dataclasses.replace(report, source_errors=soundness.errors)
    if dry_run:
        return report
    soundness.require(target)
    report = dataclasses.replace(report, out=target, manifest=str(manifest))
    write_manifest(report, Path(target))
    Path(target, UNFINISHED).unlink()
    return report


@dataclass(frozen=True)
class Rewriting:
    """Options of a rewrite."""

    source: _Source
    # partitions from which records are dropped
    wanted: set[tuple[str, int]]
    record_filter: RecordFilter
    settings: TopicSettings
    # whether segments are rolled by the settings
    rerolls: bool
    # whether old formats become magic 2
    raises: bool
    on_corrupt: Literal["raise", "skip"]
    # whether no topics or partitions are named: then records with one of the keys go from internal topics, too
    everywhere: bool

    @classmethod
    def of(
        cls,
        path: str,
        *,
        drop_keys: Iterable[bytes | str] | StrPath | None = None,
        drop_key_pattern: str | None = None,
        drop: Predicate | None = None,
        drop_offsets: Mapping[str, Mapping[int, Iterable[tuple[int, int]]]] | None = None,
        drop_timestamps: tuple[int | datetime | None, int | datetime | None] | None = None,
        topics: str | Iterable[str] | None = None,
        partitions: Partitions | None = None,
        keep_partitions: Partitions | None = None,
        compression_type: str | None = None,
        config: Config = None,
        magic: Literal[2] | None = None,
        on_corrupt: Literal["raise", "skip"] = "raise",
    ) -> Rewriting:
        """Check the arguments of :func:`rewrite`, and open the source."""
        on_corrupt = _arguments.choose("on_corrupt", on_corrupt, _ON_CORRUPT)
        if magic not in {None, 2}:
            raise ValueError(f"magic must be 2, not {magic!r}: other formats are not written")
        record_filter = RecordFilter(drop_keys, drop_key_pattern, drop, drop_offsets, drop_timestamps)
        settings = topic_settings(path, config).compressed(compression_type)
        named, numbers = _arguments.names("topics", topics), _arguments.partitions(partitions)
        source = _Source.of(path, _arguments.partitions(keep_partitions), on_corrupt)
        wanted = source.dropped_from(named, numbers)
        return cls(
            source,
            wanted,
            record_filter,
            settings,
            _rerolls(config),
            magic is not None,
            on_corrupt,
            named is None and numbers is None,
        )

    def write(
        self,
        target: str,
        *,
        apart: Collection[str] = (),
        dry_run: bool = False,
        tell: Callable[[str, int, int], object] | None = None,
    ) -> RewriteReport:
        """Write the result without folders written elsewhere."""
        logs = [log for log in self.source.logs if Path(log.path).name not in apart]
        chosen = [(log, self.record_filter) for log in logs if (log.topic, log.partition) in self.wanted]
        if self.everywhere and (by_key := self.record_filter.by_key()) is not None:
            chosen += [(log, by_key) for log in logs if (log.topic, log.partition) not in self.wanted]
        try:
            found = _found_in(chosen, self.on_corrupt, tell, target, count=dry_run)
        except KafkaLogError:
            # What loading refuses comes first: its error counts what would go.
            _core.recover(self.source.path, on_loss=_ON_LOSS[self.on_corrupt], dry_run=True)
            raise
        others, topics = self.settings.compiled()
        written = _core.rewrite(
            self.source.path,
            target,
            now_ms=clock(None),
            drops=[(folder, dropped.ranges) for folder, dropped in found.items() if dropped.ranges],
            left_out=[*self.source.left_out.items(), *((name, "") for name in apart)],
            rerolls=self.rerolls,
            raises=self.raises,
            dry_run=dry_run,
            on_loss=_ON_LOSS[self.on_corrupt],
            settings=others,
            topics=topics,
            progress=tell,
        )
        report = from_core(RewriteReport, written, out=None, manifest=None, metadata_notes=self.settings.notes)
        if dry_run:
            sizes = {Path(log.path).name: log.size for log in logs}
            partitions = tuple(_planned(each, found, sizes) for each in report.partitions)
            return dataclasses.replace(report, partitions=partitions)
        for each in report.partitions:
            _require_all_seen(each, Path(target), found.get(Path(each.path).name))
        return dataclasses.replace(report, left_out=tuple(left for left in report.left_out if left.reason))


def _found_in(
    chosen: list[tuple[PartitionLog, RecordFilter]],
    on_corrupt: Literal["raise", "skip"],
    tell: Callable[[str, int, int], object] | None,
    target: str,
    *,
    count: bool,
) -> dict[str, Dropped]:
    """Find what to drop from each partition, by the names of their folders."""
    found = {}
    read, total = 0, sum(log.size for log, _ in chosen)
    for log, record_filter in chosen:
        dropped = record_filter.of(log, on_corrupt, count=count)
        if dropped.overlaps:
            # Of batches that overlap, reading keeps the first and salvage most: what will be written is read.
            with _copy_of(log, None if count else target) as kept:
                recover(log.path, out=kept, salvage=True)
                dropped = record_filter.of(PartitionLog(kept), "raise", count=count)
        found[Path(log.path).name] = dropped
        read += log.size
        if tell is not None and total and (record_filter.asks_records or count):
            tell("read", read, total)
    return found


@contextmanager
def _copy_of(log: PartitionLog, target: str | None) -> Iterator[Path]:
    """Give a place for a copy of a partition: beside a result, where there is room, or for a dry run elsewhere."""
    name = Path(log.path).name
    if target is None:
        with TemporaryDirectory(prefix="kafkalog-") as made:
            yield Path(made, name)
        return
    beside = Path(target).absolute()
    # Always the same: the next run finds what a killed one left.
    folder = beside.with_name(f".{beside.name}.copy-of-{name}")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        yield folder / name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def manifest_of(target: Path) -> Path:
    """Return the path of the manifest beside a result."""
    return Path(f"{target.absolute()}.rewrite.json")


class _Source(NamedTuple):
    """Source of a rewrite."""

    # the log dir, or the partition's folder
    path: str
    # the partitions of the result
    logs: list[PartitionLog]
    # partitions that are not to be kept
    others: list[PartitionLog]
    # why other folders are not in the result, by their names
    left_out: dict[str, str]

    @classmethod
    def of(cls, path: str, kept: _Numbers | None, on_corrupt: Literal["raise", "skip"]) -> _Source:
        """Open the partitions, those that are not live too if they can be loaded."""
        if Path(path).is_file():
            raise ValueError(f"{path}: neither a log dir nor a partition folder")
        source = cls(path, [], [], {})
        if (log := partition_at(path)) is not None:
            source.logs.append(log)
        else:
            source._open(on_corrupt)
        if kept is not None:
            chosen = source.chosen("keep_partitions", kept, source.logs)
            every = list(source.logs)
            source.logs[:] = [log for log in every if (log.topic, log.partition) in chosen]
            source.others[:] = [log for log in every if (log.topic, log.partition) not in chosen]
            source.left_out.update({Path(log.path).name: "not in keep_partitions" for log in source.others})
        return source

    def _open(self, on_corrupt: Literal["raise", "skip"]) -> None:
        opener = PartitionOpener()
        for folder in sorted(LogDir(self.path).folders, key=lambda each: (each.topic, each.partition, each.path)):
            if folder.topic == "__cluster_metadata" or folder.state == "delete":
                continue
            if folder.state == "live":
                self.logs.append(opener.open(folder.path))
                continue
            try:
                log = opener.open(folder.path)
                recover(folder.path, salvage=on_corrupt == "skip", dry_run=True)
                with scan(folder.path, starting_offsets="oldest", on_corrupt=on_corrupt) as reader:
                    for _ in reader:
                        pass
                self.logs.append(log)
            except KafkaLogError as error:
                # Not its message, which may quote a record.
                reason = f"a broker does not serve it, and it cannot be loaded ({type(error).__name__})"
                self.left_out[Path(folder.path).name] = reason

    def chosen(self, option: str, given: _Numbers, logs: list[PartitionLog]) -> set[tuple[str, int]]:
        """Return the partitions that are named; each must be there."""
        by_topic = given if isinstance(given, dict) else dict.fromkeys((log.topic for log in logs), given)
        there = {(log.topic, log.partition) for log in logs}
        chosen = {(topic, number) for topic, numbers in by_topic.items() for number in numbers}
        found = chosen & there
        missing = sorted(chosen - there)
        if not isinstance(given, dict):
            missing = [each for each in missing if each[1] not in {number for _, number in found}]
        if missing or not found:
            named = f"{missing[0][0]}-{missing[0][1]}" if missing else str(given)
            raise UnknownTopicOrPartitionError(f"{option}: no partition {named} in {self.path}; {_reprs.found(logs)}")
        return found

    def dropped_from(self, topics: list[str] | None, partitions: _Numbers | None) -> set[tuple[str, int]]:
        """Return the partitions from which records are dropped; internal ones of a log dir only if they are named."""
        every = [*self.logs, *self.others]
        found = {log.topic for log in every}
        missing = sorted(set(topics or ()) - found)
        if missing:
            raise UnknownTopicOrPartitionError(f'no topic "{missing[0]}" in {self.path}; {_reprs.found(every)}')
        is_partition = len(every) == 1 and every[0].path == self.path
        if topics is None and (is_partition or isinstance(partitions, dict)):
            topics = sorted(found)
        named = [log for log in every if (log.topic in topics if topics is not None else log.topic not in _INTERNAL)]
        if partitions is not None:
            return self.chosen("partitions", partitions, named)
        return {(log.topic, log.partition) for log in named}


def _rerolls(config: Config) -> bool:
    if config is None or isinstance(config, LogConfig):
        return config is not None
    return bool(_SEGMENTS & {name.replace(".", "_") for name in config})


def _planned(loaded: PartitionRewrite, found: dict[str, Dropped], sizes: dict[str, int]) -> PartitionRewrite:
    name = Path(loaded.path).name
    records = found[name].records if name in found else 0
    return dataclasses.replace(loaded, records_dropped=records, bytes_before=sizes[name])


def _require_all_seen(done: PartitionRewrite, target: Path, dropped: Dropped | None) -> None:
    """Refuse a result with records that were appended after the selection: one of them may have to be dropped."""
    if dropped is None or dropped.end is None:
        return
    written = target / Path(done.path).name
    with scan(written, columns=["offset"], starting_offsets=dropped.end) as reader:
        if any(batch.num_rows for batch in reader):
            raise LogLockedError(
                f"{done.path}: records were appended while it was rewritten; "
                "stop the broker or writer that uses it, or rewrite a copy",
                done.path,
            )


def write_manifest(report: RewriteReport, written: Path) -> None:
    """Write what went, and what the files hash to; nothing of the records."""
    partitions = []
    for each in report.partitions:
        folder = written / Path(each.path).name
        counts = {name: value for name, value in dataclasses.asdict(each).items() if name != "path"}
        present = [file for file in sorted(folder.iterdir()) if file.is_file()]
        files = {file.name: {"size": file.stat().st_size, "sha256": _places.sha256(str(file))} for file in present}
        partitions.append({"folder": folder.name, **counts, "files": files})
    left_out = [dataclasses.asdict(each) for each in report.left_out]
    said = {
        "kafkalog": _core.__version__,
        "source": report.path,
        "partitions": partitions,
        "left_out": left_out,
    }
    replace(Path(str(report.manifest)), json.dumps(said, indent=1))
