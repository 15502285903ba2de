"""``OffsetIndex`` and ``TimeIndex`` beyond what the corpus walk shows."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import corpus
import kafkalog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def offsets(tmp_path: Path) -> Path:
    """Entries 105 and 110, and a preallocated tail."""
    file = tmp_path / "00000000000000000100.index"
    file.write_bytes(struct.pack(">iiii", 5, 70, 10, 140) + bytes(80))
    return file


@pytest.fixture
def times(tmp_path: Path) -> Path:
    """Two entries, and a preallocated tail."""
    file = tmp_path / "00000000000000000100.timeindex"
    file.write_bytes(struct.pack(">qiqi", 1000, 5, 2000, 10) + bytes(120))
    return file


def test_offset_index(offsets: Path) -> None:
    with kafkalog.OffsetIndex(offsets) as index:
        assert index.path == str(offsets)
        assert index.base_offset == 100
        assert len(index) == 2
        assert list(index) == [(105, 70), (110, 140)]
        assert index.entry(1) == kafkalog.OffsetPosition(offset=110, position=140)
        assert index.last_offset == 110
        assert index.lookup(99) == index.lookup(104) == (100, 0)
        assert index.lookup(105).position == index.lookup(109).position == 70
        assert index.lookup(1 << 40) == (110, 140)
        index.sanity_check()
        found = index.lookup_many(pa.array([104, 110, 107]))
        assert found.to_pydict() == {"offset": [100, 110, 105], "position": [0, 140, 70]}
        assert index.lookup_many([]).num_rows == 0
        assert index.to_arrow().to_pydict() == {"offset": [105, 110], "position": [70, 140]}
        for wrong in (-1, 2):
            with pytest.raises(IndexError, match="an index with 2"):
                index.entry(wrong)
    with pytest.raises(ValueError, match="closed"):
        index.lookup(5)
    index.close()


def test_time_index(times: Path) -> None:
    with kafkalog.TimeIndex(times) as index:
        assert index.base_offset == 100
        assert list(index) == [(1000, 105), (2000, 110)]
        assert index.last_entry == kafkalog.TimestampOffset(timestamp=2000, offset=110)
        assert index.lookup(999) == (-1, 100)
        assert index.lookup(1999) == (1000, 105)
        assert index.lookup(2000) == (2000, 110)
        found = index.lookup_many([0, 5000])
        assert found.to_pydict() == {"timestamp": [-1, 2000], "offset": [100, 110]}
        assert index.to_arrow().num_rows == 2
        # Kafka checks the file as it lies, and there the zeros come last.
        with pytest.raises(kafkalog.CorruptIndexError):
            index.sanity_check()
    with pytest.raises(ValueError, match="closed"):
        index.lookup(5)


@pytest.mark.parametrize("partition", corpus.partitions(), ids=lambda p: p.id)
def test_transaction_index_is_what_kafka_reads(partition: corpus.Partition) -> None:
    for file in sorted(partition.folder.glob("*.txnindex")):
        head, *entries = partition.lines(f"index.{file.name}")
        with kafkalog.TransactionIndex(file) as index:
            assert index.base_offset == head["base_offset"]
            assert len(index) == head["entries"]
            assert [entry._asdict() for entry in index] == entries
            assert index.to_arrow().to_pylist() == entries
            if head["sanity"] == "ok":
                index.sanity_check()


def test_transaction_index_of_another_version(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000005.txnindex"
    file.write_bytes(struct.pack(">hqqqq", 0, 7, 5, 9, 5) + struct.pack(">hqqqq", 1, 7, 10, 12, 5) + b"torn")
    with kafkalog.TransactionIndex(file) as index:
        assert [entry.last_offset for entry in index] == [9, 12]
        with pytest.raises(kafkalog.CorruptIndexError, match="byte 34"):
            index.sanity_check()
    with pytest.raises(ValueError, match="closed"):
        len(index)


def test_base_offset_may_be_given(offsets: Path) -> None:
    other = offsets.rename(offsets.with_name("saved.index"))
    with kafkalog.OffsetIndex(other, base_offset=7) as index:
        assert list(index) == [(12, 70), (17, 140)]
    with pytest.raises((ValueError, kafkalog.KafkaLogError)):
        kafkalog.OffsetIndex(other)
    with pytest.raises(ValueError, match="base_offset"):
        kafkalog.OffsetIndex(other, base_offset=-1)


def test_full_as_kafka_counts(tmp_path: Path) -> None:
    """A time index keeps one entry free for the end of its segment."""
    offsets, times = tmp_path / "00000000000000000000.index", tmp_path / "00000000000000000000.timeindex"
    for used, whole, full in ((2, 3, (False, True)), (3, 3, (True, True)), (2, 4, (False, False))):
        offsets.write_bytes(struct.pack(">ii", 5, 70) * used + bytes(8 * (whole - used)))
        times.write_bytes(struct.pack(">qi", 1000, 5) * used + bytes(12 * (whole - used)))
        with kafkalog.OffsetIndex(offsets) as index, kafkalog.TimeIndex(times) as time_index:
            assert (index.max_entries, time_index.max_entries) == (whole, whole)
            assert (index.is_full, time_index.is_full) == full


def test_an_empty_index(tmp_path: Path) -> None:
    for kind, suffix, nothing in (
        (kafkalog.OffsetIndex, "index", (42, 0)),
        (kafkalog.TimeIndex, "timeindex", (-1, 42)),
    ):
        file = tmp_path / f"00000000000000000042.{suffix}"
        file.write_bytes(b"")
        with kind(file) as index:
            assert len(index) == 0
            assert index.lookup(100) == nothing
            assert index.to_arrow().num_rows == 0
