"""Display and pickling of objects, and the frames of other libraries."""

from __future__ import annotations

import copy
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pytest

import corpus
import kafkalog
from kafkalog import _reprs

if TYPE_CHECKING:
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
ORDERS = DATA / "orders-0"


def again(of: Any) -> Any:
    return pickle.loads(pickle.dumps(of))  # noqa: S301 - our own bytes


def test_a_log_dir_shows_its_topics() -> None:
    dirs = kafkalog.LogDir(DATA)
    text = repr(dirs)
    assert text.startswith(f"<kafkalog.LogDir {str(DATA)!r}, {len(dirs.topics)} topics, {len(dirs)} partitions: ")
    assert "\n" not in text
    html = dirs._repr_html_()
    assert html.count("<tr>") == min(len(dirs), 50) + 1
    assert "<td>orders</td><td>0</td><td>0</td><td>880</td>" in html
    assert f"{len(dirs.topics)} topics, {len(dirs)} partitions, {_reprs.size(sum(log.size for log in dirs))}" in html
    assert html.count('class="topic') >= len(dirs.topics)


def test_a_partition_shows_its_offsets_and_sizes() -> None:
    log = kafkalog.PartitionLog(ORDERS)
    count, size = len(log.segments), _reprs.size(log.size)
    assert repr(log) == f"<kafkalog.PartitionLog {str(ORDERS)!r}, offsets 0 to 880, {count} segments, {size}>"
    html = log._repr_html_()
    assert "offsets 0 to 880" in html
    assert all(f"<td>{segment.name}</td>" in html for segment in log.segments)


def test_what_is_damaged_or_empty_is_shown_as_well(tmp_path: Path) -> None:
    folder = corpus.GOLDEN / "corrupt" / "unknown-magic" / "t-0"
    assert "t-0', offsets 0 to " in repr(kafkalog.PartitionLog(folder))
    assert "<td>t</td><td>0</td>" in kafkalog.LogDir(folder.parent)._repr_html_()
    (tmp_path / "none").mkdir()
    empty = kafkalog.LogDir(tmp_path / "none")
    assert repr(empty) == f"<kafkalog.LogDir {str(tmp_path / 'none')!r}, 0 topics, 0 partitions>"
    assert empty._repr_html_().count("<tr>") == 1


def test_long_lists_are_cut(tmp_path: Path) -> None:
    for number in range(60):
        shutil.copytree(DATA / "orders-0", tmp_path / f"t{number}-0", ignore=shutil.ignore_patterns("*.*"))
    dirs = kafkalog.LogDir(tmp_path)
    assert repr(dirs).endswith("60 topics, 60 partitions: t0 (1), t1 (1), t10 (1), t11 (1), t12 (1) and 55 more>")
    assert "<p>... and 10 more</p></div>" in dirs._repr_html_()


def test_a_folder_that_is_gone_is_shown_without_what_is_in_it(tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    dirs = kafkalog.LogDir(tmp_path)
    shutil.rmtree(tmp_path / "orders-0")
    assert "<td>orders</td><td>0</td><td>-</td><td>-</td><td>-</td><td>-</td>" in dirs._repr_html_()


def test_a_reader_shows_how_far_it_is() -> None:
    reader = kafkalog.scan(ORDERS, batch_rows=100, columns="offset")
    assert "RecordReader, not started: 0 rows" in reader._repr_html_()
    assert "<td>offset</td><td>int64</td>" in reader._repr_html_()
    next(reader)
    assert repr(reader).startswith("<kafkalog.RecordReader, started: 100 rows, ")
    assert "RecordReader, started: 100 rows" in reader._repr_html_()
    assert sum(batch.num_rows for batch in reader) == 780, "showing it read nothing"


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (99_949, "99.9 kB"),
        (131_072, "131 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (5 << 40, "5.5 TB"),
        (5 << 50, "5629 TB"),
    ],
)
def test_sizes(octets: int, text: str) -> None:
    assert _reprs.size(octets) == text


def test_names_are_escaped() -> None:
    assert "<td>&lt;b&gt;</td>" in _reprs.html_table("t", ("a",), [("<b>",)])


def test_logs_pickle_as_their_paths(tmp_path: Path) -> None:
    dirs = again(kafkalog.LogDir(DATA))
    assert (dirs.path, dirs.topics) == (str(DATA), kafkalog.LogDir(DATA).topics)
    log = again(kafkalog.PartitionLog(ORDERS))
    assert (log.path, log.log_end_offset) == (str(ORDERS), 880)
    assert copy.copy(log).log_end_offset == 880
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    pickled = pickle.dumps(kafkalog.PartitionLog(tmp_path / "orders-0"))
    shutil.rmtree(tmp_path / "orders-0")
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled)  # noqa: S301 - our own bytes


def test_values_pickle_whole() -> None:
    log = kafkalog.PartitionLog(ORDERS)
    for value in (log.segments, log.leader_epochs, log.lookup(5), log.offset_for_timestamp(0), log.statistics()):
        assert again(value) == value
    report = kafkalog.recover(DATA, dry_run=True)
    assert again(report) == report
    assert again(kafkalog.LogDir(DATA).folders) == kafkalog.LogDir(DATA).folders
    assert again(kafkalog.LogConfig(segment_bytes=1 << 20)) == kafkalog.LogConfig(segment_bytes=1 << 20)


def test_what_cannot_be_pickled_says_why(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"RecordReader cannot be pickled: it is a one-shot stream; pickle"):
        pickle.dumps(kafkalog.scan(DATA))
    with (
        kafkalog.LogWriter(tmp_path, "t") as writer,
        pytest.raises(TypeError, match=r"LogWriter cannot be pickled: it holds the lock of its log dir"),
    ):
        pickle.dumps(writer)
    path = tmp_path / f"{0:020}.index"
    with (
        kafkalog.OffsetIndex(path, writable=True) as index,
        pytest.raises(TypeError, match=r"OffsetIndex cannot be pickled: it is an open file; pickle its path"),
    ):
        pickle.dumps(index)


def test_frames() -> None:
    want = kafkalog.read_table(ORDERS)
    frame = kafkalog.scan(ORDERS).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["offset"].tolist() == list(range(880))
    typed = kafkalog.scan(ORDERS, layout="view").to_pandas(types_mapper=pd.ArrowDtype)
    found = [None if value is pd.NA else value for value in typed["value"]]
    assert found == want["value"].to_pylist()
    polars = kafkalog.scan(ORDERS).to_polars()
    assert isinstance(polars, pl.DataFrame)
    assert polars.to_arrow()["offset"].to_pylist() == list(range(880))
    assert kafkalog.scan(ORDERS, layout="view").to_polars().equals(polars)


@pytest.mark.parametrize("method", ["to_pandas", "to_polars"])
def test_frames_are_of_what_is_left_and_fail_as_a_table_does(method: str) -> None:
    reader = kafkalog.scan(ORDERS, batch_rows=100)
    next(reader)
    assert len(getattr(reader, method)()) == 780
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        getattr(kafkalog.scan(corpus.GOLDEN / "corrupt" / "flipped-bit" / "t-0"), method)()
    assert caught.value.offset == 2
