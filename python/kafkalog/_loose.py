"""Segments that lie outside a log dir: under another name, compressed, or from standard input.

A folder is made for one, with the name that Kafka would give it: a link to the file, or what was decompressed. Topic
and partition are those that are given, else the name of the file and 0.
"""

from __future__ import annotations

import re
import shutil
import struct
import sys
import tempfile
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias

from kafkalog.errors import CorruptRecordError, KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Iterator

    _Codec: TypeAlias = Literal["gzip", "zstd", "lz4"]

__all__ = ["Loose", "loose", "staged"]

STANDARD_INPUT = "-"
MOST_BYTES = (1 << 31) - 1
"""What is written to a temporary file at most: segment.bytes is an int."""

_CODECS: dict[bytes, _Codec] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_KAFKAS = re.compile(
    r"\d{20}(-\d{10})?\.(log|index|timeindex|txnindex|snapshot|checkpoint)(\.(deleted|cleaned|swap))?"
    r"|bootstrap\.checkpoint"
)
_OTHERS = re.compile(r"[^A-Za-z0-9._-]")
_BLOCK = 1 << 20
_HEADER = 17
# The smallest message of magic 0 and 1, and the smallest batch, behind their size (DefaultRecordBatch, LegacyRecord).
_SMALLEST = {0: 14, 1: 22, 2: 49}


class Loose:
    """A segment in a temporary folder, which is removed with this object."""

    def __init__(self, given: str, topic: str | None, partition: int | None) -> None:
        self.given = given
        made = tempfile.mkdtemp(prefix="kafkalog-")
        weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        stem = "standard-input" if given == STANDARD_INPUT else Path(given).name.partition(".")[0]
        name = topic or _OTHERS.sub("_", stem)[:200] or "segment"
        self.folder = Path(made, f"{name}-{partition or 0}")
        self.folder.mkdir()

    def spool(self, source: BinaryIO) -> Path:
        """Write a stream to a file, of bounded size."""
        path, size = self.folder / "spooled", 0
        with path.open("xb") as target:
            while block := source.read(_BLOCK):
                size += len(block)
                if size > MOST_BYTES:
                    raise CorruptRecordError(f"{self.given}: more than {MOST_BYTES} bytes; no segment has", self.given)
                target.write(block)
        return path

    def place(self, file: Path, base_offset: int) -> str:
        """Put a file in the segment's place."""
        path = self.folder / f"{base_offset:020}.log"
        if file.parent == self.folder:
            file.rename(path)
        else:
            path.symlink_to(file.absolute())
        return str(path)


def loose(path: str, topic: str | None = None, partition: int | None = None) -> tuple[Loose, str] | None:
    """Return the folder that was made for a segment, and the file in it; None for whatever is no loose segment."""
    if path == STANDARD_INPUT:
        made = Loose(path, topic, partition)
        file = made.spool(sys.stdin.buffer)
    else:
        file = Path(path)
        if _KAFKAS.fullmatch(file.name) or not file.is_file() or not _looks_right(file):
            return None
        made = Loose(path, topic, partition)
    codec = _codec_of(file)
    if codec is not None:
        packed = file.rename(file.with_name("packed")) if file.parent == made.folder else file
        file = _unpacked(made, packed, codec)
    first = _first_offset(file)
    if first is None:
        raise ValueError(f"{path}: expected a segment, whose bytes begin with a batch")
    return made, made.place(file, first)


@contextmanager
def staged(path: str, topic: str | None = None, partition: int | None = None) -> Iterator[str]:
    """Give the path to read for a path; errors name the one that was given."""
    found = loose(path, topic, partition)
    if found is None:
        yield path
        return
    # The first removes the folder when it goes.
    _folder, file = found
    try:
        yield file
    except KafkaLogError as error:
        error.args = tuple(str(each).replace(file, path) for each in error.args)
        error.path = path
        raise


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_HEADER)


def _codec_of(file: Path) -> _Codec | None:
    head = _head(file)
    return next((codec for magic, codec in _CODECS.items() if head.startswith(magic)), None)


def _looks_right(file: Path) -> bool:
    return _codec_of(file) is not None or _first_offset(file) is not None


def _first_offset(file: Path) -> int | None:
    head = _head(file)
    if len(head) < _HEADER:
        return None
    offset, size, magic = *struct.unpack_from(">qi", head), head[16]
    return int(offset) if offset >= 0 and size >= _SMALLEST.get(magic, 1 << 31) else None


def _unpacked(made: Loose, file: Path, codec: _Codec) -> Path:
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.OSFile(str(file), "rb"), codec) as source:
            return made.spool(source)  # type: ignore[arg-type]
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise CorruptRecordError(f"{made.given}: {error}", made.given) from error
