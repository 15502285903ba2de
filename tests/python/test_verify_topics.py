"""``kafkalog.verify``: topic ids of folders against the metadata log, directory ids against each other."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest

import corpus
import kafkalog

pytestmark = pytest.mark.corpus

CASE = corpus.GOLDEN / "clean-restarts"
OTHER_ID = "0rtfp9DjROqBpwPllfDtAQ"
CLUSTER = "wSEF3x_skGACboDxfWacZQ"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def above_info(path: Path | list[Path]) -> list[dict[str, Any]]:
    return [row for row in kafkalog.verify(path).to_pylist() if row["severity"] != "info"]


def stray(path: Path | list[Path]) -> list[tuple[str, str]]:
    """Give folder and code of what is said about topics."""
    found = above_info(path)
    return sorted((Path(row["file"]).parent.name, row["code"]) for row in found if row["code"].startswith("topic-"))


def nodes() -> list[list[Path]]:
    """Give the log dirs of each node of the corpora, where there are several or the metadata log is one."""
    files = {file for root in corpus.roots() for file in root.rglob("meta.properties")}
    homes: dict[tuple[Path, str], list[Path]] = {}
    for file in sorted(files):
        log_dir = file.parent
        # Copies of several moments stand side by side; the metadata log may have a directory of its own.
        moment = log_dir.name.replace("meta", "data").rstrip("-0123456789")
        homes.setdefault((log_dir.parent, moment), []).append(log_dir)
    return [dirs for dirs in homes.values() if any((each / "__cluster_metadata-0").is_dir() for each in dirs)]


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    """Both log dirs of a broker that was stopped; the first has the metadata log."""
    made = [tmp_path / name for name in ("data-0", "data-1")]
    for each in made:
        shutil.copytree(CASE / each.name, each)
    return made


def change_id(folder: Path, topic_id: str) -> None:
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


@pytest.mark.parametrize("dirs_of_node", nodes(), ids=lambda dirs: "/".join(dirs[0].parent.parts[-2:]))
def test_topics_of_a_broker_are_those_of_its_metadata(dirs_of_node: list[Path]) -> None:
    codes = {row["code"] for row in above_info(dirs_of_node)}
    # Of this one the metadata log is kept, and few of the other partitions.
    assert codes == ({"replica-missing"} if dirs_of_node == [corpus.GOLDEN / "metadata" / "data-0"] else set())


def test_folders_that_the_metadata_log_does_not_know(dirs: list[Path]) -> None:
    metadata, data = dirs
    true_id = (data / "orders-0" / "partition.metadata").read_text(encoding="ascii").split()[-1]
    change_id(data / "orders-0", OTHER_ID)
    (data / "ledger-0").rename(data / "gone-0")
    (data / "events-1" / "partition.metadata").unlink()
    told = {row["topic"]: row for row in above_info(dirs)}
    codes = {topic: (row["code"], row["severity"]) for topic, row in told.items()}
    assert codes == {
        "orders": ("topic-recreated", "warning"),
        "gone": ("topic-deleted", "warning"),
        "events": ("topic-id-missing", "warning"),
        # Under its own name it is gone.
        "ledger": ("replica-missing", "error"),
    }
    log = metadata / "__cluster_metadata-0"
    assert told["orders"]["message"] == f"topic id: expected {true_id}, as {log} has, found {OTHER_ID}"
    assert told["orders"]["file"] == str(data / "orders-0" / "partition.metadata")
    assert all("-stray" in row["advice"] for topic, row in told.items() if topic != "ledger")
    # Nobody can say without the metadata log, nor with one of another cluster or a damaged one.
    assert stray(data) == []
    properties = metadata / "meta.properties"
    properties.write_text(properties.read_text().replace(CLUSTER, "another"))
    assert stray(dirs) == []
    properties.write_text(properties.read_text().replace("another", CLUSTER))
    assert len(stray(dirs)) == len(told) - 1
    (segment,) = log.glob("*.log")
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)
    assert stray(dirs) == []
    assert any(row["file"] == str(segment) for row in above_info(dirs))


def test_the_name_of_a_folder_does_not_matter_where_it_is_no_partition_of_the_broker(dirs: list[Path]) -> None:
    """To be deleted, or set aside before."""
    data = dirs[1]
    change_id(data / "orders-0", OTHER_ID)
    (data / "orders-0").rename(data / f"orders-0.{'0' * 32}-delete")
    change_id(data / "ledger-0", OTHER_ID)
    (data / "ledger-0").rename(data / f"ledger-0.{'0' * 32}-stray")
    assert stray(dirs) == []


def raw(topic_id: str) -> bytes:
    return base64.urlsafe_b64decode(topic_id + "==")


def create(name: str, topic_id: str) -> bytes:
    """Give TOPIC_RECORD 0 in its frame."""
    return b"\1\2\0" + bytes([len(name) + 1]) + name.encode() + raw(topic_id) + b"\0"


def remove(topic_id: str) -> bytes:
    return b"\1\x09\0" + raw(topic_id) + b"\0"


BEGIN, END, ABORT = b"\1\x17\0\0", b"\1\x18\0\0", b"\1\x19\0\0"


def ids(count: int) -> list[str]:
    return [base64.urlsafe_b64encode(bytes([number]) * 16)[:22].decode() for number in range(1, count + 1)]


def write(log_dir: Path, topic: str, topic_id: str, *values: bytes) -> None:
    identity = {"topic_id": topic_id, "cluster_id": CLUSTER, "node_id": 1}
    with kafkalog.LogWriter(log_dir, topic, 0, **identity) as log:  # type: ignore[arg-type]
        log.append([kafkalog.Record(value=value) for value in values])


def test_what_records_of_topics_come_to(tmp_path: Path) -> None:
    first, second, removed, aborted, ended, begun = ids(6)
    log_dir = tmp_path / "data"
    log_dir.mkdir()
    records = [create("again", first), remove(first), create("again", second), create("removed", removed)]
    records += [remove(removed), BEGIN, create("aborted", aborted), ABORT, BEGIN, create("ended", ended), END]
    write(log_dir, "__cluster_metadata", METADATA_TOPIC_ID, *records, BEGIN, create("begun", begun))
    for topic, topic_id in [("again", first), ("removed", removed), ("aborted", aborted)]:
        write(log_dir, topic, topic_id, b"x")
    write(log_dir, "ended", ended, b"x")
    write(log_dir, "begun", begun, b"x")
    said = [("aborted-0", "topic-deleted"), ("again-0", "topic-recreated"), ("begun-0", "topic-deleted")]
    assert stray(log_dir) == [*said, ("removed-0", "topic-deleted")]
    change_id(log_dir / "again-0", second)
    assert ("again-0", "topic-recreated") not in stray(log_dir)
    # A record about topics in a version that is not known: the state is not known either.
    write(log_dir, "__cluster_metadata", METADATA_TOPIC_ID, b"\1\2\x7f", END)
    assert stray(log_dir) == []


def test_a_metadata_log_whose_start_is_gone(tmp_path: Path, dirs: list[Path]) -> None:
    """Without the snapshot that its first segment follows, what it lacks may still exist."""
    change_id(dirs[1] / "orders-0", OTHER_ID)
    assert stray(dirs) == [("orders-0", "topic-recreated")]
    log = dirs[0] / "__cluster_metadata-0"
    (segment,) = log.glob("*.log")
    for file in log.glob(f"{segment.stem}*"):
        if file.suffix != ".checkpoint":
            file.rename(file.with_name(f"{10**6:020}{file.suffix}"))
    assert stray(dirs) == []


def test_no_two_directories_have_an_id(dirs: list[Path]) -> None:
    found = {}
    for each in dirs:
        lines = (each / "meta.properties").read_text(encoding="ascii").splitlines()
        found[each] = next(line for line in lines if line.startswith("directory.id="))
    first, second = dirs
    properties = second / "meta.properties"
    properties.write_text(properties.read_text().replace(found[second], found[first]))
    (row,) = above_info(dirs)
    assert (row["code"], row["file"]) == ("identity-mismatch", str(properties))
    assert found[first].removeprefix("directory.id=") in row["message"]
    assert str(first) in row["message"]
    assert above_info(second) == []
    # DirectoryId.UNASSIGNED: reserved, as all below 100 are.
    properties.write_text(properties.read_text().replace(found[first], "directory.id=AAAAAAAAAAAAAAAAAAAAAA"))
    assert [(row["code"], row["file"]) for row in above_info(dirs)] == [("identity-unreadable", str(properties))]
