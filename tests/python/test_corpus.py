"""Every partition folder of every corpus: what kafkalog reads is what Kafka's own classes read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import corpus
import kafkalog
from corpus import Partition

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus

LATEST_TIMESTAMP = -1  # ListOffsets takes it for a question of its own, also where records have that timestamp

each_partition = pytest.mark.parametrize("partition", corpus.partitions(), ids=lambda p: p.id)


def each_with(answer: str) -> pytest.MarkDecorator:
    """Give the partitions with this answer: all but those that Kafka could not load."""
    found = [p for p in corpus.partitions() if p.has(answer)]
    return pytest.mark.parametrize("partition", found, ids=lambda p: p.id)


each_log_dir = pytest.mark.parametrize("log_dir", corpus.log_dirs(), ids=lambda p: f"{p.parent.name}/{p.name}")


def plain(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """One array, views gathered, timestamps as numbers."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif kind == pa.binary_view():
        column = column.cast(pa.binary())
    elif kind == pa.string_view():
        column = column.cast(pa.string())
    elif pa.types.is_list(kind):
        column = column.cast(HEADERS)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows_of(array: pa.Array[Any]) -> list[Any]:
    """Python values; headers as pairs so that field metadata plays no part."""
    return array.to_pylist()


def assert_columns(table: pa.Table, expected: corpus.Columns) -> None:
    """Compare column by column, and name the first row that differs."""
    assert table.column_names == list(expected)
    for name, want in expected.items():
        got = rows_of(plain(table[name]))
        if got != want:
            assert len(got) == len(want), f"{name}: {len(got)} rows instead of {len(want)}"
            row = next(i for i, (a, b) in enumerate(zip(got, want, strict=True)) if a != b)
            pytest.fail(f"{name}, row {row}: {got[row]!r} instead of {want[row]!r}")


@each_partition
@pytest.mark.sampled(27)
def test_records(partition: Partition) -> None:
    """All columns, in both layouts, with one thread and four, in large batches and small."""
    expected = corpus.expected_records(partition)
    ways: tuple[tuple[Literal["binary", "view"], int, int], ...] = (
        ("binary", 1, 65_536),
        ("view", 1, 65_536),
        ("binary", 4, 7),
        ("view", 4, 50),
    )
    first: dict[str, pa.Array[Any]] = {}
    for layout, threads, batch_rows in ways:
        reader = kafkalog.scan(
            partition.folder,
            columns=list(corpus.RECORD_COLUMNS),
            starting_offsets="oldest",
            include_control=True,
            layout=layout,
            threads=threads,
            batch_rows=batch_rows,
        )
        table = reader.read_all()
        table.validate(full=True)
        assert all(b.num_rows <= batch_rows for b in table.to_batches())
        if not first:
            assert_columns(table, expected)
            first = {name: plain(table[name]) for name in table.column_names}
        for name, array in first.items():
            assert plain(table[name]).equals(array), f"{name}: {layout}, {threads} threads differ from binary, 1"


@each_with("committed")
@pytest.mark.sampled(30)
def test_committed(partition: Partition) -> None:
    """Kafka's consumer gets the same under read_committed, in every layout; so is the last stable offset."""
    head, *lines = partition.lines("committed")
    offsets = [line["offset"] for line in lines if line["type"] == "record"]
    log = kafkalog.PartitionLog(partition.folder)
    assert log.last_stable_offset == head["last_stable_offset"]
    ways: tuple[tuple[Literal["binary", "view"], int, int], ...] = (
        ("binary", 1, 65_536),
        ("view", 1, 50),
        ("binary", 4, 7),
        ("view", 4, 65_536),
    )
    everything = log.scan(columns=list(corpus.RECORD_COLUMNS)).read_all()
    wanted = everything.filter(pc.is_in(everything["offset"], pa.array(offsets, type=pa.int64())))
    for layout, threads, batch_rows in ways:
        table = log.scan(
            columns=list(corpus.RECORD_COLUMNS),
            isolation_level="read_committed",
            layout=layout,
            threads=threads,
            batch_rows=batch_rows,
        ).read_all()
        table.validate(full=True)
        assert table["offset"].to_pylist() == offsets
        for name in table.column_names:
            assert plain(table[name]).equals(plain(wanted[name])), name
    controlled = log.scan(
        columns=["offset", "isControl"], isolation_level="read_committed", include_control=True
    ).read_all()
    markers = [
        line["offset"]
        for line in partition.lines("records")
        if line.get("is_control") and head["log_start_offset"] <= line["offset"] < head["last_stable_offset"]
    ]
    assert controlled.filter(controlled["isControl"])["offset"].to_pylist() == markers
    assert controlled.filter(pc.invert(controlled["isControl"]))["offset"].to_pylist() == offsets


@each_partition
def test_deleted_and_left_over_files(partition: Partition) -> None:
    """Files named ``.deleted``, ``.cleaned`` and ``.checkpoint`` are no part of the log; they are read when named."""
    segments = {segment.name for segment in kafkalog.PartitionLog(partition.folder).segments}
    for answer in sorted(partition.answers.glob("records.*.jsonl.gz")):
        name = answer.name.removeprefix("records.").removesuffix(".jsonl.gz")
        assert name not in segments
        columns = ["offset", "timestamp", "key", "value", "headers", "isControl", "controlType"]
        table = kafkalog.read_table(partition.folder / name, columns=columns, include_control=True)
        got = zip(*(rows_of(plain(table[column])) for column in columns), strict=True)
        lines = [line for line in partition.lines(f"records.{name}") if "offset" in line]
        assert list(got) == [
            (
                line["offset"],
                line["timestamp"],
                corpus.binary(line["key"]),
                corpus.binary(line["value"]),
                [{"key": key, "value": corpus.binary(value)} for key, value in line["headers"]] or None,
                line["is_control"],
                line["control_type"],
            )
            for line in lines
        ]


@each_partition
def test_batches(partition: Partition) -> None:
    """One row for each Kafka batch."""
    expected = corpus.expected_batches(partition)
    table = kafkalog.scan_batches(partition.folder, starting_offsets="oldest").read_all()
    table.validate(full=True)
    stamps = plain(table["baseTimestamp"]).to_pylist()
    assert_columns(table.select(list(corpus.BATCH_COLUMNS)), expected)
    for row, stamp in enumerate(stamps):
        # As `DefaultRecordBatch.baseTimestamp`, the field as it is; older batches have one timestamp.
        place = (partition.folder, expected["segment"][row], expected["position"][row])
        is_old = expected["magic"][row] < 2
        assert stamp == (expected["maxTimestamp"][row] if is_old else corpus.header_base_timestamp(*place))
    unchecked = kafkalog.scan_batches(partition.folder, starting_offsets="oldest", check_crcs=False).read_all()
    assert unchecked["isValid"].null_count == unchecked.num_rows
    assert unchecked.drop_columns(["isValid"]).equals(table.drop_columns(["isValid"]))


@each_partition
def test_indexes(partition: Partition) -> None:
    """Entries as Kafka counts them once a preallocated tail is cut off."""
    for answer in sorted(partition.answers.glob("index.*index*.jsonl.gz")):
        name = answer.name.removeprefix("index.").removesuffix(".jsonl.gz")
        head, *entries = partition.lines(f"index.{name}")
        file = partition.folder / name
        if head["kind"] == "offset_index":
            with kafkalog.OffsetIndex(file) as index:
                assert index.base_offset == head["base_offset"]
                assert [tuple(index.entry(n)) for n in range(len(index))] == [
                    (e["offset"], e["position"]) for e in entries
                ]
                if "ok" in head["sanity"]:
                    index.sanity_check()
        elif head["kind"] == "time_index":
            with kafkalog.TimeIndex(file) as times:
                assert times.base_offset == head["base_offset"]
                assert [tuple(times.entry(n)) for n in range(len(times))] == [
                    (e["timestamp"], e["offset"]) for e in entries
                ]
                if "ok" in head["sanity"]:
                    times.sanity_check()


@each_partition
def test_index_lookups(partition: Partition) -> None:
    """A lookup gives the last entry at or below the target, as a walk over the entries does."""
    for file in sorted(partition.folder.glob("*.index")):
        lines = partition.lines(f"index.{file.name}")[1:]
        with kafkalog.OffsetIndex(file) as index:
            base = int(file.name.split(".")[0])
            offsets = [e["offset"] for e in lines]
            for target in {base, base + 1, *offsets, *(o - 1 for o in offsets), *(o + 1 for o in offsets)}:
                below = [e for e in lines if e["offset"] <= target]
                want = (below[-1]["offset"], below[-1]["position"]) if below else (base, 0)
                assert tuple(index.lookup(target)) == want
    for file in sorted(partition.folder.glob("*.timeindex")):
        lines = partition.lines(f"index.{file.name}")[1:]
        with kafkalog.TimeIndex(file) as times:
            base = int(file.name.split(".")[0])
            stamps = [e["timestamp"] for e in lines]
            for target in {0, *stamps, *(t - 1 for t in stamps), *(t + 1 for t in stamps)}:
                below = [e for e in lines if e["timestamp"] <= target]
                stamped = (below[-1]["timestamp"], below[-1]["offset"]) if below else (-1, base)
                assert tuple(times.lookup(target)) == stamped


@each_partition
def test_partition_files(partition: Partition) -> None:
    """Topic, id, epochs, segments and offsets of the log."""
    log = kafkalog.PartitionLog(partition.folder)
    assert (log.topic, log.partition) == (partition.topic, partition.partition)
    if partition.has("index.partition.metadata"):
        assert log.topic_id == partition.lines("index.partition.metadata")[1]["topic_id"]
    else:
        assert log.topic_id is None
    if partition.has("index.leader-epoch-checkpoint"):
        epochs = partition.lines("index.leader-epoch-checkpoint")[1:]
        assert [tuple(e) for e in log.leader_epochs] == [(e["epoch"], e["start_offset"]) for e in epochs]
    names = sorted(f.name for f in partition.folder.iterdir() if re.fullmatch(r"\d{20}\.log", f.name))
    assert [s.name for s in log.segments] == names
    loaded = partition.lines("load")[0]
    if loaded["type"] == "log":
        assert log.log_start_offset == loaded["log_start_offset"]
        assert log.log_end_offset == loaded["log_end_offset"]
        assert log.high_watermark == loaded["high_watermark_checkpoint"]


@each_with("lookup-offset")
def test_lookup_offset(partition: Partition) -> None:
    """The first record at or after an offset, for offsets around everything that can go wrong."""
    log = kafkalog.PartitionLog(partition.folder)
    for line in partition.lines("lookup-offset"):
        target = line["target"]
        if "error" in line:
            with pytest.raises(kafkalog.OffsetOutOfRangeError):
                log.lookup(target)
            continue
        found = log.lookup(target)
        if not line["found"] or line["record_offset"] is None:
            assert found is None, target
        else:
            assert found is not None, target
            assert (found.segment_base_offset, found.position, found.offset) == (
                line["record_segment_base_offset"],
                line["record_batch_position"],
                line["record_offset"],
            ), target


@each_partition
def test_lookup_time(partition: Partition, tmp_path: Path) -> None:
    """Kafka's ListOffsets answers, with both modification times on which they may hang."""
    for name, mtime in (("lookup-time", 0), ("lookup-time-late-mtime", corpus.LATE_MTIME)):
        if not partition.has(name):
            continue
        log = kafkalog.PartitionLog(partition.copy(tmp_path / name, mtime))
        for line in partition.lines(name):
            special = line.get("special")
            if special == "earliest":
                assert log.log_start_offset == line["offset"]
            elif special == "latest" or line.get("target") == LATEST_TIMESTAMP:
                assert log.log_end_offset == line["offset"]
            else:
                found = log.offset_of_max_timestamp() if special else log.offset_for_timestamp(line["target"])
                want = (line["offset"], line["timestamp"], line["leader_epoch"]) if line["found"] else None
                got = (found.offset, found.timestamp, found.leader_epoch) if found else None
                assert got == want, (name, special or line["target"])


@each_log_dir
def test_log_dir(log_dir: Path) -> None:
    """The log dir's own files, and the folders in it."""
    opened = kafkalog.LogDir(log_dir)
    clean = False
    for head, *entries in split_by_kind(corpus.checkpoints(log_dir)):
        if head["kind"] == "offset_checkpoint":
            assert [tuple(e) for e in opened.checkpoints[head["file"]]] == [
                (e["topic"], e["partition"], e["offset"]) for e in entries
            ]
        elif head["kind"] == "meta_properties":
            assert opened.meta == entries[0]
        elif head["kind"] == "clean_shutdown":
            clean = True
    assert opened.clean_shutdown == clean
    live = {(p.topic, p.partition) for p in corpus.partitions() if p.log_dir == log_dir and p.state == "live"}
    assert {(p.topic, p.partition) for p in opened.partitions()} == live


def split_by_kind(lines: list[corpus.Line]) -> list[list[corpus.Line]]:
    """Group entry lines under the line that names their file."""
    groups: list[list[corpus.Line]] = []
    for line in lines:
        if "kind" in line:
            groups.append([line])
        else:
            groups[-1].append(line)
    return groups
