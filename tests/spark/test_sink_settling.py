"""A job whose process died: the next sink or writer rolls it back or completes it."""

from __future__ import annotations

import itertools
import json
import shutil
from typing import TYPE_CHECKING

import pytest

import kafkalog
from spark.sinks import dies, left, rows, sink, values
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_data_sources


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


def test_a_job_with_a_log_dir_that_is_not_mounted_is_refused(tmp_path: Path) -> None:
    """A folder in its place would have nothing to take back, and the records stay in the one that is mounted later."""
    dirs = tmp_path / "d1", tmp_path / "d2"
    target = sink(dirs[0], paths=tuple(map(str, dirs)), partitions=2)
    dies(target, [target.write(iter([rows(0, 20)]))], after="append")
    dirs[1].rename(tmp_path / "unmounted")
    for attempt in (lambda: kafkalog.LogWriter(dirs[0], "t"), lambda: sink(dirs[0], partitions=2).commit([])):
        with pytest.raises(ValueError, match=r"d2: no such folder, and a job that died .*mount it, or delete .*d1"):
            attempt()
    assert not dirs[1].exists()
    (tmp_path / "unmounted").rename(dirs[1])
    kafkalog.LogWriter(dirs[0], "other").close()
    assert values(dirs[0]) == values(dirs[1]) == []


def test_a_job_whose_first_note_is_missing_is_refused(tmp_path: Path) -> None:
    dirs = tmp_path / "d1", tmp_path / "d2"
    target = sink(dirs[0], paths=tuple(map(str, dirs)), partitions=2)
    dies(target, [target.write(iter([rows(0, 20)]))], after="append")
    (dirs[0] / ".kafkalog-job").unlink()
    with pytest.raises(ValueError, match=r"its note in .*d1, which says whether it was committed, is missing; delete"):
        kafkalog.LogWriter(dirs[1], "t")


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
