"""``kafkalog.dataset`` as pyarrow and query engines call it: what is read, what is passed over, and what is counted."""

from __future__ import annotations

import pickle
import re
import shutil
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import corpus
import kafkalog
import tiers
from kafkalog import LogConfig, LogWriter
from kafkalog._intervals import Interval
from kafkalog.engines.expressions import parse
from kafkalog.engines.log_dataset import LogDataset
from kafkalog.engines.regions import ALL, Region, region
from kafkalog.schema import DEFAULT_COLUMNS, RECORD_COLUMNS, record_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
COLUMNS = [column.name for column in RECORD_COLUMNS]
NOW = 1_700_000_000_000
field = pc.field


def moment(millis: float) -> Any:
    return pa.scalar(int(millis * 1000), pa.timestamp("us", "UTC"))


# A partition of which a narrow window is a small part: 1 GB in the slow profile, some segments with indexes otherwise.
LOG_BYTES = (1 << 30) if tiers.SLOW else (12 << 20)
VALUE = b"v" * 1000
STEP = 128


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two topics, one of CreateTime and one of LogAppendTime; a millisecond passes with every record."""
    folder = tmp_path_factory.mktemp("long")
    values = pa.array([VALUE] * STEP, pa.binary())
    for topic, kind in (("created", "CreateTime"), ("appended", "LogAppendTime")):
        config = LogConfig(segment_bytes=LOG_BYTES // 4, message_timestamp_type=kind)
        times = iter(range(NOW, NOW + (1 << 40), STEP))
        with LogWriter(folder, topic, config=config, clock=lambda times=times: next(times), sync="never") as log:  # type: ignore[misc]
            for first in range(NOW, NOW + LOG_BYTES // len(VALUE), STEP):
                stamps = pa.array(range(first, first + STEP), pa.int64()).cast(pa.timestamp("ms", "UTC"))
                log.append(pa.table({"value": values, "timestamp": stamps}))
    yield folder
    shutil.rmtree(folder)


def by_duckdb(logs: Any, low: Any, high: Any) -> int:
    connection: Any = duckdb.connect()
    connection.register("logs", logs)
    where = f"timestamp between timestamptz '{low.isoformat()}' and timestamptz '{high.isoformat()}'"
    return int(connection.sql(f"select count(*), sum(octet_length(value)) from logs where {where}").fetchall()[0][0])  # noqa: S608 - ours


def by_polars(logs: Any, low: Any, high: Any) -> int:
    frame = pl.scan_pyarrow_dataset(logs).filter(pl.col("timestamp").is_between(low, high))
    return int(frame.select(pl.col("value").bin.size().count()).collect().item())


def by_lazy_frame(logs: Any, low: Any, high: Any) -> int:
    from kafkalog.engines.polars_source import lazy_frame

    frame = lazy_frame(logs).filter(pl.col("timestamp").is_between(low, high))
    return int(frame.select(pl.col("value").bin.size().count()).collect().item())


def by_datafusion(logs: Any, low: Any, high: Any) -> int:
    context = pytest.importorskip("datafusion").SessionContext()
    context.register_dataset("logs", logs)
    where = f"timestamp between '{low.isoformat()}' and '{high.isoformat()}'"
    found = context.sql(f"select count(value) as n from logs where {where}")  # noqa: S608 - ours
    return int(found.to_pydict()["n"][0])


def by_ibis(logs: Any, low: Any, high: Any) -> int:
    connection = pytest.importorskip("ibis").duckdb.connect()
    connection.con.register("logs", logs)
    table = connection.table("logs")
    return len(connection.to_pyarrow(table.filter(table.timestamp.between(low, high)).select("value")))


def by_pyarrow(logs: Any, low: Any, high: Any) -> int:
    condition = (field("timestamp") >= low) & (field("timestamp") <= high)
    return int(logs.to_table(columns=["value"], filter=condition).num_rows)


ENGINES = [by_duckdb, by_polars, by_lazy_frame, by_datafusion, by_ibis, by_pyarrow]
engines = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
ibis_warns = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")


# At the beginning, in the middle and at the end.
PLACES = (0.02, 0.5, 0.995)
places = pytest.mark.parametrize("place", PLACES)


def window(share: float, width: int = 50) -> tuple[datetime, datetime, int]:
    """Give first and last time of a window, and how many records of CreateTime lie in it."""
    first = NOW + int(share * (LOG_BYTES // len(VALUE)))
    low, high = (datetime.fromtimestamp(each / 1000, timezone.utc) for each in (first, first + width))
    return low, high, width + 1


def dataset(path: Any, *given: Any, **options: Any) -> Any:
    """Give a dataset, of which mypy knows less than these tests ask."""
    return kafkalog.dataset(path, *given, **options)


def read_share(logs: Any) -> float:
    counts = logs.metrics
    return float(counts["bytes_read"] / (counts["bytes_read"] + counts["bytes_skipped"]))


@engines
@places
@ibis_warns
def test_a_narrow_window_reads_a_small_part(engine: Any, place: float, long_log: Path) -> None:
    logs = dataset(long_log, topics="appended")
    low, high, _ = window(place, STEP - 1)
    expected = kafkalog.read_table(long_log, "appended", min_timestamp=low, max_timestamp=high).num_rows
    assert engine(logs, low, high) == expected > 0
    assert read_share(logs) < 0.02
    counts = logs.metrics
    size = sum(path.stat().st_size for path in (long_log / "appended-0").glob("*.log"))
    assert counts["bytes_read"] + counts["bytes_skipped"] == size, "all bytes are accounted for, once"


@engines
@places
@ibis_warns
def test_a_promise_about_order_ends_a_window_of_create_times(engine: Any, place: float, long_log: Path) -> None:
    logs = dataset(long_log, topics="created", max_disorder_ms=0)
    low, high, expected = window(place)
    assert engine(logs, low, high) == expected
    assert read_share(logs) < 0.02


@engines
@ibis_warns
def test_a_window_at_the_end_needs_no_promise(engine: Any, long_log: Path) -> None:
    logs = dataset(long_log, topics="created")
    low, high, expected = window(0.995)
    assert engine(logs, low, high) == expected
    assert read_share(logs) < 0.02


def test_without_a_promise_all_that_follows_is_read_and_counted(long_log: Path) -> None:
    """The header of a batch under CreateTime does not say how early its records are."""
    logs = dataset(long_log, topics="created")
    low, high, expected = window(0.5)
    assert by_pyarrow(logs, low, high) == expected
    assert 0.48 < read_share(logs) < 0.52


def test_headers_that_are_looked_at_are_counted(long_log: Path) -> None:
    """Under LogAppendTime, each after the window: another broker's clock may have been behind."""
    logs = dataset(long_log, topics="appended")
    low, high, _ = window(0, 4 * STEP)
    by_pyarrow(logs, low, high)
    batches = kafkalog.scan_batches(long_log, "appended").read_all()
    wanted: Any = pc.less_equal(batches["maxTimestamp"], pa.scalar(high, pa.timestamp("ms", "UTC")))
    others = batches.filter(pc.invert(wanted)).num_rows
    assert others > 0.9 * batches.num_rows
    assert logs.metrics["bytes_read"] == pc.sum(batches.filter(wanted)["size"]).as_py() + 61 * others


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells what a process has read")
def test_headers_are_read_without_what_lies_between(long_log: Path) -> None:
    """By the kernel's count, where batches are large."""

    def copied() -> int:
        counts = Path("/proc/self/io").read_text(encoding="ascii").split()
        return int(counts[counts.index("rchar:") + 1])

    logs = dataset(long_log, topics="appended")
    low, high, _ = window(0.5, STEP - 1)
    by_pyarrow(logs, low, high)
    logs.reset_metrics()
    before = copied()
    by_pyarrow(logs, low, high)
    read = copied() - before
    # At the beginning of each of these small segments, records are expected: a quarter of a megabyte.
    assert read < 0.25 * logs.metrics["bytes"], "those passed over are half of the log"


def test_create_times_may_go_back(tmp_path: Path) -> None:
    """So that nothing after a window is left out without a promise; with one, rows that break it may be."""
    times = [*range(0, 50_000, 1000), 10_500, *range(50_000, 90_000, 1000)]
    with LogWriter(tmp_path, "t", batch_bytes=1000, config=LogConfig(index_interval_bytes=1)) as log:
        for time in times:
            log.append([kafkalog.Record(value=b"v", timestamp=NOW + time)])
    condition = (field("timestamp") >= moment(NOW + 10_000)) & (field("timestamp") <= moment(NOW + 11_000))
    assert dataset(tmp_path).to_table(filter=condition).num_rows == 3
    assert dataset(tmp_path, max_disorder_ms=100).to_table(filter=condition).num_rows == 2
    kept = dataset(tmp_path, max_disorder_ms=49_000 - 10_500).to_table(filter=condition)
    assert kept.num_rows == 3


def test_a_time_index_that_lies_changes_no_answer(long_log: Path, tmp_path: Path) -> None:
    shutil.copytree(long_log / "created-0", tmp_path / "created-0")
    for index in (tmp_path / "created-0").glob("*.timeindex"):
        data = bytearray(index.read_bytes())
        for entry in range(0, len(data) - 11, 12):
            data[entry + 8 : entry + 12] = (1).to_bytes(4, "big")
        index.write_bytes(data)
    logs = dataset(tmp_path)
    low, high, expected = window(0.4)
    assert by_pyarrow(logs, low, high) == expected


BOUNDED = frozenset({"offset", "timestamp", "producerId", "magic", "isControl"})


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (field("topic") == "orders", ALL),
        (field("topic") == "other", None),
        (field("partition").isin([1, 2]), None),
        (field("partition") != 1, ALL),
        (field("offset") < 10, Region({"offset": Interval(-(1 << 63), 10)})),
        (~((field("offset") < 10) | (field("offset") >= 20)), Region({"offset": Interval(10, 20)})),
        ((field("offset") < 10) & (field("offset") > 10), None),
        ((field("offset") == 3) | (field("topic") == "other"), Region({"offset": Interval(3, 4)})),
        ((field("offset") == 3) | (field("offset") == 5), Region({"offset": Interval(3, 6)}, is_exact=False)),
        (field("offset").isin([3, 4, 5]), Region({"offset": Interval(3, 6)})),
        (
            (field("timestamp") > moment(5)) & (field("timestamp") <= moment(7)),
            Region({"timestamp": Interval(5001, 7001)}),
        ),
        (pa.scalar(5, pa.int64()) <= field("offset"), Region({"offset": Interval(5, 1 << 63)})),
        (~field("isControl"), Region({"isControl": Interval(0, 1)})),
        (field("isControl"), Region({"isControl": Interval(1, 2)})),
        (field("offset").is_null(), None),
        (field("offset").is_valid(), ALL),
        (field("key").is_null(), Region(is_exact=False)),
        ((field("key") == b"k") & (field("offset") == 3), Region({"offset": Interval(3, 4)}, is_exact=False)),
        ((field("key") == b"k") | (field("offset") == 3), Region(is_exact=False)),
        (
            pc.if_else(field("offset").is_valid(), field("offset").isin([7]), pa.scalar(None, pa.bool_())),
            Region({"offset": Interval(7, 8)}),
        ),
        ((field("offset") == 3) & pc.scalar(bool(0)), None),
    ],
    ids=str,
)
def test_bounds_of_a_filter(condition: Any, expected: Region | None) -> None:
    tree = parse(condition if isinstance(condition, pc.Expression) else pc.scalar(condition), record_schema(COLUMNS))
    assert tree is not None
    assert region(tree, {"topic": "orders", "partition": 0}, BOUNDED) == expected


@pytest.mark.parametrize(
    "condition",
    [pc.starts_with(field("topic"), "ord"), field("offset").cast(pa.float64()) < 7.5, field("offset") < 7.5],
    ids=str,
)
def test_what_is_not_understood_is_applied_all_the_same(condition: pc.Expression) -> None:
    tree = parse(condition, record_schema(COLUMNS))
    # Versions of pyarrow differ in what they can write as Substrait.
    assert tree is None or region(tree, {"topic": "orders", "partition": 0}, BOUNDED) == Region(is_exact=False)
    expected = kafkalog.read_table(DATA).filter(condition)
    assert dataset(DATA).to_table(filter=condition).equals(expected)
    assert 0 < expected.num_rows < 2667


def test_it_gives_what_scan_gives() -> None:
    logs = dataset(DATA)
    assert tuple(logs.schema.names) == DEFAULT_COLUMNS
    assert logs.schema == kafkalog.scan(DATA).schema
    assert logs.to_table().equals(kafkalog.read_table(DATA))
    assert logs.head(3).equals(kafkalog.read_table(DATA).slice(0, 3))
    assert logs.take([5, 1]).equals(kafkalog.read_table(DATA).take([5, 1]))
    assert logs.to_table(columns={"twice": pc.multiply(field("offset"), 2)}).column_names == ["twice"]
    views = dataset(DATA, layout="view", topics="orders")
    assert views.schema.field("value").type == pa.binary_view()
    assert views.to_table(columns=["value"]).equals(kafkalog.read_table(DATA, "orders", columns="value", layout="view"))
    assert (
        views.to_table(columns=["value"], filter=field("key").is_null()).schema
        == views.to_table(columns=["value"]).schema
    )


def test_only_what_a_filter_needs_is_decoded() -> None:
    logs = dataset(DATA)
    plan = logs._plan((field("offset") >= 3) & (field("topic") == "orders"))
    assert plan.condition is None, "the reader applies all of it"
    assert [each.topic for each in plan.ranges] == ["orders"]
    assert [each.start_offset for each in plan.ranges] == [3]
    found = logs.to_table(columns=["value"], filter=(field("offset") < 4) & (field("topic") == "orders"))
    assert (found.num_rows, found.column_names) == (4, ["value"])
    assert logs.metrics["segments"] == 1
    assert 0 < logs.metrics["bytes_read"] < 0.1 * logs.metrics["bytes_skipped"]
    logs.reset_metrics()
    assert set(logs.metrics.values()) == {0}


def test_headers_pass_over_batches() -> None:
    logs = dataset(corpus.GOLDEN / "txn" / "data-1", include_control=True, columns=COLUMNS)
    everything = kafkalog.read_table(corpus.GOLDEN / "txn" / "data-1", include_control=True, columns=COLUMNS)
    for condition in (field("producerId") == 20, field("isControl"), ~field("isControl"), field("magic") > 2):
        logs.reset_metrics()
        expected = everything.filter(condition)
        assert logs.to_table(filter=condition).equals(expected)
        assert logs.metrics["skipped_records"] == everything.num_rows - expected.num_rows > 0
        assert logs.metrics["skipped_bytes"] > 0


def test_transactions_are_held_against_their_markers_with_any_filter() -> None:
    """The reader of committed records has to see markers that the filter leaves out."""
    options: dict[str, Any] = {"isolation_level": "read_committed", "columns": COLUMNS, "include_control": True}
    for folder in (corpus.GOLDEN / "txn" / "data-0", corpus.GOLDEN / "txn" / "data-1", DATA):
        for partition in sorted(path.parent for path in folder.glob("*-[0-9]/00000000000000000000.log")):
            everything = kafkalog.read_table(partition, **options)
            logs = dataset(partition, **options)
            for condition in (field("producerId") > 2, ~field("isControl"), field("timestamp") > moment(NOW + 10**9)):
                assert logs.to_table(filter=condition).equals(everything.filter(condition)), partition


CASES = sorted({path.parent.parent for path in corpus.GOLDEN.glob("*/data-*/*/*.log")} - {None})


@pytest.mark.parametrize("log_dir", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.sampled(8)
def test_counts_are_those_of_the_rows(log_dir: Path) -> None:
    for options in (
        {},
        {"include_control": True},
        {"isolation_level": "read_committed"},
        {"min_offset": 7, "max_offset": 101},
    ):
        logs = dataset(log_dir, columns=["partition", "offset", "topic", "timestamp"], **options)
        table = logs.to_table()
        assert logs.count_rows() == table.num_rows
        for condition in (
            field("offset") >= 13,
            (field("offset") > 3) & (field("offset") < 200),
            field("offset").isin([1, 5, 40]),
            field("timestamp") > moment(NOW + 10**8),
        ):
            assert logs.count_rows(filter=condition) == table.filter(condition).num_rows


def test_a_count_reads_headers(long_log: Path) -> None:
    logs = dataset(long_log)
    expected = logs.to_table(columns=["partition"]).num_rows
    logs.reset_metrics()
    assert logs.count_rows() == expected
    assert read_share(logs) < 0.01
    logs.reset_metrics()
    assert logs.count_rows(filter=(field("offset") >= 5) & (field("topic") == "created")) == expected // 2 - 5
    assert read_share(logs) < 0.02


def test_fragments_are_the_whole_and_pickle(long_log: Path) -> None:
    logs = dataset(long_log)
    condition = (field("offset") >= 100) & (field("topic") == "created")
    expected = logs.to_table(columns=["offset"], filter=condition)
    fragments = [pickle.loads(pickle.dumps(each)) for each in logs.get_fragments(filter=condition)]  # noqa: S301 - ours
    parts = [each.to_table(columns=["offset"], filter=condition) for each in fragments]
    assert pa.concat_tables(parts).equals(expected)
    assert sum(each.count_rows() for each in fragments) == expected.num_rows
    again = pickle.loads(pickle.dumps(logs.filter(condition)))  # noqa: S301 - ours
    assert again.to_table(columns=["offset"]).equals(expected)
    assert again.count_rows(filter=field("offset") < 200) == 100


def test_many_fragments(long_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.engines.log_dataset.default_split_bytes", lambda *_: 1 << 20)
    logs = dataset(long_log)
    fragments = list(logs.get_fragments())
    assert len(fragments) > 15
    columns = ["topic", "offset"]
    parts = [each.to_table(columns=columns) for each in fragments]
    assert pa.concat_tables(parts).equals(logs.to_table(columns=columns))


def test_no_method_of_pyarrow_reaches_for_the_missing_dataset() -> None:
    """The dataset is missing there: each method is ours, or stands on ours."""
    stand_on_ours = {"_scanner_options", "_scan_options"}
    for name in dir(ds.Dataset):
        if name.startswith("__") or name in stand_on_ours:
            continue
        owner = next(each for each in LogDataset.__mro__ if name in vars(each))
        assert owner.__module__.startswith("kafkalog"), name


def test_what_reads_everything() -> None:
    logs = dataset(DATA, columns=["topic", "offset"])
    offsets: Any = logs.to_table()["offset"].to_pylist()
    assert logs.sort_by([("offset", "descending")]).to_table()["offset"].to_pylist() == sorted(offsets, reverse=True)
    names = ds.dataset(pa.table({"topic": ["orders"], "owner": ["me"]}))
    assert logs.join(names, "topic", join_type="inner").to_table().num_rows == 880
    schema = pa.schema([("offset", pa.int64())])
    assert logs.replace_schema(schema).to_table().schema == schema


def test_a_filter_goes_with_every_query() -> None:
    logs = dataset(DATA).filter(field("topic") == "orders")
    assert logs.count_rows() == 880
    assert logs.to_table(filter=field("offset") < 10).num_rows == 10
    assert logs.filter(field("offset") < 5).count_rows() == 5
    assert "orders" in repr(logs)


def test_a_limit_ends_the_read(long_log: Path) -> None:
    before = dataset(long_log)
    assert before.head(5, columns=["value"], use_threads=False).num_rows == 5
    frame = kafkalog.scan_polars(long_log, "created")
    assert frame.head(7).collect()["offset"].to_list() == list(range(7))
    assert frame.head(50).filter(pl.col("offset") > 40).collect()["offset"].to_list() == list(range(41, 50))
    assert frame.filter(pl.col("offset") > 40).head(3).collect()["offset"].to_list() == [41, 42, 43]
    assert frame.slice(10, 3).collect()["offset"].to_list() == [10, 11, 12]


def test_polars_gets_columns_and_bounds() -> None:
    logs = dataset(DATA)
    from kafkalog.engines.polars_source import lazy_frame

    frame = lazy_frame(logs)
    assert frame.collect_schema() == pl.DataFrame(kafkalog.read_table(DATA)).schema
    found = frame.filter(pl.col("topic") == "orders", pl.col("offset") < 4).select("value").collect()
    assert found.shape == (4, 1)
    assert logs.metrics["segments"] == 1
    grouped = frame.group_by("topic").agg(pl.len()).sort("topic").collect()
    assert grouped.rows() == [("events", 880), ("ledger", 907), ("orders", 880)]


BATCHES = ["topic", "baseOffset", "lastOffset", "maxTimestamp", "count", "isValid"]


def test_batches_as_a_table() -> None:
    log_dir = corpus.GOLDEN / "mixed-upgrade" / "data-0"
    logs = dataset(log_dir, table="batches")
    table = kafkalog.scan_batches(log_dir).read_all()
    assert logs.schema == table.schema
    assert logs.to_table().equals(table)
    times: Any = table["maxTimestamp"].cast(pa.int64()).to_pylist()
    middle = times[table.num_rows // 2]
    for condition in (
        field("baseOffset") >= 20,
        (field("baseOffset") <= 20) & (field("lastOffset") >= 30),
        field("lastOffset") == 40,
        (field("baseOffset") > 10) & (field("baseOffset") < 50) & (field("topic") != "x"),
        field("maxTimestamp") >= moment(middle),
        field("maxTimestamp") < moment(middle),
        field("count").is_null(),
        field("isValid"),
    ):
        assert logs.to_table(columns=BATCHES, filter=condition).equals(table.filter(condition).select(BATCHES)), (
            condition
        )
        assert logs.count_rows(filter=condition) == table.filter(condition).num_rows
    logs.reset_metrics()
    assert logs.to_table(columns=["size"]).num_rows == table.num_rows
    assert logs.metrics["bytes"] < 0.5 * pc.sum(table["size"]).as_py(), "headers only, unless isValid is asked for"


def test_damage_is_an_error_and_not_fewer_rows(tmp_path: Path) -> None:
    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    path = min((tmp_path / "orders-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    logs = dataset(tmp_path)
    with pytest.raises(kafkalog.CorruptRecordError, match=path.name):
        logs.to_table()
    with pytest.raises(duckdb.Error, match=path.name):
        by_duckdb(logs, *window(0, 10**9)[:2])
    with pytest.raises(kafkalog.CorruptRecordError, match=path.name):
        kafkalog.scan_polars(tmp_path).collect()


def test_what_damage_took_is_accounted_for(tmp_path: Path) -> None:
    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    path = min((tmp_path / "orders-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    reader = kafkalog.scan(tmp_path, on_corrupt="skip")
    expected = reader.read_all()
    logs = dataset(tmp_path, on_corrupt="skip")
    assert logs.lost.num_rows == 0
    assert logs.to_table().equals(expected)
    assert logs.lost.equals(reader.lost)
    assert logs.lost.num_rows == 1
    assert logs.metrics["bytes_lost"] == reader.metrics["bytes_lost"] > 0
    assert logs.count_rows() == expected.num_rows
    assert dataset(tmp_path, table="batches", on_corrupt="skip").to_table().num_rows > 0


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        dataset(tmp_path / "missing")
    with pytest.raises(ValueError, match="nope"):
        dataset(DATA, topics="nope")
    with pytest.raises(ValueError, match=r"unknown table 'batchs'.*'batches'"):
        dataset(DATA, table="batchs")
    with pytest.raises(TypeError, match="column"):
        dataset(DATA, column="offset")
    with pytest.raises(TypeError, match="columns"):
        dataset(DATA, table="batches", columns=["count"])
    with pytest.raises(ValueError, match="max_disorder_ms"):
        dataset(DATA, max_disorder_ms=-1)


def test_threads_are_those_of_the_engine_unless_given() -> None:
    assert dataset(DATA)._threads(use_threads=False) == 1
    assert dataset(DATA)._threads(use_threads=True) == pa.cpu_count()
    assert dataset(DATA, threads=3)._threads(use_threads=True) == 3
    for threads in (1, 3):
        assert dataset(DATA, threads=threads).to_table().equals(kafkalog.read_table(DATA))


def test_the_latest_of_each_key_does_not_depend_on_the_filter() -> None:
    everything = kafkalog.read_table(DATA, latest_per_key=True)
    logs = dataset(DATA, latest_per_key=True)
    assert logs.to_table().equals(everything)
    middle = everything["offset"][everything.num_rows // 2]
    for condition in (field("offset") < middle, field("timestamp") < moment(NOW + 10**9), field("topic") == "orders"):
        assert logs.to_table(filter=condition).equals(everything.filter(condition))
        assert logs.count_rows(filter=condition) == everything.filter(condition).num_rows
        parts = [each.to_table(filter=condition) for each in logs.get_fragments(filter=condition)]
        assert pa.concat_tables(parts).equals(everything.filter(condition))


def test_tables_of_internal_topics_join_by_name() -> None:
    """Every function of ``kafkalog.tables``: with its table, or with its error where the log dir lacks its topic."""
    log_dir = corpus.GOLDEN / "clean-restarts" / "data-1"
    found = 0
    for name in kafkalog.tables.__all__:
        try:
            expected = getattr(kafkalog.tables, name)(log_dir)
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                dataset(log_dir, table=name)
            continue
        assert dataset(log_dir, table=name).to_table().equals(expected), name
        assert kafkalog.scan_polars(log_dir, table=name).collect().height == expected.num_rows
        found += 1
    assert found
    decoded = kafkalog.dataset(log_dir, "__transaction_state", table="records")
    rows: Any = duckdb.connect().register("decoded", decoded).sql("select count(*) from decoded").fetchall()
    assert rows[0][0] == kafkalog.tables.records(log_dir, "__transaction_state").num_rows > 0
