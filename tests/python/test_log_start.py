"""A log start checkpoint beyond the log's end hides every record: reading says so, and how to read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import command
import kafkalog
from kafkalog import CorruptIndexError, LogConfig, LogWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT = 3001
CHECKPOINT = "log-start-offset-checkpoint"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three segments, offsets 0 to 3000, beside one that is as it should be."""
    log_dir = tmp_path_factory.mktemp("whole") / "logs"
    table = pa.table({"value": [b"%0100d" % n for n in range(COUNT)]})
    for topic in ("orders", "sound"):
        with LogWriter(log_dir, topic, config=LogConfig(segment_bytes=150_000), batch_bytes=4_000) as writer:
            writer.append(table)
    assert len(kafkalog.PartitionLog(log_dir / "orders-0").segments) == 3
    return log_dir


def started_at(log_dir: Path, start: int) -> Path:
    (log_dir / CHECKPOINT).write_text(f"0\n2\norders 0 {start}\nsound 0 10\n")
    return log_dir


HIDDEN: dict[str, Callable[[Path], Any]] = {
    "scan": lambda path: list(kafkalog.scan(path)),
    "read_table": kafkalog.read_table,
    "folder": lambda path: kafkalog.read_table(path / "orders-0"),
    "from 0": lambda path: kafkalog.read_table(path, starting_offsets=0),
    "by offset": lambda path: kafkalog.read_table(path, topics="orders", starting_offsets={"orders": {0: 5}}),
    "by time": lambda path: kafkalog.read_table(path, starting_timestamp=0),
    "committed": lambda path: kafkalog.read_table(path, isolation_level="read_committed"),
    "skip": lambda path: kafkalog.read_table(path, on_corrupt="skip"),
    "batches": lambda path: list(kafkalog.scan_batches(path)),
    "dataset": lambda path: kafkalog.dataset(path).to_table(),
    "count_rows": lambda path: kafkalog.dataset(path).count_rows(),
    "end": lambda path: kafkalog.PartitionLog(path / "orders-0").log_end_offset,
    "stable": lambda path: kafkalog.PartitionLog(path / "orders-0").last_stable_offset,
    "lookup": lambda path: kafkalog.PartitionLog(path / "orders-0").lookup(5),
    "time": lambda path: kafkalog.PartitionLog(path / "orders-0").offset_for_timestamp(0),
    "max time": lambda path: kafkalog.PartitionLog(path / "orders-0").offset_of_max_timestamp(),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_start_beyond_the_end_is_an_error(whole: Path, name: str) -> None:
    """It names the checkpoint, both offsets, and the alternative."""
    started_at(whole, 4001)
    with pytest.raises(CorruptIndexError) as raised:
        HIDDEN[name](whole)
    text = str(raised.value)
    assert CHECKPOINT in text
    assert "orders-0" in text
    assert "4001" in text
    assert "3001" in text
    assert 'starting_offsets="oldest"' in text


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_oldest_reads_what_the_files_hold(whole: Path, isolation_level: Any) -> None:
    """Every record, below the checkpointed start."""
    started_at(whole, 4001)
    for path in (whole, whole / "orders-0"):
        table = kafkalog.read_table(
            path, columns=["offset"], topics="orders", starting_offsets="oldest", isolation_level=isolation_level
        )
        assert table["offset"].to_pylist() == list(range(COUNT))
    assert kafkalog.dataset(whole, topics="orders", starting_offsets="oldest").count_rows() == COUNT
    assert "checkpoint-beyond-end" in kafkalog.verify(whole)["code"].to_pylist()


@pytest.mark.parametrize("start", [0, 1500, 2990, COUNT])
def test_a_start_up_to_the_end_is_kept(whole: Path, start: int) -> None:
    """DeleteRecords up to the end is legal: nothing is left to read."""
    started_at(whole, start)
    table = kafkalog.read_table(whole, columns=["offset"], topics="orders")
    assert table["offset"].to_pylist() == list(range(start, COUNT))
    assert kafkalog.PartitionLog(whole / "orders-0").log_end_offset == COUNT


def test_an_empty_log_starts_where_it_should(tmp_path: Path) -> None:
    """There is nothing to hide."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020}.log").touch()
    (tmp_path / CHECKPOINT).write_text("0\n1\norders 0 4001\n")
    assert kafkalog.read_table(tmp_path).num_rows == 0
    assert kafkalog.PartitionLog(tmp_path / "orders-0").log_end_offset == 4001


@pytest.mark.parametrize("verb", [["cat", "-t", "orders"], ["export", "{out}"]])
def test_commands_end_with_the_error(whole: Path, tmp_path: Path, verb: list[str]) -> None:
    """Exit code 1; nothing is taken for an empty log."""
    started_at(whole, 4001)
    name, *rest = (word.format(out=tmp_path / "out.parquet") for word in verb)
    done = command.call(name, str(whole), *rest)
    assert done.returncode == 1
    assert "4001" in done.stderr
    assert "3001" in done.stderr
    assert CHECKPOINT in done.stderr


@pytest.mark.parametrize("verb", ["ls", "stats", "offsets"])
def test_the_others_answer(whole: Path, verb: str) -> None:
    """One log that cannot be answered for does not hide the others."""
    started_at(whole, 4001)
    for options in ([], ["--time", "earliest"]) if verb == "offsets" else ([],):
        done = command.call(verb, str(whole), *options)
        assert done.returncode == 1
        assert "sound" in done.stdout
        assert "orders" not in done.stdout
        assert "4001" in done.stderr
        assert "3001" in done.stderr


def test_stats_past_damage(whole: Path) -> None:
    """A start beyond the end is no damage to skip."""
    started_at(whole, 4001)
    done = command.call("stats", str(whole), "--on-corrupt", "skip", "-J")
    assert done.returncode == 1
    assert [json.loads(line)["topic"] for line in done.stdout.splitlines()] == ["sound"]
