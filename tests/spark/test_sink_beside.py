"""Sinks that run at the same time, and sinks whose log dir another process has locked."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import kafkalog
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = needs_data_sources

# Holds a lock as Java's FileChannel takes it, until its input has something to read.
HOLDS = """
import fcntl, sys
with open(sys.argv[1], "a") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def write(spark: SparkSession, data: Path, sql: str, **options: str) -> None:
    frame = spark.sql(sql)
    frame.write.format("kafkalog").options(**options).mode("append").save(str(data))


def beside(data: Path) -> list[str]:
    """List the files that sinks leave, in the log dir or beside it."""
    return sorted(file.name for file in [*data.glob(".kafkalog*"), *data.parent.glob(".*")])


# What a driver does with a job's rows; all drivers start at the same time.
COMMITS = """
import sys
import pyarrow as pa
from kafkalog.spark.sink import Sink
data, topic, partition, first, end = sys.argv[1:]
sink = Sink(paths=(data,), topic=topic, partitions=1, compression=None, stream=None)
numbers = range(int(first), int(end))
places = pa.array([int(partition)] * len(numbers), "int32")
batch = pa.record_batch({"value": [str(n) for n in numbers], "partition": places})
half = batch.num_rows // 2
messages = [sink.write(iter([batch.slice(0, half)])), sink.write(iter([batch.slice(half)]))]
print("written", flush=True)
sys.stdin.read()
sink.commit(messages)
"""


def test_sinks_of_one_log_dir_run_one_after_the_other(tmp_path: Path) -> None:
    """Into the same partition, into other partitions, and into another topic: each row is there once."""
    data = tmp_path / "data"
    for partition in range(3):
        kafkalog.LogWriter(data, "t", partition).close()
    jobs = [("t", 0, 0, 300), ("t", 0, 300, 500), ("t", 1, 500, 900), ("t", 2, 900, 1000), ("u", 0, 1000, 1200)]
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", COMMITS, str(data), *map(str, job)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for job in jobs
        ]
        for job in running:
            assert job.stdout is not None
            assert job.stdout.readline() == "written\n"
        for job in running:
            assert job.stdin is not None
            job.stdin.close()
        assert [job.wait(60) for job in running] == [0] * len(jobs)
    found = kafkalog.read_table(data, columns=["topic", "partition", "offset", "value"]).to_pylist()
    places: dict[tuple[str, int], list[int]] = {}
    for row in found:
        place = places.setdefault((row["topic"], row["partition"]), [])
        assert row["offset"] == len(place)
        place.append(int(row["value"]))
    first = places.pop(("t", 0))
    # one job's rows follow the other's
    assert first in ([*range(500)], [*range(300, 500), *range(300)])
    wanted = {("t", 1): range(500, 900), ("t", 2): range(900, 1000), ("u", 0): range(1000, 1200)}
    assert places == {place: list(numbers) for place, numbers in wanted.items()}
    assert beside(data) == []


def test_topics_in_a_column_leave_no_files(spark: SparkSession, tmp_path: Path) -> None:
    """Neither a job that was committed nor one that is refused at its commit, in a log dir that was there before."""
    data = tmp_path / "data"
    kafkalog.LogWriter(data, "t").close()
    write(spark, data, "select 'a' value, 't' topic")
    assert beside(data) == []
    (data / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4001\n")
    with pytest.raises(Exception, match="4001"):
        write(spark, data, "select 'a' value, 't' topic")
    assert beside(data) == []


def test_a_log_dir_that_a_broker_has_locked_is_not_written_to(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(spark, data, "select 'a' value", topic="t")
    command = [sys.executable, "-c", HOLDS, str(data / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = {file: file.read_bytes() for file in sorted(data.rglob("*")) if file.is_file()}
        with pytest.raises(Exception, match=r"LogLockedError: .*data/\.lock: another writer holds this lock"):
            write(spark, data, "select 'b' value", topic="t")
        assert {file: file.read_bytes() for file in sorted(data.rglob("*")) if file.is_file()} == before
        assert beside(data) == []
        holder.communicate("")
    write(spark, data, "select 'c' value", topic="t")
    assert kafkalog.read_table(data)["value"].to_pylist() == [b"a", b"c"]
