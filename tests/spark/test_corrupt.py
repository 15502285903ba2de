"""Damage reaches the driver as the exception of the core, with file and byte position."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from spark.queries import Stream
from spark.ways import both_ways, by_data_source, by_map_in_arrow, has_data_sources, needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

CORRUPT = corpus.GOLDEN / "corrupt"
BATCH = 93  # bytes of every batch in those files
CASES = {case["name"]: case for case in json.loads((CORRUPT / "cases.json").read_text())}


damaged = pytest.mark.parametrize(
    "name", ["flipped-bit", "flipped-bit-active", "torn-closed", "unknown-codec", "unknown-magic"]
)


def assert_one_line_says_it(text: str, name: str) -> None:
    """One line of the driver's error has the kind, the file, the byte, what was expected and what was found."""
    case = CASES[name]
    kind = {"corrupt": "CorruptRecordError", "unsupported": "UnsupportedFormatError"}[case["stop"]]
    file = re.escape(str(CORRUPT / name / "t-0" / case["file"]))
    found = re.search(rf"{kind}: {file}: byte (\d+): .*expected .+, found .+$", text, re.MULTILINE)
    assert found is not None, text
    assert case["position"] <= int(found[1]) < case["position"] + BATCH


@both_ways
@damaged
def test_the_error_names_file_and_position(spark: SparkSession, way: Any, name: str) -> None:
    with pytest.raises(Exception, match="Error") as caught:
        way(spark, CORRUPT / name / "t-0").collect()
    assert_one_line_says_it(str(caught.value), name)


def transformed(spark: SparkSession, path: Path) -> object:
    # Workers cannot import this module, so the function is pickled by value.
    function = lambda batch: batch  # noqa: E731
    return kafkalog.spark.read(spark, path, columns="offset", transform=function, schema="offset bigint").collect()


@damaged
@pytest.mark.parametrize("way", [kafkalog.spark.count, transformed])
def test_work_in_executors_names_them_too(spark: SparkSession, name: str, way: Callable[..., object]) -> None:
    with pytest.raises(Exception, match="Error") as caught:
        way(spark, CORRUPT / name / "t-0")
    assert_one_line_says_it(str(caught.value), name)


@needs_data_sources
@pytest.mark.parametrize("name", ["flipped-bit", "unknown-magic"])
def test_a_stream_names_them_too(spark: SparkSession, tmp_path: Path, name: str) -> None:
    with pytest.raises(Exception, match="Error") as caught:
        Stream(spark, CORRUPT / name / "t-0", tmp_path / "c", startingOffsets="earliest").run()
    assert_one_line_says_it(str(caught.value), name)


@damaged
def test_an_export_names_them_too(spark: SparkSession, tmp_path: Path, name: str) -> None:
    with pytest.raises(kafkalog.KafkaLogError) as caught:
        kafkalog.spark.export("local[2]", CORRUPT / name / "t-0", tmp_path / "out")
    assert_one_line_says_it(f"{type(caught.value).__name__}: {caught.value}", name)


def test_a_time_that_microseconds_cannot_hold(spark: SparkSession, tmp_path: Path) -> None:
    """An error if the column is requested, and only then: Spark's own source fails at such a record."""
    path, most = tmp_path / "data", (2**63 - 1) // 1000
    config = kafkalog.LogConfig(message_timestamp_after_max_ms=2**63 - 1)
    with kafkalog.LogWriter(path, "t", config=config) as writer:
        writer.append([kafkalog.Record(value=b"v", timestamp=time) for time in (5, most, most + 1)])
    says = (
        rf"InvalidRecordError: {re.escape(str(path))}/t-0/0{{20}}\.log: byte 0: offset 2: timestamp: "
        rf"expected -{most} to {most} ms, which is what microseconds hold, found {most + 1} ms"
    )
    ways: list[Any] = [by_map_in_arrow, by_data_source] if has_data_sources() else [by_map_in_arrow]
    for way in ways:
        with pytest.raises(Exception, match=says):
            way(spark, path).selectExpr("unix_millis(timestamp)").collect()
        assert [row[0] for row in way(spark, path, columns="offset").collect()] == [0, 1, 2]
        skipped = way(spark, path, onCorrupt="skip").selectExpr("unix_millis(timestamp)").collect()
        assert [row[0] for row in skipped] == [5, most]
    rows = kafkalog.spark.read(spark, path, ending_offsets={"t": {0: 2}}).selectExpr("unix_millis(timestamp)").collect()
    assert [row[0] for row in rows] == [5, most]
    assert kafkalog.spark.count(spark, path) == 3
    with pytest.raises(kafkalog.InvalidRecordError, match="microseconds"):
        kafkalog.spark.export("local[2]", path, tmp_path / "out")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["data"]
    if has_data_sources():
        stream = Stream(spark, path, tmp_path / "c", startingOffsets="earliest")
        stream.run()
        assert stream.offsets == [0, 1, 2]
        stream = Stream(spark, path, tmp_path / "d", startingOffsets="earliest")
        stream.frame = stream.frame.option("columns", "topic,partition,offset,timestamp")
        with pytest.raises(Exception, match=says):
            stream.run()


@both_ways
@pytest.mark.parametrize("name", ["torn-tail", "zero-tail"])
def test_a_torn_or_zero_tail_is_the_end(spark: SparkSession, way: Any, name: str) -> None:
    assert way(spark, CORRUPT / name / "t-0").count() == CASES[name]["records"]


@both_ways
def test_checksums_can_be_left_unchecked(spark: SparkSession, way: Any) -> None:
    assert way(spark, CORRUPT / "flipped-crc" / "t-0", checkCrcs="false").count() == 10


@both_ways
def test_damage_is_skipped_and_counted(spark: SparkSession, way: Any) -> None:
    """Also where splits are small: no segment is divided among tasks, as one that sees all of it can tell."""
    folder = CORRUPT / "base-offset-back" / "t-0"
    table = kafkalog.read_table(folder, on_corrupt="skip")
    options: dict[str, Any] = {"onCorrupt": "skip", "splitBytes": "100"}
    rows = way(spark, folder, **options).select("offset").collect()
    assert sorted(row.offset for row in rows) == table["offset"].to_pylist()
    sums = kafkalog.spark.totals(spark)
    assert kafkalog.spark.read(spark, folder, metrics=sums, **options).count() == table.num_rows
    size = sum(file.stat().st_size for file in folder.glob("*.log"))
    assert sums.value["lost"] == 1
    assert sums.value["bytes"] + sums.value["bytes_lost"] == size
