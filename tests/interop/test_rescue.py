"""Rescued clusters start: a real broker serves them, and the judge of the shared oracle finds nothing wrong."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import clusters
import kafkalog
from interop import judge
from interop.broker import Broker
from interop.mount import STAMP, Served, consumed, serves
from kafkalog.rescue import planning
from kafkalog.rescue.metadata import image_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from interop.broker import Witness
    from kafkalog.rescue.inventory import Inventory
    from kafkalog.rescue.plan import Finding, Image

pytestmark = pytest.mark.interop

TOPICS = ("orders", "ledger")


def second_node(disk: Path, into: Path) -> Path:
    """Copy a disk, as if another node had replicated all of it."""
    shutil.copytree(disk, into)
    lines = (into / "meta.properties").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("node.id=", "directory.id="))]
    directory = disk.name.rjust(22, "A")
    (into / "meta.properties").write_text("\n".join([*kept, "node.id=2", f"directory.id={directory}"]) + "\n")
    return into


def older_image(inventory: Inventory) -> tuple[Image, list[Finding]]:
    """Read the metadata as that of a cluster before Kafka 4.1, which took small segments under the public name."""
    image, findings = image_of(inventory)
    records = tuple(
        replace(each, value={**each.value, "name": each.value["name"].removeprefix("internal.")})
        if each.type == "CONFIG_RECORD"
        else each
        for each in image.records
    )
    return replace(image, records=records), findings


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
        raised = {each.topic for each in report.plan.findings if each.code == "setting-raised"}
        assert raised == (set() if missing else set(TOPICS))
        broker._settings = out / "server.properties"
        try:
            yield broker.start()
        finally:
            broker.kill()


@pytest.mark.parametrize("missing", [(), ("no-metadata",)], ids=["whole", "without-metadata"])
def test_a_broker_starts_on_what_was_rescued_from_damaged_disks(
    broker: Broker, witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    """Every segment but the last is damaged on one of two disks, and the topics have settings that stop a broker."""
    monkeypatch.setattr(planning, "image_of", older_image)
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
    folder, out = clusters.FOLDER / case, tmp_path / "rescued"
    assert judge.rescued(folder, out).is_complete
    verdict = judge.judged(folder, out, tmp_path / "work")
    assert (verdict.ok, verdict.findings) == (True, {}), verdict.said
    assert verdict.required > 1000
