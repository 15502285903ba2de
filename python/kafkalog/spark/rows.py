"""What runs in a task: one split becomes record batches of exactly the declared schema.

A worker imports this after it was forked, so it stays light: no pyspark, pyarrow only when there is a row to make.
"""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from kafkalog.spark.split import Split

__all__ = ["rows"]

_log = logging.getLogger("kafkalog.spark")


def rows(
    split: Split, schema: pa.Schema | None = None, told: Callable[[dict[str, int]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read one split.

    Parameters
    ----------
    split : Split
        What to read; the same rows come out at every attempt.
    schema : pyarrow.Schema, optional
        Spelling and nullability of the columns where they are not the usual ones.
    told : callable, optional
        Gets what was done, when all was read.

    Yields
    ------
    pyarrow.RecordBatch
        Never an empty one.
    """
    if not split.ranges:
        return
    from kafkalog.spark.pipe import flush_of_pipe
    from kafkalog.spark.worker import settle

    flush = flush_of_pipe()
    with closing(_made(split, schema, told)) as made:
        for batch in made:
            yield batch
            # Whoever asks for the next one has written this one.
            flush()
    settle()


def _made(
    split: Split, schema: pa.Schema | None, told: Callable[[dict[str, int]], None] | None
) -> Generator[pa.RecordBatch, None, None]:
    made = _decoded(split, schema, told)
    if not split.scan.decode_ahead:
        return made
    from kafkalog.spark.ahead import ahead, has_room

    return ahead(made) if has_room() else made


def _decoded(
    split: Split, schema: pa.Schema | None, told: Callable[[dict[str, int]], None] | None
) -> Generator[pa.RecordBatch, None, None]:
    import pyarrow as pa

    from kafkalog import _core
    from kafkalog.spark.columns import arrow_schema
    from kafkalog.spark.worker import tell

    scan = split.scan
    stream = _core.scan_ranges(
        list(split.ranges),
        columns=list(scan.columns),
        include_control=scan.include_control,
        check_crcs=scan.check_crcs,
        layout="binary",
        timestamp_unit="us",
        batch_rows=scan.batch_rows,
        batch_bytes=scan.batch_bytes,
    )
    schema = schema or arrow_schema(scan.columns)
    spent, begun = 0, time.perf_counter_ns()
    try:
        for batch in pa.RecordBatchReader.from_stream(stream):
            spent += time.perf_counter_ns() - begun
            if batch.num_rows:
                yield conform(batch, schema)
            begun = time.perf_counter_ns()
        metrics = stream.metrics()
        if told is not None:
            told({**metrics, "splits": 1, "nanoseconds": spent + time.perf_counter_ns() - begun})
        # Spark 4.1 keeps what tasks log, where spark.sql.pyspark.worker.logging.enabled is on; it takes no numbers.
        tell(_log, "read %s", metrics)
        if lost := metrics["segments_lost"]:
            _report_lost(split, lost)
    except (OSError, pa.ArrowException) as error:
        # What crosses the C stream is text; the stream remembers the exception with path and position.
        raise stream.error() or error from None
    finally:
        stream.close()


def _report_lost(split: Split, lost: int) -> None:
    from kafkalog.spark.loss import report

    folders = ", ".join(folder for folder, *_ in split.ranges[:3])
    report(
        f"{lost} of {split.segments} planned segments were deleted before they were read, in {folders}",
        fail=split.scan.fail_on_data_loss,
        path=split.ranges[0][0],
    )


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give the batch the schema; copies nothing but a column whose type Spark does not have (crc)."""
    if batch.schema.equals(schema):
        return batch
    import pyarrow as pa

    arrays = [
        array if array.type.equals(field.type) else array.cast(field.type)
        for array, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
