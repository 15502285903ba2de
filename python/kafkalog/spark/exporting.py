"""``kafkalog export --spark``: a whole directory as files, written by Spark's own sinks or, for Arrow, by its tasks."""

from __future__ import annotations

import builtins
import errno
import os
import re
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FORMATS", "export"]

FORMATS = ("parquet", "arrow", "jsonl", "csv")
_SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "jsonl": ".json", "csv": ".csv"}


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
        A directory that does not exist yet.
    format : {"parquet", "arrow", "jsonl", "csv"}
        In JSON and CSV keys and values are base64; CSV leaves headers out.
    **selection
        Options of ``read``; the default columns are the seven of Spark's Kafka source and ``headers``.

    Returns
    -------
    dict
        ``out``, ``format``, ``rows``, ``files``, ``bytes`` (of the files), ``tasks`` and ``log_bytes`` (read).

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

    from kafkalog.spark.columns import ddl
    from kafkalog.spark.map_in_arrow import read_splits
    from kafkalog.spark.options import parse
    from kafkalog.spark.planning import frame_of, plan_splits, slots

    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; there are {', '.join(FORMATS)}")
    target = Path(out).absolute()
    if target.exists() or target.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    if "columns" not in selection:
        selection.setdefault("includeHeaders", format != "csv")
    # An empty partition is no mistake of someone who wants everything since some time.
    selection.setdefault("startingOffsetsByTimestampStrategy", "latest")
    options = parse({"path": path, **selection})
    if format == "csv" and "headers" in options.columns:
        raise ValueError("CSV has no place for headers; choose columns, or another format")
    with _session(spark_master) as spark:
        splits = plan_splits(options, slots(spark))
        tasks = frame_of(spark, splits)
        try:
            if format == "arrow":
                rows = _write_arrow(tasks, options.columns, target)
            else:
                rows = _write(tasks.mapInArrow(read_splits, ddl(options.columns)), target, format)
        except PySparkException as error:
            raise _of_core(error) from error
    files = [file for file in target.iterdir() if file.name.endswith(_SUFFIXES[format])]
    return {
        "out": str(target),
        "format": format,
        "rows": rows,
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "tasks": len(splits),
        "log_bytes": sum(split.bytes for split in splits),
    }


def _of_core(error: Exception) -> Exception:
    """Give the exception that a task died of, where Spark's text of it names one of ours or an I/O failure."""
    found = re.findall(r"^(?:kafkalog\.errors\.)?(\w+Error): (.+)$", str(error), re.MULTILINE)
    name, message = found[-1] if found else ("", "")
    if name in errors.__all__:
        raised: Exception = getattr(errors, name)(message)
        return raised
    kind = getattr(builtins, name, None)
    return OSError(message) if isinstance(kind, type) and issubclass(kind, OSError) else error


@contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    """Use the session that is there, or one of our own that ends with the export."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
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
        yield spark
    finally:
        spark.stop()


def _write(frame: DataFrame, target: Path, format: str) -> int:  # noqa: A002 - as above
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

    counted = Observation("rows")
    frame = frame.observe(counted, F.count(F.lit(1)).alias("rows"))
    text = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "timeZone": "UTC"}
    if format == "csv":
        binary = {name for name, kind in frame.dtypes if kind == "binary"}
        frame = frame.select([F.base64(name).alias(name) if name in binary else F.col(name) for name in frame.columns])
        frame.write.options(header="true", **text).csv(str(target))
    elif format == "jsonl":
        frame.write.options(ignoreNullFields="false", **text).json(str(target))
    else:
        with _conf(frame.sparkSession, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"):
            frame.write.parquet(str(target))
    return int(counted.get["rows"])


@contextmanager
def _conf(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set what has no option; Spark's own default for Parquet is the deprecated INT96, which has no time zone."""
    before = str(spark.conf.get(name))
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def _write_arrow(tasks: DataFrame, columns: tuple[str, ...], target: Path) -> int:
    """Let every task write one IPC file under a name of its own attempt; the driver keeps those that count."""
    target.mkdir(parents=True)
    written = tasks.mapInArrow(partial(_arrow_file, target, columns), "split int, name string, rows bigint").collect()
    kept = {each["name"]: f"part-{each['split']:05d}.arrow" for each in written}
    for file in list(target.iterdir()):
        if file.name in kept:
            file.rename(target / kept[file.name])
        else:
            file.unlink(missing_ok=True)
    return sum(each["rows"] for each in written)


def _arrow_file(target: Path, columns: tuple[str, ...], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import uuid

    import pyarrow as pa

    from kafkalog.spark.columns import arrow_schema
    from kafkalog.spark.rows import rows
    from kafkalog.spark.split import Split

    for batch in batches:
        for number, task in zip(batch.column("split"), batch.column("task"), strict=True):
            name, count = f".{uuid.uuid4().hex}.arrow.tmp", 0
            with (
                pa.OSFile(str(target / name), "wb") as file,
                pa.ipc.new_file(file, arrow_schema(columns)) as writer,
            ):
                for each in rows(Split.from_json(str(task.as_py()))):
                    writer.write_batch(each)
                    count += each.num_rows
            yield pa.RecordBatch.from_arrays(
                [pa.array([number.as_py()], pa.int32()), pa.array([name]), pa.array([count], pa.int64())],
                names=["split", "name", "rows"],
            )
