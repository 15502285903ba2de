"""Figures of batches, from their headers: sizes, time line, gaps, times that are in the future or out of order.

Of each codec some batches are decompressed for its ratio; nothing else of a batch is read but its header.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from kafkalog import _core
from kafkalog._arguments import INT64_MAX
from kafkalog._times import with_millis
from kafkalog.errors import KafkaLogError
from kafkalog.log import PartitionLog
from kafkalog.reader import RecordReader
from kafkalog.report.model import BatchFigures, CodecFigures, SizeClass, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog._core import PartitionRange

OnCorrupt: TypeAlias = Literal["raise", "skip"]

_COLUMNS = (
    *("topic", "partition", "baseOffset", "lastOffset", "count", "deleteHorizonMs"),
    *("baseTimestamp", "maxTimestamp", "timestampType", "size", "magic", "compression"),
)
_LOG_APPEND_TIME = 1
# Of one topic and codec; larger ones are not decompressed.
_MOST_SAMPLED, _MOST_KEPT, _LARGEST_SAMPLED = 6, 64, 1 << 20
# Magic 2: what is not compressed.
_HEADER, _MAGIC_2 = 61, 2
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(1, 10, 100, _SECOND, 5 * _SECOND, 15 * _SECOND, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, _HOUR, 3 * _HOUR, 6 * _HOUR),
    *(12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 56 * _DAY, 112 * _DAY, 364 * _DAY),
)
_MOST_STEPS = 60
# Earlier ones are no times: Kafka is of 2011. Timestamps in seconds look so.
_YEAR_2000 = 946_684_800_000


class _Sample(NamedTuple):
    """A compressed batch."""

    topic: str
    partition: int
    base_offset: int
    last_offset: int
    size: int
    magic: int


def timeline_for(least: int | None, most: int | None, now: int) -> Timeline | None:
    """Return the steps of a time line from one timestamp to another, without those that are no times."""
    if least is None or most is None:
        return None
    most = most if least > now else min(most, now)
    least = max(least, min(_YEAR_2000, most))
    step = next((each for each in _STEPS if most // each - least // each < _MOST_STEPS), None)
    if step is None:
        # Farther than the years of all logs: timestamps in microseconds, for instance.
        step = (most - least) // (_MOST_STEPS - 1) + 1
    steps = most // step - least // step + 1
    return Timeline(least // step * step, step, [0] * steps, [0] * steps)


def _compute() -> Any:
    """Return the functions of pyarrow, whose stubs know some of what they take."""
    import pyarrow.compute as pc

    return pc


class BatchSums:
    """Adds up the batches of a topic, or of several, that come partition by partition."""

    def __init__(self, timeline: Timeline | None, now: int) -> None:
        self._figures = BatchFigures(timeline=timeline)
        self._now = now
        self._last: Any = None
        self._sizes: dict[int, list[int]] = {}
        self._codecs: dict[str, list[int]] = {}
        self._samples: dict[str, list[_Sample]] = {}

    def read(self, ranges: list[PartitionRange], seen: Callable[[int], object]) -> None:
        """Add the batches of these ranges; ``seen`` gets the bytes of each chunk."""
        before = deepcopy(vars(self))
        try:
            self._read(ranges, "raise", seen)
        except KafkaLogError:
            vars(self).update(before)
            if len(ranges) > 1:
                for each in ranges:
                    self.read([each], seen)
            else:
                # As ``stats`` does: only where a header is damaged, what is around it.
                self._read(ranges, "skip", seen)

    def _read(self, ranges: list[PartitionRange], on_corrupt: OnCorrupt, seen: Callable[[int], object]) -> None:
        import pyarrow as pa

        reader = RecordReader(_core.scan_batch_ranges(ranges, check_crcs=False, on_corrupt=on_corrupt))
        with reader:
            for batch in reader:
                before = self._figures.bytes
                self.add(with_millis(pa.table(batch.select(list(_COLUMNS)))))
                seen(self._figures.bytes - before)

    def add(self, batches: Any) -> None:
        """Add batches in the order of the log, with times in milliseconds."""
        pc: Any = _compute()

        if not batches.num_rows:
            return
        figures = self._figures
        counts = pc.fill_null(batches["count"], 0)
        figures.batches += batches.num_rows
        figures.records += pc.sum(counts).as_py()
        figures.bytes += pc.sum(batches["size"]).as_py()
        bounds: Any = pc.min_max(batches["size"]).as_py()
        figures.smallest = min(bounds["min"], figures.smallest or bounds["min"])
        figures.largest = max(bounds["max"], figures.largest or 0)
        # A batch of magic 0 or 1 does not say how many records it has.
        spans = pc.add(pc.subtract(batches["lastOffset"], batches["baseOffset"]), 1)
        figures.holes += pc.sum(pc.subtract(spans, batches["count"])).as_py() or 0
        self._add_sizes(batches)
        self._add_times(batches, counts)
        self._add_neighbours(batches)
        self._add_codecs(batches)

    def _add_sizes(self, batches: Any) -> None:
        import pyarrow as pa

        pc: Any = _compute()

        powers = pc.floor(pc.log2(batches["size"])).cast(pa.int32())
        sums = pa.table({"power": powers, "size": batches["size"]}).group_by("power")
        for row in sums.aggregate([("size", "count"), ("size", "sum")]).to_pylist():
            kept = self._sizes.setdefault(row["power"], [0, 0])
            kept[0] += row["size_count"]
            kept[1] += row["size_sum"]

    def _add_times(self, batches: Any, counts: Any) -> None:
        """Add what is at which time: that of a batch is its largest timestamp, by which retention goes, too."""
        import pyarrow as pa

        pc: Any = _compute()

        figures, times = self._figures, batches["maxTimestamp"]
        latest = pc.max(times).as_py()
        if latest >= 0:
            figures.latest_timestamp = max(latest, figures.latest_timestamp or 0)
        is_future = pc.greater(times, self._now)
        figures.future_batches += pc.sum(is_future).as_py() or 0
        line = figures.timeline
        if line is None:
            return
        end = min(line.start + line.step_ms * len(line.bytes), INT64_MAX)
        steps = pc.divide(pc.subtract(times, line.start), line.step_ms)
        # -1 undated, -2 before the first step, -3 after the last one
        place = pc.case_when(
            pc.make_struct(pc.less(times, 0), pc.less(times, line.start), pc.greater_equal(times, end)),
            *(pa.scalar(number, pa.int64()) for number in (-1, -2, -3)),
            steps,
        )
        sums = pa.table({"place": place, "size": batches["size"], "count": counts}).group_by("place")
        for row in sums.aggregate([("size", "sum"), ("count", "sum")]).to_pylist():
            step = row["place"]
            if step >= 0:
                line.bytes[step] += row["size_sum"]
                line.records[step] += row["count_sum"]
            elif step == -1:
                line.undated_bytes += row["size_sum"]
            elif step == -2:  # noqa: PLR2004 - as above
                line.before_bytes += row["size_sum"]
            else:
                line.future_bytes += row["size_sum"]

    def _add_neighbours(self, batches: Any) -> None:
        """Compare each batch with the one before it in its partition."""
        import pyarrow as pa

        pc: Any = _compute()

        names = ["topic", "partition", "baseOffset", "lastOffset", "baseTimestamp", "maxTimestamp"]
        kept = batches.select([*names, "deleteHorizonMs", "timestampType", "magic", "compression"])
        joined = kept if self._last is None else pa.concat_tables([self._last, kept])
        self._last = joined.slice(joined.num_rows - 1)
        one, other = joined.slice(0, joined.num_rows - 1), joined.slice(1)
        if not other.num_rows:
            return
        is_next = pc.and_(pc.equal(one["topic"], other["topic"]), pc.equal(one["partition"], other["partition"]))
        missing = pc.subtract(pc.subtract(other["baseOffset"], one["lastOffset"]), 1)
        # A compressed message of magic 0 or 1 has the offset of its last record only.
        is_known = pc.or_(pc.equal(other["magic"], _MAGIC_2), pc.equal(other["compression"], "none"))
        missing = missing.filter(pc.and_(pc.and_(is_next, is_known), pc.greater(missing, 0)))
        figures = self._figures
        figures.gaps += len(missing)
        figures.missing_offsets += pc.sum(missing).as_py() or 0
        # Then the field is no record's timestamp (SegmentStatistics::of).
        is_other = pc.or_(
            pc.is_valid(other["deleteHorizonMs"]), pc.equal(other["timestampType"], pa.scalar(_LOG_APPEND_TIME))
        )
        first = pc.if_else(is_other, other["maxTimestamp"], other["baseTimestamp"])
        back = pc.subtract(one["maxTimestamp"], first)
        is_late = pc.and_(pc.and_(is_next, pc.greater(back, 0)), pc.greater_equal(first, 0))
        back = back.filter(is_late)
        figures.late_batches += len(back)
        figures.largest_step_back_ms = max(figures.largest_step_back_ms, pc.max(back).as_py() or 0)

    def _add_codecs(self, batches: Any) -> None:
        pc: Any = _compute()

        sums = batches.group_by("compression").aggregate([("size", "count"), ("size", "sum")])
        for row in sums.to_pylist():
            codec = row["compression"]
            kept = self._codecs.setdefault(codec, [0, 0])
            kept[0] += row["size_count"]
            kept[1] += row["size_sum"]
            if codec != "none":
                fits = pc.and_(
                    pc.equal(batches["compression"], codec), pc.less_equal(batches["size"], _LARGEST_SAMPLED)
                )
                self._sample(codec, batches.filter(fits))

    def _sample(self, codec: str, some: Any) -> None:
        """Keep batches that are spread over the topic."""
        kept = self._samples.setdefault(codec, [])
        names = ("topic", "partition", "baseOffset", "lastOffset", "size", "magic")
        kept += [_Sample(*(row[name] for name in names)) for row in _spread(some.select(list(names)))]
        if len(kept) > _MOST_KEPT:
            del kept[1::2]

    def figures(self) -> BatchFigures:
        """Return the sums."""
        self._figures.sizes = [SizeClass(1 << power, *self._sizes[power]) for power in sorted(self._sizes)]
        return self._figures

    def codecs(self, folder_of: Callable[[str, int], str]) -> list[CodecFigures]:
        """Return the codecs, and of each the ratio of some batches."""
        found = []
        for codec, (batches, size) in sorted(self._codecs.items(), key=lambda item: -item[1][1]):
            one = CodecFigures(codec, batches, size)
            samples = self._samples.get(codec, [])
            for sample in samples[:: max(1, len(samples) // _MOST_SAMPLED)]:
                plain = _uncompressed(folder_of(sample.topic, sample.partition), sample)
                if plain is not None:
                    one.sampled_batches += 1
                    one.sampled_bytes += sample.size
                    one.uncompressed_bytes += plain
            if one.sampled_bytes:
                one.ratio = round(one.uncompressed_bytes / one.sampled_bytes, 3)
            found.append(one)
        return found


def _uncompressed(folder: str, sample: _Sample) -> int | None:
    """Return the size that a batch would have without compression; None if it cannot be read."""
    try:
        reader = PartitionLog(folder).scan(
            columns=["offset"],
            starting_offsets=sample.base_offset,
            ending_offsets=sample.last_offset + 1,
            include_control=True,
        )
        with reader:
            for _ in reader:
                pass
            metrics = reader.metrics
    except (KafkaLogError, OSError, ValueError):
        return None
    if metrics["batches"] != 1:
        # Below the log start, for instance.
        return None
    return int(metrics["copied"]) + (_HEADER if sample.magic == _MAGIC_2 else 0)


def _spread(some: Any) -> list[dict[str, Any]]:
    """Return rows that are evenly spread over a table."""
    rows = some.num_rows
    places = sorted({rows * (2 * n + 1) // (2 * _MOST_SAMPLED) for n in range(_MOST_SAMPLED)}) if rows else []
    found: list[dict[str, Any]] = some.take(places).to_pylist() if places else []
    return found


def ranges_by_topic(ranges: Iterable[PartitionRange]) -> dict[str, list[PartitionRange]]:
    """Return the ranges of each topic."""
    found: dict[str, list[PartitionRange]] = {}
    for each in ranges:
        found.setdefault(each.topic, []).append(each)
    return found
