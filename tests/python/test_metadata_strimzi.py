"""`kafkalog metadata --as strimzi`: the resources fit the schemas of Strimzi, and say what the disks say."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

import pytest

import corpus
from command import call, fails
from metadata_made import HOSTILE, acl, commit, config, make, one_partition, quota, scram
from strimzi_crds import schema_of

if TYPE_CHECKING:
    from pathlib import Path

# Neither has types.
jsonschema, yaml = (importlib.import_module(name) for name in ("jsonschema", "yaml"))
GOLDEN = corpus.GOLDEN / "metadata" / "data-0"


def resources(*words: Any) -> list[dict[str, Any]]:
    """Return the resources, which fit their schemas."""
    done = call("metadata", *words, "--as", "strimzi")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    for each in found:
        jsonschema.validate(each, schema_of(each["kind"]))
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(set(names)) == len(names)
    return found


def of_kind(found: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == kind}


def test_the_golden_cluster() -> None:
    found = resources(GOLDEN, "--cluster", "main")
    assert {each["metadata"]["labels"]["strimzi.io/cluster"] for each in found} == {"main"}
    topics, users = of_kind(found, "KafkaTopic"), of_kind(found, "KafkaUser")
    assert len(topics) == 18
    settings = {"cleanup.policy": "compact", "max.message.bytes": "900001", "retention.ms": "1000001"}
    assert topics["topic-0-1"] == {"topicName": "topic-0-1", "partitions": 5, "replicas": 1, "config": settings}
    assert users["alice"] == {"quotas": {"producerByteRate": 3072}}
    assert users["user-1"] == {"authentication": {"type": "scram-sha-512"}}
    rule = {"type": "deny", "host": "*", "operations": ["Read"]}
    assert users["u8"]["authorization"]["acls"] == [
        {**rule, "resource": {"type": "topic", "name": f"res-{n}-8", "patternType": "literal"}} for n in range(3)
    ]


def test_hostile_names(tmp_path: Path) -> None:
    topics = ["A_b", "a-b", "..x", "null", "1e3", "y"]
    ids = [f"{'A' * 20}{n}w" for n in range(len(topics))]
    records: list[Any] = [("TOPIC_RECORD", 0, {"name": n, "topicId": i}) for n, i in zip(topics, ids, strict=True)]
    records += [one_partition(ident) for ident in ids]
    records += [config(2, "orders", f"p.{n}", name) for n, name in enumerate(HOSTILE)]
    records += [acl(n, resourceName=name, host=name or "*") for n, name in enumerate(HOSTILE)]
    records += [acl(100 + n, principal=f"User:{name}") for n, name in enumerate(HOSTILE)]
    records += [quota({"user": name}, "producer_byte_rate", 5.0) for name in HOSTILE]
    records += [scram(name) for name in HOSTILE]
    found = resources(make(tmp_path / "disk", records), "--secrets")
    made = of_kind(found, "KafkaTopic")
    assert sorted(each["topicName"] for each in made.values()) == sorted([*topics, "orders"])
    assert made["orders"]["config"] == {f"p.{n}": name for n, name in enumerate(HOSTILE)}
    users = of_kind(found, "KafkaUser")
    # Of these names Kubernetes takes three.
    assert sorted(users) == ["1e3", "alice", "null"]
    rules = users["alice"]["authorization"]["acls"]
    assert sorted((each["resource"]["name"], each["host"]) for each in rules) == sorted((n, n) for n in HOSTILE)


def test_what_a_user_cannot_say_is_named(tmp_path: Path) -> None:
    records = [
        acl(1, principal="User:CN=carol"),
        acl(2, principal="User:CN=alice"),
        acl(3, principal="User:alice", operation=8),
        acl(4, principal="User:*"),
        acl(5, principal="Group:devs"),
        acl(6, principal="User:CN=dave,O=x"),
        acl(7, principal="User:alice", resourceType=4, resourceName="kafka-cluster", operation=12, permissionType=2),
        acl(8, principal="User:alice", resourceType=7, resourceName="User:x", operation=13),
        acl(9, principal=f"User:CN={'x' * 65}"),
        scram("alice", 2),
        scram("alice", 1),
        scram("Bob", 1),
        quota({"user": "alice"}, "producer_byte_rate", 2.0**31),
        quota({"user": "alice"}, "consumer_byte_rate", 5.0),
        quota({"user": "alice"}, "request_percentage", 50.5),
        quota({"user": "alice"}, "controller_mutation_rate", 2.5),
        quota({"user": None}, "producer_byte_rate", 1.0),
        quota({"user": "alice", "client-id": "c"}, "producer_byte_rate", 1.0),
        quota({"ip": "10.0.0.1"}, "connection_creation_rate", 1.0),
        config(4, "", "log.retention.ms", "1"),
    ]
    disk = make(tmp_path / "disk", records)
    commit(disk, {("billing", "orders", 0): 7})
    users = of_kind(resources(disk), "KafkaUser")
    rule = {"type": "allow", "resource": {"type": "topic", "name": "orders", "patternType": "literal"}, "host": "*"}
    cluster = {"type": "deny", "resource": {"type": "cluster"}, "host": "*", "operations": ["IdempotentWrite"]}
    assert users == {
        "alice": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": [cluster, {**rule, "operations": ["Describe"]}]},
            "quotas": {"consumerByteRate": 5, "controllerMutationRate": 2.5},
        },
        "carol": {
            "authentication": {"type": "tls-external"},
            "authorization": {"type": "simple", "acls": [{**rule, "operations": ["Read"]}]},
        },
    }
    comments = re.split("^---$", call("metadata", disk, "--as", "strimzi").stdout, flags=re.MULTILINE)[0]
    for text in (
        *("CN=alice", "User:*", "Group:devs", "CN=dave,O=x", "on USER LITERAL User:x", "x" * 65, "Bob"),
        *("producer_byte_rate=2147483648 of user alice", "request_percentage=50.5 of user alice"),
        *("of default user", "of user alice, client-id c", "of ip 10.0.0.1", "log.retention.ms=1", "billing"),
        "alice (SCRAM-SHA-256, SCRAM-SHA-512)",
    ):
        assert re.search(f"^#   .*{re.escape(text)}", comments, flags=re.MULTILINE), text


def test_the_name_of_the_cluster_is_checked() -> None:
    assert "--cluster must be the name" in fails(2, "metadata", GOLDEN, "--as", "strimzi", "--cluster", "a b")


@pytest.mark.parametrize("kind", ["KafkaTopic", "KafkaUser"])
def test_the_schema_refuses(kind: str) -> None:
    good = next(each for each in resources(GOLDEN) if each["kind"] == kind)
    bad = [{**good, "spec": {**good["spec"], "other": 1}}, {**good, "apiVersion": "kafka.strimzi.io/v1beta1"}]
    bad.append({**good, "metadata": {**good["metadata"], "name": "A_b"}})
    for each in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(each, schema_of(kind))
