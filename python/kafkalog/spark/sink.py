"""``df.write.format("kafkalog")``: rows with the columns of Spark's Kafka sink into partitions of a log dir.

| column | type | |
|---|---|---|
| value | binary or string | required |
| key | binary or string | null without it |
| topic | string | required without the option ``topic``, which wins |
| partition | int | null is the partitioner's choice |
| headers | array of struct of key string and value binary | |
| timestamp | timestamp | null is now; Spark's own sink has no such column |

Tasks write files beside the log dir; ``commit`` appends them (``kafkalog.spark.publishing``). Other columns are passed
over. A topic that is not there gets all of its partitions; of one that is there, none is made: what a log dir does not
hold is another one's, or another broker's.

Source: ``KafkaWriter``, ``KafkaWriteTask`` of Spark 4.3.
"""

from __future__ import annotations

import dataclasses
import logging
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkalog import _core
from kafkalog.errors import InvalidRecordError
from kafkalog.spark import values
from kafkalog.spark.options import paths_of
from kafkalog.spark.partitioner import partition_for_key
from kafkalog.spark.publishing import discard, listed, partitions_of, publish, staging_of
from kafkalog.spark.worker import settle

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before Spark 4.1
    DataSourceStreamArrowWriter = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog.config import LogConfig

__all__ = ["Sink", "Written", "make_stream_writer", "make_writer"]

_log = logging.getLogger("kafkalog.spark")

_BYTES = ("binary", "string")
_TYPES: dict[str, tuple[str, ...]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}


# Settings under which Arrow data are not compressed.
_PLAIN = ("producer", "uncompressed")
# Spark's name for the query that a task belongs to (``StreamExecution.QUERY_ID_KEY``); its checkpoint keeps the id.
_QUERY = "sql.streaming.queryId"


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    file: str
    rows: int
    # of the stream, if it is one
    query: str | None = None


@dataclass(frozen=True)
class Sink:
    """Where rows go, and how a task makes files of them."""

    paths: tuple[str, ...]
    topic: str | None
    partitions: int
    compression: str | None
    # where a stream has its checkpoint, or nothing; None for a batch
    stream: str | None
    max_message_bytes: int | None = None
    job: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows, in batches of one partition each, under a name of this attempt's own."""
        import pyarrow as pa

        staging = staging_of(self.paths[0])
        staging.mkdir(parents=True, exist_ok=True)
        query = None if self.stream is None else _query()
        file = staging / f"{query or self.job}.{uuid.uuid4().hex}.arrows"
        chosen = _Chooser(self)
        count = 0
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, _file_schema()) as writer:
            for batch in batches:
                for part in chosen.parts(batch):
                    writer.write_batch(part)
                    count += part.num_rows
        settle()
        return Written(str(file), count, query)

    def config(self) -> LogConfig:
        """Give the settings of the topics, checked."""
        from kafkalog.config import LogConfig

        given: dict[str, Any] = {}
        if self.compression is not None:
            # A producer's word for it, and a topic's.
            given["compression_type"] = "uncompressed" if self.compression == "none" else self.compression
        if self.max_message_bytes is not None:
            given["max_message_bytes"] = self.max_message_bytes
        return LogConfig(**given)

    def commit(self, messages: list[Written | None], batch: int | None = None) -> None:
        """Append what the tasks wrote.

        Raises
        ------
        ValueError
            When a batch of a stream does not say whose it is: it could not be told from one that is there already.
        """
        files = [message.file for message in messages if message is not None and message.rows]
        # A checkpoint that was thrown away begins again with batch 0, under its old path but with a new id.
        queries = [message.query for message in messages if message is not None and message.query]
        stream = queries[0] if queries else self.stream
        if files and stream == "":
            raise ValueError("Spark names no query: the option checkpointLocation is required")
        publish(
            self.paths, files, self.partitions, self.config(), stream=stream, batch=batch, owners=self._owners(messages)
        )

    def abort(self, messages: list[Written | None]) -> None:
        """Remove what the tasks wrote, and what attempts that count for nothing left."""
        discard(staging_of(self.paths[0]), self._owners(messages))

    def _owners(self, messages: list[Written | None]) -> set[str]:
        """Whose files are done with: a query's earlier drivers are dead, and its batches come one after the other."""
        names = {Path(message.file).name for message in messages if message is not None}
        # What commits a stream's batch is another copy of this than what its tasks have, with another name.
        return {self.job, *(name.partition(".")[0] for name in names)}


def _query() -> str | None:
    """Give the id of the query that this task belongs to, if it does."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY)


def _file_schema() -> pa.Schema:
    import pyarrow as pa

    headers = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    kinds: dict[str, pa.DataType] = {"topic": pa.string(), "partition": pa.int32(), "key": pa.binary()}
    kinds |= {"value": pa.binary(), "headers": headers, "timestamp": pa.timestamp("us", "UTC")}
    return pa.schema(list(kinds.items()))


class _Chooser:
    """Sorts rows by topic and partition; keeps which partitions topics have, and whose turn it is."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._there: dict[str, frozenset[int]] = {}
        self._turn = uuid.uuid4().int
        self._rows = 0
        config = sink.config()
        # How large a batch is when it is compressed, the commit finds out.
        self._most = config.max_message_bytes if config.compression_type in _PLAIN else None

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Give a batch's rows as batches of one partition each, in the order of the rows within it."""
        import pyarrow as pa

        schema = _file_schema()
        columns: dict[str, Any] = {}
        unread = {"topic"} if self._sink.topic else set()
        for field in schema:
            given: Any = batch.column(field.name) if field.name in {*batch.schema.names} - unread else None
            if given is None:
                columns[field.name] = pa.nulls(batch.num_rows, field.type)
            elif field.name == "timestamp":
                zone = given.type.tz
                columns[field.name] = given.cast(pa.timestamp("us", zone)).cast(field.type)
            else:
                columns[field.name] = given.cast(field.type)
        topics = [self._sink.topic] * batch.num_rows if self._sink.topic else columns["topic"].to_pylist()
        rows: dict[tuple[str, int], list[int]] = {}
        asked = columns["partition"].to_pylist()
        for row, (topic, key) in enumerate(zip(topics, columns["key"].to_pylist(), strict=True)):
            if topic is None:
                raise ValueError("a row has no topic: its column is null, and the option topic is not set")
            rows.setdefault((topic, self._partition(topic, asked[row], key)), []).append(row)
        self._check_sizes(columns, rows)
        self._rows += batch.num_rows
        for (topic, partition), chosen in rows.items():
            columns["topic"] = pa.array([topic] * batch.num_rows, pa.string())
            columns["partition"] = pa.array([partition] * batch.num_rows, pa.int32())
            whole = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
            yield whole if len(chosen) == batch.num_rows else whole.take(pa.array(chosen, pa.int64()))

    def _check_sizes(self, columns: Mapping[str, Any], rows: Mapping[tuple[str, int], list[int]]) -> None:
        import pyarrow as pa

        if self._most is None:
            return
        counted = pa.record_batch({name: columns[name] for name in ("key", "value", "headers")})
        found = _core.check_sizes(counted, self._most)
        if found is None:
            return
        row, size = found
        place = next(f"{topic}-{partition}" for (topic, partition), chosen in rows.items() if row in chosen)
        raise InvalidRecordError(
            f"{place}: RecordTooLarge: batch size: expected at most {self._most} (max.message.bytes), found {size} "
            f"with row {self._rows + row} of this task alone"
        )

    def _partition(self, topic: str, asked: int | None, key: bytes | None) -> int:
        if topic not in self._there:
            _core.check_topic(topic)
            found = partitions_of(self._sink.paths, topic)
            self._there[topic] = found or frozenset(range(self._sink.partitions))
        there = self._there[topic]
        if asked is not None and asked in there:
            return asked
        number = max(there) + 1
        if asked is not None and not 0 <= asked < number:
            raise ValueError(
                f"a row asks for partition {asked} of {topic}, which has {number}; the option partitions gives a "
                "new topic more, and without the column partition keys decide"
            )
        if len(there) < number:
            what = "no place for a row" if asked is None else f"no partition {asked}"
            raise ValueError(
                f"there is {what} of {topic}: of its partitions these log dirs hold {listed(there)} only. The others "
                "are in another log dir, or another broker's: name all log dirs, or only write what belongs here"
            )
        if key is not None:
            return partition_for_key(key, number)
        self._turn += 1
        return self._turn % number


class BatchWriter(DataSourceArrowWriter):
    """The sink of a batch."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write one task's rows, in the task."""
        return self.sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append all, in the driver."""
        self.sink.commit(messages)  # type: ignore[arg-type]

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove all."""
        self.sink.abort(messages)  # type: ignore[arg-type]


if DataSourceStreamArrowWriter is not None:

    class StreamWriter(DataSourceStreamArrowWriter):
        """The sink of a stream."""

        def __init__(self, sink: Sink) -> None:
            self.sink = sink

        def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
            """Write one task's rows, in the task."""
            return self.sink.write(iterator)

        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            """Append all of a batch, once."""
            self.sink.commit(messages, batchId)  # type: ignore[arg-type]

        def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
            """Remove all of a batch."""
            self.sink.abort(messages)  # type: ignore[arg-type]


def make_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Make the writer of a batch.

    Raises
    ------
    ValueError
        For options and columns that make no sense, and the mode ``overwrite``: a log is only appended to.
    """
    if overwrite:
        raise ValueError("a log is only appended to: mode('append') is the one there is")
    return BatchWriter(_sink(options, schema, None))


def make_stream_writer(options: Mapping[str, str], schema: StructType) -> Any:
    """Make the writer of a stream.

    Raises
    ------
    ValueError
        For options and columns that make no sense.
    """
    if DataSourceStreamArrowWriter is None:
        raise ValueError("writing a stream needs Spark 4.1")
    return StreamWriter(_sink(options, schema, options.get("checkpointlocation", "")))


_KNOWN = (
    *("path", "paths", "topic", "partitions", "compression.type", "max.message.bytes"),
    *("includeHeaders", "checkpointLocation"),
)
# KafkaSourceProvider.kafkaParamsForProducer refuses them as well.
_REFUSED = {"kafka.key.serializer": "keys", "kafka.value.serializer": "values"}


def _sink(options: Mapping[str, str], schema: StructType, stream: str | None) -> Sink:
    given = _given(options)
    _check_schema(schema, has_topic="topic" in given)
    made = Sink(
        paths=paths_of(given),
        topic=given["topic"].strip() if "topic" in given else None,
        partitions=values.integer(given.get("partitions", 1), "a number of partitions above zero", least=1),
        compression=given["compression.type"].strip() if "compression.type" in given else None,
        stream=stream,
        max_message_bytes=values.integer(given["max.message.bytes"], "max.message.bytes", least=0)
        if "max.message.bytes" in given
        else None,
    )
    # What the commit would refuse is better known before anything is written.
    made.config()
    if made.topic is not None:
        _core.check_topic(made.topic)
    return made


def _given(options: Mapping[str, str]) -> dict[str, str]:
    """Spell the options as the table does, and leave out those of a producer that have no meaning here."""
    import difflib

    known = {name.lower(): name for name in _KNOWN}
    given: dict[str, str] = {}
    for name, value in options.items():
        plain = name.lower()
        if plain in _REFUSED:
            raise ValueError(f"option {plain} is not supported: {_REFUSED[plain]} are bytes")
        if plain == "kafka.compression.type":
            plain = "compression.type"
        elif plain.startswith("kafka."):
            _log.warning(
                "kafkalog: option %s is ignored: it is for a producer, and here a log is written without one", name
            )
            continue
        if plain not in known:
            nearest = difflib.get_close_matches(plain, known, n=1, cutoff=0)
            raise ValueError(f"unknown option {name!r}; did you mean {known[nearest[0]]!r}?")
        if given.setdefault(known[plain], value) != value:
            raise ValueError("options kafka.compression.type and compression.type say different things")
    return given


def _check_schema(schema: StructType, *, has_topic: bool) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise ValueError("required column 'value' not found")
    if "topic" not in types and not has_topic:
        raise ValueError("the option topic is required when there is no column 'topic'")
    for name, allowed in _TYPES.items():
        # The option wins, whatever the column is.
        if name == "topic" and has_topic:
            continue
        if name in types and types[name] not in allowed:
            raise ValueError(f"column {name} is {types[name]}; it must be {' or '.join(allowed)}")
