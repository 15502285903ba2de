"""The input files of ``import``: Parquet, Arrow and JSON lines as batches of rows, with the progress in each."""

from __future__ import annotations

import codecs
import json
from typing import TYPE_CHECKING, Any, BinaryIO

from kafkalog._encoding import BESIDE, from_base64
from kafkalog._times import parse_time, to_millis
from kafkalog.errors import InvalidRecordError
from kafkalog.schema import RECORD_COLUMNS
from kafkalog.writer import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

FORMATS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_GZIP = ".gz"
WRITTEN = ("key", "value", "headers", "timestamp")
_ROWS = 16_384
_LINES = 4096
_TOO_LARGE = 1 << 64
# Columns of an export that describe records and are not written.
_DESCRIPTIVE = {column.name for column in RECORD_COLUMNS} - {*WRITTEN, "offset"}
_OF_KCAT = {"payload": "value", f"payload{BESIDE}": f"value{BESIDE}", "ts": "timestamp"}
_BASE64 = (f"key{BESIDE}", f"value{BESIDE}")


def format_of(path: Path) -> tuple[str | None, str]:
    """Return the format from a file's name, and the name without its endings."""
    name = path.name.removesuffix(_GZIP)
    stem, dot, ending = name.rpartition(".")
    form = FORMATS.get(f".{ending.lower()}") if dot else None
    # Only lines of JSON are compressed as a whole.
    return (None if name != path.name and form != "jsonl" else form), stem or name


def wanted(names: list[str], *, keep_offsets: bool) -> list[str]:
    """Return the columns to import: all but those that only describe a record."""
    left_out = _DESCRIPTIVE if keep_offsets else _DESCRIPTIVE | {"offset"}
    return [name for name in names if name not in left_out]


def batches(path: Path, form: str, *, text: bool, keep_offsets: bool) -> Iterator[tuple[Any, int]]:
    """Yield the rows of a file, some thousand at a time, and the number of bytes read so far."""
    if form == "jsonl":
        yield from _json_lines(path, text=text, keep_offsets=keep_offsets)
        return
    import pyarrow as pa

    rows = (_parquet if form == "parquet" else _arrow)(path, keep_offsets=keep_offsets)
    while True:
        try:
            batch = next(rows, None)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise OSError(error.errno, error.strerror, str(path)) from error
            # pyarrow's errors do not name the file.
            raise InvalidRecordError(f"{path}: {error}", str(path)) from error
        if batch is None:
            return
        yield batch


def _parquet(path: Path, *, keep_offsets: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
    import pyarrow.parquet as pq

    # Python opens the files here and below: pyarrow does not accept paths that are not UTF-8.
    with path.open("rb") as source:
        file = pq.ParquetFile(source)
        size, total, done = path.stat().st_size, max(file.metadata.num_rows, 1), 0
        columns = wanted(file.schema_arrow.names, keep_offsets=keep_offsets)
        if file.metadata.num_rows == 0:
            yield _no_rows(file.schema_arrow, columns), size
        for batch in file.iter_batches(_ROWS, columns=columns):
            done += batch.num_rows
            yield batch, size * done // total


def _arrow(path: Path, *, keep_offsets: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
    import pyarrow as pa

    with pa.PythonFile(path.open("rb"), "r") as source:
        try:
            file = pa.ipc.open_file(source)
        except pa.ArrowInvalid:
            file = None
        if file is not None:
            columns = wanted(file.schema.names, keep_offsets=keep_offsets)
            size = source.size()
            if file.num_record_batches == 0:
                yield _no_rows(file.schema, columns), size
            for n in range(file.num_record_batches):
                yield file.get_batch(n).select(columns), size * (n + 1) // file.num_record_batches
            return
        source.seek(0)
        try:
            stream = pa.ipc.open_stream(source)
        except pa.ArrowInvalid as error:
            raise InvalidRecordError(f"{path}: neither an Arrow file nor a stream: {error}", str(path)) from error
        columns = wanted(stream.schema.names, keep_offsets=keep_offsets)
        batch = next(stream, None)
        if batch is None:
            yield _no_rows(stream.schema, columns), source.tell()
        while batch is not None:
            yield batch.select(columns), source.tell()
            batch = next(stream, None)


def _no_rows(schema: pa.Schema, columns: list[str]) -> pa.RecordBatch:
    """Return an empty batch, so that the columns are checked even if the file has no rows."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema).select(columns)


def _json_lines(path: Path, *, text: bool, keep_offsets: bool) -> Iterator[tuple[list[Record], int]]:
    """Yield the objects of the lines as records."""
    known = {*WRITTEN, *_BASE64, "offset", *_DESCRIPTIVE}
    # ``json.loads`` would create a decoder for each line.
    decoder = json.JSONDecoder(parse_float=_whole)
    found: list[Record] = []
    done = 0
    with path.open("rb") as file:
        lines = _unpacked(path, file)
        for number, line in enumerate(lines, 1):
            done = done + len(line) if lines is file else file.tell()
            # Windows often puts a byte order mark before UTF-8.
            plain = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if not plain.strip():
                continue
            try:
                fields = decoder.decode(_decoded(plain))
                found.append(_record(fields, known, text=text, keep_offsets=keep_offsets))
            except (ValueError, TypeError, RecursionError) as error:
                raise InvalidRecordError(f"{path}: line {number}: {error}", str(path)) from error
            if len(found) == _LINES:
                yield found, done
                found = []
    if found:
        yield found, done


def _unpacked(path: Path, file: BinaryIO) -> Iterable[bytes]:
    """Return the lines of a file, decompressed if its name says that it is compressed."""
    if path.suffix != _GZIP:
        return file
    import gzip
    import zlib

    def lines() -> Iterator[bytes]:
        try:
            with gzip.open(file) as unpacked:
                yield from unpacked
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InvalidRecordError(f"{path}: byte {file.tell()}: {error}", str(path), file.tell()) from error

    return lines()


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"expected UTF-8, found byte 0x{line[error.start]:02x} at byte {error.start}") from None


def _whole(number: str) -> Any:
    """Return a number exactly as it is written: a float would round large ones."""
    from decimal import Decimal

    exact = Decimal(number)
    return int(exact) if exact.is_finite() and abs(exact) < _TOO_LARGE and exact == int(exact) else exact


def _record(fields: Any, known: set[str], *, text: bool, keep_offsets: bool) -> Record:
    if not isinstance(fields, dict):
        raise TypeError(f"expected an object, found {fields!r}")
    if "payload" in fields:
        fields, text = _of_kcat(fields), True
    if unknown := fields.keys() - known:
        raise ValueError(f"unknown field {min(unknown)!r}; valid are {', '.join(WRITTEN)}")
    if not fields.keys() & {"key", "value", *_BASE64}:
        raise ValueError("the object has neither key nor value")
    offset = fields.get("offset") if keep_offsets else None

    headers = fields.get("headers") or []
    if not isinstance(headers, (dict, list)):
        raise TypeError(f"expected headers as an object or a list, found {headers!r}")
    if isinstance(headers, dict):
        headers = [{"key": key, "value": value} for key, value in headers.items()]
    return Record(
        _data(fields, "value", "value", text=text),
        _data(fields, "key", "key", text=text),
        _timestamp(fields.get("timestamp")),
        [
            (header["key"], _data(header, "value", f"header {header['key']!r}", text=text))
            for header in map(_header, headers)
        ],
        offset,
    )


def _data(found: dict[str, Any], field: str, name: str, *, text: bool) -> bytes | None:
    """Return the bytes of a field, or of the one beside it that has what is not UTF-8."""
    given, packed = found.get(field), found.get(f"{field}{BESIDE}")
    if given is not None and packed is not None:
        raise ValueError(f"{name} is given twice: {field} and {field}{BESIDE}")
    is_text, said = text and packed is None, given if packed is None else packed
    if said is None:
        return None
    if not isinstance(said, str):
        raise TypeError(f"expected {name} as text or null, found {said!r}")
    try:
        return said.encode() if is_text else from_base64(said)
    except UnicodeEncodeError:
        raise ValueError(f"{name} has half of a surrogate pair, which is no character: {said!r}") from None
    except ValueError as error:
        hint = "" if text or packed is not None else "; --text imports it as text"
        raise ValueError(f"{name} is not base64: {error}{hint}") from None


def _of_kcat(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a line of ``kafkalog cat -J`` with names of columns: kcat has its own, and headers as one flat list."""
    found = {_OF_KCAT.get(name, name): value for name, value in fields.items() if name not in {"tstype", "broker"}}
    flat = found.get("headers") or []
    if not isinstance(flat, list) or len(flat) % 2:
        raise TypeError(f"expected headers as [key, value, ...], found {flat!r}")
    found["headers"] = [
        {"key": key, f"value{BESIDE}": value["base64"]}
        if isinstance(value, dict) and value.keys() == {"base64"}
        else {"key": key, "value": value}
        for key, value in zip(flat[::2], flat[1::2], strict=True)
    ]
    return found


def _header(header: Any) -> dict[str, Any]:
    known = {"key", "value", f"value{BESIDE}"}
    if isinstance(header, dict) and isinstance(header.get("key"), str) and header.keys() <= known:
        return header
    raise ValueError(f'expected a header as {{"key": ..., "value": ...}}, found {header!r}')


def _timestamp(given: Any) -> int | None:
    if given is None:
        return None
    if isinstance(given, str):
        # Finer times lose what is below a millisecond, as a column of a finer unit does.
        return parse_time(given, "timestamp", up=False)
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"expected a timestamp as ISO 8601 or whole milliseconds, found {given}")
    return to_millis(given, "timestamp")
