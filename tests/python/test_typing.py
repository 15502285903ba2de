"""Types as checkers see them: mypy checks this file, and pytest runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typing_extensions import assert_type

import corpus
import kafkalog
from kafkalog.typing import ArrowSchemaExportable, ArrowStreamExportable

if TYPE_CHECKING:
    from kafkalog.typing import EndingOffsets, Layout, Partitions, Paths, StartingOffsets, Timestamps

pytestmark = pytest.mark.release

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


def test_reader_types() -> None:
    reader = assert_type(kafkalog.scan(DATA), kafkalog.RecordReader)
    stream: ArrowStreamExportable = reader
    schema: ArrowSchemaExportable = reader
    assert isinstance(stream, ArrowStreamExportable)
    assert isinstance(schema, ArrowSchemaExportable)
    assert not isinstance(5, ArrowStreamExportable)
    batches: Iterator[pa.RecordBatch] = reader
    assert isinstance(batches, Iterator)
    assert_type(reader.schema, pa.Schema)
    assert_type(reader.metrics, dict[str, Any])
    assert_type(reader.read_all(), pa.Table)
    assert_type(kafkalog.read_table(DATA, topics="orders"), pa.Table)
    with kafkalog.scan_batches(DATA) as rows:
        assert_type(rows, kafkalog.RecordReader)


def test_log_types() -> None:
    log = assert_type(kafkalog.LogDir(DATA)["orders", 0], kafkalog.PartitionLog)
    assert_type(log.segments, list[kafkalog.SegmentInfo])
    assert_type(log.lookup(0), kafkalog.Lookup | None)
    assert_type(log.offset_for_timestamp(0), kafkalog.OffsetAndTimestamp | None)
    assert_type(log.statistics(), dict[str, Any])
    assert_type(log.high_watermark, int | None)
    error: LookupError = kafkalog.OffsetOutOfRangeError("text")
    assert isinstance(error, kafkalog.KafkaLogError)


def test_every_documented_argument_is_accepted() -> None:
    paths: tuple[Paths, ...] = (str(DATA), DATA, [DATA], (Path(str(DATA)),))
    partitions: tuple[Partitions, ...] = (0, [0], {"orders": [0]})
    starts: tuple[StartingOffsets, ...] = ("earliest", "oldest", 5, {"orders": {0: -2}})
    ends: tuple[EndingOffsets, ...] = ("latest", "high_watermark", 5, {"orders": {0: -1}})
    times: tuple[Timestamps, ...] = (0, {"orders": {0: 0}})
    layouts: tuple[Layout, ...] = ("binary", "view")
    for path in paths:
        kafkalog.scan(path, topics=["orders"])
    for some in partitions:
        kafkalog.scan(DATA, topics="orders", partitions=some)
    for start in starts:
        kafkalog.scan(DATA, topics="orders", starting_offsets=start)
    for end in ends:
        kafkalog.scan(DATA, topics="orders", ending_offsets=end)
    for time in times:
        kafkalog.scan(DATA, topics="orders", starting_timestamp=time)
    for layout in layouts:
        kafkalog.scan(DATA, layout=layout)
