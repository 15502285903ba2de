"""Offset, time and transaction indexes, read and written like Kafka's classes.

After ``OffsetIndex``, ``TimeIndex`` and ``TransactionIndex`` of Kafka's storage module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from kafkalog import _arguments, _core, _reprs, storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

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
        The largest timestamp up to the offset, in milliseconds since the epoch.
    offset : int
        The offset of the record with that timestamp.
    """

    timestamp: int
    offset: int


class AbortedTransaction(NamedTuple):
    """An entry of a transaction index.

    Attributes
    ----------
    version : int
        The version of the entry's format.
    producer_id : int
        The producer of the transaction.
    first_offset : int
        The offset of its first record.
    last_offset : int
        The offset of its abort marker.
    last_stable_offset : int
        The last stable offset when the marker was written.
    """

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


_Entry = TypeVar("_Entry", OffsetPosition, TimestampOffset, AbortedTransaction)
_Pair = TypeVar("_Pair", OffsetPosition, TimestampOffset)


class _Entries(_reprs.Closing, Generic[_Entry]):
    """The base of all indexes: a file of ordered entries, open until it is closed."""

    __slots__ = ("_core", "_path", "_writable")

    _NOT_PICKLED = "it is an open file; pickle its path"
    _ENTRY: type[_Entry]
    _core: Any
    _path: str
    _writable: bool

    def __repr__(self) -> str:
        return f"kafkalog.{type(self).__name__}({self._path!r}{', writable=True' if self._writable else ''})"

    def __len__(self) -> int:
        entries: int = self._core.entries
        return entries

    def __iter__(self) -> Iterator[_Entry]:
        return (self.entry(n) for n in range(len(self)))

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def writable(self) -> bool:
        """True if it was opened for writing."""
        return self._writable

    @property
    def base_offset(self) -> int:
        """The segment's base offset; offsets on disk are relative to it."""
        base: int = self._core.base_offset
        return base

    def entry(self, n: int) -> _Entry:
        """Return the n-th entry; an IndexError if there are not so many."""
        return self._ENTRY(*self._core.entry(_entry(n, len(self))))

    def to_arrow(self) -> pa.RecordBatch:
        """Return all entries as columns, named like the fields of an entry."""
        return _arrow(self._core.to_arrow())

    def truncate_to(self, offset: int) -> None:
        """Remove the entries at or above an offset; an index that was opened for reading raises a ValueError."""
        self._core.truncate_to(_arguments.integer("offset", offset))

    def reset(self) -> None:
        """Remove all entries; an offset or time index then has its maximum length."""
        self._core.reset()

    def sanity_check(self) -> None:
        """Run the check that Kafka runs before it uses an index.

        Raises
        ------
        CorruptIndexError
            If the last entry, or the file's length, cannot be right; for a transaction index, any entry.
        UnsupportedFormatError
            If a transaction index has an entry of a version that brokers do not read.
        """
        self._core.sanity_check()

    def flush(self) -> None:
        """Flush the entries to disk."""
        self._core.flush()

    def close(self) -> None:
        """Close the file; one opened for writing is trimmed after its last entry. Closing twice does nothing."""
        self._core.close()


class _Index(_Entries[_Pair]):
    """The base of the offset and the time index (Kafka's ``AbstractIndex``)."""

    __slots__ = ()

    _IS_TIME: ClassVar[bool]
    _core: _core.Index

    def __init__(
        self,
        path: StrPath,
        base_offset: int | None = None,
        max_index_size: int = 10_485_760,
        writable: bool = False,  # noqa: FBT001, FBT002 - in Kafka's place
        *,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: object | None = None,
    ) -> None:
        self._writable = _arguments.flag("writable", writable)
        self._path = _index_path(path, storage_options, filesystem, writable=self._writable)
        size = _arguments.integer("max_index_size", max_index_size, 0, _arguments.INT32_MAX)
        self._core = _core.Index(
            self._path, self._IS_TIME, _arguments.optional_integer("base_offset", base_offset, 0), size, self._writable
        )

    @property
    def max_entries(self) -> int:
        """Number of entries for which the file has room; more than ``len`` when it is preallocated."""
        return self._core.max_entries

    @property
    def length(self) -> int:
        """The file's length in bytes."""
        return self._core.length

    @property
    def is_full(self) -> bool:
        """True if there is no room for another entry; Kafka then starts a new segment."""
        return self._core.is_full

    def lookup_many(self, targets: Iterable[Any]) -> pa.RecordBatch:
        """Look up many targets of ``lookup``, in any order; Arrow and NumPy arrays are accepted as well.

        The result has the fields of an entry, one row for each target.
        """
        return _arrow(self._core.lookup_many(_values(targets)))

    def can_append_offset(self, offset: int) -> bool:
        """Return whether an entry can hold an offset: from the base offset to 2^31 - 1 above it."""
        return self._core.can_append_offset(_arguments.integer("offset", offset))

    def truncate(self) -> None:
        """Remove all entries."""
        self._core.truncate()

    def resize(self, size: int) -> bool:
        """Set the file's length in bytes, rounded down to whole entries; return whether it changed.

        Raises
        ------
        ValueError
            If entries would be lost. Kafka's classes truncate the file, then throw; here nothing changes.
        """
        return self._core.resize(_arguments.integer("size", size, 0, _arguments.INT32_MAX))

    def trim_to_valid_size(self) -> None:
        """Trim the file after the last entry."""
        self._core.trim_to_valid_size()


class OffsetIndex(_Index[OffsetPosition]):
    """A segment's ``.index`` file: from offsets to bytes of the ``.log``.

    Parameters
    ----------
    path : path
        The file. With ``writable=True`` it is created if it does not exist.
    base_offset : int, optional
        The segment's base offset. Default: from the file's name.
    max_index_size : int, default 10_485_760
        Size of a new file in bytes, rounded down to whole entries of 8 (Kafka's ``segment.index.bytes``).
    writable : bool, default False
        Whether entries can be added and removed. The file is preallocated until it is closed, and must have one writer
        only: hold the lock of the log dir, or make sure that no broker runs. As in Kafka, every whole slot of an
        existing file then counts as an entry; without ``writable``, slots that were never written do not.
    storage_options, filesystem : optional
        The store of a URL, as for :func:`kafkalog.scan`; an index in a store is only read.

    Raises
    ------
    OSError
        If the file cannot be opened; ``FileNotFoundError`` if it does not exist and is opened for reading.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/00000000000000000364.index"
    >>> with kafkalog.OffsetIndex(path, writable=True) as index:
    ...     index.append(498, 9216)
    ...     index.append(520, 14008)
    ...     index.lookup(500)
    OffsetPosition(offset=498, position=9216)
    >>> with kafkalog.OffsetIndex(path) as index:
    ...     len(index), index.last_offset
    (2, 520)
    """

    __slots__ = ()

    _ENTRY = OffsetPosition
    _IS_TIME = False

    @property
    def last_offset(self) -> int:
        """The offset of the last entry, or the base offset if there is none."""
        return self._core.last_entry[0]

    def lookup(self, target: int) -> OffsetPosition:
        """Return the last entry at or below an offset, or the base offset and 0 if there is none."""
        return OffsetPosition(*self._core.lookup(_arguments.integer("target", target)))

    def append(self, offset: int, position: int) -> None:
        """Append an entry.

        Parameters
        ----------
        offset : int
            The last offset of a batch; above that of the last entry, and at most 2^31 - 1 above the base offset.
        position : int
            The byte of the ``.log`` at which the batch begins.

        Raises
        ------
        ValueError
            If the index is full, the offset is out of order or out of range, or the index was opened for reading.
        OSError
            If the disk is full.
        """
        at = _int32("position", position)
        self._core.append(_arguments.integer("offset", offset), at, skip_full_check=False)

    def fetch_upper_bound_offset(self, position: int, fetch_size: int) -> OffsetPosition | None:
        """Return an entry after the end of a fetch, not always the first one; None if there is none.

        Parameters
        ----------
        position : int
            The byte of the ``.log`` at which the fetch starts.
        fetch_size : int
            Bytes fetched. Position and size are added in 32 bits, as in Kafka.
        """
        start = _int32("position", position)
        size = _int32("fetch_size", fetch_size)
        found = self._core.fetch_upper_bound(start, size)
        return None if found is None else OffsetPosition(*found)


class TimeIndex(_Index[TimestampOffset]):
    """A segment's ``.timeindex`` file: from times to offsets.

    Parameters and errors are those of :class:`OffsetIndex`; an entry has 12 bytes.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/00000000000000000364.timeindex"
    >>> with kafkalog.TimeIndex(path, writable=True) as index:
    ...     index.maybe_append(1_700_000_000_000, 498)
    ...     index.maybe_append(1_700_000_000_000, 520)
    ...     list(index)
    [TimestampOffset(timestamp=1700000000000, offset=498)]
    """

    __slots__ = ()

    _ENTRY = TimestampOffset
    _IS_TIME = True

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, or -1 and the base offset if there is none."""
        return TimestampOffset(*self._core.last_entry)

    def lookup(self, target: int) -> TimestampOffset:
        """Return the last entry at or before a time in milliseconds, or -1 and the base offset if there is none."""
        return TimestampOffset(*self._core.lookup(_arguments.integer("target", target)))

    def maybe_append(
        self,
        timestamp: int,
        offset: int,
        skip_full_check: bool = False,  # noqa: FBT001, FBT002 - in Kafka's place
    ) -> None:
        """Append an entry if its time is later than that of the last one; the same time is skipped.

        Parameters
        ----------
        timestamp : int
            Milliseconds since the epoch: the largest timestamp so far.
        offset : int
            The last offset of the batch with that timestamp; not below that of the last entry.
        skip_full_check : bool, default False
            Use the slot that is reserved for the end of the segment.

        Raises
        ------
        ValueError, OSError
            As for :meth:`OffsetIndex.append`; also if the time decreases.
        """
        time = _arguments.integer("timestamp", timestamp)
        self._core.append(
            time, _arguments.integer("offset", offset), _arguments.flag("skip_full_check", skip_full_check)
        )


class TransactionIndex(_Entries[AbortedTransaction]):
    """A segment's ``.txnindex`` file: the aborted transactions whose markers are in the segment.

    The parameters are those of :class:`OffsetIndex`; with ``writable=True`` the file is created with the first entry.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/00000000000000000000.txnindex"
    >>> with kafkalog.TransactionIndex(path, writable=True) as index:
    ...     index.append(producer_id=7, first_offset=10, last_offset=15, last_stable_offset=13)
    ...     index.entry(0)
    AbortedTransaction(version=0, producer_id=7, first_offset=10, last_offset=15, last_stable_offset=13)
    """

    _ENTRY = AbortedTransaction
    __slots__ = ()

    _core: _core.TransactionIndex

    def __init__(
        self,
        path: StrPath,
        base_offset: int | None = None,
        writable: bool = False,  # noqa: FBT001, FBT002 - as the other indexes
        *,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: object | None = None,
    ) -> None:
        self._writable = _arguments.flag("writable", writable)
        self._path = _index_path(path, storage_options, filesystem, writable=self._writable)
        self._core = _core.TransactionIndex(
            self._path, _arguments.optional_integer("base_offset", base_offset, 0), self._writable
        )

    def append(self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> None:
        """Append an entry.

        Parameters
        ----------
        producer_id : int
            The producer of the transaction.
        first_offset : int
            The offset of its first record.
        last_offset : int
            The offset of its abort marker; above that of the entry appended before.
        last_stable_offset : int
            The last stable offset after the marker was written.

        Raises
        ------
        ValueError
            If the marker is not above the last one, or the index was opened for reading.
        """
        numbers = {
            "producer_id": producer_id,
            "first_offset": first_offset,
            "last_offset": last_offset,
            "last_stable_offset": last_stable_offset,
        }
        self._core.append(*(_arguments.integer(name, number) for name, number in numbers.items()))

    def collect_aborted(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the transactions that overlap a range of offsets.

        Parameters
        ----------
        fetch_offset, upper_bound : int
            The first offset of the range, and the first one after it.

        Returns
        -------
        tuple of list of AbortedTransaction and bool
            The transactions, and whether they are complete; otherwise later segments may hold more.
        """
        start = _arguments.integer("fetch_offset", fetch_offset)
        found, complete = self._core.collect_aborted(start, _arguments.integer("upper_bound", upper_bound))
        return [AbortedTransaction(*each) for each in found], complete


def _index_path(
    path: StrPath, storage_options: Mapping[str, Any] | None, filesystem: object | None, *, writable: bool
) -> str:
    if writable:
        return _arguments.local(path)
    return _arguments.path(storage.located(path, storage_options, filesystem))


def _int32(option: str, given: int) -> int:
    return _arguments.integer(option, given, -_arguments.INT32_MAX - 1, _arguments.INT32_MAX)


def _entry(n: int, entries: int) -> int:
    number = _arguments.integer("n", n)
    if not 0 <= number < entries:
        raise IndexError(f"there is no entry {number}: the index has {entries} entries")
    return number


def _values(targets: Iterable[Any]) -> list[int]:
    """Return Python ints; Arrow and NumPy arrays iterate as scalars of their own types."""
    for method in ("to_pylist", "tolist"):
        convert = getattr(targets, method, None)
        if convert is not None:
            targets = convert()
            break
    return [_arguments.integer("target", target) for target in targets]


def _arrow(entries: _core.Rows) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatchReader.from_stream(entries).read_next_batch()
