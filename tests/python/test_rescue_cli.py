"""``kafkalog rescue``: what it prints, and its exit codes."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import clusters
import kafkalog
from kafkalog.cli.main import main


@pytest.fixture
def disks(tmp_path: Path) -> list[str]:
    return [str(each) for each in clusters.make_cluster(tmp_path)]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_plan_as_text(disks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescue", *disks, "--dry-run"]) == 0
    lines = printed(capsys)
    assert [line.split()[:2] for line in lines[1:3]] == [[disks[0], "1"], [disks[1], "2"]]
    assert any(line.startswith(f"metadata: {disks[0]}/__cluster_metadata-0, offsets to 100, epoch 3") for line in lines)
    (payments,) = [line.split() for line in lines if line.startswith("payments-0 ")]
    assert payments[1:4] == ["0", "80", "4"]
    # The undamaged one of two equal replicas.
    (orders,) = [line.split() for line in lines if line.startswith("orders-0 ")]
    assert orders[4:6] == ["node", "2"]
    assert lines[-1] == "2 of 2 partitions of 2 topics; nothing is missing that was acknowledged"


def test_what_is_missing_is_named_and_the_exit_code_says_so(
    disks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(f"{disks[0]}/payments-0")
    shutil.rmtree(f"{disks[1]}/payments-0")
    assert main(["rescue", *disks, "--dry-run"]) == 1
    lines = printed(capsys)
    assert "payments-0: error: no disk has a replica: the partition will be empty [no-replica]" in lines
    assert lines[-1].startswith(
        "1 of 2 partitions of 2 topics; 0 offsets lost in damage, 1 partitions without a replica"
    )


def objects(capsys: pytest.CaptureFixture[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in printed(capsys):
        for kind, value in json.loads(line).items():
            found.setdefault(kind, []).append(value)
    return found


def test_the_plan_as_json(disks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    clusters.damage(Path(disks[1]) / "orders-0", 3)
    assert main(["rescue", *disks, "--dry-run", "-J"]) == 0
    found = objects(capsys)
    assert [each["nodeId"] for each in found["disk"]] == [1, 2]
    (damaged,) = [each for each in found["disk"][0]["replicas"] if each["damage"]]
    assert (damaged["topicId"], damaged["damage"][0]["reason"]) == (clusters.TOPIC_ID, "foreign")
    orders, payments = found["partition"]
    assert {piece["path"] for piece in orders["pieces"]} == {f"{disk}/orders-0" for disk in disks}
    assert [piece["firstOffset"] for piece in orders["pieces"][1:]] == [
        piece["endOffset"] for piece in orders["pieces"][:-1]
    ]
    assert (payments["logEndOffset"], payments["leaderEpochs"]) == (80, [[0, 0], [4, 40]])
    assert {each["code"] for each in found["finding"]} >= {"spliced", "damaged"}
    assert found["rescued"] == [{"out": None, "dryRun": True, "logDirs": [], "bytes": 0, "complete": True}]


def test_wrong_usage(disks: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescue", *disks]) == 2
    assert "--out or --into is needed, or --dry-run" in capsys.readouterr().err
    assert main(["rescue", *disks, "--out", str(tmp_path / "new"), "--topic-id", "orders=x"]) == 2
    assert "--topic-id is for --into" in capsys.readouterr().err
    assert main(["rescue", *disks, "--into", str(tmp_path), "--topic-id", "orders"]) == 2
    assert "expected TOPIC=ID, not 'orders'" in capsys.readouterr().err
    stranger = clusters.make_disk(tmp_path / "stranger", 3, cluster_id="4L6g3nShT-eMCtK--X86sw")
    assert main(["rescue", *disks, str(stranger), "--dry-run"]) == 2
    assert "4L6g3nShT-eMCtK--X86sw" in capsys.readouterr().err
    assert main(["rescue", str(tmp_path / "absent"), "--dry-run"]) == 3
    assert main(["rescue", *disks, "--topics", "nonesuch", "--dry-run"]) == 1


def test_the_function_is_not_hidden_by_its_package(disks: list[str]) -> None:
    report = kafkalog.rescue(disks, dry_run=True)
    assert report.dry_run
    assert report.is_complete
    assert callable(kafkalog.rescue)


def test_the_package_is_not_hidden_by_its_function() -> None:
    import kafkalog.rescue as package
    from kafkalog.rescue import rescue
    from kafkalog.rescue.model import RescueReport

    assert package.model.RescueReport is RescueReport
    assert kafkalog.rescue.model.RescueReport is RescueReport  # type: ignore[attr-defined]
    assert inspect.signature(kafkalog.rescue) == inspect.signature(rescue)
