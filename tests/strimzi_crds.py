"""The custom resources ``KafkaTopic`` and ``KafkaUser`` of Strimzi, as JSON Schemas.

Source: the schemas ``kafka.strimzi.io/v1`` of Strimzi 0.49 to 1.2 (``043-Crd-kafkatopic.yaml``,
``044-Crd-kafkauser.yaml``), without descriptions, ``status`` and ``template``. Kubernetes drops what a schema does not
name; here it is refused. ``tests/interop/test_strimzi.py`` has the operators' own classes read the resources.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}


def _object(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _whole(least: int, most: int | None = None) -> Schema:
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def _one_of(*values: str) -> Schema:
    return {**TEXT, "enum": list(values)}


_SECRET = _object(
    ("valueFrom",), valueFrom=_object(secretKeyRef=_object(key=TEXT, name=TEXT, optional={"type": "boolean"}))
)
_AUTHENTICATION = _object(
    ("type",),
    type=_one_of("tls", "tls-external", "scram-sha-512"),
    password=_SECRET,
    validityDays=_whole(1),
    renewalDays=_whole(1),
)
_RESOURCE = _object(
    ("type",),
    type=_one_of("topic", "group", "cluster", "transactionalId"),
    name=TEXT,
    patternType=_one_of("literal", "prefix"),
)
_OPERATION = _one_of(
    *("Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "AlterConfigs"),
    *("DescribeConfigs", "IdempotentWrite", "All"),
)
_ACL = _object(
    ("resource", "operations"),
    type=_one_of("allow", "deny"),
    resource=_RESOURCE,
    host=TEXT,
    operations={"type": "array", "items": _OPERATION},
)
_SPECS = {
    "KafkaTopic": _object(topicName=TEXT, partitions=_whole(1), replicas=_whole(1, 32767), config={"type": "object"}),
    "KafkaUser": _object(
        authentication=_AUTHENTICATION,
        authorization=_object(("acls", "type"), type=_one_of("simple"), acls={"type": "array", "items": _ACL}),
        quotas=_object(
            producerByteRate=_whole(0),
            consumerByteRate=_whole(0),
            requestPercentage=_whole(0),
            controllerMutationRate={"type": "number", "minimum": 0},
        ),
    ),
}


def schema_of(kind: str) -> Schema:
    """Return the schema of a resource, with what Kubernetes asks of its metadata."""
    name = {**TEXT, "maxLength": 253, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"}
    label = {**TEXT, "maxLength": 63}
    metadata = _object(("name", "labels"), name=name, labels={"type": "object", "additionalProperties": label})
    return _object(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion=_one_of("kafka.strimzi.io/v1"),
        kind=_one_of(kind),
        metadata=metadata,
        spec=_SPECS[kind],
    )
