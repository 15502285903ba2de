"""``groups``, ``transactions`` and ``topics``: what they print, and their exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import corpus
from command import call, fails
from kafkalog import tables

pytestmark = pytest.mark.release

GROUPS = [corpus.GOLDEN / "internal-compacted" / name for name in ("data-0", "data-1")]
METADATA = corpus.GOLDEN / "metadata" / "data-0"
LOGS = corpus.GOLDEN / "clean-restarts" / "data-1"


def printed(*words: Any) -> list[str]:
    done = call(*words)
    # Each of these log dirs has some partitions of an internal topic.
    known = ("other brokers' log dirs have the rest", "the logs of their coordinators are not here")
    said = [line for line in done.stderr.splitlines() if not line.endswith(known)]
    assert (done.returncode, said) == (0, [])
    return done.stdout.splitlines()


def objects(*words: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed(*words, "-J")]


def test_groups() -> None:
    head, *lines = printed("groups", *GROUPS)
    assert head.split() == [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    ]
    cells = [line.split() for line in lines]
    offsets = tables.lag(GROUPS).to_pylist()
    found = {(row[0], row[1], int(row[2])): row[3] for row in cells if row[3] != "-"}
    assert found == {(row["group"], row["topic"], row["partition"]): str(row["offset"]) for row in offsets}
    (row,) = [row for row in cells if row[:3] == ["classic-a", "events", "1"]]
    assert row[7:] == ["/127.0.0.1", "classic-a-client"]
    assert row[6].startswith("classic-a-client-")
    # The logs are not in this copy.
    assert row[4:6] == ["-", "-"]


def test_groups_as_json() -> None:
    found = objects("groups", *GROUPS, "--group", "next-a")
    assert {row["group"] for row in found} == {"next-a"}
    assert found[0].keys() >= {"topic", "partition", "offset", "lag", "memberId"}
    states = {row["group"]: row for row in objects("groups", *GROUPS, "--state")}
    assert states["classic-a"] == {
        "group": "classic-a",
        "groupType": "classic",
        "protocol": "range",
        "state": "Stable",
        "epoch": 4,
        "members": 1,
    }
    assert objects("groups", *GROUPS, "--members") == tables.consumer_groups(GROUPS).to_pylist()


def test_members() -> None:
    head, *lines = printed("groups", *GROUPS, "--members", "--group", "classic-static")
    assert head.split()[:2] == ["GROUP", "CONSUMER-ID"]
    (line,) = lines
    assert line.split()[2] == "node-7"
    assert line.endswith("(0,1)")


def test_transactions() -> None:
    every = objects("transactions", *GROUPS)
    assert [row["transactionalId"] for row in every] == tables.transactions(GROUPS)["transactionalId"].to_pylist()
    assert all(isinstance(row["lastUpdateTimestamp"], int) for row in every)
    held = objects("transactions", *GROUPS, "--open")
    assert {row["state"] for row in held} <= {"Ongoing", "PrepareCommit", "PrepareAbort"}
    assert held == [row for row in every if row in held]
    assert printed("transactions", *GROUPS)[0].split()[:2] == ["TransactionalId", "ProducerId"]


def test_hanging_transactions() -> None:
    folder = corpus.GOLDEN / "txn" / "data-1"
    # Without a coordinator's log nobody knows that one of them does not hang.
    hanging = [row for row in tables.open_transactions(folder).to_pylist() if row["isHanging"] is not False]
    assert hanging
    found = objects("transactions", folder, "--hanging")
    assert [row["firstOffset"] for row in found] == [row["firstOffset"] for row in hanging]
    head, *lines = printed("transactions", folder, "--hanging")
    assert head.split()[:3] == ["Topic", "Partition", "ProducerId"]
    assert [line.split()[5] for line in lines] == [str(row["firstOffset"]) for row in hanging]


def test_aborted_transactions() -> None:
    """By the index entries that Kafka's classes read."""
    found = objects("transactions", LOGS, "--aborted", "-t", "ledger")
    (ledger,) = [each for each in corpus.partitions() if each.folder == LOGS / "ledger-0"]
    names = [path.name for path in sorted(ledger.answers.glob("index.*.txnindex.jsonl.gz"))]
    expected = [line for name in names for line in ledger.lines(name.removesuffix(".jsonl.gz"))]
    assert found
    assert [(row["producerId"], row["firstOffset"], row["lastOffset"]) for row in found] == [
        (line["producer_id"], line["first_offset"], line["last_offset"]) for line in expected if "producer_id" in line
    ]


def test_topics() -> None:
    lines = printed("topics", METADATA, "--topic", "topic-0-1")
    assert lines[0].startswith("Topic: topic-0-1\tTopicId: ")
    assert "PartitionCount: 5" in lines[0]
    assert "max.message.bytes=900001" in lines[0]
    assert len(lines) == 6
    assert lines[1].split("\t")[1:4] == ["Topic: topic-0-1", "Partition: 0", "Leader: none"]
    found = objects("topics", METADATA)
    assert [(row["topic"], row["partition"]) for row in found] == [
        (row["topic"], row["partition"]) for row in tables.topics(METADATA).to_pylist()
    ]
    assert found[0]["configs"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["groups", LOGS], "topic __consumer_offsets does not exist in"),
        (["groups", *GROUPS, "--group", "nobody"], "group 'nobody' does not exist in"),
        (["topics", LOGS], "no topic in the metadata log of"),
        (["topics", LOGS / "orders-0"], "topic __cluster_metadata does not exist in"),
        (["topics", METADATA, "--topic", "none"], "no topic 'none' in the metadata log"),
        (["transactions", METADATA], "topic __transaction_state does not exist in"),
        (["transactions", LOGS, "--aborted", "-t", "none"], 'no topic "none" in'),
    ],
)
def test_the_answer_is_no(words: list[Any], said: str) -> None:
    assert said in fails(1, *words)


def test_an_id_that_is_not_in_the_partitions_that_are_here() -> None:
    told = call("transactions", *GROUPS, "--transactional-id", "none")
    assert told.returncode == 1
    first, second = told.stderr.splitlines()
    assert "transactional id 'none' does not exist in" in first
    assert "__transaction_state: partitions 1 of at least 2 here" in second


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["groups", *GROUPS, "--state", "--members"], "not allowed with argument"),
        (["groups"], "the following arguments are required: PATH"),
    ],
)
def test_wrong_usage(words: list[Any], said: str) -> None:
    assert said in fails(2, *words)


@pytest.mark.parametrize("command", ["groups", "topics", "transactions"])
def test_a_path_that_is_not_there(command: str) -> None:
    assert "No such file or directory" in fails(3, command, LOGS / "nowhere")
