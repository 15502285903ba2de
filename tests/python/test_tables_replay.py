"""Offsets, lag, groups and transactions: replays of Kafka's own answers, and of random logs made by hand."""

from __future__ import annotations

import json
import random
import struct
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
from command import call
from kafkalog import tables
from kafkalog.rescue.planner import plan_rescue
from naive import crc32c

if TYPE_CHECKING:
    from pathlib import Path

    from corpus import Partition

pytestmark = pytest.mark.corpus

OFFSETS = [p for p in corpus.partitions() if p.has("table") and p.topic == "__consumer_offsets"]
TRANSACTIONS = [p for p in corpus.partitions() if p.has("table") and p.topic == "__transaction_state"]
Place = tuple[str, str, int]


def shown(table: pa.Table) -> list[dict[str, Any]]:
    """Give rows with times as numbers."""
    for name in table.column_names:
        if pa.types.is_timestamp(table.schema.field(name).type):
            table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    return list(table.to_pylist())


def replayed(partition: Partition) -> tuple[dict[Place, dict[str, Any]], dict[Place, dict[str, Any]]]:
    """Replay Kafka's answers by the definition: committed and pending offsets."""
    committed: dict[Place, dict[str, Any]] = {}
    pending: dict[int, dict[Place, dict[str, Any]]] = defaultdict(dict)
    decoded = {line["offset"]: line for line in partition.lines("table")}
    for record in partition.lines("records"):
        if record.get("is_control"):
            ended = pending.pop(record["producer_id"], {})
            for place, line in ended.items():
                if (
                    record["control_type"] == "COMMIT"
                    and committed.get(place, {"offset": -1})["offset"] < line["offset"]
                ):
                    committed[place] = line
            continue
        if record.get("offset") not in decoded or decoded[record["offset"]]["key_type"] not in {0, 1}:
            continue
        line = decoded[record["offset"]]
        place = (line["key"]["group"], line["key"]["topic"], line["key"]["partition"])
        if line["tombstone"]:
            committed.pop(place, None)
            for each in pending.values():
                each.pop(place, None)
        elif line["producer_id"] >= 0:
            pending[line["producer_id"]][place] = line
        else:
            committed[place] = line
    return committed, {place: line for each in pending.values() for place, line in each.items()}


@pytest.mark.parametrize("partition", OFFSETS, ids=lambda p: p.id)
def test_offsets_are_those_of_a_replay(partition: Partition) -> None:
    committed, pending = replayed(partition)
    if any("offset_row" not in line for line in committed.values()):
        pytest.skip("the corpus has no answers about the rows of these records")
    expected = []
    for place, line in sorted({**pending, **committed}.items()):
        row = line["offset_row"]
        expected.append(
            {
                **dict(zip(("group", "topic", "partition"), place, strict=True)),
                "offset": row["offset"],
                "leaderEpoch": row["leader_epoch"],
                "metadata": row["metadata"],
                "commitTimestamp": row["commit_timestamp"],
                "expireTimestamp": None if row["expire_timestamp"] < 0 else row["expire_timestamp"],
                "topicId": None if set(row["topic_id"] or "A") == {"A"} else row["topic_id"],
                "isPending": place in pending,
            }
        )
    assert shown(tables.consumer_offsets(partition.folder)) == expected


def test_corpus_has_something_to_replay() -> None:
    assert sum(len(replayed(partition)[0]) for partition in OFFSETS) > 10
    assert TRANSACTIONS


@pytest.mark.parametrize("partition", OFFSETS, ids=lambda p: p.id)
def test_history_ends_in_the_current_state(partition: Partition) -> None:
    last: dict[Place, dict[str, Any]] = {}
    changes = shown(tables.consumer_offsets(partition.folder, history=True))
    for row in changes:
        if not row.pop("isPending"):
            last[row["group"], row["topic"], row["partition"]] = row
    kept = {place: row for place, row in last.items() if row["offset"] is not None}
    for row in shown(tables.consumer_offsets(partition.folder)):
        is_pending, ends = row.pop("isPending"), kept.pop((row["group"], row["topic"], row["partition"]), None)
        assert is_pending if ends is None else row.items() <= ends.items()
    assert not kept
    assert [row["logOffset"] for row in changes] == sorted(row["logOffset"] for row in changes)
    times = {line["offset"]: line["timestamp"] for line in partition.lines("table")}
    assert all(row["logTimestamp"] == times[row["logOffset"]] for row in changes)


@pytest.mark.parametrize("partition", TRANSACTIONS, ids=lambda p: p.id)
def test_transactions_are_the_last_of_each_id(partition: Partition) -> None:
    last = {line["key"]["transactionalId"]: line["value"] for line in partition.lines("table")}
    found = shown(tables.transactions(partition.folder))
    expected = {name: value for name, value in last.items() if value is not None}
    assert [row["transactionalId"] for row in found] == sorted(expected)
    names = {0: "Empty", 1: "Ongoing", 2: "PrepareCommit", 3: "PrepareAbort", 4: "CompleteCommit", 5: "CompleteAbort"}
    for row in found:
        value = expected[row["transactionalId"]]
        assert row["state"] == names[value["transactionStatus"]]
        assert (row["producerId"], row["producerEpoch"]) == (value["producerId"], value["producerEpoch"])
        assert row["timeoutMs"] == value["transactionTimeoutMs"]
        assert row["lastUpdateTimestamp"] == value["transactionLastUpdateTimestampMs"]
        assert row["startTimestamp"] == (
            value["transactionStartTimestampMs"] if value["transactionStartTimestampMs"] >= 0 else None
        )
        assert row["partitions"] == sorted(
            (
                {"topic": each["topic"], "partition": n}
                for each in value["transactionPartitions"] or ()
                for n in each["partitionIds"]
            ),
            key=lambda each: (each["topic"], each["partition"]),
        )
    changes = tables.transactions(partition.folder, history=True)
    assert changes["logOffset"].to_pylist() == [line["offset"] for line in partition.lines("table")]
    assert changes["state"].to_pylist().count("Dead") == sum(line["tombstone"] for line in partition.lines("table"))


# Logs made by hand


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def batch(offset: int, key: bytes, value: bytes | None, producer: int = -1, attributes: int = 0) -> bytes:
    """Build a batch of one record."""
    sized = varint(-1) if value is None else varint(len(value)) + value
    record = b"\0\0\0" + varint(len(key)) + key + sized + b"\0"
    rest = struct.pack(">hiqqqhiI", attributes, 0, 5, 5, producer, 0 if producer >= 0 else -1, -1, 1)
    rest += varint(len(record)) + record
    head = struct.pack(">qiibI", offset, len(rest) + 9, 0, 2, crc32c(rest))
    return head + rest


def commit_key(place: Place) -> bytes:
    return struct.pack(">h", 1) + text(place[0]) + text(place[1]) + struct.pack(">i", place[2])


def commit_value(offset: int) -> bytes:
    return struct.pack(">hqi", 3, offset, 7) + text("note") + struct.pack(">q", 1000 + offset)


def end_marker(offset: int, producer: int, kind: int) -> bytes:
    return batch(offset, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0), producer, 0x30)


def write(folder: Path, batches: list[bytes]) -> Path:
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder


def test_random_commits_in_and_outside_transactions(tmp_path: Path) -> None:  # noqa: C901 - a replay, by the definition
    chance = random.Random(3)  # noqa: S311 - to be repeated, not secret
    for case in range(30):
        places = [(f"g{n % 3}", f"t{n % 2}", n) for n in range(6)]
        committed: dict[Place, tuple[int, int]] = {}
        pending: dict[int, dict[Place, tuple[int, int]]] = defaultdict(dict)
        gone: set[int] = set()
        batches: list[bytes] = []
        kept: dict[int, int] = {}
        for offset in range(chance.randrange(1, 80)):
            place, producer = chance.choice(places), chance.randrange(3)
            action = chance.randrange(5)
            if action == 0:
                committed[place] = (offset, offset * 10)
                batches.append(batch(offset, commit_key(place), commit_value(offset * 10)))
                kept[offset] = -1
            elif action in {1, 2}:
                pending[producer][place] = (offset, offset * 10)
                batches.append(batch(offset, commit_key(place), commit_value(offset * 10), producer, 0x10))
                kept[offset] = producer
            elif action == 3:
                committed.pop(place, None)
                for each in pending.values():
                    each.pop(place, None)
                batches.append(batch(offset, commit_key(place), None))
                kept[offset] = -1
            else:
                kind = chance.randrange(2)
                for ended, value in pending.pop(producer, {}).items():
                    if kind and committed.get(ended, (-1, 0)) < value:
                        committed[ended] = value
                for at, who in kept.items():
                    if who == producer:
                        kept[at] = -1
                        gone |= set() if kind else {at}
                batches.append(end_marker(offset, producer, kind))
        folder = write(tmp_path / str(case) / "__consumer_offsets-0", batches)
        # The last one of a place comes last.
        all_open = sorted((value, place) for each in pending.values() for place, value in each.items())
        open_ones = {place: value for value, place in all_open}
        expected = {place: value[1] for place, value in {**open_ones, **committed}.items()}
        rows = tables.consumer_offsets(folder).to_pylist()
        assert {(row["group"], row["topic"], row["partition"]): row["offset"] for row in rows} == expected, case
        found = {(row["group"], row["topic"], row["partition"]) for row in rows if row["isPending"]}
        assert found == set(open_ones), case
        changes = tables.consumer_offsets(folder, history=True)
        assert changes["logOffset"].to_pylist() == [at for at in kept if at not in gone]
        assert [row["isPending"] for row in changes.to_pylist()] == [kept[at] >= 0 for at in kept if at not in gone]


def test_a_row_as_it_is(tmp_path: Path) -> None:
    folder = write(tmp_path / "__consumer_offsets-7", [batch(0, commit_key(("g", "t", 2)), commit_value(50))])
    (row,) = shown(tables.consumer_offsets(folder))
    assert row == {
        "group": "g",
        "topic": "t",
        "partition": 2,
        "offset": 50,
        "leaderEpoch": 7,
        "metadata": "note",
        "commitTimestamp": 1050,
        "expireTimestamp": None,
        "topicId": None,
        "isPending": False,
    }


def test_what_cannot_be_decoded_is_left_out(tmp_path: Path) -> None:
    """Kinds and versions to come, and bytes that are cut off."""
    good = batch(4, commit_key(("g", "t", 0)), commit_value(9))
    broken = [
        batch(0, b"", b""),
        batch(1, b"\x00", commit_value(1)),
        batch(2, commit_key(("g", "t", 1)), b"\x00\x63" + b"x" * 40),
        batch(3, commit_key(("g", "t", 1))[:-1], commit_value(1)),
        good,
        batch(5, struct.pack(">h", 99) + text("g"), b"\x00\x00"),
        batch(6, struct.pack(">h", 2) + text("g"), b"\x00\x03\xff"),
    ]
    folder = write(tmp_path / "__consumer_offsets-0", broken)
    offsets, groups = tables.consumer_offsets(folder), tables.consumer_groups(folder)
    assert offsets["offset"].to_pylist() == [9]
    assert groups["group"].to_pylist() == ["g"]
    # Said, so that nobody takes them for all there is.
    notes = json.loads(offsets.schema.metadata[b"kafkalog.notes"])
    assert offsets.schema.metadata[b"kafkalog.unapplied"] == b"2"
    assert "offset 2: " in notes[0]
    assert "group g, topic t, partition 1 in version 99" in notes[0]
    assert "offset 3: " in notes[1]
    notes = json.loads(groups.schema.metadata[b"kafkalog.notes"])
    assert [offset for offset in range(7) if any(f"offset {offset}:" in note for note in notes)] == [0, 1, 5, 6]


def test_a_commit_of_a_newer_kafka_does_not_stay_hidden(tmp_path: Path) -> None:
    place = ("g", "t", 1)
    newer = struct.pack(">h", 99) + commit_value(50)[2:]
    broken = [batch(0, commit_key(place), commit_value(9)), batch(1, commit_key(place), newer)]
    folder = write(tmp_path / "__consumer_offsets-0", broken)
    named = "group g, topic t, partition 1 in version 99"
    for table in (
        tables.consumer_offsets(folder),
        tables.consumer_offsets(folder, history=True),
        tables.lag(folder),
    ):
        assert (table.schema.metadata or {})[b"kafkalog.unapplied"] == b"1", table.schema.names
        assert named in json.loads(table.schema.metadata[b"kafkalog.notes"])[0]
    printed = call("groups", folder)
    assert printed.returncode == 0
    assert printed.stderr.count(named) == 1


def test_a_transaction_of_a_newer_kafka_does_not_stay_hidden(tmp_path: Path) -> None:
    """The older state is not shown as if it were all, nor does a rescue take the producer ids for all there are."""
    newer = struct.pack(">h", 99) + bytes(40)
    folder = write(tmp_path / "data" / "__transaction_state-0", [batch(0, b"\0\0" + text("id"), newer)])
    for history in (False, True):
        table = tables.transactions(folder, history=history)
        assert table.schema.metadata[b"kafkalog.unapplied"] == b"1"
        assert "in version 99" in json.loads(table.schema.metadata[b"kafkalog.notes"])[0]
    assert "in version 99" in call("transactions", folder).stderr
    (folder.parent / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAABQ\n")
    found = [each for each in plan_rescue(folder.parent).findings if each.code == "transactions-unknown"]
    assert ["in version 99" in each.message for each in found] == [True]


def test_lag(tmp_path: Path) -> None:
    places = [("g", "t", 0), ("g", "t", 1), ("g", "elsewhere", 0)]
    write(
        tmp_path / "__consumer_offsets-0",
        [batch(n, commit_key(place), commit_value(30)) for n, place in enumerate(places)],
    )
    for partition, records in ((0, 42), (1, 5)):
        with kafkalog.LogWriter(tmp_path, "t", partition) as log:
            log.append([kafkalog.Record(b"x")] * records)
    rows = tables.lag(tmp_path).to_pylist()
    found = {(row["topic"], row["partition"]): (row["logStartOffset"], row["logEndOffset"], row["lag"]) for row in rows}
    # The second one's log was cut below what was committed.
    assert found == {("t", 0): (0, 42, 12), ("t", 1): (0, 5, -25), ("elsewhere", 0): (None, None, None)}
    assert tables.lag([tmp_path / "__consumer_offsets-0"])["lag"].null_count == len(places)


@pytest.mark.parametrize("name", ["consumer_offsets", "consumer_groups", "transactions", "lag", "topics", "brokers"])
def test_a_path_without_the_topic(name: str, tmp_path: Path) -> None:
    with kafkalog.LogWriter(tmp_path, "t") as log:
        log.append([kafkalog.Record(b"x")])
    with pytest.raises(ValueError, match=r"topic __[a-z_]+ does not exist in"):
        getattr(tables, name)(tmp_path)
    with pytest.raises(FileNotFoundError):
        getattr(tables, name)(tmp_path / "nowhere")


# Groups


def member_ids(partition: Partition) -> dict[str, set[str]]:
    """Give the members of groups that Kafka's answers end with."""
    found: dict[str, set[str]] = {}
    for line in partition.lines("table"):
        key, value = line["key"], line["value"]
        if line["key_type"] == 2:
            found.pop(key["group"], None)
            if value is not None:
                found[key["group"]] = {each["memberId"] for each in value["members"]}
        elif line["key_type"] in {3, 11, 17}:
            if value is None:
                found.pop(key["groupId"], None)
            else:
                found.setdefault(key["groupId"], set())
        elif line["key_type"] in {5, 10, 19}:
            members = found.setdefault(key["groupId"], set())
            (members.discard if value is None else members.add)(key["memberId"])
    return found


@pytest.mark.parametrize("partition", OFFSETS, ids=lambda p: p.id)
def test_groups_and_their_members(partition: Partition) -> None:
    rows = shown(tables.consumer_groups(partition.folder))
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        found[row["group"]] |= {row["memberId"]} - {None}
    simple = {place[0] for part in replayed(partition) for place in part}
    assert found == {**{name: set() for name in simple}, **member_ids(partition)}
    places = [(row["group"], row["memberId"] or "") for row in rows]
    assert places == sorted(set(places))
    for row in rows:
        assert (row["state"] == "Empty") == (row["memberId"] is None)
    kinds = {3: "consumer", 11: "share", 17: "streams"}
    last = {
        line["key"]["groupId"]: kinds[line["key_type"]]
        for line in partition.lines("table")
        if line["key_type"] in kinds
    }
    assert all(
        row["groupType"] == last.get(row["group"], "classic")
        for row in rows
        if row["group"] not in simple or row["group"] in last
    )


def test_group_members_are_shown_whole() -> None:
    case = corpus.GOLDEN / "internal-compacted"
    rows = shown(tables.consumer_groups([case / "data-0", case / "data-1"]))
    by_group = {row["group"]: row for row in rows}
    assert {row["groupType"] for row in rows} == {"classic", "consumer", "share", "streams"}
    classic = by_group["classic-a"]
    assert (classic["state"], classic["protocolType"], classic["protocol"]) == ("Stable", "consumer", "range")
    assert classic["leader"] == classic["memberId"]
    assert classic["clientId"] == "classic-a-client"
    assert classic["subscribedTopics"] == ["events", "short-lived"]
    assert classic["assignment"][0] == {"topic": "events", "partitions": [0, 1]}
    regex = by_group["next-regex"]
    # What the expression resolved to; the metadata log, which knows the names of ids, is not in this folder.
    assert regex["subscribedTopics"] == ["events", "short-lived"]
    assert regex["state"] == "Stable"
    static = by_group["classic-static"]
    assert static["instanceId"] == "node-7"


def test_history_of_groups() -> None:
    folder = corpus.GOLDEN / "internal-compacted" / "data-0" / "__consumer_offsets-1"
    changes = shown(tables.consumer_groups(folder, history=True))
    assert {"Stable", "Reconciling"} <= {row["state"] for row in changes}
    assert [row["logOffset"] for row in changes] == sorted(row["logOffset"] for row in changes)
    now = {row["group"] for row in tables.consumer_groups(folder).to_pylist()}
    # Who only commits offsets has no record of its own.
    simple = {row["group"] for row in tables.consumer_offsets(folder).to_pylist()}
    assert now - {row["group"] for row in changes} <= simple


def test_a_group_that_was_deleted(tmp_path: Path) -> None:
    key = struct.pack(">h", 2) + text("g")
    value = struct.pack(">h", 2) + text("consumer") + struct.pack(">ihhqi", 4, -1, -1, 77, 0)
    folder = write(tmp_path / "__consumer_offsets-0", [batch(0, key, value), batch(1, key, None), batch(2, key, None)])
    changes = tables.consumer_groups(folder, history=True).to_pylist()
    assert [(row["logOffset"], row["state"], row["epoch"]) for row in changes] == [(0, "Empty", 4), (1, "Dead", None)]
    assert tables.consumer_groups(folder).num_rows == 0


def member(name: str, subscription: bytes, assignment: bytes) -> bytes:
    sized = struct.pack(">i", len(subscription)) + subscription + struct.pack(">i", len(assignment)) + assignment
    return text(name) + text("instance") + text("client") + text("/10.0.0.1") + struct.pack(">ii", 60000, 10000) + sized


@pytest.mark.parametrize(
    ("subscription", "topics", "rack"),
    [
        (b"\0\0" + struct.pack(">i", 2) + text("b") + text("a") + b"\xff" * 4, ["a", "b"], None),
        (b"\0\3" + struct.pack(">i", 1) + text("a") + b"\xff" * 4 + bytes(4) + bytes(4) + text("r1"), ["a"], "r1"),
        (b"\0\3" + struct.pack(">i", 1 << 30) + text("a"), None, None),
        (b"", None, None),
    ],
)
def test_a_classic_member(subscription: bytes, topics: list[str] | None, rack: str | None, tmp_path: Path) -> None:
    assignment = b"\0\1" + struct.pack(">i", 1) + text("a") + struct.pack(">iii", 2, 0, 5) + b"\xff" * 4
    value = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 3) + text("range") + text("m1")
    value += struct.pack(">qi", 77, 1) + member("m1", subscription, assignment)
    folder = write(tmp_path / "__consumer_offsets-0", [batch(0, struct.pack(">h", 2) + text("g"), value)])
    (row,) = shown(tables.consumer_groups(folder))
    assert row == {
        "group": "g",
        "groupType": "classic",
        "state": "Stable",
        "epoch": 3,
        "protocolType": "consumer",
        "protocol": "range",
        "leader": "m1",
        "memberId": "m1",
        "instanceId": "instance",
        "clientId": "client",
        "clientHost": "/10.0.0.1",
        "rackId": rack,
        "subscribedTopics": topics,
        "assignment": [{"topic": "a", "partitions": [0, 5]}],
    }
