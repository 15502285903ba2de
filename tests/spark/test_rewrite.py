"""``kafkalog.spark.rewrite``: the same log dir as without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from recover_cases import digests

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.mark.parametrize(
    "options", [{"drop_timestamps": (None, 1 << 50), "topics": "orders"}, {"compression_type": "gzip"}], ids=str
)
def test_as_without_spark(spark: SparkSession, tmp_path: Path, options: dict[str, Any]) -> None:
    before = digests(DATA)
    alone = kafkalog.rewrite(DATA, tmp_path / "alone", **options)
    done = kafkalog.spark.rewrite(spark, DATA, tmp_path / "out", **options)
    assert digests(DATA) == before
    assert done.partitions == alone.partitions
    found, expected = digests(tmp_path / "out"), digests(tmp_path / "alone")
    assert found == expected
    assert {path.name for path in tmp_path.iterdir()} == {
        *("alone", "out", "alone.rewrite.json", "out.rewrite.json"),
    }
    with pytest.raises(FileExistsError):
        kafkalog.spark.rewrite(spark, DATA, tmp_path / "out")
