"""The metadata log as tables: topics, brokers, ACLs, quotas and features of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, storage
from kafkalog.errors import KafkaLogError
from kafkalog.tables import _rows
from kafkalog.tables._image import TOPIC_CONFIG, MetadataImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from kafkalog.tables._image import ThingKey
    from kafkalog.tables._rows import Entry
    from kafkalog.typing import Paths

    # The rows for the key of a thing, also after the thing was removed from the image.
    Project = Callable[[MetadataImage, ThingKey], Iterable[dict[str, Any]]]

_TOPIC = "__cluster_metadata"

# Kafka's enumerations, by number.
_RESOURCE_TYPES = ("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER")
_PATTERN_TYPES = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_OPERATIONS = (
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
)
_PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def cluster_metadata(
    path: Paths,
    *,
    history: bool = False,
    secrets: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return what a broker's metadata image holds: the newest whole snapshot and the log after it, merged.

    Where the newest snapshot is damaged, an older one and the log after it hold the same. Skipped files, and
    records that cannot be applied, such as those of a newer Kafka, are in the metadata of the schema:
    ``kafkalog.unapplied`` is their number, ``kafkalog.notes`` a JSON list of lines. So it is in all tables from the
    metadata log.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs, the folder of ``__cluster_metadata`` or files of it.
    history : bool
        Return the changes instead: each thing as it was after each record about it.
    secrets : bool
        Show salts and keys of SCRAM users and values of sensitive configurations, which are ``"***"`` otherwise.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        The columns of ``records``. One row for each thing that exists (a topic, a partition, a broker, a setting and
        so on), in the order of creation: the record that registers, creates or sets it, with later changes merged into
        its JSON. Offset, timestamp and segment are those of the last record that changed it. With ``history``, also
        ``logOffset`` and ``logTimestamp``, and ``value`` is null where the record removed the thing.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If it does not hold ``__cluster_metadata``.
    CorruptRecordError
        If changes are missing: no whole snapshot covers a gap or damage in the log.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    columns: dict[str, pa.DataType] = {
        "topic": pa.string(),
        "partition": pa.int32(),
        "segment": pa.string(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "type": pa.string(),
        **dict.fromkeys(("keyVersion", "valueVersion"), pa.int16()),
        **dict.fromkeys(("key", "value"), pa.string()),
        **dict.fromkeys(("keyBytes", "valueBytes"), pa.binary()),
    }
    return _table(path, columns, _record, history=history, secrets=secrets)


def topics(
    path: Paths,
    *,
    history: bool = False,
    secrets: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the topics of the cluster and their partitions.

    Parameters
    ----------
    path, history, secrets
        As for ``cluster_metadata``; ``history`` gives each partition as it was after each record about it, with a null
        leader where it was removed.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each partition, sorted: ``topic``, ``topicId``, ``partition``, ``leader`` (-1 for none),
        ``leaderEpoch``, ``partitionEpoch``, ``replicas``, ``isr``, and ``configs``, a map of the topic's own settings.

    Raises
    ------
    FileNotFoundError, ValueError, CorruptRecordError
        As for ``cluster_metadata``.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    columns: dict[str, pa.DataType] = {
        "topic": pa.string(),
        "topicId": pa.string(),
        **dict.fromkeys(("partition", "leader", "leaderEpoch", "partitionEpoch"), pa.int32()),
        **dict.fromkeys(("replicas", "isr"), pa.list_(pa.int32())),
        "configs": pa.map_(pa.string(), pa.string()),
    }
    sort = ("topic", "partition")
    project = _topic_change if history else _topic
    return _table(path, columns, project, history=history, secrets=secrets, sort=sort)


def brokers(
    path: Paths,
    *,
    history: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the registered brokers; parameters and errors are those of :func:`cluster_metadata`.

    Parameters
    ----------
    path : path or list of paths
        As for :func:`topics`.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each broker, sorted: ``brokerId``, ``brokerEpoch``, ``incarnationId``, ``rack``, ``fenced``,
        ``inControlledShutdown``, ``endPoints`` (name, host, port, securityProtocol), ``features`` (name,
        minSupportedVersion, maxSupportedVersion), ``logDirs`` (ids).
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    text, number = pa.string(), pa.int16()
    columns: dict[str, pa.DataType] = {
        "brokerId": pa.int32(),
        "brokerEpoch": pa.int64(),
        "incarnationId": text,
        "rack": text,
        "fenced": pa.bool_(),
        "inControlledShutdown": pa.bool_(),
        "endPoints": pa.list_(
            pa.struct([("name", text), ("host", text), ("port", pa.int32()), ("securityProtocol", text)])
        ),
        "features": pa.list_(
            pa.struct([("name", text), ("minSupportedVersion", number), ("maxSupportedVersion", number)])
        ),
        "logDirs": pa.list_(text),
    }
    return _table(path, columns, _broker, history=history, sort=("brokerId",))


def acls(
    path: Paths,
    *,
    history: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the access control entries; parameters and errors are those of :func:`cluster_metadata`.

    Parameters
    ----------
    path : path or list of paths
        As for :func:`topics`.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each: ``id``, ``resourceType``, ``resourceName``, ``patternType``, ``principal``, ``host``,
        ``operation``, ``permissionType``, with Kafka's names (TOPIC, LITERAL, READ, ALLOW); sorted by resource.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    names = (
        *("id", "resourceType", "resourceName", "patternType"),
        *("principal", "host", "operation", "permissionType"),
    )
    sort = ("resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType", "id")
    return _table(path, dict.fromkeys(names, pa.string()), _acl, history=history, sort=sort)


def quotas(
    path: Paths,
    *,
    history: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the client quotas; parameters and errors are those of :func:`cluster_metadata`.

    Parameters
    ----------
    path : path or list of paths
        As for :func:`topics`.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each: ``entity``, a list of (entityType, entityName) whose name is null for the default, ``key`` and
        ``value``, as Kafka's records say; sorted.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    columns: dict[str, pa.DataType] = {
        "entity": pa.list_(pa.struct([("entityType", pa.string()), ("entityName", pa.string())])),
        "key": pa.string(),
        "value": pa.float64(),
    }
    return _table(path, columns, _quota, history=history, sort=("entity", "key"))


def features(
    path: Paths,
    *,
    history: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the features and their levels; parameters and errors are those of :func:`cluster_metadata`.

    Parameters
    ----------
    path : path or list of paths
        As for :func:`topics`.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each, sorted: ``name`` (``metadata.version`` is one), ``featureLevel``.
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    return _table(path, {"name": pa.string(), "featureLevel": pa.int16()}, _feature, history=history, sort=("name",))


def topic_names(path: Paths, unread: list[Exception]) -> dict[str, str]:
    """Return the names of topics by their ids, as far as the metadata log and the partitions' folders say.

    Why one of them cannot be read goes to ``unread``.
    """
    from kafkalog.tables.offsets import logs_of

    names = {}
    for log in logs_of(path, []).values():
        try:
            topic_id = log.topic_id
        except (KafkaLogError, OSError) as error:
            unread.append(error)
            continue
        if topic_id is not None:
            names[topic_id] = log.topic
    try:
        if _rows.has_topic(path, _TOPIC):
            entries, _ = _rows.metadata(path, history=True, partial=True)
            names |= {
                each.value["topicId"]: each.value["name"]
                for each in entries
                if each.type == "TOPIC_RECORD" and each.value
            }
    except (KafkaLogError, OSError) as error:
        unread.append(error)
    return names


def _table(
    path: Paths,
    columns: dict[str, pa.DataType],
    project: Project,
    *,
    history: bool,
    secrets: bool = False,
    sort: tuple[str, ...] = (),
) -> pa.Table:
    history, secrets = _arguments.flag("history", history), _arguments.flag("secrets", secrets)
    entries, notes = _rows.metadata(path, history=history, secrets=secrets)
    if history:
        return _rows.table(columns, _changes(entries, project), notes, history=True)
    image = MetadataImage()
    for entry in entries:
        image.apply(entry)
    rows = [row for key in image.things for row in project(image, key)]
    rows.sort(key=lambda row: [_sortable(row[name]) for name in sort])
    return _rows.table(columns, rows, notes)


def partial_image(path: Paths, *, secrets: bool) -> tuple[MetadataImage, _rows.Notes]:
    """Return the records of a metadata log, and its missing changes."""
    entries, notes = _rows.metadata(path, secrets=secrets, partial=True)
    image = MetadataImage()
    for entry in entries:
        image.apply(entry)
    return image, notes


def _sortable(value: Any) -> Any:
    if isinstance(value, list):
        return [_sortable(each) for each in value]
    if isinstance(value, dict):
        return [_sortable(each) for each in value.values()]
    return (value is not None, value if value is not None else "")


def _changes(entries: Iterable[Entry], project: Project) -> Iterator[_rows.Change]:
    image = MetadataImage()
    for entry in entries:
        changed = image.apply(entry)
        # A snapshot is where the log continues from.
        if not entry.segment.endswith(".checkpoint"):
            yield _rows.Change(entry.offset, entry.timestamp, [row for key in changed for row in project(image, key)])


def _record(image: MetadataImage, key: ThingKey) -> Iterator[dict[str, Any]]:
    import json

    thing = image.things.get(key)
    if thing is None:
        yield {"topic": _TOPIC, "partition": 0, "type": key[0]}
        return
    entry = thing.entry
    yield {
        "topic": _TOPIC,
        "partition": entry.partition,
        "segment": entry.segment,
        "offset": entry.offset,
        "timestamp": entry.timestamp,
        "type": thing.type,
        "valueVersion": thing.version,
        "value": json.dumps(thing.value, separators=(",", ":"), ensure_ascii=False),
    }


def _topic(image: MetadataImage, key: ThingKey) -> Iterator[dict[str, Any]]:
    """Rows of a partition; a setting of a topic concerns all of its partitions."""
    if key[0] == "PARTITION_RECORD":
        yield _partition(image, key)


def _topic_change(image: MetadataImage, key: ThingKey) -> Iterator[dict[str, Any]]:
    yield from _topic(image, key)
    if key[:2] == ("CONFIG_RECORD", TOPIC_CONFIG):
        for each in image.partitions_of(key[2]):
            yield _partition(image, each)


def _partition(image: MetadataImage, key: ThingKey) -> dict[str, Any]:
    _, topic_id, number = key
    name, thing = image.names.get(topic_id, ""), image.things.get(key)
    row: dict[str, Any] = {"topic": name or None, "topicId": topic_id, "partition": number}
    if thing is not None:
        row |= {each: thing.value[each] for each in ("leader", "leaderEpoch", "partitionEpoch", "replicas", "isr")}
        row["configs"] = sorted(image.configs.get((TOPIC_CONFIG, name), {}).items())
    return row


def _broker(image: MetadataImage, key: ThingKey) -> Iterator[dict[str, Any]]:
    if key[0] != "REGISTER_BROKER_RECORD":
        return
    thing = image.things.get(key)
    if thing is None:
        yield {"brokerId": key[1]}
        return
    value = thing.value
    names = ("brokerId", "brokerEpoch", "incarnationId", "rack", "fenced", "features", "logDirs")
    yield {
        **{name: value.get(name) for name in names},
        "inControlledShutdown": value.get("inControlledShutdown", False),
        "endPoints": [
            {**each, "securityProtocol": _named(_PROTOCOLS, each["securityProtocol"])} for each in value["endPoints"]
        ],
    }


def _acl(image: MetadataImage, key: ThingKey) -> Iterator[dict[str, Any]]:
    if key[0] != "ACCESS_CONTROL_ENTRY_RECORD":
        return
    thing = image.things.get(key)
    if thing is None:
        yield {"id": key[1]}
        return
    yield named_acl(thing.value)


def named_acl(value: dict[str, Any]) -> dict[str, Any]:
    """Return an access control entry with Kafka's names in place of numbers."""
    return {
        **value,
        "resourceType": _named(_RESOURCE_TYPES, value["resourceType"]),
        "patternType": _named(_PATTERN_TYPES, value["patternType"]),
        "operation": _named(_OPERATIONS, value["operation"]),
        "permissionType": _named(_PERMISSIONS, value["permissionType"]),
    }


def _quota(image: MetadataImage, key: ThingKey) -> Iterator[dict[str, Any]]:
    if key[0] != "CLIENT_QUOTA_RECORD":
        return
    thing = image.things.get(key)
    entity = [{"entityType": kind, "entityName": name} for kind, name in key[1]]
    yield {"entity": entity, "key": key[2], "value": None if thing is None else thing.value["value"]}


def _feature(image: MetadataImage, key: ThingKey) -> Iterator[dict[str, Any]]:
    if key[0] == "FEATURE_LEVEL_RECORD":
        thing = image.things.get(key)
        yield {"name": key[1], "featureLevel": 0 if thing is None else thing.value["featureLevel"]}


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)
