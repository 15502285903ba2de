"""A cluster as custom resources of the Strimzi operators: ``KafkaTopic`` and ``KafkaUser``, ``kafka.strimzi.io/v1``.

The name of a user in Kafka is ``metadata.name``, or ``CN=`` and that with TLS (``KafkaUserModel.getUserName``), so only
users whose names Kubernetes takes can be said. Scalars are double-quoted YAML unless they are plain words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafkalog.metadata.comments import Remainder, origin, plain
from kafkalog.metadata.kafka_script import number, operation_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog.metadata.cluster import Acl, Cluster, Quota, Topic

_API = "kafka.strimzi.io/v1"
_LONGEST = 253
# RFC 1123 subdomain, as Kubernetes has it
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# OpenSslCertIssuer.MAXIMUM_CN_LENGTH
_LONGEST_CN = 64
_RESOURCES = {"TOPIC": "topic", "GROUP": "group", "CLUSTER": "cluster", "TRANSACTIONAL_ID": "transactionalId"}
_PATTERNS = {"LITERAL": "literal", "PREFIXED": "prefix"}
_OPERATIONS = {
    *("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("ALTER_CONFIGS", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE"),
}
_CLUSTER = "kafka-cluster"
_QUOTAS = {
    "producer_byte_rate": "producerByteRate",
    "consumer_byte_rate": "consumerByteRate",
    "request_percentage": "requestPercentage",
    "controller_mutation_rate": "controllerMutationRate",
}
# The one that is no Java Integer.
_FRACTIONAL = "controller_mutation_rate"
_INT32_MAX = (1 << 31) - 1
_PLAIN = re.compile("[A-Za-z][A-Za-z0-9._/-]*")
# Words that YAML 1.1 or 1.2 takes for something else.
_OTHER_WORDS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def strimzi_resources(cluster: Cluster, name: str) -> tuple[str, Remainder]:
    """Return the resources as YAML documents that belong to a Kafka resource, and what they do not say."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"--cluster must be the name of a Kubernetes resource, such as my-cluster, not {name!r}")
    rest = Remainder(cluster.left_out)
    labels = {"strimzi.io/cluster": name}
    topics = list(_topics(cluster.topics, labels, rest))
    users = list(_users(cluster, labels, rest))
    other = (
        "settings of brokers, groups and metrics: those of brokers belong into spec.kafka.config of the Kafka resource"
    )
    rest.add(
        other, *(f"{key}={value} of {each}" for each in cluster.settings for key, value in sorted(each.configs.items()))
    )
    rest.add("offsets of groups: use --as kafka --only groups", *(each.name for each in cluster.groups if each.offsets))
    head = [
        *origin(cluster),
        f"# For Strimzi 0.49 and later ({_API}), which reads them in the namespace of the Kafka resource {name}.\n",
        *(f"# note: {plain(note)}\n" for note in cluster.notes),
        *rest.comments("not in these resources"),
    ]
    return "".join([*head, *(f"---\n{''.join(_yaml(each))}" for each in [*topics, *users])]), rest


def _resource(kind: str, name: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def _topics(topics: Iterable[Topic], labels: dict[str, str], rest: Remainder) -> Iterator[dict[str, Any]]:
    created = [each for each in topics if not each.is_internal and each.partitions > 0]
    internal = (f"{each.name}: {each.partitions} partitions" for each in topics if each.is_internal)
    rest.add("internal topics, which brokers create as their own settings say", *internal)
    names = resource_names([each.name for each in created])
    for topic in created:
        spec: dict[str, Any] = {
            "topicName": topic.name,
            "partitions": topic.partitions,
            "replicas": topic.replication_factor,
        }
        if topic.configs:
            spec["config"] = dict(sorted(topic.configs.items()))
        yield _resource("KafkaTopic", names[topic.name], labels, spec)


def resource_names(topics: Iterable[str]) -> dict[str, str]:
    """Return a valid name for each topic, and no name twice: its own, or one made of it with a part of its digest."""
    found = {topic: topic for topic in topics if _NAME.fullmatch(topic)}
    taken = set(found)
    for topic in sorted(set(topics).difference(found)):
        digest = hashlib.sha256(topic.encode("utf-8", "surrogatepass")).hexdigest()
        stem = re.sub("[^a-z0-9]+", "-", topic.lower()).strip("-")
        lengths = range(8, len(digest) + 1)
        names = (f"{stem[: _LONGEST - length - 1]}-{digest[:length]}".lstrip("-") for length in lengths)
        found[topic] = next(name for name in names if name not in taken)
        taken.add(found[topic])
    return found


def _users(cluster: Cluster, labels: dict[str, str], rest: Remainder) -> Iterator[dict[str, Any]]:
    """Yield a user for each name in ACLs, SCRAM credentials and quotas."""
    acls, quotas = _rules(cluster.acls, rest), _limits(cluster.quotas, rest)
    mechanisms = defaultdict[str, list[str]](list)
    for each in cluster.users:
        mechanisms[each.user].append(each.mechanism)
    everyone = {*acls, *quotas, *mechanisms}
    for principal in sorted(everyone):
        name = _user_name(principal, everyone)
        if name is None:
            rest.add("users whose names no KafkaUser can have, with their ACLs, quotas and credentials", principal)
            continue
        spec: dict[str, Any] = {}
        if principal in mechanisms:
            spec["authentication"] = {"type": "scram-sha-512"}
            why = (
                "passwords: the operator makes new ones, for SCRAM-SHA-512, if authentication.password names no Secret"
            )
            rest.add(why, f"{principal} ({', '.join(mechanisms[principal])})")
        elif name != principal:
            # With a certificate that the operator did not issue; "tls" issues one.
            spec["authentication"] = {"type": "tls-external"}
        if principal in acls:
            spec["authorization"] = {"type": "simple", "acls": acls[principal]}
        if principal in quotas:
            spec["quotas"] = quotas[principal]
        yield _resource("KafkaUser", name, labels, spec)


def _limits(quotas: Iterable[Quota], rest: Remainder) -> dict[str, dict[str, float]]:
    """Return the quotas of each user."""
    found = defaultdict[str, dict[str, float]](dict)
    for quota in quotas:
        kinds = [kind for kind, _ in quota.entity]
        user = quota.entity[0][1] if kinds == ["user"] else None
        for key, value in sorted(quota.limits.items()):
            if user and key in _QUOTAS and (key == _FRACTIONAL or (value.is_integer() and value <= _INT32_MAX)):
                found[user][_QUOTAS[key]] = int(value) if value.is_integer() else value
            else:
                rest.add(
                    "quotas that are not of one user, or no whole numbers below 2^31",
                    f"{key}={number(value)} of {quota}",
                )
    return found


def _user_name(principal: str, others: set[str]) -> str | None:
    """Return the name of the resource for a user; None if no resource can be this user."""
    if _NAME.fullmatch(principal):
        return principal
    name = principal.removeprefix("CN=")
    return (
        name
        if name != principal and _NAME.fullmatch(name) and len(name) <= _LONGEST_CN and name not in others
        else None
    )


def _rules(acls: Iterable[Acl], rest: Remainder) -> dict[str, list[dict[str, Any]]]:
    """Return the rules of each user: one for all operations on a resource from a host."""
    operations = defaultdict[tuple[str, ...], list[str]](list)
    for each in acls:
        kind, _, user = each.principal.partition(":")
        is_said = (
            kind == "User"
            and user not in {"", "*"}
            and each.resource_type in _RESOURCES
            and each.pattern_type in _PATTERNS
            and each.operation in _OPERATIONS
            and each.permission_type in {"ALLOW", "DENY"}
            and (each.resource_type != "CLUSTER" or (each.resource_name, each.pattern_type) == (_CLUSTER, "LITERAL"))
        )
        if is_said:
            key = (user, *each[:3], each.host, each.permission_type)
            operations[key].append(each.operation)
        else:
            rest.add(
                "ACLs that are not of one user, or on resources and operations that a KafkaUser does not know", each
            )
    found = defaultdict[str, list[dict[str, Any]]](list)
    for (user, kind, name, pattern, host, permission), allowed in sorted(operations.items()):
        resource = {"type": _RESOURCES[kind]}
        if kind != "CLUSTER":
            resource |= {"name": name, "patternType": _PATTERNS[pattern]}
        names = [operation_name(each) for each in sorted(allowed)]
        found[user].append({"type": permission.lower(), "resource": resource, "host": host, "operations": names})
    return found


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Yield the lines of a mapping in block style."""
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield f"{indent}{_scalar(key)}:\n"
            yield from _yaml(inner, f"{indent}  ")
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            yield f"{indent}{_scalar(key)}:\n"
            for each in inner:
                first, *more = _yaml(each, f"{indent}    ")
                yield f"{indent}  - {first.lstrip(' ')}"
                yield from more
        elif isinstance(inner, list):
            yield f"{indent}{_scalar(key)}: [{', '.join(map(_scalar, inner))}]\n"
        else:
            yield f"{indent}{_scalar(key)}: {'{}' if inner == {} else _scalar(inner)}\n"


def _scalar(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _OTHER_WORDS:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    # JSON's escapes are YAML's, but YAML wants more characters escaped.
    return "".join(char if char.isprintable() else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"  # noqa: PLR2004 - the last of four digits
