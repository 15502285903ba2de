"""From SQL alone: a view of a log dir is read and inserted into."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import corpus
import kafkalog
from kafkalog import partition_for_key
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
pytestmark = needs_data_sources


@pytest.fixture
def views(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    given = f"using kafkalog options (path '{tmp_path}/data', topic 'copied', partitions '3')"
    spark.sql(f"create temporary view target (key binary, value binary) {given}")
    spark.sql(f"create temporary view source using kafkalog options (path '{DATA}', subscribe 'orders')")
    yield
    for name in ("source", "target"):
        spark.catalog.dropTempView(name)


@pytest.mark.usefixtures("views")
def test_insert_into(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("insert into target select key, value from source")
    found = kafkalog.read_table(tmp_path / "data", columns=["partition", "key", "value"]).to_pylist()
    source = kafkalog.read_table(DATA / "orders-0", columns=["key", "value"]).to_pylist()
    assert Counter((row["key"], row["value"]) for row in found) == Counter((row["key"], row["value"]) for row in source)
    assert len(found) == 880
    for row in found:
        assert row["key"] is None or row["partition"] == partition_for_key(row["key"], 3)
    assert {folder.name for folder in (tmp_path / "data").iterdir() if folder.is_dir()} == {
        f"copied-{n}" for n in range(3)
    }
