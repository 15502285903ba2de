"""``OffsetIndex``, ``TimeIndex`` and ``TransactionIndex`` beyond what the corpus walk shows."""

from __future__ import annotations

import doctest
import json
import struct
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
import kafkalog.index

if TYPE_CHECKING:
    from collections.abc import Callable


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
            with pytest.raises(IndexError, match="the index has 2 entries"):
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
    first = struct.pack(">hqqqq", 0, 7, 5, 9, 5)
    file.write_bytes(first + struct.pack(">hqqqq", 256, 7, 10, 12, 5) + b"torn")
    with kafkalog.TransactionIndex(file) as index:
        assert [entry.last_offset for entry in index] == [9, 12]
        with pytest.raises(kafkalog.UnsupportedFormatError, match="byte 34"):
            index.sanity_check()
    # A broker looks at the high byte alone.
    file.write_bytes(first + struct.pack(">hqqqq", 255, 7, 10, 12, 5))
    with kafkalog.TransactionIndex(file) as index:
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


CASES = Path(__file__).parents[1] / "golden" / "log" / "index-ops"

# What Python raises where Kafka throws; what is left out is an exception out of a broken or closed object.
ERRORS = {
    "IllegalArgumentException": ValueError,
    "IllegalStateException": ValueError,
    "IndexOffsetOverflowException": ValueError,
    "InvalidOffsetException": ValueError,
    "CorruptIndexException": kafkalog.CorruptIndexError,
}


class _Replay:
    """The operations of a case on a Python index."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.file = folder / config["file"]
        self.config = config
        self.index: kafkalog.OffsetIndex | kafkalog.TimeIndex | None = None

    def open(self, op: dict[str, Any]) -> None:
        self.index = None
        kind = kafkalog.TimeIndex if self.config["index"] == "time" else kafkalog.OffsetIndex
        given = self.config | op
        size = max(given.get("max_index_size", 0), 0)
        self.index = kind(self.file, given["base_offset"], size, writable=True)

    def call(self, op: dict[str, Any]) -> object:
        index, name = self.index, op["op"]
        assert index is not None
        if name == "append":
            if isinstance(index, kafkalog.OffsetIndex):
                index.append(op["offset"], op["position"])
            else:
                index.maybe_append(op["timestamp"], op["offset"], op.get("skip_full_check", False))
            return None
        if name == "upper_bound":
            assert isinstance(index, kafkalog.OffsetIndex)
            bound = index.fetch_upper_bound_offset(op["position"], op["fetch_size"])
            return None if bound is None else bound._asdict()
        if name in ("lookup", "entry"):
            found = index.lookup(op["target"]) if name == "lookup" else index.entry(op["n"])
            return found._asdict()
        calls: dict[str, Callable[[], object]] = {
            "truncate": index.truncate,
            "truncate_to": lambda: index.truncate_to(op["offset"]),
            "resize": lambda: index.resize(op["size"]),
            "reset": index.reset,
            "trim": index.trim_to_valid_size,
            "flush": index.flush,
            "close": index.close,
            "sanity_check": lambda: index.sanity_check() or "ok",
            "can_append_offset": lambda: index.can_append_offset(op["offset"]),
        }
        return calls[name]()

    def state(self) -> dict[str, Any]:
        index = self.index
        assert index is not None
        state = {
            "entries": len(index),
            "max_entries": index.max_entries,
            "length": index.length,
            "is_full": index.is_full,
        }
        if isinstance(index, kafkalog.OffsetIndex):
            return state | {"last_offset": index.last_offset}
        return state | {"last_entry": index.last_entry._asdict()}


# Left to the Rust runner: reading through a writing object, an object used on after a close, files edited by hand, and
# those in which Kafka's own object breaks.
_RUST_ONLY = {"offset-closed", "offset-read-only", "offset-resize", "time-order", "time-resize"}


def _cases() -> list[Path]:
    cases = [case for case in sorted(CASES.iterdir()) if case.name not in _RUST_ONLY]
    plain = [
        case
        for case in cases
        if not any(
            op in (case / "input.jsonl").read_text() for op in ('"file_', "close_handler", "relative_", '"delete"')
        )
    ]
    assert len(plain) > 15
    return plain


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case.name)
def test_kafkas_answers(case: Path, tmp_path: Path) -> None:
    replay = _Replay(tmp_path, json.loads((case / "config.json").read_text()))
    for file in (case / "before").glob("*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    lines = [(case / name).read_text().splitlines() for name in ("input.jsonl", "result.jsonl")]
    for op, kafka in zip(*([json.loads(line) for line in some] for some in lines), strict=True):
        if kafka.get("skipped"):
            assert replay.index is None
            continue
        call = replay.open if op["op"] == "open" else replay.call
        if "error" in kafka:
            kind = ERRORS.get(kafka["error"]["class"].rpartition(".")[2], ValueError)
            with pytest.raises((kind, IndexError) if op["op"] == "entry" else kind):
                call(op)
        else:
            assert call(op) == kafka.get("result"), op
        assert replay.file.stat().st_size == kafka["file_size"], op
        if op["op"] != "close" and "state" in kafka:
            kafka["state"].pop("size_in_bytes")
            assert replay.state() == kafka["state"], op
    after = {file.name: file.read_bytes() for file in (case / "after").iterdir()}
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == after


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    result = doctest.testmod(kafkalog.index, extraglobs={"kafkalog": kafkalog})
    assert result.attempted > 8
    assert result.failed == 0


def test_reading_changes_nothing(offsets: Path, times: Path, tmp_path: Path) -> None:
    before = offsets.read_bytes(), times.read_bytes()
    with kafkalog.OffsetIndex(offsets) as index, kafkalog.TimeIndex(times) as time_index:
        changes: list[Callable[[], object]] = [
            lambda: index.append(120, 7),
            lambda: time_index.maybe_append(9000, 120),
            index.truncate,
            time_index.reset,
            lambda: index.truncate_to(0),
            lambda: time_index.resize(24),
            index.trim_to_valid_size,
            index.flush,
        ]
        for change in changes:
            with pytest.raises(ValueError, match="writable=True"):
                change()
    assert (offsets.read_bytes(), times.read_bytes()) == before
    missing = tmp_path / "00000000000000000007.index"
    with pytest.raises(FileNotFoundError):
        kafkalog.OffsetIndex(missing)
    with pytest.raises(ValueError, match="no base offset"):
        kafkalog.OffsetIndex(tmp_path / "saved.index", writable=True)
    assert sorted(tmp_path.iterdir()) == [offsets, times]


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000100.index"
    with kafkalog.OffsetIndex(file, max_index_size=1000, writable=True) as index:
        assert repr(index) == f"kafkalog.OffsetIndex({str(file)!r}, writable=True)"
        assert (len(index), index.max_entries, index.length, file.stat().st_size) == (0, 125, 1000, 1000)
        for n in range(125):
            index.append(110 + 10 * n, 100 * n)
        with pytest.raises(ValueError, match="IndexFull"):
            index.append(9999, 1)
        assert index.is_full
        assert index.to_arrow().num_rows == 125
        index.truncate_to(125)
        with pytest.raises(ValueError, match="OffsetsOutOfOrder"):
            index.append(120, 5)
        with pytest.raises(ValueError, match="position"):
            index.append(130, 1 << 31)
        # The file has its length still, and the bytes of what was taken back; a reader that opens it sees those.
        assert file.stat().st_size == 1000
        index.flush()
    assert file.stat().st_size == 16
    with kafkalog.OffsetIndex(file) as index:
        assert list(index) == [(110, 0), (120, 100)]
    with pytest.raises(ValueError, match="closed"):
        index.lookup(5)


def test_transaction_index_written(tmp_path: Path) -> None:
    """The fetches that Kafka's ``TransactionIndexTest`` pins."""
    file = tmp_path / "00000000000000000000.txnindex"
    with kafkalog.TransactionIndex(file, writable=True) as index:
        assert len(index) == 0
        assert not file.exists()
        for first, last, stable in ((0, 10, 11), (5, 15, 13), (18, 35, 25), (32, 50, 40)):
            index.append(7, first, last, stable)
        with pytest.raises(ValueError, match="OffsetsOutOfOrder"):
            index.append(7, 40, 50, 51)
        pinned = (
            ((0, 100), 0, 4, False),
            ((0, 32), 0, 3, True),
            ((0, 35), 0, 4, True),
            ((10, 35), 0, 4, True),
            ((11, 35), 1, 4, True),
            ((20, 41), 2, 4, False),
        )
        every = list(index)
        for fetch, start, end, complete in pinned:
            assert index.collect_aborted(*fetch) == (every[start:end], complete)
        index.truncate_to(35)
        assert [entry.last_offset for entry in index] == [10, 15]
        index.append(7, 18, 35, 25)
        index.flush()
    assert file.stat().st_size == 3 * 34
    with kafkalog.TransactionIndex(file) as index:
        index.sanity_check()
        assert index.to_arrow().num_rows == 3
        with pytest.raises(ValueError, match="writable=True"):
            index.reset()
    with kafkalog.TransactionIndex(file, base_offset=12, writable=True) as index:
        with pytest.raises(kafkalog.CorruptIndexError):
            index.sanity_check()
        index.reset()
    assert file.stat().st_size == 0


def test_threads_share_a_writable_index(tmp_path: Path) -> None:
    index = kafkalog.OffsetIndex(tmp_path / "00000000000000000000.index", writable=True)
    wrong: list[object] = []
    ends = threading.Event()

    def look() -> None:
        while not ends.is_set():
            found = index.lookup(1 << 30)
            if found.position != found.offset * 3:
                wrong.append(found)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(1, 5000):
        index.append(n, n * 3)
    ends.set()
    for thread in threads:
        thread.join()
    index.close()
    assert wrong == []
    assert (tmp_path / "00000000000000000000.index").stat().st_size == 4999 * 8
