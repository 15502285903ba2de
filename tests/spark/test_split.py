"""Splits: small plain values, divided by bytes, with small segments together."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from kafkalog import ReadOptions, _core
from kafkalog import _splitting as module
from kafkalog._core import PartitionRange, SegmentRange
from kafkalog._splitting import MAX_SPLITS, default_split_bytes, split_at_segments, split_ranges
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.source_options import parse
from kafkalog.spark.split import Split

MB = 1 << 20


def partition(number: int, *sizes: int, start: int = 0) -> PartitionRange:
    last = len(sizes) - 1
    segments: list[SegmentRange] = []
    for n, size in enumerate(sizes):
        name, position = f"{n * 100:020}.log", start if n == 0 else 0
        segments.append(
            SegmentRange(
                base_offset=n * 100,
                file_name=name,
                size=size,
                is_active=n == last,
                start_position=position,
                next_base_offset=following(n, last),
                aborted=[[7, 1, 2]],
            )
        )
    return PartitionRange(folder=f"/logs/t-{number}", topic="t", partition=number, segments=segments, min_timestamp=5)


def following(number: int, last: int) -> int | None:
    return None if number == last else (number + 1) * 100


def names(shares: list[tuple[PartitionRange, ...]]) -> list[list[tuple[int, int]]]:
    return [[(each.partition, segment.base_offset) for each in share for segment in each.segments] for share in shares]


@pytest.mark.parametrize(
    ("ranges", "size", "expected"),
    [
        ([], 10, []),
        ([partition(0)], 10, []),
        ([partition(0, 5)], 10, [[(0, 0)]]),
        ([partition(0, 0)], 10, [[(0, 0)]]),
        # many small partitions share a split
        ([partition(n, 3) for n in range(4)], 100, [[(0, 0), (1, 0), (2, 0), (3, 0)]]),
        # a large partition is divided between segments
        ([partition(0, 10, 10, 10, 10)], 20, [[(0, 0), (0, 100)], [(0, 200), (0, 300)]]),
        # split_at_segments() never divides a segment
        ([partition(0, 100, 1)], 10, [[(0, 0)], [(0, 100)]]),
        # a split may take the end of one partition and the start of the next
        ([partition(0, 8, 8), partition(1, 8, 8)], 12, [[(0, 0)], [(0, 100), (1, 0)], [(1, 100)]]),
        # only the bytes after the start position count
        ([partition(0, 1000, 10, start=995), partition(1, 10)], 25, [[(0, 0), (0, 100), (1, 0)]]),
    ],
)
def test_cut(ranges: list[PartitionRange], size: int, expected: list[list[tuple[int, int]]]) -> None:
    assert names(split_at_segments(ranges, size)) == expected


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=6), st.integers(1, 120))
def test_cut_keeps_every_segment_once_in_order_and_no_split_is_far_too_large(
    sizes: list[list[int]], split: int
) -> None:
    ranges = [partition(number, *each) for number, each in enumerate(sizes)]
    shares = split_at_segments(ranges, split)
    flat = [segment for share in names(shares) for segment in share]
    assert flat == [(number, n * 100) for number, each in enumerate(sizes) for n in range(len(each))]
    assert all(share and all(each.segment_count for each in share) for share in shares)
    for share in shares:
        taken = [segment.size for each in share for segment in each.segments]
        assert sum(taken) <= split + max(taken)


@pytest.mark.parametrize("total", [0, 10 * MB, 128 * MB, 1030 * MB, MAX_SPLITS * 128 * MB])
def test_a_split_is_as_large_as_one_of_sparks_files(total: int) -> None:
    assert default_split_bytes(total) == 128 * MB


@pytest.mark.parametrize("aborted", [None, [], [[7, 1, 2]]])
@pytest.mark.parametrize("name", [f"{100:020}.log", f"{100:020}.log.deleted"])
@pytest.mark.parametrize(
    "piece",
    [(False, 0, 100, None), (False, 0, 101, None), (True, 0, 100, None), (False, 9, 101, 20), (False, 0, 100, 20)],
)
def test_every_segment_survives_json(aborted: list[list[int]] | None, name: str, piece: Any) -> None:
    is_active, start, first, end = piece
    segment = SegmentRange(
        base_offset=100,
        file_name=name,
        size=30,
        is_active=is_active,
        start_position=start,
        next_base_offset=200,
        aborted=aborted,
        start_offset=first,
        end_position=end,
        end_offset=end,
    )
    planned = PartitionRange(folder="/logs/t-0", topic="t", partition=0, segments=[segment], start_offset=100)
    assert planned.segments == [segment]
    assert pickle.loads(pickle.dumps(segment)) == segment  # noqa: S301 - our own bytes
    split = Split((planned,), ReadOptions(columns=["value"]))
    assert Split.from_json(split.to_json()) == split


def test_a_split_survives_pickling_and_json() -> None:
    folder = "/logs/caf\udce9 \u00e9\n-0"
    ranges = (
        partition(0, 5, 7),
        PartitionRange(
            folder=folder,
            topic="t",
            partition=1,
            segments=[
                SegmentRange(
                    base_offset=0,
                    file_name="0.log",
                    size=9,
                    start_position=2,
                    next_base_offset=50,
                    aborted=[],
                    end_position=8,
                    end_offset=40,
                )
            ],
            start_offset=3,
            end_offset=900,
            max_timestamp=9,
        ),
    )
    split = Split(ranges, ReadOptions(columns=["value", "offset"], check_crcs=False, batch_rows=7))
    assert pickle.loads(pickle.dumps(split)) == split  # noqa: S301 - our own bytes
    text = split.to_json()
    assert text.isascii()
    assert "\n" not in text
    assert Split.from_json(text) == split
    assert (split.bytes, split.segments) == (18, 3)
    assert len(pickle.dumps(split)) < 640


@pytest.mark.parametrize("size", [1, 3_000, 20_000])
def test_shares_are_even_and_cut_inside_segments(size: int) -> None:
    ranges = _core.plan([str(corpus.GOLDEN / "clean-restarts" / "data-1")], topics=["orders", "events"])
    wanted = pa.table(_core.scan_ranges(ranges, columns=["topic", "offset"]))
    found = [
        pa.table(_core.scan_ranges(list(share), columns=["topic", "offset"])) for share in split_ranges(ranges, size)
    ]
    assert pa.concat_tables(found).to_pylist() == wanted.to_pylist()
    total = sum(each.bytes for each in ranges)
    assert sum(each.bytes for share in split_ranges(ranges, size) for each in share) == total
    if size == 20_000:
        assert abs(len(found) - total / size) <= 2


@pytest.mark.parametrize("number", range(0, len(corpus.partitions()), 3))
def test_parts_by_offset_hold_every_record_once(number: int) -> None:
    each = corpus.partitions()[number]
    records = corpus.expected_records(each)
    wanted: list[int] = list(records["offset"])
    (planned,) = _core.plan([str(each.folder)], starting_offsets="oldest", include_inactive=True)
    last = wanted[-1] if wanted else 0
    borders = sorted({*wanted[5::7], *(n + 1 for n in wanted[::31]), -1, 0, last, last + 1, last + 100})
    found: list[int] = []
    for part in _core.divide(planned, borders):
        first, end = part.start_offset, part.end_offset
        table = pa.table(_core.scan_ranges([part], columns=["offset"], include_control=True))
        some: list[Any] = table["offset"].to_pylist()
        assert all(first <= n and (end is None or n < end) for n in some)
        found += some
    assert found == wanted
    bounds = _core.bounds([str(each.folder)])[0]
    assert bounds[1:3] == (planned.topic, planned.partition)
    assert bounds[3] <= bounds[4]
    assert not wanted or bounds[4] > last


def test_many_segments_are_divided_inside_where_one_is_larger_than_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_SEGMENTS", 2)
    ranges = _core.plan([str(corpus.GOLDEN / "clean-restarts" / "data-1")], topics=["orders"])
    sizes = [segment.bytes for each in ranges for segment in each.segments]
    assert split_ranges(ranges, max(sizes)) == split_at_segments(ranges, max(sizes))
    assert len(split_ranges(ranges, max(sizes) // 4)) > len(sizes)


def planned(path: Any, **given: Any) -> list[int]:
    """The bytes of each split of a read."""
    return [split.bytes for split in plan_splits(parse({"path": path, **given}))]


def test_min_partitions_and_max_records_never_make_splits_larger() -> None:
    orders = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    small = planned(orders, splitBytes="20k")
    assert len(small) > 3
    assert planned(orders, splitBytes="20k", minPartitions=2) == small
    assert len(planned(orders, minPartitions=4)) == 4
    # fewer if there are too few batches, but never more
    for least in range(2, 200):
        assert len(planned(orders, minPartitions=least)) <= least
    # even parts, as in Spark
    parts = plan_splits(parse({"path": orders, "maxRecordsPerPartition": 500}))
    assert [split.ranges[0].start_offset for split in parts] == [0, 440]
    assert len(planned(orders, maxRecordsPerPartition=440)) == 2
    bounded = {"subscribe": "orders,ledger", "endingOffsets": {"orders": {0: 100}, "ledger": {0: -1}}}
    some = plan_splits(parse({"path": orders.parent, "maxRecordsPerPartition": 50, **bounded}))
    found = [(each.topic, each.start_offset) for split in some for each in split.ranges]
    assert [start for topic, start in found if topic == "orders"] == [0, 50]
    both = planned(orders, maxRecordsPerPartition=500, splitBytes="20k")
    assert len(both) >= len(small)
    assert max(both) < min(planned(orders, maxRecordsPerPartition=500))
    assert planned(orders.parents[1] / "data-0" / "events-2", minPartitions=3) == [0]


def test_the_number_of_splits_is_limited() -> None:
    total = 1_000_000 << 30
    assert total // default_split_bytes(total) <= MAX_SPLITS
