"""Groups, offsets, lag and transactions: a real broker's tools and ours give the same answers about its directory."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from command import call
from interop.broker import Broker
from kafkalog import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ROW = re.compile(r"(\S+)\s+(\S+)\s+(\d+)\s+(\d+|-)\s+(\d+|-)\s+(-?\d+|-)\s+(\S+)\s+(\S+)\s+(\S+)\s*")
CONSUMERS = {
    "g-classic": ("org.apache.kafka.tools.consumer.ConsoleConsumer", "group.protocol=classic"),
    "g-consumer": ("org.apache.kafka.tools.consumer.ConsoleConsumer", "group.protocol=consumer"),
    "g-share": ("org.apache.kafka.tools.consumer.ConsoleShareConsumer", None),
}


@pytest.fixture
def broker(witness: Witness, tmp_path: Path) -> Iterator[Broker]:
    with Broker(witness, tmp_path / "fresh", overrides={"offsets.topic.num.partitions": "3"}) as running:
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


def eventually(broker: Broker, wanted: Callable[[dict[tuple[str, ...], tuple[str, ...]]], bool]) -> dict[Any, Any]:
    deadline = time.monotonic() + 120
    while True:
        found = described(broker)
        if wanted(found):
            return found
        assert time.monotonic() < deadline, (found, broker.output)
        time.sleep(1)


def test_answers_are_those_of_kafkas_tools(broker: Broker) -> None:
    broker.create("events", 2)
    broker.create("other", 1)
    written = [
        broker.driver.ask("write", topic=topic, partitions=n, seed=5, batches=20, keyed=True)
        for topic, n in (("events", 2), ("other", 1))
    ]
    assert written
    # A group that only commits, one that is deleted, and commits in transactions of every end.
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
    with consumers(broker):
        caught_up = {("g-classic", "0"), ("g-classic", "1"), ("g-consumer", "0"), ("g-consumer", "1")}
        before = eventually(
            broker,
            lambda found: {(g, p) for (g, _, p), row in found.items() if row[2] == "0" and row[3] != "-"} >= caught_up,
        )
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
    # Of share groups another tool of Kafka's tells.
    shown = {place: row for place, row in ours.items() if place[0] != "g-share"}
    assert shown == after

    groups = tables.consumer_groups(paths).to_pylist()
    listed = [line.split() for line in kinds.splitlines()[1:]]
    assert {row["group"]: row["groupType"] for row in groups} == {row[0]: row[1].lower() for row in listed}
    by_group = {row["group"]: row for row in groups}
    for line in states.splitlines():
        said = line.split()
        if said and said[0] in by_group and said[0] != "g-share":
            assert by_group[said[0]]["state"] in said, line
    assert by_group["g-share"]["state"] == "Stable"
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
