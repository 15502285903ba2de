"""Re-attach: a broker whose log dir is gone starts on what was rescued from its tiered storage, and serves it."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import kafkalog
import tiered_cases
from interop.broker import Broker
from interop.mount import STAMP, complaints, consumed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interop.broker import Witness
    from interop.mount import Row
    from kafkalog.rescue.model import Choice, RescueReport
    from tiered_cases import TieredCase

pytestmark = [pytest.mark.interop, pytest.mark.full, pytest.mark.timeout(600)]

FAST = {
    "remote.log.manager.task.interval.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
    "log.segment.delete.delay.ms": "200",
    "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "300",
}
ISOLATIONS = ("read_uncommitted", "read_committed")


def tiered(tier: Path) -> dict[str, str]:
    """Return the settings of a broker that copies to a folder."""
    return {
        **FAST,
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "rsm.config.dir": str(tier),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    }


def until(is_so: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


def objects(tier: Path) -> dict[str, tuple[int, int]]:
    """Return every file of a tier, with its size and time."""
    return {
        str(path.relative_to(tier)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in tier.rglob("*")
        if path.is_file()
    }


@contextmanager
def reattached(
    witness: Witness, home: Path, tier: Path, disk: Path | None = None
) -> Iterator[tuple[Broker, RescueReport]]:
    """Rescue a tier, perhaps with a disk, and start a broker with the settings that came with it."""
    out = home / "rescued"
    broker = Broker(witness, home / "new", {"log.dirs": str(out)}, server=witness.with_tiered_storage())
    with broker._held:
        controller, listener = f"127.0.0.1:{broker.controller}", f"127.0.0.1:{broker.port}"
        report = kafkalog.rescue(disk, out, remote=tier, controller=controller, listener=listener)
        broker._settings = out / "server.properties"
        with broker._settings.open("a") as settings:
            settings.writelines(f"{name}={value}\n" for name, value in FAST.items())
        try:
            yield broker.start(), report
        finally:
            broker.kill()


def records(n: int, first: int) -> list[dict[str, object]]:
    return [{"timestamp": STAMP + first + i, "key": None, "value": "YWJj" * 200, "headers": []} for i in range(n)]


@dataclass
class Truth:
    """Answers of a broker before it was gone: rows by isolation level, and offsets by timestamp."""

    rows: dict[str, list[Row]]
    times: list[int]
    answers: list[list[int]]

    def below(self, end: int, isolation: str = "read_uncommitted") -> list[Row]:
        return [row for row in self.rows[isolation] if row.offset < end]


def lived(witness: Witness, home: Path, tier: Path) -> dict[str, Truth]:
    """Let a broker with tiered storage live through some leader epochs and die; return what it served."""
    truth = {}
    topics = ("orders", "plain")
    settings = {"remote_storage_enable": "true", "local_retention_bytes": 1, "retention_ms": -1}
    with Broker(witness, home, tiered(tier), server=witness.with_tiered_storage()) as broker:
        for topic in topics:
            broker.create(topic, segment_bytes=16000, **settings)  # type: ignore[arg-type]
        for seed in (1, 2, 3):
            broker.driver.ask("write", topic="orders", partitions=1, seed=seed, batches=40, keyed=True)
            for topic in topics:
                # The tier of orders ends after the last transaction, which would otherwise have no end in it.
                for n in range(0, 60, 3):
                    broker.driver.ask("produce", topic=topic, partition=0, records=records(3, n))
            if seed < 3:
                # Another leader epoch.
                broker.stop()
                broker.start()
        for topic in topics:
            folder = broker.folder(topic)
            until(lambda folder=folder: len(list(folder.glob("*.log"))) == 1, f"{topic} is not copied")  # type: ignore[misc]
            served = {isolation: consumed(broker, topic, isolation=isolation) for isolation in ISOLATIONS}
            committed = served["read_committed"]
            times = [committed[len(committed) * n // 5].timestamp for n in (1, 2, 3)]
            answers = broker.driver.ask("list", topic=topic, partition=0, timestamps=[-2, *times])
            truth[topic] = Truth(served, times, answers)
        broker.kill()
    shutil.rmtree(home)
    return truth


def serves_as_before(broker: Broker, topic: str, truth: Truth, end: int) -> None:
    """Show that a broker gives every offset below the end, and finds offsets by time."""
    for isolation in ISOLATIONS:
        assert consumed(broker, topic, isolation=isolation) == truth.below(end, isolation), (topic, isolation)
    assert broker.driver.ask("list", topic=topic, partition=0, timestamps=[-2, *truth.times]) == truth.answers


def test_a_cluster_is_gone_and_its_tier_serves_again(witness: Witness, tmp_path: Path) -> None:
    """Every offset that was in the tier is served, nothing is copied again, and what is new is copied."""
    tier = tmp_path / "tier"
    tier.mkdir()
    truth = lived(witness, tmp_path / "first", tier)
    before = objects(tier)
    with reattached(witness, tmp_path, tier) as (broker, report):
        ends = {each.topic: each.log_end_offset for each in report.plan.choices if each.remote}
        assert ends.keys() == truth.keys()
        for choice in report.plan.choices:
            if choice.remote:
                assert (choice.log_start_offset, choice.lost) == (0, ())
                assert min(len(choice.remote) - 3, len(choice.leader_epochs) - 1) > 0
                serves_as_before(broker, choice.topic, truth[choice.topic], choice.log_end_offset)
        # Some rounds of the copier.
        time.sleep(2)
        assert objects(tier) == before
        for topic, end in ends.items():
            broker.driver.ask("alter", topic=topic, config={"internal.segment.bytes": "4000"})
            for n in range(0, 33, 3):
                offsets = broker.driver.ask("produce", topic=topic, partition=0, records=records(3, n))
                assert offsets == [end + n, end + n + 1, end + n + 2]
        until(lambda: len(objects(tier).keys() - before.keys()) >= 5 * 2 * len(ends), "what is new is not copied")
        broker.stop()
        after = objects(tier)
        assert {key: value for key, value in after.items() if key in before} == before
        assert all(int(key.split("/")[-1][:20]) >= min(ends.values()) for key in after.keys() - before.keys())
        broker.start()
        for topic, end in ends.items():
            found = consumed(broker, topic)
            assert found[:-33] == truth[topic].below(end)
            assert [row.offset for row in found[-33:]] == list(range(end, end + 33))
            # Until the broker has read its metadata of the tier it says that it cannot read, and consumers ask again.
            said = complaints(broker, f"{topic}-0")
            assert [line for line in said if " RemoteLogReader " not in line] == []


def of_cut_transactions(case: TieredCase, out: Path, choice: Choice) -> set[int]:
    """Return the offsets of transactions that have no end in the tier, which are aborted."""
    first = {each.producer_id: each.first_offset for each in choice.aborted}
    table = kafkalog.read_table(
        out, choice.topic, partitions=choice.partition, columns=["offset", "producerId"], **case.remote
    )
    return {row["offset"] for row in table.to_pylist() if row["offset"] >= first.get(row["producerId"], 1 << 62)}


def as_text(row: Row) -> tuple[int, int, str | None, str | None]:
    return row.offset, row.timestamp, tiered_cases.text(row.key), tiered_cases.text(row.value)


def test_tiers_of_all_kinds_are_served(witness: Witness, tmp_path: Path) -> None:
    """Several epochs, lost histories, interrupted copies, transactions; a segment is missing in the middle."""
    tier = tmp_path / "tier"
    names = [name for name in tiered_cases.NAMES if not name.startswith(("aiven", "deleted"))]
    cases = [tiered_cases.unpack(name, tmp_path / name) for name in names]
    folder = next((tmp_path / "lineage/tier/kafka-tiered-storage").glob("moved-0-*"))
    gap = sorted(folder.glob("*.log"))[5]
    for file in folder.glob(f"{gap.stem}.*"):
        file.unlink()
    for case in cases:
        shutil.copytree(case.tier, tier, dirs_exist_ok=True)
    checked = []
    with reattached(witness, tmp_path, tier) as (broker, report):
        choices = {(each.topic, each.partition): each for each in report.plan.choices if each.remote}
        for case, place in [(each, place) for each in cases for place in each.partitions() if place in choices]:
            choice = choices[place]
            lost = {offset for first, end in choice.lost for offset in range(first, end)}
            assert bool(lost) == (choice.topic == "moved")
            cut = of_cut_transactions(case, tmp_path / "rescued", choice)
            for isolation, kind in zip(ISOLATIONS, ("uncommitted", "committed"), strict=True):
                expected = case.rows(*place, kind)
                if expected is None:
                    continue
                left_out = lost | cut if kind == "committed" else lost
                kept = [
                    (row["offset"], row["timestamp"], row["key"], row["value"])
                    for row in expected
                    if row["offset"] < choice.local_start_offset and row["offset"] not in left_out
                ]
                # The tier alone does not tell which records were deleted from its first segment.
                least = case.offsets(*place)["earliest"]
                found = [as_text(row) for row in consumed(broker, *place, isolation) if row.offset >= least]
                assert found == kept, (place, isolation)
                checked.append((place, kind, bool(cut)))
            # Nothing is open any more: a committed read gives what is new.
            (offset,) = broker.driver.ask("produce", topic=place[0], partition=place[1], records=records(1, 0))
            assert offset == choice.log_end_offset
            assert consumed(broker, *place, "read_committed")[-1].offset == offset
    assert len(checked) > 6
    assert {(kind, is_cut) for _, kind, is_cut in checked} >= {("committed", False), ("committed", True)}


def test_a_disk_and_the_tier_are_served_together(witness: Witness, tmp_path: Path) -> None:
    """Every row that the old broker gave, from damaged local segments and remote ones; nothing is copied again."""
    case = tiered_cases.unpack("lineage", tmp_path / "lineage")
    damaged = min((case.data / "diverged-0").glob("*.log"))
    damaged.write_bytes(damaged.read_bytes()[:100] + bytes(300) + damaged.read_bytes()[400:])
    before = objects(case.tier)
    with reattached(witness, tmp_path, case.tier, case.data) as (broker, report):
        (damage,) = [each for each in report.plan.findings if each.code == "damaged"]
        assert (damage.topic, damage.severity) == ("diverged", "warning")
        assert report.is_complete
        for topic in ("diverged", "moved"):
            expected = case.rows(topic, 0, "uncommitted") or []
            found = [as_text(row) for row in consumed(broker, topic)]
            assert found == [(row["offset"], row["timestamp"], row["key"], row["value"]) for row in expected]
            (offset,) = broker.driver.ask("produce", topic=topic, partition=0, records=records(1, 0))
            assert offset == case.offsets(topic, 0)["latest"]
        time.sleep(2)
        assert {key: value for key, value in objects(case.tier).items() if key in before} == before
