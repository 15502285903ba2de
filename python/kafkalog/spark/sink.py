"""Writes of ``format("kafkalog")``: rows with the columns of Spark's Kafka sink, into partitions of log dirs.

| column | type | |
|---|---|---|
| value | binary or string | required |
| key | binary or string | default: null |
| topic | string | required without the option ``topic``, which takes precedence |
| partition | int | null leaves the choice to the partitioner |
| headers | array of struct of key string and value binary | |
| timestamp | timestamp | null is the current time; Spark's own sink has no such column |

Tasks write files into the log dir, and ``commit`` appends them (``kafkalog.spark.commit``). Other columns are
ignored. A new topic gets all its partitions; an existing topic gets none, because the partitions that the log dirs lack
are in another log dir or on another broker.

Source: ``KafkaWriter``, ``KafkaWriteTask`` of Spark 4.3.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkalog import _core
from kafkalog.config import pairs
from kafkalog.errors import InvalidRecordError
from kafkalog.spark import append_job, commit, option_values
from kafkalog.spark.append_job import live_partitions
from kafkalog.spark.option_names import unknown_option
from kafkalog.spark.pyspark_private import freeze_imports
from kafkalog.spark.row_partitioner import Partitioner
from kafkalog.spark.source_options import parse_paths, parsed
from kafkalog.spark.topics import TopicPartition

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before Spark 4.1
    DataSourceStreamArrowWriter = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog.config import LogConfig

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
_OPTIONS = (
    *("path", "paths", "topic", "partitions", "compression.type", "max.message.bytes"),
    *("includeHeaders", "checkpointLocation", "failOnDataLoss", "stagingPath"),
)
# KafkaSourceProvider.kafkaParamsForProducer refuses them as well.
_REFUSED = {"kafka.key.serializer": "keys", "kafka.value.serializer": "values"}
# Values of compression.type under which Arrow data are not compressed.
_UNCOMPRESSED = ("producer", "uncompressed")
# The local property with the id of a task's query (``StreamExecution.QUERY_ID_KEY``); the checkpoint keeps the id.
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class TaskCommit(WriterCommitMessage):
    """Rows that one task has staged."""

    file: str
    rows: int
    # the query's id, in a stream
    query: str | None = None


@dataclass(frozen=True)
class Sink:
    """The target of a write, and how tasks stage rows for it."""

    paths: tuple[str, ...]
    topic: str | None
    partitions: int
    compression: str | None
    # the checkpoint of a stream, possibly empty; None in a batch
    stream: str | None
    max_message_bytes: int | None = None
    fail_on_data_loss: bool = True
    # where tasks write, if not into the first log dir
    staging: str | None = None
    # what the driver has written there, for executors to find
    staging_id: str | None = None
    # the partitions of topics as the driver sees them, where executors need not see the log dirs
    known: dict[str, frozenset[int]] | None = None
    job: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def staging_dir(self) -> str:
        """The folder that tasks write to: the same for the same log dirs, in any order."""
        return self.staging or min(self.paths, key=os.path.realpath)

    def prepared(self) -> Sink:
        """Prepare the staging folder, in the driver, and return what executors check it by."""
        known = None
        if self.staging is not None:
            known = commit.known_partitions(self.paths)
        token = commit.prepare_staging(self.staging_dir, self.job if self.stream is None else None)
        return dataclasses.replace(self, staging_id=token, known=known)

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Stage a task's rows, in batches of one partition each, in a file of this attempt."""
        import pyarrow as pa

        commit.check_staging(self.staging_dir, self.staging_id)
        query = None if self.stream is None else _query_id()
        file = commit.staged_file(self.staging_dir, query or self.job)
        sorter = _RowSorter(self)
        count = 0
        try:
            with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, _file_schema()) as writer:
                for batch in batches:
                    for part in sorter.parts(batch):
                        writer.write_batch(part)
                        count += part.num_rows
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        freeze_imports()
        return TaskCommit(str(file), count, query)

    def config(self) -> LogConfig:
        """Return the settings of the topics, checked."""
        from kafkalog.config import LogConfig

        given: dict[str, Any] = {}
        if self.compression is not None:
            # Producers say none, topics say uncompressed.
            given["compression_type"] = "uncompressed" if self.compression == "none" else self.compression
        if self.max_message_bytes is not None:
            given["max_message_bytes"] = self.max_message_bytes
        return LogConfig(**given)

    def commit(self, messages: list[TaskCommit | None], batch: int | None = None) -> None:
        """Append what the tasks have staged."""
        files = [message.file for message in messages if message is not None and message.rows]
        # A query whose checkpoint was deleted starts again with batch 0 in the same path, but with a new id.
        queries = [message.query for message in messages if message is not None and message.query]
        stream = queries[0] if queries else self.stream
        if files and stream == "":
            raise ValueError("Spark does not name the query of this stream; set the option checkpointLocation")
        commit.commit_files(
            self.paths,
            files,
            self.partitions,
            self.config(),
            staging=self.staging_dir,
            stream=stream,
            batch=batch,
            owners=self._owners(messages),
            # A batch without rows creates its topic too. A stream starts with batches without rows at any time.
            new_topic=self.topic if self.stream is None else None,
            fail_on_data_loss=self.fail_on_data_loss,
        )
        self._release()

    def abort(self, messages: list[TaskCommit | None]) -> None:
        """Remove what the tasks have staged, including failed attempts."""
        staging = Path(self.staging_dir)
        # A job that could not be undone is recognized by its rows.
        commit.discard(staging, self._owners(messages), append_job.noted_files(self.paths))
        self._release()

    def _release(self) -> None:
        # Executors know a stream's folder by what is in it, also in its next batch.
        if self.stream is None:
            commit.release({self.staging_dir, *append_job.real_dirs(self.paths)}, self.job)

    def _owners(self, messages: list[TaskCommit | None]) -> set[str]:
        """Name the jobs that have ended: a query's earlier drivers are dead, and its batches run one by one."""
        # A stream's batch is committed by another copy of this sink than its tasks have, with another job.
        return {self.job, *(commit.owner_of(message.file) for message in messages if message is not None)}


def _query_id() -> str | None:
    """Return the id of this task's query, if Spark provides it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(_QUERY_ID)


def _file_schema() -> pa.Schema:
    import pyarrow as pa

    headers = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    kinds: dict[str, pa.DataType] = {"topic": pa.string(), "partition": pa.int32(), "key": pa.binary()}
    kinds |= {"value": pa.binary(), "headers": headers, "timestamp": pa.timestamp("us", "UTC")}
    return pa.schema(list(kinds.items()))


class _RowSorter:
    """Sorts the rows of a task by topic and partition."""

    def __init__(self, sink: Sink) -> None:
        self._topic = sink.topic
        self._partitioner = Partitioner(sink.paths, sink.partitions, sink.known)
        self._rows = 0
        config = sink.config()
        # The commit finds out how large a compressed batch is.
        self._max_bytes = config.max_message_bytes if config.compression_type in _UNCOMPRESSED else None

    def parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Divide a batch into batches of one partition each; the order of rows in a partition is kept."""
        import pyarrow as pa

        schema = _file_schema()
        columns: dict[str, Any] = {}
        unread = {"topic"} if self._topic else set()
        for field in schema:
            given: Any = batch.column(field.name) if field.name in {*batch.schema.names} - unread else None
            if given is None:
                columns[field.name] = pa.nulls(batch.num_rows, field.type)
            elif field.name == "timestamp":
                zone = given.type.tz
                columns[field.name] = given.cast(pa.timestamp("us", zone)).cast(field.type)
            else:
                columns[field.name] = given.cast(field.type)
        rows: dict[TopicPartition, Any] = {}
        for topic, chosen in self._topics(columns["topic"], batch.num_rows):
            requested, keys = (
                columns[name] if chosen is None else columns[name].take(chosen) for name in ("partition", "key")
            )
            assigned = self._partitioner.assign(topic, requested, keys)
            rows |= _by_partition(topic, assigned, chosen)
        self._check_sizes(columns, rows)
        self._rows += batch.num_rows
        for place, chosen in rows.items():
            is_whole = len(chosen) == batch.num_rows
            part = {name: each if is_whole else each.take(chosen) for name, each in columns.items()}
            part["topic"] = pa.repeat(place.topic, len(chosen))
            part["partition"] = pa.repeat(pa.scalar(place.partition, pa.int32()), len(chosen))
            yield pa.RecordBatch.from_arrays(list(part.values()), schema=schema)

    def _topics(self, column: Any, count: int) -> Iterator[tuple[str, Any]]:
        """Yield the topics of a batch, each with its rows; None means all rows."""
        import pyarrow.compute as pc

        if self._topic:
            if count:
                yield self._topic, None
            return
        if column.null_count:
            row = pc.index(pc.is_null(column), value=True).as_py()
            raise ValueError(
                f"row {self._rows + row} of this task has no topic: fill the column topic, or set the option topic"
            )
        topics = pc.unique(column)
        for topic in topics:
            yield topic.as_py(), None if len(topics) == 1 else pc.indices_nonzero(pc.equal(column, topic))

    def _check_sizes(self, columns: Mapping[str, Any], rows: Mapping[TopicPartition, Any]) -> None:
        import pyarrow as pa

        if self._max_bytes is None:
            return
        counted = pa.record_batch({name: columns[name] for name in ("key", "value", "headers")})
        found = _core.check_sizes(counted, self._max_bytes)
        if found is None:
            return
        row, size = found
        place = next(place for place, chosen in rows.items() if row in chosen.to_pylist())
        raise InvalidRecordError(
            f"{place}: RecordTooLarge: batch size: expected at most {self._max_bytes} (max.message.bytes), found "
            f"{size} for row {self._rows + row} of this task alone"
        )


def _by_partition(topic: str, assigned: Any, chosen: Any) -> dict[TopicPartition, Any]:
    """Return the rows of each partition, in their order."""
    import pyarrow.compute as pc

    # The sort is stable.
    order = pc.sort_indices(assigned)
    counts = pc.value_counts(assigned.take(order))
    numbers = order if chosen is None else chosen.take(order)
    rows, first = {}, 0
    for each in counts.to_pylist():
        rows[TopicPartition(topic, each["values"])] = numbers.slice(first, each["counts"])
        first += each["counts"]
    return rows


class _TaskWriter:
    """The part of the batch and stream writers that runs in a task."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage one task's rows."""
        return self.sink.write(iterator)


class BatchWriter(_TaskWriter, DataSourceArrowWriter):
    """The writer of a batch."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append all rows, in the driver."""
        self.sink.commit(messages)  # type: ignore[arg-type]

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove all staged rows."""
        self.sink.abort(messages)  # type: ignore[arg-type]


if DataSourceStreamArrowWriter is not None:

    class StreamWriter(_TaskWriter, DataSourceStreamArrowWriter):
        """The writer of a stream."""

        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            """Append all rows of a batch, once."""
            self.sink.commit(messages, batchId)  # type: ignore[arg-type]

        def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
            """Remove all staged rows of a batch."""
            self.sink.abort(messages)  # type: ignore[arg-type]


def make_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Create the writer of a batch."""
    if overwrite:
        raise ValueError("a log cannot be overwritten, only appended to; use mode('append')")
    return BatchWriter(_sink(options, schema, None))


def make_stream_writer(options: Mapping[str, str], schema: StructType) -> Any:
    """Create the writer of a stream."""
    if DataSourceStreamArrowWriter is None:
        raise ValueError("writing a stream needs Spark 4.1 or newer")
    return StreamWriter(_sink(options, schema, options.get("checkpointlocation", "")))


def _sink(options: Mapping[str, str], schema: StructType, stream: str | None) -> Sink:
    given = _canonical(options)
    _check_schema(schema, has_topic="topic" in given)
    sink = Sink(
        paths=parse_paths(given),
        topic=given["topic"].strip() if "topic" in given else None,
        partitions=option_values.integer(given.get("partitions", 1), "a number of partitions above zero", least=1),
        compression=given["compression.type"].strip() if "compression.type" in given else None,
        stream=stream,
        max_message_bytes=option_values.integer(given["max.message.bytes"], "max.message.bytes", least=0)
        if "max.message.bytes" in given
        else None,
        fail_on_data_loss=parsed(given, "failOnDataLoss", option_values.boolean, default=True),
        staging=_staging(given),
    )
    # Report what the commit would refuse before anything is written.
    sink.config()
    if sink.topic is not None:
        _core.check_topic(sink.topic)
    for path in sink.paths:
        _core.check_log_dir(path)
    if sink.topic is not None and stream is None:
        places = [TopicPartition(sink.topic, number) for number in sorted(live_partitions(sink.paths, sink.topic))]
        commit.check_loads(list(sink.paths), places, pairs(sink.config()))
    return sink.prepared()


def _staging(given: Mapping[str, str]) -> str | None:
    """Return the option ``stagingPath``; a broker must not find it among its logs."""
    if "stagingPath" not in given:
        return None
    (path,) = parse_paths({"paths": [given["stagingPath"]]})
    if os.path.realpath(path) in append_job.real_dirs(parse_paths(given)):
        return None
    try:
        _core.check_output(path, [])
    except (OSError, ValueError) as error:
        raise ValueError(f"option stagingPath: {error}") from error
    return path


def _canonical(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options under the names of ``_OPTIONS``, without those of a producer that do not apply."""
    known = {name.lower(): name for name in _OPTIONS}
    given: dict[str, str] = {}
    for name, value in options.items():
        folded = name.lower()
        if folded in _REFUSED:
            raise ValueError(
                f"option {folded} is not supported: {_REFUSED[folded]} are bytes; convert them in the query"
            )
        if folded == "kafka.compression.type":
            folded = "compression.type"
        elif folded.startswith("kafka."):
            _log.warning(
                "kafkalog: option %s is ignored: it configures a producer, and logs are written without one", name
            )
            continue
        if folded not in known:
            raise unknown_option(name, _OPTIONS)
        if given.setdefault(known[folded], value) != value:
            raise ValueError("options kafka.compression.type and compression.type differ; set one of them")
    return given


def _check_schema(schema: StructType, *, has_topic: bool) -> None:
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise ValueError(
            "the rows have no column value, which is required; select one, as in `to_json(struct(*)) value`"
        )
    if "topic" not in types and not has_topic:
        raise ValueError("the rows have no topic; set the option topic, or add a column topic")
    for name, allowed in _TYPES.items():
        # The option takes precedence, whatever the column is.
        if name == "topic" and has_topic:
            continue
        if name in types and types[name] not in allowed:
            raise ValueError(f"column {name} is {types[name]}; cast it to {' or '.join(allowed)}")
