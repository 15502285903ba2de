"""The stream behind ``readStream.format("kafkalog")``: one reader in a process of the driver, tasks as in a batch.

Spark 4.2 hands a batch's start and its limit to ``latestOffset``; 4.0 and 4.1 hand nothing, so that there no limit of a
trigger is possible. Nothing is kept between calls that a restart would need: what was read is in the checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from kafkalog.spark import progress
from kafkalog.spark.batch import Rows, SplitPartition, rows_of
from kafkalog.spark.options import ReadOptions, parse
from kafkalog.spark.planning import splits_of
from kafkalog.spark.ranges import report_missing

try:
    from pyspark.sql.streaming import datasource as _limits
except ImportError:  # before Spark 4.2
    _limits = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    Offsets = Mapping[str, Mapping[str, int]]

__all__ = ["StreamReader", "make_stream_reader", "stream_reader"]


class StreamReader(DataSourceStreamReader):
    """A stream of the log dirs' new records."""

    def __init__(self, options: ReadOptions, rows: Rows) -> None:
        self.options = options
        self.rows = rows
        self._initial: dict[str, dict[str, int]] | None = None
        self._latest: dict[str, dict[str, int]] | None = None
        # The end of the last batch that was chosen here.
        self._chosen: dict[str, dict[str, int]] | None = None
        self._is_bounded = False
        # What Trigger.AvailableNow ends with.
        self._last: progress.Progress | None = None
        self._triggered: float | None = None

    def initialOffset(self) -> dict[str, dict[str, int]]:  # noqa: N802 - PySpark's own name for it
        """Resolve where a new query starts; Spark asks more than once."""
        if self._initial is None:
            self._initial = progress.to_json(progress.initial(self.options))
        return self._initial

    def latestOffset(self, start: Offsets | None = None, limit: Any = None) -> dict[str, dict[str, int]]:  # noqa: N802
        """Choose where the next batch ends."""
        self._chosen = self._choose(start, limit)
        return self._chosen

    def _choose(self, start: Offsets | None, limit: Any) -> dict[str, dict[str, int]]:
        if start is None:
            # Older Sparks ask where a new query starts only when they have its end. What is wrong with the start is
            # told when they ask; behind a checkpoint they do not.
            with contextlib.suppress(ValueError):
                self.initialOffset()
        begin = progress.from_json(start or {})
        latest = self._last if self._last is not None else progress.available(self.options, begin)
        if self._is_bounded:
            self._last = latest
        if self._latest is None and start is not None and start == self._initial:
            # A batch that is done again is to have the same rows, though where it began is in no checkpoint.
            latest = {**latest, **progress.at_latest(self.options, begin)}
        if self._latest is None:
            # What this query has read of and is gone is told with the batch that it is missing from.
            report_missing(self.options, begin.keys() | latest.keys())
        self._latest = progress.to_json(latest)
        if limit is None or isinstance(limit, _limits.ReadAllAvailable):
            return self._latest
        if self._is_delayed(begin, latest):
            return progress.to_json(begin)
        most = getattr(limit, "max_rows", self.options.max_offsets_per_trigger)
        if most is None:
            return self._latest
        return progress.to_json(progress.rate_limited(most, begin, latest, self.options))

    def _is_delayed(self, begin: progress.Progress, latest: progress.Progress) -> bool:
        """Hold back a batch that is too small, unless the last one was long ago."""
        least, now = self.options.min_offsets_per_trigger, time.monotonic()
        # With an end to reach, waiting for more would be in vain.
        if least is None or self._is_bounded:
            return False
        waited = self._triggered is None or (now - self._triggered) * 1000 >= self.options.max_trigger_delay_ms
        if not waited and progress.delayed(least, begin, latest):
            return True
        self._triggered = now
        return False

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Tell Spark which limit to hand to ``latestOffset``."""
        if self.options.max_offsets_per_trigger is not None:
            return _limits.ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return _limits.ReadMinRows(self.options.min_offsets_per_trigger)
        return _limits.ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Tell how far there was something when a batch was chosen last."""
        return self._latest or None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the first ``latestOffset`` settle what the query ends with: not before it is known where it starts."""
        self._is_bounded = True

    def partitions(self, start: Offsets, end: Offsets) -> list[SplitPartition]:
        """Plan a batch."""
        reached = progress.from_json(end)
        # A batch that is done again was chosen by another run.
        if self._last is not None:
            progress.verify_there(self.options, reached)
        begin = progress.from_json(start)
        if start == self._initial and end != self._chosen:
            begin = progress.began(self.options, begin, reached)
        ranges = progress.plan_batch(self.options, begin, reached)
        return [SplitPartition(split) for split in splits_of(ranges, self.options, os.cpu_count() or 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, in the task."""
        return self.rows.read(partition)


if _limits is not None:

    class _LimitedStreamReader(StreamReader, _limits.SupportsTriggerAvailableNow):
        """A stream reader for Spark 4.2 and newer."""


class _Refusal(DataSourceStreamReader):
    """Says in its first call what is wrong: where a reader cannot be made, PySpark 4.3 fails over that it has none."""

    def __init__(self, error: ValueError | OSError) -> None:
        self.error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Say it; older Sparks ask for the end first."""
        raise self.error

    def latestOffset(self, *_: Any) -> dict[str, Any]:  # noqa: N802
        """Say it."""
        raise self.error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - there are none
        """Say it."""
        raise self.error


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Make the reader of a stream for a schema, or one whose first call says what is wrong with the options."""
    try:
        return make_stream_reader(options, schema)
    except (ValueError, OSError) as error:
        return _Refusal(error)


def make_stream_reader(options: Mapping[str, str], schema: StructType) -> StreamReader:
    """Make the reader of a stream for a schema.

    Raises
    ------
    ValueError
        For options that make no sense, and columns that do not exist or have another type.
    """
    made = rows_of(schema)
    asked = replace(parse(options, "stream"), columns=made.columns)
    if _limits is not None:
        return _LimitedStreamReader(asked, made)
    for name, value in (
        ("maxOffsetsPerTrigger", asked.max_offsets_per_trigger),
        ("minOffsetsPerTrigger", asked.min_offsets_per_trigger),
    ):
        if value is not None:
            raise ValueError(f"option {name} needs Spark 4.2: older ones hand a Python source no limit")
    return StreamReader(asked, made)
