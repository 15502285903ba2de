"""A real broker mounts what sinks, writers and imports left that were killed at random steps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kafkalog
import tiers
from interop.mount import Served, faults, insert, rows_of, serves
from spark.lives import killed_often

if TYPE_CHECKING:
    from interop.broker import Broker, Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]

# Of each world of logs, of which the slow profile has seventeen: 2,040 rounds.
ROUNDS, SEEDS = ("120", range(17)) if tiers.SLOW else ("60", range(7, 8))
DYING = Path(__file__).resolve().parents[1] / "spark" / "dying.py"
# What jobs keep in a log dir.
FILES = (".kafkalog-sink", ".kafkalog-job", ".kafkalog-stream-0123456789abcdef", ".kafkalog-rows.q.1.arrows")


@pytest.mark.timeout(3600)
def test_a_broker_mounts_what_the_killed_left(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="4.1")
    chosen: dict[str, kafkalog.PartitionLog] = {}
    for seed in SEEDS:
        work = tmp_path / f"work{seed}"
        work.mkdir()
        command = [sys.executable, str(DYING), str(work), ROUNDS, str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr[-4000:]
        logs = [log for name in ("d1", "d2") for log in kafkalog.LogDir(work / "0" / name) if log.log_end_offset]
        assert sum(log.topic == "t" for log in logs) == 3
        chosen |= {f"killed{seed}n{number}": log for number, log in enumerate(logs) if log.topic[0] in "tnim"}
    for topic in chosen:
        broker.create(topic, 1, segment_bytes=1_048_576)
    for topic in chosen:
        broker.folder(topic)
    broker.stop()
    for topic, log in chosen.items():
        insert(broker, Path(log.path), topic)
    for log_dir in broker.log_dirs:
        # A writer that was killed left none. With one, a broker takes an index's reserved bytes for entries, and ends.
        (log_dir / ".kafka_cleanshutdown").unlink()
        for name in FILES:
            (log_dir / name).write_bytes(b"kafkalog-job 1 a\n{}\n")
    broker.start()
    serves(broker, {topic: Served(rows_of(log.scan().read_all()), log.log_end_offset) for topic, log in chosen.items()})
    # The broker has started twice with them, and has not touched them.
    assert all((log_dir / name).exists() for log_dir in broker.log_dirs for name in FILES)
    broker.stop()
    assert faults(witness, [broker.folder(topic) for topic in chosen], tmp_path / "dumped") == []


@pytest.mark.timeout(0)
@pytest.mark.skipif(not tiers.SLOW, reason="KAFKALOG_SLOW is not set")
def test_a_broker_mounts_what_killed_drivers_left(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """Real drivers, which stream into a log that another writer appends to."""
    pytest.importorskip("pyspark", minversion="4.1")
    killed_often(tmp_path)
    logs = [kafkalog.PartitionLog(tmp_path / "log" / f"copy-{number}") for number in range(3)]
    broker.create("copy", 3)
    folders = [broker.folder("copy", log.partition) for log in logs]
    broker.stop()
    for log in logs:
        insert(broker, Path(log.path), "copy", log.partition)
    for log_dir in broker.log_dirs:
        (log_dir / ".kafka_cleanshutdown").unlink()
    broker.start()
    for log in logs:
        serves(broker, {"copy": Served(rows_of(log.scan().read_all()), log.log_end_offset, log.partition)})
    broker.stop()
    assert faults(witness, folders, tmp_path / "dumped") == []
