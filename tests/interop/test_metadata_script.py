"""`kafkalog metadata`: its script makes an empty real broker like the one whose disks were read, say Kafka's tools."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import clusters
import corpus
from command import call
from interop.broker import Broker
from kafkalog import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), pytest.mark.full]

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "3",
}
# A quote, a dollar, a backtick, a backslash, a line's end, and letters that are not ASCII.
ODD = 'it\'s "$HOME" `id` \\ \u00fcber, \u65e5\u672c'
# What makes the first broker: words of a tool each.
MADE = [
    ["kafka-topics", "--create", "--topic", "-dash", "--partitions", "2", "--config", "retention.ms=1234567"],
    ["kafka-configs", "--alter", "--entity-type", "topics", "--entity-name", "events", "--add-config",
     "leader.replication.throttled.replicas=,cleanup.policy=[compact,delete],min.compaction.lag.ms=1000"],
    ["kafka-configs", "--alter", "--entity-type", "brokers", "--entity-default", "--add-config",
     "log.retention.ms=777777"],
    ["kafka-configs", "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config",
     "log.cleaner.io.buffer.load.factor=0.7,log.cleaner.threads=2"],
    ["kafka-configs", "--alter", "--entity-type", "client-metrics", "--entity-name", "METRICS", "--add-config",
     "interval.ms=30000,metrics=[org.apache.kafka.producer.,org.apache.kafka.consumer.]"],
    ["kafka-configs", "--alter", "--entity-type", "groups", "--entity-name", ODD, "--add-config",
     "consumer.session.timeout.ms=46000"],
    ["kafka-acls", "--add", "--allow-principal", f"User:{ODD}", "--operation", "Read", "--operation", "Describe",
     "--topic", "events", "--topic", "-dash"],
    ["kafka-acls", "--add", "--deny-principal", "User:CN=a b,O=c", "--deny-host", "10.0.0.1", "--operation", "All",
     "--group", f"x{ODD}", "--resource-pattern-type", "prefixed"],
    ["kafka-acls", "--add", "--allow-principal", "User:*", "--operation", "Describe", "--transactional-id", "*"],
    ["kafka-acls", "--add", "--allow-principal", "User:ops", "--operation", "AlterConfigs", "--cluster"],
    ["kafka-acls", "--add", "--allow-principal", "User:ops", "--operation", "Describe", "--delegation-token", "*"],
    ["kafka-acls", "--add", "--allow-principal", "User:ops", "--operation", "CreateTokens", "--user-principal",
     "User:x"],
    ["kafka-configs", "--alter", "--entity-type", "users", "--entity-name", ODD, "--add-config",
     "producer_byte_rate=1048576,controller_mutation_rate=2.5"],
    ["kafka-configs", "--alter", "--entity-type", "users", "--entity-default", "--entity-type", "clients",
     "--entity-name", "c 1", "--add-config", "consumer_byte_rate=4096"],
    ["kafka-configs", "--alter", "--entity-type", "clients", "--entity-default", "--add-config",
     "request_percentage=50.25"],
    ["kafka-configs", "--alter", "--entity-type", "ips", "--entity-name", "127.0.0.2", "--add-config",
     "connection_creation_rate=7"],
    ["kafka-configs", "--alter", "--entity-type", "ips", "--entity-default", "--add-config",
     "connection_creation_rate=9"],
    ["kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config",
     "SCRAM-SHA-256=[iterations=8192,password=alice-secret]"],
    ["kafka-configs", "--alter", "--entity-type", "users", "--entity-name", "alice", "--add-config",
     "SCRAM-SHA-512=[iterations=4096,password=alice-secret]"],
    ["kafka-consumer-groups", "--group", ODD, "--topic", "events:0,1", "--reset-offsets", "--to-offset", "5",
     "--execute"],
    ["kafka-consumer-groups", "--group", "-g", "--topic", "other", "--reset-offsets", "--to-latest", "--execute"],
]  # fmt: skip
DESCRIBED = [
    ["kafka-topics", "--describe", "--exclude-internal"],
    *(["kafka-configs", "--describe", "--entity-type", kind] for kind in ("brokers", "clients", "users", "ips")),
    ["kafka-configs", "--describe", "--entity-type", "users", "--entity-type", "clients"],
    ["kafka-configs", "--describe", "--entity-type", "client-metrics", "--entity-name", "METRICS"],
    ["kafka-configs", "--describe", "--entity-type", "groups", "--entity-name", ODD],
    ["kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "events"],
    ["kafka-acls", "--list"],
    ["kafka-consumer-groups", "--describe", "--all-groups"],
]


@pytest.fixture
def two(witness: Witness, tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    """Two brokers; the second does not run yet."""
    with Broker(witness, tmp_path / "old", overrides=OVERRIDES) as old:
        new = Broker(witness, tmp_path / "new", overrides=OVERRIDES)
        try:
            yield old, new
        finally:
            new.__exit__(None, None, None)


def tool(broker: Broker, name: str, *words: str) -> str:
    """Run one of Kafka's tools."""
    code, out, err = broker.witness.jvm().run(TOOLS[name], "--bootstrap-server", broker.bootstrap, *words)
    assert code == 0, (words, out, err)
    assert "Error" not in out, (words, out)
    return out


def described(broker: Broker) -> list[list[list[str]]]:
    """Everything that the tools say of a broker, less what a new cluster has of its own.

    Lines and the words in them have an order of our own: Kafka has maps by enumerations, whose order is that of a run.
    """
    found = []
    for words in DESCRIBED:
        lines = tool(broker, *words).splitlines()
        kept = (line.partition("TopicId:")[0] + line.partition("PartitionCount:")[2] for line in lines)
        found.append(sorted(sorted(re.split("[ ,]+", line)) for line in kept))
    return found


def write(broker: Broker) -> None:
    """Write records: offsets beyond the log's end cannot be committed."""
    for topic, partitions in (("events", 2), ("other", 1)):
        broker.driver.ask("write", topic=topic, partitions=partitions, seed=5, batches=20, keyed=True)


def run(
    script: str, broker: Broker, folder: Path, *, in_one_jvm: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the script with the tools in a folder, as a distribution has them."""
    bin_ = folder / "kafka tools"
    bin_.mkdir(exist_ok=True)
    for name, main in TOOLS.items():
        path = bin_ / f"{name}.sh"
        witness = broker.witness
        words = witness.jvm().command(main) if in_one_jvm else witness.command(main, heap="256m")
        path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        path.chmod(0o755)
    environment: dict[str, Any] = {**os.environ, "BOOTSTRAP_SERVER": broker.bootstrap, "KAFKA_BIN": str(bin_), **more}
    environment["LC_ALL"] = "C"
    return subprocess.run(
        ["sh", "-s"], input=script, capture_output=True, text=True, check=False, timeout=600, env=environment
    )


def test_the_script_makes_the_same_cluster(two: tuple[Broker, Broker], tmp_path: Path) -> None:
    old, new = two
    for topic, partitions in (("events", 2), ("other", 1)):
        old.create(topic, partitions)
    write(old)
    for name, *words in MADE:
        tool(old, name, *words)
    before = described(old)
    old.stop()

    done = call("metadata", *old.log_dirs)
    assert done.returncode == 0, done.stderr
    script = done.stdout
    assert "alice-secret" not in script
    assert call("metadata", *reversed(old.log_dirs)).stdout == script

    with new:
        passwords = tmp_path / "passwords"
        passwords.write_text("alicia\tx\nalice\talice-secret\n", "utf-8")
        first = run(script, new, tmp_path, SCRAM_PASSWORDS=str(passwords))
        assert first.returncode == 0, (first.stdout, first.stderr)
        # The logs are empty, and Kafka's tool commits no offset that a log has not got.
        assert f"group {ODD}: not set, because the log has no such offset" in first.stderr
        assert run(script, new, tmp_path, STRICT="1").returncode == 1
        write(new)
        again = run(script, new, tmp_path, STRICT="1", SCRAM_PASSWORDS=str(passwords))
        assert again.returncode == 0, (again.stdout, again.stderr)
        assert f"Committed offsets of group {ODD}." in again.stdout
        assert described(new) == before
        assert_made_of(new, "alice", "alice-secret")

        # It ends at the first failure.
        new.kill()
        stopped = run(script, new, tmp_path, COMMAND_CONFIG=str(impatient(tmp_path)))
        assert stopped.returncode != 0
        assert "stopped with exit code" in stopped.stderr
        assert stopped.stdout.count("Error while executing topic command") == 1


def assert_made_of(broker: Broker, user: str, password: str) -> None:
    """The credentials are those of the password (RFC 5802), and the tools make none of salt and keys."""
    told = json.loads(call("metadata", *broker.log_dirs, "--as", "json", "--only", "users", "--secrets").stdout)
    credentials = [each for each in told["users"] if each["user"] == user]
    assert [(each["mechanism"], each["iterations"]) for each in credentials] == [
        ("SCRAM-SHA-256", 8192),
        ("SCRAM-SHA-512", 4096),
    ]
    for each in credentials:
        name = each["mechanism"].removeprefix("SCRAM-").replace("-", "").lower()
        salt, stored, server = (base64.b64decode(each[key]) for key in ("salt", "storedKey", "serverKey"))
        salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, each["iterations"])
        assert hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest() == stored
        assert hmac.digest(salted, b"Server Key", name) == server
        secrets = f"salt={each['salt']},stored_key={each['storedKey']},server_key={each['serverKey']}"
        words = ["--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config"]
        words.append(f"{each['mechanism']}=[{secrets},iterations={each['iterations']}]")
        code, out, err = broker.witness.jvm().run(
            TOOLS["kafka-configs"], "--bootstrap-server", broker.bootstrap, *words
        )
        assert code != 0, (out, err)
        assert "Invalid credential property" in out + err


@pytest.mark.parametrize("case", ["golden", *clusters.CASES])
def test_what_real_clusters_left(witness: Witness, tmp_path: Path, case: str) -> None:
    """With fewer brokers than replicas, and the settings of one broker for another."""
    paths = [str(corpus.GOLDEN / "metadata" / "data-0")] if case == "golden" else clusters.disks(case)
    done = call("metadata", *paths)
    assert done.returncode == 0, done.stderr
    with Broker(witness, tmp_path / "new", overrides=OVERRIDES) as new:
        more: dict[str, Any] = {f"BROKER_{n}": "" for n in range(2, 10)}
        ran = run(done.stdout, new, tmp_path, MAX_REPLICATION_FACTOR="1", **more)
        assert ran.returncode == 0, (ran.stdout, ran.stderr)
        new.stop()
        found = [json.loads(call("metadata", *each, "--as", "json").stdout) for each in (paths, new.log_dirs)]
    for each in found:
        # Internal topics are created when they are needed, per-broker settings are of brokers that are not there.
        each["topics"] = [
            (topic["topic"], topic["partitions"], topic["configs"]) for topic in each["topics"] if not topic["internal"]
        ]
        each["configs"] = [one for one in each["configs"] if one["type"] != "broker" or one["name"] in {None, "1"}]
    old, made = ({part: each[part] for part in ("topics", "configs", "acls", "quotas")} for each in found)
    assert made == old


def impatient(folder: Path) -> Path:
    """Settings of a client that gives up soon."""
    path = folder / "impatient client.properties"
    path.write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=1000\n", "utf-8")
    return path


def test_an_active_group_ends_the_script(two: tuple[Broker, Broker], tmp_path: Path) -> None:
    """Kafka's tool ends with 0 when it refuses."""
    old, new = two
    old.create("events", 1)
    old.driver.ask("write", topic="events", partitions=1, seed=5, batches=20, keyed=True)
    words = ("--group", "g", "--topic", "events", "--reset-offsets", "--to-latest", "--execute")
    tool(old, "kafka-consumer-groups", *words)
    assert PartitionLog(old.folder("events")).log_end_offset > 0
    old.stop()
    script = call("metadata", *old.log_dirs, "--only", "topics,groups").stdout
    with new:
        assert run(script, new, tmp_path, in_one_jvm=False).returncode == 0
        consumer = new.witness.command(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", new.bootstrap, "--topic", "events", "--group", "g"),
            heap="192m",
        )
        running = subprocess.Popen(consumer, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while "STABLE" not in tool(new, "kafka-consumer-groups", "--list", "--state").upper():
                assert running.poll() is None
            done = run(script, new, tmp_path)
        finally:
            running.kill()
            running.wait()
        assert done.returncode != 0
        assert "the current state is Stable" in done.stderr
