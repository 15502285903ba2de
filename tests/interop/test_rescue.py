"""Rescued clusters start: a real broker serves them, and the judge of the shared oracle finds nothing wrong."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import clusters
import corpus
import kafkalog
from interop import judge
from interop.broker import Broker
from interop.mount import STAMP, Served, consumed, serves
from kafkalog.rescue import planner
from kafkalog.rescue.metadata import image_of
from kafkalog.tables._image import TOPIC_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interop.broker import Witness
    from kafkalog.rescue.inventory import Inventory
    from kafkalog.rescue.model import Finding, RescueImage

pytestmark = [pytest.mark.interop, pytest.mark.full]

TOPICS = ("orders", "ledger")


def second_node(disk: Path, into: Path) -> Path:
    """Copy a disk, as if another node had replicated all of it."""
    shutil.copytree(disk, into)
    lines = (into / "meta.properties").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("node.id=", "directory.id="))]
    directory = disk.name.rjust(22, "A")
    (into / "meta.properties").write_text("\n".join([*kept, "node.id=2", f"directory.id={directory}"]) + "\n")
    return into


def older_image(inventory: Inventory) -> tuple[RescueImage, list[Finding]]:
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
    monkeypatch.setattr(planner, "image_of", older_image)
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


METADATA_DAMAGE: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    # Between two whole snapshots: a broker starts on it as it is.
    "covered": (f"{247:020}.log", lambda data: data[:3000] + bytes([data[3000] ^ 0x10]) + data[3001:]),
    # No broker starts on these.
    "newest-snapshot-zeroed": (f"{403:020}-{3:010}.checkpoint", lambda data: bytes(len(data))),
    "newest-snapshot-cut": (f"{403:020}-{3:010}.checkpoint", lambda data: data[:-40]),
}


@pytest.mark.parametrize("damage", METADATA_DAMAGE)
def test_all_settings_are_there_after_damage_to_the_metadata_log(witness: Witness, tmp_path: Path, damage: str) -> None:
    """A broker says of a rescue what Kafka's classes read from the newest snapshot before the damage."""
    (golden,) = (each for each in corpus.partitions() if each.id == "metadata/data-0/__cluster_metadata-0")
    snapshot = f"{403:020}-{3:010}.checkpoint"
    records = [(line["type"], line["data"]) for line in golden.lines("table") if line["file"] == snapshot]
    ids = {each["name"]: each["topicId"] for kind, each in records if kind == "TOPIC_RECORD"}
    configs: dict[str, dict[str, str]] = {name: {} for name in ids}
    for kind, each in records:
        if kind == "CONFIG_RECORD" and each["resourceType"] == TOPIC_CONFIG:
            configs[each["resourceName"]][each["name"]] = each["value"]
    of_acl = ("resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType")
    acls = [[each[name] for name in of_acl] for kind, each in records if kind == "ACCESS_CONTROL_ENTRY_RECORD"]
    quotas = [
        {
            "entity": {part["entityType"]: part["entityName"] for part in each["entity"]},
            "values": {each["key"]: each["value"]},
        }
        for kind, each in records
        if kind == "CLIENT_QUOTA_RECORD"
    ]
    users = sorted({each["name"] for kind, each in records if kind == "USER_SCRAM_CREDENTIAL_RECORD"})
    assert min(map(len, (ids, acls, quotas, users))) > 1
    disk = shutil.copytree(golden.folder.parent, tmp_path / "disk")
    file, change = METADATA_DAMAGE[damage]
    path = disk / "__cluster_metadata-0" / file
    path.write_bytes(change(path.read_bytes()))
    out = tmp_path / "rescued"
    broker = Broker(witness, tmp_path / "new", {"log.dirs": str(out)})
    with broker._held:
        report = kafkalog.rescue(
            disk, out, controller=f"127.0.0.1:{broker.controller}", listener=f"127.0.0.1:{broker.port}"
        )
        errors = {each.code for each in report.plan.findings if each.severity == "error"}
        assert errors == {"no-replica"}, "the other log dir is not in the corpus"
        broker._settings = out / "server.properties"
        with broker._settings.open("a") as settings:
            settings.write(
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"
                "super.users=User:ANONYMOUS\n"
            )
        try:
            found = broker.start().driver.ask("state")
        finally:
            broker.kill()
    assert found["configs"] == configs
    assert found["ids"] == ids
    assert sorted(found["acls"]) == sorted(acls)
    assert sorted(found["quotas"], key=str) == sorted(quotas, key=str)
    assert found["users"] == users


@pytest.mark.parametrize("case", [each for each in clusters.CASES if each == "three-combined"])
def test_the_judge_finds_nothing_wrong(case: str, tmp_path: Path) -> None:
    folder, out = clusters.FOLDER / case, tmp_path / "rescued"
    assert judge.rescued(folder, out).is_complete
    verdict = judge.judged(folder, out, tmp_path / "work")
    assert (verdict.ok, verdict.findings) == (True, {}), verdict.said
    assert verdict.required > 1000
