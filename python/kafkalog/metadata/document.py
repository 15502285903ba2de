"""A cluster as one JSON object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkalog.metadata.comments import Remainder

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog.metadata.cluster import Acl, Cluster, Group, Quota, ScramUser, Settings, Topic


def document(cluster: Cluster) -> tuple[str, Remainder]:
    """Return the object as text, and what it does not have. Lists and names are sorted."""
    parts: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "topics": lambda: [_topic(each) for each in cluster.topics],
        "configs": lambda: [_settings(each) for each in cluster.settings],
        "acls": lambda: [_acl(each) for each in cluster.acls],
        "users": lambda: [_user(each) for each in cluster.users],
        "quotas": lambda: [_quota(each) for each in cluster.quotas],
        "groups": lambda: [_group(each) for each in cluster.groups],
    }
    rest = Remainder(cluster.left_out)
    written = {
        "clusterId": cluster.cluster_id,
        "paths": list(cluster.paths),
        "metadataLog": cluster.metadata_path,
        "metadataEndOffset": cluster.metadata_end,
        "features": dict(sorted(cluster.features.items())),
        **{part: parts[part]() for part in cluster.parts},
        "leftOut": [{"why": each.why, "names": each.names} for each in rest],
        "notes": list(cluster.notes),
    }
    return json.dumps(written, ensure_ascii=False, indent=2) + "\n", rest


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topicId": topic.topic_id,
        "partitions": topic.partitions,
        "replicationFactor": topic.replication_factor,
        "configs": dict(sorted(topic.configs.items())),
        "internal": topic.is_internal,
        "source": topic.source,
    }


def _settings(settings: Settings) -> dict[str, Any]:
    return {"type": settings.kind, "name": settings.name or None, "configs": dict(sorted(settings.configs.items()))}


def _acl(acl: Acl) -> dict[str, Any]:
    return {
        "resourceType": acl.resource_type,
        "resourceName": acl.resource_name,
        "patternType": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permissionType": acl.permission_type,
    }


def _user(user: ScramUser) -> dict[str, Any]:
    fields: dict[str, Any] = {"user": user.user, "mechanism": user.mechanism, "iterations": user.iterations}
    if user.salt is not None:
        fields |= {"salt": user.salt, "storedKey": user.stored_key, "serverKey": user.server_key}
    return fields


def _quota(quota: Quota) -> dict[str, Any]:
    return {"entity": dict(quota.entity), "quotas": dict(sorted(quota.limits.items()))}


def _group(group: Group) -> dict[str, Any]:
    offsets = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.offset,
            "leaderEpoch": each.leader_epoch,
            "metadata": each.metadata,
        }
        for each in group.offsets
    ]
    return {"group": group.name, "type": group.kind, "state": group.state, "offsets": offsets}
