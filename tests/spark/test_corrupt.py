"""Damage reaches the driver as the exception of the core, with file and byte position."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import corpus
from spark.ways import both_ways

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORRUPT = corpus.GOLDEN / "corrupt"
BATCH = 93  # bytes of every batch in those files
CASES = {case["name"]: case for case in json.loads((CORRUPT / "cases.json").read_text())}


@both_ways
@pytest.mark.parametrize("name", ["flipped-bit", "flipped-bit-active", "torn-closed", "unknown-codec", "unknown-magic"])
def test_the_error_names_file_and_position(spark: SparkSession, way: Any, name: str) -> None:
    case = CASES[name]
    kind = {"corrupt": "CorruptRecordError", "unsupported": "UnsupportedFormatError"}[case["stop"]]
    with pytest.raises(Exception, match=kind) as caught:
        way(spark, CORRUPT / name / "t-0").collect()
    assert case["file"] in str(caught.value)
    found = re.search(rf"{re.escape(case['file'])}: byte (\d+)", str(caught.value))
    assert found is not None, str(caught.value)
    assert case["position"] <= int(found[1]) < case["position"] + BATCH


@both_ways
@pytest.mark.parametrize("name", ["torn-tail", "zero-tail"])
def test_a_torn_or_zero_tail_is_the_end(spark: SparkSession, way: Any, name: str) -> None:
    assert way(spark, CORRUPT / name / "t-0").count() == CASES[name]["records"]


@both_ways
def test_checksums_can_be_left_unchecked(spark: SparkSession, way: Any) -> None:
    assert way(spark, CORRUPT / "flipped-crc" / "t-0", checkCrcs="false").count() == 10
