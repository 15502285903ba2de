"""``LogWriter.append``: whatever Arrow or Python gives, in any layout, comes out as it went in."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import polars as pl
import pyarrow as pa
import pytest

import corpus
import kafkalog
from kafkalog import Record
from naive import Row
from writing import NOW, both, writer

if TYPE_CHECKING:
    from pathlib import Path

VALUES = [b"a", b"", None, b"\xc3\xa9t\xc3\xa9", b"long " * 50]
TEXTS = [None if value is None else value.decode() for value in VALUES]
KEYS = [b"k0", None, b"", b"k3", b"k4"]
TIMES = [NOW, NOW - 1, NOW + 5, 0, NOW]
HEADERS = [None, [("h", b"1")], [("a", None), ("a", b"")], [], [("\u00e9", b"\xff")]]
EXPECTED = [
    Row(n, time, key, value, tuple(headers or ()))
    for n, (time, key, value, headers) in enumerate(zip(TIMES, KEYS, VALUES, HEADERS, strict=True))
]
HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def header_cells() -> list[Any]:
    return [None if h is None else [{"key": key, "value": value} for key, value in h] for h in HEADERS]


def table() -> pa.Table:
    return pa.table(
        {
            "key": pa.array(KEYS, pa.binary()),
            "value": pa.array(VALUES, pa.binary()),
            "timestamp": pa.array(TIMES, pa.timestamp("ms", "UTC")),
            "headers": pa.array(header_cells(), HEADER_TYPE),
        }
    )


class OnlyAnArray:
    """Object that has only ``__arrow_c_array__``."""

    def __init__(self, data: pa.Table) -> None:
        self.batch = data.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)  # type: ignore[no-untyped-call]


def sliced() -> pa.Table:
    padded = pa.concat_tables([table().slice(3), table(), table().slice(0, 2)]).combine_chunks()
    return padded.slice(2, 5)


def as_read(rows: pa.Table) -> list[Record]:
    """Records from what ``to_pylist`` gives: headers are None or dicts there."""
    return [Record(row["value"], row["key"], row["timestamp"], row["headers"]) for row in rows.to_pylist()]


SOURCES: dict[str, Any] = {
    "table": table,
    "record batch": lambda: table().to_batches()[0],
    "reader": lambda: table().to_reader(max_chunksize=2),
    "array only": lambda: OnlyAnArray(table()),
    "sliced": sliced,
    "chunked": lambda: pa.concat_tables([table().slice(0, 1), table().slice(1, 0), table().slice(1)]),
    "struct array": lambda: pa.chunked_array([table().to_struct_array().combine_chunks()]),
    "records": lambda: [
        Record(value, key, time, headers or (), None)
        for key, value, time, headers in zip(KEYS, VALUES, TIMES, HEADERS, strict=True)
    ],
    "generator": lambda: (
        Record(value, key, datetime.fromtimestamp(time / 1000, timezone.utc), headers or ())
        for key, value, time, headers in zip(KEYS, VALUES, TIMES, HEADERS, strict=True)
    ),
    "list of batches": lambda: table().to_batches(max_chunksize=2),
    "generator of tables": lambda: (table().slice(n, 1) for n in range(5)),
    "records and batches": lambda: [*as_read(table().slice(0, 2)), table().slice(2, 2), *as_read(table().slice(4))],
    "polars": lambda: pl.DataFrame(table()),
    "duckdb": lambda: duckdb.from_arrow(table()),
}


@pytest.mark.parametrize("source", SOURCES)
def test_sources(tmp_path: Path, source: str) -> None:
    with writer(tmp_path) as log:
        info = log.append(SOURCES[source]())
    assert (info.first_offset, info.last_offset, info.records) == (0, 4, 5)
    assert info.bytes == (tmp_path / "orders-0" / f"{0:020}.log").stat().st_size
    assert info.max_timestamp == max(TIMES)
    assert both(tmp_path / "orders-0") == EXPECTED


def test_polars_columns_that_hold_nothing(tmp_path: Path) -> None:
    """Polars counts a buffer for a column of the type null, where Arrow has none."""
    frame = pl.DataFrame({"key": [None, None], "value": [b"1", b"2"], "other": [None, None]})
    assert frame.schema["key"] == pl.Null
    with writer(tmp_path) as log:
        assert log.append(frame.drop("other")).records == 2
        assert log.append([frame], extra="ignore").last_offset == 3
        with pytest.raises(ValueError, match="found also other"):
            log.append(frame)
    assert [(row.key, row.value) for row in both(tmp_path / "orders-0")] == [(None, b"1"), (None, b"2")] * 2


def test_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": KEYS, "value": VALUES})
    with writer(tmp_path) as log:
        log.append(pa.table(frame))
        if hasattr(frame, "__arrow_c_stream__"):
            log.append(frame)
    rows = both(tmp_path / "orders-0")
    assert [(row.key, row.value, row.timestamp) for row in rows[:5]] == [
        (key, value, NOW) for key, value in zip(KEYS, VALUES, strict=True)
    ]
    assert len(rows) in {5, 10}


LAYOUTS: dict[str, Any] = {
    "binary": (pa.binary(), VALUES),
    "large_binary": (pa.large_binary(), VALUES),
    "binary_view": (pa.binary_view(), VALUES),
    "string": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "string_view": (pa.string_view(), TEXTS),
    "fixed": (pa.binary(3), [b"abc", b"\0\0\0", None, b"def", b"ghi"]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("column", ["key", "value"])
@pytest.mark.parametrize("shape", ["plain", "dictionary"])
def test_layouts(tmp_path: Path, layout: str, column: str, shape: str) -> None:
    kind, cells = LAYOUTS[layout]
    array = pa.array(cells, kind)
    if shape == "dictionary":
        values = pa.array([cell for cell in cells if cell is not None], kind)
        index = iter(range(len(values)))
        array = pa.DictionaryArray.from_arrays(
            pa.array([None if cell is None else next(index) for cell in cells], pa.int16()), values
        )
    with writer(tmp_path) as log:
        log.append(pa.table({column: array}))
    expected = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
    assert [getattr(row, column) for row in both(tmp_path / "orders-0")] == expected


UNITS: dict[str, Any] = {
    "s": (pa.timestamp("s"), 1_700_000_000, 1_700_000_000_000),
    "ms": (pa.timestamp("ms", "UTC"), 1_700_000_000_123, 1_700_000_000_123),
    "us": (pa.timestamp("us", "Europe/Berlin"), 1_700_000_000_123_999, 1_700_000_000_123),
    "ns": (pa.timestamp("ns"), 1_700_000_000_123_999_999, 1_700_000_000_123),
    "int64": (pa.int64(), 1_700_000_000_123, 1_700_000_000_123),
}


@pytest.mark.parametrize("unit", UNITS)
def test_time_units(tmp_path: Path, unit: str) -> None:
    kind, given, stored = UNITS[unit]
    cells = pa.array([given, None], pa.int64()).cast(kind) if unit != "int64" else pa.array([given, None], kind)
    with writer(tmp_path) as log:
        log.append(pa.table({"value": [b"x", b"y"], "timestamp": cells}))
    assert [row.timestamp for row in both(tmp_path / "orders-0")] == [stored, NOW]


def test_parts_of_a_millisecond_are_cut_off_records_too(tmp_path: Path) -> None:
    moment = datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=timezone.utc)
    with writer(tmp_path) as log:
        log.append([Record(b"x", timestamp=moment)])
        log.append(pa.table({"value": [b"y"], "timestamp": [moment]}))
    assert [row.timestamp for row in both(tmp_path / "orders-0")] == [NOW, NOW]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
        pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())])),
    ],
    ids=str,
)
def test_header_layouts(tmp_path: Path, kind: pa.DataType) -> None:
    with writer(tmp_path) as log:
        log.append(pa.table({"value": VALUES, "headers": pa.array(header_cells(), kind)}))
    assert [row.headers for row in both(tmp_path / "orders-0")] == [tuple(h or ()) for h in HEADERS]


def test_a_read_table_is_written_again(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    read = kafkalog.read_table(source)
    with writer(tmp_path, clock=None) as log:
        with pytest.raises(ValueError, match="topic"):
            log.append(read)
        assert log.log_end_offset == 0
        assert log.append(read, extra="ignore").records == read.num_rows
    again = kafkalog.read_table(tmp_path)
    same = ["key", "value", "timestamp", "headers", "topic", "partition"]
    assert again.select(same).equals(read.select(same))
    assert again["offset"].to_pylist() == list(range(read.num_rows))


def test_a_reader_is_written_without_a_table_between(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    with (
        writer(tmp_path, clock=None) as log,
        kafkalog.scan(source, columns=["key", "value", "timestamp", "headers"]) as reader,
    ):
        assert log.append(reader).records == 880


def test_a_damaged_source_says_what_it_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    with writer(source) as log:
        log.append([Record(b"x" * 100) for _ in range(100)])
    file = source / "orders-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[200] ^= 1
    file.write_bytes(data)
    with writer(tmp_path / "target") as log:
        with pytest.raises(kafkalog.CorruptRecordError) as caught:
            log.append(kafkalog.scan(source, columns=["value"]))
        assert caught.value.path == str(file)
        assert log.log_end_offset == 0
        log.append([Record(b"on")])
