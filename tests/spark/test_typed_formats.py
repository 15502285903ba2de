"""Protobuf and JSON values through Spark are what the witnesses read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog.spark
import typed_cases
from spark.ways import needs_data_sources, table_of
from typed_cases import GOLDEN, is_message, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.full


def _topics(case: str) -> list[str]:
    found = {each.topic for each in typed_cases.cases() if each.folder == GOLDEN / case}
    return sorted(found - {"editions", "descriptor"})


def by_map_in_arrow(spark: SparkSession, path: str, topic: str, options: dict[str, str]) -> Any:
    return kafkalog.spark.read(spark, path, topics=topic, **options)


def by_data_source(spark: SparkSession, path: str, topic: str, options: dict[str, str]) -> Any:
    return spark.read.format("kafkalog").options(topics=topic, **options).load(path)


@pytest.mark.parametrize("way", [by_map_in_arrow, pytest.param(by_data_source, marks=needs_data_sources)])
@pytest.mark.parametrize("case", ["protobuf-basic", "json-schema"])
def test_values_are_those_of_the_witnesses(spark: SparkSession, way: Any, case: str) -> None:
    compared = 0
    for each in typed_cases.cases():
        if each.folder != GOLDEN / case or each.topic not in _topics(case) or each.side != "value":
            continue
        options = {"decode": "value", "onUndecoded": "null"}
        frame = way(spark, str(each.folder / "data-0"), each.topic, options)
        table = table_of(frame.select("offset", "value", "valueError").orderBy("offset"))
        kind = table.schema.field("value").type
        errors = table["valueError"].to_pylist()
        for row, value, error in zip(each.rows, plain(table["value"].combine_chunks()), errors, strict=True):
            if error is not None or row["framing"] == "null":
                assert value is None
                continue
            want = row.get("read", row["writer"])
            if isinstance(value, str):
                assert json.loads(value) == want or row["text"] == value
            else:
                assert is_message(kind, value, want), (each, row, value)
            compared += 1
    assert compared > 200
