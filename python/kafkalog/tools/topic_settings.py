"""Topic settings for maintenance: the caller's, or those in the metadata log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from kafkalog import _places
from kafkalog.config import Config, LogConfig, pairs
from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.log import LogDir, partition_at
from kafkalog.tables import _rows, cluster

_METADATA = "__cluster_metadata"
# As brokers create them. What a caller wants for all topics would delete the state of groups and transactions.
_INTERNAL: dict[str, dict[str, object]] = {
    "__consumer_offsets": {"cleanup.policy": "compact", "segment.bytes": 104_857_600},
    "__transaction_state": {"cleanup.policy": "compact", "segment.bytes": 104_857_600},
    "__share_group_state": {"cleanup.policy": "delete", "retention.ms": -1, "segment.bytes": 104_857_600},
    "__remote_log_metadata": {"cleanup.policy": "delete", "retention.ms": -1},
}
_KNOWN = {field.name.replace("_", ".") for field in fields(LogConfig)}


@dataclass(frozen=True)
class TopicSettings:
    """The settings of topics."""

    # those of topics that are not in ``topics``; None if they are unknown
    others: LogConfig | None
    topics: dict[str, LogConfig]
    # topics that the metadata log has
    noted: frozenset[str]
    # skipped files of the metadata log, and records of it that cannot be applied
    notes: tuple[str, ...] = ()

    def of(self, topic: str) -> LogConfig | None:
        """Return a topic's settings; None if they are unknown."""
        return self.topics.get(topic, self.others)

    def compressed(self, codec: str | None) -> TopicSettings:
        """Return them with this ``compression.type``; without one, batches keep their own codecs."""
        kind = "producer" if codec is None else codec

        def changed(config: LogConfig) -> LogConfig:
            return replace(config, compression_type=kind)

        topics = {topic: changed(config) for topic, config in self.topics.items()}
        return replace(self, others=changed(self.others or LogConfig()), topics=topics)

    def source_of(self, topic: str) -> str:
        """Say where a topic's settings come from: ``metadata``, ``given`` or ``default``."""
        if topic in self.topics:
            return "metadata" if topic in self.noted else "default"
        return "default" if self.others is None else "given"

    def require(self, topics: set[str], path: str) -> None:
        """Refuse topics whose settings are unknown: Kafka's defaults would delete what the topic may have to keep."""
        unknown = sorted(topic for topic in topics if self.of(topic) is None)
        if unknown:
            more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
            raise ValueError(
                f"{path}: the settings of topic {unknown[0]!r}{more} are not known: no metadata log has them; "
                'give them as config, for instance {"cleanup.policy": "delete", "retention.ms": "604800000"}'
            )

    def compiled(self) -> tuple[list[tuple[str, str]], list[tuple[str, list[tuple[str, str]]]]]:
        """Return them as the compiled module takes them."""
        return pairs(self.others), [(topic, pairs(config)) for topic, config in self.topics.items()]


def topic_settings(path: str, config: Config, unread: list[Exception] | None = None) -> TopicSettings:
    """Find the settings of the topics in a log dir, or of a partition's topic.

    Why the metadata log cannot be read goes to ``unread`` if there is one; topics are then taken to be unknown.
    """
    if config is not None and not isinstance(config, (LogConfig, Mapping)):
        raise TypeError(f"config must be a LogConfig or a mapping of Kafka's names to values, not {config!r}")
    try:
        noted, notes = _own(path)
    except (KafkaLogError, OSError) as error:
        # Settings that were changed and are gone might keep what would be deleted.
        if unread is not None:
            unread.append(error)
        elif not (isinstance(error, CorruptRecordError) and isinstance(config, LogConfig)):
            raise
        noted, notes = {}, (str(error),) if unread is None else ()
    own = {**_INTERNAL, **noted}
    named = _topic_of(path)
    kept = {topic: LogConfig.from_kafka(own[topic]) for topic in _INTERNAL if topic != named}
    if isinstance(config, LogConfig):
        return TopicSettings(config, kept, frozenset(noted), notes)
    # Checks the names, too.
    others = LogConfig.from_kafka(config) if config else None
    given = {name.replace("_", "."): value for name, value in (config or {}).items()}
    changed = {topic: LogConfig.from_kafka({**settings, **given}) for topic, settings in own.items()}
    return TopicSettings(others, {**changed, **kept}, frozenset(noted), notes)


def topics_in(path: str) -> set[str]:
    """Return the topics of the live partitions in a log dir, or of a partition's folder; not the metadata log."""
    named = _topic_of(path)
    if named is not None or _places.is_file(path):
        return {named} if named else set()
    return {folder.topic for folder in LogDir(path).folders if folder.state != "delete"} - {_METADATA}


def _topic_of(path: str) -> str | None:
    """Return the topic of a partition's folder; None for a log dir."""
    log = partition_at(path)
    return None if log is None else log.topic


def _own(path: str) -> tuple[dict[str, dict[str, object]], tuple[str, ...]]:
    for log_dir in (path, _places.above(path)):
        if _places.is_folder(f"{log_dir}/{_METADATA}-0") and _rows.has_topic(log_dir, _METADATA):
            table = cluster.topics(log_dir).select(["topic", "configs"])
            # Settings of a newer Kafka do not concern the files that it shares with this one.
            found = {
                row["topic"]: {name: value for name, value in row["configs"] if name in _KNOWN}
                for row in table.to_pylist()
            }
            return found, tuple(_rows.notes_of(table))
    return {}, ()
