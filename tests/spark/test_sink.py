"""Rows into partitions of a log dir: all rows of a job or none, each batch of a stream once."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog import partition_for_key
from spark.sinks import left, rows, sink, values
from spark.ways import has_data_sources, needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kafkalog.spark.sink import Sink


# Topic.validate
SLOW = os.environ.get("KAFKALOG_SLOW", "0") != "0"
ILLEGAL = ["", ".", "..", "bad/name", "zwei worte", "caf\u00e9", "n" * 250]
WHEN = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=timezone.utc)


def dies(target: Sink, messages: list[Any], batch: int | None = None, *, after: str) -> None:
    """Commit in a process that dies after a step."""
    if pid := os.fork():
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        return
    from kafkalog import _jobs
    from kafkalog.spark import commit

    owner: Any = commit if after == "append" else _jobs.Job
    name = {"begin": "begin", "append": "_append", "commit": "_note"}.get(after, "open")
    step = getattr(owner, name)

    def killing(*given: Any) -> None:
        step(*given)
        if after != "commit" or given[0].committed:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, killing)
    try:
        target.commit(messages, batch)
    finally:
        os._exit(1)


def make(tmp_path: Path, **options: str) -> Sink:
    """Make a sink into the folder data, as Spark does."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkalog.spark.sink import make_writer

    value = StructType([StructField("value", BinaryType())])
    return make_writer({"path": str(tmp_path / "data"), **options}, value, overwrite=False).sink


@needs_data_sources
def test_nothing_is_there_before_the_commit_and_everything_after_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    target = sink(data)
    messages = [
        target.write(iter([rows(0, 50), rows(50, 50)])),
        None,
        target.write(iter([])),
        target.write(iter([rows(100, 9)])),
    ]
    assert not kafkalog.LogDir(data).topics
    # another attempt of the first task, which has died
    target.write(iter([rows(0, 50)]))
    target.commit(messages)
    assert values(data) == list(range(109))
    table = kafkalog.read_table(data, columns=["partition", "key", "compression"])
    assert set(table["partition"].to_pylist()) == {0, 1, 2}
    assert set(table["compression"].to_pylist()) == {"zstd"}
    for row in table.to_pylist():
        assert row["key"] is None or row["partition"] == partition_for_key(row["key"], 3)
    assert left(data) == []
    # the option partitions applies to new topics only
    more = sink(data, partitions=99)
    more.commit([more.write(iter([rows(109, 20)]))])
    assert {folder.name for folder in data.iterdir() if folder.is_dir()} == {"t-0", "t-1", "t-2"}
    assert values(data) == list(range(129))


@needs_data_sources
def test_an_aborted_job_leaves_nothing(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    target = target.prepared()
    target.abort([target.write(iter([rows(0, 50)])), None])
    assert not (tmp_path / "data").exists()
    # a folder that was there before, and one that is used since
    (tmp_path / "data").mkdir()
    target = target.prepared()
    target.abort([target.write(iter([rows(0, 50)])), None])
    assert [file.name for file in (tmp_path / "data").iterdir()] == [".kafkalog-sink"]
    assert left(tmp_path / "data") == []


@needs_data_sources
def test_a_commit_that_fails_midway_is_rolled_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog.spark import commit

    data = tmp_path / "data"
    target = sink(data)
    target.commit([target.write(iter([rows(0, 40)]))])
    before = {str(log): log.log_end_offset for log in kafkalog.LogDir(data)}
    messages: list[Any] = [target.write(iter([rows(40, 30), rows(70, 30)]))]
    get, calls = commit._Writers.get, []

    def fail(self: Any, place: Any) -> Any:
        calls.append(place)
        if len(calls) == 10:
            raise OSError(28, "no space")
        return get(self, place)

    monkeypatch.setattr(commit._Writers, "get", fail)
    with pytest.raises(OSError, match="no space"):
        target.commit(messages)
    assert {str(log): log.log_end_offset for log in kafkalog.LogDir(data)} == before
    monkeypatch.undo()
    target.commit(messages)
    assert values(data) == list(range(100))


@needs_data_sources
def test_a_commit_whose_process_died_is_rolled_back_by_the_next(tmp_path: Path) -> None:
    data = tmp_path / "data"
    target = sink(data, partitions=1)
    target.commit([target.write(iter([rows(0, 40)]))])
    dies(target, [target.write(iter([rows(40, 7)]))], after="append")
    assert kafkalog.read_table(data).num_rows == 47
    target.commit([target.write(iter([rows(40, 10)]))])
    assert values(data) == list(range(50))
    # with this job's settings, not those of the rollback
    assert set(kafkalog.read_table(data, columns="compression")["compression"].to_pylist()) == {"zstd"}
    assert left(data) == []


@needs_data_sources
@pytest.mark.parametrize("step", ["begin", "append", "commit"])
def test_a_batch_whose_commit_died_is_appended_once(tmp_path: Path, step: str) -> None:
    """The process dies before, at or after the line from which the batch counts; no cleanup runs."""
    data = tmp_path / "data"
    target = sink(data, stream="/checkpoints/a")
    target.commit([target.write(iter([rows(0, 10)]))], 0)
    dies(target, [target.write(iter([rows(10, 5)]))], 1, after=step)
    assert (data / ".kafkalog-job").exists()
    # Spark repeats the batch, and then runs the next one
    target.commit([target.write(iter([rows(10, 5)]))], 1)
    assert values(data) == list(range(15))
    target.commit([target.write(iter([rows(15, 5)]))], 2)
    assert values(data) == list(range(20))


@needs_data_sources
@pytest.mark.parametrize("step", ["begin", "append", "commit"])
def test_records_that_others_append_after_a_job_that_died_are_kept(tmp_path: Path, step: str) -> None:
    """A writer settles the job before it appends."""
    data = tmp_path / "data"
    target = sink(data, partitions=1)
    target.commit([target.write(iter([rows(0, 40)]))])
    dies(target, [target.write(iter([rows(40, 7)]))], after=step)
    with kafkalog.LogWriter(data, "t", extra="ignore") as writer:
        assert writer.log_end_offset == (47 if step == "commit" else 40)
        writer.append(rows(50, 8))
    assert not (data / ".kafkalog-job").exists()
    target.commit([target.write(iter([rows(58, 10)]))])
    kept = range(47) if step == "commit" else range(40)
    assert values(data) == [*kept, *range(50, 68)]


@needs_data_sources
@pytest.mark.parametrize("appended", [0, 3])
def test_records_of_writers_that_know_no_notes_are_never_cut(tmp_path: Path, appended: int) -> None:
    """A broker may have been started after the job died."""
    data = tmp_path / "data"
    target = sink(data, partitions=1)
    target.commit([target.write(iter([rows(0, 40)]))])
    dies(target, [target.write(iter([rows(40, 7)]))], after="begin")
    note = (data / ".kafkalog-job").read_bytes()
    clock = json.loads(note.split(b"\n")[1])["clock"]
    (data / ".kafkalog-job").unlink()
    with kafkalog.LogWriter(data, "t", extra="ignore", clock=lambda: clock) as writer:
        if appended:
            writer.append(rows(40, appended))
        writer.append(rows(100, 2))
    (data / ".kafkalog-job").write_bytes(note)
    message = target.write(iter([rows(200, 1)]))
    if not appended:
        target.commit([message])
        assert values(data) == [*range(40), 100, 101, 200]
        return
    says = r"t-0 at offsets 40 to 42: records of another writer follow, up to offset 44; delete .*kafkalog-job to keep"
    for attempt in (lambda: target.commit([message]), lambda: kafkalog.LogWriter(data, "t")):
        with pytest.raises(ValueError, match=says):
            attempt()
        assert values(data) == [*range(43), 100, 101]
    (data / ".kafkalog-job").unlink()
    target.commit([message])
    assert values(data) == [*range(43), 100, 101, 200]


@needs_data_sources
def test_a_job_whose_rows_are_gone_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    target = sink(data, partitions=1)
    for step in ("begin", "append"):
        dies(target, [target.write(iter([rows(0, 7)]))], after=step)
        for file in data.glob(".kafkalog-rows.*"):
            file.unlink()
        if step == "begin":  # nothing was appended
            kafkalog.LogWriter(data, "t").close()
    with pytest.raises(
        ValueError, match=r"up to 7 of its records, and .*arrows, by which they are recognized, is gone"
    ):
        kafkalog.LogWriter(data, "t")
    assert values(data) == list(range(7))


@needs_data_sources
@pytest.mark.parametrize("text", ["", "x", "kafkalog-job 1 a\n{}", "kafkalog-job 9 a\n[]", "kafkalog-job 1 a\n3"])
def test_a_note_that_is_not_understood_is_refused(tmp_path: Path, text: str) -> None:
    target = sink(tmp_path / "data")
    message = target.write(iter([rows(0, 3)]))
    (tmp_path / "data" / ".kafkalog-job").write_text(text)
    for attempt in (lambda: target.commit([message]), lambda: kafkalog.LogWriter(tmp_path / "data", "t")):
        with pytest.raises(
            ValueError, match=r"kafkalog-job: expected the note of a job .*delete it to keep all records"
        ):
            attempt()
    assert not kafkalog.LogDir(tmp_path / "data").topics


@needs_data_sources
def test_a_job_of_several_log_dirs_is_settled_from_each(tmp_path: Path) -> None:
    dirs = tmp_path / "d1", tmp_path / "d2"
    for step, opened, given in itertools.product(("begin", "append", "commit"), (0, 1), (1, -1)):
        for each in dirs:
            shutil.rmtree(each, ignore_errors=True)
        target = sink(dirs[0], paths=tuple(map(str, dirs)), partitions=2)
        target.commit([target.write(iter([rows(0, 20)]))])
        dies(target, [target.write(iter([rows(20, 20)]))], after=step)
        kafkalog.LogWriter(dirs[opened], "other").close()
        assert not any((each / ".kafkalog-job").exists() for each in dirs)
        again = sink(dirs[0], paths=tuple(map(str, dirs))[::given])
        again.commit([again.write(iter([rows(40, 5)]))])
        found = sorted(values(dirs[0]) + values(dirs[1]))
        assert found == [*range(40 if step == "commit" else 20), *range(40, 45)]


@needs_data_sources
def test_a_job_whose_first_note_is_missing_is_refused(tmp_path: Path) -> None:
    dirs = tmp_path / "d1", tmp_path / "d2"
    target = sink(dirs[0], paths=tuple(map(str, dirs)), partitions=2)
    dies(target, [target.write(iter([rows(0, 20)]))], after="append")
    (dirs[0] / ".kafkalog-job").unlink()
    with pytest.raises(ValueError, match=r"its note in .*d1, which says whether it was committed, is missing; delete"):
        kafkalog.LogWriter(dirs[1], "t")


@needs_data_sources
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


@needs_data_sources
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


@needs_data_sources
def test_a_skipped_batch_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = sink(tmp_path / "data", stream="/checkpoints/a")
    target.commit([target.write(iter([rows(0, 5)]))], 0)
    assert caplog.messages == []
    target.commit([target.write(iter([rows(0, 5)]))], 0)
    assert caplog.messages == ["kafkalog: batch 0 of stream /checkpoints/a is skipped: it was appended before"]
    assert values(tmp_path / "data") == list(range(5))


@needs_data_sources
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


@needs_data_sources
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


@needs_data_sources
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


@needs_data_sources
@pytest.mark.parametrize("then", ["sink", "task", "writer"])
def test_a_topic_that_was_created_in_part_is_completed(tmp_path: Path, then: str) -> None:
    """The driver dies after the first folder: it must not pass for a topic of one partition."""
    data = tmp_path / "data"
    target = sink(data)
    dies(target, [target.write(iter([rows(0, 9)]))], after="first partition")
    assert [path.name for path in data.iterdir() if path.is_dir()] == ["t-0"]
    # another number of partitions is for new topics
    again = sink(data, partitions=7)
    if then == "writer":
        kafkalog.LogWriter(data, "t", 1).close()
        assert len(kafkalog.LogDir(data).partitions("t")) == 3
    message = again.write(iter([rows(0, 9)]))
    if then == "sink":
        other = sink(data, topic="u")
        other.commit([other.write(iter([rows(0, 9)]))])
        assert kafkalog.read_table(data, "t").num_rows == 0
    again.commit([message])
    assert [log.partition for log in kafkalog.LogDir(data).partitions("t")] == [0, 1, 2]
    assert {*kafkalog.read_table(data, "t")["value"].to_pylist()} == {b"%d" % n for n in range(9)}


@needs_data_sources
def test_many_partitions_and_few_files(tmp_path: Path) -> None:
    """Several times as many partitions as files may be open; 600 under the usual limit of 1024 in the slow profile."""
    partitions, limit = (600, 1024) if SLOW else (150, 200)
    program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
sys.path[:0] = {sys.path!r}
from pathlib import Path
from spark.sinks import rows, sink
for start in (0, 300):
    target = sink(Path({str(tmp_path / "data")!r}), partitions={partitions})
    target.commit([target.write(iter([rows(start, 200)])), target.write(iter([rows(start + 200, 100)]))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(kafkalog.LogDir(tmp_path / "data").partitions("t")) == partitions
    assert values(tmp_path / "data") == list(range(600))


@needs_data_sources
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


@needs_data_sources
def test_tasks_stage_inside_the_log_dir(tmp_path: Path) -> None:
    """Where only the log dir is mounted, nothing can be written beside it."""
    parent = tmp_path / "only-the-log-dir-is-shared"
    data = parent / "data"
    data.mkdir(parents=True)
    target = sink(data).prepared()
    message = target.write(iter([rows(0, 10)]))
    assert pathlib.Path(message.file).parent == data
    target.commit([message])
    assert [path.name for path in parent.iterdir()] == ["data"]
    assert sorted(path.name for path in data.iterdir() if path.name.startswith(".kafkalog")) == [".kafkalog-sink"]
    # all else is what a writer leaves; a broker mounts it (tests/interop)
    assert not [path for path in data.iterdir() if path.is_dir() and not path.name.startswith("t-")]


@needs_data_sources
def test_a_staging_path(tmp_path: Path) -> None:
    data, staging = tmp_path / "data", tmp_path / "staging"
    made = make(tmp_path, stagingPath=str(staging), topic="t", partitions="2")
    message = made.write(iter([rows(0, 10)]))
    assert pathlib.Path(message.file).parent == staging
    assert not data.exists()
    made.commit([message])
    assert values(data) == list(range(10))
    assert [path.name for path in staging.iterdir()] == [".kafkalog-sink"]
    # executors need not see the log dirs
    again = make(tmp_path, stagingPath=str(staging), topic="t", partitions="9")
    data.rename(tmp_path / "hidden")
    message = again.write(iter([rows(10, 10)]))
    (tmp_path / "hidden").rename(data)
    again.commit([message])
    assert values(data) == list(range(20))
    for path, says in ((data / "t-0", "the partition folder"), (data / "deep" / "er", "the log dir")):
        with pytest.raises(ValueError, match=f"option stagingPath: .* lie in {says}"):
            make(tmp_path, stagingPath=str(path), topic="t")


@needs_data_sources
def test_a_staging_folder_that_is_not_shared_is_refused_before_the_first_row(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = make(tmp_path, topic="t")

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
    make(tmp_path, topic="t")
    with pytest.raises(ValueError, match=r"an executor finds another folder there: .*kafkalog-sink has id"):
        made.write(no_rows())
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot stage rows in .*file/deep: the driver cannot write .* stagingPath"):
        sink(tmp_path / "file" / "deep").prepared()
    with pytest.raises(ValueError, match=r"option stagingPath: .*Not a directory: .*file/deep"):
        make(tmp_path, topic="t", stagingPath=str(tmp_path / "file" / "deep"))


@pytest.mark.skipif(not has_data_sources(), reason="Spark 4.0")
@pytest.mark.parametrize(
    ("batch", "given", "says"),
    [
        (
            {"value": [b"v"], "topic": [None]},
            {"topic": None},
            "row 0 of this task has no topic: fill the column topic, or set the option topic",
        ),
        (
            {"value": [b"v"], "partition": [3]},
            {},
            "cannot assign partition 3: topic t has only partitions 0, 1 and 2 here; .* set the option `partitions`",
        ),
        (
            {"value": [b"v"], "partition": [-1]},
            {},
            "cannot assign partition -1: topic t has only partitions 0, 1 and 2",
        ),
    ],
)
def test_rows_without_a_valid_partition(tmp_path: Path, batch: Any, given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        sink(tmp_path / "data", **given).write(iter([pa.RecordBatch.from_pydict(batch)]))


@needs_data_sources
@pytest.mark.parametrize("name", ILLEGAL, ids=lambda name: name[:8])
@pytest.mark.parametrize("stream", [None, "/checkpoints/a"])
def test_a_topic_that_kafka_refuses_is_refused_by_the_task(tmp_path: Path, name: str, stream: str | None) -> None:
    """At the first row that names it, before more rows are staged."""
    target = sink(tmp_path / "data", topic=None, stream=stream)
    given = pa.RecordBatch.from_pydict({"value": [b"1", b"2"], "topic": ["n" * 249, name]})

    def batches() -> Iterator[pa.RecordBatch]:
        yield given
        pytest.fail("more was asked for")

    with pytest.raises(ValueError, match=f'^topic "{re.escape(name)}": expected 1 to 249 ASCII letters[^\n]*$'):
        target.write(batches())
    assert not kafkalog.LogDir(tmp_path / "data").topics


@needs_data_sources
def test_records_without_a_key_go_to_partitions_in_turn(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    target.commit([target.write(iter([pa.RecordBatch.from_pydict({"value": [b"v"] * 60})]))])
    ends = {log.partition: log.log_end_offset for log in kafkalog.LogDir(tmp_path / "data")}
    assert ends == {0: 20, 1: 20, 2: 20}


@needs_data_sources
def test_tasks_start_with_different_partitions(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    row = pa.RecordBatch.from_pydict({"value": [b"v"]})
    target.commit([target.write(iter([row])) for _ in range(40)])
    ends = [log.log_end_offset for log in kafkalog.LogDir(tmp_path / "data")]
    assert sum(ends) == 40
    assert all(ends)


@needs_data_sources
def test_a_new_topic_has_all_its_partitions(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    target.commit([target.write(iter([pa.RecordBatch.from_pydict({"value": [b"1"]})]))])
    assert [log.partition for log in kafkalog.LogDir(tmp_path / "data").partitions("t")] == [0, 1, 2]


@needs_data_sources
@pytest.mark.parametrize("column", [["a", None], [[1], [2]]])
def test_the_option_topic_precedes_the_column(tmp_path: Path, column: list[Any]) -> None:
    target = sink(tmp_path / "data", partitions=1)
    target.commit([target.write(iter([pa.RecordBatch.from_pydict({"value": [b"1", b"2"], "topic": column})]))])
    assert kafkalog.LogDir(tmp_path / "data").topics == ["t"]
    assert values(tmp_path / "data") == [1, 2]


@needs_data_sources
def test_a_partition_that_is_being_deleted_does_not_count(tmp_path: Path) -> None:
    data = tmp_path / "data"
    target = sink(data, partitions=1)
    target.commit([target.write(iter([rows(0, 5)]))])
    (data / f"t-7.{'0' * 32}-delete").mkdir()
    with pytest.raises(ValueError, match="cannot assign partition 1: topic t has only partition 0 here"):
        target.write(iter([pa.RecordBatch.from_pydict({"value": [b"v"], "partition": [1]})]))


@needs_data_sources
def test_an_abort_knows_the_files_by_the_messages(tmp_path: Path) -> None:
    """Spark creates another writer of a stream in each process."""
    message = sink(tmp_path / "data", stream="/c").write(iter([rows(0, 5)]))
    assert len(left(tmp_path / "data")) == 1
    sink(tmp_path / "data", stream="/c").abort([message, None])
    assert left(tmp_path / "data") == []


@needs_data_sources
def test_old_staged_files_are_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    old, young = (pathlib.Path(sink(data).write(iter([rows(0, 5)])).file) for _ in range(2))
    last_week = time.time() - 8 * 86_400
    os.utime(old, (last_week, last_week))
    target = sink(data)
    target.commit([target.write(iter([rows(0, 5)]))])
    assert left(data) == [young.name]


@needs_data_sources
def test_a_frame_is_written_and_read_again(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "select if(id % 3 = 0, null, cast(id % 5 as string)) key, cast(id as string) value, 'a' || id % 2 topic, "
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) headers, "
        "timestamp_millis(1700000000123) timestamp from range(0, 200, 1, 3)"
    )
    data = tmp_path / "data"
    frame.write.format("kafkalog").option("partitions", 2).option("compression.type", "lz4").mode("append").save(
        str(data)
    )
    found = spark.read.format("kafkalog").option("includeHeaders", "true").load(str(data))
    got = found.selectExpr("cast(key as string)", "cast(value as string)", "topic", "headers", "timestamp").collect()
    wanted = frame.select("key", "value", "topic", "headers", "timestamp").collect()
    assert sorted(got, key=lambda row: int(row[1])) == sorted(wanted, key=lambda row: int(row[1]))
    assert found.select("topic", "partition").distinct().count() == 4
    times = frame.selectExpr("value", "'local' topic", "timestamp_ntz'2023-11-14 22:13:20.123' timestamp")
    times.write.format("kafkalog").mode("append").save(str(data))
    local = spark.read.format("kafkalog").option("subscribe", "local").load(str(data))
    assert local.selectExpr("unix_millis(timestamp)").distinct().collect() == [(1_700_000_000_123,)]
    with pytest.raises(Exception, match=re.escape("a log cannot be overwritten, only appended to; use mode('append')")):
        frame.write.format("kafkalog").mode("overwrite").save(str(data))


@needs_data_sources
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.key.serializer": "x"}, "option kafka.key.serializer is not supported: keys are bytes"),
        ({"Kafka.Value.Serializer": "x"}, "option kafka.value.serializer is not supported: values are bytes"),
        ({"compression.type": "lz4", "kafka.compression.type": "zstd"}, "differ; set one of them"),
        ({"kafka.topic": "t"}, "the rows have no topic; set the option topic"),
        ({"partition": "2"}, "unknown option 'partition'; did you mean 'partitions'?"),
        ({"topic": "t", "partitions": "0"}, "expected a number of partitions above zero"),
        ({"topic": "t", "compression.type": "brotli"}, "brotli"),
        # ConfigDef.ValidString
        ({"topic": "t", "compression.type": ""}, "Invalid value  for configuration compression_type"),
        ({"topic": "t", "kafka.compression.type": "ZSTD"}, "Invalid value ZSTD for configuration"),
        ({"topic": "t", "max.message.bytes": "1m"}, "expected max.message.bytes, found '1m'"),
        *[({"topic": name}, f'topic "{name}": expected 1 to 249 ASCII letters') for name in ILLEGAL if name],
        ({"topic": " "}, 'topic "": expected'),
        ({"topic": "t", "failOnDataLoss": "maybe"}, "option failOnDataLoss: expected true or false, found 'maybe'"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, options: dict[str, str], says: str) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkalog.spark.sink import make_writer

    with pytest.raises(ValueError, match=re.escape(says)):
        make_writer(
            {"path": str(tmp_path), **options}, StructType([StructField("value", BinaryType())]), overwrite=False
        )


@needs_data_sources
def test_names_of_compression_types(tmp_path: Path) -> None:
    """A producer's and a topic's; ConfigDef.parseType trims them."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkalog.spark.sink import make_writer

    value = StructType([StructField("value", BinaryType())])
    for given, codec in {" zstd ": "zstd", "none": "none", "uncompressed": "none", "producer": "none"}.items():
        data = tmp_path / str(len(list(tmp_path.iterdir())))
        options = {"path": str(data), "topic": "t", "kafka.compression.type": given}
        target = make_writer(options, value, overwrite=False).sink
        target.commit([target.write(iter([rows(0, 9)]))])
        assert set(kafkalog.read_table(data, columns="compression")["compression"].to_pylist()) == {codec}


@needs_data_sources
@pytest.mark.parametrize("compression", [None, "none", "lz4"])
def test_a_record_that_is_too_large_is_refused_by_the_task(tmp_path: Path, compression: str | None) -> None:
    """Exactly the records that the commit would refuse; with compression, the commit finds out."""
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    taken = 0
    others: list[tuple[bytes | None, Any]] = [(None, None), (b"k" * 70, None), (b"", [])]
    others += [(b"k", [{"key": "h\u00e4", "value": None}, {"key": "i" * 80, "value": b"v" * 9000}])]
    cases = [(size, *other) for size in (0, 56, 57, 58, 700, 8100, 9100) for other in others]
    for number, (most, size) in enumerate([(m, s) for m in (130, 9300) for s in range(len(cases))]):
        length, key, header = cases[size]
        fits = pa.RecordBatch.from_pydict({"value": [b"v"] * 3})
        value = os.urandom(length)
        given = pa.RecordBatch.from_pydict(
            {"value": [b"", value], "key": [None, key], "headers": pa.array([None, header], headers)}
        )
        data = tmp_path / str(number)
        with kafkalog.LogWriter(data, "u", config=kafkalog.LogConfig(max_message_bytes=1 << 20)) as writer:
            writer.append(given.slice(1))
        (found,) = kafkalog.read_table(data, columns="batchSize")["batchSize"].to_pylist()
        says = ""
        with kafkalog.LogWriter(data, "u", config=kafkalog.LogConfig(max_message_bytes=most)) as writer:
            try:
                writer.append(given)
            except kafkalog.InvalidRecordError:
                assert found is not None
                assert found > most
                says = re.escape(
                    f"t-0: RecordTooLarge: batch size: expected at most {most} (max.message.bytes), found {found} for "
                    "row 4 of this task alone"
                )
        target = sink(data, partitions=1, compression=compression, max_message_bytes=most)
        if says and compression != "lz4":
            with pytest.raises(kafkalog.InvalidRecordError, match=f"^{says}$"):
                target.write(iter([fits, given]))
        else:
            taken += 1
            target.write(iter([fits, given]))
    assert taken == len(cases) * 2 if compression == "lz4" else len(cases) // 2 < taken < len(cases) * 2


@needs_data_sources
def test_a_topic_of_which_some_partitions_are_here(tmp_path: Path) -> None:
    """In one log dir of several, or on one broker of several; another broker's partition would become -stray."""
    data = tmp_path / "data"
    for partition in (0, 2):
        kafkalog.LogWriter(data, "t", partition).close()
    target = sink(data, partitions=9)
    here = pa.RecordBatch.from_pydict({"value": [b"1", b"2"], "partition": pa.array([2, 0], pa.int32())})
    target.commit([target.write(iter([here]))])
    hold = "topic t has only partitions 0 and 2 here; list every log dir in `path`"
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"value": [b"3"], "partition": pa.array([1], pa.int32())}, f"cannot assign partition 1: {hold}"),
        # the number of partitions, from which a key chooses one, is not known
        ({"value": [b"3"], "key": [b"k"]}, f"cannot assign a partition to a row: {hold}"),
        ({"value": [b"3"]}, f"cannot assign a partition to a row: {hold}"),
        (
            {"value": [b"3"], "partition": pa.array([3], pa.int32())},
            "cannot assign partition 3: topic t has only partitions 0 and 2 here; correct",
        ),
    )
    for row, says in refused:
        with pytest.raises(ValueError, match=re.escape(says)):
            target.write(iter([pa.RecordBatch.from_pydict(row)]))
    assert [folder.name for folder in sorted(data.iterdir()) if folder.is_dir()] == ["t-0", "t-2"]
    assert values(data) == [1, 2]


@needs_data_sources
def test_a_topic_created_meanwhile_gets_no_more_partitions(tmp_path: Path) -> None:
    data = tmp_path / "data"
    three, five = sink(data), sink(data, partitions=5)
    late = five.write(iter([pa.RecordBatch.from_pydict({"value": [b"1"] * 5})]))
    three.commit([three.write(iter([rows(0, 9)]))])
    with pytest.raises(
        ValueError,
        match="cannot append to partitions 3 and 4 of topic t: the log dirs now have only partitions 0, 1 and 2",
    ):
        five.commit([late])
    assert values(data) == list(range(9))
    assert [log.partition for log in kafkalog.LogDir(data)] == [0, 1, 2]
    five.commit([five.write(iter([rows(9, 9)]))])
    assert values(data) == list(range(18))


@needs_data_sources
def test_a_topic_that_is_new_on_a_broker_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """tests/interop shows what the broker does with it."""
    kafkalog.LogWriter(tmp_path / "data", "known", cluster_id="kafkalogTESTclusterAA", node_id=1).close()
    for topic in ("known", "t"):
        target = sink(tmp_path / "data", topic=topic, partitions=1)
        target.commit([target.write(iter([rows(0, 5)]))])
    assert [record.args for record in caplog.records] == [("t",)]
    assert "topic t is new in a broker's log dir" in caplog.text


@needs_data_sources
def test_options_of_a_producer_are_ignored_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    from kafkalog.spark.sink import make_writer

    given = {"path": str(tmp_path), "topic": " t ", "kafka.acks": "all", "kafka.partitions": "9"}
    made = make_writer(given, StructType([StructField("value", BinaryType())]), overwrite=False).sink
    assert (made.topic, made.partitions) == ("t", 1)
    assert [record.args for record in caplog.records] == [("kafka.acks",), ("kafka.partitions",)]
    assert caplog.text.count("kafkalog: option kafka.") == 2


@needs_data_sources
@pytest.mark.parametrize("rows", [0, 3])
def test_an_empty_frame_into_a_path_with_a_comma(spark: SparkSession, tmp_path: Path, rows: int) -> None:
    data = tmp_path / "a,b"
    frame = spark.range(rows).selectExpr("cast(id as string) value")
    frame.write.format("kafkalog").options(topic="t", partitions=2).mode("append").save(f"file://{data}")
    assert [folder.name for folder in sorted(data.iterdir()) if folder.is_dir()] == ["t-0", "t-1"]
    for path in (str(data), f"file://{data}"):
        assert spark.read.format("kafkalog").option("subscribe", "t").load(path).count() == rows
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["a,b"]


@needs_data_sources
@pytest.mark.parametrize(
    ("sql", "options", "says"),
    [
        ("select 'v' value", {}, "the rows have no topic; set the option topic, or add a column topic"),
        ("select 'k' key", {"topic": "t"}, "the rows have no column value, which is required"),
        ("select 1 value", {"topic": "t"}, "column value is int; cast it to binary or string"),
        ("select 'v' value", {"topics": "t"}, "unknown option 'topics'; did you mean 'topic'?"),
        ("select 'v' value", {"topic": "a b"}, 'topic "a b": expected 1 to 249 ASCII letters'),
        ("select 'v' value, 'a' || id topic from range(9)", {"topic": "a/b"}, 'topic "a/b": expected 1 to 249'),
        ("select 'v' value, 'a/' || id topic from range(1)", {}, 'ValueError: topic "a/0": expected 1 to 249'),
    ],
)
def test_frames_that_cannot_be_written(spark: SparkSession, tmp_path: Path, sql: str, options: Any, says: str) -> None:
    with pytest.raises(Exception, match=re.escape(says)):
        spark.sql(sql).write.format("kafkalog").options(**options).mode("append").save(str(tmp_path / "data"))
    assert not (tmp_path / "data").exists()
