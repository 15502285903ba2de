"""``kafkalog.spark.rewrite``: ``kafkalog.rewrite`` with one task for each partition.

Each task writes the log dir of one partition into a folder beside the target. When all have ended, the driver puts them
together with what else is in the source, verifies the whole, and gives it the target's name.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog._atomic_files import read_small
from kafkalog.log import LogDir
from kafkalog.spark.interpreter import check_interpreter
from kafkalog.tools import rewriting
from kafkalog.tools.copy_reports import RewriteReport
from kafkalog.tools.soundness import UNFINISHED, Soundness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from kafkalog.typing import StrPath

_RESULT = "part string, report binary"
_CHECKPOINTS = (
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
)
_MARKER = ".kafka_cleanshutdown"


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
        Those of :func:`kafkalog.rewrite`, but for ``keep_partitions``, ``dry_run`` and ``progress``. A function for
        ``drop`` is pickled.

    Returns
    -------
    RewriteReport
        As for :func:`kafkalog.rewrite`, whose errors are raised as well.
    """
    check_interpreter(spark)
    log_dir, target = LogDir(_arguments.local(source)), Path(_arguments.local(out))
    parts = target.with_name(f"{target.name}.parts")
    if target.exists():
        # A call may have been killed after it had given the result its name.
        _remove_left(parts)
        raise _arguments.taken(target)
    _core.check_output(str(target), [log_dir.path])
    refused = {"keep_partitions", "dry_run", "progress"} & options.keys()
    if refused:
        raise ValueError(f"{min(refused)} is not an option on Spark; use kafkalog.rewrite")
    work = rewriting.Rewriting.of(log_dir.path, **options)
    soundness = Soundness(log_dir.path)
    live = [log for log in work.source.logs if Path(log.path).name == f"{log.topic}-{log.partition}"]
    # As in Rewriting.write: where nothing is named the keys go from internal topics, too.
    kept = {name for name in options if name.startswith("drop") and not (work.everywhere and name == "drop_keys")}
    of_tasks = {name: value for name, value in options.items() if name not in {"topics", "partitions"}}
    _begin(parts)
    tasks = [(log.path, (log.topic, log.partition) not in work.wanted) for log in live]
    rows = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    write = partial(_rewrite_parts, str(parts), tasks, of_tasks, kept)
    done = sorted(rows.mapInArrow(write, _RESULT).collect(), key=lambda row: row["part"])
    reports: list[RewriteReport] = [pickle.loads(row["report"]) for row in done]  # noqa: S301 - from our own tasks
    whole = parts / "whole"
    rest = work.write(str(whole), apart={Path(path).name for path, _ in tasks})
    _assemble(whole, [parts / row["part"] for row in done])
    soundness.require(str(whole))
    partitions = [*rest.partitions, *(each for report in reports for each in report.partitions)]
    left = [*rest.left_out, *(each for report in reports for each in report.left_out)]
    report = RewriteReport(
        path=log_dir.path,
        out=str(target),
        manifest=str(rewriting.manifest_of(target)),
        dry_run=False,
        partitions=tuple(sorted(partitions, key=lambda each: (each.topic, each.partition, each.path))),
        left_out=tuple(sorted(left, key=lambda each: each.path)),
        source_errors=soundness.errors,
    )
    rewriting.write_manifest(report, whole)
    (whole / UNFINISHED).unlink()
    whole.rename(target)
    # An attempt that Spark gave up may still write there.
    with contextlib.suppress(OSError):
        _remove_left(parts)
    return report


def _begin(parts: Path) -> None:
    """Make the folder for what the tasks write; remove what a killed call left in it."""
    _remove_left(parts)
    parts.mkdir(parents=True)
    (parts / UNFINISHED).touch()


def _remove_left(parts: Path) -> None:
    """Remove what the tasks of a call left, the note by which it is known last. A kill may leave the empty folder."""
    note = parts / UNFINISHED
    if note.exists():
        for entry in parts.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry != note:
                entry.unlink()
        note.unlink()
    if parts.is_dir() and not any(parts.iterdir()):
        parts.rmdir()


def _rewrite_parts(
    parts: str,
    tasks: list[tuple[str, bool]],
    options: dict[str, Any],
    kept: set[str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Rewrite partitions in a task: some without the options in ``kept``. Attempts write into folders of their own."""
    import pyarrow as pa

    import kafkalog

    for batch in batches:
        numbers: list[int] = batch.column(0).to_pylist()  # type: ignore[assignment]
        for number in numbers:
            folder, is_kept = tasks[number]
            part = f"{number:06d}-{uuid.uuid4().hex}"
            given = {name: value for name, value in options.items() if not (is_kept and name in kept)}
            report = kafkalog.rewrite(folder, Path(parts) / part, **given)
            row: list[pa.Array[Any]] = [pa.array([part], pa.string()), pa.array([pickle.dumps(report)], pa.binary())]
            yield pa.RecordBatch.from_arrays(row, names=["part", "report"])


def _assemble(whole: Path, parts: list[Path]) -> None:
    """Put the log dirs of single partitions into the one that holds the rest."""
    for part in parts:
        for folder in part.iterdir():
            if folder.is_dir():
                folder.rename(whole / folder.name)
    for name in _CHECKPOINTS:
        texts = [read_small(each / name) for each in (whole, *parts) if (each / name).exists()]
        lines = sorted(line for text in texts for line in text.splitlines()[2:])
        if texts:
            (whole / name).write_text("\n".join(["0", str(len(lines)), *lines, ""]), encoding="utf-8")
    if not all((part / _MARKER).exists() for part in parts):
        (whole / _MARKER).unlink(missing_ok=True)
