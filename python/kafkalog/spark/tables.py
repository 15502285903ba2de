"""``option("table", ...)``: the tables of ``kafkalog.tables`` as batch reads of ``format("kafkalog")``.

The topics that are replayed partition by partition are read by one task for each partition; the others by one task.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kafkalog.spark import option_values
from kafkalog.spark.option_names import STORAGE, of_store
from kafkalog.spark.source_options import PlaceOpener, given_paths, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from kafkalog.log import PartitionFolder
    from kafkalog.storage import Storage

_log = logging.getLogger("kafkalog.spark")

_RECORDS = (
    "topic string, partition int, segment string, offset bigint, timestamp timestamp, type string, "
    "keyVersion smallint, valueVersion smallint, key string, value string, keyBytes binary, valueBytes binary"
)
TABLES = {
    "records": _RECORDS,
    "consumer_offsets": "group string, topic string, partition int, offset bigint, leaderEpoch int, metadata string, "
    "commitTimestamp timestamp, expireTimestamp timestamp, topicId string, isPending boolean",
    "consumer_groups": "group string, groupType string, state string, epoch int, protocolType string, "
    "protocol string, leader string, memberId string, instanceId string, clientId string, clientHost string, "
    "rackId string, subscribedTopics array<string>, assignment array<struct<topic:string,partitions:array<int>>>",
    "lag": "group string, topic string, partition int, offset bigint, logStartOffset bigint, logEndOffset bigint, "
    "lag bigint",
    "transactions": "transactionalId string, producerId bigint, producerEpoch smallint, state string, timeoutMs int, "
    "startTimestamp timestamp, lastUpdateTimestamp timestamp, "
    "partitions array<struct<topic:string,partition:int>>",
    "open_transactions": "topic string, partition int, producerId bigint, producerEpoch smallint, firstOffset bigint, "
    "firstTimestamp timestamp, lastTimestamp timestamp, coordinatorEpoch int, transactionalId string, state string, "
    "isHanging boolean, blocksLastStableOffset boolean",
    "producers": "topic string, partition int, producerId bigint, producerEpoch smallint, lastSequence int, "
    "lastOffset bigint, lastTimestamp timestamp, coordinatorEpoch int, currentTransactionFirstOffset bigint",
    "topics": "topic string, topicId string, partition int, leader int, leaderEpoch int, partitionEpoch int, "
    "replicas array<int>, isr array<int>, configs map<string,string>",
    "cluster_metadata": _RECORDS,
    "brokers": "brokerId int, brokerEpoch bigint, incarnationId string, rack string, fenced boolean, "
    "inControlledShutdown boolean, "
    "endPoints array<struct<name:string,host:string,port:int,securityProtocol:string>>, "
    "features array<struct<name:string,minSupportedVersion:smallint,maxSupportedVersion:smallint>>, "
    "logDirs array<string>",
    "acls": "id string, resourceType string, resourceName string, patternType string, principal string, host string, "
    "operation string, permissionType string",
    "quotas": "entity array<struct<entityType:string,entityName:string>>, key string, value double",
    "features": "name string, featureLevel smallint",
    "schemas": "context string, subject string, version int, id int, guid string, schemaType string, schema string, "
    "references array<struct<name:string,subject:string,version:int>>, metadata string, ruleSet string, "
    "deleted string, keyFormat string, logOffset bigint, logTimestamp timestamp",
    "remote_segments": "topic string, topicId string, partition int, segmentId string, startOffset bigint, "
    "endOffset bigint, epochs map<int,bigint>, state string, source string, bytes bigint, isChosen boolean, "
    "reason string",
}
_METADATA = "__cluster_metadata"
_HISTORY = ", logOffset bigint, logTimestamp timestamp"
# Tables that a partition of a topic has a part of, and that topic.
_BY_PARTITION = {"consumer_offsets": "__consumer_offsets", "transactions": "__transaction_state"}
# Tables that may be of some partitions of a topic, and that topic.
_OF_TOPIC = {
    **_BY_PARTITION,
    **dict.fromkeys(("consumer_groups", "lag"), "__consumer_offsets"),
    "open_transactions": "__transaction_state",
}
_NO_HISTORY = {"records", "lag", "open_transactions", "producers", "remote_segments"}
_WITH_SECRETS = {"records", "cluster_metadata", "topics"}


@dataclass(frozen=True)
class _Table:
    # what URLs are in; unpickled in the task before anything is read
    stores: tuple[Storage, ...]
    name: str
    paths: tuple[str, ...]
    # arguments of the function in kafkalog.tables
    arguments: tuple[tuple[str, Any], ...]


class TablePartition(InputPartition):
    """One task: a part of a table."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths


class TableReader(DataSourceReader):
    """Reads a table, some columns of it."""

    def __init__(self, table: _Table, columns: tuple[str, ...]) -> None:
        self.table = table
        self.columns = columns

    def partitions(self) -> list[TablePartition]:
        """Plan a task for each partition of the topic, or one for the whole table."""
        self._warn_partial()
        topic = _BY_PARTITION.get(self.table.name)
        found = [] if topic is None else _folders(self.table.paths)
        folders = sorted(each.path for each in found if each.topic == topic and each.state == "live")
        return [TablePartition((folder,)) for folder in folders] or [TablePartition(self.table.paths)]

    def _warn_partial(self) -> None:
        """Say in the driver's log which partitions of the topic are not in these log dirs."""
        from kafkalog.tables._partial import coverage, missing_line

        paths = list(self.table.paths)
        topic = _OF_TOPIC.get(self.table.name)
        topics = [] if topic is None else [topic]
        if self.table.name == "records":
            found = {each.topic for each in _folders(self.table.paths)} - {_METADATA}
            topics = sorted(each for each in found if each.startswith("__"))
        for line in (missing_line(coverage(paths, each)) for each in topics):
            if line is not None:
                _log.warning("%s", line)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part of the table, in the task."""
        import pyarrow as pa

        from kafkalog import tables

        if not isinstance(partition, TablePartition):
            raise TypeError(f"expected a TablePartition, found {partition!r}")
        found = getattr(tables, self.table.name)(list(partition.paths) or None, **dict(self.table.arguments))
        found = found.select(list(self.columns))
        # Spark has times in microseconds only.
        fields = [
            field.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(field.type) else field
            for field in found.schema
        ]
        yield from found.cast(pa.schema(fields)).to_batches(max_chunksize=65_536)


def _folders(paths: tuple[str, ...]) -> list[PartitionFolder]:
    """Return the folders of log dirs; none where a path is not a log dir."""
    from kafkalog.tables._partial import folders_in

    found = [folders_in(path) for path in paths]
    return [] if None in found else [folder for folders in found for folder in folders or ()]


def table_schema(options: Mapping[str, str]) -> str:
    """Return the schema of the table that the options name."""
    table = _parsed(options)
    # That of schemas has these in any case.
    has_history = dict(table.arguments).get("history") and table.name != "schemas"
    return TABLES[table.name] + (_HISTORY if has_history else "")


def table_reader(options: Mapping[str, str], schema: StructType) -> TableReader:
    """Create the reader of a table for a schema: all columns, or some by name in any order."""
    table = _parsed(options)
    known = dict(each.split(" ") for each in table_schema(options).split(", "))
    for field in schema.fields:
        if field.name not in known:
            raise ValueError(f"table {table.name} has no column {field.name!r}; it has {', '.join(known)}")
        if field.dataType.simpleString() != known[field.name]:
            raise ValueError(
                f"column {field.name} must be declared {known[field.name]}, not {field.dataType.simpleString()}"
            )
    return TableReader(table, tuple(schema.fieldNames()))


def _parsed(options: Mapping[str, str]) -> _Table:
    opener = PlaceOpener(of_store(options))
    given = {name.lower(): value for name, value in options.items() if not name.lower().startswith(STORAGE)}
    name = given.pop("table").strip().lower()
    if name not in TABLES:
        raise ValueError(f"option table: expected one of {', '.join(TABLES)}, found {name!r}")
    places: dict[str, Any] = {key: given.pop(key) for key in ("path", "paths") if key in given}
    # A tier can be listed alone.
    is_alone = name == "remote_segments" and not places
    paths = () if is_alone else tuple(map(opener.open, given_paths(places)))
    arguments: dict[str, Any] = {}
    for option, tables in (("history", TABLES.keys() - _NO_HISTORY), ("secrets", _WITH_SECRETS)):
        value = given.pop(option, None)
        if value is not None and name not in tables:
            raise ValueError(f"option {option} does not apply to the table {name}")
        if value is not None and option_values.boolean(value):
            arguments[option] = True
    if name == "schemas" and "topic" in given:
        arguments["topic"] = given.pop("topic").strip()
    if name == "remote_segments":
        arguments |= _of_tier(given, opener)
    if given:
        raise ValueError(f"option {min(given)} does not apply to tables, which take path, paths, history and secrets")
    return _Table(tuple(opener.stores), name, paths, tuple(arguments.items()))


def _of_tier(given: dict[str, str], opener: PlaceOpener) -> dict[str, Any]:
    """Take the options about a tier."""
    arguments: dict[str, Any] = {}
    if "remote" in given:
        arguments["remote"] = opener.open(given.pop("remote").strip())
    if "remotelayout" in given:
        arguments["remote_layout"] = given.pop("remotelayout").strip()
    if "keyring" in given:
        arguments["keyring"] = parsed(given, "keyring", option_values.keyring)
        del given["keyring"]
    return arguments
