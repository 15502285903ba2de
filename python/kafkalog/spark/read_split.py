"""Code that runs in a task: one split becomes record batches of exactly the declared schema.

A worker imports this after it was forked, so it imports little: no pyspark, and pyarrow only when there are rows.
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

_log = logging.getLogger("kafkalog.spark")


def read_split(
    split: Split, schema: pa.Schema | None = None, report: Callable[[dict[str, int]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Read one split."""
    if not split.ranges:
        return
    from kafkalog.spark.pyspark_private import batch_flusher, freeze_imports

    flush = batch_flusher()
    with closing(_decoded(split, schema, report)) as batches:
        for batch in batches:
            yield batch
            # The consumer has written this batch when it asks for the next one.
            flush()
    freeze_imports()


def _decoded(
    split: Split, schema: pa.Schema | None, report: Callable[[dict[str, int]], None] | None
) -> Generator[pa.RecordBatch, None, None]:
    import pyarrow as pa

    from kafkalog import _core
    from kafkalog.options import decode_arguments
    from kafkalog.reader import lost_table
    from kafkalog.spark.option_names import naming_options
    from kafkalog.spark.pyspark_private import log_info

    stream = _core.scan_ranges(list(split.ranges), decoding=split.decoding, **decode_arguments(split.read))
    schema = schema or split_schema(split)
    spent, begun = 0, time.perf_counter_ns()
    try:
        for batch in pa.RecordBatchReader.from_stream(stream):
            spent += time.perf_counter_ns() - begun
            if batch.num_rows:
                yield conform(batch, schema)
            begun = time.perf_counter_ns()
        metrics = stream.metrics()
        if report is not None:
            report({**metrics, "splits": 1, "nanoseconds": spent + time.perf_counter_ns() - begun})
        # Spark 4.1 keeps what tasks log if spark.sql.pyspark.worker.logging.enabled is set; it has no metrics for us.
        log_info(_log, "read %s", metrics)
        if lost := metrics["segments_lost"]:
            _report_lost(split, lost)
        if metrics["lost"]:
            for row in lost_table(stream).to_pylist():
                _log.warning("kafkalog: skipped as damaged: %s", row)
    except (OSError, pa.ArrowException) as error:
        # A C stream carries text only; ours keeps the exception, with path and position.
        found = stream.error() or error
        with naming_options():
            raise found from None
    finally:
        stream.close()


def split_schema(split: Split) -> pa.Schema:
    """Return the schema of the rows of a split."""
    from kafkalog.spark.columns import arrow_schema

    if split.decoding is None:
        return arrow_schema(split.columns)
    from kafkalog.spark.decoded import spark_schema, stream_schema

    return spark_schema(stream_schema(split, split.decoding))


def _report_lost(split: Split, lost: int) -> None:
    from kafkalog.spark.topics import report_data_loss

    folders = ", ".join(each.folder for each in split.ranges[:3])
    report_data_loss(
        f"{lost} of {split.segments} planned segments were deleted before they were read, in {folders}",
        fail=split.fail_on_data_loss,
        path=split.ranges[0].folder,
    )


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the schema; this copies only columns of types that Spark does not have."""
    if batch.schema.equals(schema):
        return batch
    import pyarrow as pa

    from kafkalog.spark.decoded import converted

    arrays = [converted(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
