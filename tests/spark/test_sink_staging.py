"""Files in which tasks stage their rows: where they are, and when they are removed."""

from __future__ import annotations

import os
import pathlib
import signal
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import kafkalog
from spark.sinks import left, make, rows, sink, values
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_data_sources


def test_tasks_stage_inside_the_log_dir(tmp_path: Path) -> None:
    """If only the log dir is mounted, nothing can be written beside it."""
    parent = tmp_path / "only-the-log-dir-is-shared"
    data = parent / "data"
    data.mkdir(parents=True)
    target = sink(data).prepared()
    message = target.write(iter([rows(0, 10)]))
    assert pathlib.Path(message.file).parent == data
    target.commit([message])
    assert [path.name for path in parent.iterdir()] == ["data"]
    assert sorted(path.name for path in data.iterdir() if path.name.startswith(".kafkalog")) == []
    # all else is what a writer leaves; a broker mounts it (tests/interop)
    assert not [path for path in data.iterdir() if path.is_dir() and not path.name.startswith("t-")]


def test_a_staging_path(tmp_path: Path) -> None:
    data, staging = tmp_path / "data", tmp_path / "staging"
    made = make(data, stagingPath=str(staging), topic="t", partitions="2")
    message = made.write(iter([rows(0, 10)]))
    assert pathlib.Path(message.file).parent == staging
    assert not data.exists()
    made.commit([message])
    assert values(data) == list(range(10))
    assert not staging.exists()
    # executors need not see the log dirs
    again = make(data, stagingPath=str(staging), topic="t", partitions="9")
    data.rename(tmp_path / "hidden")
    message = again.write(iter([rows(10, 10)]))
    (tmp_path / "hidden").rename(data)
    again.commit([message])
    assert values(data) == list(range(20))
    for path, says in ((data / "t-0", "the partition folder"), (data / "deep" / "er", "the log dir")):
        with pytest.raises(ValueError, match=f"option stagingPath: .* lie in {says}"):
            make(data, stagingPath=str(path), topic="t")


def test_a_staging_folder_that_is_not_shared_is_refused_before_the_first_row(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = make(data, topic="t")

    def no_rows() -> Iterator[pa.RecordBatch]:
        pytest.fail("a row was asked for")
        yield

    data.rename(tmp_path / "elsewhere")
    with pytest.raises(
        ValueError, match=r"cannot stage rows in .*data: an executor does not find .*set .* stagingPath"
    ):
        made.write(no_rows())
    assert not data.exists()
    data.mkdir()
    with pytest.raises(ValueError, match="an executor does not find"):
        made.write(no_rows())
    make(data, topic="t")
    with pytest.raises(ValueError, match=r"an executor finds another folder there: .*kafkalog-sink has id"):
        made.write(no_rows())
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot stage rows in .*file/deep: the driver cannot write .* stagingPath"):
        sink(tmp_path / "file" / "deep").prepared()
    with pytest.raises(ValueError, match=r"option stagingPath: .*Not a directory: .*file/deep"):
        make(data, topic="t", stagingPath=str(tmp_path / "file" / "deep"))


def test_an_abort_knows_the_files_by_the_messages(tmp_path: Path) -> None:
    """Spark creates another writer of a stream in each process."""
    message = sink(tmp_path / "data", stream="/c").write(iter([rows(0, 5)]))
    assert len(left(tmp_path / "data")) == 1
    sink(tmp_path / "data", stream="/c").abort([message, None])
    assert left(tmp_path / "data") == []


def test_old_staged_files_are_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    old, young = (pathlib.Path(sink(data).write(iter([rows(0, 5)])).file) for _ in range(2))
    last_week = time.time() - 8 * 86_400
    os.utime(old, (last_week, last_week))
    target = sink(data)
    target.commit([target.write(iter([rows(0, 5)]))])
    assert left(data) == [young.name]


def notes(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob(".kafkalog*"))


def test_the_last_of_several_sinks_removes_what_they_share(tmp_path: Path) -> None:
    """One that is aborted, or has ended, leaves what the tasks of another one look for."""
    data = tmp_path / "data"
    data.mkdir()
    ended, aborted, last = (sink(data, topic=None).prepared() for _ in range(3))
    batch = pa.RecordBatch.from_pydict({"value": [b"v"] * 5, "topic": ["t"] * 5})
    messages = ended.write(iter([batch])), aborted.write(iter([batch]))
    ended.commit([messages[0]])
    aborted.abort([messages[1]])
    assert notes(data) == [f".kafkalog-rows.{last.job}", ".kafkalog-sink"]
    message = last.write(iter([batch]))
    last.commit([message])
    assert notes(data) == []
    assert kafkalog.read_table(data).num_rows == 10


def test_a_stream_keeps_what_its_next_batch_looks_for(tmp_path: Path) -> None:
    data = tmp_path / "data"
    stream = sink(data, stream="/checkpoints/a").prepared()
    stream.commit([stream.write(iter([rows(0, 5)]))], 0)
    beside = sink(data).prepared()
    beside.commit([beside.write(iter([rows(5, 5)]))])
    stream.commit([stream.write(iter([rows(10, 5)]))], 1)
    assert values(data) == list(range(15))
    assert {".kafkalog-rows.streams", ".kafkalog-sink"} < {*notes(data)}


def test_what_a_dead_driver_has_left_is_removed(tmp_path: Path) -> None:
    """Within a week it may be alive."""
    data = tmp_path / "data"
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    else:
        dead = sink(data).prepared()
        dead.write(iter([rows(0, 5)]))
        os.kill(os.getpid(), signal.SIGKILL)
    left_behind = notes(data)
    assert len(left_behind) == 3
    target = sink(data).prepared()
    target.commit([target.write(iter([rows(0, 5)]))])
    assert notes(data) == left_behind
    last_week = time.time() - 8 * 86_400
    for name in left_behind:
        os.utime(data / name, (last_week, last_week))
    target = sink(data).prepared()
    target.commit([target.write(iter([rows(5, 5)]))])
    assert notes(data) == []
    assert values(data) == list(range(10))
