"""A standalone cluster whose executors have kafkalog from the shipped archive only."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from spark.cluster import WORKERS, Cluster, guide_commands, wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    Place = tuple[str, int, int]

HERE = Path(__file__).resolve().parent
DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
pytest.importorskip("pyspark", minversion="4.2")
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.full]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def shipped(home: Path) -> Path:
    return wheel(home)


@pytest.fixture(scope="module")
def answers(home: Path, shipped: Path) -> Iterator[dict[str, Any]]:
    """Run the commands of the guide; only the placeholders for the user's names are replaced."""
    own = {
        "install kafkalog ": f"install {shipped} ",
        "job.py": f"{HERE / 'on_cluster.py'} {DATA} {home / 'out'}",
    }
    with Cluster(home) as cluster:
        commands = guide_commands()
        for name, value in {**own, "spark://host:7077": cluster.master}.items():
            assert name in commands
            commands = commands.replace(name, value)
        cluster.run(commands)
        yield json.loads((home / "out" / "answers.json").read_text())


def wanted(topic: str | None = None) -> list[Place]:
    """The records that Kafka's consumer reads, in order."""
    found: list[Place] = []
    for each in corpus.partitions():
        if each.log_dir != DATA or each.topic.startswith("__") or topic not in {None, each.topic}:
            continue
        records = corpus.expected_records(each)
        start = kafkalog.PartitionLog(each.folder).log_start_offset
        rows = zip(records["offset"], records["isControl"], strict=True)
        found += [(each.topic, each.partition, n) for n, is_control in rows if not is_control and n >= start]
    return sorted(found)


def test_executors_run_what_was_shipped(answers: dict[str, Any], home: Path) -> None:
    folders = {Path(cwd).relative_to(home).parts[0] for cwd, _ in answers["places"]}
    assert folders == {f"worker-{number}" for number in range(WORKERS)}
    for cwd, module in answers["places"]:
        assert Path(module).is_relative_to(Path(cwd) / "environment" / "lib")
    assert Path(answers["driver"]).is_relative_to(home / "env")


@pytest.mark.parametrize("way", ["mapInArrow", "dataSource"])
def test_every_record_once_and_in_order(answers: dict[str, Any], way: str) -> None:
    assert [tuple(row) for row in answers[way]] == wanted()
    assert answers["count"] == len(wanted())


def test_a_stream_in_two_runs(answers: dict[str, Any]) -> None:
    assert [tuple(row) for batch in answers["stream"] for row in batch] == wanted("orders")
    assert max(map(len, answers["stream"])) <= 200


def values(*folders: Path) -> list[bytes | None]:
    found: list[Any] = []
    for folder in folders:
        found += kafkalog.read_table(folder, columns=["value"])["value"].to_pylist()
    return sorted(found, key=lambda value: (value is None, value or b""))


def test_written_rows_are_there_once(answers: dict[str, Any], home: Path) -> None:
    source = values(DATA / "orders-0")
    assert len(source) == len(wanted("orders"))
    assert values(home / "out" / "written" / "written-0", home / "out" / "written" / "written-1") == source
    assert values(home / "out" / "copied" / "copy-0") == source


def test_a_killed_task_is_retried(answers: dict[str, Any]) -> None:
    offsets = [offset for _, _, offset in wanted("orders")]
    for name, found in answers["killed"].items():
        assert found == offsets, name
    # otherwise the test proves nothing
    assert answers["marks"] == ["dataSource", "executor", "mapInArrow", "write"]


def test_a_task_with_two_attempts_at_a_time_counts_once(answers: dict[str, Any], home: Path) -> None:
    # otherwise the test proves nothing
    assert answers["attempts"] == {"read": ["0", "1"], "write": ["0", "1"]}
    assert [tuple(row) for row in answers["speculated"]["read"]] == wanted("orders")
    written = [int(value or b"") for value in values(home / "out" / "speculated" / "orders-0")]
    assert sorted(written) == [offset for _, _, offset in wanted("orders")]


def test_the_archive_has_no_spark(answers: dict[str, Any], home: Path) -> None:
    """The cluster has its own, so the archive stays small."""
    listed = subprocess.run(
        ["tar", "-tzf", str(home / "env.tar.gz")], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert any("/site-packages/kafkalog/_core" in name for name in listed)
    assert not any("/site-packages/pyspark/" in name for name in listed)


def test_a_zip_cannot_ship_it(shipped: Path) -> None:
    """The guide warns of ``--py-files``, which puts a zip on the path."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from kafkalog import scan"
    done = subprocess.run([sys.executable, "-I", "-c", code, str(shipped)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert re.search(r"(ImportError|ModuleNotFoundError): .*_core", done.stderr)
