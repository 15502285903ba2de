"""``LogWriter.append``: the same rows in every layout Arrow has for them give the same log, byte for byte."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog import LogConfig
from writing import NOW, both, writer

if TYPE_CHECKING:
    from collections.abc import Callable

    Cells = list[Any]
    Encode = Callable[[Cells, Any], Any]

# Its stubs do not know all of its layouts.
arrow: Any = pa

# Each row stands there as often, so that runs are longer than one.
TIMES = 3
STRUCT = arrow.struct([("key", arrow.string()), ("value", arrow.binary())])
KINDS = {
    "key": arrow.binary(),
    "value": arrow.string(),
    "headers": arrow.list_(STRUCT),
    "timestamp": arrow.timestamp("us", "UTC"),
    "offset": arrow.int64(),
}


def headers(*pairs: tuple[str, bytes | None]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in pairs]


# As many headers in each row that has some, so that lists of a fixed size take them.
CELLS: dict[str, Cells] = {
    "key": [b"k", None, b"", b"longer than a view holds itself"],
    "value": ["", "\u00e4", None, "v" * 40],
    "headers": [headers(("a", b"1"), ("a", None)), None, headers(("", b""), ("\u00e9", b"x" * 20)), None],
    "timestamp": [NOW * 1000 + 999, None, 0, (NOW - 5) * 1000],
}


def plain(cells: Cells, kind: Any) -> Any:
    return arrow.array(cells, kind)


def numbered(keys: list[int | None], values: Any, index: Any) -> Any:
    return arrow.DictionaryArray.from_arrays(arrow.array(keys, index), values)


def dictionary(index: Any) -> Encode:
    """Values in reverse, an unused one among them, and nulls among keys."""

    def encode(cells: Cells, kind: Any) -> Any:
        values = [*reversed(cells), cells[0]]
        keys = [None if cell is None else len(cells) - 1 - n for n, cell in enumerate(cells)]
        return numbered(keys, arrow.array(values, kind), index)

    return encode


def null_values(cells: Cells, kind: Any) -> Any:
    """Nulls among a dictionary's values."""
    return numbered(list(range(len(cells))), arrow.array(cells, kind), arrow.int16())


def squeezed(cells: Cells) -> tuple[Cells, list[int]]:
    kept: Cells = []
    ends: list[int] = []
    for n, cell in enumerate(cells):
        if kept and kept[-1] == cell:
            ends[-1] = n + 1
        else:
            kept.append(cell)
            ends.append(n + 1)
    return kept, ends


def runs(width: Any, of: Encode = plain) -> Encode:
    def encode(cells: Cells, kind: Any) -> Any:
        kept, ends = squeezed(cells)
        return arrow.RunEndEncodedArray.from_arrays(arrow.array(ends, width), of(kept, kind))

    return encode


def sliced(of: Encode) -> Encode:
    def encode(cells: Cells, kind: Any) -> Any:
        return of([cells[-1], *cells, cells[0], cells[0]], kind).slice(1, len(cells))

    return encode


def dictionary_of_runs(cells: Cells, kind: Any) -> Any:
    values = runs(arrow.int32())(cells, kind)
    return numbered(list(range(len(cells))), values, arrow.int32())


ENCODINGS: dict[str, Encode] = {
    "sliced": sliced(plain),
    "dictionary of int8": dictionary(arrow.int8()),
    "dictionary of uint16": dictionary(arrow.uint16()),
    "dictionary of int64": dictionary(arrow.int64()),
    "dictionary, null values": null_values,
    "dictionary, sliced": sliced(dictionary(arrow.int32())),
    "runs of int16": runs(arrow.int16()),
    "runs of int32": runs(arrow.int32()),
    "runs of int64": runs(arrow.int64()),
    "runs, sliced": sliced(runs(arrow.int32())),
    "runs of a dictionary": runs(arrow.int32(), dictionary(arrow.int8())),
    "runs of a dictionary, sliced": sliced(runs(arrow.int16(), null_values)),
    "dictionary of runs": dictionary_of_runs,
    "dictionary of runs, sliced": sliced(dictionary_of_runs),
}


def entries_as(encode: Encode) -> Encode:
    """Lists whose structs are encoded as one column."""

    def lists(cells: Cells, _: Any) -> Any:
        ends = [0]
        for cell in cells:
            ends.append(ends[-1] + len(cell or ()))
        flat = [header for cell in cells for header in cell or ()]
        mask = arrow.array([cell is None for cell in cells])
        return arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), encode(flat, STRUCT), mask=mask)

    return lists


def names_as(encode: Encode) -> Encode:
    """Structs whose fields are encoded."""

    def structs(cells: Cells, _: Any) -> Any:
        fields = [encode([cell[name] for cell in cells], STRUCT.field(name).type) for name in ("key", "value")]
        return arrow.StructArray.from_arrays(fields, ["key", "value"])

    return entries_as(structs)


def backwards(cells: Cells, kind: Any) -> Any:
    """Views into headers that lie the other way round, the same for rows that are the same."""
    begins: list[int] = []
    flat: Cells = []
    for n, cell in enumerate(reversed(cells)):
        same = n > 0 and cells[-n] == cell
        begins.insert(0, begins[0] if same else len(flat))
        flat.extend(() if same else cell or ())
    sizes = [len(cell or ()) for cell in cells]
    mask = arrow.array([cell is None for cell in cells])
    view = arrow.LargeListViewArray if kind == "large" else arrow.ListViewArray
    width = arrow.int64() if kind == "large" else arrow.int32()
    return view.from_arrays(arrow.array(begins, width), arrow.array(sizes, width), arrow.array(flat, STRUCT), mask=mask)


def of_kind(kind: Any, encode: Encode = plain) -> Encode:
    return lambda cells, _: encode(cells, kind)


def as_map(cells: Cells, _: Any) -> Any:
    pairs = [None if cell is None else [(each["key"], each["value"]) for each in cell] for cell in cells]
    return arrow.array(pairs, arrow.map_(arrow.string(), arrow.binary()))


LISTS: dict[str, Encode] = {
    "large_list": of_kind(arrow.large_list(STRUCT)),
    "list_view": of_kind(arrow.list_view(STRUCT)),
    "list_view, sliced": sliced(of_kind(arrow.list_view(STRUCT))),
    "list_view, backwards": backwards,
    "large_list_view": of_kind(arrow.large_list_view(STRUCT)),
    "large_list_view, backwards": lambda cells, _: backwards(cells, "large"),
    "fixed_size_list": of_kind(arrow.list_(STRUCT, 2)),
    "fixed_size_list, sliced": sliced(of_kind(arrow.list_(STRUCT, 2))),
    "runs of list_view": of_kind(arrow.list_view(STRUCT), runs(arrow.int32())),
    "dictionary of fixed_size_list": of_kind(arrow.list_(STRUCT, 2), null_values),
    "map": as_map,
    **{f"list of {name}": entries_as(encode) for name, encode in ENCODINGS.items()},
    **{f"list of structs of {name}": names_as(encode) for name, encode in ENCODINGS.items()},
}

CASES: dict[str, tuple[str, Encode]] = {
    f"{column}: {name}": (column, encode) for column in KINDS for name, encode in ENCODINGS.items()
} | {f"headers: {name}": ("headers", encode) for name, encode in LISTS.items()}


def rows() -> dict[str, Cells]:
    cells = {name: [cell for cell in column for _ in range(TIMES)] for name, column in CELLS.items()}
    return {**cells, "offset": list(range(7, 7 + 2 * len(cells["key"]), 2))}


def table(cells: dict[str, Cells], encode: dict[str, Encode]) -> Any:
    columns = {name: encode.get(name, plain)(column, KINDS[name]) for name, column in cells.items()}
    return arrow.RecordBatch.from_arrays(list(columns.values()), list(columns))


def log_of(data: Any) -> bytes:
    """Append, and give the log's bytes."""
    with TemporaryDirectory() as home:
        with writer(Path(home), batch_bytes=150) as log:
            log.append(data, keep_offsets="offset" in data.schema.names)
        return (Path(home) / "orders-0" / f"{0:020}.log").read_bytes()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(20)
def test_the_same_log(case: str) -> None:
    column, encode = CASES[case]
    cells = rows()
    kept = table(cells, {column: encode})
    assert kept.column(column).type != KINDS[column] or "sliced" in case or column == "headers"
    assert log_of(kept) == log_of(table(cells, {}))
    if column != "offset":
        del cells["offset"]
        assert log_of(table(cells, {column: encode})) == log_of(table(cells, {}))


def test_what_is_compared_holds_the_rows(tmp_path: Path) -> None:
    cells = rows()
    with writer(tmp_path) as log:
        log.append(table(cells, {}), keep_offsets=True)
    read = both(tmp_path / "orders-0")
    assert [row.offset for row in read] == cells["offset"]
    assert [row.key for row in read] == cells["key"]
    assert [row.value for row in read] == [None if text is None else text.encode() for text in cells["value"]]
    pairs = [tuple((each["key"], each["value"]) for each in cell or ()) for cell in cells["headers"]]
    assert [row.headers for row in read] == pairs
    assert [row.timestamp for row in read] == [NOW if t is None else t // 1000 for t in cells["timestamp"]]


ROW = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=20),
        "value": st.none() | st.text(max_size=20),
        "headers": st.none()
        | st.lists(st.builds(lambda k, v: headers((k, v))[0], st.text(max_size=3), st.none() | st.binary(max_size=3))),
        "timestamp": st.none() | st.integers(0, NOW).map(lambda t: t * 1000),
    }
)
ANY = st.sampled_from(sorted(ENCODINGS))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(ROW, st.integers(1, 3)), min_size=1, max_size=12),
    st.fixed_dictionaries(dict.fromkeys(CELLS, ANY)),
)
def test_any_rows_in_any_encoding(given_rows: list[tuple[dict[str, Any], int]], names: dict[str, str]) -> None:
    cells: dict[str, Cells] = {name: [row[name] for row, times in given_rows for _ in range(times)] for name in CELLS}
    encoded = table(cells, {name: ENCODINGS[encoding] for name, encoding in names.items()})
    assert log_of(encoded) == log_of(table(cells, {}))


# What is larger than it looks


def repeated(value: Any, times: int) -> Any:
    return arrow.RunEndEncodedArray.from_arrays(arrow.array([times], arrow.int64()), value)


def test_a_run_is_not_written_out(tmp_path: Path) -> None:
    """A million million rows in a few bytes: the first that is refused ends it, and nothing was made of the others."""
    times = 1 << 40
    columns = {
        "value": repeated(arrow.array([b"v" * 1000]), times),
        "headers": repeated(arrow.array([headers(("a", b"1"))], arrow.list_(STRUCT)), times),
        "timestamp": repeated(arrow.array([NOW + 10**9]), times),
    }
    data = arrow.RecordBatch.from_arrays(list(columns.values()), list(columns))
    with writer(tmp_path) as log, pytest.raises(kafkalog.InvalidRecordError, match="in record 0"):
        log.append(data)


def test_headers_that_repeat_a_large_name_are_refused(tmp_path: Path) -> None:
    """10 GB in one record."""
    entries = numbered([0] * 10_000, arrow.array(headers(("k" * 1_000_000, None)), STRUCT), arrow.int8())
    data = arrow.RecordBatch.from_arrays(
        [arrow.array([b"v"]), arrow.ListArray.from_arrays(arrow.array([0, 10_000], arrow.int32()), entries)],
        ["value", "headers"],
    )
    config = LogConfig(max_message_bytes=3_000_000)
    with writer(tmp_path, config=config) as log, pytest.raises(kafkalog.InvalidRecordError, match="at most 3000000"):
        log.append(data)


# What does not serve


@pytest.mark.parametrize("name", ["dictionary of int8", "dictionary, null values", "runs of int16"])
def test_a_kept_offset_is_not_null(tmp_path: Path, name: str) -> None:
    offsets = ENCODINGS[name]([3, 4, None], arrow.int64())
    data = arrow.RecordBatch.from_arrays([arrow.array([b"a", b"b", b"c"]), offsets], ["value", "offset"])
    with writer(tmp_path) as log, pytest.raises(ValueError, match="expected no nulls, found one in record 2"):
        log.append(data, keep_offsets=True)
    assert [row.offset for row in both(tmp_path / "orders-0")] == [3, 4]


def test_views_that_point_outside(tmp_path: Path) -> None:
    flat = arrow.array(headers(("a", None)), STRUCT)
    for begin, size in ((1, 1), (0, 2), (-1, 1), (2**31 - 1, 2**31 - 1)):
        view = arrow.ListViewArray.from_arrays(
            arrow.array([begin], arrow.int32()), arrow.array([size], arrow.int32()), flat
        )
        data = arrow.RecordBatch.from_arrays([arrow.array([b"v"]), view], ["value", "headers"])
        with writer(tmp_path) as log, pytest.raises(ValueError, match="found one that is not in row 0"):
            log.append(data)


@pytest.mark.parametrize("name", ["dictionary of int8", "runs of int32"])
def test_a_wrong_type_inside_an_encoding(tmp_path: Path, name: str) -> None:
    for column, kind in (("key", arrow.int32()), ("timestamp", arrow.int32()), ("headers", arrow.list_(arrow.int32()))):
        cells: Cells = [[1]] if column == "headers" else [1]
        data = arrow.RecordBatch.from_arrays([arrow.array([b"v"]), ENCODINGS[name](cells, kind)], ["value", column])
        with writer(tmp_path) as log, pytest.raises(ValueError, match=f"column '{column}': expected"):
            log.append(data)
