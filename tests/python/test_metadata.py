"""`kafkalog metadata`: what it reads, and its three forms, with hostile names and stand-ins of Kafka's tools.

`tests/interop/test_metadata_script.py` runs the script against a real broker.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import clusters
import corpus
from command import call, fails
from kafkalog import LogWriter
from kafkalog.metadata.shell_text import java_property
from kafkalog.metadata.strimzi import resource_names
from metadata_made import HOSTILE, OFFSETS, acl, commit, config, make, one_partition, quota, scram

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = corpus.GOLDEN / "metadata" / "data-0"
ZOOKEEPER = corpus.GOLDEN / "v2-3.9.1-zk" / "data-0"
STAND_IN = """\
#!/bin/sh
# Writes its name, arguments and files, each with its length, and answers as Kafka's tool does.
out=$RECORDED
put() { printf '%s\\0' "$1" >>"$out"; }
put "${0##*/}"
for word; do
  put "$word"
done
previous=
for word; do
  case $previous in
    --add-config-file | --from-file) put "FILE"; cat "$word" >>"$out"; printf '\\0' >>"$out" ;;
  esac
  if [ "$previous" = --from-file ]; then cat "$word"; fi
  previous=$word
done
put ""
put "END OF CALL"
if [ "${0##*/}" = "${FAILS:-}" ]; then exit 7; fi
"""


@dataclass(frozen=True)
class Called:
    """A call of a stand-in."""

    tool: str
    words: list[str]
    file: str | None

    def after(self, option: str) -> list[str]:
        """Return the values of an option."""
        return [value for name, value in zip(self.words, self.words[1:], strict=False) if name == option]


def run(
    script: str, folder: Path, shell: str = "sh", **more: str
) -> tuple[subprocess.CompletedProcess[str], list[Called]]:
    """Run a script with stand-ins of Kafka's tools; return also their calls."""
    bin_ = folder / "the bin"
    bin_.mkdir(exist_ok=True)
    for name in ("kafka-topics", "kafka-configs", "kafka-acls", "kafka-consumer-groups"):
        (bin_ / f"{name}.sh").write_text(STAND_IN, "utf-8")
        (bin_ / f"{name}.sh").chmod(0o755)
    recorded = folder / "recorded"
    recorded.unlink(missing_ok=True)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    environment = {**os.environ, "KAFKA_BIN": str(bin_), "RECORDED": str(recorded), "TMPDIR": str(work), **more}
    (folder / "script").write_text(script, "utf-8", newline="")
    done = subprocess.run(
        [shell, str(folder / "script")],
        capture_output=True,
        check=False,
        timeout=120,
        env=environment,
        cwd=work,
        text=True,
        errors="replace",
    )
    # It leaves nothing, and nothing in the names was run.
    assert list(work.iterdir()) == []
    calls = []
    for text in recorded.read_bytes().decode().split("\0\0END OF CALL\0")[:-1] if recorded.exists() else ():
        tool, *words = text.split("\0")
        file = words.pop() if "FILE" in words else None
        calls.append(Called(tool, words[:-1] if file is not None else words, file))
    return done, calls


def printed(*words: Any) -> str:
    done = call("metadata", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_json(*words: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(*words, "--as", "json"))
    return found


def settings_of(text: str) -> dict[str, str]:
    """Read Java properties as ``Properties.load`` does, as far as they are written here."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        value = re.sub(
            r"\\(u([0-9a-f]{4})|.)",
            lambda match: (
                chr(int(match[2], 16))
                if match[2]
                else {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(match[1], match[1])
            ),
            value,
        )
        found[name] = value.encode("utf-16", "surrogatepass").decode("utf-16")
    return found


def test_the_script_calls_kafkas_tools(tmp_path: Path) -> None:
    done, calls = run(printed(GOLDEN), tmp_path, BOOTSTRAP_SERVER="b:1", COMMAND_CONFIG="a file")
    assert done.returncode == 0, done.stderr
    for each in calls:
        assert each.words[:4] == ["--bootstrap-server", "b:1", "--command-config", "a file"]
    topics = {each.after("--topic")[0]: each for each in calls if each.tool == "kafka-topics.sh"}
    assert len(topics) == 18
    assert topics["topic-0-1"].after("--partitions") == ["5"]
    assert topics["topic-0-1"].after("--config") == [
        "cleanup.policy=compact",
        "max.message.bytes=900001",
        "retention.ms=1000001",
    ]
    assert {"--create", "--if-not-exists"} < set(topics["topic-0-1"].words)
    configs = [(each.after("--entity-name"), each.file) for each in calls if each.file is not None]
    assert configs == [
        ([], "message.max.bytes=1000002\nmin.insync.replicas=1\n"),
        (["1"], "log.cleaner.io.buffer.load.factor=0.7\n"),
    ]
    added = [each.after("--add-config") for each in calls if each.after("--add-config")]
    assert added == [["request_percentage=50.25"], ["producer_byte_rate=3072"]]
    granted = {
        (each.after("--allow-principal") + each.after("--deny-principal"))[0]: each
        for each in calls
        if each.tool == "kafka-acls.sh"
    }
    assert granted["User:u8"].after("--deny-principal") == ["User:u8"]
    assert granted["User:u8"].after("--topic") == ["res-0-8", "res-1-8", "res-2-8"]
    assert granted["User:u9"].after("--resource-pattern-type") == ["prefixed"]


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
@pytest.mark.sampled(2)
def test_any_name_and_value_stays_what_it_is(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    records = [config(2, "orders", f"p.{n}", name) for n, name in enumerate(HOSTILE)]
    records += [config(4, "", f"listener.name.x.{n}", f" {name}") for n, name in enumerate(HOSTILE)]
    records += [config(32, name, "consumer.session.timeout.ms", "1") for name in HOSTILE]
    records += [acl(n, principal=f"User:{name}", resourceName=f"x{name}x") for n, name in enumerate(HOSTILE)]
    records += [quota({"user": name, "client-id": None}, "producer_byte_rate", 5.0) for name in HOSTILE]
    records += [scram(name) for name in HOSTILE]
    disk = make(tmp_path / "disk", records)
    commit(disk, {(name, "orders", 0): 7 for name in HOSTILE})
    passwords = tmp_path / "passwords"
    passwords.write_text("".join(f"{name}\ta\\b {name}\n" for name in HOSTILE if "\n" not in name), "utf-8", newline="")
    script = printed(disk, "--secrets")
    done, calls = run(script, tmp_path, shell, SCRAM_PASSWORDS=str(passwords))
    assert done.returncode == 0, done.stderr

    [topic] = [each for each in calls if each.tool == "kafka-topics.sh"]
    of_topic = dict(each.split("=", 1) for each in topic.after("--config"))
    files = [each for each in calls if each.tool == "kafka-configs.sh" and each.file is not None]
    of_topic |= settings_of(next(each.file or "" for each in files if "topics" in each.words))
    assert of_topic == {f"p.{n}": name for n, name in enumerate(HOSTILE)}
    of_brokers = settings_of(next(each.file or "" for each in files if "brokers" in each.words))
    assert of_brokers == {f"listener.name.x.{n}": f" {name}" for n, name in enumerate(HOSTILE)}
    assert sorted(each.after("--entity-name")[0] for each in files if "groups" in each.words) == sorted(HOSTILE)
    granted = [each for each in calls if each.tool == "kafka-acls.sh"]
    # kafka-acls trims what follows the type of the principal, too.
    assert {each.after("--allow-principal")[0] for each in granted} == {
        f"User:{name}" for name in HOSTILE if name == name.rstrip("\n")
    }
    limited = [each for each in calls if each.after("--add-config")]
    assert sorted(each.after("--entity-name")[0] for each in limited) == sorted(HOSTILE)
    assert all(each.words[4:8] == ["users", "--entity-name", each.words[6], "--entity-type"] for each in limited)
    reset = [each for each in calls if each.tool == "kafka-consumer-groups.sh"]
    assert sorted(each.after("--group")[0] for each in reset) == sorted(HOSTILE)
    assert {each.file for each in reset} == {"orders,0,7\n"}
    said = {each.after("--entity-name")[0]: each.file for each in files if "users" in each.words}
    line = "SCRAM-SHA-256=iterations=8192,password=a\\b {}\n"
    assert said == {name: line.format(name).replace("\\", "\\\\") for name in HOSTILE if "\n" not in name}


def test_no_name_ends_a_comment(tmp_path: Path) -> None:
    """Comments name what is left out."""
    records = [acl(n, principal=name, operation=9, resourceName=name) for n, name in enumerate(HOSTILE)]
    disk = make(tmp_path / "disk", [*records, *(scram(f"{name}\n") for name in HOSTILE)])
    commit(disk, {(name, name, 0): 7 for name in HOSTILE})
    done, calls = run(printed(disk, "--only", "acls,users,groups"), tmp_path)
    assert (done.returncode, calls) == (0, [])
    for text in (printed(disk), printed(disk, "--as", "strimzi")):
        head = re.split("^(?:set -eu|---)$", text, flags=re.MULTILINE)[0]
        assert all(line.startswith("#") for line in head.splitlines() if line)
        assert not re.search("[\x1b\x85\u2028]", text)


def test_failures_end_the_script(tmp_path: Path) -> None:
    disk = make(tmp_path / "disk", [acl(1), quota({"user": "u"}, "producer_byte_rate", 1.0)])
    script = printed(disk)
    done, calls = run(script, tmp_path, FAILS="kafka-acls.sh")
    assert done.returncode == 7
    assert [each.tool for each in calls] == ["kafka-topics.sh", "kafka-acls.sh"]
    assert "stopped with exit code 7" in done.stderr
    assert calls == run(script, tmp_path, FAILS="kafka-acls.sh")[1]
    (tmp_path / "nothing").mkdir()
    done = subprocess.run(
        ["sh", "-s"], input=script, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (127, "kafka-topics.sh is not on the PATH: set KAFKA_BIN")


def test_replication_and_brokers_of_another_size(tmp_path: Path) -> None:
    """A replica that a reassignment adds does not count."""
    disk = make(tmp_path / "disk", [config(4, "2", "log.cleaner.threads", "3")])
    script = printed(disk)
    for more, factor, brokers in (({}, "2", ["2"]), ({"MAX_REPLICATION_FACTOR": "1"}, "1", ["2"])):
        done, calls = run(script, tmp_path, **more)
        assert done.returncode == 0
        assert calls[0].after("--replication-factor") == [factor]
        assert calls[1].after("--entity-name") == brokers
    assert run(script, tmp_path, BROKER_2="5")[1][1].after("--entity-name") == ["5"]
    assert len(run(script, tmp_path, BROKER_2="")[1]) == 1


def test_settings_that_newer_brokers_refuse(tmp_path: Path) -> None:
    records = [
        config(2, "orders", "segment.bytes", "14"),
        config(2, "orders", "message.format.version", "2.8"),
        config(2, "orders", "retention.ms", "soon"),
        config(2, "orders", "cleanup.policy", "compact,delete"),
    ]
    script = printed(make(tmp_path / "disk", records), "--secrets")
    assert run(script, tmp_path)[1][0].after("--config") == ["cleanup.policy=compact,delete", "segment.bytes=1048576"]
    for text in (
        "message.format.version is not a setting of Kafka 4",
        "retention.ms=soon of topic orders",
        "in place of 14",
    ):
        assert text in script


def test_secrets_only_when_requested(tmp_path: Path) -> None:
    records = [
        config(4, "1", "ssl.keystore.password", "hunter2"),
        config(2, "orders", "plugin.password", "hunter3"),
        scram("alice", 2),
    ]
    disk = make(tmp_path / "disk", records)
    for form in ("kafka", "strimzi", "json"):
        done = call("metadata", disk, "--as", form)
        assert not re.search("hunter|c2VjcmV0", done.stdout + done.stderr)
        for name in (
            "ssl.keystore.password of broker 1",
            "plugin.password of topic orders",
            "user alice (SCRAM-SHA-512)",
        ):
            assert name in done.stdout
            assert name in done.stderr
    shown = as_json(disk, "--secrets")
    assert shown["configs"] == [{"type": "broker", "name": "1", "configs": {"ssl.keystore.password": "hunter2"}}]
    assert shown["topics"][0]["configs"] == {"plugin.password": "hunter3"}
    secret = {"salt": "c2VjcmV0", "storedKey": "c2VjcmV0", "serverKey": "c2VjcmV0"}
    assert shown["users"] == [{"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 8192, **secret}]
    assert shown["leftOut"] == []
    script = printed(disk, "--secrets")
    assert "ssl.keystore.password=hunter2" in script
    assert "no tool of Kafka takes" in script
    assert "plugin.password" not in call("metadata", disk, "--only", "acls").stderr


def test_offsets_beyond_the_log_are_named(tmp_path: Path) -> None:
    disk = make(tmp_path / "disk", [one_partition(number=1)])
    commit(disk, {("g", "orders", 0): 7, ("g", "orders", 1): 9, ("g", "orders", 5): 1, ("g", "gone", 0): 1})
    script = printed(disk)
    assert "orders-5 of group g" in script
    assert "gone-0 of group g" in script
    tool = tmp_path / "other" / "kafka-consumer-groups"
    tool.parent.mkdir()
    for name in ("kafka-topics", "kafka-configs", "kafka-acls"):
        (tool.parent / name).write_text("#!/bin/sh\n")
        (tool.parent / name).chmod(0o755)
    for answer, code, said in (
        ('"orders",0,7\norders,1,9', 0, ""),
        ("orders,0,7\norders,1,0", 0, "(topic,partition,offset): orders,1,9"),
        ("\nError: the group is active", 1, "Error: the group is active"),
    ):
        # Also with the names that packages give the tools.
        tool.write_text(f"#!/bin/sh\ncat <<'X'\n{answer}\nX\n")
        tool.chmod(0o755)
        done = subprocess.run(
            ["sh", "-s"],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KAFKA_BIN": str(tool.parent)},
        )
        assert done.returncode == code, done.stderr
        assert said in done.stderr
        assert bool(done.stderr) == bool(said)


def test_json_has_everything() -> None:
    found = as_json(GOLDEN)
    assert list(found) == [
        *("clusterId", "paths", "metadataLog", "metadataEndOffset", "features"),
        *("topics", "configs", "acls", "users", "quotas", "groups", "leftOut", "notes"),
    ]
    assert found["metadataEndOffset"] == 403
    assert found["features"]["metadata.version"] == 30
    assert [len(found[part]) for part in ("topics", "configs", "acls", "users", "quotas")] == [18, 2, 27, 2, 2]
    assert found["quotas"][1] == {"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 3072.0}}
    assert found["users"][0] == {"user": "user-1", "mechanism": "SCRAM-SHA-256", "iterations": 4096}
    assert list(as_json(GOLDEN, "--only", "users,quotas"))[5:-2] == ["users", "quotas"]


def test_only_what_is_about_topics(tmp_path: Path) -> None:
    other = "agWSv5uSTbmkO_DNaK0Yww"
    records = [
        ("TOPIC_RECORD", 0, {"name": "other", "topicId": other}),
        one_partition(other),
        acl(1),
        acl(2, resourceName="oth", patternType=4),
        acl(3, resourceName="*"),
        acl(4, resourceType=3),
        config(4, "", "log.retention.ms", "1"),
        config(2, "other", "plugin.password", "x"),
        quota({"user": "u"}, "producer_byte_rate", 1.0),
    ]
    disk = make(tmp_path / "disk", records)
    commit(disk, {("g", "orders", 0): 7, ("g", "other", 0): 9, ("h", "other", 0): 9})
    found = as_json(disk, "-t", "orders")
    assert [each["topic"] for each in found["topics"]] == ["orders"]
    assert [each["resourceName"] for each in found["acls"]] == ["*", "orders"]
    assert [(each["group"], len(each["offsets"])) for each in found["groups"]] == [("g", 1)]
    assert not {"configs", "users", "quotas"} & set(found)
    assert found["leftOut"] == []
    assert "no topic 'orderz'" in fails(1, "metadata", disk, "-t", "orderz")
    assert "did you mean" in fails(2, "metadata", disk, "--only", "acl")


def test_internal_topics_are_not_created(tmp_path: Path) -> None:
    ident = "agWSv5uSTbmkO_DNaK0Yww"
    records = [("TOPIC_RECORD", 0, {"name": OFFSETS, "topicId": ident}), one_partition(ident)]
    disk = make(tmp_path / "disk", records)
    script = printed(disk)
    assert [each.after("--topic") for each in run(script, tmp_path)[1]] == [["orders"]]
    assert f"#   {OFFSETS}: 1 partitions\n" in script
    assert re.findall("topicName: (.*)", printed(disk, "--as", "strimzi")) == ["orders"]


def test_several_nodes(tmp_path: Path) -> None:
    """The longest metadata log of the latest epoch, and of each partition the replica that is in sync."""
    topic = ("TOPIC_RECORD", 0, {"name": OFFSETS, "topicId": "agWSv5uSTbmkO_DNaK0Yww"})
    partition = one_partition("agWSv5uSTbmkO_DNaK0Yww", isr=[2])
    old, new = make(tmp_path / "old", [], node=1), make(tmp_path / "new", [topic, partition], node=2, end=200)
    commit(old, {("g", "orders", 0): 1, ("g", "orders", 1): 1}, epoch=9)
    commit(new, {("g", "orders", 0): 2})
    for paths in ([old, new], [new, old]):
        found = as_json(*paths)
        assert found["metadataLog"] == str(new / "__cluster_metadata-0")
        assert [each["offset"] for each in found["groups"][0]["offsets"]] == [2]
    # A replica that is damaged is left for another one.
    clusters.damage(new / f"{OFFSETS}-0", 0)
    done = call("metadata", old, new, "--as", "json")
    assert done.returncode == 1
    assert "; left out" in done.stderr
    assert [each["offset"] for each in json.loads(done.stdout)["groups"][0]["offsets"]] == [1, 1]
    # And without any, the rest is answered.
    done = call("metadata", new, "--as", "json")
    assert (done.returncode, json.loads(done.stdout)["groups"]) == (1, [])
    assert len(json.loads(done.stdout)["topics"]) == 2
    shutil.rmtree(new / f"{OFFSETS}-0")
    assert f"{OFFSETS}: none of 1 partitions here" in call("metadata", new).stderr


def test_one_folder_is_enough(tmp_path: Path) -> None:
    disk = make(tmp_path / "disk", [])
    commit(disk, {("g", "orders", 0): 7})
    assert [each["topic"] for each in as_json(disk / "__cluster_metadata-0")["topics"]] == ["orders"]
    assert [each["group"] for each in as_json(disk / f"{OFFSETS}-0")["groups"]] == ["g"]


def test_missing_changes_are_named(tmp_path: Path) -> None:
    disk = make(tmp_path / "disk", [])
    with LogWriter(disk, "later", topic_id="agWSv5uSTbmkO_DNaK0Yww"):
        pass
    [snapshot] = (disk / "__cluster_metadata-0").glob("*.checkpoint")
    snapshot.write_bytes(snapshot.read_bytes()[:-40])
    done = call("metadata", disk, "--as", "json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert {each["topic"]: each["source"] for each in found["topics"]}["later"] == "folders"
    assert any("missing" in note for note in found["notes"])


def test_a_log_dir_of_the_zookeeper_era() -> None:
    found = as_json(ZOOKEEPER)
    folders = {path.name.rpartition("-")[0] for path in ZOOKEEPER.iterdir() if path.is_dir()}
    assert {each["topic"] for each in found["topics"]} == folders
    assert all(each["source"] == "folders" and each["replicationFactor"] == 1 for each in found["topics"])
    assert all(re.fullmatch("[A-Za-z0-9_-]{22}", each["topicId"]) for each in found["topics"])
    assert [note for note in found["notes"] if "ZooKeeper had them" in note]
    assert "# note: no metadata log is here" in printed(ZOOKEEPER)


def test_names_of_resources() -> None:
    topics = ["orders", "Orders", "a_b", "a.b", "_", "__x", "x" * 249, "X" * 249, "-", "..", "a..b", "a-", "\u00fc", ""]
    names = resource_names(topics)
    valid = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
    assert all(valid.fullmatch(name) for name in names.values()), names
    assert len(set(names.values())) == len(topics)
    assert (names["orders"], names["a.b"]) == ("orders", "a.b")
    # One that exists is not taken, whatever the order.
    taken = names["a_b"]
    for given in (["a_b", taken], [taken, "a_b"]):
        other = resource_names(given)
        assert other[taken] == taken
        assert other["a_b"].startswith(taken)
        assert other["a_b"] != taken


def test_properties() -> None:
    assert java_property("a", " b\n\\\u00fc\U0001f600") == "a=\\ b\\n\\\\\\u00fc\\ud83d\\ude00"


def test_output_is_the_same_each_time(tmp_path: Path) -> None:
    records = [acl(n, principal=f"User:{n}") for n in range(5)]
    one, two = make(tmp_path / "a" / "disk", records), make(tmp_path / "b" / "disk", records[::-1])
    for form in ("kafka", "strimzi", "json"):
        texts = {printed(disk, "--as", form).replace(str(disk), "") for disk in (one, two)}
        assert len(texts) == 1
