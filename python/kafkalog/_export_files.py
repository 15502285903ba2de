"""The files of an export: each appears under its name when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, NoReturn, Protocol, cast

from kafkalog import _core
from kafkalog._encoding import BESIDE
from kafkalog._export_targets import StoreTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

# As Files.write names them.
_UNFINISHED = re.compile(r"\..+\.\d+\.tmp", re.DOTALL)

SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "jsonl": ".jsonl", "csv": ".csv", "tsv": ".tsv"}
# Other endings of the same formats.
_ALIASES = {".json": "jsonl", ".ndjson": "jsonl"}
COMPRESSIONS = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "brotli", "none"),
    "arrow": ("none", "lz4", "zstd"),
    "jsonl": ("none", "gzip"),
    "csv": ("none", "gzip"),
    "tsv": ("none", "gzip"),
}
"""Compressions of each format; the first is the default."""
STANDARD_OUTPUT = "-"
# The formats that gzip compresses as a whole; the others compress inside.
TEXT_FORMATS = ("jsonl", "csv", "tsv")
_GZIP = ".gz"
_GZIP_LEVEL = 6
# Endings of files that are not written here. A user who names one wants a file, not a folder.
_OTHER_FILES = re.compile(r"\.(avro|br|bz2|feather|gz|ipc|lz4|orc|snappy|sqlite|tar|txt|xlsx?|xml|xz|zip|zst)")


class FileFormat(NamedTuple):
    """Format and compression, from the ending of a file's name."""

    form: str
    compressed: bool


def format_of(out: Path | StoreTarget) -> FileFormat | None:
    """Return the format of a file by the ending of its name, or None for a folder."""
    name = out.name.lower()
    forms = {suffix: form for form, suffix in SUFFIXES.items()} | _ALIASES
    endings = {suffix: FileFormat(form, compressed=False) for suffix, form in forms.items()}
    endings |= {
        suffix + _GZIP: FileFormat(form, compressed=True) for suffix, form in forms.items() if form in TEXT_FORMATS
    }
    for ending, found in endings.items():
        if name.endswith(ending):
            return found
    if _OTHER_FILES.fullmatch(Path(name).suffix) and not out.is_dir():
        raise ValueError(f"{out}: expected a folder, or a file that ends in {', '.join(endings)}")
    return None


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    def close(self) -> None:
        """Finish the file."""


def unfinished(folder: Path) -> list[Path]:
    """List the unfinished files in a folder: those of an export that was killed, or that still runs."""
    try:
        return sorted(path for path in folder.iterdir() if _UNFINISHED.fullmatch(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that unfinished files are deleted."""

    def stop(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    found = []
    if threading.current_thread() is threading.main_thread():
        ending = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        # A signal that is ignored, as under nohup, stays ignored.
        found = [number for number in ending if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in found:
            signal.signal(number, stop)
        yield
    finally:
        for number in found:
            signal.signal(number, signal.SIG_DFL)


class Files:
    """Writes files of one format."""

    def __init__(
        self, form: str, *, overwrite: bool, text: bool, compression: str | None = None, json: Sequence[str] = ()
    ) -> None:
        self.count = 0
        self._form, self._overwrite, self._text, self._json = form, overwrite, text, json
        self._compression = compression or COMPRESSIONS[form][0]

    @property
    def suffix(self) -> str:
        """The ending of the names of files."""
        return SUFFIXES[self._form] + (_GZIP if self._form in TEXT_FORMATS and self._compression == "gzip" else "")

    def print(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write to standard output, row by row as they are read: Arrow as a stream, the others as in a file."""
        sink, rows = sys.stdout.buffer, 0
        if self._form == "parquet":
            raise ValueError("Parquet needs a file, its index is at its end; --format arrow can be piped")
        if self._form == "arrow" and sys.stdout.isatty():
            raise ValueError("Arrow is not for a terminal; pipe it or write it to a file")
        writer: _Writer = (
            _Ipc(sink, schema, self._compression, stream=True)
            if self._form == "arrow"
            else self._text_writer(sink, schema)
        )
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
        writer.close()
        sink.flush()
        self.count += 1
        return rows

    def write(self, target: Path | StoreTarget, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write one file under a temporary name, then rename or upload it."""
        is_there = target.exists() if isinstance(target, StoreTarget) else os.path.lexists(target)
        if not self._overwrite and is_there:
            raise FileExistsError(errno.EEXIST, f"{os.strerror(errno.EEXIST)} (--overwrite replaces it)", str(target))
        beside = target.beside() if isinstance(target, StoreTarget) else _beside(target)
        # An upload has names and texts of its own.
        is_temporary = isinstance(target, StoreTarget)
        named = partial(_named, beside if isinstance(target, StoreTarget) else target, is_temporary=is_temporary)
        rows = 0
        try:
            with named():
                writer = self._open(beside, schema)
            try:
                for batch in batches:
                    with named():
                        writer.write_batch(batch)
                    rows += batch.num_rows
            except BaseException:
                # Closing writes buffered rows, which may fail as well.
                with contextlib.suppress(Exception):
                    writer.close()
                raise
            with named():
                writer.close()
            self._publish(beside, target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        self.count += 1
        return rows

    def _publish(self, beside: Path, target: Path | StoreTarget) -> None:
        if isinstance(target, StoreTarget):
            target.upload(beside)
            beside.unlink()
            return
        if self._overwrite:
            beside.replace(target)
            return
        # Unlike a rename, a link does not replace a file that was created meanwhile.
        try:
            os.link(beside, target)
        except FileExistsError:
            raise
        except OSError:
            beside.rename(target)
            return
        beside.unlink()

    def _open(self, path: Path, schema: pa.Schema) -> _Writer:
        sink: BinaryIO = path.open("wb")
        if self._form == "parquet":
            return _Parquet(sink, schema, self._compression)
        if self._form == "arrow":
            return _Ipc(sink, schema, self._compression)
        return self._text_writer(sink, schema)

    def _text_writer(self, sink: BinaryIO, schema: pa.Schema) -> _Text:
        is_packed = self._compression == "gzip"
        return _Text(sink, schema, self._form, text=self._text, compressed=is_packed, json=self._json)


def _beside(target: Path) -> Path:
    # Hidden: a reader that lists the folder meanwhile must not take it for data.
    # The longest names leave no room.
    return target.with_name(f".{os.fsdecode(os.fsencode(target.name)[:200])}.{os.getpid()}.tmp")


# Python opens the files: pyarrow does not accept paths that are not UTF-8.


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextlib.contextmanager
def _named(target: Path, *, is_temporary: bool = False) -> Iterator[None]:
    """Report an error with the name that the user gave, in the system's words."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        said = os.strerror(number)
        if is_temporary and number in _NO_ROOM:
            said += " for the file that is to be uploaded; set TMPDIR to a folder with more room"
        raise OSError(number, said, str(target)) from error


# Columns whose values differ little from one row to the next, and columns in which hardly any value repeats: Parquet
# would build a dictionary of each row group and give it up.
_RISING = ("offset", "timestamp")
_DISTINCT = (*_RISING, "value")


def _repeating(field: pa.Field[Any]) -> list[str]:
    """Return the paths of a column's values that may repeat."""
    import pyarrow as pa

    if field.name == "headers":
        return ["headers.list.element.key"]
    is_plain = not pa.types.is_nested(field.type)
    return [] if field.name in _DISTINCT and is_plain else _leaves(field.name, field.type)


def _leaves(path: str, kind: Any) -> list[str]:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        if not kind.num_fields:
            raise ValueError(
                f"Parquet has no record without fields, which {path} is; the formats arrow and jsonl have, and "
                'decode_as="json" gives text'
            )
        return [leaf for field in kind for leaf in _leaves(f"{path}.{field.name}", field.type)]
    if pa.types.is_list(kind):
        return _leaves(f"{path}.list.element", kind.value_type)
    if pa.types.is_map(kind):
        return [f"{path}.key_value.key", *_leaves(f"{path}.key_value.value", kind.item_type)]
    return [path]


def check_types(form: str, schema: pa.Schema) -> None:
    """Refuse columns that files of this format cannot have, before one is written."""
    if form == "parquet":
        for field in schema:
            _leaves(field.name, field.type)


class _Parquet:
    """A Parquet file with row groups larger than a reader's batches: small ones make files slow to read."""

    _GROUP_BYTES = 32 << 20

    def __init__(self, sink: BinaryIO, schema: pa.Schema, compression: str) -> None:
        import pyarrow.parquet as pq

        self._file = sink
        repeating = [path for field in schema for path in _repeating(field)]
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=compression,  # type: ignore[arg-type]  # one of COMPRESSIONS
            use_dictionary=repeating,  # type: ignore[arg-type]  # pyarrow takes names as well
            column_encoding={name: "DELTA_BINARY_PACKED" for name in _RISING if name in schema.names},
        )
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= self._GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        if self._batches:
            self._write_group()
        self._writer.close()
        self._file.close()

    def _write_group(self) -> None:
        import pyarrow as pa

        rows = pa.Table.from_batches(self._batches)
        self._batches, self._bytes = [], 0
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))


class _Ipc:
    """An Arrow IPC file, or a stream that its reader can take while it is written."""

    def __init__(self, sink: BinaryIO, schema: pa.Schema, compression: str, *, stream: bool = False) -> None:
        import pyarrow as pa

        self._file, self._stream = sink, stream
        codec: Any = None if compression == "none" else compression
        options = pa.ipc.IpcWriteOptions(compression=codec)
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        self._writer = make(sink, schema, options=options)  # type: ignore[arg-type]  # any file of Python

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        if not self._stream:
            self._file.close()


def _columns(schema: pa.Schema, *, text: bool) -> list[str]:
    """Name the columns: as text, bytes that are not UTF-8 have one of their own, after all others."""
    import pyarrow as pa

    are_bytes = [name for name, kind in zip(schema.names, schema.types, strict=True) if pa.types.is_binary(kind)]
    return [*schema.names, *(f"{name}{BESIDE}" for name in are_bytes if text)]


class _Text:
    """JSON lines with times as ISO 8601, or CSV (RFC 4180) or TSV with a header line; compressed on request."""

    def __init__(
        self, sink: BinaryIO, schema: pa.Schema, form: str, *, text: bool, compressed: bool, json: Sequence[str]
    ) -> None:
        self._file = self._packed = sink
        if compressed:
            import gzip

            # No name and no time in the header: the same records give the same bytes.
            packed = gzip.GzipFile("", "wb", _GZIP_LEVEL, self._file, mtime=0)
            self._packed = cast("BinaryIO", packed)
        self._rows = _core.RowText(form, text=text, json=json)  # type: ignore[arg-type]  # one of TEXT_FORMATS
        if form != "jsonl":
            separator, end = (",", "\r\n") if form == "csv" else ("\t", "\n")
            self._packed.write(f"{separator.join(_columns(schema, text=text))}{end}".encode())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._packed.write(self._rows.of(batch))

    def close(self) -> None:
        try:
            if self._packed is not self._file:
                self._packed.close()
        finally:
            if self._file is not getattr(sys.stdout, "buffer", None):
                self._file.close()
