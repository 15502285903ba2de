"""Streams into a log dir."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from spark.sinks import rows, sink, values

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("options", "topic"), [({"topic": "a b"}, "'t'"), ({}, "'a b'")])
def test_a_stream_into_a_topic_that_kafka_refuses(
    spark: SparkSession, tmp_path: Path, options: Any, topic: str
) -> None:
    pytest.importorskip("pyspark", minversion="4.1")
    first = sink(tmp_path / "first")
    first.commit([first.write(iter([rows(0, 9)]))])
    stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(str(tmp_path / "first"))
    writer = stream.selectExpr("value", f"{topic} topic").writeStream.format("kafkalog").options(**options)
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).option("path", str(tmp_path / "second"))
    with pytest.raises(Exception, match=re.escape('topic "a b": expected 1 to 249 ASCII letters')):
        writer.trigger(availableNow=True).start().awaitTermination(120)
    assert not list(tmp_path.glob("second/*-*/"))


def test_from_a_stream_into_another_log(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="4.1")
    first = sink(tmp_path / "first")
    first.commit([first.write(iter([rows(0, 60)]))])
    stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(str(tmp_path / "first"))

    def run() -> None:
        writer = stream.select("key", "value", "timestamp").writeStream.format("kafkalog").option("topic", "copy")
        writer = writer.option("checkpointLocation", str(tmp_path / "c")).option("path", str(tmp_path / "second"))
        writer.trigger(availableNow=True).start().awaitTermination(120)

    run()
    assert values(tmp_path / "second") == list(range(60))
    first.commit([first.write(iter([rows(60, 10)]))])
    run()
    assert values(tmp_path / "second") == list(range(70))
    assert kafkalog.LogDir(tmp_path / "second").topics == ["copy"]


def test_a_query_whose_checkpoint_was_deleted_starts_again(spark: SparkSession, tmp_path: Path) -> None:
    """Its batches have the numbers and the path of the old ones, and are new batches."""
    pytest.importorskip("pyspark", minversion="4.1")
    first, second = tmp_path / "first", tmp_path / "second"
    source = sink(first)
    source.commit([source.write(iter([rows(0, 30)]))])

    def run(**given: Any) -> None:
        stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest").load(str(first))
        writer = stream.select("key", "value").writeStream.format("kafkalog").option("topic", "copy")
        writer.options(path=str(second), **given).trigger(availableNow=True).start().awaitTermination(120)

    run(checkpointLocation=str(tmp_path / "c"))
    run(checkpointLocation=str(tmp_path / "c"))
    assert values(second) == list(range(30))
    shutil.rmtree(tmp_path / "c")
    run(checkpointLocation=str(tmp_path / "c"))
    assert values(second) == sorted([*range(30)] * 2)
    # two queries whose checkpoints the session chooses
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    try:
        run()
        run()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert values(second) == sorted([*range(30)] * 4)
