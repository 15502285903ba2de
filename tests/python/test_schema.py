"""The table of columns, the Arrow schema and its Spark twin say the same as the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import corpus
import kafkalog
from kafkalog.schema import RECORD_COLUMNS, batch_schema, record_schema, spark_ddl

if TYPE_CHECKING:
    from kafkalog.typing import Layout, TimestampUnit

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
NAMES = [column.name for column in RECORD_COLUMNS]


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_the_reader_gives_these_types(layout: Layout, unit: TimestampUnit) -> None:
    want = record_schema(NAMES, layout=layout, timestamp_unit=unit)
    got = kafkalog.scan(DATA, columns=NAMES, layout=layout, timestamp_unit=unit).schema
    assert got.names == want.names
    assert dict(zip(got.names, got.types, strict=True)) == dict(zip(want.names, want.types, strict=True))


def test_batches_have_these_types() -> None:
    got = kafkalog.scan_batches(DATA).schema
    assert got.names == batch_schema().names
    assert dict(zip(got.names, got.types, strict=True)) == dict(
        zip(batch_schema().names, batch_schema().types, strict=True)
    )


def test_names_are_those_of_the_interface() -> None:
    assert tuple(NAMES) == corpus.RECORD_COLUMNS
    assert record_schema().names == NAMES[:8]


def test_types_are_those_of_the_interface() -> None:
    """Said a second time here, by hand: the tables of this package cannot change all together unseen."""
    time, text = pa.timestamp("ms", "UTC"), pa.string()
    header: list[tuple[str, pa.DataType]] = [("key", text), ("value", pa.binary())]
    wide, narrow, flag = pa.int64(), pa.int32(), pa.bool_()
    first = [pa.binary(), pa.binary(), text, narrow, wide, time, narrow, pa.list_(pa.struct(header))]
    of_batch = [text, wide, wide, narrow, pa.int8(), text, pa.uint32(), narrow, wide, pa.int16(), narrow]
    records = kafkalog.scan(DATA, columns=NAMES).schema
    assert records.types == [*first, *of_batch, flag, flag, text, wide, narrow, narrow]
    assert kafkalog.scan(DATA).schema.types == first
    batches = kafkalog.scan_batches(DATA).schema
    named = "topic partition segment position baseOffset lastOffset count baseSequence lastSequence producerId"
    named += " producerEpoch partitionLeaderEpoch isTransactional isControl deleteHorizonMs baseTimestamp maxTimestamp"
    assert batches.names == f"{named} timestampType size magic compression crc isValid".split()
    counts = [wide, wide, wide, narrow, narrow, narrow, wide, pa.int16(), narrow, flag, flag, wide, time, time, narrow]
    assert batches.types == [text, narrow, text, *counts, narrow, pa.int8(), text, pa.uint32(), flag]


def test_ddl() -> None:
    assert spark_ddl(["value", "offset"]) == "`value` BINARY, `offset` BIGINT"
    assert spark_ddl().startswith("`key` BINARY, `value` BINARY, `topic` STRING, `partition` INT, `offset` BIGINT")
    with pytest.raises(ValueError, match="did you mean 'value'"):
        spark_ddl("valeu")
