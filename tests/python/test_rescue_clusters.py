"""The plan for disks that real brokers left, against what their producers and Kafka's own classes said."""

from __future__ import annotations

import hashlib
from itertools import combinations
from pathlib import Path

import pytest

import clusters
from kafkalog.rescue.planner import plan_rescue

WITHHELD = [
    (case, without)
    for case in clusters.CASES
    for count in (0, 1, 2)
    for without in combinations([node for node in clusters.nodes(case) if node < 100], count)
]


@pytest.mark.parametrize(("case", "without"), WITHHELD, ids=str)
def test_what_was_acknowledged_and_is_on_a_disk_is_taken(case: str, without: tuple[int, ...]) -> None:
    """With a leader that has it: a replica that left the ISR may end in what was written elsewhere again."""
    plan = plan_rescue(clusters.disks(case, without))
    ids = {name: topic["id"] for name, topic in clusters.answer(case, "topics.json").items()}
    choices = {(each.topic, each.partition): each for each in plan.choices if ids.get(each.topic) == each.topic_id}
    held: dict[tuple[str, int], set[tuple[int, tuple[str | None, str | None]]]] = {}
    for replica in plan.replicas:
        if replica.state == "live" and replica.topic_id == ids.get(replica.topic):
            found = clusters.records(replica.path, 0, replica.log_end_offset)
            held.setdefault((replica.topic, replica.partition), set()).update(found.items())
    compacted = {"state"}
    taken = {place: clusters.taken(choice) for place, choice in choices.items()}
    required = 0
    for sent in clusters.acknowledged(case):
        place = sent.topic, sent.partition
        if place not in choices or sent.topic in compacted or sent.offset < choices[place].log_start_offset:
            continue
        record = (sent.key, sent.digest)
        if (sent.offset, record) in held.get(place, ()):
            required += 1
            assert taken[place].get(sent.offset) == record, sent
    assert required > 1000


@pytest.mark.parametrize("case", clusters.CASES)
def test_with_all_disks_nothing_acknowledged_is_missing(case: str) -> None:
    plan = plan_rescue(clusters.disks(case))
    assert plan.is_complete, [str(each) for each in plan.findings if each.severity == "error"]
    taken = {(each.topic, each.partition): clusters.taken(each) for each in plan.choices}
    starts = {(each.topic, each.partition): each.log_start_offset for each in plan.choices}
    for sent in clusters.acknowledged(case):
        place = sent.topic, sent.partition
        if sent.topic != "state" and sent.offset >= starts[place]:
            assert taken[place].get(sent.offset) == (sent.key, sent.digest), sent


@pytest.mark.parametrize("case", clusters.CASES)
def test_partitions_are_those_of_kafkas_image(case: str) -> None:
    plan = plan_rescue(clusters.disks(case))
    found = {(each.topic, each.partition): (each.topic_id, each.partition_epoch) for each in plan.choices}
    expected = {
        (each["t"], each["p"]): (each["id"], each["partition_epoch"])
        for each in clusters.lines(case, "partitions.jsonl")
    }
    assert found == expected
    for line in clusters.lines(case, "partitions.jsonl"):
        choice = next(each for each in plan.choices if (each.topic, each.partition) == (line["t"], line["p"]))
        assert choice.leader_epoch >= line["leader_epoch"]
        assert choice.replica is not None
        assert choice.replica.disk.node_id in {*line["isr"], *line["elr"]}


@pytest.mark.parametrize("case", clusters.CASES)
def test_the_image_is_the_newest_log_and_committed(case: str) -> None:
    plan = plan_rescue(clusters.disks(case))
    newest = max(
        clusters.answer(case, "../case.json")["nodes"], key=lambda each: (each["metadata_epoch"], each["metadata_end"])
    )
    assert (plan.image.epoch, plan.image.end_offset) == (newest["metadata_epoch"], newest["metadata_end"])
    controllers = [node for node in clusters.nodes(case) if node >= 100] or clusters.nodes(case)
    assert plan.image.voters == tuple(controllers)
    dynamic = clusters.answer(case, "../case.json")["quorum"] == "dynamic"
    assert plan.image.kraft_version == int(dynamic)
    assert plan.cluster_id == clusters.answer(case, "../case.json")["cluster_id"]


def test_what_a_minority_of_the_voters_has_is_not_provably_committed() -> None:
    case = next((each for each in clusters.CASES if each == "three-combined"), None)
    if case is None:
        pytest.skip("the shared corpus is not here")
    ends = {each["id"]: each["metadata_end"] for each in clusters.answer(case, "../case.json")["nodes"]}
    plan = plan_rescue(clusters.disks(case, without=[1]))
    assert plan.image.end_offset == ends[2] > ends[3]
    assert plan.image.committed_offset == ends[3]
    assert [each.code for each in plan.findings if each.code.startswith("metadata")] == ["metadata-uncommitted"]


@pytest.mark.parametrize("case", clusters.CASES)
def test_deleted_topics_and_older_incarnations_are_told_apart(case: str) -> None:
    if clusters.answer(case, "../case.json")["death"] != "lag":
        pytest.skip("no node was away")
    plan = plan_rescue(clusters.disks(case))
    codes = {(each.topic, each.code) for each in plan.findings}
    assert ("phoenix", "other-incarnation") in codes
    assert ("doomed", "unknown-partition") in codes
    assert not any(each.topic == "doomed" for each in plan.choices)


@pytest.mark.parametrize("case", clusters.CASES)
def test_the_open_transaction_is_listed(case: str) -> None:
    plan = plan_rescue(clusters.disks(case))
    open_ids = {
        each["transactional_id"] for each in clusters.lines(case, "transactions.jsonl") if each["state"] == "open"
    }
    assert open_ids <= {each.transactional_id for each in plan.open_transactions}


@pytest.mark.parametrize("case", clusters.CASES)
def test_nothing_on_the_disks_is_written(case: str) -> None:
    def state() -> list[tuple[str, int, str]]:
        files = sorted(each for disk in clusters.disks(case) for each in Path(disk).rglob("*") if each.is_file())
        return [(str(f), f.stat().st_mtime_ns, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files]

    before = state()
    plan_rescue(clusters.disks(case))
    assert state() == before
