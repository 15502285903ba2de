"""Deletions by retention, with their days, from the rows of ``explain``."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from kafkalog._times import with_millis
from kafkalog.report.model import FreedOn, PartitionFigures, Retention, TopicFigures
from kafkalog.tools.advice import advice

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_DAY = 86_400_000
# The coming weeks: from today on.
DAYS = 56
_MOST_ADVICE = 200
_ROWS = 4096


class RetentionSums:
    """Adds up the rows of ``explain`` of several log dirs."""

    def __init__(self, now: int) -> None:
        self._today = now // _DAY
        self._days: dict[int, list[int]] = {}
        self._held: dict[str, list[int]] = {}
        self._now_bytes = self._later_bytes = 0
        self._advice: dict[str, None] = {}

    def add(
        self,
        table: pa.Table,
        topics: dict[str, TopicFigures],
        partitions: dict[tuple[str, int], PartitionFigures],
    ) -> int:
        """Add the segments of a log dir to the figures of its topics and partitions; return what can be freed now."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows: Any = with_millis(table)
        names = ["topic", "partition"]

        def where(column: str, value: str) -> pa.Table:
            found: pa.Table = rows.filter(pc.is_in(rows[column], pa.array([value])))
            return found

        before = self._now_bytes
        freeable = rows.group_by(names).aggregate([("bytesFreeable", "sum")])
        for row in freeable.to_pylist():
            size = row["bytesFreeable_sum"]
            self._now_bytes += size
            _topic(topics, row["topic"]).bytes_freeable += size
            if (row["topic"], row["partition"]) in partitions:
                partitions[row["topic"], row["partition"]].bytes_freeable = size
        for mark, column, value in (("kept_bytes", "retention", "kept"), ("dirty_bytes", "compaction", "dirty")):
            some = where(column, value)
            for row in some.group_by("topic").aggregate([("size", "sum")]).to_pylist():
                topic = _topic(topics, row["topic"])
                setattr(topic, mark, getattr(topic, mark) + row["size_sum"])
        kept = where("retention", "kept")
        for row in kept.group_by("heldBy").aggregate([("size", "sum"), ("size", "count")]).to_pylist():
            held = self._held.setdefault(row["heldBy"] or "unknown", [0, 0])
            held[0] += row["size_sum"]
            held[1] += row["size_count"]
        self._add_waiting(where("retention", "waiting"), topics, partitions)
        for line in advice(_plain(rows)):
            if len(self._advice) < _MOST_ADVICE:
                self._advice[line] = None
        return self._now_bytes - before

    def _add_waiting(
        self,
        waiting: pa.Table,
        topics: dict[str, TopicFigures],
        partitions: dict[tuple[str, int], PartitionFigures],
    ) -> None:
        sums = waiting.group_by(["topic", "partition", "retentionTime"]).aggregate([("size", "sum"), ("size", "count")])
        sizes: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for row in sums.to_pylist():
            time, size = row["retentionTime"], row["size_sum"]
            sizes[row["topic"]][time] += size
            day = time // _DAY
            if day < self._today + DAYS:
                freed = self._days.setdefault(day, [0, 0])
                freed[0] += size
                freed[1] += row["size_count"]
            else:
                self._later_bytes += size
            figures = partitions.get((row["topic"], row["partition"]))
            if figures is not None:
                figures.next_time = time if figures.next_time is None else min(time, figures.next_time)
                figures.rest_by = time if figures.rest_by is None else max(time, figures.rest_by)
        for name, by_time in sizes.items():
            topic, first, last = _topic(topics, name), min(by_time), max(by_time)
            if topic.next_time is None or first < topic.next_time:
                topic.next_time, topic.next_bytes = first, by_time[first]
            elif first == topic.next_time:
                topic.next_bytes += by_time[first]
            topic.rest_by = last if topic.rest_by is None else max(last, topic.rest_by)

    def figures(self) -> Retention:
        """Return the sums."""
        days = [FreedOn(day * _DAY, *self._days[day]) for day in sorted(self._days)]
        held = [
            {"heldBy": name, "bytes": size, "segments": segments}
            for name, (size, segments) in sorted(self._held.items(), key=lambda item: -item[1][0])
        ]
        return Retention(self._now_bytes, days, self._later_bytes, held, list(self._advice))


def _topic(topics: dict[str, TopicFigures], name: str) -> TopicFigures:
    return topics.setdefault(name, TopicFigures(name))


def _plain(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the rows, some at a time: a log dir may have a million segments."""
    for batch in rows.to_batches(max_chunksize=_ROWS):
        yield from batch.to_pylist()
