"""Jobs that append to many partitions at once, all of their records or none, and what they leave when they die.

| file in a log dir | |
|---|---|
| ``.kafkalog-sink`` | locked (``flock``) by the job that runs; has an id by which executors recognize the folder |
| ``.kafkalog-job`` | the note of a job that has not ended; ``src/write/storage/job.rs`` keeps other writers out |
| ``.kafkalog-stream-*`` | the last batch of a stream that was appended, and the ends of its partitions |
| ``.kafkalog-rows.*.arrows`` | rows that a task has staged |
| ``.kafkalog-rows.*`` | a note of each job, and one of all streams, that use ``.kafkalog-sink``: the last removes it |

They are files, because of a log dir's entries brokers look at directories only (``LogManager.loadLogs``).

A job is noted in each of its log dirs before it appends or creates anything. It is committed when the note in the first
of them says so, by one rename. The note in the first log dir is the first to be written and the last to be removed, so
it exists wherever another one does. To settle a job that died is to finish it if it was committed, and else to cut its
records. Its records are recognized by comparing them with the rows that it had staged; others are not cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog._atomic_files import read_small, regular, replace, sync_folder
from kafkalog.errors import LogLockedError
from kafkalog.spark.topics import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

_log = logging.getLogger("kafkalog")

LOCK, NOTE, ROWS = ".kafkalog-sink", _core.JOB_NOTE, ".kafkalog-rows"
_MAGIC = "kafkalog-job 1 "
_STAGED = re.compile(r"\.kafkalog-rows\..+\.arrows", re.DOTALL)
# How often a lock is tried that its former holder removes meanwhile.
_TRIES = 10


def real_dirs(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the log dirs without links, in one order, each once: however they are spelled, they are the same."""
    return sorted({os.path.realpath(path) for path in paths})


@dataclass
class Job:
    """Description of a job before it writes; see the module."""

    id: str
    dirs: list[str]
    clock: int
    settings: list[tuple[str, str]]
    files: list[str] = dataclasses.field(default_factory=list)
    ends: list[tuple[str, int, int, int]] = dataclasses.field(default_factory=list)
    created: dict[str, int] = dataclasses.field(default_factory=dict)
    state: dict[str, Any] | None = None
    committed: bool = False

    def begin(self) -> None:
        """Note the job in all log dirs."""
        for log_dir in self.dirs:
            self._note(log_dir)

    def commit(self) -> None:
        """Make all appended records count, from now on and after any crash; then clean up."""
        self.committed = True
        self._note(self.dirs[0])
        self._finish()

    def settle(self, *, discard: bool = True) -> bool:
        """End a failed or dead job under the locks of its log dirs: finish it if it was committed, else undo it."""
        noted = _read(self.dirs[0])
        self.committed = noted is not None and noted.id == self.id and noted.committed
        if not self.committed:
            # A job that was refused before it was noted has begun nothing.
            if noted is not None and noted.id == self.id:
                self._create_topics()
            # Where the note is gone, the job was settled before, and others may have appended since.
            dirs = [Path(log_dir) for log_dir in self.dirs if _is_noted(log_dir, self.id)]
            ends = [end for end in self.ends if any((each / f"{end[0]}-{end[1]}").is_dir() for each in dirs)]
            # All of them are recognized before the first is cut.
            for topic, partition, offset in [cut for cut in map(self._own_records, ends) if cut is not None]:
                with contextlib.closing(self.open(topic, partition)) as writer:
                    writer.truncate(offset)
            _log.warning("kafkalog: job %s, which ended early, was undone in %s", self.id, ", ".join(self.dirs))
        self._finish(discard=discard)
        return self.committed

    def open(self, topic: str, partition: int) -> _core.LogWriter:
        """Open a partition as this job; its note keeps other writers out."""
        return _core.LogWriter(self.dirs, topic, partition, self.settings, job=self.id, clock=lambda: self.clock)

    def _create_topics(self) -> None:
        for topic, count in self.created.items():
            for partition in range(count):
                if not any((Path(log_dir) / f"{topic}-{partition}").is_dir() for log_dir in self.dirs):
                    self.open(topic, partition).close()

    def _own_records(self, end: tuple[str, int, int, int]) -> tuple[str, int, int] | None:
        """Return where to cut a partition, or None if the job has appended nothing there."""
        topic, partition, start, count = end
        with contextlib.closing(self.open(topic, partition)) as writer:
            path, found = writer.path, writer.log_end_offset
        if found <= start:
            return None
        missing = next((file for file in self.files if not Path(file).exists()), None)
        if missing is not None:
            raise ValueError(
                f"cannot take back what job {self.id} has appended to {topic}-{partition}: from offset {start} on the "
                f"log may hold up to {count} of its records, and {missing}, by which they are recognized, is gone; "
                f"{self._advice()}"
            )
        own = 0
        for staged, logged in zip(self._staged(TopicPartition(topic, partition)), _logged(path, start), strict=False):
            if staged != logged:
                break
            own += 1
        if own == 0:
            return None
        if own < found - start:
            raise ValueError(
                f"cannot take back what job {self.id} has appended to {topic}-{partition} at offsets {start} to "
                f"{start + own - 1}: records of another writer follow, up to offset {found - 1}; {self._advice()}"
            )
        return topic, partition, start

    def _advice(self) -> str:
        return f"delete {' and '.join(str(Path(log_dir) / NOTE) for log_dir in self.dirs)} to keep all records"

    def _staged(self, place: TopicPartition) -> Iterator[tuple[Any, ...]]:
        for file in self.files:
            for rows, found in staged_batches(file):
                if found == place:
                    yield from _plain(rows, self.clock)

    def _finish(self, *, discard: bool = True) -> None:
        if self.committed and self.state is not None:
            for log_dir in self.dirs:
                replace(state_file(log_dir, self.state["stream"]), json.dumps(self.state))
        if discard:
            for file in self.files:
                Path(file).unlink(missing_ok=True)
        for log_dir in reversed(self.dirs):
            if _is_noted(log_dir, self.id):
                (Path(log_dir) / NOTE).unlink()
                sync_folder(Path(log_dir))

    def _note(self, log_dir: str) -> None:
        place = self.dirs.index(log_dir)
        text = json.dumps({**dataclasses.asdict(self), "place": place})
        replace(Path(log_dir) / NOTE, f"{_MAGIC}{self.id}\n{text}\n")


def _read(log_dir: str) -> Job | None:
    """Read the note in a log dir, whose path may be another one now."""
    path = Path(log_dir) / NOTE
    try:
        first, text = read_small(path).split("\n", 1)
        noted = json.loads(text)
        place = noted.pop("place")
        job = Job(**noted)
        before, job.dirs[place] = job.dirs[place], log_dir
        job.settings = [(name, value) for name, value in job.settings]
        job.ends = [tuple(end) for end in job.ends]  # type: ignore[misc]
        moved = {file: str(Path(log_dir) / Path(file).name) for file in job.files if str(Path(file).parent) == before}
        job.files = [moved.get(file, file) for file in job.files]
        job.created = dict(job.created)
        if not all(_STAGED.fullmatch(Path(file).name) for file in job.files):
            # They are removed at the end.
            raise ValueError("files that no job has staged")  # noqa: TRY301 - as what the reading raises
    except FileNotFoundError:
        return None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected the note of a job of this version of kafkalog, found another text ({error!r}); settle "
            "it with the version that wrote it, or delete it to keep all records"
        ) from error
    if first != f"{_MAGIC}{job.id}":
        raise ValueError(f"{path}: expected the note of job {job.id}, found {first[:100]!r}")
    return job


def _is_noted(log_dir: str, job: str) -> bool:
    noted = _read(log_dir)
    return noted is not None and noted.id == job


@contextlib.contextmanager
def exclusive(paths: Iterable[str], *, wait: bool = True) -> Iterator[list[str]]:
    """Lock log dirs, created if missing, and settle the jobs that died in them."""
    dirs = wanted = real_dirs(paths)
    while True:
        with contextlib.ExitStack() as stack:
            for log_dir in wanted:
                stack.enter_context(locked_folder(log_dir, wait=wait))
            # A job that died may have had more log dirs.
            more = {other for job in map(_read, wanted) if job is not None for other in job.dirs}
            gone = next((other for other in sorted(more) if not Path(other).is_dir()), None)
            if gone is not None:
                notes = " and ".join(str(Path(log_dir) / NOTE) for log_dir in wanted if (Path(log_dir) / NOTE).exists())
                raise ValueError(
                    f"{gone}: no such folder, and a job that died may have appended there; mount it, or delete {notes} "
                    "to keep all records"
                )
            if more <= {*wanted}:
                stack.callback(_core.HeldLogDirs(wanted).close)
                for log_dir in wanted:
                    _settle_noted(log_dir)
                yield dirs
                return
        wanted = sorted({*wanted, *more})


def _settle_noted(log_dir: str) -> None:
    job = _read(log_dir)
    if job is None:
        return
    first = _read(job.dirs[0])
    if first is None or first.id != job.id:
        raise ValueError(
            f"cannot settle job {job.id}, which is noted in {Path(log_dir) / NOTE}: its note in {job.dirs[0]}, which "
            f"says whether it was committed, is missing; delete {Path(log_dir) / NOTE} to keep all records"
        )
    first.settle()


def settle_dead(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Settle the jobs that died in these log dirs."""
    dirs = [os.fspath(path) for path in paths]
    if any((Path(log_dir) / NOTE).exists() for log_dir in dirs):
        with exclusive([log_dir for log_dir in dirs if (Path(log_dir) / NOTE).exists()], wait=False):
            pass


def planned_partitions(paths: Iterable[str], topic: str) -> int:
    """Return how many partitions a job that has not ended creates a topic with, or 0."""
    return max((job.created.get(topic, 0) for job in map(_read, paths) if job is not None), default=0)


def live_partitions(paths: Iterable[str], topic: str) -> frozenset[int]:
    """Return the partitions of a topic that the log dirs hold, or will hold when the job that creates it has ended."""
    paths, before = [path for path in paths if Path(path).is_dir()], None
    while True:
        if planned := planned_partitions(paths, topic):
            return frozenset(range(planned))
        found = frozenset(listed_partitions(paths).get(topic, ()))
        # Else a job may have begun before the listing and ended after it.
        if found == before:
            return found
        before = found


def listed_partitions(paths: Iterable[str]) -> dict[str, set[int]]:
    """Return the live partitions of log dirs, by topic."""
    found: dict[str, set[int]] = {}
    for path in paths:
        for _, topic, partition, state in _core.LogDir(path, allow_others=True).folders():
            if state == "live":
                found.setdefault(topic, set()).add(partition)
    return found


def noted_files(paths: Iterable[str]) -> set[str]:
    """Return the staged files, without links, of jobs that have not ended: their records are recognized by them."""
    return {file for job in map(_read, paths) if job is not None for file in job.files}


@contextlib.contextmanager
def locked_folder(folder: str, *, wait: bool) -> Iterator[Path]:
    """Let one job at a time into a folder, created if missing."""
    import fcntl

    path = Path(folder) / LOCK
    # One that waits is next after each job that removes the file.
    for _ in itertools.repeat(None) if wait else range(_TRIES):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with open(path, "a+", opener=regular) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                break
            # A job that has ended may have removed it.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                yield path
                return
    raise LogLockedError(f"{path}: a job that appends to this log dir is running", path=str(path))


def state_file(log_dir: str, stream: str) -> Path:
    """Return the file with the state of a stream."""
    return Path(log_dir) / f".kafkalog-stream-{hashlib.sha256(stream.encode()).hexdigest()[:32]}"


def read_state(dirs: Iterable[str], stream: str) -> dict[str, Any]:
    """Read which batch of a stream was appended last, and the ends of its partitions; empty if none is known."""
    files = [state_file(log_dir, stream) for log_dir in dirs]
    states = [_state(file) for file in files if file.exists()]
    return max(states, key=lambda state: int(state["batch"]), default={})


def _state(file: Path) -> dict[str, Any]:
    try:
        state = json.loads(read_small(file))
        ends = [(str(topic), int(number), int(offset)) for topic, number, offset in state["ends"]]
        return {"stream": str(state["stream"]), "batch": int(state["batch"]), "ends": ends}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{file}: expected the last batch of a stream, found another text ({error!r}); restore it, or delete it "
            "and start the query with a new checkpoint"
        ) from error


def staged_batches(file: str) -> Iterator[tuple[pa.RecordBatch, TopicPartition]]:
    """Read the batches of a staged file; each is of one partition."""
    import pyarrow as pa

    # Mapped: batches that are skipped are not read.
    with pa.memory_map(file) as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            place = TopicPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
            names = [name for name in batch.schema.names if name not in {"topic", "partition"}]
            yield batch.select(names), place


def _logged(folder: str, start: int) -> Iterator[tuple[Any, ...]]:
    from kafkalog.reader import scan

    for batch in scan(folder, columns=["key", "value", "headers", "timestamp"], starting_offsets=start):
        yield from _plain(batch, -1)


def _plain(rows: Any, clock: int) -> Iterator[tuple[Any, ...]]:
    """Yield rows as tuples that are equal if the records are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    times = pc.floor_temporal(rows.column("timestamp"), unit="millisecond").cast(pa.timestamp("ms", "UTC"))
    times = pc.fill_null(times.cast(pa.int64()), clock)
    headers = ([(each["key"], each["value"]) for each in row or ()] for row in rows.column("headers").to_pylist())
    keys, values = (rows.column(name).to_pylist() for name in ("key", "value"))
    yield from zip(keys, values, headers, times.to_pylist(), strict=True)
