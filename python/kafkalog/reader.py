"""Records and batches as Arrow streams.

Sits on ``_core``: a scan is planned there as plain values and read there; here arguments are checked and pyarrow
comes in, and only when a pyarrow object is asked for.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Literal

from kafkalog import _arguments, _core
from kafkalog.schema import RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from types import TracebackType

    import pyarrow as pa
    from typing_extensions import Self

    from kafkalog.typing import EndingOffsets, Layout, Partitions, Paths, StartingOffsets, Timestamps, TimestampUnit

__all__ = ["RecordReader", "read_table", "scan", "scan_batches"]

_RECORD_COLUMN_NAMES = tuple(column.name for column in RECORD_COLUMNS)


class _Schema:
    """Lets pyarrow read an ``arrow_schema`` capsule."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


class RecordReader:
    """One pass over records, or over batches, as Arrow.

    An iterator of ``pyarrow.RecordBatch`` and an Arrow stream at once, so ``pyarrow.table(reader)``,
    ``polars.DataFrame(reader)``, ``duckdb.sql("select ... from reader")`` and ``pandas.DataFrame.from_arrow(reader)``
    all work. It can be read once; threads that iterate over it share its batches. In the ``view`` layout files stay
    mapped until it and every array from it are gone; otherwise they are read by copy.

    Ctrl-C ends a read within a fraction of a second, also where no row passes the filter; nothing can be read on then.
    Other libraries tell of it as an error of the stream, and the ``KeyboardInterrupt`` follows.

    Obtained from :func:`scan`, :func:`scan_batches` and the methods of ``PartitionLog``.

    Examples
    --------
    >>> with kafkalog.scan("/var/lib/kafka/data", topics="orders") as reader:  # doctest: +SKIP
    ...     for batch in reader:
    ...         print(batch.num_rows)
    """

    __slots__ = ("_batches", "_closed", "_given", "_lock", "_reading", "_stream")

    def __init__(self, stream: _core.RecordStream) -> None:
        self._stream = stream
        self._batches: pa.RecordBatchReader | None = None
        self._closed = False
        self._given = False
        # A C stream stands no second caller, least of all one that closes it.
        self._lock = RLock()
        # Nor one in the same thread: the handler of a signal that came while it reads.
        self._reading = False

    def __repr__(self) -> str:
        started = self._given or self._batches is not None
        state = "closed" if self._closed else "started" if started else "not started"
        return f"<kafkalog.RecordReader, {state}>"

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
                # What really happened: the C stream carried only its errno and text.
                cause = self._stream.error()
                if cause is None:
                    raise
                raise cause from None
            finally:
                self._reading = False
                if self._closed:
                    self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __arrow_c_schema__(self) -> object:
        """Give the schema as an ``arrow_schema`` capsule."""
        return self._stream.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Give what is left to read as an ``arrow_array_stream`` capsule.

        Parameters
        ----------
        requested_schema : capsule, optional
            What the consumer would like, at best: columns (fewer than this reader's, in any order), their layout and
            time unit are read as asked for, other types are cast to. One that names other columns is left aside, and
            once batches were read, one that names fewer is too.

        Raises
        ------
        ValueError
            When it was given before, or the reader is closed.
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
                # Layout and time unit are read as they were asked for; what then still differs is cast.
                if batches.schema != wanted and batches.schema.names == wanted.names:
                    batches = batches.cast(wanted)
                capsule = batches.__arrow_c_stream__()  # type: ignore[no-untyped-call]
            self._given = True
            # Whoever reads it hears of an interruption from Python, and of the failure only its text.
            self._stream.will_ask(will=False)
            return capsule

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        import pyarrow as pa

        return pa.schema(self._stream)  # type: ignore[arg-type]

    @property
    def metrics(self) -> dict[str, int]:
        """What has been read so far.

        ``bytes`` of the batches looked at; ``batches`` whose records were decoded; ``records`` given as rows (of
        ``scan_batches`` both are its rows, and without ``check_crcs`` only headers are looked at);
        ``skipped`` batches, which were passed over on their header (outside the offsets or times asked for, aborted,
        control); ``skipped_records`` in them, as far as headers say (not before v2), and decoded ones outside the times
        asked for; ``copied`` bytes that came out of decompression; ``segments`` opened, and ``segments_lost`` to
        retention between planning and reading.
        """
        return self._stream.metrics()

    @property
    def lost(self) -> pa.Table:
        """What damage has cost: one row for each range that was left out.

        Always empty in this version, in which damage ends the read with an error (``on_corrupt="raise"``).
        """
        import pyarrow as pa

        fields: list[tuple[str, pa.DataType]] = [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("segment", pa.string()),
            ("position", pa.int64()),
            ("endPosition", pa.int64()),
            ("firstOffset", pa.int64()),
            ("lastOffset", pa.int64()),
            ("reason", pa.string()),
        ]
        return pa.schema(fields).empty_table()

    def read_all(self) -> pa.Table:
        """Read what is left into a table.

        Returns
        -------
        pyarrow.Table
            All rows, in the batches in which they were read.

        Raises
        ------
        CorruptRecordError
            When the log is damaged; also its kin for other reasons.
        """
        import pyarrow as pa

        # Batch by batch, so that a keyboard interrupt is heard.
        return pa.Table.from_batches(list(self), schema=self.schema)

    def close(self) -> None:
        """Stop reading and let go of the files. Arrays that were given stay valid."""
        with self._lock:
            self._closed = True
            if not self._reading:
                self._let_go()

    def failure(self) -> BaseException | None:
        """Give what ended the reading, for those who saw only its C stream fail; None while all is well."""
        return self._stream.error()

    def take_batch_ranges(self) -> list[_core._Range]:
        """Take what a reader of batches was to read, instead of reading it."""
        self._require_open()
        return self._stream.take_batch_ranges()

    def _let_go(self) -> None:
        if self._batches is not None:
            self._batches.close()
            self._batches = None
        self._stream.close()

    def _require_idle(self) -> None:
        if self._reading:
            raise ValueError("this reader is being read by the call that this signal came into")

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


def scan(
    path: Paths,
    topics: str | Iterable[str] | None = None,
    *,
    topic_pattern: str | None = None,
    partitions: Partitions | None = None,
    columns: str | Iterable[str] | None = None,
    starting_offsets: StartingOffsets = "earliest",
    ending_offsets: EndingOffsets = "latest",
    starting_timestamp: Timestamps | None = None,
    ending_timestamp: Timestamps | None = None,
    min_offset: int | None = None,
    max_offset: int | None = None,
    min_timestamp: int | datetime | None = None,
    max_timestamp: int | datetime | None = None,
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    include_control: bool = False,
    include_inactive: bool = False,
    check_crcs: bool = True,
    on_corrupt: Literal["raise", "skip"] = "raise",
    layout: Layout = "binary",
    timestamp_unit: TimestampUnit = "ms",
    batch_rows: int = 65_536,
    batch_bytes: int = 2_097_152,
    threads: int = 1,
) -> RecordReader:
    """Read records, by topic, partition and offset.

    Planning happens here, so what is read is what the files hold now; decoding happens as the reader is read.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs, a partition's folder, or ``.log`` files.
    topics : str or iterable of str, optional
        Topics to read. Default: all but internal ones (``__...``).
    topic_pattern : str, optional
        A regular expression that matches the whole name of the topics to read.
    partitions : int, list of int or {topic: [int]}, optional
        Partitions to read. Default: all.
    columns : str or iterable of str, optional
        Names of ``RECORD_COLUMNS`` in any order; a column that is not asked for costs nothing.
        Default: key, value, topic, partition, offset, timestamp, timestampType, headers.
    starting_offsets : {"earliest", "oldest"}, int or {topic: {partition: int}}
        First offset to read: the log start offset as the broker has it, the first record that is still in the files,
        or an offset (-2 is earliest). From one below the log start offset reading begins there; behind the end there is
        nothing to read.
    ending_offsets : {"latest", "high_watermark"}, int or {topic: {partition: int}}
        First offset not to read: the end of the log, the checkpointed high watermark, or an offset (-1 is latest).
    starting_timestamp : int, datetime or {topic: {partition: int or datetime}}, optional
        Begin with the first record whose timestamp is at or after it. Milliseconds since the epoch, or a datetime with
        a time zone. Wins over ``starting_offsets``, as in Spark's Kafka source.
    ending_timestamp : int, datetime or {topic: {partition: int or datetime}}, optional
        End before the first record whose timestamp is at or after it. Wins over ``ending_offsets``.
    min_offset, max_offset : int, optional
        Leave out records with offsets outside, whatever the bounds above; both are inclusive. A partition that has
        none within them is no error.
    min_timestamp, max_timestamp : int or datetime, optional
        Leave out records with timestamps outside, both inclusive: milliseconds since the epoch, or a datetime with a
        time zone. Unlike ``starting_timestamp`` they hold for every record, also where times are out of order.
        Segments and batches that cannot hold such a record are passed over unread, so their checksums are not checked.
    isolation_level : {"read_uncommitted", "read_committed"}
        Read records of open and aborted transactions as well, or, as Kafka's consumer does, only those of committed
        transactions and of none. ``read_committed`` ends at the last stable offset, where the oldest open transaction
        begins: of the whole log, or of what lies below the high watermark when that is the end.
    include_control : bool
        Give control records (transaction markers and the like) as rows. Also under ``read_committed``, which leaves
        out the records of aborted transactions but not the markers that say so.
    include_inactive : bool
        Read ``-delete``, ``-future`` and ``-stray`` folders of a log dir too.
    check_crcs : bool
        Check every batch's checksum.
    on_corrupt : {"raise"}
        Damage ends the read with an error.
    layout : {"binary", "view"}
        ``view`` gives ``binary_view`` columns that point into the mapped files, without a copy.
    timestamp_unit : {"ms", "us"}
        Unit of the timestamp column; Spark wants ``us``. A record whose milliseconds it cannot hold is an
        ``InvalidRecordError``, as it is to Spark's Kafka source, where the column is asked for.
    batch_rows, batch_bytes : int
        An Arrow batch ends when it has this many rows or bytes of keys, values and headers; of views also when some
        megabytes that were copied or decompressed are kept for what points into them.
    threads : int
        Threads that decode, the one that reads among them; the order is kept.

    Returns
    -------
    RecordReader
        Nothing is decoded before it is read.

    Raises
    ------
    FileNotFoundError
        When there is no such path.
    ValueError
        For arguments that make no sense or name a topic that is not there, and for a folder in which nothing is Kafka's
        but something is.
    """
    _arguments.supported("on_corrupt", on_corrupt, ("raise",), ("skip",))
    wanted = _arguments.column_names(columns, _RECORD_COLUMN_NAMES)
    layout = _arguments.choose("layout", layout, ("binary", "view"))
    timestamp_unit = _arguments.choose("timestamp_unit", timestamp_unit, ("ms", "us"))
    batch_rows = _arguments.integer("batch_rows", batch_rows, 1)
    batch_bytes = _arguments.integer("batch_bytes", batch_bytes, 1)
    threads = _arguments.integer("threads", threads, 1, _arguments.MAX_THREADS)
    ranges = plan_ranges(
        path,
        topics=topics,
        topic_pattern=topic_pattern,
        partitions=partitions,
        starting_offsets=starting_offsets,
        ending_offsets=ending_offsets,
        starting_timestamp=starting_timestamp,
        ending_timestamp=ending_timestamp,
        min_offset=min_offset,
        max_offset=max_offset,
        min_timestamp=min_timestamp,
        max_timestamp=max_timestamp,
        isolation_level=isolation_level,
        include_inactive=include_inactive,
    )
    stream = _core.scan_ranges(
        ranges,
        columns=None if wanted is None else list(wanted),
        include_control=_arguments.flag("include_control", include_control),
        check_crcs=_arguments.flag("check_crcs", check_crcs),
        layout=layout,
        timestamp_unit=timestamp_unit,
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
        threads=threads,
    )
    return RecordReader(stream)


def read_table(
    path: Paths,
    topics: str | Iterable[str] | None = None,
    *,
    topic_pattern: str | None = None,
    partitions: Partitions | None = None,
    columns: str | Iterable[str] | None = None,
    starting_offsets: StartingOffsets = "earliest",
    ending_offsets: EndingOffsets = "latest",
    starting_timestamp: Timestamps | None = None,
    ending_timestamp: Timestamps | None = None,
    min_offset: int | None = None,
    max_offset: int | None = None,
    min_timestamp: int | datetime | None = None,
    max_timestamp: int | datetime | None = None,
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    include_control: bool = False,
    include_inactive: bool = False,
    check_crcs: bool = True,
    on_corrupt: Literal["raise", "skip"] = "raise",
    layout: Layout = "binary",
    timestamp_unit: TimestampUnit = "ms",
    batch_rows: int = 65_536,
    batch_bytes: int = 2_097_152,
    threads: int = 1,
) -> pa.Table:
    """Read records into a table: ``scan(...).read_all()``, with the parameters of :func:`scan`.

    Returns
    -------
    pyarrow.Table
        All records that were asked for.
    """
    with scan(
        path,
        topics=topics,
        topic_pattern=topic_pattern,
        partitions=partitions,
        columns=columns,
        starting_offsets=starting_offsets,
        ending_offsets=ending_offsets,
        starting_timestamp=starting_timestamp,
        ending_timestamp=ending_timestamp,
        min_offset=min_offset,
        max_offset=max_offset,
        min_timestamp=min_timestamp,
        max_timestamp=max_timestamp,
        isolation_level=isolation_level,
        include_control=include_control,
        include_inactive=include_inactive,
        check_crcs=check_crcs,
        on_corrupt=on_corrupt,
        layout=layout,
        timestamp_unit=timestamp_unit,
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
        threads=threads,
    ) as reader:
        return reader.read_all()


def scan_batches(
    path: Paths,
    topics: str | Iterable[str] | None = None,
    *,
    topic_pattern: str | None = None,
    partitions: Partitions | None = None,
    starting_offsets: StartingOffsets = "earliest",
    ending_offsets: EndingOffsets = "latest",
    starting_timestamp: Timestamps | None = None,
    ending_timestamp: Timestamps | None = None,
    include_inactive: bool = False,
    check_crcs: bool = True,
) -> RecordReader:
    """Read Kafka's batches, one row each; nothing is decompressed.

    Except for compressed batches of v0 and v1, whose headers name only the last offset: ``baseOffset`` is in them.

    Parameters
    ----------
    path, topics, topic_pattern, partitions
        As for :func:`scan`.
    starting_offsets, ending_offsets, starting_timestamp, ending_timestamp
        As for :func:`scan`; a batch that reaches into the range counts.
    include_inactive : bool
        As for :func:`scan`.
    check_crcs : bool
        Tell in ``isValid`` whether the checksum holds; without it only headers are read (and those batches of v0 and
        v1) and ``isValid`` is null.

    Returns
    -------
    RecordReader
        The columns are ``BATCH_COLUMNS``.
    """
    ranges = plan_ranges(
        path,
        topics=topics,
        topic_pattern=topic_pattern,
        partitions=partitions,
        starting_offsets=starting_offsets,
        ending_offsets=ending_offsets,
        starting_timestamp=starting_timestamp,
        ending_timestamp=ending_timestamp,
        include_inactive=include_inactive,
    )
    return RecordReader(_core.scan_batch_ranges(ranges, check_crcs=_arguments.flag("check_crcs", check_crcs)))


def plan_ranges(
    path: Paths,
    *,
    topics: str | Iterable[str] | None = None,
    topic_pattern: str | None = None,
    partitions: Partitions | None = None,
    starting_offsets: StartingOffsets = "earliest",
    ending_offsets: EndingOffsets = "latest",
    starting_timestamp: Timestamps | None = None,
    ending_timestamp: Timestamps | None = None,
    min_offset: int | None = None,
    max_offset: int | None = None,
    min_timestamp: int | datetime | None = None,
    max_timestamp: int | datetime | None = None,
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
    include_inactive: bool = False,
) -> list[_core._Range]:
    """Give what is to be read as plain values (``src/scan/range.rs``), one for each partition."""
    if topic_pattern is not None and not isinstance(topic_pattern, str):
        raise TypeError(f"topic_pattern is a regular expression as str, not {topic_pattern!r}")
    return _core.plan(
        _arguments.paths(path),
        topics=_arguments.names("topics", topics),
        topic_pattern=topic_pattern,
        partitions=_arguments.partitions(partitions),
        starting_offsets=_arguments.starting_offsets(starting_offsets),
        ending_offsets=_arguments.ending_offsets(ending_offsets),
        starting_timestamp=_arguments.timestamps("starting_timestamp", starting_timestamp),
        ending_timestamp=_arguments.timestamps("ending_timestamp", ending_timestamp),
        min_offset=None if min_offset is None else _arguments.integer("min_offset", min_offset),
        max_offset=None if max_offset is None else _arguments.integer("max_offset", max_offset),
        min_timestamp=None if min_timestamp is None else _arguments.timestamp("min_timestamp", min_timestamp),
        max_timestamp=None if max_timestamp is None else _arguments.timestamp("max_timestamp", max_timestamp, up=False),
        isolation_level=_arguments.choose("isolation_level", isolation_level, ("read_uncommitted", "read_committed")),
        include_inactive=_arguments.flag("include_inactive", include_inactive),
    )
