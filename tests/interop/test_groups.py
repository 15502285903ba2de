"""Groups, offsets, lag and transactions: a real broker's tools and ours give the same answers about its directory."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
import tiers
from command import call
from interop.broker import Broker, Witness
from kafkalog import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400), pytest.mark.full]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ROW = re.compile(r"(\S+)\s+(\S+)\s+(\d+)\s+(\d+|-)\s+(\d+|-)\s+(-?\d+|-)\s+(\S+)\s+(\S+)\s+(\S+)\s*")
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSUMERS = {
    "g-classic": ("org.apache.kafka.tools.consumer.ConsoleConsumer", "group.protocol=classic"),
    "g-consumer": ("org.apache.kafka.tools.consumer.ConsoleConsumer", "group.protocol=consumer"),
    "g-share": ("org.apache.kafka.tools.consumer.ConsoleShareConsumer", None),
}
NEWEST = pytest.param("4.4.0", marks=pytest.mark.skipif(not tiers.SLOW, reason="KAFKALOG_SLOW is not set"))


@pytest.fixture(params=["4.3.1", NEWEST])
def broker(witness: Witness, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    server = None if request.param == "4.3.1" else Witness.of_newest()
    overrides = {"offsets.topic.num.partitions": "3"}
    with Broker(witness, tmp_path / "fresh", overrides=overrides, server=server) as running:
        yield running


def tool(broker: Broker, main: str, *words: str) -> str:
    """Run one of Kafka's tools; give what it prints."""
    command = broker.witness.command(main, "--bootstrap-server", broker.bootstrap, *words, heap="256m")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextlib.contextmanager
def consumers(broker: Broker) -> Iterator[None]:
    """Run a member of each group."""
    running = []
    for group, (main, setting) in CONSUMERS.items():
        words = ["--bootstrap-server", broker.bootstrap, "--topic", "events", "--group", group]
        if setting is not None:
            words += ["--from-beginning", "--consumer-property", setting]
        command = broker.witness.command(main, *words, heap="192m")
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    of_streams = ("stream", broker.bootstrap, "events", "g-streams")
    command = broker.witness.command("witness.Main", *of_streams, heap="192m")
    running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def described(broker: Broker) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Give the lines of ``--describe --all-groups``, by group, topic and partition."""
    found = {}
    for line in tool(broker, GROUPS, "--describe", "--all-groups").splitlines():
        if match := ROW.fullmatch(line):
            found[match.group(1, 2, 3)] = match.groups()[3:]
    return found


def eventually(broker: Broker, ask: Callable[[Broker], Any], wanted: Callable[[Any], bool]) -> Any:
    """Ask until the answer is the wanted one."""
    deadline = time.monotonic() + 120
    while True:
        found = ask(broker)
        if wanted(found):
            return found
        assert time.monotonic() < deadline, (found, broker.output)
        time.sleep(1)


def of_group(broker: Broker, main: str, group: str, *words: str) -> list[dict[str, str]]:
    """Describe a group; give the lines below the head by the names of their columns."""
    lines = tool(broker, main, "--describe", "--group", group, *words).splitlines()
    # One column is of two words: COORDINATOR (ID).
    table = [re.sub(r" \((ID|\d+)\)", "", line).split() for line in lines if line.strip()]
    head = next((n for n, line in enumerate(table) if line[0] == "GROUP"), len(table))
    return [dict(zip(table[head], line, strict=False)) for line in table[head + 1 :]]


def streams_offsets(broker: Broker) -> dict[int, tuple[str, str, str]]:
    """Give offset, end and lag of the streams group in each partition."""
    rows = of_group(broker, STREAMS_GROUPS, "g-streams", "--verbose")
    names = ("CURRENT-OFFSET", "LOG-END-OFFSET", "OFFSET-LAG")
    return {int(row["PARTITION"]): tuple(row[name] for name in names) for row in rows if "OFFSET-LAG" in row}  # type: ignore[misc]


def commit(broker: Broker) -> None:
    """Write records, and commit by a group that does no more, one that is deleted, and in transactions of every end."""
    for topic, partitions in (("events", 2), ("other", 1)):
        broker.create(topic, partitions)
        broker.driver.ask("write", topic=topic, partitions=partitions, seed=5, batches=20, keyed=True)
    for group in ("g-simple", "g-gone"):
        words = ("--group", group, "--topic", "events:0", "--reset-offsets", "--to-offset", "3", "--execute")
        tool(broker, GROUPS, *words)
    tool(broker, GROUPS, "--group", "g-gone", "--delete")
    for ident, group, offset, end in (
        ("tx-a", "g-tx", 4, "commit"),
        ("tx-b", "g-tx", 7, "abort"),
        ("tx-c", "g-tx", 9, "open"),
        ("tx-d", "g-tx-only", 2, "open"),
    ):
        broker.driver.ask("send-offsets", id=ident, group=group, topic="events", partition=0, offset=offset, end=end)


def test_answers_are_those_of_kafkas_tools(broker: Broker) -> None:
    commit(broker)
    with consumers(broker):
        caught_up = {("g-classic", "0"), ("g-classic", "1"), ("g-consumer", "0"), ("g-consumer", "1")}
        before = eventually(
            broker,
            described,
            lambda found: {(g, p) for (g, _, p), row in found.items() if row[2] == "0" and row[3] != "-"} >= caught_up,
        )
        streams = eventually(broker, streams_offsets, lambda found: [row[2] for row in found.values()] == ["0", "0"])
        streams_members = of_group(broker, STREAMS_GROUPS, "g-streams", "--members")
        streams_states = of_group(broker, STREAMS_GROUPS, "g-streams", "--state")
        share_members = of_group(broker, SHARE_GROUPS, "g-share", "--members")
        share_states = of_group(broker, SHARE_GROUPS, "g-share", "--state")
        states = tool(broker, GROUPS, "--describe", "--all-groups", "--state")
        kinds = tool(broker, "org.apache.kafka.tools.GroupsCommand", "--list")
        transactions = tool(broker, "org.apache.kafka.tools.TransactionsCommand", "list")
        after = described(broker)
        assert before.keys() == after.keys()
        # As a crash leaves it, with all members there.
        broker.kill()
    paths = broker.log_dirs

    done = call("groups", *paths)
    assert done.returncode == 0, done.stderr
    ours = {line[:3]: line[3:] for line in (tuple(line.split()) for line in done.stdout.splitlines()[1:])}
    # Of share and streams groups other tools of Kafka's tell.
    shown = {place: row for place, row in ours.items() if place[0] not in ("g-share", "g-streams")}
    assert shown == after
    assert {int(place[2]): row[:3] for place, row in ours.items() if place[0] == "g-streams"} == streams

    groups = tables.consumer_groups(paths).to_pylist()
    listed = [line.split() for line in kinds.splitlines()[1:]]
    assert {row["group"]: row["groupType"] for row in groups} == {row[0]: row[1].lower() for row in listed}
    assert {row["groupType"] for row in groups} == {"classic", "consumer", "share", "streams"}
    by_group = {row["group"]: row for row in groups}
    for line in states.splitlines():
        said = line.split()
        if said and said[0] in by_group and said[0] not in ("g-share", "g-streams"):
            assert by_group[said[0]]["state"] in said, line
    for group, column, members, stated in (
        ("g-streams", "MEMBER", streams_members, streams_states),
        ("g-share", "CONSUMER-ID", share_members, share_states),
    ):
        assert [by_group[group]["memberId"]] == [row[column] for row in members]
        assert [by_group[group]["clientId"]] == [row["CLIENT-ID"] for row in members]
        assert [by_group[group]["state"]] == [row["STATE"] for row in stated]
        assert by_group[group]["state"] == "Stable"
    assert by_group["g-share"]["subscribedTopics"] == ["events"]

    offsets = {
        (row["group"], row["isPending"]): row["offset"]
        for row in tables.consumer_offsets(paths).to_pylist()
        if row["group"].startswith("g-tx")
    }
    # The last committed one, as a broker answers; and what is pending where nothing was committed.
    assert offsets == {("g-tx", True): 4, ("g-tx-only", True): 2}

    found = {
        row["transactionalId"]: (str(row["producerId"]), row["state"]) for row in tables.transactions(paths).to_pylist()
    }
    told = [line.split() for line in transactions.splitlines()[1:] if line.strip()]
    assert found == {row[0]: (row[2], row[3]) for row in told}
    assert {found[ident][1] for ident in ("tx-c", "tx-d")} == {"Ongoing"}

    topics = {(row["topic"], row["partition"]): row["topicId"] for row in tables.topics(paths).to_pylist()}
    folders = {(log.topic, log.partition): log.topic_id for path in paths for log in kafkalog.LogDir(path).partitions()}
    assert topics == {place: ident for place, ident in folders.items() if place[0] != "__cluster_metadata"}

    # What a killed broker leaves is at most an info.
    assert [row for row in kafkalog.verify(paths).to_pylist() if row["severity"] != "info"] == []


def test_lag_is_below_zero_where_the_log_was_cut(broker: Broker, tmp_path: Path) -> None:
    """As when the last segments of a disk are lost."""
    broker.create("events", 1)
    broker.driver.ask("write", topic="events", partitions=1, seed=5, batches=20, keyed=True)
    end = kafkalog.PartitionLog(broker.folder("events")).log_end_offset
    words = ("--group", "g", "--topic", "events:0", "--reset-offsets", "--to-latest", "--execute")
    tool(broker, GROUPS, *words)
    broker.stop()
    log_dirs = broker.log_dirs
    cut = tmp_path / "cut"
    kafkalog.truncate(broker.folder("events"), cut, end - 5)
    offsets = [
        path / f"__consumer_offsets-{n}"
        for path in log_dirs
        for n in range(3)
        if (path / f"__consumer_offsets-{n}").is_dir()
    ]
    assert tables.lag(log_dirs)["lag"].to_pylist() == [0]
    left = kafkalog.PartitionLog(next(cut.glob("**/events-0"))).log_end_offset
    assert left < end
    assert tables.lag([*offsets, cut])["lag"].to_pylist() == [left - end]
