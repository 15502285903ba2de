"""``kafkalog.spark.rewrite``: ``kafkalog.rewrite`` with one task for each partition.

Each task writes the log dir of one partition into a folder beside the target. When all have ended, the driver puts them
together with what else is in the source, verifies the whole, and gives it the target's name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import shutil
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog.log import LogDir
from kafkalog.tools import rewriting
from kafkalog.tools.reports import RewriteReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kafkalog.typing import StrPath

__all__ = ["rewrite"]

_RESULT = "part string, report binary"
_CHECKPOINTS = (
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)
_MARKER = ".kafka_cleanshutdown"
_NOT_COPIED = {*_CHECKPOINTS, _MARKER, ".lock"}
_METADATA = "__cluster_metadata"


def rewrite(spark: SparkSession, source: StrPath, out: StrPath, **options: Any) -> RewriteReport:
    """Copy a log dir into a new one, without some records or stored in another way: one task for each partition.

    Parameters
    ----------
    spark : SparkSession
        Its executors see source and target under the driver's paths.
    source : path
        A log dir.
    out : path
        A new log dir. Until it is whole it has another name, ``<out>.parts``, which the same call starts over.
    **options
        Those of :func:`kafkalog.rewrite`, but for ``partitions``, ``dry_run`` and ``progress``. A function for ``drop``
        is pickled.

    Returns
    -------
    RewriteReport
        As for :func:`kafkalog.rewrite`.

    Raises
    ------
    FileExistsError
        If ``out`` exists.
    ValueError
        If ``source`` is not a log dir, or an option makes no sense.
    KafkaLogError
        If a task finds damage.
    """
    log_dir, target = LogDir(source), Path(_arguments.path(out))
    parts = target.with_name(f"{target.name}.parts")
    if target.exists():
        # A call may have been killed after it had given the result its name.
        _remove_left(parts)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    _core.check_output(str(target), [log_dir.path])
    refused = {"partitions", "dry_run", "progress"} & options.keys()
    if refused:
        raise ValueError(f"{min(refused)} is not an option on Spark; use kafkalog.rewrite")
    live = [each for each in log_dir.folders if each.state == "live" and each.topic != _METADATA]
    named = options.pop("topics", None)
    topics = {named} if isinstance(named, str) else None if named is None else set(named)
    _begin(parts)
    tasks = [(each.path, _keeps_all(each.topic, topics)) for each in live]
    rows = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    work = partial(_rewrite_parts, str(parts), tasks, options)
    done = sorted(rows.mapInArrow(work, _RESULT).collect(), key=lambda row: row["part"])
    reports = [pickle.loads(row["report"]) for row in done]  # noqa: S301 - from our own tasks
    every = [each for report in reports for each in report.partitions]
    partitions = sorted(every, key=lambda each: (each.topic, each.partition))
    whole = parts / "whole"
    _assemble(Path(log_dir.path), whole, [parts / row["part"] for row in done], {Path(path).name for path, _ in tasks})
    manifest = rewriting.finished(log_dir.path, whole, target, tuple(partitions))
    whole.rename(target)
    # An attempt that Spark gave up may still write there.
    with contextlib.suppress(OSError):
        _remove_left(parts)
    return RewriteReport(log_dir.path, str(target), str(manifest), dry_run=False, partitions=tuple(partitions))


def _begin(parts: Path) -> None:
    """Make the folder for what the tasks write; remove what a killed call left in it."""
    _remove_left(parts)
    parts.mkdir(parents=True)
    (parts / rewriting.UNFINISHED).touch()


def _remove_left(parts: Path) -> None:
    """Remove what the tasks of a call left, the note by which it is known last. A kill may leave the empty folder."""
    note = parts / rewriting.UNFINISHED
    if note.exists():
        for entry in parts.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry != note:
                entry.unlink()
        note.unlink()
    if parts.is_dir() and not any(parts.iterdir()):
        parts.rmdir()


def _keeps_all(topic: str, topics: set[str] | None) -> bool:
    return topic.startswith("__") if topics is None else topic not in topics


def _rewrite_parts(
    parts: str, tasks: list[tuple[str, bool]], options: dict[str, Any], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rewrite partitions in a task. Attempts of the same task write into folders of their own."""
    import pyarrow as pa

    import kafkalog

    for batch in batches:
        numbers: list[int] = batch.column(0).to_pylist()  # type: ignore[assignment]
        for number in numbers:
            folder, keeps_all = tasks[number]
            part = f"{number:06d}-{uuid.uuid4().hex}"
            given = {name: value for name, value in options.items() if not (keeps_all and name.startswith("drop"))}
            report = kafkalog.rewrite(folder, Path(parts) / part, **given)
            row: list[pa.Array[Any]] = [pa.array([part], pa.string()), pa.array([pickle.dumps(report)], pa.binary())]
            yield pa.RecordBatch.from_arrays(row, names=["part", "report"])


def _assemble(source: Path, whole: Path, parts: list[Path], rewritten: set[str]) -> None:
    """Put the partitions' log dirs together, with what else is in the source."""
    whole.mkdir()
    for part in parts:
        for folder in part.iterdir():
            if folder.is_dir():
                folder.rename(whole / folder.name)
    for name in _CHECKPOINTS:
        texts = [(part / name).read_text(encoding="utf-8") for part in parts if (part / name).exists()]
        lines = sorted(line for text in texts for line in text.splitlines()[2:])
        if lines:
            (whole / name).write_text("\n".join(["0", str(len(lines)), *lines, ""]), encoding="utf-8")
    for entry in source.iterdir():
        if entry.name in _NOT_COPIED or entry.name in rewritten:
            continue
        if entry.is_dir():
            shutil.copytree(entry, whole / entry.name)
        else:
            shutil.copy2(entry, whole / entry.name)
    if (source / _MARKER).exists() and all((part / _MARKER).exists() for part in parts):
        shutil.copy2(source / _MARKER, whole / _MARKER)
