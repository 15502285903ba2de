"""A cluster as a POSIX shell script of Kafka's own tools.

What the tools take, by their sources (``TopicCommand``, ``ConfigCommand``, ``AclCommand``, ``ConsumerGroupCommand``):

* ``kafka-topics --config`` splits at ``=`` and trims; a value that this would change is set by ``kafka-configs``.
* ``kafka-configs --add-config`` removes brackets from values; ``--add-config-file`` reads Java properties, in which any
  value can be written.
* ``kafka-acls`` trims names, and refuses operations that a resource does not support.
* ``kafka-consumer-groups`` exits with 0 after most errors, and commits the nearest offset in the log in place of one
  that the log has not got.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING

from kafkalog._arguments import TOPIC_NAME
from kafkalog.metadata.comments import Remainder, origin, plain
from kafkalog.metadata.shell_text import (
    FINISH,
    HEAD,
    REPLICATION_FUNCTION,
    RESET_FUNCTION,
    SCRAM_FUNCTION,
    SETUP,
    command,
    file,
    is_argument,
    is_word,
    java_property,
)
from kafkalog.rescue.config_compat import accepted_value, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog.metadata.cluster import Acl, Cluster, Group, Quota, ScramUser, Settings, Topic

# ConfigCommand.validatePropsKey
_CONFIG_NAME = re.compile(r"[$a-zA-Z0-9._-]+")
# SecurityUtils.parseKafkaPrincipal
_PRINCIPAL = re.compile(r"[^:]+:.*", re.DOTALL)
_RESOURCES = {
    "TOPIC": "--topic",
    "GROUP": "--group",
    "CLUSTER": "--cluster",
    "TRANSACTIONAL_ID": "--transactional-id",
    "DELEGATION_TOKEN": "--delegation-token",
    "USER": "--user-principal",
}
# AclEntry.supportedOperations
_OPERATIONS = {
    "TOPIC": {"READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
    "GROUP": {"READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
    "CLUSTER": {
        *("CREATE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "ALTER", "DESCRIBE"),
    },
    "TRANSACTIONAL_ID": {"DESCRIBE", "WRITE", "TWO_PHASE_COMMIT"},
    "DELEGATION_TOKEN": {"DESCRIBE"},
    "USER": {"CREATE_TOKENS", "DESCRIBE_TOKENS"},
}
# Resource.CLUSTER_NAME
_CLUSTER = "kafka-cluster"
_ENTITIES = {"user": "users", "client-id": "clients", "ip": "ips"}
_ENTITY_KINDS = {("user",), ("client-id",), ("user", "client-id"), ("ip",)}
# QuotaConfig
_USER_QUOTAS = {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
_IP_QUOTAS = {"connection_creation_rate"}
# Groups whose offsets kafka-consumer-groups resets.
_WITH_OFFSETS = {"classic", "consumer", "streams"}


def kafka_script(cluster: Cluster) -> tuple[str, Remainder]:
    """Return the script, and what it does not do."""
    rest = Remainder(cluster.left_out)
    writers = {
        "topics": _topics(cluster.topics, rest),
        "configs": _settings(cluster.settings, rest),
        "acls": _acls(cluster.acls, rest),
        "users": _users(cluster.users, rest),
        "quotas": _quotas(cluster.quotas, rest),
        "groups": _groups(cluster, rest),
    }
    written = {part: "".join(commands) for part, commands in writers.items()}
    sections = [f"# {part}\n{text}" for part, text in written.items() if text]
    return "\n".join(["".join(_head(cluster, rest)), SETUP, *sections, FINISH]), rest


def _head(cluster: Cluster, rest: Remainder) -> Iterator[str]:
    yield "#!/bin/sh\n"
    yield from origin(cluster)
    yield "#\n"
    yield HEAD
    if cluster.features:
        levels = (f"{plain(name)}={level}" for name, level in sorted(cluster.features.items()))
        yield f"#\n# Features of the old cluster: {', '.join(levels)}\n"
    said = [*(f"# note: {plain(note)}\n" for note in cluster.notes), *rest.comments("not in this script")]
    if said:
        yield "#\n"
    yield from said


def _configure(configs: Mapping[str, str], entity: str) -> str:
    """Write settings by a file; the entity is in the shell's syntax."""
    lines = [java_property(name, value) for name, value in sorted(configs.items())]
    return file("config", lines) + command("kafka-configs", "--alter", entity, '--add-config-file "$work/config"')


def _topics(topics: Iterable[Topic], rest: Remainder) -> Iterator[str]:
    created = []
    for topic in topics:
        if topic.is_internal:
            settings = ", ".join(f"{name}={value}" for name, value in sorted(topic.configs.items()))
            text = f"{topic.name}: {topic.partitions} partitions{'; ' if settings else ''}{settings}"
            rest.add("internal topics, which brokers create as their own settings say", text)
        elif not TOPIC_NAME.fullmatch(topic.name) or topic.partitions < 1:
            rest.add("topics without a legal name or without partitions", topic.name)
        else:
            created.append(topic)
    if any(topic.replication_factor > 1 for topic in created):
        yield REPLICATION_FUNCTION
    for topic in created:
        yield from _topic(topic, rest)


def _topic(topic: Topic, rest: Remainder) -> Iterator[str]:
    by_option: list[Sequence[str]] = []
    by_file = {}
    for name, value in sorted(topic.configs.items()):
        usable = accepted_value(name, value)
        why = refusal(name, usable)
        if why is not None or not _CONFIG_NAME.fullmatch(name):
            of = f"{name}={value} of topic {topic.name}"
            rest.add("settings of topics that Kafka 4.3 refuses", of if why is None else f"{of}: {why}")
            continue
        if usable != value:
            text = f"{name} of topic {topic.name}: {usable} in place of {value}"
            rest.add("values that Kafka 4.1 and later refuse, raised to the least that they take", text)
        if usable and "=" not in usable and is_word(usable):
            by_option.append(("--config", f"{name}={usable}"))
        else:
            by_file[name] = usable
    factor = topic.replication_factor
    yield command(
        "kafka-topics",
        f"--create --if-not-exists --topic {shlex.quote(topic.name)} --partitions {topic.partitions}",
        "--replication-factor " + ("1" if factor <= 1 else f'"$(replication_factor {factor})"'),
        options=by_option,
    )
    if by_file:
        yield _configure(by_file, f"--entity-type topics --entity-name {shlex.quote(topic.name)}")


def _settings(settings: Iterable[Settings], rest: Remainder) -> Iterator[str]:
    odd = "settings whose names kafka-configs does not take"
    for each in settings:
        usable = {name: value for name, value in each.configs.items() if _CONFIG_NAME.fullmatch(name)}
        rest.add(odd, *(f"{name} of {each}" for name in each.configs if name not in usable))
        is_numbered = each.kind == "broker" and each.name != ""
        if not is_argument(each.name) or (is_numbered and not re.fullmatch("[0-9]+", each.name)):
            rest.add(odd, each)
        elif usable and is_numbered:
            # The new cluster may not have this broker.
            variable = f"BROKER_{each.name}"
            yield f'if [ -n "${{{variable}={each.name}}}" ]; then\n'
            yield _configure(usable, f'--entity-type brokers --entity-name "${variable}"')
            yield "fi\n"
        elif usable and each.kind == "broker":
            yield _configure(usable, "--entity-type brokers --entity-default")
        elif usable:
            kind = "groups" if each.kind == "group" else each.kind
            yield _configure(usable, f"--entity-type {kind} --entity-name {shlex.quote(each.name)}")


def _acls(acls: Iterable[Acl], rest: Remainder) -> Iterator[str]:
    """Write a command for each principal, host, kind of resource and operations, with all resources of it."""
    operations = defaultdict[tuple[str, ...], list[str]](list)
    for each in acls:
        if _takes(each):
            operations[each[:-1]].append(each.operation)
        else:
            rest.add("ACLs that kafka-acls does not take", each)
    resources = defaultdict[tuple[str, ...], list[str]](list)
    for (kind, name, pattern, principal, host, permission), allowed in operations.items():
        key = (principal, permission, host, kind, pattern, *sorted(allowed))
        resources[key].append(name)
    for (principal, permission, host, kind, pattern, *allowed), names in sorted(resources.items()):
        said = permission.lower()
        yield command(
            "kafka-acls",
            f"--add --{said}-principal {shlex.quote(principal)} --{said}-host {shlex.quote(host)}",
            *(f"--operation {operation_name(each)}" for each in allowed),
            f"--resource-pattern-type {pattern.lower()}",
            options=[["--cluster"]] if kind == "CLUSTER" else [[_RESOURCES[kind], name] for name in sorted(names)],
        )


def operation_name(operation: str) -> str:
    """Return an operation as Kafka's tools spell it (``SecurityUtils.operationName``)."""
    return "".join(word.capitalize() for word in operation.split("_"))


def _takes(acl: Acl) -> bool:
    """Return whether kafka-acls can add an entry."""
    kind = acl.resource_type
    return (
        kind in _RESOURCES
        and (acl.operation in _OPERATIONS[kind] or acl.operation == "ALL")
        and acl.permission_type in {"ALLOW", "DENY"}
        and acl.pattern_type in {"LITERAL", "PREFIXED"}
        and (kind != "CLUSTER" or (acl.resource_name, acl.pattern_type) == (_CLUSTER, "LITERAL"))
        and _PRINCIPAL.fullmatch(acl.principal) is not None
        and all(each and is_word(each) for each in (acl.resource_name, acl.principal, acl.host))
    )


def _users(users: Sequence[ScramUser], rest: Remainder) -> Iterator[str]:
    named = [each for each in users if each.user and is_argument(each.user) and not {"\n", "\t"} & set(each.user)]
    rest.add(
        "users with names that no line of SCRAM_PASSWORDS can have", *(each for each in users if each not in named)
    )
    shown = [each for each in users if each.salt is not None]
    rest.add("salts and keys of SCRAM users, which no tool of Kafka takes; --as json has them", *shown)
    if named:
        yield SCRAM_FUNCTION
    for each in named:
        yield f'scram {shlex.quote(each.user)} {each.mechanism} {each.iterations} "$@"\n'


def _quotas(quotas: Iterable[Quota], rest: Remainder) -> Iterator[str]:
    for each in quotas:
        kinds = tuple(kind for kind, _ in each.entity)
        known = _IP_QUOTAS if kinds == ("ip",) else _USER_QUOTAS
        limits = {name: value for name, value in each.limits.items() if name in known}
        # An empty name would be the default.
        if kinds not in _ENTITY_KINDS or any(
            name is not None and not (name and is_argument(name)) for _, name in each.entity
        ):
            limits = {}
        others = (f"{name} of {each}" for name in each.limits if name not in limits)
        rest.add("quotas that kafka-configs does not take", *others)
        if limits:
            entity = " ".join(
                f"--entity-type {_ENTITIES[kind]} "
                + ("--entity-default" if name is None else f"--entity-name {shlex.quote(name)}")
                for kind, name in each.entity
            )
            added = ",".join(f"{name}={number(value)}" for name, value in sorted(limits.items()))
            yield command("kafka-configs", f"--alter {entity} --add-config {added}")


def number(value: float) -> str:
    """Write a quota."""
    return str(int(value)) if value.is_integer() else repr(value)


def _groups(cluster: Cluster, rest: Remainder) -> Iterator[str]:
    written: list[tuple[Group, list[str]]] = []
    for group in cluster.groups:
        if group.kind not in _WITH_OFFSETS:
            why = "groups of other kinds, whose state no tool sets (kafka-share-groups resets it to a time)"
            rest.add(why, f"{group.name} ({group.kind})")
        elif not is_argument(group.name):
            rest.add("groups with names that no argument can have", group.name)
        elif lines := list(_offsets(group, cluster, rest)):
            written.append((group, lines))
    if written:
        yield RESET_FUNCTION
    for group, lines in written:
        yield file("offsets.csv", lines) + f'reset {shlex.quote(group.name)} "$@"\n'


def _offsets(group: Group, cluster: Cluster, rest: Remainder) -> Iterator[str]:
    for each in group.offsets:
        place = f"{each.topic}-{each.partition} of group {group.name}"
        if each.partition >= cluster.partitions.get(each.topic, 0) or not TOPIC_NAME.fullmatch(each.topic):
            rest.add("offsets in partitions that do not exist", place)
            continue
        if each.metadata:
            rest.add("what consumers added to offsets (metadata)", place)
        yield f"{each.topic},{each.partition},{each.offset}"
