"""Log dirs with a cluster's metadata and committed offsets, for tests of `kafkalog metadata`."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

import clusters
from clusters import TOPIC_ID
from kafkalog import LogWriter, Record, _core

if TYPE_CHECKING:
    from pathlib import Path

OFFSETS = "__consumer_offsets"
# What a shell, YAML, CSV or Java's properties could take for something of their own.
HOSTILE = [
    "$(touch pwned)",
    "`touch pwned`",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "a\ntouch pwned\n",
    "END\ntouch pwned",
    "\\n\\u0041 \\",
    "-x",
    "--help",
    "x,y=[z],{w}",
    "# no comment",
    "*",
    "\u00fc \u65e5\u672c \U0001f600",
    "null",
    "1e3",
    "a: b",
    "%s%n",
    "!ref",
    "\x1b[2J",
    "\x85\u2028",
]


def one_partition(topic_id: str = TOPIC_ID, number: int = 0, **more: Any) -> tuple[str, int, dict[str, Any]]:
    value = {
        "partitionId": number,
        "topicId": topic_id,
        "replicas": [1, 2, 3],
        "isr": [1],
        "removingReplicas": [],
        "addingReplicas": [3],
        "leader": 1,
        "leaderEpoch": 0,
        "partitionEpoch": 0,
        "directories": ["AAAAAAAAAAAAAAAAAAAAAQ"] * 3,
        **more,
    }
    return "PARTITION_RECORD", 1, value


def config(kind: int, of: str, name: str, value: str) -> tuple[str, int, dict[str, Any]]:
    return "CONFIG_RECORD", 0, {"resourceType": kind, "resourceName": of, "name": name, "value": value}


def acl(number: int, **more: Any) -> tuple[str, int, dict[str, Any]]:
    value = {
        "id": urlsafe_b64encode(number.to_bytes(16, "big"))[:22].decode(),
        "resourceType": 2,
        "resourceName": "orders",
        "patternType": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
        **more,
    }
    return "ACCESS_CONTROL_ENTRY_RECORD", 0, value


def quota(entity: dict[str, str | None], key: str, value: float) -> tuple[str, int, dict[str, Any]]:
    of = [{"entityType": kind, "entityName": name} for kind, name in entity.items()]
    return "CLIENT_QUOTA_RECORD", 0, {"entity": of, "key": key, "value": value, "remove": False}


def scram(user: str, mechanism: int = 1) -> tuple[str, int, dict[str, Any]]:
    secrets = dict.fromkeys(("salt", "storedKey", "serverKey"), "c2VjcmV0")
    return "USER_SCRAM_CREDENTIAL_RECORD", 0, {"name": user, "mechanism": mechanism, **secrets, "iterations": 8192}


def make(folder: Path, records: list[tuple[str, int, dict[str, Any]]], *, node: int = 1, end: int = 100) -> Path:
    """Make a log dir with a snapshot of these, and of a topic of one partition."""
    disk = clusters.make_disk(folder, node)
    whole = [
        ("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 25}),
        ("TOPIC_RECORD", 0, {"name": "orders", "topicId": TOPIC_ID}),
        one_partition(),
        *records,
    ]
    metadata = disk / f"{clusters.METADATA}-0"
    metadata.mkdir()
    plain = [(kind, version, json.dumps(value)) for kind, version, value in whole]
    _core.write_metadata_snapshot(str(metadata), end, 3, plain, timestamp=1_700_000_000_000)
    return disk


def commit(disk: Path, offsets: dict[tuple[str, str, int], int], partition: int = 0, epoch: int = 0) -> None:
    """Write committed offsets."""
    with LogWriter(disk, OFFSETS, partition, leader_epoch=epoch) as writer:
        for (group, topic, number), offset in offsets.items():
            key = json.dumps({"group": group, "topic": topic, "partition": number})
            value = {"offset": offset, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1_700_000_000_000}
            encoded = _core.encode_record(OFFSETS, "OffsetCommit", 3, key, json.dumps(value))
            writer.append([Record(encoded[1], encoded[0])])
