"""A worker whose address space is limited, maps included: ``spark.executor.pyspark.memory``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

import corpus
from spark.ways import both_ways

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.full

# What Spark sets for a job if spark.executor.pyspark.memory was set before the session started, in MiB.
ALLOWANCE = "resource.pyspark.memory"
ALLOWED = 512


@pytest.fixture
def allowance(spark: SparkSession) -> Iterator[int]:
    """Limit the workers of later jobs."""
    spark.sparkContext.setLocalProperty(ALLOWANCE, str(ALLOWED))
    yield ALLOWED << 20
    spark.sparkContext.setLocalProperty(ALLOWANCE, None)  # type: ignore[arg-type]


@both_ways
@pytest.mark.skipif(sys.platform != "linux", reason="PySpark limits address space, as Linux counts it")
def test_a_segment_larger_than_the_limit_is_read(spark: SparkSession, tmp_path: Path, allowance: int, way: Any) -> None:
    records = corpus.write_long(tmp_path / "orders-0", allowance, 1)
    log = str(tmp_path / "orders-0" / f"{0:020}.log")

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import mmap
        import os
        import resource

        import pyarrow as pa

        for _ in batches:
            file = os.open(log, os.O_RDONLY)
            try:
                mmap.mmap(file, 0, prot=mmap.PROT_READ)
                said = ""
            except OSError as error:
                said = str(error.strerror)
            limit = resource.getrlimit(resource.RLIMIT_AS)[0]
            yield pa.RecordBatch.from_pydict({"limit": [limit], "said": [said]})

    told = spark.range(0, 1, 1, 1).mapInArrow(mapped, "limit bigint, said string").collect()
    assert told == [(allowance, "Cannot allocate memory")]
    # one task reads the whole segment
    frame = way(spark, tmp_path, splitBytes="1g", columns="key,value,offset")
    assert frame.rdd.getNumPartitions() == 1
    found = frame.selectExpr("count(value)", "min(offset)", "max(offset)", "sum(offset)").collect()
    assert found == [(records, 0, records - 1, records * (records - 1) // 2)]
