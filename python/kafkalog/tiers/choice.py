"""Choice of the copy of a segment that serves an offset, by the rules of Kafka's broker.

For an offset, its leader epoch comes from the lineage, the leader epochs of the log. Of the finished copies that have
it, the one that begins last at or before the offset serves it, up to where the next one begins or the epoch ends.
A later copy that begins no later and ends no earlier replaces earlier ones (``RemoteLogLeaderEpochState``). So segments
of a history that was lost in an unclean election serve nothing beyond the offset at which it parted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalog.tiers.segment import RemoteSegment

__all__ = ["Run", "choose", "lineage_of"]

_NO_END = 1 << 62


class Run(NamedTuple):
    """Offsets that one segment serves, the last one inclusive."""

    first: int
    last: int
    segment: RemoteSegment


class _Copy(NamedTuple):
    """Offsets of one leader epoch in a segment."""

    first: int
    last: int
    segment: RemoteSegment


def lineage_of(known: dict[int, int], segments: Iterable[RemoteSegment]) -> list[tuple[int, int]]:
    """Return leader epochs and their first offsets: what the newest segment knows, and older ones of the others."""
    starts = dict(known)
    lowest = min(known)
    for segment in segments:
        for epoch, offset in (segment.epochs or {}).items():
            if epoch <= lowest:
                starts[epoch] = min(offset, starts.get(epoch, offset))
    found: list[tuple[int, int]] = []
    for epoch in sorted(starts, reverse=True):
        # A later leader's first offset ends the epochs before it.
        if not found or starts[epoch] < found[-1][1]:
            found.append((epoch, starts[epoch]))
    return found[::-1]


def choose(segments: Sequence[RemoteSegment], lineage: Sequence[tuple[int, int]]) -> list[Run]:
    """Return what serves each offset, in order; each segment that serves nothing gets its reason."""
    whole = [each for each in segments if each.reason is None and each.fault is None]
    runs = _runs(whole, lineage)
    faulty = [each for each in segments if each.reason is None and each.fault is not None]
    if faulty:
        # Nothing stands in for these offsets: who reads them learns what is wrong.
        runs = sorted([*runs, *_between(runs, _runs(faulty, lineage))])
    serving = {each.segment.place for each in runs}
    for each in segments:
        if each.reason is None and each.place not in serving:
            each.reason = each.fault.text if each.fault else _why_not(each, lineage, runs)
    return runs


def _between(runs: list[Run], more: list[Run]) -> list[Run]:
    """Return the parts of ``more`` that ``runs`` leave open."""
    found = []
    for run in more:
        at = run.first
        for taken in runs:
            if taken.last < at or taken.first > run.last:
                continue
            if taken.first > at:
                found.append(Run(at, taken.first - 1, run.segment))
            at = taken.last + 1
        if at <= run.last:
            found.append(Run(at, run.last, run.segment))
    return found


def _runs(segments: Sequence[RemoteSegment], lineage: Sequence[tuple[int, int]]) -> list[Run]:
    runs: list[Run] = []
    for n, (epoch, start) in enumerate(lineage):
        end = lineage[n + 1][1] - 1 if n + 1 < len(lineage) else _NO_END
        copies = sorted(_of_epoch(segments, epoch), key=lambda each: each.first)
        # A copy may begin below the log start, where the leader epochs now begin.
        at = start if n else 0
        for i, copy in enumerate(copies):
            until = copies[i + 1].first - 1 if i + 1 < len(copies) else _NO_END
            first, last = max(at, copy.first), min(copy.last, until, end)
            if first > last or last < start:
                continue
            if runs and runs[-1].segment is copy.segment and runs[-1].last + 1 == first:
                runs[-1] = runs[-1]._replace(last=last)
            else:
                runs.append(Run(first, last, copy.segment))
            at = last + 1
    return runs


def _of_epoch(segments: Sequence[RemoteSegment], epoch: int) -> list[_Copy]:
    """Return the copies that a broker knows of a leader epoch (``handleSegmentWithCopySegmentFinishedState``)."""
    kept: dict[int, _Copy] = {}
    highest = -1
    for segment in sorted(segments, key=lambda each: each.order):
        first = (segment.epochs or {}).get(epoch)
        if first is None:
            continue
        copy = _Copy(first, segment.end_in_epoch(epoch), segment)
        if highest <= copy.last:
            kept = {start: each for start, each in kept.items() if start < first}
        kept[first] = copy
        highest = max(highest, copy.last)
    return list(kept.values())


def _why_not(segment: RemoteSegment, lineage: Sequence[tuple[int, int]], runs: Sequence[Run]) -> str:
    first, last = segment.start_offset, segment.end_offset
    if first is None or last is None:
        return "its offsets are not known"
    ends = [start for _, start in lineage[1:]]
    by_epoch = {epoch: (start, end) for (epoch, start), end in zip(lineage, [*ends, None], strict=True)}
    for epoch, offset in sorted((segment.epochs or {}).items()):
        bounds = by_epoch.get(epoch)
        if bounds is None:
            return f"of a history that was lost: the log has no leader epoch {epoch}"
        if bounds[1] is not None and segment.end_in_epoch(epoch) >= bounds[1]:
            return f"of a history that was lost: leader epoch {epoch} ends at {bounds[1]}, this copy ends at {last}"
        if last < bounds[0] and epoch == lineage[0][0]:
            # Leader epochs are forgotten below the log start.
            return f"below offset {bounds[0]}, where the log starts"
        if offset < bounds[0]:
            return f"of a history that was lost: leader epoch {epoch} begins at {bounds[0]}, in this copy at {offset}"
    others = sorted({run.segment.segment_id for run in runs if run.first <= last and run.last >= first})
    by = f" by {', '.join(others[:3])}" if others else ""
    return f"replaced{by}: a copy of the same offsets"
