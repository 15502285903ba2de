"""``__remote_log_metadata`` of a new cluster: what a broker would have written of the copies in the tier.

A copy gets the two events of one that ended: ``COPY_SEGMENT_STARTED`` with all facts, then ``COPY_SEGMENT_FINISHED``.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog.rescue.metadata import partition_record
from kafkalog.rescue.model import Finding, MetadataRecord
from kafkalog.tables._image import TOPIC_CONFIG
from kafkalog.tiers.metadata_log import TOPIC, metadata_partition
from kafkalog.writer import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog.rescue.model import Choice, RemoteCopy, RescueImage, RescuePlan

__all__ = ["TOPIC", "topics_made", "written"]

# TopicBasedRemoteLogMetadataManagerConfig.DEFAULT_REMOTE_LOG_METADATA_TOPIC_PARTITIONS
_PARTITIONS = 50
# TopicBasedRemoteLogMetadataManager.newRemoteLogMetadataTopic
_OWN_SETTINGS = {"cleanup.policy": "delete", "remote.storage.enable": "false", "retention.ms": "-1"}
# Without a limit of its own the broker's would delete what was just attached.
_NEW_SETTINGS = {"remote.storage.enable": "true", "retention.ms": "-1"}
# Of RemoteLogSegmentState.
_STARTED, _FINISHED = 0, 1


def topics_made(
    image: RescueImage, found: Mapping[tuple[str, str], int], tiered: set[str]
) -> tuple[list[MetadataRecord], list[Finding]]:
    """Return records of topics and partitions that the tier has and the image lacks, and the metadata topic.

    ``found`` has the number of partitions by topic and id.
    """
    ids = {value["name"]: value["topicId"] for value in image.values("TOPIC_RECORD")}
    numbers = {(value["topicId"], value["partitionId"]) for value in image.values("PARTITION_RECORD")}
    records: list[MetadataRecord] = []
    findings = []
    for (topic, topic_id), partitions in sorted(found.items()):
        if topic not in ids:
            records.append(_topic(topic, topic_id))
            text = (
                "in no metadata that is left: restored from the tier, which has neither its settings nor partitions "
                "without a copy; retention.ms is -1"
            )
            findings.append(Finding("error", "topic-from-tier", text, None, topic))
        missing = (each for each in range(partitions) if (topic_id, each) not in numbers)
        records += [partition_record(topic_id, each, []) for each in missing]
        if topic not in tiered:
            records += _settings(topic, _NEW_SETTINGS)
    if TOPIC not in ids:
        # The same tier gives the same id again.
        made = urlsafe_b64encode(hashlib.sha256(TOPIC.encode()).digest()[:16]).decode().rstrip("=")
        records += [_topic(TOPIC, made), *(partition_record(made, each, []) for each in range(_PARTITIONS))]
        records += _settings(TOPIC, _OWN_SETTINGS)
    return records, findings


def _topic(name: str, topic_id: str) -> MetadataRecord:
    return MetadataRecord("TOPIC_RECORD", 0, {"name": name, "topicId": topic_id})


def _settings(topic: str, settings: Mapping[str, str]) -> list[MetadataRecord]:
    return [
        MetadataRecord(
            "CONFIG_RECORD", 0, {"resourceType": TOPIC_CONFIG, "resourceName": topic, "name": name, "value": value}
        )
        for name, value in settings.items()
    ]


def written(plan: RescuePlan, node_id: int, now_ms: int) -> dict[int, list[Record]]:
    """Return the records to append, by partition of the topic: those of copies that the topic does not know yet."""
    records = defaultdict[int, list[Record]](list)
    if plan.tier is None:
        return {}
    for choice in plan.choices:
        events = [
            event for each in choice.remote if not each.is_recorded for event in _events(choice, each, node_id, now_ms)
        ]
        if events:
            at = metadata_partition(choice.topic_id or "", choice.partition, plan.tier.metadata_partitions)
            records[at] += [_encoded(kind, value, now_ms) for kind, value in events]
    return dict(records)


def _encoded(kind: str, value: dict[str, Any], now_ms: int) -> Record:
    _, encoded = _core.encode_record(TOPIC, kind, 0, None, json.dumps(value))
    return Record(encoded, None, timestamp=now_ms)


def _events(choice: Choice, copy: RemoteCopy, node_id: int, now_ms: int) -> list[tuple[str, dict[str, Any]]]:
    place = {"name": choice.topic, "id": choice.topic_id, "partition": choice.partition}
    common = {
        "remoteLogSegmentId": {"topicIdPartition": place, "id": copy.segment_id},
        "brokerId": node_id,
        "eventTimestampMs": now_ms,
        "customMetadata": None,
    }
    started = {
        **common,
        "startOffset": copy.start_offset,
        "endOffset": copy.end_offset,
        "maxTimestampMs": copy.max_timestamp,
        "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": first} for epoch, first in copy.leader_epochs],
        "segmentSizeInBytes": copy.size,
        "remoteLogSegmentState": _STARTED,
        "txnIndexEmpty": copy.is_without_transactions,
    }
    return [
        ("REMOTE_LOG_SEGMENT_METADATA_RECORD", started),
        ("REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD", {**common, "remoteLogSegmentState": _FINISHED}),
    ]
