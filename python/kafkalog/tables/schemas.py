"""Schemas of a schema registry, from the topic that it keeps them in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments, _core, storage
from kafkalog.tables import _partial, _rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from kafkalog.typing import Paths

TOPIC = "_schemas"


def schemas(
    path: Paths,
    *,
    history: bool = False,
    topic: str = TOPIC,
    on_corrupt: Literal["raise", "skip"] = "raise",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Return the schemas that a schema registry has in its topic, as it has them after loading, and those it deleted.

    The topic is the one of Confluent's registry, Karapace, and Redpanda's where it was copied to Kafka. What the
    registry has deleted for good is listed while its record is still in the log: it decodes records all the same.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs, a folder of the topic or a ``.log`` file of it.
    history : bool
        Return every change instead of the current state.
    topic : str
        The registry's topic, if it is not ``_schemas`` (``kafkastore.topic``).
    on_corrupt : {"raise", "skip"}
        ``"skip"`` continues after damage, which the schema's metadata names: ``kafkalog.unread``, a JSON list.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.

    Returns
    -------
    pyarrow.Table
        One row for each version of a subject, in the order in which they were registered; a version whose schema has
        changed, or that was registered again after it was deleted for good, has a row for each schema.

        ======================= ==================== ==================================================================
        column                  type                 meaning
        ======================= ==================== ==================================================================
        context                 string               where the id counts: ``.``, or ``.ctx`` for ``:.ctx:subject``
        subject, version        string, int32
        id                      int32                the schema's id in its context
        guid                    string               the schema's id everywhere, by its content
        schemaType              string               ``AVRO``, ``PROTOBUF`` or ``JSON``
        schema                  string               its text
        references              list of struct       ``name``, ``subject``, ``version`` of each schema that it refers to
        metadata, ruleSet       string               JSON; null without. Rules of type ``ENCRYPT`` say that fields are
                                                     encrypted by the client: they decode to what was encrypted
        deleted                 string               ``no``; ``soft``: it can be read by its id, and restored; ``hard``:
                                                     the registry has forgotten it, the log has not
        keyFormat               string               ``canonical``; ``old``: a key as older registries wrote it, which
                                                     compaction keeps beside the one of today: a schema that is deleted
                                                     for good comes back when the registry next starts
        logOffset, logTimestamp int64, timestamp     of the last record that holds it; in a history of the change
        ======================= ==================== ==================================================================

        With ``history``, one row for each registration and deletion, in the order of the records. A deletion has what
        is known of the schema; all is null from ``id`` to ``references`` where compaction has removed it.

        Records that the registry leaves out as well, such as those without a schema, are counted in the metadata of the
        table's schema: ``kafkalog.unapplied`` is their number; ``kafkalog.notes``, a JSON list, names them, and ids
        that were given to several schemas: the first one keeps the id.

    Raises
    ------
    FileNotFoundError
        If the path does not exist.
    ValueError
        If it does not hold the topic.
    CorruptRecordError
        If the log is damaged.

    Examples
    --------
    >>> table = kafkalog.tables.schemas("/var/lib/kafka/data")  # doctest: +SKIP
    >>> table.filter(pc.field("subject") == "orders-value")["schema"][-1].as_py()  # doctest: +SKIP
    """
    path = storage.located(path, storage_options, filesystem)
    import pyarrow as pa

    on_corrupt = _arguments.choose("on_corrupt", on_corrupt, ("raise", "skip"))
    if not isinstance(topic, str):
        raise TypeError(f"topic must be a str, not {topic!r}")
    history = _arguments.flag("history", history)
    parts, (duplicates, unapplied, named, lost) = _core.table_schemas(
        _arguments.paths(path), topic=topic, history=history, on_corrupt=on_corrupt
    )
    notes = _rows.Notes()
    notes.add(unapplied, named)
    table = notes.put(pa.concat_tables(map(pa.table, parts)))
    table = _rows.with_notes(table, [*duplicates, *notes.lines])
    unread = [_line(row) for row in pa.table(lost).to_pylist()]
    metadata = {**table.schema.metadata, **({_partial.UNREAD: json.dumps(unread).encode()} if unread else {})}
    return table.replace_schema_metadata(metadata)


def _line(row: dict[str, Any]) -> str:
    """Write about a range that was skipped as damaged."""
    first, last = row["firstOffset"], row["lastOffset"]
    offsets = "no offsets" if first is None else f"offsets {first} to {'the end' if last is None else last}"
    place = f"{row['topic']}-{row['partition']}/{row['segment']}"
    return f"{place}: bytes {row['position']} to {row['endPosition'] - 1}: skipped ({row['reason']}): {offsets}"
