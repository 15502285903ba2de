"""``option("table", ...)``: the tables as ``kafkalog.tables`` gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import corpus
import tiered_cases
from kafkalog import tables
from spark.ways import needs_data_sources, table_of

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = needs_data_sources

GROUPS = corpus.GOLDEN / "internal-compacted"
METADATA = corpus.GOLDEN / "metadata" / "data-0"
CASES: list[tuple[str, list[Path]]] = [
    ("records", [GROUPS / "data-0", GROUPS / "data-1"]),
    ("consumer_offsets", [GROUPS / "data-0", GROUPS / "data-1"]),
    ("consumer_groups", [GROUPS / "data-0", GROUPS / "data-1"]),
    ("lag", [GROUPS / "data-0"]),
    ("transactions", [GROUPS / "data-0"]),
    ("open_transactions", [corpus.GOLDEN / "txn" / "data-1"]),
    ("producers", [corpus.GOLDEN / "txn" / "data-1"]),
    *((name, [METADATA]) for name in ("topics", "cluster_metadata", "brokers", "acls", "quotas", "features")),
    ("schemas", [corpus.GOLDEN / "schemas" / "contexts-deleted" / "data-0"]),
]
OF_A_TIER = "remote_segments"


def rows(table: pa.Table) -> list[dict[str, Any]]:
    found = table.to_pylist()
    return sorted(found, key=lambda row: [(value is not None, str(value)) for value in row.values()])


@pytest.mark.parametrize(("name", "paths"), CASES, ids=[name for name, _ in CASES])
def test_rows_are_those_of_the_function(spark: SparkSession, name: str, paths: list[Path]) -> None:
    expected = getattr(tables, name)(paths)
    frame = spark.read.format("kafkalog").option("table", name).load(",".join(map(str, paths)))
    assert frame.columns == expected.column_names
    found = table_of(frame)
    assert len(found) > 0
    assert rows(found) == rows(expected)


def test_segments_of_a_tier(spark: SparkSession, tmp_path: Path) -> None:
    case = tiered_cases.unpack("lineage", tmp_path)
    expected = tables.remote_segments(case.data, remote=case.tier)
    read = spark.read.format("kafkalog").option("table", OF_A_TIER).option("remote", str(case.tier))
    frame = read.load(str(case.data)).drop("epochs")
    assert rows(table_of(frame)) == rows(expected.drop_columns(["epochs"]))


def test_tables_are_all_there() -> None:
    from kafkalog.spark.tables import TABLES

    assert [*(name for name, _ in CASES), OF_A_TIER] == list(TABLES)
    assert sorted(TABLES) == sorted(tables.__all__)


@pytest.mark.parametrize("name", ["records", "consumer_offsets", "consumer_groups", "lag"])
def test_the_driver_is_told_which_partitions_are_here(
    spark: SparkSession, name: str, caplog: pytest.LogCaptureFixture
) -> None:

    from kafkalog.spark.tables import table_reader, table_schema

    for paths, said in (
        ([GROUPS / "data-0"], "partitions 1 of at least 2 here"),
        ([GROUPS / "data-0", GROUPS / "data-1"], ""),
    ):
        options = {"table": name, "path": ",".join(map(str, paths))}
        schema = spark.createDataFrame([], table_schema(options)).schema
        table_reader(options, schema).partitions()
        assert said in caplog.text
        assert bool(said) == ("__consumer_offsets" in caplog.text)
        caplog.clear()


def test_history_and_some_columns(spark: SparkSession) -> None:
    folder = GROUPS / "data-0" / "__consumer_offsets-1"
    read = spark.read.format("kafkalog").option("table", "consumer_offsets")
    frame = read.option("history", "true").schema("logOffset bigint, `group` string").load(str(folder))
    expected = tables.consumer_offsets(folder, history=True).select(["logOffset", "group"])
    assert rows(table_of(frame)) == rows(expected)


def test_one_task_for_each_partition(spark: SparkSession) -> None:
    read = spark.read.format("kafkalog").option("table", "consumer_offsets")
    assert read.load(f"{GROUPS / 'data-0'},{GROUPS / 'data-1'}").rdd.getNumPartitions() == 2


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"table": "offsets"}, "option table: expected one of records, consumer_offsets"),
        ({"table": "lag", "history": "true"}, "option history does not apply to the table lag"),
        ({"table": "lag", "subscribe": "t"}, "option subscribe does not apply to tables"),
    ],
)
def test_what_makes_no_sense(options: dict[str, str], error: str) -> None:
    from kafkalog.spark.tables import table_schema

    with pytest.raises(ValueError, match=error):
        table_schema({"path": "/data", **options})
