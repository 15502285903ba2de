"""``kafkalog offsets``: the answers of ``kafka-get-offsets``, of one partition and of many at once."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import corpus
import kafkalog
from command import call, fails
from kafkalog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

CASE = corpus.GOLDEN / "clean-restarts"
DATA = CASE / "data-1"
OPEN = next(p for p in corpus.partitions() if p.folder.name == "txn-open-0")
COMMITTED = ("--isolation-level", "read_committed")


def out(*words: str | Path) -> str:
    done = call("offsets", *words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_offsets() -> None:
    assert out(DATA) == "__transaction_state:1:95\nevents:1:880\nledger:0:954\norders:0:880\n"
    assert out(DATA, "--exclude-internal-topics", "--time", "earliest") == "events:1:0\nledger:0:0\norders:0:0\n"
    assert out(DATA, "--topic", "ord.*,led.+") == "ledger:0:954\norders:0:880\n"
    assert out(DATA, "--topic", "orders", "--time", "-2") == "orders:0:0\n"
    found = kafkalog.PartitionLog(DATA / "orders-0").offset_for_timestamp(1_700_030_390_000)
    assert found is not None
    assert out(DATA, "--topic", "orders", "--time", "1700030390000") == f"orders:0:{found.offset}\n"
    assert out(DATA, "--topic", "orders", "--time", "99999999999999") == ""
    assert out(DATA / "orders-0") == "orders:0:880\n"
    assert "found: __transaction_state-1, events-1" in fails(1, "offsets", DATA, "--topic", "nope")
    assert "no partition" in fails(1, "offsets", DATA, "--partitions", "9")


def test_offsets_of_a_topic_that_only_looks_internal(tmp_path: Path) -> None:
    shutil.copytree(DATA / "orders-0", tmp_path / "_schemas-0")
    assert out(tmp_path, "--exclude-internal-topics") == "_schemas:0:880\n"


def test_offsets_under_read_committed_end_at_the_last_stable_offset() -> None:
    stable = OPEN.lines("committed")[0]["last_stable_offset"]
    log = kafkalog.PartitionLog(OPEN.folder)
    assert stable < log.log_end_offset
    assert out(OPEN.folder, *COMMITTED) == f"txn-open:0:{stable}\n"
    assert out(OPEN.folder) == f"txn-open:0:{log.log_end_offset}\n"
    assert out(OPEN.folder, *COMMITTED, "--time", "earliest") == "txn-open:0:0\n"
    # A broker does not tell what it finds at or after the last stable offset.
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert found.offset >= stable
    for when in ("max-timestamp", str(found.timestamp)):
        assert out(OPEN.folder, "--time", when) == f"txn-open:0:{found.offset}\n"
        assert out(OPEN.folder, *COMMITTED, "--time", when) == ""


def test_a_time_whose_record_is_the_first_unstable_one_has_no_answer_under_read_committed() -> None:
    folder = corpus.GOLDEN / "internal-compacted" / "data-0" / "__consumer_offsets-1"
    stable = kafkalog.PartitionLog(folder).last_stable_offset
    first = kafkalog.read_table(folder, columns=["timestamp"], starting_offsets=stable)["timestamp"]
    words = (folder, "--time", str(first.cast(pa.int64())[0]))
    assert out(*words) == f"__consumer_offsets:1:{stable}\n"
    assert out(*words, *COMMITTED) == ""


def test_offsets_of_max_timestamp_as_kafka_answers() -> None:
    with gzip.open(CASE / "expected" / "orders-0" / "lookup-time.jsonl.gz", "rt") as lines:
        special = next(line for line in map(json.loads, lines) if line.get("special") == "max_timestamp")
    assert out(DATA, "--topic", "orders", "--time", "max-timestamp") == f"orders:0:{special['offset']}\n"


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("when", [-1, -2, -3, 0, 1_700_000_000_000, 1_700_008_394_000, 1_700_030_390_000, 1 << 60])
@pytest.mark.sampled(4)
def test_many_partitions_are_answered_as_each_by_itself(
    when: int, isolation_level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    is_committed = isolation_level == "read_committed"

    def offset(log: kafkalog.PartitionLog) -> int | None:
        end = log.last_stable_offset if is_committed else log.log_end_offset
        if when in {-1, -2}:
            return end if when == -1 else log.log_start_offset
        found = log.offset_of_max_timestamp() if when == -3 else log.offset_for_timestamp(when)
        return found.offset if found and (found.offset < end or not is_committed) else None

    answered = 0
    for log_dir in sorted({p.folder.parent for p in corpus.partitions()}):
        live = [folder for folder in kafkalog.LogDir(log_dir).folders if folder.state == "live"]
        if not live:
            continue
        found = ((folder, offset(kafkalog.PartitionLog(folder.path))) for folder in live)
        lines = [f"{folder.topic}:{folder.partition}:{o}\n" for folder, o in found if o is not None]
        assert main(["offsets", str(log_dir), "--time", str(when), "--isolation-level", isolation_level]) == 0
        assert sorted(capsys.readouterr().out.splitlines(keepends=True)) == sorted(lines), log_dir
        answered += len(lines)
    assert answered > 50 or when == 1 << 60
