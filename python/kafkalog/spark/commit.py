"""Commits what tasks have staged: all records of a job are appended to the log dirs, or none.

Tasks write Arrow files into the log dir, or into the folder of the option ``stagingPath``. The driver appends them.
``kafkalog.spark.append_job`` has the protocol: the job is noted, its records are appended, and it is committed. A job
that fails or dies in between is undone, by the job or by the next writer that opens one of its partitions. The last
batch of a stream is noted as well, so that a repeated batch is appended once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import time
import uuid
from collections import Counter, OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog._atomic_files import read_small
from kafkalog.config import pairs
from kafkalog.errors import LogLockedError
from kafkalog.spark import append_job
from kafkalog.spark.append_job import live_partitions
from kafkalog.spark.topics import TopicPartition, format_numbers, report_data_loss

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkalog import _core

_log = logging.getLogger("kafkalog.spark")

# Older files are of attempts that died: no job takes that long.
_MAX_AGE_SECONDS = 7 * 86_400
# A writer takes a few file descriptors, and a process may be limited to 256.
_MAX_OPEN = 24
# Ends the name of the note of all streams.
_STREAMS = "streams"


def prepare_staging(folder: str, job: str | None) -> str:
    """Prepare a folder for the files of tasks, in the driver, and note that a job uses it."""
    is_new = not Path(folder).is_dir()
    try:
        with append_job.locked_folder(folder, wait=True) as path:
            if not read_small(path):
                path.write_text(json.dumps({"id": uuid.uuid4().hex, "made": is_new}))
            token = _noted(path)["id"]
            (path.parent / f"{append_job.ROWS}.{job or _STREAMS}").touch()
        return str(token)
    except OSError as error:
        raise _not_shared(folder, f"the driver cannot write there: {error}") from error


def _noted(path: Path) -> dict[str, Any]:
    """Read what ``prepare_staging`` has written."""
    found = json.loads(read_small(path))
    if not isinstance(found, dict) or not found.keys() >= {"id", "made"}:
        raise ValueError(f"{path}: expected the id of a folder for staged rows, found another text; delete the file")
    return found


def check_staging(folder: str, token: str | None) -> None:
    """Check in an executor that the folder is the driver's and can be written; without a token, create it."""
    if token is None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return
    path = Path(folder) / append_job.LOCK
    try:
        found = _noted(path)["id"]
    except (OSError, ValueError) as error:
        raise _not_shared(folder, f"an executor does not find {path}, which the driver has written: {error}") from error
    if found != token:
        raise _not_shared(folder, f"an executor finds another folder there: {path} has id {found}, not {token}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _not_shared(folder, "an executor may not write there")


def _not_shared(folder: str, reason: str) -> ValueError:
    return ValueError(
        f"cannot stage rows in {folder}: {reason}; set the option stagingPath to a folder that the driver and all "
        "executors share and may write"
    )


def check_loads(dirs: list[str], places: Iterable[TopicPartition], settings: list[tuple[str, str]]) -> None:
    """Refuse what a writer refuses to open, before the first is opened: to open one may repair it."""
    from kafkalog import _core

    for topic, partition in places:
        _core.check_load(dirs, topic, partition, settings)


def known_partitions(paths: Iterable[str]) -> dict[str, frozenset[int]]:
    """Return the partitions of all topics that the log dirs hold."""
    existing = [path for path in paths if Path(path).is_dir()]
    found = append_job.listed_partitions(existing)
    planned = {topic: append_job.planned_partitions(existing, topic) for topic in found}
    return {topic: frozenset(range(planned[topic]) or partitions) for topic, partitions in found.items()}


def staged_file(folder: str, owner: str) -> Path:
    """Return the path of a new file for rows of a job or query."""
    return Path(folder) / f"{append_job.ROWS}.{owner}.{uuid.uuid4().hex}.arrows"


def owner_of(file: str) -> str:
    """Return the job or query that has staged a file."""
    return Path(file).name.removeprefix(f"{append_job.ROWS}.").partition(".")[0]


def commit_files(
    paths: tuple[str, ...],
    files: list[str],
    partitions: int,
    config: Any = None,
    *,
    staging: str | None = None,
    stream: str | None = None,
    batch: int | None = None,
    owners: Iterable[str] = (),
    new_topic: str | None = None,
    fail_on_data_loss: bool = True,
) -> int:
    """Append the records of staged files."""
    with append_job.exclusive(paths) as dirs:
        state: dict[str, Any] | None = None
        if stream is not None and batch is not None:
            state = _state(dirs, stream, batch, fail=fail_on_data_loss)
        if state is not None and state["batch"] >= batch:
            _log.warning("kafkalog: batch %s of stream %s is skipped: it was appended before", batch, stream)
            count = 0
        else:
            job = append_job.Job(uuid.uuid4().hex, dirs, time.time_ns() // 1_000_000, pairs(config))
            job.files = [os.path.realpath(file) for file in files]
            count = _run(job, partitions, new_topic, state and {**state, "batch": batch})
        for file in files:
            Path(file).unlink(missing_ok=True)
        # Under the lock: the query's next batch has not begun.
        folder = Path(staging or dirs[0])
        discard(folder, owners)
        _remove_old(folder)
    return count


def discard(staging: Path, owners: Iterable[str], kept: Collection[str] = ()) -> None:
    """Remove the staged files of jobs and queries, including those of attempts that died, but not ``kept``."""
    for owner in owners:
        for file in staging.glob(f"{append_job.ROWS}.{owner}.*.arrows"):
            if os.path.realpath(file) not in kept:
                file.unlink(missing_ok=True)


def release(folders: Iterable[str | Path], job: str) -> None:
    """Remove what ``prepare_staging`` has made for a job, and ``.kafkalog-sink`` where no other job uses the folder."""
    for folder in map(Path, folders):
        (folder / f"{append_job.ROWS}.{job}").unlink(missing_ok=True)
        if not (folder / append_job.LOCK).exists():
            continue
        # A job that is appending removes it itself.
        with (
            contextlib.suppress(LogLockedError, OSError, ValueError),
            append_job.locked_folder(str(folder), wait=False) as path,
        ):
            if any(file.suffix != ".arrows" for file in folder.glob(f"{append_job.ROWS}.*")):
                continue
            made = read_small(path) != "" and _noted(path)["made"]
            path.unlink()
            if made:
                # Unless it holds other files.
                folder.rmdir()


class _Writers:
    """The writers of a job's partitions; only a limited number of them is open."""

    def __init__(self, job: append_job.Job) -> None:
        self._job = job
        self._open: OrderedDict[TopicPartition, _core.LogWriter] = OrderedDict()

    def get(self, place: TopicPartition) -> _core.LogWriter:
        """Return the writer of a partition, opened if need be."""
        if place in self._open:
            self._open.move_to_end(place)
            return self._open[place]
        while len(self._open) >= _MAX_OPEN:
            self._open.popitem(last=False)[1].close()
        self._open[place] = self._job.open(*place)
        return self._open[place]

    def close(self) -> None:
        """Sync everything to the disk."""
        while self._open:
            self._open.popitem()[1].close()

    def drop(self) -> None:
        """Release everything after a failure."""
        while self._open:
            with contextlib.suppress(Exception):
                self._open.popitem()[1].close()


def _run(job: append_job.Job, partitions: int, new_topic: str | None, state: dict[str, Any] | None) -> int:
    """Append the rows of a job, and return their number."""
    records = _count(job.files)
    job.created = _new_topics(job.dirs, records, partitions, new_topic)
    if not records and not job.created and state is None:
        return 0
    existing = [place for place in sorted(records) if place.topic not in job.created]
    check_loads(job.dirs, existing, job.settings)
    writers = _Writers(job)
    try:
        job.ends = [
            (*place, 0 if place.topic in job.created else writers.get(place).log_end_offset, records[place])
            for place in sorted(records)
        ]
        job.begin()
        _append(job, writers)
        writers.close()
        if state is not None:
            ends = {TopicPartition(topic, partition): end for topic, partition, end in state["ends"]}
            ends |= {TopicPartition(topic, number): start + count for topic, number, start, count in job.ends}
            job.state = {**state, "ends": [(*place, end) for place, end in sorted(ends.items())]}
        job.commit()
    except BaseException as error:
        writers.drop()
        is_committed = False
        # Under the locks: no other process may see half of a job. What cannot be settled now, the next job settles.
        with contextlib.suppress(Exception):
            is_committed = job.settle(discard=False)
        if not is_committed or not isinstance(error, Exception):
            raise
        _log.warning("kafkalog: the job is committed, but finishing it failed at first: %s", error)
    return sum(records.values())


def _count(files: list[str]) -> Counter[TopicPartition]:
    """Count the files' records by partition."""
    records: Counter[TopicPartition] = Counter()
    for file in files:
        for rows, place in append_job.staged_batches(file):
            records[TopicPartition(*place)] += rows.num_rows
    return records


def _new_topics(
    dirs: list[str], records: Counter[TopicPartition], partitions: int, new_topic: str | None
) -> dict[str, int]:
    """Return the topics that the log dirs lack, and how many partitions they get."""
    created = {}
    for topic in sorted({place.topic for place in records} | ({new_topic} if new_topic else set())):
        wanted = {place.partition for place in records if place.topic == topic}
        live = live_partitions(dirs, topic)
        if live and not wanted <= live:
            raise ValueError(
                f"cannot append to {format_numbers(wanted - live)} of topic {topic}: the log dirs now have only "
                f"{format_numbers(live)}, as folders were added or removed while the job ran; run the job again"
            )
        if not live:
            _warn_of_new_topic(dirs, topic)
            created[topic] = max(partitions, max(wanted, default=0) + 1)
    return created


def _append(job: append_job.Job, writers: _Writers) -> None:
    """Create the job's topics and append its rows, a few partitions at a time."""
    starts = {TopicPartition(topic, partition): start for topic, partition, start, _ in job.ends}
    for topic, count in job.created.items():
        starts |= {TopicPartition(topic, partition): 0 for partition in range(count)}
    places = iter(sorted(starts))
    while some := set(itertools.islice(places, _MAX_OPEN)):
        for place in sorted(some):
            found = writers.get(place).log_end_offset
            if found != starts[place]:
                raise ValueError(f"{place} ends at offset {found}, not {starts[place]}: another writer has appended")
        for file in job.files:
            for rows, place in append_job.staged_batches(file):
                if place in some:
                    writers.get(TopicPartition(*place)).append(rows, ignore_extra=True)


def _state(dirs: list[str], stream: str, batch: int, *, fail: bool) -> dict[str, Any]:
    """Read which batch of a stream was appended last, and the ends of its partitions."""
    state = append_job.read_state(dirs, stream)
    if not state:
        if batch > 0:
            report_data_loss(
                f"the log dirs {', '.join(dirs)} know nothing of stream {stream}, which has appended batches 0 to "
                f"{batch - 1}, as its checkpoint says: they were wiped, or the query wrote elsewhere before. Restore "
                "them, or start the query with a new checkpoint",
                fail=fail,
            )
        return {"stream": stream, "batch": -1, "ends": []}
    reached = {TopicPartition(topic, number): offset for topic, number, offset in state["ends"]}
    reached |= _lost(dirs, reached, stream, fail=fail)
    return {**state, "ends": [(*place, offset) for place, offset in reached.items()]}


def _lost(dirs: list[str], reached: dict[TopicPartition, int], stream: str, *, fail: bool) -> dict[TopicPartition, int]:
    """Find the partitions that lack records that a stream has appended, and return their ends."""
    from kafkalog import _core

    if not reached:
        return {}
    assigned: dict[str, list[int]] = {}
    for topic, partition in reached:
        assigned.setdefault(topic, []).append(partition)
    found = _core.bounds(dirs, topics=list(assigned), partitions=assigned, allow_missing=True)
    ends = {TopicPartition(topic, partition): end for _, topic, partition, _, end in found}
    lost = {place: ends.get(place, 0) for place, offset in reached.items() if ends.get(place, 0) < offset}
    if lost:
        place = min(lost)
        state = f"now ends at offset {ends[place]}" if place in ends else "is gone"
        files = " and ".join(str(append_job.state_file(log_dir, stream)) for log_dir in dirs)
        text = (
            f"{len(lost)} of {len(reached)} partitions lack records that this stream has appended: {place} was "
            f"appended up to offset {reached[place]} and {state}. Restore the log dir, or delete {files} and start the "
            "query with a new checkpoint"
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


def _remove_old(staging: Path) -> None:
    """Remove what jobs that died have left: rows, and the note that they use the folder."""
    for file in staging.glob(f"{append_job.ROWS}.*"):
        with contextlib.suppress(OSError):
            if file.suffix != f".{_STREAMS}" and time.time() - file.stat().st_mtime > _MAX_AGE_SECONDS:
                file.unlink()
