"""``kafkalog export --spark``: a whole directory as files that the tasks write themselves.

No record crosses to the JVM: a task gives the names of its files and how many rows are in them. Files are written into
a hidden folder beside the target, under names of the attempt's own; when all are there, those that count get their
final names in a folder that becomes the target in one step.
"""

from __future__ import annotations

import builtins
import errno
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

from kafkalog import errors
from kafkalog._export import SUFFIXES, Files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["FORMATS", "export"]

FORMATS = tuple(SUFFIXES)
# Held by the driver for as long as it lives.
_LOCK = "lock"
# What a task gives the driver for a split.
_TELLS = "split int, name string, rows bigint, bytes bigint, metrics string"


def export(
    spark_master: str,
    path: Any,
    out: str | os.PathLike[str],
    format: str = "parquet",  # noqa: A002 - the option's name
    **selection: Any,
) -> dict[str, Any]:
    """Write what a path holds as a directory of files, through Spark.

    Parameters
    ----------
    spark_master : str
        For instance ``local[*]``. A session that is already there is used whatever its master.
    path : str, PathLike or list of them
        As for ``read``.
    out : str or PathLike
        A directory that does not exist yet, on a file system that driver and executors share.
    format : {"parquet", "arrow", "jsonl", "csv"}
        In JSON and CSV keys and values are base64; CSV leaves headers out.
    **selection
        Options of ``read``; the default columns are the seven of Spark's Kafka source and ``headers``.

    Returns
    -------
    dict
        ``out``, ``format``, ``rows``, ``files``, ``bytes`` (of the files), ``tasks``, ``log_bytes`` (planned), and
        ``metrics``, which is what ``totals`` has for a read.

    Raises
    ------
    FileExistsError
        When ``out`` exists.
    ValueError
        For an unknown format or option.
    KafkaLogError
        When a task came upon damage; its message names the file and the byte.
    """
    from pyspark.errors import PySparkException

    from kafkalog.spark.names import by_known_name
    from kafkalog.spark.options import parse
    from kafkalog.spark.planning import frame_of, plan_splits, slots
    from kafkalog.spark.summing import add

    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; there are {', '.join(FORMATS)}")
    target = Path(out).absolute()
    _keep_free(target)
    asked = by_known_name(selection, None)
    # An empty partition is no mistake of someone who wants everything since some time.
    usual: dict[str, Any] = {"startingOffsetsByTimestampStrategy": "latest"}
    if "columns" not in asked:
        usual["includeHeaders"] = format != "csv"
    options = parse({"path": path, **selection, **{name: usual[name] for name in usual.keys() - asked}})
    if format == "csv" and "headers" in options.columns:
        raise ValueError("CSV has no place for headers; choose columns, or another format")
    with _session(spark_master) as (spark, collect):
        splits = plan_splits(options, slots(spark))
        tasks = frame_of(spark, splits)
        with _staged(target) as staging:
            write = partial(_written, str(staging), format)
            try:
                written = collect(tasks.mapInArrow(write, _TELLS))
            except PySparkException as error:
                raise _of_core(error) from error
            _publish(staging, target, {each["name"]: f"part-{each['split']:05d}{SUFFIXES[format]}" for each in written})
    metrics: dict[str, int] = {}
    for each in written:
        add(metrics, json.loads(each["metrics"]))
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
    """Make the folder that the tasks write to; whatever happens, it is not there afterwards.

    Who is killed leaves it: the next export to the same target removes what nobody holds a lock on.
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
            # Tasks may run on for a moment; under its new name they do not find it.
            gone = _hidden(target)
            with suppress(FileNotFoundError):
                staging.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)


def _hidden(target: Path) -> Path:
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")


def _sweep(target: Path) -> None:
    import fcntl

    for left in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 32}.tmp"):
        with suppress(OSError), (left / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


def _keep_free(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _publish(staging: Path, target: Path, kept: dict[str, str]) -> None:
    """Give what counts its names in a folder of its own, and that the target's.

    Attempts that count for nothing may still write: they know the other folder alone.
    """
    whole = staging / "whole"
    whole.mkdir()
    for name, final in kept.items():
        (staging / name).rename(whole / final)
    _keep_free(target)
    whole.rename(target)


def _written(staging: str, form: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write a file for each split, and tell of it."""
    import pyarrow as pa

    from kafkalog.spark.columns import arrow_schema
    from kafkalog.spark.map_in_arrow import numbered_splits
    from kafkalog.spark.rows import rows

    files = Files(form, overwrite=False, text=False)
    for number, split in numbered_splits(batches):
        name = f"{uuid.uuid4().hex}{SUFFIXES[form]}"
        told: dict[str, int] = {}
        count = files.write(Path(staging) / name, arrow_schema(split.scan.columns), rows(split, told=told.update))
        size = (Path(staging) / name).stat().st_size
        columns: list[pa.Array[Any]] = [pa.array([number], pa.int32()), pa.array([name])]
        columns += [pa.array([count], pa.int64()), pa.array([size], pa.int64()), pa.array([json.dumps(told)])]
        yield pa.RecordBatch.from_arrays(columns, names=["split", "name", "rows", "bytes", "metrics"])


def _of_core(error: Exception) -> Exception:
    """Give the exception that a task died of, where Spark's text of it names one of ours or an I/O failure."""
    found = re.findall(r"^(?:kafkalog\.errors\.)?(\w+Error): (.+)$", str(error), re.MULTILINE)
    name, message = found[-1] if found else ("", "")
    if name in errors.__all__:
        raised: Exception = getattr(errors, name)(message)
        return raised
    kind = getattr(builtins, name, None)
    return OSError(message) if isinstance(kind, type) and issubclass(kind, OSError) else error


def _collected(frame: DataFrame) -> list[Row]:
    """Run what has a session of our own in another thread.

    A signal's exception would come out of the middle of a call to the JVM, whose answer the next call would then take
    for its own. Each thread has a connection of its own.
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
def _session(master: str) -> Iterator[tuple[SparkSession, Callable[[DataFrame], list[Row]]]]:
    """Use the session that is there, or one of our own that ends with the export; and what runs a frame in it."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active, lambda frame: frame.collect()
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("kafkalog export")
    settings = {
        # All slots are busy here, and then unix sockets carry up to half as much again as TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
        # What fails is raised.
        "spark.log.level": "OFF",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark, _collected
    finally:
        spark.stop()
