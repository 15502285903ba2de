"""Offset, time and transaction indexes, read-only, with Kafka's lookup semantics.

After ``OffsetIndex``, ``TimeIndex`` and ``TransactionIndex`` of Kafka's storage module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _arguments, _core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    import pyarrow as pa
    from typing_extensions import Self

    from kafkalog.typing import StrPath

__all__ = [
    "AbortedTransaction",
    "OffsetIndex",
    "OffsetPosition",
    "TimeIndex",
    "TimestampOffset",
    "TransactionIndex",
]


class OffsetPosition(NamedTuple):
    """An entry of an offset index.

    Attributes
    ----------
    offset : int
        The last offset of some batch.
    position : int
        The byte of the ``.log`` file at which that batch begins.
    """

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """An entry of a time index.

    Attributes
    ----------
    timestamp : int
        The largest timestamp up to there, milliseconds since the epoch.
    offset : int
        The offset of the record that has it.
    """

    timestamp: int
    offset: int


class AbortedTransaction(NamedTuple):
    """An entry of a transaction index.

    Attributes
    ----------
    version : int
        Of the entry's format.
    producer_id : int
        Whose transaction it was.
    first_offset : int
        Its first record.
    last_offset : int
        Its abort marker.
    last_stable_offset : int
        Where the last stable offset was when the marker was written.
    """

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class OffsetIndex:
    """A segment's ``.index`` file.

    Parameters
    ----------
    path : path
        The file.
    base_offset : int, optional
        The segment's base offset. Default: from the file's name.

    Examples
    --------
    >>> with kafkalog.OffsetIndex("00000000000000000364.index") as index:  # doctest: +SKIP
    ...     index.lookup(500)
    OffsetPosition(offset=498, position=9216)
    """

    __slots__ = ("_core", "_path")

    def __init__(self, path: StrPath, base_offset: int | None = None) -> None:
        self._path = _arguments.path(path)
        self._core = _core.OffsetIndex(self._path, _base_offset(base_offset))

    def __repr__(self) -> str:
        return f"kafkalog.OffsetIndex({self._path!r})"

    def __len__(self) -> int:
        return self._core.entries

    def __iter__(self) -> Iterator[OffsetPosition]:
        return (self.entry(n) for n in range(len(self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def base_offset(self) -> int:
        """The segment's base offset, to which entries are relative on disk."""
        return self._core.base_offset

    @property
    def max_entries(self) -> int:
        """How many entries the file has room for; more than ``len`` when it is preallocated."""
        return self._core.max_entries

    @property
    def is_full(self) -> bool:
        """Whether the file has no room for another entry."""
        return len(self) >= self.max_entries

    @property
    def last_offset(self) -> int:
        """The last entry's offset, or the base offset when there is none."""
        return self._core.last_offset

    def entry(self, n: int) -> OffsetPosition:
        """Give the n-th entry.

        Raises
        ------
        IndexError
            When there is no such entry.
        """
        return OffsetPosition(*self._core.entry(_entry(n, len(self))))

    def lookup(self, target: int) -> OffsetPosition:
        """Give the last entry at or below an offset, or the base offset and 0 when there is none.

        Parameters
        ----------
        target : int
            An offset.
        """
        return OffsetPosition(*self._core.lookup(_arguments.integer("target", target)))

    def lookup_many(self, targets: Iterable[Any]) -> pa.RecordBatch:
        """Look up many offsets.

        Parameters
        ----------
        targets : iterable of int
            Offsets, in any order; Arrow and NumPy arrays do as well.

        Returns
        -------
        pyarrow.RecordBatch
            offset and position, one row for each target.
        """
        return _arrow(self._core.lookup_many(_values(targets)))

    def to_arrow(self) -> pa.RecordBatch:
        """Give all entries as columns offset and position."""
        return _arrow(self._core.to_arrow())

    def sanity_check(self) -> None:
        """Check what Kafka checks when it opens an index.

        Raises
        ------
        CorruptIndexError
            When the last offset lies below the base offset, or the size is no multiple of an entry's.
        """
        self._core.sanity_check()

    def close(self) -> None:
        """Let go of the file."""
        self._core.close()


class TimeIndex:
    """A segment's ``.timeindex`` file.

    Parameters
    ----------
    path : path
        The file.
    base_offset : int, optional
        The segment's base offset. Default: from the file's name.
    """

    __slots__ = ("_core", "_path")

    def __init__(self, path: StrPath, base_offset: int | None = None) -> None:
        self._path = _arguments.path(path)
        self._core = _core.TimeIndex(self._path, _base_offset(base_offset))

    def __repr__(self) -> str:
        return f"kafkalog.TimeIndex({self._path!r})"

    def __len__(self) -> int:
        return self._core.entries

    def __iter__(self) -> Iterator[TimestampOffset]:
        return (self.entry(n) for n in range(len(self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def base_offset(self) -> int:
        """The segment's base offset, to which entries are relative on disk."""
        return self._core.base_offset

    @property
    def max_entries(self) -> int:
        """How many entries the file has room for; more than ``len`` when it is preallocated."""
        return self._core.max_entries

    @property
    def is_full(self) -> bool:
        """Whether Kafka would roll: one entry is kept free for the end of the segment."""
        return len(self) >= self.max_entries - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or -1 and the base offset when there is none."""
        return TimestampOffset(*self._core.last_entry)

    def entry(self, n: int) -> TimestampOffset:
        """Give the n-th entry.

        Raises
        ------
        IndexError
            When there is no such entry.
        """
        return TimestampOffset(*self._core.entry(_entry(n, len(self))))

    def lookup(self, target: int) -> TimestampOffset:
        """Give the last entry at or before a time, or -1 and the base offset when there is none.

        Parameters
        ----------
        target : int
            Milliseconds since the epoch.
        """
        return TimestampOffset(*self._core.lookup(_arguments.integer("target", target)))

    def lookup_many(self, targets: Iterable[Any]) -> pa.RecordBatch:
        """Look up many times.

        Parameters
        ----------
        targets : iterable of int
            Milliseconds since the epoch, in any order; Arrow and NumPy arrays do as well.

        Returns
        -------
        pyarrow.RecordBatch
            timestamp and offset, one row for each target.
        """
        return _arrow(self._core.lookup_many(_values(targets)))

    def to_arrow(self) -> pa.RecordBatch:
        """Give all entries as columns timestamp and offset."""
        return _arrow(self._core.to_arrow())

    def sanity_check(self) -> None:
        """Check what Kafka checks when it opens an index.

        Raises
        ------
        CorruptIndexError
            When the last entry lies below the first, or the size is no multiple of an entry's.
        """
        self._core.sanity_check()

    def close(self) -> None:
        """Let go of the file."""
        self._core.close()


class TransactionIndex:
    """A segment's ``.txnindex`` file: the aborted transactions whose markers are in the segment.

    Parameters
    ----------
    path : path
        The file.
    base_offset : int, optional
        The segment's base offset. Default: from the file's name.
    """

    __slots__ = ("_core", "_path")

    def __init__(self, path: StrPath, base_offset: int | None = None) -> None:
        self._path = _arguments.path(path)
        self._core = _core.TransactionIndex(self._path, _base_offset(base_offset))

    def __repr__(self) -> str:
        return f"kafkalog.TransactionIndex({self._path!r})"

    def __len__(self) -> int:
        return self._core.entries

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return (self.entry(n) for n in range(len(self)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def base_offset(self) -> int:
        """The segment's base offset."""
        return self._core.base_offset

    def entry(self, n: int) -> AbortedTransaction:
        """Give the n-th entry.

        Raises
        ------
        IndexError
            When there is no such entry.
        """
        return AbortedTransaction(*self._core.entry(_entry(n, len(self))))

    def to_arrow(self) -> pa.RecordBatch:
        """Give all entries as columns, named as the fields of an entry."""
        return _arrow(self._core.to_arrow())

    def sanity_check(self) -> None:
        """Check what Kafka checks when it opens an index.

        Raises
        ------
        CorruptIndexError
            When an entry is of an unknown version, or its marker lies below the base offset.
        """
        self._core.sanity_check()

    def close(self) -> None:
        """Let go of the file."""
        self._core.close()


def _base_offset(given: int | None) -> int | None:
    return None if given is None else _arguments.integer("base_offset", given, 0)


def _entry(n: int, entries: int) -> int:
    number = _arguments.integer("n", n)
    if not 0 <= number < entries:
        raise IndexError(f"entry {number} of an index with {entries}")
    return number


def _values(targets: Iterable[Any]) -> list[int]:
    """Give Python's numbers; Arrow and NumPy arrays iterate as scalars of their own."""
    for method in ("to_pylist", "tolist"):
        convert = getattr(targets, method, None)
        if convert is not None:
            targets = convert()
            break
    return [_arguments.integer("target", target) for target in targets]


def _arrow(entries: _core.Entries) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatchReader.from_stream(entries).read_next_batch()
