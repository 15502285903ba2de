"""``LogWriter``: what goes in comes out, by our own reader and by a naive one; and every refusal by its name."""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

import corpus
import kafkalog
import naive
from kafkalog import AppendInfo, LogConfig, LogWriter, Record
from naive import Row

NOW = 1_700_000_000_000


def clock() -> int:
    return NOW


def writer(log_dir: Path, **options: Any) -> LogWriter:
    options = {"clock": clock, **options}
    return LogWriter(log_dir, "orders", options.pop("partition", 0), **options)


def ours(folder: Path) -> list[Row]:
    """Read by our own reader."""
    columns = ["offset", "timestamp", "key", "value", "headers"]
    table = kafkalog.read_table(folder, columns=columns)
    table = table.set_column(1, "timestamp", table["timestamp"].cast(pa.int64()))
    return [
        Row(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row in table.to_pylist()
    ]


def both(folder: Path) -> list[Row]:
    """Read twice, and once by somebody else."""
    rows = naive.rows(folder)
    assert ours(folder) == rows
    naive.check_indexes(folder)
    return rows


# What goes in

VALUES = [b"a", b"", None, b"\xc3\xa9t\xc3\xa9", b"long " * 50]
TEXTS = [None if value is None else value.decode() for value in VALUES]
KEYS = [b"k0", None, b"", b"k3", b"k4"]
TIMES = [NOW, NOW - 1, NOW + 5, 0, NOW]
HEADERS = [None, [("h", b"1")], [("a", None), ("a", b"")], [], [("\u00e9", b"\xff")]]
EXPECTED = [
    Row(n, time, key, value, tuple(headers or ()))
    for n, (time, key, value, headers) in enumerate(zip(TIMES, KEYS, VALUES, HEADERS, strict=True))
]
HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def header_cells() -> list[Any]:
    return [None if h is None else [{"key": key, "value": value} for key, value in h] for h in HEADERS]


def table() -> pa.Table:
    return pa.table(
        {
            "key": pa.array(KEYS, pa.binary()),
            "value": pa.array(VALUES, pa.binary()),
            "timestamp": pa.array(TIMES, pa.timestamp("ms", "UTC")),
            "headers": pa.array(header_cells(), HEADER_TYPE),
        }
    )


class OnlyAnArray:
    """What knows ``__arrow_c_array__`` alone."""

    def __init__(self, data: pa.Table) -> None:
        self.batch = data.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)  # type: ignore[no-untyped-call]


def sliced() -> pa.Table:
    padded = pa.concat_tables([table().slice(3), table(), table().slice(0, 2)]).combine_chunks()
    return padded.slice(2, 5)


SOURCES: dict[str, Any] = {
    "table": table,
    "record batch": lambda: table().to_batches()[0],
    "reader": lambda: table().to_reader(max_chunksize=2),
    "array only": lambda: OnlyAnArray(table()),
    "sliced": sliced,
    "chunked": lambda: pa.concat_tables([table().slice(0, 1), table().slice(1, 0), table().slice(1)]),
    "struct array": lambda: pa.chunked_array([table().to_struct_array().combine_chunks()]),
    "records": lambda: [
        Record(value, key, time, headers or (), None)
        for key, value, time, headers in zip(KEYS, VALUES, TIMES, HEADERS, strict=True)
    ],
    "generator": lambda: (
        Record(value, key, datetime.fromtimestamp(time / 1000, timezone.utc), headers or ())
        for key, value, time, headers in zip(KEYS, VALUES, TIMES, HEADERS, strict=True)
    ),
    "polars": lambda: pl.DataFrame(table()),
    "duckdb": lambda: duckdb.from_arrow(table()),
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources(tmp_path: Path, source: str) -> None:
    with writer(tmp_path) as log:
        info = log.append(SOURCES[source]())
    assert (info.first_offset, info.last_offset, info.records) == (0, 4, 5)
    assert info.bytes == (tmp_path / "orders-0" / f"{0:020}.log").stat().st_size
    assert info.max_timestamp == max(TIMES)
    assert both(tmp_path / "orders-0") == EXPECTED


def test_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": KEYS, "value": VALUES})
    with writer(tmp_path) as log:
        log.append(pa.table(frame))
        if hasattr(frame, "__arrow_c_stream__"):
            log.append(frame)
    rows = both(tmp_path / "orders-0")
    assert [(row.key, row.value, row.timestamp) for row in rows[:5]] == [
        (key, value, NOW) for key, value in zip(KEYS, VALUES, strict=True)
    ]
    assert len(rows) in {5, 10}


LAYOUTS: dict[str, Any] = {
    "binary": (pa.binary(), VALUES),
    "large_binary": (pa.large_binary(), VALUES),
    "binary_view": (pa.binary_view(), VALUES),
    "string": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "string_view": (pa.string_view(), TEXTS),
    "fixed": (pa.binary(3), [b"abc", b"\0\0\0", None, b"def", b"ghi"]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("column", ["key", "value"])
@pytest.mark.parametrize("shape", ["plain", "dictionary"])
def test_layouts(tmp_path: Path, layout: str, column: str, shape: str) -> None:
    kind, cells = LAYOUTS[layout]
    array = pa.array(cells, kind)
    if shape == "dictionary":
        values = pa.array([cell for cell in cells if cell is not None], kind)
        index = iter(range(len(values)))
        array = pa.DictionaryArray.from_arrays(
            pa.array([None if cell is None else next(index) for cell in cells], pa.int16()), values
        )
    with writer(tmp_path) as log:
        log.append(pa.table({column: array}))
    expected = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
    assert [getattr(row, column) for row in both(tmp_path / "orders-0")] == expected


UNITS: dict[str, Any] = {
    "s": (pa.timestamp("s"), 1_700_000_000, 1_700_000_000_000),
    "ms": (pa.timestamp("ms", "UTC"), 1_700_000_000_123, 1_700_000_000_123),
    "us": (pa.timestamp("us", "Europe/Berlin"), 1_700_000_000_123_999, 1_700_000_000_123),
    "ns": (pa.timestamp("ns"), 1_700_000_000_123_999_999, 1_700_000_000_123),
    "int64": (pa.int64(), 1_700_000_000_123, 1_700_000_000_123),
}


@pytest.mark.parametrize("unit", UNITS)
def test_time_units(tmp_path: Path, unit: str) -> None:
    kind, given, stored = UNITS[unit]
    cells = pa.array([given, None], pa.int64()).cast(kind) if unit != "int64" else pa.array([given, None], kind)
    with writer(tmp_path) as log:
        log.append(pa.table({"value": [b"x", b"y"], "timestamp": cells}))
    assert [row.timestamp for row in both(tmp_path / "orders-0")] == [stored, NOW]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
        pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())])),
    ],
    ids=str,
)
def test_header_layouts(tmp_path: Path, kind: pa.DataType) -> None:
    with writer(tmp_path) as log:
        log.append(pa.table({"value": VALUES, "headers": pa.array(header_cells(), kind)}))
    assert [row.headers for row in both(tmp_path / "orders-0")] == [tuple(h or ()) for h in HEADERS]


def test_a_read_table_is_written_again(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    read = kafkalog.read_table(source)
    with writer(tmp_path, clock=None) as log:
        with pytest.raises(ValueError, match="topic"):
            log.append(read)
        assert log.log_end_offset == 0
        assert log.append(read, extra="ignore").records == read.num_rows
    again = kafkalog.read_table(tmp_path)
    same = ["key", "value", "timestamp", "headers", "topic", "partition"]
    assert again.select(same).equals(read.select(same))
    assert again["offset"].to_pylist() == list(range(read.num_rows))


def test_a_reader_is_written_without_a_table_between(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    with (
        writer(tmp_path, clock=None) as log,
        kafkalog.scan(source, columns=["key", "value", "timestamp", "headers"]) as reader,
    ):
        assert log.append(reader).records == 880


def test_a_damaged_source_says_what_it_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with writer(source) as log:
        log.append([Record(b"x" * 100) for _ in range(100)])
    file = source / "orders-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    with writer(tmp_path / "target") as log:
        with pytest.raises(kafkalog.CorruptRecordError) as caught:
            log.append(kafkalog.scan(source, columns=["value"]))
        assert caught.value.path == str(file)
        assert log.log_end_offset == 0
        log.append([Record(b"on")])


# How it is laid out


def test_batches_are_cut_by_bytes(tmp_path: Path) -> None:
    with writer(tmp_path, batch_bytes=1000) as log:
        info = log.append(pa.table({"value": [b"v" * 90] * 200}))
    found = naive.batches(tmp_path / "orders-0")
    assert info.batches == len(found)
    assert all(batch.size <= 1000 for batch in found)
    assert max(batch.size for batch in found) > 900
    assert len(both(tmp_path / "orders-0")) == 200


def test_segments_roll_by_size_and_snapshots_follow(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4000, index_interval_bytes=500)
    with writer(tmp_path, config=config, batch_bytes=400) as log:
        info = log.append([Record(b"v" * 90, b"%d" % n, NOW + n) for n in range(300)])
        assert info.rolled == len(naive.segments(tmp_path / "orders-0")) - 1 > 5
        active = max((tmp_path / "orders-0").glob("*.index"))
        assert active.stat().st_size == 10_485_760
    folder = tmp_path / "orders-0"
    assert all(log.stat().st_size <= 4000 for log in naive.segments(folder))
    assert naive.check_indexes(folder) > 40
    assert max((tmp_path / "orders-0").glob("*.index")).stat().st_size < 1000
    # The last two that a broker needs, the one of the log's end among them.
    assert [int(p.stem) for p in sorted(folder.glob("*.snapshot"))][-1] == 300
    assert len(both(folder)) == 300


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(tmp_path: Path, codec: str) -> None:
    data = pa.table({"value": [b"the same words again and again %d" % n for n in range(1000)]})
    with writer(tmp_path, config=LogConfig(compression_type=codec)) as log:
        plain = log.append(data)
    folder = tmp_path / "orders-0"
    named = kafkalog.scan_batches(folder).read_all()["compression"].unique().to_pylist()
    assert named == ["none" if codec == "uncompressed" else codec]
    assert kafkalog.read_table(folder, columns=["value"]).equals(data)
    assert (plain.bytes < 20_000) == (codec != "uncompressed")
    if codec in {"uncompressed", "gzip"}:
        assert len(both(folder)) == 1000


def test_log_append_time(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    with writer(tmp_path, config=config) as log:
        log.append([Record(b"x", timestamp=1), Record(b"y", timestamp=2)])
    assert [row.timestamp for row in both(tmp_path / "orders-0")] == [NOW, NOW]
    assert kafkalog.read_table(tmp_path)["timestampType"].to_pylist() == [1, 1]


def test_roll_flush_truncate(tmp_path: Path) -> None:
    with writer(tmp_path, batch_bytes=1) as log:
        log.append([Record(b"%d" % n) for n in range(10)])
        assert log.recovery_point == 0
        log.flush()
        assert log.recovery_point == 10
        log.roll()
        log.append([Record(b"%d" % n) for n in range(10, 15)])
        assert [int(p.stem) for p in naive.segments(tmp_path / "orders-0")] == [0, 10]
        assert not log.truncate(15)
        assert log.truncate(12)
        assert log.log_end_offset == 12
        assert log.append([Record(b"again")]).first_offset == 12
        assert log.truncate(4)
        assert (log.log_end_offset, log.recovery_point) == (4, 4)
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"0", b"1", b"2", b"3"]
    with writer(tmp_path) as log:
        log.truncate_fully(100)
        assert (log.log_start_offset, log.log_end_offset) == (100, 100)
        log.append([Record(b"x")])
    assert [row.offset for row in both(tmp_path / "orders-0")] == [100]


def test_reopened_it_goes_on(tmp_path: Path) -> None:
    for n in range(5):
        with writer(tmp_path) as log:
            assert log.log_end_offset == n
            log.append([Record(b"%d" % n)])
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"0", b"1", b"2", b"3", b"4"]


def test_keeping_offsets(tmp_path: Path) -> None:
    data = pa.table({"value": [b"a", b"b", b"c"], "offset": [3, 7, 8]})
    with writer(tmp_path) as log:
        info = log.append(data, keep_offsets=True)
        assert (info.first_offset, info.last_offset, log.log_end_offset) == (3, 8, 9)
        log.append([Record(b"d", offset=20)], keep_offsets=True)
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append([Record(b"e", offset=20)], keep_offsets=True)
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append(pa.table({"value": [b"f", b"g"], "offset": [31, 30]}), keep_offsets=True)
        # The batch before the one that does not rise stays.
        assert log.log_end_offset == 32
    assert [(row.offset, row.value) for row in both(tmp_path / "orders-0")] == [
        (3, b"a"),
        (7, b"b"),
        (8, b"c"),
        (20, b"d"),
        (31, b"f"),
    ]


# The log dir


def test_identity_of_the_log_dir(tmp_path: Path) -> None:
    topic_id = base64.urlsafe_b64encode(uuid.UUID(int=7 << 64).bytes).decode().rstrip("=")
    options: dict[str, Any] = {"topic_id": topic_id, "cluster_id": "kafkalogTESTclusterAA", "node_id": 1}
    with writer(tmp_path, **options) as log:
        assert log.topic_id == topic_id
    meta = kafkalog.LogDir(tmp_path).meta
    assert meta is not None
    assert (meta["cluster.id"], meta["node.id"], meta["version"]) == ("kafkalogTESTclusterAA", "1", "1")
    assert len(meta["directory.id"]) == 22
    assert kafkalog.PartitionLog(tmp_path / "orders-0").topic_id == topic_id
    assert (tmp_path / "orders-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {topic_id}"
    with pytest.raises(ValueError, match="topic"):
        writer(tmp_path, topic_id=base64.urlsafe_b64encode(bytes(15) + b"\1").decode().rstrip("="))
    with writer(tmp_path) as log:
        assert log.topic_id == topic_id


def test_what_a_clean_close_leaves(tmp_path: Path) -> None:
    with writer(tmp_path) as log:
        log.append([Record(b"x")])
        assert (tmp_path / ".lock").exists()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
    directory = kafkalog.LogDir(tmp_path)
    assert directory.clean_shutdown
    offsets = {name: [tuple(each) for each in entries] for name, entries in directory.checkpoints.items()}
    assert offsets["recovery-point-offset-checkpoint"] == [("orders", 0, 1)]
    assert offsets["replication-offset-checkpoint"] == [("orders", 0, 1)]


def test_of_several_log_dirs_the_one_with_the_fewest_partitions(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    seen = []
    for partition in range(4):
        with writer(dirs, partition=partition) as log:  # type: ignore[arg-type]
            seen.append(Path(log.path).parent.name)
            log.append([Record(b"x")])
    assert sorted(seen) == ["a", "a", "b", "b"]
    with writer(dirs, partition=2) as log:  # type: ignore[arg-type]
        assert Path(log.path).parent.name == seen[2]
        assert log.log_end_offset == 1


HOLDER = """
import sys, kafkalog
with kafkalog.LogWriter(sys.argv[1], "orders"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_locked_out(tmp_path: Path) -> None:
    with writer(tmp_path):
        with pytest.raises(kafkalog.LogLockedError) as caught:
            writer(tmp_path)
        # One process may well write several partitions of a log dir.
        with writer(tmp_path, partition=1) as other:
            other.append([Record(b"x")])
    assert str(tmp_path) in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).path == caught.value.path  # noqa: S301 - our own
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(kafkalog.LogLockedError):
            writer(tmp_path)
        holder.stdin.close()
    assert holder.returncode == 0
    with writer(tmp_path) as log:
        log.append([Record(b"x")])


# What is refused; what was appended before stays


@pytest.mark.parametrize(
    ("data", "config", "error", "said"),
    [
        (pa.table({"topic": ["t"]}), {}, ValueError, "key"),
        (pa.table({"value": [b"x"], "colour": ["red"]}), {}, ValueError, "colour"),
        (pa.table({"value": [1]}), {}, ValueError, "value"),
        (pa.table({"value": [b"x"], "timestamp": ["soon"]}), {}, ValueError, "timestamp"),
        (pa.table({"value": [b"x"], "headers": [["a"]]}), {}, ValueError, "headers"),
        (pa.table({"value": [b"x"], "offset": [1]}), {}, ValueError, "offset"),
        ([Record(b"x" * 2_000_000)], {}, kafkalog.InvalidRecordError, "1048588"),
        ([Record(b"x", timestamp=NOW + 3_600_001)], {}, kafkalog.InvalidRecordError, "timestamp"),
        ([Record(b"x", timestamp=0)], {"message_timestamp_before_max_ms": 1}, kafkalog.InvalidRecordError, "timestamp"),
        ([Record(b"x")], {"cleanup_policy": "compact"}, kafkalog.InvalidRecordError, "compacted"),
        ([Record(None)], {"cleanup_policy": "compact"}, kafkalog.InvalidRecordError, "compacted"),
        ([b"x"], {}, TypeError, "Record"),
        (b"x", {}, TypeError, "bytes"),
        (Record(b"x"), {}, TypeError, "iterable"),
        ([Record("x")], {}, TypeError, "value"),  # type: ignore[arg-type]
        ([Record(b"x", offset=1)], {}, ValueError, "offset"),
    ],
)
def test_refusals(tmp_path: Path, data: Any, config: dict[str, Any], error: type[Exception], said: str) -> None:
    with writer(tmp_path, config=LogConfig(**config)) as log:
        log.append([Record(b"before", b"key")])
        with pytest.raises(error, match=said) as caught:
            log.append(data)
        assert "\n" not in str(caught.value)
        assert log.log_end_offset == 1
        assert log.append([Record(b"after", b"key")]).first_offset == 1
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"before", b"after"]


def test_a_refusal_in_the_middle_keeps_the_batches_before_it(tmp_path: Path) -> None:
    with writer(tmp_path, batch_bytes=1) as log:
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append([Record(b"a"), Record(b"b"), Record(b"x" * 2_000_000), Record(b"c")])
        end = log.log_end_offset
        log.append([Record(b"d")])
    assert [row.value for row in both(tmp_path / "orders-0")] == [*[b"a", b"b"][:end], b"d"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"topic": ""}, ValueError),
        ({"topic": "a/b"}, ValueError),
        ({"topic": ".."}, ValueError),
        ({"topic": "t" * 250}, ValueError),
        ({"topic": b"t"}, TypeError),
        ({"partition": -1}, ValueError),
        ({"partition": "0"}, TypeError),
        ({"config": {"segment.bytes": 1}}, TypeError),
        ({"sync": "always"}, ValueError),
        ({"extra": "drop"}, ValueError),
        ({"clock": 5}, TypeError),
        ({"topic_id": "not an id"}, ValueError),
        ({"batch_bytes": 0}, ValueError),
    ],
)
def test_arguments(tmp_path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    topic, partition = options.pop("topic", "t"), options.pop("partition", 0)
    with pytest.raises(error):
        LogWriter(tmp_path / "new", topic, partition, **options)


def test_a_clock_that_fails_is_heard(tmp_path: Path) -> None:
    def broken() -> int:
        raise ZeroDivisionError

    def words() -> Any:
        return "noon"

    with pytest.raises(ZeroDivisionError):
        LogWriter(tmp_path / "a", "t", clock=broken)
    with pytest.raises(TypeError):
        LogWriter(tmp_path / "b", "t", clock=words)


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    script = (
        "import os, sys, kafkalog\n"
        "os.setuid(65534)\n"
        "try:\n"
        "    kafkalog.LogWriter(sys.argv[1], 'orders')\n"
        "except PermissionError as error:\n"
        "    print(error.filename)\n"
    )
    if os.geteuid() == 0:
        tmp_path.chmod(0o755)
        log_dir = Path("/proc/self/kafka-logs")
        with pytest.raises(OSError, match="kafka-logs"):
            writer(log_dir)
        return
    tmp_path.chmod(0o555)
    assert script
    with pytest.raises(PermissionError):
        writer(tmp_path)


def test_closed_it_takes_nothing(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.append([Record(b"x")])
    log.close()
    log.close()
    assert log.closed
    for call in (lambda: log.append([Record(b"y")]), log.roll, log.flush, lambda: log.truncate(0)):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert "closed" in repr(log)


def test_an_error_in_the_block_is_the_one_that_is_told(tmp_path: Path) -> None:
    def fails() -> None:
        with writer(tmp_path) as log:
            log.append([Record(b"x")])
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert len(both(tmp_path / "orders-0")) == 1


# Another log's batches

BATCH_CASES = ["clean-restarts", "txn", "compact", "codecs", "v0-0.8.2.2", "mixed-upgrade", "empties"]


@pytest.mark.parametrize("case", BATCH_CASES)
def test_append_batches(tmp_path: Path, case: str) -> None:
    """Every batch of a real broker's partitions, byte for byte."""
    seen = 0
    for partition in corpus.partitions():
        if partition.case.name != case or partition.state != "live" or partition.topic.startswith("__"):
            continue
        out = tmp_path / str(seen)
        log = kafkalog.PartitionLog(partition.folder)
        with LogWriter(out, partition.topic, partition.partition, clock=clock) as target:
            info = target.append_batches(log)
            assert target.log_start_offset == log.log_start_offset
            if info.batches:
                assert target.log_end_offset == log.log_end_offset
        folder = out / partition.folder.name
        whole = [c for c in kafkalog.scan_batches(folder).schema.names if c not in {"segment", "position"}]
        theirs = log.batches().read_all()
        assert kafkalog.scan_batches(folder).read_all().select(whole).equals(theirs.select(whole))
        assert info.batches == theirs.num_rows
        columns = ["offset", "key", "value", "headers", "timestamp", "sequence", "controlType"]
        assert kafkalog.read_table(folder, columns=columns).equals(log.scan(columns=columns).read_all())
        seen += 1
    assert seen > 0


def test_append_batches_in_parts(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    with writer(tmp_path) as log:
        assert log.append_batches(kafkalog.scan_batches(source, ending_offsets=300)).first_offset == 0
        middle = log.log_end_offset
        assert 300 <= middle < 880
        log.append_batches(kafkalog.scan_batches(source, starting_offsets=middle))
        assert log.log_end_offset == 880
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append_batches(source)
        assert log.log_end_offset == 880
        with pytest.raises(ValueError, match="itself"):
            log.append_batches(log.path)
        with pytest.raises(ValueError, match="one partition"):
            log.append_batches(source.parent)
        with pytest.raises(ValueError, match="records"):
            log.append_batches(kafkalog.scan(source))
    assert kafkalog.read_table(tmp_path).equals(kafkalog.read_table(source))


def test_a_damaged_batch_is_not_passed_on(tmp_path: Path) -> None:
    with writer(tmp_path / "source", batch_bytes=1) as log:
        log.append([Record(b"%d" % n * 50) for n in range(10)])
    file = tmp_path / "source" / "orders-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with writer(tmp_path / "target") as log, pytest.raises(kafkalog.CorruptRecordError):
        log.append_batches(tmp_path / "source" / "orders-0")


def test_append_info_adds_up() -> None:
    nothing, first, then = AppendInfo(), AppendInfo(0, 4, 5, 1, 100, 0, 7), AppendInfo(5, 9, 5, 2, 90, 1, 3)
    assert first.followed_by(then) == AppendInfo(0, 9, 10, 3, 190, 1, 7)
    assert nothing.followed_by(first) == first.followed_by(nothing) == first
