"""The files of an export: each appears under its name when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn, Protocol, cast

from kafkalog import _core
from kafkalog._encoding import BESIDE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

# As Files.write names them.
_UNFINISHED = re.compile(r"\..+\.\d+\.tmp", re.DOTALL)

SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "jsonl": ".jsonl", "csv": ".csv"}
# The formats that gzip compresses as a whole; the others compress inside.
TEXT_FORMATS = ("jsonl", "csv")
_GZIP = ".gz"
_GZIP_LEVEL = 6
# Endings of files that are not written here. A user who names one wants a file, not a folder.
_OTHER_FILES = re.compile(
    r"\.(avro|br|bz2|feather|gz|ipc|json|lz4|ndjson|orc|snappy|sqlite|tar|tsv|txt|xlsx?|xml|xz|zip|zst)"
)


class FileFormat(NamedTuple):
    """Format and compression, from the ending of a file's name."""

    form: str
    compressed: bool


def format_of(out: Path) -> FileFormat | None:
    """Return the format of a file by the ending of its name, or None for a folder."""
    name = out.name.lower()
    endings = {suffix: FileFormat(form, compressed=False) for form, suffix in SUFFIXES.items()}
    endings |= {SUFFIXES[form] + _GZIP: FileFormat(form, compressed=True) for form in TEXT_FORMATS}
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

    def __init__(self, form: str, *, overwrite: bool, text: bool, compressed: bool = False) -> None:
        self.count = 0
        self._form, self._overwrite, self._text, self._compressed = form, overwrite, text, compressed

    def write(self, target: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write one file under a temporary name, then rename it."""
        if not self._overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, f"{os.strerror(errno.EEXIST)} (--overwrite replaces it)", str(target))
        # Hidden: a reader that lists the folder meanwhile must not take it for data.
        # The longest names leave no room.
        beside = target.with_name(f".{os.fsdecode(os.fsencode(target.name)[:200])}.{os.getpid()}.tmp")
        rows = 0
        try:
            with _named(target):
                writer = self._open(beside, schema)
            try:
                for batch in batches:
                    with _named(target):
                        writer.write_batch(batch)
                    rows += batch.num_rows
            except BaseException:
                # Closing writes buffered rows, which may fail as well.
                with contextlib.suppress(Exception):
                    writer.close()
                raise
            with _named(target):
                writer.close()
            self._publish(beside, target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        self.count += 1
        return rows

    def _publish(self, beside: Path, target: Path) -> None:
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
        if self._form == "parquet":
            return _Parquet(path, schema)
        if self._form == "arrow":
            return _Ipc(path, schema)
        return _Text(path, schema, self._form, text=self._text, compressed=self._compressed)


# Python opens the files: pyarrow does not accept paths that are not UTF-8.


@contextlib.contextmanager
def _named(target: Path) -> Iterator[None]:
    """Report an error with the name that the user gave, in the system's words."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(target)) from error


# Columns whose values differ little from one row to the next, and columns in which hardly any value repeats: Parquet
# would build a dictionary of each row group and give it up.
_RISING = ("offset", "timestamp")
_DISTINCT = (*_RISING, "value")
# Nested columns whose values repeat.
_PATHS = {"headers": "headers.list.element.key"}


class _Parquet:
    """A Parquet file with row groups larger than a reader's batches: small ones make files slow to read."""

    _GROUP_BYTES = 32 << 20

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._file = path.open("wb")
        repeating = [_PATHS.get(name, name) for name in schema.names if name not in _DISTINCT]
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
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
    """An Arrow IPC file."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._file = path.open("wb")
        self._writer = pa.ipc.new_file(self._file, schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        self._file.close()


def _columns(schema: pa.Schema, *, text: bool) -> list[str]:
    """Name the columns: as text, bytes that are not UTF-8 have one of their own, after all others."""
    import pyarrow as pa

    are_bytes = [name for name, kind in zip(schema.names, schema.types, strict=True) if pa.types.is_binary(kind)]
    return [*schema.names, *(f"{name}{BESIDE}" for name in are_bytes if text)]


class _Text:
    """JSON lines with times as ISO 8601, or CSV (RFC 4180) with a header line; compressed on request."""

    def __init__(self, path: Path, schema: pa.Schema, form: str, *, text: bool, compressed: bool) -> None:
        self._file: BinaryIO = path.open("wb")
        self._packed: BinaryIO = self._file
        if compressed:
            import gzip

            # No name and no time in the header: the same records give the same bytes.
            packed = gzip.GzipFile("", "wb", _GZIP_LEVEL, self._file, mtime=0)
            self._packed = cast("BinaryIO", packed)
        self._rows = _core.RowText("csv" if form == "csv" else "jsonl", text=text)
        if form == "csv":
            self._packed.write(f"{','.join(_columns(schema, text=text))}\r\n".encode())

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._packed.write(self._rows.of(batch))

    def close(self) -> None:
        try:
            self._packed.close()
        finally:
            self._file.close()
