"""Rewriting logs: without some records, with another codec, in other segments."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments, _core
from kafkalog._files import replace
from kafkalog.config import LogConfig
from kafkalog.errors import CorruptRecordError, LogLockedError, UnknownTopicOrPartitionError
from kafkalog.log import LogDir, PartitionLog, PartitionOpener
from kafkalog.reader import scan
from kafkalog.tools.dropping import Dropped, Dropping
from kafkalog.tools.reports import PartitionRewrite, RewriteReport
from kafkalog.tools.settings import clock, topic_settings
from kafkalog.tools.verification import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from kafkalog.tools.dropping import Predicate
    from kafkalog.tools.settings import Config
    from kafkalog.typing import Partitions, StrPath

__all__ = ["rewrite"]

UNFINISHED = ".kafkalog-unfinished"
_ON_CORRUPT: tuple[Literal["raise", "skip"], ...] = ("raise", "skip")
_ON_LOSS: dict[str, Literal["refuse", "salvage"]] = {"raise": "refuse", "skip": "salvage"}
_SEGMENTS = {"segment_bytes", "segment_ms"}


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
    compression_type: str | None = None,
    config: Config = None,
    magic: Literal[2] | None = None,
    on_corrupt: Literal["raise", "skip"] = "raise",
    dry_run: bool = False,
    progress: Callable[[str, int, int], object] | None = None,
) -> RewriteReport:
    """Copy logs into a new log dir that a broker can mount, without some records, or stored in another way.

    Offsets stay. A batch that loses nothing is copied byte for byte; what loses some records is written again with its
    own codec, and what loses all keeps its header if the state of its producer or the end of the log depends on it.
    All indexes are rebuilt. Control records, producer snapshots, aborted transactions and leader epochs stay. At the
    end the result is verified, and a manifest beside it (``<out>.rewrite.json``) holds counts and the hashes of the
    files that were written, and nothing of the records that went.

    The source is not changed, and what goes is never written to ``out``. If the process is killed, ``out`` holds the
    file ``.kafkalog-unfinished``, and the same call starts over.

    Parameters
    ----------
    source : path
        A log dir, or a partition's folder.
    out : path
        A new log dir. Of a log dir, everything else is copied as well.
    drop_keys : iterable of bytes or str, or path, optional
        Records with these keys go; a path is that of a file with one key a line.
    drop_key_pattern : str, optional
        Records with a key in which this regular expression (RE2) finds something go.
    drop : expression, str or callable, optional
        Records for which this is true go: an expression of ``pyarrow.compute``, a condition in SQL (which needs
        DuckDB), or a function that gets a ``pyarrow.RecordBatch`` and returns a mask. The columns are those of
        ``scan``. SQL is one boolean expression over them, without subqueries; it reads nothing else.
    drop_offsets : mapping, optional
        ``{topic: {partition: [(first, end), ...]}}``, with the end excluded.
    drop_timestamps : (int or datetime or None, int or datetime or None), optional
        Records with a timestamp from the first to before the second go. None is no bound.
    topics : str or iterable of str, optional
        The topics from which records are dropped. Default: all but internal ones in a log dir.
    partitions : optional
        The partitions of the result, as for ``scan``. Default: all.
    compression_type : str, optional
        The codec of all batches; ``config`` has its level. Default: each batch keeps its own.
    config : LogConfig or mapping, optional
        As for :func:`retain`: the settings by which indexes are built. With ``segment.bytes`` or ``segment.ms`` in a
        mapping, or with a ``LogConfig``, segments are rolled by these settings. Default: segments begin where the
        source's do.
    magic : 2, optional
        Write messages of magic 0 and 1 as batches of magic 2. Default: those that lose nothing stay as they are.
    on_corrupt : {"raise", "skip"}
        ``skip`` leaves out what is damaged, as ``recover(salvage=True)`` does.
    dry_run : bool
        Only count the records that would go.
    progress : callable, optional
        Called now and then, in the caller's thread, with ``read`` while it is found out which records go, later with
        ``written``, the bytes of logs for which that is done, and all. What it raises ends the work.

    Returns
    -------
    RewriteReport
        Counts for each partition.

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
    path, target = _arguments.path(source), _arguments.path(out)
    dry_run = _arguments.flag("dry_run", dry_run)
    on_loss = _ON_LOSS[_arguments.choose("on_corrupt", on_corrupt, _ON_CORRUPT)]
    if magic not in {None, 2}:
        raise ValueError(f"magic must be 2, not {magic!r}: other formats are not written")
    dropping = Dropping(drop_keys, drop_key_pattern, drop, drop_offsets, drop_timestamps)
    settings = topic_settings(path, config).compressed(compression_type)
    logs = _logs(path, _arguments.partitions(partitions))
    manifest = _manifest_of(Path(target))
    if manifest.exists() and not Path(target, UNFINISHED).exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(manifest))
    _core.check_output(target, [path])
    wanted = _topics(path, logs, _arguments.names("topics", topics))
    tell = _arguments.function("progress", progress)
    found = _found_in([log for log in logs if log.topic in wanted], dropping, on_corrupt, tell, count=dry_run)
    if dry_run:
        nothing = Dropped([], 0, None)
        planned = tuple(_planned(log, found.get((log.topic, log.partition), nothing).records) for log in logs)
        return RewriteReport(path, None, None, dry_run, planned)
    others, by_topic = settings.compiled()
    done = _core.rewrite(
        path,
        target,
        now_ms=clock(None),
        drops=[(topic, partition, dropped.ranges) for (topic, partition), dropped in found.items() if dropped.ranges],
        partitions=None if partitions is None else [(log.topic, log.partition) for log in logs],
        rerolls=_rerolls(config),
        raises=magic is not None,
        on_loss=on_loss,
        settings=others,
        topics=by_topic,
        progress=tell,
    )
    for each in done:
        _require_all_seen(each, Path(target), found.get((each.topic, each.partition)))
    finished(path, Path(target), Path(target), done)
    Path(target, UNFINISHED).unlink()
    return RewriteReport(path, target, str(manifest), dry_run, done)


def _found_in(
    logs: list[PartitionLog],
    dropping: Dropping,
    on_corrupt: Literal["raise", "skip"],
    tell: Callable[[str, int, int], object] | None,
    *,
    count: bool,
) -> dict[tuple[str, int], Dropped]:
    """Find what to drop from each partition."""
    found = {}
    read, total = 0, sum(log.size for log in logs)
    for log in logs:
        found[log.topic, log.partition] = dropping.of(log, on_corrupt, count=count)
        read += log.size
        if tell is not None and total and (dropping.asks_records or count):
            tell("read", read, total)
    return found


def finished(path: str, written: Path, target: Path, done: tuple[PartitionRewrite, ...]) -> Path:
    """Verify what was written, and write the manifest of the target; return its path."""
    manifest = _manifest_of(target)
    _require_sound(str(written))
    _write_manifest(manifest, path, written, done)
    return manifest


def _manifest_of(target: Path) -> Path:
    return Path(f"{target.absolute()}.rewrite.json")


def _logs(path: str, partitions: Any) -> list[PartitionLog]:
    """Open the partitions of the result."""
    if Path(path).is_file():
        raise ValueError(f"{path}: neither a log dir nor a partition folder")
    try:
        logs = [PartitionLog(path)]
    except ValueError:
        folders = LogDir(path).folders
        live = [each for each in folders if each.state == "live" and each.topic != "__cluster_metadata"]
        opener = PartitionOpener()
        logs = [opener.open(each.path) for each in sorted(live, key=lambda each: (each.topic, each.partition))]
    if partitions is None:
        return logs
    by_topic = partitions if isinstance(partitions, dict) else dict.fromkeys((log.topic for log in logs), partitions)
    chosen = [log for log in logs if log.partition in by_topic.get(log.topic, ())]
    found = {(log.topic, log.partition) for log in chosen}
    for topic, numbers in by_topic.items():
        for number in numbers:
            named = {(topic, number)} if isinstance(partitions, dict) else {(log.topic, number) for log in logs}
            if not named & found:
                raise UnknownTopicOrPartitionError(f"no partition {number} in {path}; {_found(logs)}")
    return chosen


def _found(logs: list[PartitionLog], most: int = 20) -> str:
    names = [f"{log.topic}-{log.partition}" for log in logs]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"found: {', '.join(names[:most]) or 'none'}{more}"


def _topics(path: str, logs: list[PartitionLog], named: list[str] | None) -> set[str]:
    found = {log.topic for log in logs}
    if named is not None:
        missing = sorted(set(named) - found)
        if missing:
            raise UnknownTopicOrPartitionError(f'no topic "{missing[0]}" in {path}; {_found(logs)}')
        return set(named)
    is_partition = len(logs) == 1 and logs[0].path == path
    return found if is_partition else {topic for topic in found if not topic.startswith("__")}


def _rerolls(config: Config) -> bool:
    if config is None or isinstance(config, LogConfig):
        return config is not None
    return bool(_SEGMENTS & {name.replace(".", "_") for name in config})


def _planned(log: PartitionLog, dropped: int) -> PartitionRewrite:
    return PartitionRewrite(
        path=log.path,
        topic=log.topic,
        partition=log.partition,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        records_dropped=dropped,
        batches_copied=0,
        batches_rewritten=0,
        batches_emptied=0,
        batches_dropped=0,
        bytes_before=log.size,
        bytes_after=0,
        bytes_lost=0,
    )


def _require_all_seen(done: PartitionRewrite, target: Path, dropped: Dropped | None) -> None:
    """Refuse a result with records that came after it was decided which go: one of them may be such a one."""
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


def _require_sound(target: str) -> None:
    """Verify the result; what is wrong with it keeps the note that it is not finished."""
    findings = verify(target).to_pylist()
    for finding in findings:
        if finding["severity"] == "error":
            raise CorruptRecordError(
                f"{finding['file']}: the result does not verify: {finding['message']}",
                finding["file"],
                position=finding["position"],
            )


def _write_manifest(manifest: Path, path: str, target: Path, done: tuple[PartitionRewrite, ...]) -> None:
    partitions = []
    for each in done:
        folder = target / Path(each.path).name
        counts = {name: value for name, value in dataclasses.asdict(each).items() if name != "path"}
        files = {file.name: _sum(file) for file in sorted(folder.iterdir()) if file.is_file()}
        partitions.append({**counts, "files": files})
    said = {"kafkalog": _core.__version__, "source": path, "partitions": partitions}
    replace(manifest, json.dumps(said, indent=1))


def _sum(file: Path) -> dict[str, int | str]:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return {"size": file.stat().st_size, "sha256": digest.hexdigest()}
