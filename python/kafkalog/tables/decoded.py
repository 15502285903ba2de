"""The records of internal topics, decoded whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core, storage
from kafkalog._renamed import renamed
from kafkalog.reader import RecordReader
from kafkalog.tables import _partial

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa

    from kafkalog.typing import Paths

# The key, in the metadata of the table's schema, of how many records could not be decoded.
UNDECODED = b"kafkalog.undecoded"
_METADATA = "__cluster_metadata"


@renamed("secrets")
def records(
    path: Paths,
    topics: str | Iterable[str] | None = None,
    *,
    secrets: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Decode every record of Kafka's internal topics.

    Keys and values become JSON, field for field what Kafka's own JSON converters give for the version in which they
    were written. All versions since Kafka 0.8.2 are known, up to those of Kafka 4.4. A record of an unknown kind or
    version, or one that is cut off, is no error: its bytes are returned as they are, and it is counted.

    Rows come by topic, partition and offset. Control records are left out. Of ``__cluster_metadata`` the snapshots are
    read, too, before the log: ``bootstrap.checkpoint`` of the log dir, then the ``.checkpoint`` files by offset. Each
    begins at offset 0.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs, a partition's folder, or files of one (``.log``, ``.checkpoint``).
    topics : str or iterable of str, optional
        Internal topics to read. Default: those that exist.
    secrets : bool
        Whether to show salts and keys of SCRAM users and values of sensitive configurations, which are ``"***"``
        otherwise. As for Kafka, a configuration that it does not know is sensitive.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row a record. The metadata of its schema has the number of records that could not be decoded, under
        ``kafkalog.undecoded``, and under ``kafkalog.partitions`` which partitions of the topics are here: a JSON list
        of what :func:`consumer_offsets` has of one topic.

        ==================== ==================== ======================================================================
        column               type                 meaning
        ==================== ==================== ======================================================================
        topic, partition     string, int32        where the record is
        segment              string               the file's name
        offset               int64                the record's offset
        timestamp            timestamp[ms, UTC]   the record's timestamp
        type                 string               Kafka's name of the record: ``OffsetCommit``, ``GroupMetadata``, ...;
                                                  in topics without keys ``TOPIC_RECORD``, ...; null if unknown
        keyVersion           int16                the key's version, which is the kind of the record; null in topics
                                                  without keys
        valueVersion         int16                the value's version; null for a tombstone
        key, value           string               JSON; null for a tombstone, and for what could not be decoded
        keyBytes, valueBytes binary               what could not be decoded; else null
        ==================== ==================== ======================================================================

    Raises
    ------
    FileNotFoundError
        When the path does not exist.
    ValueError
        For a topic that is not internal, or that does not exist.
    CorruptRecordError
        If the log itself is damaged.

    Examples
    --------
    >>> table = kafkalog.tables.records("/var/lib/kafka/data", topics="__consumer_offsets")  # doctest: +SKIP
    >>> table.select(["type", "key", "value"]).slice(0, 1).to_pylist()  # doctest: +SKIP
    [{'type': 'OffsetCommit', 'key': '{"group":"billing","topic":"orders","partition":0}',
      'value': '{"offset":1284,"leaderEpoch":-1,"metadata":"","commitTimestamp":1795230258267}'}]
    """
    path = storage.located(path, storage_options, filesystem)
    stream = _core.table_records(
        _arguments.paths(path),
        topics=_arguments.names("topics", topics),
        secrets=_arguments.flag("secrets", secrets),
    )
    table = RecordReader(stream).read_all()
    found = {str(topic) for topic in table["topic"].unique().to_pylist()} - {_METADATA}
    here = [_partial.coverage(path, topic) for topic in sorted(found)]
    return table.replace_schema_metadata(
        {
            UNDECODED: str(stream.undecoded()).encode(),
            _partial.COVERAGE: json.dumps(here).encode(),
        }
    )
