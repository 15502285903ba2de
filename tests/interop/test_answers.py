"""Data that the tests make themselves: Kafka's classes and a real consumer are asked, and kafkalog must agree."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
from interop.broker import answered

if TYPE_CHECKING:
    from interop.broker import Broker, Witness

pytestmark = pytest.mark.interop

WALKER = Path(corpus.__file__).parent / "python" / "test_corpus.py"


def walk(case: Path, *options: str) -> None:
    """Run the corpus walker over one case, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *options, str(WALKER)],
        env={**os.environ, "KAFKALOG_CORPUS": str(case)},
        cwd=WALKER.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def fill(broker: Broker) -> None:
    """Topics of every kind, with random data."""
    small = {"segment_bytes": 20_000, "index_interval_bytes": 600}
    broker.create("plain", 2, **small)
    broker.create("append", 1, **small, message_timestamp_type="LogAppendTime")
    broker.create("tight", 1, segment_index_bytes=64, index_interval_bytes=100)
    broker.create("retained", 1, **small, retention_bytes=50_000)
    broker.create("compacted", 1, **small, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
    broker.create("trimmed", 1, **small)
    broker.create("empty", 2)
    for seed, topic in enumerate(("plain", "append", "tight", "retained", "compacted", "trimmed")):
        partitions = 2 if topic == "plain" else 1
        written = broker.driver.ask(
            "write", topic=topic, partitions=partitions, seed=seed, batches=60, keyed=topic == "compacted"
        )
        assert written > 500
    assert broker.driver.ask("trim", topic="trimmed", partition=0, before=321) == 321


@pytest.mark.full
def test_clean_directory_equals_kafka(broker: Broker) -> None:
    """A broker that was stopped cleanly."""
    fill(broker)
    broker.stop()
    with answered(broker) as case:
        walk(case)


@pytest.mark.full
def test_killed_and_recovered_directory_equals_kafka(broker: Broker) -> None:
    """A broker killed in the middle of a transaction, before and after its own recovery."""
    fill(broker)
    broker.driver.ask("leave-open", topic="plain", partition=0)
    broker.kill()
    with answered(broker) as case:
        walk(case)
    broker.start()
    broker.driver.ask("write", topic="plain", partitions=2, seed=9, batches=10, keyed=False)
    broker.stop()
    shutil.rmtree(broker.home / "expected")
    with answered(broker) as case:
        walk(case)


def as_consumed(row: dict[str, Any]) -> dict[str, Any]:
    """One record, in the shape of the consumer's lines."""
    return {
        "offset": row["offset"],
        "timestamp": row["timestamp"],
        "timestamp_type": row["timestampType"],
        "key": row["key"],
        "value": row["value"],
        "headers": [(h["key"], h["value"]) for h in row["headers"] or []],
    }


def consumed(file: Path) -> list[dict[str, Any]]:
    """Read a consumer's lines."""
    rows = []
    for text in file.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        rows.append(
            {
                "offset": line["offset"],
                "timestamp": line["timestamp"],
                "timestamp_type": corpus.TIMESTAMP_TYPES[line["timestamp_type"]],
                "key": corpus.binary(line["key"]),
                "value": corpus.binary(line["value"]),
                "headers": [(k, corpus.binary(v)) for k, v in line["headers"]],
            }
        )
    return rows


def test_records_and_offsets_equal_the_brokers(broker: Broker, tmp_path: Path) -> None:
    """Records and answers to ListOffsets equal a consumer's and the broker's, while it runs and after a stop."""
    fill(broker)
    topics = [("plain", 0), ("plain", 1), ("append", 0), ("retained", 0), ("trimmed", 0), ("empty", 1)]
    asked = [-2, -1, -3, *range(1_700_000_000_000, 1_700_000_004_000, 90)]
    offsets: dict[tuple[str, int], list[list[int]]] = {}
    rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for topic, partition in topics:
        file = tmp_path / f"{topic}-{partition}.jsonl"
        broker.driver.ask("consume", topic=topic, partition=partition, file=str(file))
        rows[topic, partition] = consumed(file)
        offsets[topic, partition] = broker.driver.ask("list", topic=topic, partition=partition, timestamps=asked)

    def compare() -> None:
        for topic, partition in topics:
            folder = broker.folder(topic, partition)
            columns = ["key", "value", "offset", "timestamp", "timestampType", "headers"]
            table = kafkalog.read_table(folder, columns=columns)
            stamps = table["timestamp"].cast(pa.int64())
            table = table.set_column(3, "timestamp", stamps)
            assert [as_consumed(row) for row in table.to_pylist()] == rows[topic, partition]
            log = kafkalog.PartitionLog(folder)
            for target, (offset, timestamp, epoch) in zip(asked, offsets[topic, partition], strict=True):
                if target == -2:
                    assert log.log_start_offset == offset
                elif target == -1:
                    assert log.log_end_offset == offset
                else:
                    found = log.offset_of_max_timestamp() if target == -3 else log.offset_for_timestamp(target)
                    got = (found.offset, found.timestamp, found.leader_epoch) if found else (-1, -1, None)
                    want = (offset, timestamp, epoch if epoch >= 0 else None)
                    assert got == want, (topic, partition, target)

    deadline = time.monotonic() + 60
    while kafkalog.PartitionLog(broker.folder("trimmed")).log_start_offset != 321:
        # A running broker writes its checkpoints periodically.
        assert time.monotonic() < deadline
        time.sleep(0.1)
    compare()
    broker.stop()
    compare()


def test_the_witness_agrees_with_golden(witness: Witness, tmp_path: Path) -> None:
    """On golden folders the witness gives the answers that are kept there."""
    for name in ("retention", "v1-0.10.2.2"):
        source = corpus.GOLDEN / name
        case = tmp_path / name
        shutil.copytree(source, case)
        shutil.rmtree(case / "expected")
        (case / "expected").mkdir()
        kept = json.loads((source / "expected" / "case.json").read_text(encoding="utf-8"))
        (case / "expected" / "case.json").write_text(json.dumps({"topics": kept["topics"]}), encoding="utf-8")
        witness.run("expect", str(case))
        compared = 0
        for answer in sorted((case / "expected").glob("*/*.jsonl.gz")):
            if answer.name.startswith(("records", "batches", "index.")):
                with (
                    gzip.open(answer) as mine,
                    gzip.open(source / "expected" / answer.parent.name / answer.name) as theirs,
                ):
                    for own, other in zip(mine, theirs, strict=True):
                        kept_line = json.loads(other)
                        own_line = json.loads(own)
                        assert {k: kept_line.get(k) for k in own_line} == own_line, answer
                compared += 1
        assert compared > 20


# Records of every format, in one segment and in several; timestamps that only an index still has; the metadata log.
LOADED = (
    "clean-restarts/data-1/orders-0",
    "v0-0.9.0.1/data-0/indexfull-0",
    "v1-0.10.0.1/data-0/rolled-by-time-0",
    "mixed-switch/data-0/switched-compact-0",
    "mixed-switch/data-0/switched-one-segment-0",
    "metadata/data-0/__cluster_metadata-0",
)
# Than any timestamp in them.
LATER = 1_700_000_000_000_000


def checkpoint(log_dir: Path, name: str, offsets: dict[str, int]) -> None:
    """Write a checkpoint with a line for each folder, and one for a partition that does not exist."""
    entries = [(folder.rsplit("-", 1), offset) for folder, offset in {"gone-0": 7, **offsets}.items()]
    text = "".join(f"{topic} {partition} {offset}\n" for (topic, partition), offset in entries)
    (log_dir / name).write_text(f"0\n{len(entries)}\n{text}", encoding="ascii")


def lose(logs: list[Path], lack: str) -> None:
    """Remove entries from indexes."""
    for number, log in enumerate(logs):
        if lack == "empty":
            log.with_suffix(".timeindex").write_bytes(b"")
        elif lack == "timeless":
            log.with_suffix(".timeindex").unlink(missing_ok=True)
        elif lack == "unindexed" and number % 2 == 0:
            log.with_suffix(".index").unlink(missing_ok=True)
        elif lack == "shorn" and number == 0 and len(logs) > 1:
            # Then the checkpointed log start offset is below the first record.
            for path in log.parent.glob(f"{log.stem}.*"):
                path.unlink()
        elif lack == "told":
            # Brokers of 0.10.2 and 1.1 wrote such entries for records that they then stored in format 0, without times.
            batches = kafkalog.scan_batches(log, check_crcs=False).read_all()
            if set(batches["magic"].to_pylist()) == {0}:
                last = batches["lastOffset"][-1].as_py()
                log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", LATER + last, last - int(log.stem)))


@pytest.mark.full
def test_what_stands_beside_a_log_counts_as_for_a_starting_broker(witness: Witness, tmp_path: Path) -> None:
    """Clean or not, a recovery point at and around a segment's base, no line in a checkpoint, indexes that are gone."""
    # The recovery point, relative to the base offset of a segment; None for no line in any checkpoint.
    points = {"below": -1, "at": 0, "above": 1, "behind": 1 << 40, "unnamed": None}
    for lack in ("whole", "empty", "timeless", "unindexed", "shorn", "told"):
        for point, distance in {"clean": 0, **points}.items():
            log_dir = tmp_path / f"{lack}.{point}-0"
            recovery, start, mark = {}, {}, {}
            for source in LOADED:
                folder = Path(shutil.copytree(corpus.GOLDEN / source, log_dir / Path(source).name))
                logs = sorted(folder.glob("*.log"))
                lose(logs, lack)
                bases = [int(log.stem) for log in logs]
                if distance is not None:
                    recovery[folder.name] = max(0, bases[len(bases) // 2] + distance)
                    start[folder.name], mark[folder.name] = 3, 5
            checkpoint(log_dir, "recovery-point-offset-checkpoint", recovery)
            checkpoint(log_dir, "log-start-offset-checkpoint", start)
            checkpoint(log_dir, "replication-offset-checkpoint", mark)
            if point == "clean":
                (log_dir / ".kafka_cleanshutdown").touch()
    (tmp_path / "expected").mkdir()
    (tmp_path / "expected" / "case.json").write_text('{"topics": {}}', encoding="utf-8")
    witness.run("expect", str(tmp_path))
    walk(tmp_path, "-k", "lookup_offset or lookup_time or partition_files", "-n", "2")
