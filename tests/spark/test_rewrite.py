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

pytestmark = pytest.mark.full

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


def contents(log_dir: Path) -> dict[str, object]:
    """Give the digests of all files, and the lines of checkpoints, whose order does not count."""
    found: dict[str, object] = dict(digests(log_dir))
    for path in log_dir.glob("*-offset-checkpoint"):
        found[path.name] = set(path.read_text(encoding="utf-8").splitlines()[2:])
    return {name: held for name, held in found.items() if held != set()}


@pytest.mark.parametrize(
    "options", [{"drop_timestamps": (None, 1 << 50), "topics": "orders"}, {"compression_type": "gzip"}], ids=str
)
def test_as_without_spark(spark: SparkSession, tmp_path: Path, options: dict[str, Any]) -> None:
    before = digests(DATA)
    alone = kafkalog.rewrite(DATA, tmp_path / "alone", **options)
    done = kafkalog.spark.rewrite(spark, DATA, tmp_path / "out", **options)
    assert digests(DATA) == before
    assert done.partitions == alone.partitions
    found, expected = contents(tmp_path / "out"), contents(tmp_path / "alone")
    assert found == expected
    assert {path.name for path in tmp_path.iterdir()} == {
        *("alone", "out", "alone.rewrite.json", "out.rewrite.json"),
    }
    with pytest.raises(FileExistsError):
        kafkalog.spark.rewrite(spark, DATA, tmp_path / "out")
