"""The files of ``export``: whole under their name, or not there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from typing import TYPE_CHECKING, Any, Protocol

from kafkalog.cli import _common
from kafkalog.cli._text import base64_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from kafkalog.reader import RecordReader

SUFFIXES = {"parquet": ".parquet", "arrow": ".arrow", "jsonl": ".jsonl", "csv": ".csv"}

_NEEDS_QUOTES = re.compile('[",\\r\\n]')


class _Writer(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""

    def close(self) -> None:
        """Finish the file."""


class Files:
    """Writes files of one format.

    Parameters
    ----------
    form : {"parquet", "arrow", "jsonl", "csv"}
        The format.
    overwrite : bool
        Replace files that are there.
    text : bool
        Binary as text in JSON lines and CSV.
    """

    def __init__(self, form: str, *, overwrite: bool, text: bool) -> None:
        self.count = 0
        self._form, self._overwrite = form, overwrite
        self._binary: Callable[[bytes | None], str | None] = text_of if text else _base64

    def write(self, target: Path, reader: RecordReader, batches: Iterable[pa.RecordBatch]) -> int:
        """Write one file beside its name, then give it the name.

        Returns
        -------
        int
            Rows written.

        Raises
        ------
        FileExistsError
            When there is such a file and it may not be replaced.
        """
        if not self._overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, f"{os.strerror(errno.EEXIST)} (--overwrite replaces it)", str(target))
        # Hidden, so that who lists the folder meanwhile does not take it for data.
        beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        rows = 0
        try:
            with contextlib.closing(self._open(beside, reader.schema)) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    rows += batch.num_rows
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
        # A link fails where a rename would replace what came into being meanwhile.
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
            import pyarrow as pa

            ipc: _Writer = _Ipc(pa.OSFile(os.fspath(path), "wb"), schema)
            return ipc
        if self._form == "jsonl":
            return _JsonLines(path, self._binary)
        return _Csv(path, schema, self._binary)


class _Parquet:
    """A Parquet file whose row groups are larger than a reader's batches: small ones make slow files."""

    _GROUP_BYTES = 32 << 20

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(path, schema, compression="zstd")
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

    def _write_group(self) -> None:
        import pyarrow as pa

        rows = pa.Table.from_batches(self._batches)
        self._batches, self._bytes = [], 0
        self._writer.write_table(rows, row_group_size=max(rows.num_rows, 1))


class _Ipc:
    """An Arrow IPC file; closing pyarrow's writer alone leaves the file open."""

    def __init__(self, sink: pa.NativeFile, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._sink = sink
        self._writer = pa.ipc.new_file(sink, schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        self._sink.close()


class _JsonLines:
    """An object a line; times as ISO 8601."""

    def __init__(self, path: Path, binary: Callable[[bytes | None], str | None]) -> None:
        self._file = path.open("w", encoding="utf-8", newline="\n")
        self._binary = binary

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for row in _rows(batch, self._binary):
            self._file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
            self._file.write("\n")

    def close(self) -> None:
        self._file.close()


class _Csv:
    """RFC 4180 with a head; null is nothing, empty text is ``""``, headers are JSON."""

    def __init__(self, path: Path, schema: pa.Schema, binary: Callable[[bytes | None], str | None]) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._binary = binary
        self._file.write(",".join(schema.names) + "\r\n")

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for row in _rows(batch, self._binary):
            self._file.write(",".join([_csv_cell(value) for value in row.values()]) + "\r\n")

    def close(self) -> None:
        self._file.close()


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(value, str):
        return str(value)
    if value == "":
        return '""'
    return '"' + value.replace('"', '""') + '"' if _NEEDS_QUOTES.search(value) else value


def _rows(batch: pa.RecordBatch, binary: Callable[[bytes | None], str | None]) -> Iterator[dict[str, Any]]:
    names = batch.schema.names
    columns = [_cells(column, binary) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def _cells(column: pa.Array[Any], binary: Callable[[bytes | None], str | None]) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return [_iso(value) for value in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_binary(column.type):
        return [binary(value) for value in column.to_pylist()]
    if pa.types.is_list(column.type):
        return [
            None if headers is None else [{"key": each["key"], "value": binary(each["value"])} for each in headers]
            for headers in column.to_pylist()
        ]
    return column.to_pylist()


def _iso(timestamp: int | None) -> str | None:
    # -1 is a record without a timestamp; it stays what it is in the table, a moment before the epoch.
    return "1969-12-31T23:59:59.999Z" if timestamp == -1 else _common.moment(timestamp)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64_of(data)
