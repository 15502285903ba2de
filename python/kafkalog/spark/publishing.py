"""From what tasks left beside a log dir to records in its partitions: all of a job, or none of it.

Tasks write Arrow files into a folder beside the log dir; within it, a broker would refuse to start. The driver appends
them. Before it does, it notes where every partition ends; what was noted and not finished is cut off again, by this job
or by the next one. A stream's last batch is noted as well, so that a repeated one is nothing new.
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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from kafkalog.writer import LogWriter

__all__ = ["discard", "listed", "partitions_of", "publish", "staging_of"]

_log = logging.getLogger("kafkalog.spark")

# Files of attempts that died; a job does not take that long.
_OLD_SECONDS = 7 * 86_400


def staging_of(path: str) -> Path:
    """Give the folder beside a log dir that tasks write to."""
    target = Path(path)
    return target.with_name(f".{target.name}.kafkalog-sink")


def partitions_of(paths: Iterable[str], topic: str) -> frozenset[int]:
    """Give the partitions of a topic that the log dirs hold."""
    from kafkalog import _core

    return frozenset(
        partition
        for path in paths
        if Path(path).is_dir()
        for _, name, partition, state in _core.LogDir(path, allow_others=True).folders()
        if name == topic and state == "live"
    )


def listed(partitions: Iterable[int]) -> str:
    """Write numbers of partitions for a message."""
    return ", ".join(map(str, sorted(partitions)))


def publish(
    paths: tuple[str, ...],
    files: list[str],
    partitions: int,
    config: Any = None,
    *,
    stream: str | None = None,
    batch: int | None = None,
    owners: Iterable[str] = (),
) -> int:
    """Append what the files hold.

    Parameters
    ----------
    paths : tuple of str
        The log dirs.
    files : list of str
        In the order of the records.
    partitions : int
        How many a topic gets that is not there.
    config : LogConfig, optional
        Settings of the topics.
    stream, batch : str and int, optional
        Whose batch it is.
    owners : iterable of str
        What the names of files begin with that are done with, before a dot.

    Returns
    -------
    int
        Records appended; 0 for a batch that is there already.
    """
    staging = staging_of(paths[0])
    staging.mkdir(parents=True, exist_ok=True)
    mine: dict[str, Any] | None = None if stream is None or batch is None else {"stream": stream, "batch": batch}
    with _locked(staging, paths) as held:
        _roll_back(staging, held)
        count = 0
        if mine is None or not _is_done(staging, mine):
            pending = staging / "pending"
            count = _append(
                files, held, partitions, config, lambda ends: _write(pending, {"ends": ends, **(mine or {})})
            )
            held.close()
            # From here on it counts, whether or not the next line is reached.
            if mine is not None:
                _write(_done(staging, mine["stream"]), mine)
        (staging / "pending").unlink(missing_ok=True)
        for file in files:
            Path(file).unlink(missing_ok=True)
        # Under the lock: of a query, the next batch has not begun.
        discard(staging, owners)
        _tidy(staging)
    return count


def discard(staging: Path, owners: Iterable[str]) -> None:
    """Remove the files of these jobs and queries, those of attempts that died as well."""
    for owner in owners:
        for file in staging.glob(f"{owner}.*.arrows"):
            file.unlink(missing_ok=True)


class _Held:
    """The partitions' writers, opened when they are first needed."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self._writers: dict[tuple[str, int], LogWriter] = {}

    def of(self, topic: str, partition: int, config: Any = None) -> LogWriter:
        from kafkalog.writer import LogWriter

        place = (topic, partition)
        if place not in self._writers:
            self._writers[place] = LogWriter(list(self.paths), topic, partition, config=config, extra="ignore")
        return self._writers[place]

    def close(self) -> None:
        """Bring everything to the disk."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()


@contextlib.contextmanager
def _locked(staging: Path, paths: tuple[str, ...]) -> Iterator[_Held]:
    """One job at a time publishes to a log dir."""
    import fcntl

    held = _Held(paths)
    with (staging / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield held
        except BaseException:
            # In this process still: nobody is to see half of it.
            with contextlib.suppress(Exception):
                _roll_back(staging, held)
            with contextlib.suppress(Exception):
                held.close()
            raise


def _append(
    files: list[str], held: _Held, partitions: int, config: Any, note: Callable[[list[tuple[str, int, int, int]]], None]
) -> int:
    """Append the files' records behind the ends that are noted before."""
    places: Counter[tuple[str, int]] = Counter()
    for file in files:
        for rows, topic, partition in _parts(file):
            places[topic, partition] += rows.num_rows
    for topic in sorted({topic for topic, _ in places}):
        asked = {partition for name, partition in places if name == topic}
        there = partitions_of(held.paths, topic)
        if there and not asked <= there:
            raise ValueError(
                f"rows are for partitions {listed(asked - there)} of {topic}, of which the log dirs hold "
                f"{listed(there)} only: they were made or removed since the rows were sorted"
            )
        if not there:
            _tell_new(held.paths, topic)
            places.update({(topic, partition): 0 for partition in range(max(partitions, max(asked) + 1))})
    # The highest first: a topic that a death leaves unfinished is seen to lack some.
    ends = [(*place, held.of(*place, config).log_end_offset, places[place]) for place in sorted(places, reverse=True)]
    note(ends)
    count = 0
    for file in files:
        for rows, topic, partition in _parts(file):
            held.of(topic, partition).append(rows)
            count += rows.num_rows
    return count


def _tell_new(paths: Iterable[str], topic: str) -> None:
    if any((Path(path) / "meta.properties").exists() for path in paths):
        _log.warning(
            "kafkalog: topic %s is new to a broker's log dir: a broker sets folders aside (-stray) whose topic it was "
            "never told to create",
            topic,
        )


def _parts(file: str) -> Iterator[tuple[pa.RecordBatch, str, int]]:
    """Give the batches of a file, each of one partition, as the task wrote them."""
    import pyarrow as pa

    with pa.OSFile(file, "rb") as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            topic, partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
            names = [name for name in batch.schema.names if name not in {"topic", "partition"}]
            yield batch.select(names), topic, partition


def _roll_back(staging: Path, held: _Held) -> None:
    """Cut off what a job that died had begun to append.

    Raises
    ------
    ValueError
        When there is more than it can have appended: that is somebody else's.
    """
    pending = staging / "pending"
    if not pending.exists():
        return
    noted = json.loads(pending.read_text())
    if not _is_done(staging, noted):
        for topic, partition, end, rows in noted["ends"]:
            found = held.of(topic, partition).log_end_offset
            if found > end + rows:
                raise ValueError(
                    f"{topic}-{partition} ends at offset {found}: a job that died was to append {rows} records from "
                    f"offset {end} on, and others were appended since. Deleting {pending} keeps all of them"
                )
        for topic, partition, end, _ in noted["ends"]:
            writer = held.of(topic, partition)
            if writer.log_end_offset > end:
                writer.truncate(end)
        held.close()
    pending.unlink()


def _done(staging: Path, stream: str) -> Path:
    return staging / f"{hashlib.sha256(stream.encode()).hexdigest()[:32]}.done"


def _is_done(staging: Path, batch: dict[str, Any]) -> bool:
    """Tell whether a batch of a stream, or a later one, was appended to its end."""
    if "stream" not in batch:
        return False
    done = _done(staging, batch["stream"])
    return done.exists() and bool(json.loads(done.read_text())["batch"] >= batch["batch"])


def _write(path: Path, value: object) -> None:
    """Write a small file whole: under another name, to the disk, then under its own."""
    beside = path.with_name(f"{path.name}.tmp")
    with beside.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _tidy(staging: Path) -> None:
    for file in staging.glob("*.arrows"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _OLD_SECONDS:
                file.unlink()
