"""Commits what tasks have staged: all records of a job are appended to the log dirs, or none.

Tasks write Arrow files into a folder beside the log dir (inside it, a broker would refuse to start). The driver appends
them. First it notes the end of every partition; what a job noted but did not finish is rolled back, by this job or by
the next one. The last batch of a stream is noted as well, so that a repeated batch is appended once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog.spark.data_loss import report_data_loss
from kafkalog.spark.topics import TopicPartition, format_numbers, live_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from kafkalog.writer import LogWriter

__all__ = ["commit_files", "discard", "staging_dir"]

_log = logging.getLogger("kafkalog.spark")

# Older files are of attempts that died: no job takes that long.
_MAX_AGE_SECONDS = 7 * 86_400


class _PartitionEnd(NamedTuple):
    """Where a partition ended before a job, and how many records the job appends."""

    topic: str
    partition: int
    offset: int
    records: int


def staging_dir(path: str) -> Path:
    """Return the folder beside a log dir that tasks write to."""
    target = Path(path)
    return target.with_name(f".{target.name}.kafkalog-sink")


def commit_files(
    paths: tuple[str, ...],
    files: list[str],
    partitions: int,
    config: Any = None,
    *,
    stream: str | None = None,
    batch: int | None = None,
    owners: Iterable[str] = (),
    new_topic: str | None = None,
    fail_on_data_loss: bool = True,
) -> int:
    """Append the records of staged files.

    Parameters
    ----------
    paths : tuple of str
        The log dirs.
    files : list of str
        In the order of the records.
    partitions : int
        How many partitions a new topic gets.
    config : LogConfig, optional
        Settings of the topics.
    stream, batch : str and int, optional
        The stream and its batch.
    owners : iterable of str
        Jobs and queries that have ended: the prefixes, before a dot, of names of staged files.
    new_topic : str, optional
        A topic to create if the log dirs lack it, even without records.
    fail_on_data_loss : bool
        Whether it is an error if the log dirs lack records that this stream has appended before.

    Returns
    -------
    int
        Records appended; 0 for a batch that was appended before.

    Raises
    ------
    OffsetOutOfRangeError
        For data loss.
    """
    staging = staging_dir(paths[0])
    staging.mkdir(parents=True, exist_ok=True)
    identity: dict[str, Any] | None = None if stream is None or batch is None else {"stream": stream, "batch": batch}
    with _locked(staging, paths) as writers:
        _roll_back(staging, writers)
        count = 0
        done = {} if stream is None else _read_done(staging, stream)
        reached = {TopicPartition(topic, number): offset for topic, number, offset in done.get("ends", ())}
        if identity is not None:
            reached |= _lost(paths, reached, _done(staging, identity["stream"]), fail=fail_on_data_loss)
        if identity is not None and _is_done(staging, identity):
            _log.warning("kafkalog: batch %s of stream %s is skipped: it was appended before", batch, stream)
        else:
            records = _count(files)
            _create_topics(writers, records, partitions, new_topic)
            # The highest partition first: a topic that a dead job leaves unfinished is then seen to lack some.
            ends = [
                _PartitionEnd(*place, writers.get(*place, config).log_end_offset, records[place])
                for place in sorted(records, reverse=True)
            ]
            _write(staging / "pending", {"ends": ends, **(identity or {})})
            count = _append(files, writers)
            reached.update({place: writers.get(*place).log_end_offset for place in records if records[place]})
            writers.close()
            # From here the batch counts as done, even if the process dies.
            if identity is not None:
                kept = [(*place, offset) for place, offset in sorted(reached.items())]
                _write(_done(staging, identity["stream"]), {**identity, "ends": kept})
        (staging / "pending").unlink(missing_ok=True)
        for file in files:
            Path(file).unlink(missing_ok=True)
        # Under the lock: the query's next batch has not begun.
        discard(staging, owners)
        _remove_old(staging)
    return count


def discard(staging: Path, owners: Iterable[str]) -> None:
    """Remove the staged files of jobs and queries, including those of attempts that died."""
    for owner in owners:
        for file in staging.glob(f"{owner}.*.arrows"):
            file.unlink(missing_ok=True)


class _Writers:
    """The writers of partitions, opened when they are first needed."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self._open: dict[TopicPartition, LogWriter] = {}

    def get(self, topic: str, partition: int, config: Any = None) -> LogWriter:
        from kafkalog.writer import LogWriter

        place = TopicPartition(topic, partition)
        if place not in self._open:
            self._open[place] = LogWriter(list(self.paths), topic, partition, config=config, extra="ignore")
        return self._open[place]

    def close(self) -> None:
        """Sync everything to the disk."""
        for writer in self._open.values():
            writer.close()
        self._open.clear()


@contextlib.contextmanager
def _locked(staging: Path, paths: tuple[str, ...]) -> Iterator[_Writers]:
    """Let one job at a time commit to a log dir."""
    import fcntl

    writers = _Writers(paths)
    with (staging / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield writers
        except BaseException:
            # Roll back while this process still holds the locks: nobody must see half of a job.
            with contextlib.suppress(Exception):
                _roll_back(staging, writers)
            with contextlib.suppress(Exception):
                writers.close()
            raise


def _count(files: list[str]) -> Counter[TopicPartition]:
    """Count the files' records by partition."""
    records: Counter[TopicPartition] = Counter()
    for file in files:
        for rows, place in _batches(file):
            records[place] += rows.num_rows
    return records


def _create_topics(writers: _Writers, records: Counter[TopicPartition], partitions: int, new_topic: str | None) -> None:
    """Add to the records, without any, the partitions of topics that the log dirs lack."""
    for topic in sorted({place.topic for place in records} | ({new_topic} if new_topic else set())):
        wanted = {place.partition for place in records if place.topic == topic}
        live = live_partitions(writers.paths, topic)
        if live and not wanted <= live:
            raise ValueError(
                f"cannot append to {format_numbers(wanted - live)} of topic {topic}: the log dirs now have only "
                f"{format_numbers(live)}, as folders were added or removed while the job ran; run the job again"
            )
        if not live:
            _warn_of_new_topic(writers.paths, topic)
            new = range(max(partitions, max(wanted, default=0) + 1))
            records.update({TopicPartition(topic, partition): 0 for partition in new})


def _append(files: list[str], writers: _Writers) -> int:
    """Append the files' records, and return their number."""
    count = 0
    for file in files:
        for rows, place in _batches(file):
            writers.get(*place).append(rows)
            count += rows.num_rows
    return count


def _lost(
    paths: Iterable[str], reached: dict[TopicPartition, int], done: Path, *, fail: bool
) -> dict[TopicPartition, int]:
    """Find the partitions that lack records that a stream has appended: log dirs may have been wiped or restored.

    Returns
    -------
    dict
        Their ends.

    Raises
    ------
    OffsetOutOfRangeError
        If they do not, unless data loss is allowed.
    """
    from kafkalog import _core

    if not reached:
        return {}
    assigned: dict[str, list[int]] = {}
    for topic, partition in reached:
        assigned.setdefault(topic, []).append(partition)
    existing = [path for path in paths if Path(path).is_dir()]
    found = _core.bounds(existing, topics=list(assigned), partitions=assigned, allow_missing=True) if existing else []
    ends = {TopicPartition(topic, partition): end for _, topic, partition, _, end in found}
    lost = {place: ends.get(place, 0) for place, offset in reached.items() if ends.get(place, 0) < offset}
    if lost:
        place = min(lost)
        state = f"now ends at offset {ends[place]}" if place in ends else "is gone"
        text = (
            f"{len(lost)} of {len(reached)} partitions lack records that this stream has appended: {place} was "
            f"appended up to offset {reached[place]} and {state}. Restore the log dir, or delete {done} to have every "
            "batch of the checkpoint appended"
        )
        report_data_loss(text, fail=fail)
    return lost


def _warn_of_new_topic(paths: Iterable[str], topic: str) -> None:
    if any((Path(path) / "meta.properties").exists() for path in paths):
        _log.warning(
            "kafkalog: topic %s is new in a broker's log dir: create it in the cluster too, because a broker renames "
            "folders of topics that it does not know (-stray)",
            topic,
        )


def _batches(file: str) -> Iterator[tuple[pa.RecordBatch, TopicPartition]]:
    """Read the batches of a staged file; each is of one partition."""
    import pyarrow as pa

    with pa.OSFile(file, "rb") as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            place = TopicPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
            names = [name for name in batch.schema.names if name not in {"topic", "partition"}]
            yield batch.select(names), place


def _roll_back(staging: Path, writers: _Writers) -> None:
    """Truncate the partitions to where they were before a job that died.

    Raises
    ------
    ValueError
        When a partition has more records than the job can have appended.
    """
    pending = staging / "pending"
    if not pending.exists():
        return
    noted = json.loads(pending.read_text())
    if not _is_done(staging, noted):
        ends = [_PartitionEnd(*each) for each in noted["ends"]]
        for end in ends:
            found = writers.get(end.topic, end.partition).log_end_offset
            if found > end.offset + end.records:
                raise ValueError(
                    f"cannot roll back {end.topic}-{end.partition} to offset {end.offset}: a job that died may have "
                    f"appended {end.records} records there, but the log ends at offset {found}, so another writer has "
                    f"appended since; delete {pending} to keep all records"
                )
        for end in ends:
            writer = writers.get(end.topic, end.partition)
            if writer.log_end_offset > end.offset:
                writer.truncate(end.offset)
        writers.close()
    pending.unlink()


def _done(staging: Path, stream: str) -> Path:
    return staging / f"{hashlib.sha256(stream.encode()).hexdigest()[:32]}.done"


def _read_done(staging: Path, stream: str) -> dict[str, Any]:
    """Read which batch of a stream was appended last, and the ends of all its partitions."""
    done = _done(staging, stream)
    found: dict[str, Any] = json.loads(done.read_text()) if done.exists() else {}
    return found


def _is_done(staging: Path, batch: dict[str, Any]) -> bool:
    """Tell whether a batch of a stream, or a later one, was appended completely."""
    done = _read_done(staging, batch["stream"]) if "stream" in batch else {}
    return bool(done) and bool(done["batch"] >= batch["batch"])


def _write(path: Path, value: object) -> None:
    """Write a small file atomically and durably."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove_old(staging: Path) -> None:
    for file in staging.glob("*.arrows"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _MAX_AGE_SECONDS:
                file.unlink()
