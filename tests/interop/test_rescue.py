"""Rescued clusters start: a real broker serves them, and the judge of the shared oracle finds nothing wrong."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import clusters
import kafkalog
from interop.broker import Broker
from interop.mount import STAMP, Served, consumed, serves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interop.broker import Witness

pytestmark = pytest.mark.interop

JUDGE = clusters.FOLDER.parents[1] / "oracle" / "cluster" / "run"
TOPICS = ("orders", "ledger")


def second_node(disk: Path, into: Path) -> Path:
    """Copy a disk, as if another node had replicated all of it."""
    shutil.copytree(disk, into)
    lines = (into / "meta.properties").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("node.id=", "directory.id="))]
    directory = disk.name.rjust(22, "A")
    (into / "meta.properties").write_text("\n".join([*kept, "node.id=2", f"directory.id={directory}"]) + "\n")
    return into


@contextmanager
def rescued_broker(witness: Witness, home: Path, disks: list[Path], missing: tuple[str, ...]) -> Iterator[Broker]:
    """Rescue disks, and start a broker on the result with the settings that came with it."""
    out = home / "rescued"
    broker = Broker(witness, home / "new", {"log.dirs": str(out)})
    with broker._held:
        report = kafkalog.rescue(
            disks, out, controller=f"127.0.0.1:{broker.controller}", listener=f"127.0.0.1:{broker.port}"
        )
        assert tuple(each.code for each in report.plan.findings if each.severity == "error") == missing
        broker._settings = out / "server.properties"
        try:
            yield broker.start()
        finally:
            broker.kill()


@pytest.mark.parametrize("missing", [(), ("no-metadata",)], ids=["whole", "without-metadata"])
def test_a_broker_starts_on_what_was_rescued_from_damaged_disks(
    broker: Broker, witness: Witness, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    """Every segment but the last is damaged on one of two disks."""
    for topic in TOPICS:
        broker.create(topic, segment_bytes=2000)
        for n in range(40):
            record: dict[str, object] = {"timestamp": STAMP + n, "key": None, "value": "YWJj" * 20, "headers": []}
            broker.driver.ask("produce", topic=topic, partition=0, records=[record])
    truth = {topic: consumed(broker, topic) for topic in TOPICS}
    folders = {topic: broker.folder(topic).name for topic in TOPICS}
    broker.kill()
    disks = [each for each in broker.log_dirs if each.exists()]
    disks += [second_node(disk, tmp_path / "second" / disk.name) for disk in disks]
    for folder in (disk / name for disk in disks for name in folders.values() if (disk / name).exists()):
        for segment in range(len(list(folder.glob("*.log"))) - 1):
            if segment % 2 == int("second" in str(folder)):
                clusters.damage(folder, segment, 20, 300)
    for disk in disks if missing else []:
        shutil.rmtree(disk / "__cluster_metadata-0", ignore_errors=True)
    with rescued_broker(witness, tmp_path, disks, missing) as rescued:
        assert {topic: consumed(rescued, topic) for topic in TOPICS} == truth
        serves(rescued, {topic: Served(rows, len(rows)) for topic, rows in truth.items()})


@pytest.mark.parametrize("case", [each for each in clusters.CASES if each == "three-combined"])
def test_the_judge_finds_nothing_wrong(case: str, tmp_path: Path) -> None:
    if not JUDGE.exists():
        pytest.skip(f"{JUDGE} does not exist")
    out = tmp_path / "rescued"
    report = kafkalog.rescue(clusters.disks(case), out, controller="127.0.0.1:19591", listener="127.0.0.1:19592")
    assert report.is_complete
    expected, work = clusters.FOLDER / case / "expected", tmp_path / "work"
    command = [str(each) for each in (JUDGE, "judge", out, "--expected", expected, "--work", work)]
    # It has ports of its own.
    with Path("/tmp/judge.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(command, cwd=JUDGE.parent, capture_output=True, text=True, check=False, timeout=300)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert said, done.stderr[-3000:]
    assert (said[-1]["ok"], said[-1]["findings"]) == (True, {}), [each for each in said if "finding" in each]
    assert said[-1]["required"] > 1000
