"""Counting records by the headers of their batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog import _core
from kafkalog.reader import RecordReader

if TYPE_CHECKING:
    from kafkalog._core import PartitionRange
    from kafkalog.engines.source import Metrics
    from kafkalog.options import ReadOptions

_INT64_MAX = (1 << 63) - 1


def count(ranges: list[PartitionRange], options: ReadOptions, metrics: Metrics) -> tuple[int, list[PartitionRange]]:
    """Count the records of ranges, as far as headers show.

    They tell how many records a batch of v2 holds; not which of them lie within bounds of time or of offsets, nor how
    many an older batch holds, nor what was aborted or is damaged.
    """
    if (
        options.latest_per_key
        or options.is_search
        or options.on_corrupt != "raise"
        or options.isolation_level != "read_uncommitted"
    ):
        return 0, ranges
    found, rest = 0, []
    for each in ranges:
        if each.min_timestamp is not None or each.max_timestamp is not None:
            rest.append(each)
            continue
        counted = _Counted(each, include_control=options.include_control)
        with RecordReader(_core.scan_batch_ranges([each], check_crcs=False)) as reader:
            if all(map(counted.add, reader)):
                found += counted.records
                rest += counted.borders()
            else:
                rest.append(each)
            metrics.add({name: number for name, number in reader.metrics.items() if name in {"bytes", "segments"}})
    return found, rest


class _Counted:
    """The records of the batches that lie within a range as a whole."""

    def __init__(self, planned: PartitionRange, *, include_control: bool) -> None:
        self.records = 0
        self._planned = planned
        self._include_control = include_control
        self._start = planned.start_offset
        self._end = _INT64_MAX if planned.end_offset is None else planned.end_offset
        # The offsets that they span.
        self._first: int | None = None
        self._after = self._start
        self._is_cut = False

    def add(self, batch: pa.RecordBatch) -> bool:
        """Count more batches; False if the header of one does not say how many records it holds."""
        if batch.column("count").null_count:
            return False
        first: Any = batch.column("baseOffset")
        last: Any = batch.column("lastOffset")
        within: Any = pc.and_(pc.greater_equal(first, pa.scalar(self._start)), pc.less(last, pa.scalar(self._end)))
        whole = batch.filter(within)
        if whole.num_rows:
            if self._first is None:
                self._first = whole.column("baseOffset")[0].as_py()
            self._after = whole.column("lastOffset")[-1].as_py() + 1
        self._is_cut = self._is_cut or whole.num_rows < batch.num_rows
        if not self._include_control:
            whole = whole.filter(pc.invert(whole.column("isControl")))
        self.records += pc.sum(whole.column("count")).as_py() or 0
        return True

    def borders(self) -> list[PartitionRange]:
        """Return the parts of the range before and after them, into which a batch reaches."""
        if not self._is_cut:
            return []
        first = self._after if self._first is None else self._first
        parts = _core.divide(self._planned, [first, self._after])
        return [part for part in parts if not first <= part.start_offset < self._after]
