"""Records of a metadata log: some that Kafka applies one after the other, and some that it then refuses."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

from kafkalog import _core

TOPIC_ID, _UNKNOWN, _NEW_ID = (urlsafe_b64encode(bytes([number]) * 16)[:22].decode() for number in (1, 2, 3))


def _encoded(kind: str, **value: Any) -> bytes:
    _, data = _core.encode_record("__cluster_metadata", kind, 0, None, json.dumps(value))
    assert data is not None
    return data


def _partition(topic_id: str, number: int) -> dict[str, Any]:
    lists: dict[str, list[int]] = {"replicas": [1], "isr": [1], "removingReplicas": [], "addingReplicas": []}
    return {"partitionId": number, "topicId": topic_id, "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, **lists}


_BROKER = {"brokerId": 1, "incarnationId": TOPIC_ID, "brokerEpoch": 7, "endPoints": [], "features": [], "rack": None}
RECORDS = [
    _encoded("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=21),
    _encoded("REGISTER_BROKER_RECORD", **_BROKER, fenced=True),
    _encoded("TOPIC_RECORD", name="orders", topicId=TOPIC_ID),
    _encoded("PARTITION_RECORD", **_partition(TOPIC_ID, 0)),
]
# By what is said of them.
REFUSED = {
    "record type 99": b"\1\x63\0",
    "TOPIC_RECORD: version 9": b"\1\2\x09",
    "TOPIC_RECORD: byte": b"\1\2\0\x09ord",
    "PARTITION_RECORD: no topic": _encoded("PARTITION_RECORD", **_partition(_UNKNOWN, 0)),
    "PARTITION_CHANGE_RECORD: topic orders has no partition 5": _encoded(
        "PARTITION_CHANGE_RECORD", partitionId=5, topicId=TOPIC_ID
    ),
    "REMOVE_TOPIC_RECORD: no topic": _encoded("REMOVE_TOPIC_RECORD", topicId=_UNKNOWN),
    "UNFENCE_BROKER_RECORD: epoch of broker 1: expected 7, found 8": _encoded("UNFENCE_BROKER_RECORD", id=1, epoch=8),
    "BROKER_REGISTRATION_CHANGE_RECORD: no broker 2": _encoded(
        "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=2, brokerEpoch=7, fenced=-1
    ),
    "REMOVE_ACCESS_CONTROL_ENTRY_RECORD: no ACL": _encoded("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", id=_UNKNOWN),
    "END_TRANSACTION_RECORD: no transaction": b"\1\x18\0\0",
}

# Kafka applies these, but its controllers write none: they would become names of folders.
_NAMES = ("../x", "/tmp/x", "a\0b", "a" * 300, ".", "..", "a b", "\n", "", "<b>", "__cluster_metadata")
HOSTILE = [
    *(_encoded("TOPIC_RECORD", name=name, topicId=_NEW_ID) for name in _NAMES),
    _encoded("TOPIC_RECORD", name="orders", topicId=_NEW_ID),
    _encoded("PARTITION_RECORD", **_partition(TOPIC_ID, -1)),
]
