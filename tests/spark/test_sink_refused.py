"""A log of which whole batches would go when it is opened: the sink refuses it as ``LogWriter`` does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog import LogConfig, LogWriter
from spark.sinks import left, make, sink
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = needs_data_sources

COUNT = 3001
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two partitions of three segments each, closed as they should be."""
    rows = pa.table({"value": [b"%0100d" % n for n in range(COUNT)]})
    for partition in range(2):
        config = LogConfig(segment_bytes=150_000, index_interval_bytes=1000)
        with LogWriter(tmp_path / "data", "t", partition, config=config, batch_bytes=4_000) as writer:
            writer.append(rows)
    assert len([*(tmp_path / "data" / "t-1").glob("*.log")]) == 3
    return tmp_path / "data"


def log_start(data: Path) -> None:
    (data / "log-start-offset-checkpoint").write_text("0\n1\nt 1 4001\n")


def swap(contents: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(data: Path) -> None:
        original = data / "t-1" / f"{0:020}.log"
        original.with_name(f"{original.name}.swap").write_bytes(contents(original.read_bytes()))

    return damage


def torn(data: Path) -> None:
    """The marker says that the stop was clean, and the index continues after the tear."""
    active = max((data / "t-1").glob("*.log"))
    with active.open("r+b") as file:
        file.truncate(active.stat().st_size // 2)
    assert (data / MARKER).exists()


def flipped(data: Path) -> None:
    """Whole batches follow the damage, and no marker keeps the recovery from it."""
    (data / MARKER).unlink()
    (data / "recovery-point-offset-checkpoint").unlink()
    active = max((data / "t-1").glob("*.log"))
    contents = bytearray(active.read_bytes())
    contents[len(contents) // 2] ^= 1
    active.write_bytes(contents)


DAMAGES = {
    "log start": log_start,
    "empty swap": swap(lambda _: b""),
    "torn swap": swap(lambda original: original[: len(original) // 3]),
    "random swap": swap(lambda original: random.Random(1).randbytes(len(original))),  # noqa: S311 - no secret
    "torn behind a marker": torn,
    "flipped bit": flipped,
}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(act: Callable[[], Any]) -> tuple[type[Exception], str]:
    with pytest.raises(Exception, match=r".") as raised:
        act()
    return raised.type, str(raised.value)


@pytest.mark.parametrize("name", DAMAGES)
def test_the_target_is_refused_and_unchanged(data: Path, name: str) -> None:
    DAMAGES[name](data)
    said = refusal(lambda: LogWriter(data, "t", 1))
    before = tree(data)
    assert issubclass(said[0], (kafkalog.KafkaLogError, ValueError))
    assert "t-1" in said[1] or "log-start-offset-checkpoint" in said[1]
    # as soon as the writer is made: no task has run
    assert refusal(lambda: make(data, topic="t")) == said
    assert not (data / ".kafkalog-sink").exists()
    # topics in a column are known at the commit; t-0 is not opened either, and no new topic is begun
    target = sink(data, topic=None).prepared()
    topics = ["t"] * 20 + ["new"] * 20
    numbers = pa.array([n % 2 for n in range(40)], pa.int32())
    batch = pa.RecordBatch.from_pydict({"value": [b"more"] * 40, "topic": topics, "partition": numbers})
    message = target.write(iter([batch]))
    assert len(left(data)) == 1
    assert refusal(lambda: target.commit([message])) == said
    target.abort([message])
    assert left(data) == []
    assert tree(data) == before


def test_a_torn_end_is_no_loss(data: Path) -> None:
    """Nothing whole goes with it."""
    (data / MARKER).unlink()
    (data / "recovery-point-offset-checkpoint").unlink()
    active = max((data / "t-1").glob("*.log"))
    with active.open("r+b") as file:
        file.truncate(active.stat().st_size - 10)
    target = make(data, topic="t")
    message = target.write(iter([pa.RecordBatch.from_pydict({"value": [b"more"] * 10})]))
    before = kafkalog.read_table(data).num_rows
    target.commit([message])
    assert kafkalog.read_table(data).num_rows == before + 10
