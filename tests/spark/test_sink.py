"""Rows into partitions of a log dir: all rows of a job or none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from kafkalog import partition_for_key
from spark.sinks import left, rows, sink, values
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = needs_data_sources


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


def test_an_aborted_job_leaves_nothing(tmp_path: Path) -> None:
    target = sink(tmp_path / "data")
    target = target.prepared()
    target.abort([target.write(iter([rows(0, 50)])), None])
    assert not (tmp_path / "data").exists()
    # a folder that was there before, and one that is used since
    (tmp_path / "data").mkdir()
    target = target.prepared()
    target.abort([target.write(iter([rows(0, 50)])), None])
    assert [*(tmp_path / "data").iterdir()] == []


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


@pytest.mark.every_spark
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


@pytest.mark.every_spark
@pytest.mark.parametrize("rows", [0, 3])
def test_an_empty_frame_into_a_path_with_a_comma(spark: SparkSession, tmp_path: Path, rows: int) -> None:
    data = tmp_path / "a,b"
    frame = spark.range(rows).selectExpr("cast(id as string) value")
    frame.write.format("kafkalog").options(topic="t", partitions=2).mode("append").save(f"file://{data}")
    assert [folder.name for folder in sorted(data.iterdir()) if folder.is_dir()] == ["t-0", "t-1"]
    for path in (str(data), f"file://{data}"):
        assert spark.read.format("kafkalog").option("subscribe", "t").load(path).count() == rows
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["a,b"]


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
