"""Streams of ``readStream.format("kafkalog")``: one reader in a process of the driver, tasks as in a batch.

Spark 4.2 passes a batch's start and limit to ``latestOffset``. 4.0 and 4.1 pass nothing, so triggers have no limits
there. A restart needs nothing that is kept between calls: the checkpoint has the offsets that were read.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from kafkalog.spark import stream_offsets
from kafkalog.spark.data_source import RowSchema, SplitPartition, row_schema
from kafkalog.spark.decoded import current
from kafkalog.spark.planner import splits_of
from kafkalog.spark.source_options import SourceOptions, parse
from kafkalog.spark.topics import report_missing

try:
    from pyspark.sql.streaming import datasource as _limits
except ImportError:  # before Spark 4.2
    _limits = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from kafkalog.spark.stream_offsets import StreamOffsets

    JsonOffsets = Mapping[str, Mapping[str, int]]


class StreamReader(DataSourceStreamReader):
    """A stream of the log dirs' new records."""

    def __init__(self, options: SourceOptions, rows: RowSchema) -> None:
        self.options = options
        self.rows = rows
        self._initial: dict[str, dict[str, int]] | None = None
        self._latest: dict[str, dict[str, int]] | None = None
        # The end of the last batch that this reader chose.
        self._chosen: dict[str, dict[str, int]] | None = None
        self._is_bounded = False
        # The end of a query with Trigger.AvailableNow.
        self._last: StreamOffsets | None = None
        self._triggered: float | None = None

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - PySpark's own name for it
        """Resolve the start of a new query; Spark calls this more than once."""
        if self._initial is None:
            self._initial = stream_offsets.to_json(stream_offsets.initial(self.options))
        return self._initial

    def latestOffset(self, start: JsonOffsets | None = None, limit: Any = None) -> dict[str, dict[str, int]]:  # noqa: N802
        """Choose the end of the next batch."""
        self._chosen = self._choose(start, limit)
        return self._chosen

    def _choose(self, start: JsonOffsets | None, limit: Any) -> dict[str, dict[str, int]]:
        if start is None:
            # Before Spark 4.2 the start of a new query is requested after the end of its first batch. An error of the
            # start is raised then; with a checkpoint it never is.
            with contextlib.suppress(ValueError):
                self.initialOffset()
        begin = stream_offsets.from_json(start or {})
        latest = self._last if self._last is not None else stream_offsets.available(self.options, begin)
        if self._is_bounded:
            self._last = latest
        if self._latest is None and start is not None and start == self._initial:
            # A first batch that runs again must have the same rows, though no checkpoint has its start.
            latest = {**latest, **stream_offsets.at_latest(self.options, begin)}
        if self._latest is None:
            # Partitions that this query has read and that are gone are reported with the batch that lacks them.
            report_missing(self.options, begin.keys() | latest.keys())
        self._latest = stream_offsets.to_json(latest)
        if limit is None or isinstance(limit, _limits.ReadAllAvailable):
            return self._latest
        if self._must_wait(begin, latest):
            return stream_offsets.to_json(begin)
        most = getattr(limit, "max_rows", self.options.max_offsets_per_trigger)
        if most is None:
            return self._latest
        return stream_offsets.to_json(stream_offsets.rate_limited(most, begin, latest, self.options))

    def _must_wait(self, begin: StreamOffsets, latest: StreamOffsets) -> bool:
        """Tell whether to delay a batch that is too small; not if the last one was long ago."""
        least, now = self.options.min_offsets_per_trigger, time.monotonic()
        # A query with an end gets nothing more by waiting.
        if least is None or self._is_bounded:
            return False
        is_due = self._triggered is None or (now - self._triggered) * 1000 >= self.options.max_trigger_delay_ms
        if not is_due and stream_offsets.is_delayed(least, begin, latest):
            return True
        self._triggered = now
        return False

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit that Spark passes to ``latestOffset``."""
        if self.options.max_offsets_per_trigger is not None:
            return _limits.ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return _limits.ReadMinRows(self.options.min_offsets_per_trigger)
        return _limits.ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Return the ends of the partitions when the last batch was chosen."""
        return self._latest or None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Have the first ``latestOffset`` set the end of the query; before it, the start is not known."""
        self._is_bounded = True

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[SplitPartition]:
        """Plan a batch."""
        last = stream_offsets.from_json(end)
        # A batch that runs again was chosen by an earlier run.
        if self._last is not None:
            stream_offsets.verify_available(self.options, last)
        begin = stream_offsets.from_json(start)
        if start == self._initial and end != self._chosen:
            begin = stream_offsets.restarted(self.options, begin, last)
        ranges = stream_offsets.plan_batch(self.options, begin, last)
        options, decoding = self.options, self.rows.decoding
        if decoding is not None:
            newest = current(decoding, options)
            # Schemas that were registered since the stream began travel with its batches.
            options = replace(options, decoding=newest if newest.to_json() != decoding.to_json() else None)
        return [SplitPartition(split) for split in splits_of(ranges, options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in the task."""
        return self.rows.read(partition)


if _limits is not None:

    class _LimitedStreamReader(StreamReader, _limits.SupportsTriggerAvailableNow):
        """A stream reader for Spark 4.2 and newer."""


class _FailedStreamReader(DataSourceStreamReader):
    """Raises an error in its first call: PySpark 4.3 hides the errors of ``DataSource.streamReader``."""

    def __init__(self, error: ValueError | OSError) -> None:
        self.error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raise; from Spark 4.2 this is the first call."""
        raise self.error

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        """Raise."""
        raise self.error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - there are none
        """Raise."""
        raise self.error


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Create the reader of a stream for a schema; errors of the options are raised by its first call."""
    try:
        return make_stream_reader(options, schema)
    except (ValueError, OSError) as error:
        return _FailedStreamReader(error)


def make_stream_reader(options: Mapping[str, str], schema: StructType) -> StreamReader:
    """Create the reader of a stream for a schema."""
    parsed = parse(options, "stream")
    rows = row_schema(schema, parsed)
    parsed = parsed.with_columns(rows.columns)
    if _limits is not None:
        return _LimitedStreamReader(parsed, rows)
    for name, value in (
        ("maxOffsetsPerTrigger", parsed.max_offsets_per_trigger),
        ("minOffsetsPerTrigger", parsed.min_offsets_per_trigger),
    ):
        if value is not None:
            raise ValueError(f"option {name} needs Spark 4.2: older versions pass no limit to a Python data source")
    return StreamReader(parsed, rows)
