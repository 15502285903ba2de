"""Batches of a stream: each is appended once, and one that cannot be recognized is refused."""

from __future__ import annotations

import pathlib
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import kafkalog
from spark.sinks import dies, left, rows, sink, values
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_data_sources


def test_a_batch_of_a_stream_is_appended_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    target = sink(data, stream="/checkpoints/a")
    for batch, (start, count) in enumerate([(0, 10), (10, 5)]):
        target.commit([target.write(iter([rows(start, count)]))], batch)
    # an earlier one too, as in Spark's file sink: the checkpoint may have been restored
    for batch, (start, count) in ((1, (10, 5)), (0, (0, 10))):
        target.commit([target.write(iter([rows(start, count)]))], batch)
    assert values(data) == list(range(15))
    assert left(data) == []
    other = sink(data, stream="/checkpoints/b")
    other.commit([other.write(iter([rows(15, 5)]))], 0)
    assert values(data) == list(range(20))


@pytest.mark.parametrize("how", ["wiped", "one partition", "shorter"])
@pytest.mark.parametrize("batch", [1, 2])
def test_a_log_dir_that_lost_what_a_stream_appended(
    tmp_path: Path, how: str, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its batches must not be skipped silently."""
    data = tmp_path / "data"
    target = sink(data, stream="/checkpoints/a", partitions=2)
    for number, start in enumerate((0, 20)):
        target.commit([target.write(iter([rows(start, 20)]))], number)
    before = data if how == "wiped" else data / "t-1"
    if how == "shorter":
        with kafkalog.LogWriter(data, "t", 1) as writer:
            writer.truncate(writer.log_end_offset - 1)
    else:
        shutil.rmtree(before)
    message = target.write(
        iter([pa.RecordBatch.from_pydict({"value": ["40"], "partition": pa.array([0], pa.int32())})])
    )
    state = r"now ends at offset \d+" if how == "shorter" else "is gone"
    says = rf"1 of 2 partitions lack .*: t-1 was appended up to offset \d+ and {state}\. .*; set failOnDataLoss=f"
    if how == "wiped":
        says = rf"know nothing of stream /checkpoints/a, which has appended batches 0 to {batch - 1}, .*; set failOnDa"
    with pytest.raises(kafkalog.OffsetOutOfRangeError, match=says):
        target.commit([message], batch)
    assert pathlib.Path(message.file).exists()
    lax = sink(data, stream="/checkpoints/a", partitions=2, fail_on_data_loss=False)
    caplog.clear()
    lax.commit([message], batch)
    assert "kafkalog: data loss: " in caplog.text
    # a log dir that was wiped does not know that the batch was appended, and lacks it
    assert (40 in values(data)) == (batch == 2 or how == "wiped")
    # reported once
    if how == "wiped":
        caplog.clear()
        target.commit([target.write(iter([pa.RecordBatch.from_pydict({"value": ["41"] * 2})]))], batch + 1)
        assert 41 in values(data)


def test_a_skipped_batch_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = sink(tmp_path / "data", stream="/checkpoints/a")
    target.commit([target.write(iter([rows(0, 5)]))], 0)
    assert caplog.messages == []
    target.commit([target.write(iter([rows(0, 5)]))], 0)
    assert caplog.messages == ["kafkalog: batch 0 of stream /checkpoints/a is skipped: it was appended before"]
    assert values(tmp_path / "data") == list(range(5))


@pytest.mark.parametrize("messages", ["no tasks", "empty tasks"])
def test_a_batch_without_rows_creates_its_topic(tmp_path: Path, messages: str) -> None:
    """As one with rows does: readers that subscribe to the topic find it."""
    data = tmp_path / "data"
    target = sink(data)
    target.commit([target.write(iter([])), None] if messages == "empty tasks" else [])
    assert [log.partition for log in kafkalog.LogDir(data)] == [0, 1, 2]
    assert kafkalog.read_table(data, "t").num_rows == 0
    target.commit([])
    target.commit([target.write(iter([rows(0, 9)]))])
    assert values(data) == list(range(9))
    # the column topic of no row names a topic
    unnamed = sink(tmp_path / "other", topic=None)
    unnamed.commit([unnamed.write(iter([]))])
    assert not kafkalog.LogDir(tmp_path / "other").topics


def test_a_batch_of_an_unknown_query_is_refused(tmp_path: Path) -> None:
    """Without the query's id and without a checkpoint, a repeated batch could not be recognized."""
    target = sink(tmp_path / "data", stream="")
    with pytest.raises(ValueError, match="set the option checkpointLocation"):
        target.commit([target.write(iter([rows(0, 5)]))], 0)
    target.commit([target.write(iter([])), None], 0)
    assert not kafkalog.LogDir(tmp_path / "data").topics
    named = sink(tmp_path / "data", stream="/checkpoints/a")
    named.commit([named.write(iter([rows(0, 5)]))], 0)
    assert values(tmp_path / "data") == list(range(5))


def test_the_job_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a stream it is the query; in a batch it is the write, also within a query's ``foreachBatch``."""
    data = tmp_path / "data"
    from kafkalog.spark.commit import owner_of

    monkeypatch.setattr("kafkalog.spark.sink._query_id", lambda: "q1")
    batch, stream = sink(data), sink(data, stream="/checkpoints/a")
    for target, name, query in ((batch, batch.job, None), (stream, "q1", "q1")):
        message = target.write(iter([rows(0, 5)]))
        assert (owner_of(message.file), message.query) == (name, query)
    stream.commit([stream.write(iter([rows(0, 5)]))], 0)
    # a checkpoint in the same path, but of another query
    monkeypatch.setattr("kafkalog.spark.sink._query_id", lambda: "q2")
    stream.commit([stream.write(iter([rows(5, 5)]))], 0)
    assert values(data) == list(range(10))


def test_spellings_of_a_log_dir_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link, a relative path, and several log dirs in another order."""
    data, more = tmp_path / "data", tmp_path / "more"
    data.mkdir()
    (tmp_path / "link").symlink_to(data)
    monkeypatch.chdir(tmp_path)
    spelled = [(data,), (tmp_path / "link",), (pathlib.Path("data"),), (pathlib.Path("link/../data/."),)]
    for number, paths in enumerate([*spelled, *spelled]):
        target = sink(data, paths=tuple(map(str, paths)), stream="q")
        target.commit([target.write(iter([rows(0, 10)]))], 0)
        assert values(data) == list(range(10)), paths
        dies(target, [target.write(iter([rows(0, 10)]))], 1, after="append")
        assert (data / ".kafkalog-job").exists(), number
    for two in ((data, more), (more, data), (more, tmp_path / "link")):
        target = sink(data, paths=tuple(map(str, two)), stream="q", topic="u", partitions=4)
        target.commit([target.write(iter([rows(10, 10)]))], 1)
        assert len(values(data)) + len(values(more)) == 20
    assert left(data) == left(more) == []
