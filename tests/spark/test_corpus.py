"""Every partition of the corpora, both ways through Spark, compared with what Kafka's own classes read.

A job and a task cost more than a small partition, so partitions are read together as long as no two have one name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog.spark
from spark.ways import needs_data_sources, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = corpus.RECORD_COLUMNS
OPTIONS: dict[str, Any] = {"startingOffsets": "oldest", "includeControl": "true", "splitBytes": "256k"}


def groups() -> list[list[corpus.Partition]]:
    """Distribute the partitions over as few reads as possible: no read has two folders of the same name."""
    found: list[dict[tuple[str, int], corpus.Partition]] = []
    for partition in corpus.partitions():
        name = (partition.topic, partition.partition)
        group = next((group for group in found if name not in group), None)
        if group is None:
            found.append(group := {})
        group[name] = partition
    return [list(group.values()) for group in found]


def by_map_in_arrow(spark: SparkSession, paths: list[str]) -> DataFrame:
    return kafkalog.spark.read(spark, paths, columns=COLUMNS, **OPTIONS)


def by_data_source(spark: SparkSession, paths: list[str]) -> DataFrame:
    reader = spark.read.format("kafkalog").options(**OPTIONS)
    return reader.schema(kafkalog.spark.schema(COLUMNS)).load(paths)


@pytest.mark.parametrize("way", [by_map_in_arrow, pytest.param(by_data_source, marks=needs_data_sources)])
@pytest.mark.parametrize("number", range(len(groups())))
def test_every_record_of_every_partition(spark: SparkSession, way: Any, number: int) -> None:
    group = groups()[number]
    table = table_of(way(spark, [str(each.folder) for each in group]))
    assert table.column_names == list(COLUMNS)
    columns: dict[str, list[Any]] = {name: table.column(name).to_pylist() for name in COLUMNS if name != "timestamp"}
    micros = table.column("timestamp").cast("int64").to_pylist()
    assert all(each % 1000 == 0 for each in micros)
    columns["timestamp"] = [each // 1000 for each in micros]

    places: dict[tuple[str, int], list[int]] = {}
    for row, place in enumerate(zip(columns["topic"], columns["partition"], strict=True)):
        places.setdefault(place, []).append(row)
    assert set(places) <= {(each.topic, each.partition) for each in group}
    wrong = []
    for each in group:
        expected = corpus.expected_records(each)
        rows = places.get((each.topic, each.partition), [])
        for name in COLUMNS:
            found = [columns[name][row] for row in rows]
            if found != expected[name]:
                at = next(
                    (n for n, pair in enumerate(zip(found, expected[name], strict=False)) if pair[0] != pair[1]), -1
                )
                wrong.append(f"{each.id}: {name}: {len(found)} rows of {len(expected[name])}, first difference at {at}")
    assert not wrong, json.dumps(wrong[:20], indent=1)
