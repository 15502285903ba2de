"""``RecordReader`` and the functions that give one."""

from __future__ import annotations

import gc
import shutil
import sys
import threading
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

import corpus
import kafkalog
from kafkalog.schema import BATCH_COLUMNS, DEFAULT_COLUMNS, RECORD_COLUMNS

if TYPE_CHECKING:
    from kafkalog.typing import Layout

    Fields = list[tuple[str, pa.DataType]]

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
LAYOUTS = pytest.mark.parametrize("layout", ["binary", "view"])
RECORDS = {"events": 880, "ledger": 907, "orders": 880}


@pytest.fixture(scope="module")
def orders() -> corpus.Columns:
    """Return Kafka's records of one partition, without control records."""
    folder = DATA / "orders-0"
    answers = corpus.GOLDEN / "clean-restarts" / "expected" / "orders-0"
    return corpus.expected_records(corpus.Partition(folder, answers, "orders", 0, "live"))


def scan(**options: Any) -> kafkalog.RecordReader:
    return kafkalog.scan(DATA, **options)


def queried(query: str, reader: kafkalog.RecordReader) -> list[Any]:
    """Ask DuckDB, which finds ``reader`` by its name here."""
    assert reader is not None
    relation: Any = duckdb.sql(query)
    rows: list[Any] = relation.fetchall()
    return rows


def test_default_columns_and_rows(orders: corpus.Columns) -> None:
    table = kafkalog.read_table(DATA, topics="orders")
    assert tuple(table.column_names) == DEFAULT_COLUMNS
    assert table["offset"].to_pylist() == orders["offset"]
    assert table["value"].to_pylist() == orders["value"]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == orders["timestamp"]
    assert table["headers"].to_pylist() == orders["headers"]


def test_rows_come_by_topic_partition_offset() -> None:
    table = kafkalog.read_table(
        [DATA, DATA.parent / "data-0"], columns=["topic", "partition", "offset"], threads=3, batch_rows=100
    )
    keys = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    assert keys == sorted(keys)
    assert {topic for topic, _, _ in keys} == {"events", "ledger", "orders", "state"}, "internal topics are left out"


def test_internal_topics_are_read_when_named_matched_or_given_by_path() -> None:
    named = kafkalog.read_table(DATA, topics="__transaction_state").num_rows
    matched = kafkalog.read_table(DATA, topic_pattern="__trans.*").num_rows
    by_path = kafkalog.read_table(DATA / "__transaction_state-1").num_rows
    assert named == matched == by_path == 95


def test_one_underscore_makes_no_topic_internal(tmp_path: Path) -> None:
    """Such as `_schemas`, a schema registry's, which to Kafka (`Topic.isInternal`) is as any other."""
    shutil.copytree(DATA / "orders-0", tmp_path / "_schemas-0")
    assert kafkalog.read_table(tmp_path, columns="topic")["topic"].unique().to_pylist() == ["_schemas"]
    assert kafkalog.scan_batches(tmp_path).read_all()["topic"].unique().to_pylist() == ["_schemas"]


def test_partitions_of_all_topics_or_of_each() -> None:
    def read(**options: Any) -> set[tuple[Any, Any]]:
        table = kafkalog.read_table([DATA, DATA.parent / "data-0"], columns=["topic", "partition"], **options)
        return {(row["topic"], row["partition"]) for row in table.to_pylist()}

    live = {("events", 0), ("events", 1), ("ledger", 0), ("orders", 0), ("state", 0)}
    assert read(partitions=[0, 1]) == read(partitions=range(2)) == live
    assert read(partitions=1) == {("events", 1)}
    assert read(partitions={"events": [1], "orders": 0}) == {("events", 1), ("orders", 0)}


def test_a_pattern_matches_whole_names() -> None:
    def topics(pattern: str) -> set[str | None]:
        return set(kafkalog.read_table(DATA, topic_pattern=pattern, columns="topic")["topic"].to_pylist())

    assert topics("ord.*|ledger") == {"orders", "ledger"}
    assert topics("(?i)ORD.*|(?i:L)edger") == {"orders", "ledger"}
    assert topics("order") == topics("rders") == topics("order|rders") == set()


@LAYOUTS
def test_every_column_in_any_order(layout: Layout) -> None:
    names = [column.name for column in RECORD_COLUMNS]
    whole = scan(columns=names, layout=layout).read_all()
    whole.validate(full=True)
    backwards = scan(columns=names[::-1], layout=layout).read_all()
    assert backwards.select(names) == whole
    for name in names:
        assert scan(columns=name, layout=layout).read_all()[name].equals(whole[name]), name


@LAYOUTS
def test_taken_by_others_through_the_protocol(layout: Layout, orders: corpus.Columns) -> None:
    want = list(zip(orders["offset"], orders["key"], orders["value"], strict=True))
    options: dict[str, Any] = {"topics": "orders", "columns": ["offset", "key", "value"], "layout": layout}

    table = pa.table(scan(**options))
    table.validate(full=True)
    assert list(zip(*(c.to_pylist() for c in table.columns), strict=True)) == want
    assert pl.DataFrame(scan(**options)).rows() == want
    reader = scan(**options)
    assert queried('select "offset", key, value from reader order by "offset"', reader) == want
    if hasattr(pd.DataFrame, "from_arrow"):
        frame = pd.DataFrame.from_arrow(scan(**options))
        assert list(frame["offset"]) == orders["offset"]
        assert list(frame["value"].dropna()) == [value for value in orders["value"] if value is not None]


def test_duckdb_may_ask_for_some_columns_and_rows() -> None:
    reader = scan()
    counted = queried("select topic, count(*) from reader group by topic order by topic", reader)
    assert counted == sorted(RECORDS.items())
    reader = scan()
    assert queried("select partition from reader limit 3", reader) == [(1,)] * 3


def test_iterates_once() -> None:
    reader = scan(topics="orders", batch_rows=100)
    batches = list(reader)
    assert [batch.num_rows for batch in batches] == [100] * 8 + [80]
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert list(reader) == []


def test_the_rest_of_an_iteration_is_a_stream() -> None:
    reader = scan(topics="orders", batch_rows=100, columns="offset")
    first = next(reader)
    rest = pa.table(reader)
    assert first["offset"].to_pylist() + rest["offset"].to_pylist() == list(range(880))


def test_taking_the_stream_twice_is_an_error() -> None:
    reader = scan()
    pa.table(reader)
    with pytest.raises(ValueError, match="already"):
        pa.table(reader)
    with pytest.raises(ValueError, match="already"):
        next(reader)


def test_closed() -> None:
    with scan(batch_rows=10) as reader:
        kept = next(reader)
    for use in (reader.read_all, lambda: next(reader), reader.__arrow_c_stream__):
        with pytest.raises(ValueError, match="closed"):
            use()
    reader.close()
    assert reader.schema.names == list(DEFAULT_COLUMNS)
    assert "closed" in repr(reader)
    kept.validate(full=True)


def test_views_outlive_the_reader_and_the_file(tmp_path: Any) -> None:
    import shutil

    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    with kafkalog.scan(tmp_path, layout="view", columns=["value"]) as reader:
        table = reader.read_all()
    shutil.rmtree(tmp_path / "orders-0")
    del reader
    gc.collect()
    table.validate(full=True)
    assert table["value"].cast(pa.binary()) == kafkalog.read_table(DATA, topics="orders", columns="value")["value"]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", ["orders-0", "codec-mixed-0", "txn-aborts-0"])
@LAYOUTS
def test_buffers_are_aligned(layout: Layout, name: str, threads: int) -> None:
    """All of every column, children too; but views may point anywhere into the file."""
    folder = next(p for p in corpus.partitions() if p.folder.name == name).folder
    columns = [column.name for column in RECORD_COLUMNS]
    seen = 0
    for batch in kafkalog.scan(folder, layout=layout, batch_rows=99, columns=columns, threads=threads):
        for place, column in zip(columns, batch.columns, strict=True):
            own = column.buffers()[: 2 if layout == "view" else None]
            odd = [buffer.address % 64 for buffer in own if buffer is not None and buffer.size]
            assert set(odd) <= {0}, place
            seen += len(odd)
    assert seen > 100


def test_requested_schema() -> None:
    def taken(*fields: tuple[str, pa.DataType], **options: Any) -> pa.Table:
        reader = scan(topics="orders", columns=[name for name, _ in fields], **options)
        return pa.RecordBatchReader.from_stream(reader, schema=pa.schema(list(fields))).read_all()

    plain = kafkalog.read_table(DATA, topics="orders", columns=["offset", "timestamp", "value"])
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        table = taken(("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC")), ("value", kind))
        assert table.schema.types == [pa.int64(), pa.timestamp("us", "UTC"), kind]
        assert table["value"].cast(pa.binary()) == plain["value"]
        assert table["timestamp"] == plain["timestamp"].cast(pa.timestamp("us", "UTC"))
    assert taken(("offset", pa.int32())).schema.types == [pa.int32()]


def requested(fields: Fields, reader: kafkalog.RecordReader) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(reader, schema=pa.schema(fields))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_requested_schema_may_have_fewer_columns(threads: int) -> None:
    fields: Fields = [("value", pa.binary_view()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))]
    table = requested(fields, scan(topics="orders", threads=threads)).read_all()
    assert table.schema == pa.schema(fields)
    plain = kafkalog.read_table(DATA, topics="orders", columns=table.schema.names)
    assert table.cast(plain.schema) == plain
    assert pa.table(scan(topics="orders"), schema=pa.schema([("offset", pa.int64())])) == plain.select(["offset"])


def test_a_requested_schema_of_columns_that_are_not_read_is_left_aside() -> None:
    columns = ["offset", "key"]
    for names in (["offset", "nothing"], ["offset", "value"], ["offset", "offset"], []):
        reader = requested([(name, pa.binary_view()) for name in names], scan(topics="orders", columns=columns))
        assert reader.schema == scan(topics="orders", columns=columns).schema
        assert reader.read_all().num_rows == 880
    started = scan(topics="orders", batch_rows=100)
    next(started)
    rest = requested([("offset", pa.int64())], started)
    assert rest.schema == started.schema
    assert rest.read_all().num_rows == 780


def test_headers_are_read_in_the_requested_layout() -> None:
    kind = scan(layout="view", columns="headers").schema.field("headers").type
    table = requested([("headers", kind)], scan(topics="orders")).read_all()
    assert table.schema.types == [kind]
    plain = kafkalog.read_table(DATA, topics="orders", columns="headers")
    assert table["headers"].to_pylist() == plain["headers"].to_pylist()


def test_schema_is_told_before_and_without_reading() -> None:
    reader = scan()
    assert pa.schema(reader) == reader.schema  # type: ignore[arg-type]
    assert reader.metrics["bytes"] == 0
    assert reader.read_all().schema == reader.schema


def test_metrics() -> None:
    reader = scan(topics="orders", threads=2)
    table = reader.read_all()
    assert reader.metrics["records"] == table.num_rows == 880
    assert reader.metrics["batches"] == 38
    size = sum(file.stat().st_size for file in (DATA / "orders-0").glob("*.log"))
    assert reader.metrics["bytes"] == size


def test_metrics_of_what_was_skipped_and_decompressed() -> None:
    listed = kafkalog.scan_batches(DATA, topics="ledger").read_all()
    control = listed["isControl"].to_pylist().count(True)
    reader, uncompressed = scan(topics="ledger"), kafkalog.scan(corpus.GOLDEN / "corrupt" / "index-good" / "t-0")
    assert (reader.read_all().num_rows, uncompressed.read_all().num_rows) == (907, 10)
    assert (reader.metrics["batches"], reader.metrics["skipped"]) == (listed.num_rows - control, control)
    assert reader.metrics["skipped_records"] == control > 0
    assert reader.metrics["copied"] > 0 == uncompressed.metrics["copied"]
    assert (reader.metrics["segments"], reader.metrics["segments_lost"]) == (14, 0)


@LAYOUTS
@pytest.mark.parametrize("threads", [1, 2])
def test_views_point_into_what_was_decompressed(tmp_path: Path, layout: Layout, threads: int) -> None:
    """Once, for keys and values; gathered columns have memory of their own."""
    config = kafkalog.LogConfig(compression_type="gzip")
    with kafkalog.LogWriter(tmp_path, "t", config=config) as log:
        log.append([kafkalog.Record(b"value number %09d" % n, b"key number %09d" % n) for n in range(300)])
    block = zlib.decompress((tmp_path / "t-0" / f"{0:020}.log").read_bytes()[61:], 31)
    reader = kafkalog.scan(tmp_path, columns=["key", "value"], layout=layout, threads=threads)
    (batch,) = reader
    assert reader.metrics["copied"] == len(block)
    held = [[b for b in column.buffers()[2:] if b is not None and b.size] for column in batch.columns]
    assert [sum(block in bytes(memoryview(each)) for each in some) for some in held] == [int(layout == "view")] * 2
    assert ({b.address for b in held[0]} == {b.address for b in held[1]}) == (layout == "view")


@LAYOUTS
@pytest.mark.parametrize(
    "name", ["ts-out-of-order-0", "ts-append-0", "txn-open-0", "codec-mixed-0", "grown-one-segment-0"]
)
def test_bounds_leave_out_what_a_filter_of_everything_leaves_out(name: str, layout: Layout) -> None:
    """Every column, times out of order, every codec, old formats, transactions."""
    log = kafkalog.PartitionLog(next(p for p in corpus.partitions() if p.folder.name == name).folder)
    everything = log.scan(columns=list(corpus.RECORD_COLUMNS), isolation_level="read_committed").read_all()
    times: list[Any] = everything["timestamp"].cast(pa.int64()).to_pylist()
    offsets: list[Any] = everything["offset"].to_pylist()
    low, high = sorted(times)[len(times) // 3], sorted(times)[2 * len(times) // 3]
    kept = [low <= time <= high and offset >= offsets[20] for time, offset in zip(times, offsets, strict=True)]
    expected = everything.filter(pa.array(kept))
    for threads in (1, 3):
        reader = log.scan(
            columns=list(corpus.RECORD_COLUMNS),
            isolation_level="read_committed",
            min_timestamp=low,
            max_timestamp=datetime.fromtimestamp(high / 1000, timezone.utc) + timedelta(microseconds=900),
            min_offset=offsets[20],
            layout=layout,
            threads=threads,
            batch_rows=64,
        )
        table = reader.read_all()
        assert 0 < table.num_rows == expected.num_rows < everything.num_rows
        assert table.cast(everything.schema).equals(expected)
        assert reader.metrics["records"] == table.num_rows
        assert reader.metrics["skipped"] + reader.metrics["skipped_records"] > 0


def test_bounds_that_nothing_is_within_are_no_error() -> None:
    for bounds in ({"min_offset": 10**9}, {"max_offset": -5}, {"min_timestamp": 1 << 62}, {"max_timestamp": 0}):
        assert scan(topics="orders", **bounds).read_all().num_rows == 0


def test_batches_of_aborted_transactions_are_passed_over_unread() -> None:
    folder = next(p for p in corpus.partitions() if p.folder.name == "txn-aborts-0")
    log = kafkalog.PartitionLog(folder.folder)
    both = {}
    levels: tuple[Literal["read_uncommitted", "read_committed"], ...] = ("read_uncommitted", "read_committed")
    for level in levels:
        reader = log.scan(isolation_level=level)
        rows = reader.read_all().num_rows
        metrics = reader.metrics
        both[level] = metrics
        assert metrics["records"] == rows
    all_of_it, committed = both["read_uncommitted"], both["read_committed"]
    assert committed["batches"] + committed["skipped"] == all_of_it["batches"] + all_of_it["skipped"]
    hidden = all_of_it["records"] - committed["records"]
    assert hidden == committed["skipped_records"] - all_of_it["skipped_records"] > 0
    assert committed["bytes"] == all_of_it["bytes"]
    assert committed["copied"] < all_of_it["copied"]


def test_lost_is_empty_and_has_its_columns() -> None:
    lost = scan().lost
    assert lost.num_rows == 0
    assert dict(zip(lost.column_names, lost.schema.types, strict=True)) == {
        "topic": pa.string(),
        "partition": pa.int32(),
        "segment": pa.string(),
        "position": pa.int64(),
        "endPosition": pa.int64(),
        "firstOffset": pa.int64(),
        "lastOffset": pa.int64(),
        "reason": pa.string(),
    }


def test_offsets_are_inclusive_and_exclusive() -> None:
    def offsets(**options: Any) -> list[int]:
        table = kafkalog.read_table(DATA, topics="orders", columns="offset", **options)
        found: list[Any] = table["offset"].to_pylist()
        return found

    assert offsets(starting_offsets=870) == list(range(870, 880))
    assert offsets(ending_offsets=3) == [0, 1, 2]
    assert offsets(starting_offsets={"orders": {0: 877}}, ending_offsets={"orders": {0: 879}}) == [877, 878]
    assert offsets(starting_offsets={"orders": {0: -2}}, ending_offsets={"orders": {0: -1}}) == list(range(880))
    assert offsets(starting_offsets=-2, ending_offsets=-1) == list(range(880))
    assert offsets(starting_offsets="oldest", ending_offsets="high_watermark") == list(range(880))


def test_times_follow_list_offsets(orders: corpus.Columns) -> None:
    log = kafkalog.PartitionLog(DATA / "orders-0")
    start, end = orders["timestamp"][400], orders["timestamp"][700]
    first, last = log.offset_for_timestamp(start), log.offset_for_timestamp(end)
    assert first is not None
    assert last is not None
    table = log.scan(columns="offset", starting_timestamp=start, ending_timestamp=end).read_all()
    assert table["offset"].to_pylist() == list(range(first.offset, last.offset))


def test_control_records() -> None:
    without = kafkalog.read_table(DATA, topics="ledger", columns=["offset"])
    all_of_them = kafkalog.read_table(DATA, topics="ledger", columns=["isControl", "controlType"], include_control=True)
    assert without.num_rows == 907
    assert all_of_them.num_rows == 954
    kinds = all_of_them.filter(all_of_them["isControl"])["controlType"]
    assert set(kinds.to_pylist()) <= {"COMMIT", "ABORT"}
    assert len(kinds) == 47


def test_microseconds() -> None:
    ms = kafkalog.read_table(DATA, columns="timestamp")["timestamp"]
    us = kafkalog.read_table(DATA, columns="timestamp", timestamp_unit="us")["timestamp"]
    assert us.type == pa.timestamp("us", "UTC")
    assert us == ms.cast(us.type)


def test_unchecked_reads_over_a_flipped_bit() -> None:
    folder = corpus.GOLDEN / "corrupt" / "flipped-crc" / "t-0"
    with pytest.raises(kafkalog.CorruptRecordError):
        kafkalog.read_table(folder)
    assert kafkalog.read_table(folder, check_crcs=False).num_rows == 10


def test_batches_in_dump_log_words() -> None:
    table = kafkalog.scan_batches(DATA, topics=["orders", "events"]).read_all()
    assert table.column_names == [column.name for column in BATCH_COLUMNS]
    assert table.num_rows == 33 + 38
    assert table["isValid"].to_pylist() == [True] * 71
    assert kafkalog.scan_batches(DATA, check_crcs=False).read_all()["isValid"].null_count == 33 + 38 + 207


def test_batches_up_to_an_offset_inside_a_wrapper() -> None:
    """A wrapper is stored under its last offset: it is listed where it holds any record below the end."""
    folder = corpus.GOLDEN / "v0-0.8.2.2" / "data-0" / "mixcodec-0"
    rows = kafkalog.scan_batches(folder).read_all().select(["baseOffset", "lastOffset"]).to_pylist()
    inside = [end for row in rows for end in range(row["baseOffset"] + 1, row["lastOffset"] + 1)]
    assert len(inside) > 100
    for end in inside:
        listed = kafkalog.scan_batches(folder, ending_offsets=end).read_all()["baseOffset"].to_pylist()
        assert listed == [row["baseOffset"] for row in rows if row["baseOffset"] < end]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.sampled(4)
def test_a_range_that_begins_deep_in_a_batch(tmp_path: Path, codec: str, layout: Any) -> None:
    """More records may come before it than are decoded at a time, and the next segment is not what comes after them."""
    count, config = 5000, kafkalog.LogConfig(compression_type=codec)
    data = pa.table({"value": [b"%d" % n for n in range(count)]})
    with kafkalog.LogWriter(tmp_path, "t", config=config, batch_bytes=1 << 20) as log:
        assert log.append(data).batches == 1
        log.roll()
        assert log.append(data).batches == 1
    for start in (0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 3500, 4999, 5000, 7048, 7049, 9999):
        for end in (start, start + 1, start + 1024, start + 3000, 2 * count):
            rows = kafkalog.read_table(
                tmp_path, columns="value", starting_offsets=start, ending_offsets=end, layout=layout
            )
            wanted = [b"%d" % (n % count) for n in range(start, min(end, 2 * count))]
            assert rows["value"].to_pylist() == wanted, (start, end)
    bounded = kafkalog.read_table(tmp_path, columns="offset", min_offset=4000, max_offset=4010, threads=2)
    assert bounded["offset"].to_pylist() == list(range(4000, 4011))


def test_threads_share_a_reader() -> None:
    """Each batch goes to one of them, and a close from outside ends them all, be they in the middle of a batch."""
    whole = kafkalog.read_table(DATA).num_rows
    for closed_early in (False, True):
        reader = kafkalog.scan(DATA, batch_rows=7)
        rows: list[int] = []
        ends: list[str] = []

        def read(reader: kafkalog.RecordReader = reader, rows: list[int] = rows, ends: list[str] = ends) -> None:
            try:
                rows.extend(batch.num_rows for batch in reader)
            except ValueError as error:
                ends.append(str(error))

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        if closed_early:
            reader.close()
        for thread in threads:
            thread.join()
        assert set(ends) <= ({"this reader is closed"} if closed_early else set())
        assert closed_early or sum(rows) == whole


def test_what_a_reader_says_of_itself() -> None:
    reader = kafkalog.scan(DATA)
    assert repr(reader) == "<kafkalog.RecordReader, not started>"
    pa.table(reader)
    assert repr(reader).startswith("<kafkalog.RecordReader, started: 2667 rows, ")
    reader.close()
    assert repr(reader).startswith("<kafkalog.RecordReader, closed: 2667 rows, ")


def test_a_source_is_left_as_it_was(tmp_path: Any) -> None:
    import hashlib
    import shutil

    def state() -> dict[str, tuple[int, str]]:
        return {
            str(file): (
                file.stat().st_mtime_ns,
                hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "",
            )
            for file in sorted(tmp_path.rglob("*"))
        }

    shutil.copytree(DATA, tmp_path / "data-1")
    before = state()
    kafkalog.read_table(tmp_path / "data-1", layout="view", threads=2)
    kafkalog.scan_batches(tmp_path / "data-1").read_all()
    for log in kafkalog.LogDir(tmp_path / "data-1"):
        log.statistics()
        log.lookup(log.log_start_offset)
        log.offset_of_max_timestamp()
    assert state() == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists a process's maps as files")
@pytest.mark.parametrize("threads", [1, 2])
def test_views_point_into_the_mapped_file(tmp_path: Path, threads: int) -> None:
    """The map of a closed segment lives as long as any array that points into it; gathered columns need none."""
    shutil.copytree(DATA / "ledger-0", tmp_path / "ledger-0")
    closed = sorted((tmp_path / "ledger-0").glob("*.log"))[:-1]

    def mapped() -> list[Path]:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8")
        return [path for path in closed if f"{path}\n" in maps]

    table = kafkalog.read_table(tmp_path / "ledger-0", columns=["offset", "value"], layout="view", threads=threads)
    plain = kafkalog.read_table(tmp_path / "ledger-0", columns=["segment", "value", "compression"]).to_pylist()
    longer = {row["segment"] for row in plain if row["compression"] == "none" and len(row["value"] or b"") > 12}
    assert mapped() == [path for path in closed if path.name in longer]
    assert len(longer) > 10
    values = table["value"].chunk(0)
    del table
    assert mapped() != []
    assert len(values[0].as_py()) > 12
    del values
    assert mapped() == []
    gathered = kafkalog.read_table(tmp_path / "ledger-0", columns=["offset", "value"], threads=threads)
    assert (gathered.num_rows > 0, mapped()) == (True, [])
