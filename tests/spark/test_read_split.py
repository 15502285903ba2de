"""The rows of a task of the data source, without a session."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog.schema import DECODED_COLUMNS
from kafkalog.spark.columns import SPARK_TYPES
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.read_split import read_split
from kafkalog.spark.source_options import parse
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.mark.parametrize("fail", [True, False])
def test_a_segment_that_went_after_planning_is_data_loss(tmp_path: Path, fail: bool, caplog: Any) -> None:  # noqa: FBT001
    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    (split,) = plan_splits(parse({"path": tmp_path, "columns": "offset", "failOnDataLoss": fail}))
    (tmp_path / "orders-0" / "00000000000000000000.log").unlink()
    says = f"1 of 6 planned segments were deleted before they were read, in {tmp_path / 'orders-0'}"
    if fail:
        with pytest.raises(kafkalog.OffsetOutOfRangeError, match=f"^{says}; set failOnDataLoss=false"):
            list(read_split(split))
        return
    with caplog.at_level(logging.WARNING):
        found = [offset for batch in read_split(split) for offset in batch.column("offset").to_pylist()]
    assert found == [*range(145, 880)]
    assert f"kafkalog: data loss: {says}" in caplog.text


def test_damage_keeps_its_place() -> None:
    """An Arrow stream carries the text only."""
    folder = corpus.GOLDEN / "corrupt" / "flipped-bit" / "t-0"
    (split,) = plan_splits(parse({"path": folder}))
    with pytest.raises(kafkalog.CorruptRecordError) as raised:
        list(read_split(split))
    assert raised.value.path == str(folder / "00000000000000000000.log")
    assert raised.value.position is not None


@needs_data_sources
@pytest.mark.parametrize("name", sorted(SPARK_TYPES))
def test_columns_that_are_declared_not_null(name: str) -> None:
    """The Arrow schema has the user's names and nullability; a column that may be null must be nullable."""
    from pyspark.sql import types

    from kafkalog.spark.data_source import BatchReader, row_schema

    field = types.StructField
    header = types.StructType([field("key", types.StringType()), field("value", types.BinaryType())])
    kinds: dict[str, Any] = {
        kind.simpleString(): kind
        for kind in (
            *(types.BinaryType(), types.StringType(), types.TimestampType(), types.BooleanType(), types.ByteType()),
            *(types.ShortType(), types.IntegerType(), types.LongType(), types.ArrayType(header)),
        )
    }
    kind = kinds[SPARK_TYPES[name].replace(" ", "").lower()]
    schema = types.StructType([field(name.upper(), kind, nullable=False), field("Topic", types.StringType())])
    if name == "topic":
        schema = types.StructType(schema.fields[:1])
    decoded = {column.name for column in DECODED_COLUMNS}
    if name in {"key", "value", "headers", "controlType", "deleteHorizonMs", *decoded}:
        with pytest.raises(ValueError, match=f"column {name.upper()} may hold nulls; do not declare it not null"):
            row_schema(schema)
        return
    made = row_schema(schema)
    reader = BatchReader(parse({"path": DATA, "subscribe": "orders", "columns": made.columns}), made)
    batches = [batch for split in reader.partitions() for batch in reader.read(split)]
    assert sum(batch.num_rows for batch in batches) == 880
    for batch in batches:
        assert batch.schema.names == schema.names
        assert [field.nullable for field in batch.schema] == [False, True][: len(schema.names)]


@needs_data_sources
def test_an_empty_read_has_one_empty_split() -> None:
    """Spark requires one."""
    from pyspark.sql.types import LongType, StructField, StructType

    from kafkalog.spark.data_source import BatchReader, row_schema

    made = row_schema(StructType([StructField("offset", LongType())]))
    reader = BatchReader(parse({"path": DATA, "endingOffsets": "latest", "where": [("offset", "<", 0)]}), made)
    (split,) = reader.partitions()
    assert list(reader.read(split)) == []
