"""Inputs outside a log dir: a segment under any name, compressed or from standard input, and log dirs in a .tar.

A temporary folder is made for it: a segment gets the name that Kafka would give it, as a link or decompressed. Its
topic and partition are those that the caller names, and otherwise unknown, which is null.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import sys
import tempfile
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias, TypeVar

from kafkalog import _arguments, _core
from kafkalog.errors import CorruptRecordError, KafkaLogError

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalog._core import PartitionRange
    from kafkalog.typing import StrPath

    _Codec: TypeAlias = Literal["gzip", "zstd", "lz4"]

_T = TypeVar("_T")

STANDARD_INPUT = "-"
MOST_BYTES = (1 << 31) - 1
"""Limit of the temporary files in bytes: segment.bytes is an int."""

_CODECS: dict[bytes, _Codec] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_SEGMENT = re.compile(r"(\d{20})\.log")
_KAFKAS = re.compile(
    r"\d{20}(-\d{10})?\.(log|index|timeindex|txnindex|snapshot|checkpoint)(\.(deleted|cleaned|swap))?"
    r"|bootstrap\.checkpoint"
)
_PARTITION = re.compile(r".+-\d+(\..+-(delete|future|stray))?", re.DOTALL)
_UNNAMED = "segment"
_BLOCK = 1 << 20
_HEADER = 17
# Of a member that is too long, or is a file and a folder at once.
_ODD_NAMES = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
# The smallest message of magic 0 and 1, and the smallest batch, after their size (DefaultRecordBatch, LegacyRecord).
_SMALLEST = {0: 14, 1: 22, 2: 49}


class Loose:
    """A segment or a log dir in a temporary folder, which is removed with this object.

    As a path it is the one to read; as text the one that was given.
    """

    def __init__(self, given: str, topic: str | None, partition: int | None) -> None:
        if topic is not None:
            # It becomes the name of a folder.
            _core.check_topic(topic)
        self.given, self.topic, self.partition = given, topic, partition
        made = tempfile.mkdtemp(prefix="kafkalog-")
        self._finalizer = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
        # Errors about anything in it name what was given.
        self._root = Path(made, f"{topic or _UNNAMED}-{0 if partition is None else partition}")
        self._root.mkdir()
        self._place = self._root

    def __str__(self) -> str:
        return self.given

    def __fspath__(self) -> str:
        return str(self._place)

    @property
    def root(self) -> Path:
        """The temporary folder, of what is in it."""
        return self._root

    @property
    def is_segment(self) -> bool:
        """True if it is one segment, and not a log dir."""
        return self._place.suffix == ".log"

    def named(self, ranges: list[PartitionRange]) -> list[PartitionRange]:
        """Return the planned ranges, with topic and partition as far as they are known."""
        return [each.with_name(self.topic, self.partition) for each in ranges] if self.is_segment else ranges

    def shown(self, text: str) -> str:
        """Return text with the path that was given in the place of the temporary one."""
        return text.replace(str(self._place if self.is_segment else self._root), self.given)

    def rename(self, error: BaseException) -> None:
        """Let an error name the path that was given."""
        if isinstance(error, OSError) and isinstance(error.filename, str):
            error.filename = self.shown(error.filename)
        elif isinstance(error, (KafkaLogError, ValueError)):
            error.args = tuple(self.shown(each) if isinstance(each, str) else each for each in error.args)
        if isinstance(error, KafkaLogError):
            error.path = None if error.path is None else self.shown(error.path)

    @contextmanager
    def _filling(self) -> Iterator[None]:
        """Remove the temporary files if there is no space for all of them, and name their folder."""
        try:
            yield
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            self._finalizer()
            why = f"{os.strerror(error.errno)} for a temporary copy in {tempfile.gettempdir()}"
            raise OSError(error.errno, f"{why}; set TMPDIR to a folder with more room", self.given) from error

    def spool(self, source: BinaryIO) -> Path:
        """Write a stream to a file, of bounded size."""
        path, size = self._root / "spooled", 0
        with self._filling(), path.open("xb") as target:
            while block := source.read(_BLOCK):
                size += len(block)
                if size > MOST_BYTES:
                    raise self._too_large("no segment has; decompress and unpack it first")
                target.write(block)
        return path

    def place(self, file: Path, base_offset: int) -> None:
        """Put a segment in its place, with the indexes beside it."""
        self._place = self._root / f"{base_offset:020}.log"
        if file.parent == self._root:
            file.rename(self._place)
            return
        self._place.symlink_to(file.absolute())
        if _SEGMENT.fullmatch(file.name):
            for suffix in (".index", ".timeindex", ".txnindex"):
                if (beside := file.with_suffix(suffix)).is_file():
                    self._place.with_suffix(suffix).symlink_to(beside.absolute())

    def unpack(self, file: Path) -> None:
        """Unpack a .tar, of bounded size, and find the log dir in it."""
        import tarfile

        size, top = 0, self._root / "unpacked"
        try:
            with self._filling(), tarfile.open(file, "r:") as packed:
                for member in packed:
                    size += member.size
                    if size > MOST_BYTES:
                        raise self._too_large("unpack it first")
                    self._extract(packed, member, top)
        except getattr(tarfile, "FilterError", ()) as error:
            raise self._no_plain_member(error.tarinfo) from error
        except (tarfile.TarError, RecursionError) as error:
            raise CorruptRecordError(f"{self.given}: {error}", self.given) from error
        except OSError as error:
            if error.errno not in _ODD_NAMES:
                raise
            found = f"a name that cannot be unpacked, {self.shown(str(error))[:200]}"
            raise CorruptRecordError(f"{self.given}: expected a log dir, found {found}", self.given) from error
        if file.parent == self._root:
            file.unlink()
        self._root = self._place = top
        while len(within := list(self._place.iterdir())) == 1 and within[0].is_dir():
            # A log dir may be called like a partition, as kafka-1; a partition has no folders that are.
            inner = within[0]
            has_partitions = any(_PARTITION.fullmatch(each.name) and each.is_dir() for each in inner.iterdir())
            if _PARTITION.fullmatch(inner.name) and not has_partitions:
                break
            self._place = within[0]

    def _extract(self, packed: tarfile.TarFile, member: tarfile.TarInfo, top: Path) -> None:
        """Extract a member below ``top`` as the filter ``data`` does.

        Pythons before 3.10.12 and 3.11.4 have no filters: a member there must be a file or a folder.
        """
        if hasattr(packed, "extraction_filter"):
            packed.extract(member, top, filter="data")
            return
        target = Path(os.path.realpath(top / member.name.lstrip("/")))
        if not (member.isfile() or member.isdir()) or not target.is_relative_to(os.path.realpath(top)):
            raise self._no_plain_member(member)
        packed.extract(member, top, set_attrs=False)

    def _no_plain_member(self, member: tarfile.TarInfo) -> CorruptRecordError:
        found = f"{member.name!r}, which leads out of its folder or is no plain file"
        return CorruptRecordError(f"{self.given}: expected a log dir, found {found}", self.given)

    def _too_large(self, hint: str) -> CorruptRecordError:
        return CorruptRecordError(f"{self.given}: more than {MOST_BYTES} bytes; {hint}", self.given)


def loose(
    path: StrPath,
    topic: str | None = None,
    partition: int | None = None,
    *,
    in_any_folder: bool = False,
    alone: bool = False,
) -> Loose | None:
    """Return the input outside a log dir; None for paths that are read in place.

    A segment under Kafka's name is read where it is in the folder of a partition, or ``in_any_folder``; with ``alone``
    nowhere, as if it were all of its partition.
    """
    if isinstance(path, Loose):
        return path
    if path == STANDARD_INPUT:
        made = Loose(path, topic, partition)
        file = made.spool(sys.stdin.buffer)
    else:
        path = _arguments.path(path)
        if _core.is_mounted(path):
            return None
        file = Path(path)
        is_its_own = _KAFKAS.fullmatch(file.name) is not None
        if alone:
            is_its_own = False
        elif is_its_own and _SEGMENT.fullmatch(file.name) and not in_any_folder:
            is_its_own = _PARTITION.fullmatch(file.parent.name) is not None
        if is_its_own or not file.is_file() or not _looks_right(file):
            return None
        made = Loose(path, topic, partition)
    codec = _codec_of(file)
    if codec is not None:
        packed = file.rename(file.with_name("packed")) if path == STANDARD_INPUT else file
        file = _unpacked(made, packed, codec)
    if _is_tar(file):
        # Asked first: the name at its beginning may look like a batch.
        made.unpack(file)
    elif (first := _first_offset(file)) is not None:
        made.place(file, first)
    else:
        raise ValueError(f"{path}: expected a segment, whose bytes begin with a batch, or a .tar of a log dir")
    return made


@contextmanager
def naming(found: Loose | None) -> Iterator[None]:
    """Let errors name the path that was given."""
    try:
        yield
    except (KafkaLogError, OSError, ValueError) as error:
        if found is not None:
            found.rename(error)
        raise


@contextmanager
def staged(
    path: str, topics: Sequence[str] | None = None, partitions: Sequence[int] | None = None
) -> Iterator[str | Loose]:
    """Give what to read for a path, under the one topic and partition that are named; errors name the path."""
    found = loose(path, only(topics), only(partitions))
    with naming(found):
        yield path if found is None else found


def ensure_named(read: Iterable[object], topic: str | None, partition: int | None) -> None:
    """Refuse names that no segment takes: they do not select."""
    if (topic, partition) != (None, None) and not any(isinstance(each, Loose) and each.is_segment for each in read):
        raise ValueError("topic and partition are for a segment outside a partition's folder; none is given")


def only(names: Iterable[_T] | None) -> _T | None:
    """Return the one value of several."""
    found = list(names or ())
    return found[0] if len(found) == 1 else None


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_TAR_MAGIC_AT + len(_TAR_MAGIC))


def _codec_of(file: Path) -> _Codec | None:
    head = _head(file)
    return next((codec for magic, codec in _CODECS.items() if head.startswith(magic)), None)


def _looks_right(file: Path) -> bool:
    return _codec_of(file) is not None or _first_offset(file) is not None or _is_tar(file)


def _is_tar(file: Path) -> bool:
    return _head(file)[_TAR_MAGIC_AT:] == _TAR_MAGIC


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
