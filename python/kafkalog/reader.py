"""Records and batches as Arrow streams.

A thin layer over ``_core``, which plans and reads. Arguments are checked here, and pyarrow is imported only when a
pyarrow object is needed.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core, _reprs, _tiered
from kafkalog._loose import Loose, loose, naming, only
from kafkalog._typed_values import plan_decoding
from kafkalog.options import (
    ReadOptions,
    ScanBatchesKeywords,
    ScanKeywords,
    decode_arguments,
    expand_signature,
    merged,
    plan_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pandas as pd  # type: ignore[import-untyped]
    import polars as pl
    import pyarrow as pa
    from typing_extensions import Self, Unpack

    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.typing import Paths, StrPath

__all__ = ["RecordReader", "read_table", "scan", "scan_batches"]


class _Schema:
    """Makes an ``arrow_schema`` capsule readable for pyarrow."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


class _Stream:
    """Makes an ``arrow_array_stream`` capsule readable for pyarrow."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._capsule


class RecordReader(_reprs.Closing):
    """One pass over records, or over batches, as Arrow.

    Both an iterator of ``pyarrow.RecordBatch`` and an Arrow stream: ``pyarrow.table(reader)``,
    ``polars.DataFrame(reader)``, ``duckdb.sql("select ... from reader")`` and ``pandas.DataFrame.from_arrow(reader)``
    work. It can be read once; threads that iterate over it share its batches. In the ``view`` layout files stay mapped
    until the reader and all arrays from it are released; otherwise they are read by copy.

    Ctrl-C ends a read within a fraction of a second, even if no row passes the filter; the rest can then not be read.
    Other libraries report it as an error of the stream, and the ``KeyboardInterrupt`` follows.

    Obtained from :func:`scan`, :func:`scan_batches` and the methods of ``PartitionLog``.

    Examples
    --------
    >>> with kafkalog.scan("/var/lib/kafka/data", topics="orders") as reader:  # doctest: +SKIP
    ...     for batch in reader:
    ...         print(batch.num_rows)
    """

    _NOT_PICKLED = "it is a one-shot stream; pickle the path and a kafkalog.ReadOptions"

    __slots__ = ("_batches", "_closed", "_given", "_kept", "_lock", "_reading", "_stream")

    def __init__(self, stream: _core.RecordStream, kept: Loose | None = None) -> None:
        self._stream = stream
        # Its files are removed with the reader.
        self._kept = kept
        self._batches: pa.RecordBatchReader | None = None
        self._closed = False
        self._given = False
        # A C stream must not be called by two threads, least of all to close it.
        self._lock = RLock()
        # Nor twice in one thread: by the handler of a signal that arrives while it reads.
        self._reading = False

    def __repr__(self) -> str:
        read = self.metrics
        found = f": {read['records']} rows, {_reprs.size(read['bytes'])} read" if read["batches"] else ""
        return f"<kafkalog.RecordReader, {self._state()}{found}>"

    def _repr_html_(self) -> str:
        rows = [(field.name, field.type) for field in self.schema]
        read = self.metrics
        title = f"RecordReader, {self._state()}: {read['records']} rows, {_reprs.size(read['bytes'])} read"
        return _reprs.html_table(title, ("column", "type"), rows)

    def _state(self) -> str:
        if self._closed:
            return "closed"
        return "started" if self._given or self._batches is not None else "not started"

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            self._require_idle()
            batches = self._batches
            if batches is None:
                batches = self._opened()
            self._reading = True
            try:
                return batches.read_next_batch()
            except Exception:
                # The C stream carries only errno and text of the error.
                cause = self._stream.error()
                if cause is None:
                    raise
                if self._kept is not None:
                    self._kept.rename(cause)
                raise cause from None
            finally:
                self._reading = False
                if self._closed:
                    self._let_go()

    def __arrow_c_schema__(self) -> object:
        """Return the schema as an ``arrow_schema`` capsule."""
        return self._stream.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the unread rest as an ``arrow_array_stream`` capsule.

        Parameters
        ----------
        requested_schema : capsule, optional
            The schema that the consumer prefers. Columns (a subset of this reader's, in any order), their layout and
            time unit are read as requested; other types are cast. A schema with other columns is ignored, and so is,
            once batches have been read, one with fewer.

        Raises
        ------
        ValueError
            If the stream was taken before, or the reader is closed.
        """
        with self._lock:
            self._require_idle()
            self._require_open()
            source = self._stream if self._batches is None else self._batches
            capsule: object
            if requested_schema is None:
                capsule = source.__arrow_c_stream__()
            elif self._batches is None and self._stream.honours(requested_schema):
                capsule = self._stream.__arrow_c_stream__(requested_schema)
            else:
                import pyarrow as pa

                wanted = pa.schema(_Schema(requested_schema))  # type: ignore[arg-type]
                batches = self._batches or pa.RecordBatchReader.from_stream(self._stream, wanted)
                # Layout and time unit are read as requested; types that still differ are cast.
                if batches.schema != wanted and batches.schema.names == wanted.names:
                    batches = batches.cast(wanted)
                capsule = batches.__arrow_c_stream__()  # type: ignore[no-untyped-call]
            if self._kept is not None:
                capsule = self._kept_open(capsule, self._kept)
            self._given = True
            # The consumer learns of an interruption from Python, and of an error only the text.
            self._stream.will_ask(will=False)
            return capsule

    def _kept_open(self, capsule: object, kept: Loose) -> object:
        """Let a stream keep the temporary files that it reads, and its errors name the file that was given."""
        import pyarrow as pa

        source = pa.RecordBatchReader.from_stream(_Stream(capsule))

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from source
            except Exception:
                cause = self._stream.error()
                if cause is None:
                    raise
                kept.rename(cause)
                raise cause from None

        kept_open: object = pa.RecordBatchReader.from_batches(source.schema, batches()).__arrow_c_stream__()  # type: ignore[no-untyped-call]
        return kept_open

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        import pyarrow as pa

        return pa.schema(self._stream)  # type: ignore[arg-type]

    @property
    def metrics(self) -> dict[str, Any]:
        """Counters of what has been read so far.

        ``bytes`` of the batches examined; ``batches`` decoded; ``records`` returned as rows (for ``scan_batches`` both
        count its rows, and without ``check_crcs`` only headers are examined); ``skipped`` batches, by their header
        (outside the requested offsets or times, aborted, control); ``skipped_records`` in them, as far as headers say
        (from v2 on), and decoded ones outside the requested times; ``skipped_bytes`` of batches whose headers
        alone were read; ``copied`` bytes, the result of decompression; ``segments`` opened, and ``segments_lost``,
        deleted by retention between planning and reading; ``bytes_lost`` in ``lost`` ranges, skipped as damaged (see
        :attr:`lost`); ``undecoded`` records, of which a key or value could not be decoded, whether they are null or
        left out (``on_undecoded``), and ``unknown_fields`` of Protobuf messages, which their schemas do not have.

        Of object stores: ``requests``, those of planning and repeated ones among them; ``bytes_fetched``, also ahead of
        the reader; ``retries``; and ``seconds_waited`` for answers, a float.
        """
        return self._stream.metrics()

    @property
    def lost(self) -> pa.Table:
        """Ranges skipped so far because of damage, one row for each range, in the order of the files.

        Empty unless the read was opened with ``on_corrupt="skip"``; complete once it has ended. The bytes of the
        batches read and those skipped are the bytes of the files.

        Returns
        -------
        pyarrow.Table
            ``topic``, ``partition``, ``segment``; ``position`` and ``endPosition``, the first byte and the one after
            the last; ``firstOffset`` and ``lastOffset``, the offsets that may have been there, as narrow as the batches
            before and after prove: both null if there is no room for any, ``lastOffset`` null where nothing follows;
            ``reason``:

            ========== ==========================================================================================
            reason     fault of the first of the skipped bytes
            ========== ==========================================================================================
            crc        bytes of a batch were changed: the checksum differs
            length     the length field was changed
            magic      the magic was changed, or is unknown
            order      a whole batch in a wrong place: it was copied or moved, or its base offset or leader epoch,
                       which no checksum covers, was changed
            records    the checksum is right, and the records cannot be decoded
            codec      the checksum is right, and the records cannot be decompressed
            torn       a batch is incomplete: bytes are missing or were never written. Also the end of the active
                       segment where a write was cut off, or where it was preallocated
            foreign    bytes that are no batch, or that a tier cannot give
            missing    a whole segment: ``segment`` is the name it would have, both positions are 0. A gap between two
                       segments, in a log that was never compacted
            timestamp  a record whose timestamp no microseconds hold (``timestamp_unit="us"``); the rest of its batch
                       is read, and ``position`` and ``endPosition`` are where the batch begins
            ========== ==========================================================================================
        """
        return lost_table(self._stream)

    def read_all(self) -> pa.Table:
        """Read the unread rest into a ``pyarrow.Table``, in the batches in which it was read.

        A damaged log raises a :class:`CorruptRecordError`.
        """
        import pyarrow as pa

        # Batch by batch, so that Python handles a keyboard interrupt.
        return pa.Table.from_batches(list(self), schema=self.schema)

    def head(self, rows: int = 5) -> pa.Table:
        """Read at most this many unread rows into a ``pyarrow.Table``, and close the reader.

        ``scan(path, limit=rows)`` decodes less for it.
        """
        import pyarrow as pa

        missing = _arguments.integer("rows", rows, 0)
        batches: list[pa.RecordBatch] = []
        with self:
            while missing > 0 and (batch := next(self, None)) is not None:
                batches.append(batch.slice(0, missing))
                missing -= batches[-1].num_rows
            return pa.Table.from_batches(batches, schema=self.schema)

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Read the unread rest into a pandas frame.

        The options are those of ``pyarrow.Table.to_pandas``, for instance ``types_mapper=pandas.ArrowDtype``.
        """
        return self.read_all().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """Read the unread rest into a Polars frame."""
        import polars as pl

        return pl.DataFrame(self.read_all())

    def close(self) -> None:
        """Stop reading and release the files. Arrays from this reader stay valid."""
        with self._lock:
            self._closed = True
            self._kept = None
            if not self._reading:
                self._let_go()

    def failure(self) -> BaseException | None:
        """Return the exception that ended the read, for consumers of its C stream; None if there is none."""
        return self._stream.error()

    def take_batch_ranges(self) -> list[_core.PartitionRange]:
        """Take the ranges that a reader of batches would read, instead of reading them."""
        self._require_open()
        return self._stream.take_batch_ranges()

    def _let_go(self) -> None:
        if self._batches is not None:
            self._batches.close()
            self._batches = None
        self._stream.close()

    def _require_idle(self) -> None:
        if self._reading:
            raise ValueError("this reader is in use by the call that the signal interrupted")

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError("this reader is closed")

    def _opened(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        self._require_open()
        if self._batches is None:
            self._batches = pa.RecordBatchReader.from_stream(self._stream)
            self._stream.will_ask(will=True)
        return self._batches


def lost_table(stream: _core.RecordStream) -> pa.Table:
    """Return what a stream has skipped, as of :attr:`RecordReader.lost`."""
    import pyarrow as pa

    return pa.RecordBatchReader.from_stream(_Stream(stream.lost())).read_all()


@expand_signature(ScanKeywords)
def scan(
    path: Paths | None,
    topics: str | Iterable[str] | None = None,
    *,
    options: ReadOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    **keywords: Unpack[ScanKeywords],
) -> RecordReader:
    """Read records, by topic, partition and offset.

    Planning happens here: the reader returns what the files hold now. Decoding happens as the reader is read.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs, a partition's folder, or ``.log`` files. One file whose bytes begin with a batch is
        a segment whatever its name; its topic and partition are those that are named, else null. Also compressed (gzip,
        zstd, lz4), a ``.tar`` of a log dir, and ``-`` for standard input: at most 2 GiB go to temporary files. Or URLs
        of a store, such as ``s3://bucket/logs``; see :func:`kafkalog.storage.open_storage`.
    topics : str or iterable of str, optional
        Topics to read. Default: all but internal ones (``__...``).
    options : ReadOptions, optional
        Several options at once; keywords take precedence.
    storage_options : mapping, optional
        Options of the store that URLs are in, by the names of the object_store crate. Default: the environment.
    filesystem : object, optional
        A ``pyarrow.fs``, fsspec or obstore object that the path is in.
    remote : path, optional
        Tiered storage (KIP-405): what the keys of the broker's storage plugin begin with. Its segments and those of the
        log dirs are read as one log, as a broker serves it; with ``path=None`` the tier is read alone, up to where it
        ends. :func:`kafkalog.tables.remote_segments` lists it.
    remote_layout : {"auto", "local", "aiven"} or RemoteLayout
        How the plugin names and stores objects: ``LocalTieredStorage``, Aiven's plugin, or a class of your own.
    keyring : dict of str to path, optional
        Private keys in PEM by the id of their pair, for tiers that Aiven's plugin encrypted.
    **keywords
        Any option of :class:`kafkalog.ReadOptions`, which documents them all.

    Returns
    -------
    RecordReader
        Nothing is decoded before it is read.

    Raises
    ------
    FileNotFoundError
        When the path does not exist.
    ValueError
        For arguments that make no sense or name a topic that does not exist, and for a folder that has files, but none
        of Kafka's. :class:`LogDir` says which folders count as partitions.
    KafkaLogError
        When two of the folders hold the same partition, as in backups of several brokers. Read one of the two by its
        path, or leave out one log dir.
    """
    path = _tiered.located(
        path,
        remote=remote,
        remote_layout=remote_layout,
        keyring=keyring,
        topics=topics,
        storage_options=storage_options,
        filesystem=filesystem,
    )
    return _scan("scan", path, topics, options, keywords)


@expand_signature(ScanKeywords, threads=None)
def read_table(
    path: Paths | None,
    topics: str | Iterable[str] | None = None,
    *,
    options: ReadOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    **keywords: Unpack[ScanKeywords],
) -> pa.Table:
    """Read records into a table: ``scan(...).read_all()``, with the parameters of :func:`scan`.

    Where neither ``threads`` nor ``options`` is given, one thread for each processor decodes.

    Returns
    -------
    pyarrow.Table
        All requested records.
    """
    if options is None:
        keywords.setdefault("threads", None)
    path = _tiered.located(
        path,
        remote=remote,
        remote_layout=remote_layout,
        keyring=keyring,
        topics=topics,
        storage_options=storage_options,
        filesystem=filesystem,
    )
    with _scan("read_table", path, topics, options, keywords) as reader:
        return reader.read_all()


@expand_signature(ScanBatchesKeywords)
def scan_batches(
    path: Paths | None,
    topics: str | Iterable[str] | None = None,
    *,
    options: ReadOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    **keywords: Unpack[ScanBatchesKeywords],
) -> RecordReader:
    """Read Kafka's batches, one row each; nothing is decompressed.

    Except for compressed batches of v0 and v1, whose headers name only the last offset: ``baseOffset`` is in them.

    Parameters
    ----------
    path, topics, options, storage_options, filesystem, remote, remote_layout, keyring
        As for :func:`scan`; ``options`` may set only what is listed here.
    **keywords
        ``topic_pattern``, ``partitions``, ``include_inactive``, and where to begin and end (``starting_offsets``,
        ``ending_offsets``, ``starting_timestamp``, ``ending_timestamp``), as in :class:`kafkalog.ReadOptions`; a batch
        that overlaps the range counts. With ``check_crcs``, the default, ``isValid`` says whether the checksum holds;
        without it only headers are read (and those batches of v0 and v1) and ``isValid`` is null. With
        ``on_corrupt="skip"`` damaged batches are no rows but in ``RecordReader.lost``, and every checksum is checked.

    Returns
    -------
    RecordReader
        The columns are ``BATCH_COLUMNS``.
    """
    valid = ("topics", *ScanBatchesKeywords.__annotations__)
    path = _tiered.located(
        path,
        remote=remote,
        remote_layout=remote_layout,
        keyring=keyring,
        topics=topics,
        storage_options=storage_options,
        filesystem=filesystem,
    )
    return batch_reader(path, merged("scan_batches", valid, options, _with_topics(topics, keywords)))


def _scan(
    function: str,
    path: Paths,
    topics: str | Iterable[str] | None,
    options: ReadOptions | None,
    keywords: ScanKeywords,
) -> RecordReader:
    valid = ("topics", *ScanKeywords.__annotations__)
    wanted = merged(function, valid, options, _with_topics(topics, keywords))
    return record_reader(path, wanted)


def _with_topics(topics: str | Iterable[str] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    return {**keywords} if topics is None else {"topics": topics, **keywords}


def record_reader(path: Paths, options: ReadOptions) -> RecordReader:
    """Plan a read of records."""
    found = loose_of(path, options)
    ranges = _planned(path, found, options)
    decoding = plan_decoding(ranges, _arguments.paths(path), options)
    return RecordReader(_core.scan_ranges(ranges, decoding=decoding, **decode_arguments(options)), found)


def batch_reader(path: Paths, options: ReadOptions) -> RecordReader:
    """Plan a read of batches."""
    found = loose_of(path, options)
    ranges = _planned(path, found, options)
    stream = _core.scan_batch_ranges(ranges, check_crcs=options.check_crcs, on_corrupt=options.on_corrupt)
    return RecordReader(stream, found)


def loose_of(path: Paths, options: ReadOptions) -> Loose | None:
    """Return the input at a single path outside a log dir, under the one topic and partition that are named."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    numbers = _arguments.partitions(options.partitions)
    partition = only(numbers) if isinstance(numbers, list) else None
    return loose(path, only(_arguments.names("topics", options.topics)), partition)


def _planned(path: Paths, found: Loose | None, options: ReadOptions) -> list[_core.PartitionRange]:
    if found is None:
        return plan_ranges(path, options)
    with naming(found):
        return found.named(plan_ranges(found, options))


def plan_ranges(path: Paths, options: ReadOptions | None = None) -> list[_core.PartitionRange]:
    """Plan what to read, partition by partition."""
    return _core.plan(_arguments.paths(path), **plan_arguments(ReadOptions() if options is None else options))
