"""Topic and partition of a row, and the partitions that a topic gets."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
import tiers
from spark.sinks import ILLEGAL, rows, sink, values
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_data_sources


def test_many_partitions_and_few_files(tmp_path: Path) -> None:
    """Several times as many partitions as files may be open; 600 under the usual limit of 1024 in the slow profile."""
    partitions, limit = (600, 1024) if tiers.SLOW else (150, 200)
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


def test_records_without_a_key_go_to_partitions_in_turn(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    target.commit([target.write(iter([pa.RecordBatch.from_pydict({"value": [b"v"] * 60})]))])
    ends = {log.partition: log.log_end_offset for log in kafkalog.LogDir(tmp_path / "data")}
    assert ends == {0: 20, 1: 20, 2: 20}


def test_tasks_start_with_different_partitions(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    row = pa.RecordBatch.from_pydict({"value": [b"v"]})
    target.commit([target.write(iter([row])) for _ in range(40)])
    ends = [log.log_end_offset for log in kafkalog.LogDir(tmp_path / "data")]
    assert sum(ends) == 40
    assert all(ends)


def test_a_new_topic_has_all_its_partitions(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    target.commit([target.write(iter([pa.RecordBatch.from_pydict({"value": [b"1"]})]))])
    assert [log.partition for log in kafkalog.LogDir(tmp_path / "data").partitions("t")] == [0, 1, 2]


@pytest.mark.parametrize("column", [["a", None], [[1], [2]]])
def test_the_option_topic_precedes_the_column(tmp_path: Path, column: list[Any]) -> None:
    target = sink(tmp_path / "data", partitions=1)
    target.commit([target.write(iter([pa.RecordBatch.from_pydict({"value": [b"1", b"2"], "topic": column})]))])
    assert kafkalog.LogDir(tmp_path / "data").topics == ["t"]
    assert values(tmp_path / "data") == [1, 2]


def test_a_partition_that_is_being_deleted_does_not_count(tmp_path: Path) -> None:
    data = tmp_path / "data"
    target = sink(data, partitions=1)
    target.commit([target.write(iter([rows(0, 5)]))])
    (data / f"t-7.{'0' * 32}-delete").mkdir()
    with pytest.raises(ValueError, match="cannot assign partition 1: topic t has only partition 0 here"):
        target.write(iter([pa.RecordBatch.from_pydict({"value": [b"v"], "partition": [1]})]))


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


def test_a_topic_that_is_new_on_a_broker_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """tests/interop shows what the broker does with it."""
    kafkalog.LogWriter(tmp_path / "data", "known", cluster_id="kafkalogTESTclusterAA", node_id=1).close()
    for topic in ("known", "t"):
        target = sink(tmp_path / "data", topic=topic, partitions=1)
        target.commit([target.write(iter([rows(0, 5)]))])
    assert [record.args for record in caplog.records] == [("t",)]
    assert "topic t is new in a broker's log dir" in caplog.text
