"""Writing a partition as a broker does: records from Arrow or Python, or the batches of another log.

A thin layer over ``_core.LogWriter``, which holds the lock of the log dir, recovers a log that was not closed cleanly,
and writes. Here arguments are checked and Python records are converted to Arrow.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kafkalog import _arguments, _core, _reprs
from kafkalog._times import to_millis
from kafkalog.config import Config, LogConfig, as_config, pairs
from kafkalog.reader import RecordReader, plan_ranges
from kafkalog.typing import ArrowArrayExportable, ArrowStreamExportable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import pyarrow as pa

    from kafkalog.typing import Paths

__all__ = ["AppendInfo", "LogWriter", "Record"]

_ROWS, _BYTES = 16_384, 8 << 20
_SYNC: tuple[Literal["config", "never", "append"], ...] = ("config", "never", "append")
_EXTRA = ("raise", "ignore")


Headers: TypeAlias = Sequence[tuple[str, bytes | None] | Mapping[str, Any]] | Mapping[str, bytes | None]


@dataclass(frozen=True)
class Record:
    """One record to write.

    Parameters
    ----------
    value : bytes or None
        None is a tombstone.
    key : bytes or None
        Required by compacted topics.
    timestamp : int or datetime, optional
        Milliseconds since the epoch, or a datetime with a time zone, rounded down to milliseconds. Default: the
        writer's clock.
    headers : sequence of (str, bytes or None), mapping or None
        Keys and values, in order; a key may occur more than once. Also in the form in which they are read: dicts of
        ``key`` and ``value``, or None.
    offset : int, optional
        Only for ``append(..., keep_offsets=True)``.
    """

    value: bytes | None = None
    key: bytes | None = None
    timestamp: int | datetime | None = None
    headers: Headers | None = ()
    offset: int | None = None


@dataclass(frozen=True)
class AppendInfo:
    """The result of an append.

    Attributes
    ----------
    first_offset, last_offset : int
        Offsets of the first and the last record; -1 if there is none.
    records : int
        Records appended.
    batches : int
        Kafka batches appended.
    bytes : int
        Bytes added to the log.
    rolled : int
        Segments started.
    max_timestamp : int
        The largest timestamp in milliseconds since the epoch; -1 if there is none.
    duplicates : int
        Batches that the log already contains, judged by their producer's sequence, and that were not appended again.
    seeming_unit : {"seconds", "microseconds", "nanoseconds"} or None
        The unit that timestamps seem to be in, where it is not milliseconds. Kafka takes seconds for times in 1970.
    """

    first_offset: int = -1
    last_offset: int = -1
    records: int = 0
    batches: int = 0
    bytes: int = 0
    rolled: int = 0
    max_timestamp: int = -1
    duplicates: int = 0
    seeming_unit: str | None = None

    def followed_by(self, other: AppendInfo) -> AppendInfo:
        """Return the sum of this append and a later one."""
        return AppendInfo(
            other.first_offset if self.batches == 0 else self.first_offset,
            self.last_offset if other.batches == 0 else other.last_offset,
            self.records + other.records,
            self.batches + other.batches,
            self.bytes + other.bytes,
            self.rolled + other.rolled,
            max(self.max_timestamp, other.max_timestamp),
            self.duplicates + other.duplicates,
            self.seeming_unit or other.seeming_unit,
        )


class LogWriter(_reprs.Closing):
    """Writes one partition of a log dir, as its leader or a follower does.

    A context manager. Opening takes the lock of the log dir (``.lock``), which keeps out brokers and other writers,
    creates missing folders, and recovers a partition that was not closed cleanly, as a broker does when it starts. If a
    job of the Spark sink died in the log dir, opening settles it first: what it appended is taken back unless it was
    committed.
    Closing flushes everything to disk and marks a clean shutdown; a broker can then mount the directory as it is.

    After a disk error the writer accepts no more data. What it acknowledged before is as safe as ``sync`` says, and the
    next opening recovers the rest.

    Parameters
    ----------
    log_dir : path or list of paths
        The log dir; created if it does not exist. Of several, the one that has the partition, or else the one with the
        fewest partitions.
    topic : str
        The topic's name.
    partition : int
        The partition's number.
    config : LogConfig, optional
        The topic's settings. Default: Kafka's defaults.
    topic_id : str, optional
        The topic's id in the cluster, as 22 characters of base64: written to ``partition.metadata``. A partition with
        another id is refused. Default: the id that the partition has, or none.
    cluster_id, node_id, directory_id : str, int, str, optional
        Identity of a new log dir, for its ``meta.properties``; without ``cluster_id`` that file is not written.
    leader_epoch : int
        The leader epoch of appended batches, not below the latest of the log. Default: the latest, or 0.
    clock : callable, optional
        Returns milliseconds since the epoch, for replays and tests. Default: the system's clock.
    sync : {"config", "never", "append"}
        When appended data is flushed to disk: as ``flush_messages`` and ``flush_ms`` say (with Kafka's defaults only
        when a segment is rolled, and on close), only on close, or before each append returns.
    batch_bytes : int
        Arrow rows are divided into Kafka batches of about this many bytes, before compression.
    extra : {"raise", "ignore"}
        What to do with input columns other than key, value, headers and timestamp.

    Raises
    ------
    LogLockedError
        When a broker, another writer or a job of the Spark sink holds the log dir.
    OSError
        When the folder is read-only, the disk is full, and the like.
    ValueError
        When an argument makes no sense, or the partition has another topic id. When a job of the Spark sink died here
        and its records cannot be distinguished from others; the message says how to settle it.

    Examples
    --------
    >>> config = kafkalog.LogConfig(compression_type="zstd")
    >>> with kafkalog.LogWriter("/data/kafka-logs", "orders", config=config) as writer:  # doctest: +SKIP
    ...     writer.append(table)
    """

    _NOT_PICKLED = "it holds the lock of its log dir; open one where it is needed"

    __slots__ = ("_config", "_extra", "_writer")

    def __init__(
        self,
        log_dir: Paths,
        topic: str,
        partition: int = 0,
        *,
        config: Config = None,
        topic_id: str | None = None,
        cluster_id: str | None = None,
        node_id: int | None = None,
        directory_id: str | None = None,
        leader_epoch: int | None = None,
        clock: Callable[[], int] | None = None,
        sync: Literal["config", "never", "append"] = "config",
        batch_bytes: int = 16_384,
        extra: Literal["raise", "ignore"] = "raise",
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {topic!r}")
        if clock is not None and not callable(clock):
            raise TypeError(f"clock must be a callable that returns milliseconds since the epoch, not {clock!r}")
        settings = pairs(config)
        dirs = _arguments.local_paths(log_dir)
        if any(os.path.lexists(f"{log_dir}/{_core.JOB_NOTE}") for log_dir in dirs):
            from kafkalog.spark import append_job

            append_job.settle_dead(dirs)
        self._config = as_config(config)
        self._extra = _arguments.choose("extra", extra, _EXTRA)
        self._writer = _core.LogWriter(
            dirs,
            topic,
            _arguments.integer("partition", partition, 0, (1 << 31) - 1),
            settings,
            topic_id=_arguments.text("topic_id", topic_id),
            cluster_id=_arguments.text("cluster_id", cluster_id),
            node_id=_arguments.optional_integer("node_id", node_id, 0, _arguments.INT32_MAX),
            directory_id=_arguments.text("directory_id", directory_id),
            leader_epoch=_arguments.optional_integer("leader_epoch", leader_epoch, 0, _arguments.INT32_MAX),
            clock=clock,
            sync=_arguments.choose("sync", sync, _SYNC),
            batch_bytes=_arguments.integer("batch_bytes", batch_bytes, 1, (1 << 31) - 1),
        )

    def __repr__(self) -> str:
        return f"<kafkalog.LogWriter {self.path}, {'closed' if self.closed else f'next offset {self.log_end_offset}'}>"

    def __exit__(self, kind: object = None, *_: object) -> None:
        if kind is None:
            self.close()
            return
        # The error of the block takes precedence; a log that failed cannot be closed cleanly.
        import contextlib

        with contextlib.suppress(Exception):
            self.close()

    @property
    def path(self) -> str:
        """The partition's folder."""
        return self._writer.path

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._writer.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._writer.partition

    @property
    def topic_id(self) -> str | None:
        """The topic's id, if ``partition.metadata`` has one."""
        return self._writer.topic_id

    @property
    def config(self) -> LogConfig:
        """The topic's settings."""
        return self._config

    @property
    def log_start_offset(self) -> int:
        """The first offset that is served."""
        return self._writer.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._writer.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below this offset has been flushed to disk."""
        return self._writer.recovery_point

    @property
    def highest_producer_id(self) -> int | None:
        """The highest id among the producers that a broker would still know after loading the log, or None.

        A cluster that assigns this id again takes the new producer's first records for duplicates, and discards them.
        """
        return self._writer.highest_producer_id

    @property
    def latest_leader_epoch(self) -> int | None:
        """The latest leader epoch in the log, or None for a log without batches."""
        return self._writer.latest_leader_epoch

    @property
    def closed(self) -> bool:
        """True if the writer is closed."""
        return self._writer.closed

    def append(
        self,
        data: object,
        *,
        keep_offsets: bool = False,
        extra: Literal["raise", "ignore"] | None = None,
    ) -> AppendInfo:
        """Append records at the end of the log.

        Columns are ``key`` and ``value`` (binary or text of any layout; one of them is required), ``headers`` (any kind
        of list of structs of key and value, or a map) and ``timestamp`` (any unit and zone, or int64 milliseconds; null
        means now). Dictionary and run-end encoded columns are accepted and not expanded. The rows are divided into
        batches of ``batch_bytes`` and compressed as the settings say.

        Parameters
        ----------
        data : Arrow data, or iterable of Arrow data and Record
            Any Arrow stream or array (``__arrow_c_stream__``, ``__arrow_c_array__``): a table, a record batch, a
            reader, a Polars or pandas frame, a DuckDB relation. Or any number of these, or of :class:`Record` objects,
            from a list or a generator.
        keep_offsets : bool
            Append as a follower: the column ``offset`` holds the offset of each record; offsets must increase and
            start at or after the end of the log. Like Kafka's follower, this accepts any timestamp, records without
            keys, and records larger than ``max_message_bytes``.
        extra : {"raise", "ignore"}, optional
            As for the class.

        Returns
        -------
        AppendInfo
            Offsets, counts, and the number of segments started.

        Raises
        ------
        InvalidRecordError
            For a batch larger than ``max_message_bytes``, a timestamp out of bounds, a null key on a compacted topic,
            or offsets that do not increase. What was appended before stays.
        ValueError
            For a schema without key and value, or with other columns, unless ``extra="ignore"``.
        OSError
            When the disk is full, for instance. The writer then accepts no more data; the batches that failed are
            rolled back, and the next writer, or ``recover``, continues after those before them.
        """
        _arguments.flag("keep_offsets", keep_offsets)
        chosen = self._extra if extra is None else _arguments.choose("extra", extra, _EXTRA)
        if isinstance(data, (ArrowStreamExportable, ArrowArrayExportable)):
            return self._append_arrow(data, keep_offsets=keep_offsets, extra=chosen)
        if isinstance(data, Record):
            raise TypeError("append takes an iterable of records; write append([record])")
        if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
            raise TypeError(f"{_TAKES}, not {type(data).__name__}")
        if self.closed:
            raise ValueError("the writer is closed")
        done = AppendInfo()
        for batch in as_arrow(data, keep_offsets=keep_offsets):
            info = self._append_arrow(batch, keep_offsets=keep_offsets, extra=chosen, first_row=done.records)
            done = done.followed_by(info)
        return done

    def _append_arrow(self, data: object, *, keep_offsets: bool, extra: str, first_row: int = 0) -> AppendInfo:
        ignore = extra == "ignore"
        try:
            done = self._writer.append(data, keep_offsets=keep_offsets, ignore_extra=ignore, first_row=first_row)
        except Exception as error:
            # A reader of ours keeps the whole error; its C stream carries only the text.
            if isinstance(data, RecordReader) and (cause := data.failure()) is not None:
                raise cause from error
            raise
        return AppendInfo(**done)

    def append_batches(self, source: Paths | RecordReader | _core.PartitionRange) -> AppendInfo:
        """Append whole batches of another log, as a follower does.

        Offsets, timestamps, leader epochs, producers, transactions, control records, headers and compression stay as
        they are, byte for byte. An empty log starts at the first offset of the source.

        Parameters
        ----------
        source : path, PartitionLog, LogDir or RecordReader
            A partition's folder, an open log, a log dir of one partition, or the reader that ``scan_batches`` or
            ``PartitionLog.batches`` returned, which may be bounded. Batches are never divided.

        Returns
        -------
        AppendInfo
            Offsets and counts.

        Raises
        ------
        InvalidRecordError
            When offsets do not increase, or start below the end of the log. What was appended before stays.
        CorruptRecordError
            When the source is damaged.
        ValueError
            When the source holds no partition or several, or starts with a leader epoch below the log's latest: Kafka's
            follower accepts that, but a reader could not tell it from a flipped bit.
        """
        if isinstance(source, _core.PartitionRange):
            # Planned by this package.
            ranges = [source]
        elif isinstance(source, RecordReader):
            ranges = source.take_batch_ranges()
        else:
            ranges = plan_ranges(_arguments.local_paths(source))
        if len(ranges) > 1:
            named = ", ".join(f"{each.topic}-{each.partition}" for each in ranges[:3])
            raise ValueError(f"append_batches takes the batches of one partition, not of {len(ranges)} ({named}, ...)")
        if not ranges:
            if isinstance(source, RecordReader):
                return AppendInfo()
            raise ValueError(f"append_batches takes the batches of one partition; {source} has none")
        if os.path.realpath(ranges[0].folder) == os.path.realpath(self.path):
            raise ValueError(f"{self.path}: a log cannot be appended to itself")
        return AppendInfo(**self._writer.append_batches(ranges[0]))

    def roll(self) -> None:
        """Start a new segment at the end of the log."""
        self._writer.roll()

    def flush(self) -> None:
        """Flush everything to disk: the ``.log``, then its indexes, then the folder."""
        self._writer.flush()

    def truncate(self, offset: int) -> bool:
        """Truncate the log so that it ends below an offset; a batch that contains the offset is removed whole.

        Returns False if the log already ends there or below.
        """
        return self._writer.truncate(_arguments.integer("offset", offset, 0))

    def truncate_fully(self, offset: int) -> None:
        """Remove all records; the next one gets this offset."""
        self._writer.truncate_fully(_arguments.integer("offset", offset, 0))

    def delete_records(self, before: int) -> bool:
        """Raise the log start offset, as Kafka's DeleteRecords does: records below it are no longer served.

        Parameters
        ----------
        before : int
            The first offset to serve. Segments below it stay until retention deletes them.

        Returns
        -------
        bool
            False if the log already starts there or above.

        Raises
        ------
        OffsetOutOfRangeError
            When it is beyond the end of the log.
        """
        return self._writer.delete_records(_arguments.integer("before", before, 0))

    def close(self) -> None:
        """Flush everything to disk, mark a clean shutdown, and release the lock. Closing twice does nothing."""
        self._writer.close()


_TAKES = "append takes Arrow data or an iterable of kafkalog.Record"


def as_arrow(data: Iterable[Any], *, keep_offsets: bool) -> Iterator[Any]:
    """Yield Arrow data as it is, and records as Arrow batches of some thousand rows."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("key", pa.large_binary()),
            ("value", pa.large_binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ("timestamp", pa.int64()),
            *([("offset", pa.int64())] if keep_offsets else []),
        ]
    )

    def arrow(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = zip(zip(*rows, strict=True), schema.types, strict=True)
        return pa.RecordBatch.from_arrays([pa.array(cells, kind) for cells, kind in columns], schema=schema)

    rows: list[tuple[Any, ...]] = []
    size = 0
    for each in data:
        if isinstance(each, Record):
            rows.append(_row(each, keep_offsets=keep_offsets))
            size += sum(len(part) for part in (each.key, each.value) if part is not None)
        elif not isinstance(each, (ArrowStreamExportable, ArrowArrayExportable)):
            raise TypeError(f"{_TAKES}, not of {type(each).__name__}")
        if rows and (len(rows) >= _ROWS or size >= _BYTES or not isinstance(each, Record)):
            yield arrow(rows)
            rows, size = [], 0
        if not isinstance(each, Record):
            yield each
    if rows:
        yield arrow(rows)


def _row(record: Record, *, keep_offsets: bool) -> tuple[Any, ...]:
    shaped = [] if record.headers is None else _headers(record.headers)
    moment = None if record.timestamp is None else to_millis(record.timestamp, "timestamp", up=False)
    for name, data in (("key", record.key), ("value", record.value)):
        if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"the {name} of a record must be bytes or None, not {data!r}")
    if not keep_offsets:
        if record.offset is not None:
            raise ValueError("a record may have an offset only with keep_offsets=True; otherwise the writer assigns it")
        return record.key, record.value, shaped or None, moment
    if record.offset is None:
        raise ValueError("keep_offsets=True requires the offset of every record")
    return record.key, record.value, shaped or None, moment, _arguments.integer("offset", record.offset, 0)


def _headers(given: Any) -> list[dict[str, Any]]:
    wrong = "the headers of a record must be pairs of str and bytes or None"
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise TypeError(f"{wrong}, not {given!r}")
    shaped = []
    for header in given.items() if isinstance(given, Mapping) else given:
        try:
            key, value = (header["key"], header["value"]) if isinstance(header, Mapping) else header
        except (KeyError, TypeError, ValueError):
            raise TypeError(f"{wrong}, not {header!r}") from None
        if not isinstance(key, str) or not (value is None or isinstance(value, (bytes, bytearray, memoryview))):
            raise TypeError(f"{wrong}, not {header!r}")
        shaped.append({"key": key, "value": value})
    return shaped
