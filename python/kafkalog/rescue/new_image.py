"""The metadata of the new cluster: the old image without its nodes, and with every partition on a new node.

Kept are topics with their ids, configurations, ACLs, users, quotas, tokens, features. Dropped are registrations of
brokers and controllers, and what was set for single brokers that are no nodes of the new cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.rescue.config_compat import accepted
from kafkalog.rescue.model import MetadataRecord
from kafkalog.rescue.target import metadata_version
from kafkalog.tables._image import TOPIC_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog.rescue.model import Choice, RescueImage
    from kafkalog.rescue.target import Node

# ConfigResource.Type.BROKER; its name is empty for all brokers.
_BROKER_CONFIG = 4
# MetadataVersion.IBP_3_7_IV2: partitions know the directories of their replicas (KIP-858).
_DIRECTORIES = 17
# ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
_PRODUCER_IDS = 1000
_GONE = frozenset(
    {
        "REGISTER_BROKER_RECORD",
        "REGISTER_CONTROLLER_RECORD",
        "NO_OP_RECORD",
        "PRODUCER_IDS_RECORD",
    }
)
# Tagged fields whose defaults mean none, and a leader whose log is whole.
_CLEARED = ("eligibleLeaderReplicas", "lastKnownElr", "leaderRecoveryState", "directories")


def new_image(
    image: RescueImage, placed: Mapping[tuple[str, int], tuple[Choice, Node]], highest_producer_id: int
) -> list[MetadataRecord]:
    """Return the records of the new cluster's metadata."""
    topics = {topic_id: choice.topic for (topic_id, _), (choice, _) in placed.items()}
    level = metadata_version(image)
    records = list(_kept(image, placed, topics, level))
    if not any(record.type == "FEATURE_LEVEL_RECORD" for record in records):
        records.append(MetadataRecord("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": level}))
    # What a level decides is read after it.
    records.sort(key=lambda record: record.type != "FEATURE_LEVEL_RECORD")
    given = [value["nextProducerId"] for value in image.values("PRODUCER_IDS_RECORD")]
    # The blocks that were given out may be newer than this image: a whole one is left out.
    beyond = (highest_producer_id // _PRODUCER_IDS + 2) * _PRODUCER_IDS if highest_producer_id >= 0 else 0
    # Ids and epochs of batches may be damaged, or as high as their type.
    following = min(max([beyond, *given]), (1 << 63) - 1)
    ids = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": following}
    return [*records, MetadataRecord("PRODUCER_IDS_RECORD", 0, ids)]


def _kept(
    image: RescueImage, placed: Mapping[tuple[str, int], tuple[Choice, Node]], topics: Mapping[str, str], level: int
) -> Iterator[MetadataRecord]:
    names = set(topics.values())
    nodes = {str(node.id) for _, node in placed.values()}
    for record in image.records:
        value = record.value
        if record.type in _GONE:
            continue
        if record.type == "TOPIC_RECORD" and value["topicId"] not in topics:
            continue
        if record.type == "CONFIG_RECORD":
            kind, name = value["resourceType"], value["resourceName"]
            if kind == TOPIC_CONFIG and name not in names:
                continue
            if kind == _BROKER_CONFIG and name and name not in nodes:
                continue
        if record.type == "PARTITION_RECORD":
            found = placed.get((value["topicId"], value["partitionId"]))
            if found is not None:
                yield _partition(record, *found, level)
            continue
        yield accepted(record)


def _partition(record: MetadataRecord, choice: Choice, node: Node, level: int) -> MetadataRecord:
    value = {name: each for name, each in record.value.items() if name not in _CLEARED}
    value |= {
        "replicas": [node.id],
        "isr": [node.id],
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": node.id,
        "leaderEpoch": min(max(choice.leader_epoch, record.value["leaderEpoch"]) + 1, (1 << 31) - 1),
        "partitionEpoch": max(choice.partition_epoch, record.value["partitionEpoch"]) + 1,
    }
    version = max(record.version, 1) if level >= _DIRECTORIES else 0
    if version:
        value["directories"] = [node.directory_id]
    return MetadataRecord(record.type, version, value)


def replicas_of(image: RescueImage) -> dict[tuple[str, int], list[int]]:
    """Return the old replicas of each topic and partition."""
    names = {value["topicId"]: value["name"] for value in image.values("TOPIC_RECORD")}
    return {
        (names[value["topicId"]], value["partitionId"]): value["replicas"]
        for value in image.values("PARTITION_RECORD")
        if value["topicId"] in names
    }
