"""Topic settings that stop a newer broker than the one that took them.

A broker reads the settings of all topics before it starts, and ends at the first that is out of bounds
(``LogManager.fetchTopicConfigOverrides``). Between Kafka 3.9 and 4.4 one bound has changed: since 4.1 the least
``segment.bytes`` is 1 MiB instead of 14 (KIP-1030). Brokers ignore their own settings when these are out of bounds.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from kafkalog.config import LEAST_SEGMENT, LogConfig
from kafkalog.rescue.model import Finding
from kafkalog.tables._image import TOPIC_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog.rescue.model import MetadataRecord

_SEGMENT = "segment.bytes"
# KIP-724 and KIP-937
_REMOVED = {"message.format.version", "message.timestamp.difference.max.ms"}


def accepted(record: MetadataRecord) -> MetadataRecord:
    """Return the record, with 1 MiB in place of a smaller ``segment.bytes`` of a topic."""
    if not _is_of_topic(record) or _small_segment(record.value["name"], record.value["value"] or "") is None:
        return record
    return replace(record, value={**record.value, "value": str(LEAST_SEGMENT)})


def accepted_value(name: str, value: str) -> str:
    """Return the value of a topic's setting, or 1 MiB in place of a smaller ``segment.bytes``."""
    return value if _small_segment(name, value) is None else str(LEAST_SEGMENT)


def about_settings(records: Iterable[MetadataRecord], topics: set[str]) -> Iterator[Finding]:
    """Name the settings that ``accepted`` changes, and others that stop a broker of Kafka 4.3."""
    for record in records:
        if not _is_of_topic(record) or record.value["resourceName"] not in topics:
            continue
        name, topic = record.value["name"], record.value["resourceName"]
        value = record.value["value"] or ""
        size = _small_segment(name, value)
        if size is not None:
            text = f"{name} is raised from {size} to {LEAST_SEGMENT}: Kafka 4.1 and later do not start with less"
            yield Finding("warning", "setting-raised", text, None, topic)
        elif name not in _REMOVED and (why := refusal(name, value)) is not None:
            yield Finding("warning", "setting-refused", f"kept, but Kafka 4.3 does not start: {why}", None, topic)


def _is_of_topic(record: MetadataRecord) -> bool:
    return record.type == "CONFIG_RECORD" and record.value["resourceType"] == TOPIC_CONFIG


def _small_segment(name: str, value: str) -> int | None:
    """Return the size of segments that brokers took until 4.0; None for a larger one, and for any other setting."""
    if name != _SEGMENT:
        return None
    try:
        size = LogConfig.from_kafka({_SEGMENT: value}).segment_bytes
    except ValueError:
        return None
    return size if size < LEAST_SEGMENT else None


def refusal(name: str, text: str) -> str | None:
    """Return why Kafka refuses to set a topic's setting; None if it takes it, or if the name is not known here.

    A broker that starts ignores names that it does not know (``AbstractConfig``).
    """
    if name in _REMOVED:
        return f"{name} is not a setting of Kafka 4"
    if name not in {each.name.replace("_", ".") for each in fields(LogConfig)}:
        return None
    try:
        LogConfig.from_kafka({name: text})
    except ValueError as error:
        return str(error)
    return None
