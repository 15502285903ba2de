"""``kafkalog export --spark``: log dirs as a directory of files that the tasks write themselves.

No record crosses to the JVM: a task returns the names of its files and their numbers of rows. Tasks write into a hidden
folder beside the target, under names of their attempt. When all tasks have ended, the files that count get their final
names in a folder that is then renamed to the target.

A store renames nothing. There tasks upload files under their final names, each whole or not at all; attempts at one
write the same. When all have ended, the object ``_SUCCESS`` says so, as Spark's own output does.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core, _places, errors
from kafkalog._atomic_files import read_small, regular
from kafkalog._export_files import SUFFIXES, Files, check_types
from kafkalog._export_targets import StoreTarget
from kafkalog._renamed import renamed
from kafkalog._typed_values import json_columns
from kafkalog.spark.map_in_arrow import with_read_options
from kafkalog.spark.source_options import PlaceOpener
from kafkalog.storage._urls import is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from kafkalog.spark.map_in_arrow import Splits
    from kafkalog.spark.source_options import SourceOptions
    from kafkalog.storage import Storage

FORMATS = tuple(SUFFIXES)
# Locked by the driver while it lives.
_LOCK = "lock"
# What a task returns for a split.
_RESULT = "split int, name string, rows bigint, bytes bigint, metrics string"
_FAILURE = ".failure"
_SUCCESS = "_SUCCESS"
_RAISED = re.compile(rf"^(?:kafkalog\.errors\.)?({'|'.join(errors.__all__)}): (.*)$", re.MULTILINE)


@with_read_options
@renamed(spark_master="spark")
def export(
    spark: SparkSession | str,
    path: Any,
    out: str | os.PathLike[str],
    format: str = "parquet",  # noqa: A002 - the option's name
    **selection: Any,
) -> dict[str, Any]:
    """Export records as a directory of files, through Spark.

    Parameters
    ----------
    spark : SparkSession or str
        The session; or a master, for instance ``local[*]``, for a session of its own. An active session is used
        whatever its master.
    path, **selection
        As for :func:`read`; the default columns are the seven of Spark's Kafka source and ``headers``.
    out : str or PathLike
        A directory that does not exist yet, on a file system that driver and executors share; or a URL of a store below
        which there is nothing yet. In a store the object ``_SUCCESS``, written last, says that all files are there.
    format : {"parquet", "arrow", "jsonl", "csv"}
        In JSON and CSV keys and values are base64; CSV has no headers.

    Returns
    -------
    dict
        ``out``, ``format``, ``rows``, ``files``, ``bytes`` (of the files), ``tasks``, ``log_bytes`` (planned), and
        ``metrics``, which are those of :func:`totals` for a read; ranges of the topic ``_schemas`` that were skipped as
        damaged count as lost, too.

    Raises
    ------
    FileExistsError
        If ``out`` exists.
    ValueError
        For an unknown format or option.
    KafkaLogError
        If a task finds damage; the message names the file and the byte. Nothing is written then, as a file may hold
        several partitions; ``on_corrupt="skip"`` exports all but the damaged batches.
    """
    from kafkalog.spark.columns import rows_schema
    from kafkalog.spark.decoded import lost_schemas
    from kafkalog.spark.interpreter import check_interpreter
    from kafkalog.spark.metrics import add
    from kafkalog.spark.option_names import canonical, in_spark_words, naming_as, naming_options
    from kafkalog.spark.planner import over_splits, plan_splits
    from kafkalog.spark.source_options import parse

    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; use one of {', '.join(FORMATS)}")
    target: Path | StoreTarget
    if not is_url(os.fspath(out)):
        target = Path(_arguments.local(out))
        _require_absent(target)
    # To someone who exports all records since a time, a partition without one is not an error.
    defaults: dict[str, Any] = {"startingOffsetsByTimestampStrategy": "latest"}
    with naming_as(selection):
        chosen = in_spark_words(selection)
        given = canonical(chosen, None)
        if "columns" not in given:
            defaults["includeHeaders"] = format != "csv"
        options = parse({"path": path, **chosen, **{name: defaults[name] for name in defaults.keys() - given}})
        options = options.with_decoding()
    if format == "csv" and "headers" in options.columns:
        raise ValueError("CSV cannot hold headers; leave the column out, or choose another format")
    with naming_options():
        check_types(format, rows_schema(options))
    if is_url(os.fspath(out)):
        target = _checked_target(os.fspath(out), given, options)
    else:
        _core.check_output(str(target), _places.on_disk(options.paths))
    with _session(spark) as (session, collect):
        check_interpreter(session)
        splits = plan_splits(options)

        def run(to: str | Storage) -> list[Row]:
            write = partial(_write_splits, to, format, json_columns(options.read))
            return collect(over_splits(session, splits, write, _RESULT))

        written = _uploaded(target, run) if isinstance(target, StoreTarget) else _published(target, format, run)
    metrics: dict[str, int] = {}
    for each in written:
        add(metrics, json.loads(each["metrics"]))
    skipped = [] if options.decoding is None else lost_schemas(options, options.decoding)
    if skipped:
        add(metrics, {"lost": len(skipped), "bytes_lost": sum(row["endPosition"] - row["position"] for row in skipped)})
    return {
        "out": str(target),
        "format": format,
        "rows": sum(each["rows"] for each in written),
        "files": len(written),
        "bytes": sum(each["bytes"] for each in written),
        "tasks": len(splits),
        "log_bytes": sum(split.bytes for split in splits),
        "metrics": metrics,
    }


@contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """Create the folder that the tasks write to, and remove it at the end.

    A killed process leaves its folder; the next export to the same target removes folders that no process has locked.
    """
    import fcntl

    _sweep(target)
    staging = _hidden(target)
    staging.mkdir(parents=True)
    with (staging / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield staging
        finally:
            # Cancelled tasks may still run for a moment; under a new name they do not find the folder.
            removed = _hidden(target)
            with suppress(FileNotFoundError):
                staging.rename(removed)
            shutil.rmtree(removed, ignore_errors=True)


def _hidden(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")


def _sweep(target: Path) -> None:
    import fcntl

    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 32}.tmp"):
        with suppress(OSError), open(left / _LOCK, "r+", opener=regular) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


def _require_absent(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise _arguments.taken(target)


def _publish(staging: Path, target: Path, names: dict[str, str]) -> None:
    """Move the files that count, under their final names, into a folder, and rename it to the target.

    Attempts that do not count may still write: they know the staging folder only.
    """
    complete = staging / "complete"
    complete.mkdir()
    for name, final in names.items():
        (staging / name).rename(complete / final)
    _require_absent(target)
    complete.rename(target)


def _checked_target(url: str, given: Mapping[str, Any], options: SourceOptions) -> StoreTarget:
    """Return a place in a store of which tasks can write, with nothing in it yet, and not among logs."""
    opener = PlaceOpener(given)
    opener.open(url)
    (place,) = opener.stores
    # Refused now, and not where the plan is sent.
    place.to_json()
    target = StoreTarget(place)
    target.check(options.paths)
    if target.has_objects() or target.exists():
        raise _arguments.taken(place.url)
    return target


def _uploaded(target: StoreTarget, run: Callable[[str | Storage], list[Row]]) -> list[Row]:
    """Have tasks write into a store, and say in it that all files are there."""
    from pyspark.errors import PySparkException

    try:
        written = run(target.place)
    except PySparkException as error:
        # The text, as Python prints it, is all that comes back.
        said = _RAISED.search(str(error))
        raise (error if said is None else getattr(errors, said[1])(said[2])) from error
    mark = target / _SUCCESS
    empty = mark.beside()
    try:
        mark.upload(empty)
    finally:
        empty.unlink()
    return written


def _published(target: Path, form: str, run: Callable[[str | Storage], list[Row]]) -> list[Row]:
    """Have tasks write into a hidden folder, which gets the name of the target when all have ended."""
    from pyspark.errors import PySparkException

    with _staged(target) as staging:
        try:
            written = run(str(staging))
        except PySparkException as error:
            raise _recorded_failure(staging, error) or error from error
        _publish(staging, target, {each["name"]: _part_name(each["split"], form) for each in written})
    return written


def _part_name(number: int, form: str) -> str:
    return f"part-{number:05d}{SUFFIXES[form]}"


def _write_splits(
    to: str | Storage, form: str, json_texts: tuple[str, ...], splits: Splits
) -> Iterator[pa.RecordBatch]:
    """Write a file for each split, into the staging folder or a store, and return its name and size."""
    import pyarrow as pa

    from kafkalog.spark.read_split import read_split, split_schema

    for number, split in splits:
        # An attempt in a store may find the file of another one.
        files = Files(form, overwrite=not isinstance(to, str), text=False, json=json_texts)
        staged = f"{uuid.uuid4().hex}{SUFFIXES[form]}"
        file = Path(to) / staged if isinstance(to, str) else StoreTarget(to) / _part_name(number, form)
        metrics: dict[str, int] = {}
        try:
            count = files.write(file, split_schema(split), read_split(split, report=metrics.update))
        except Exception as error:
            if isinstance(file, Path):
                _record_failure(file.with_suffix(_FAILURE), error)
            raise
        size = file.stat().st_size if isinstance(file, Path) else file.size()
        columns: list[pa.Array[Any]] = [pa.array([number], pa.int32()), pa.array([file.name])]
        columns += [pa.array([count], pa.int64()), pa.array([size], pa.int64())]
        columns += [pa.array([json.dumps(metrics)])]
        yield pa.RecordBatch.from_arrays(columns, names=["split", "name", "rows", "bytes", "metrics"])


def _record_failure(file: Path, error: Exception) -> None:
    """Keep a task's exception for the driver: Spark passes on its text only."""
    if isinstance(error, errors.KafkaLogError):
        arguments = [str(error), error.path, error.position, error.offset]
    elif isinstance(error, OSError):
        # The number decides on the class.
        file_name = None if error.filename is None else os.fsdecode(error.filename)
        arguments = [str(error)] if error.errno is None else [error.errno, error.strerror, file_name]
    else:
        return
    with suppress(OSError):
        file.write_text(json.dumps({"type": type(error).__name__, "text": str(error), "arguments": arguments}))


def _recorded_failure(staging: Path, error: Exception) -> Exception | None:
    """Restore the exception of the task that failed the job, if it is one of kafkalog's or an I/O error."""
    message = str(error)
    for file in staging.glob(f"*{_FAILURE}"):
        with suppress(OSError, ValueError):
            failure = json.loads(read_small(file))
            # Other attempts and other tasks may have failed too.
            if failure["text"] in message:
                kind = getattr(errors, failure["type"]) if failure["type"] in errors.__all__ else OSError
                found: Exception = kind(*failure["arguments"])
                return found
    return None


def _collect_in_thread(frame: DataFrame) -> list[Row]:
    """Run an action in another thread: the session is ours, and a signal must not interrupt a call to the JVM.

    The exception of a signal would leave the answer of that call to the next one. Each thread has its own connection.
    """
    with ThreadPoolExecutor(1, "kafkalog-export") as pool:
        running = pool.submit(frame.collect)
        try:
            return running.result()
        except BaseException:
            if not running.done():
                frame.sparkSession.sparkContext.cancelAllJobs()
            raise


@contextmanager
def _session(spark: SparkSession | str) -> Iterator[tuple[SparkSession, Callable[[DataFrame], list[Row]]]]:
    """Return the session, or a new one that ends with the export, and the function that collects in it."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession() if isinstance(spark, str) else spark
    if active is not None:
        yield active, lambda frame: frame.collect()
        return
    master = str(spark)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("kafkalog export")
    settings = {
        # All slots are busy in an export, and then unix sockets are up to 1.5 times as fast as TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        # Failures are raised.
        "spark.log.level": "OFF",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    own = builder.getOrCreate()
    try:
        yield own, _collect_in_thread
    finally:
        own.stop()
