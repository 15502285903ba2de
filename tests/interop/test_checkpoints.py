"""Checkpoints that reach beyond a torn log: we correct them as a broker does when it starts and stops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Broker

pytestmark = [pytest.mark.interop, pytest.mark.full]

RECOVERY_POINT = "recovery-point-offset-checkpoint"
REPLICATION = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
BEYOND = 100_000


def lines(log_dir: Path, name: str, topic: str) -> list[int]:
    """Return the offsets of a topic in a checkpoint."""
    found = kafkalog.LogDir(log_dir).checkpoints.get(name) or ()
    return [line.offset for line in found if line.topic == topic]


def claim_more(log_dir: Path, name: str, topic: str, offset: int) -> None:
    """Replace an offset in a checkpoint."""
    path = log_dir / name
    old = path.read_text().splitlines()[2:] if path.exists() else []
    kept = [line for line in old if line.split()[0] != topic]
    path.write_text("".join(f"{line}\n" for line in ("0", len(kept) + 1, *kept, f"{topic} 0 {offset}")))


def test_offsets_beyond_a_torn_log(broker: Broker, tmp_path: Path) -> None:
    """The high watermark falls to the new log end, compaction restarts, and a missing partition loses its line."""
    # Nothing is old enough to be compacted, so only the check of the checkpoint shows.
    broker.create("compacted", cleanup_policy="compact", min_compaction_lag_ms=10**12)
    broker.create("plain")
    for topic in ("compacted", "plain"):
        broker.driver.ask("write", topic=topic, partitions=1, seed=1, batches=40, keyed=True)
    broker.stop()
    folders = {topic: broker.folder(topic) for topic in ("compacted", "plain")}
    ends = {}
    for topic, folder in folders.items():
        ends[topic] = kafkalog.PartitionLog(folder).log_end_offset
        active = max(folder.glob("*.log"))
        active.write_bytes(active.read_bytes()[:-20])
        claim_more(folder.parent, REPLICATION, topic, ends[topic] + BEYOND)
        claim_more(folder.parent, RECOVERY_POINT, topic, ends[topic])
    claim_more(folders["compacted"].parent, CLEANER, "compacted", ends["compacted"] + BEYOND)
    for name in (RECOVERY_POINT, REPLICATION, CLEANER, LOG_START):
        claim_more(folders["compacted"].parent, name, "gone", 5)
    ours = {}
    for log_dir in broker.log_dirs:
        (log_dir / ".kafka_cleanshutdown").unlink()
        ours[log_dir] = tmp_path / log_dir.name
        kafkalog.recover(log_dir, out=ours[log_dir])

    broker.start()
    deadline = time.monotonic() + 60
    while lines(folders["compacted"].parent, CLEANER, "compacted") == [ends["compacted"] + BEYOND]:
        assert time.monotonic() < deadline, broker.output
        time.sleep(0.2)
    broker.stop()
    for topic, folder in folders.items():
        log_dir = folder.parent
        end = kafkalog.PartitionLog(folder).log_end_offset
        assert 0 < end < ends[topic]
        for name in (RECOVERY_POINT, REPLICATION, CLEANER, LOG_START):
            assert lines(ours[log_dir], name, topic) == lines(log_dir, name, topic), (topic, name)
        assert lines(log_dir, REPLICATION, topic) == [end]
    log_dir = folders["compacted"].parent
    assert lines(log_dir, CLEANER, "compacted") == [0]
    for name in (RECOVERY_POINT, REPLICATION, CLEANER, LOG_START):
        assert lines(ours[log_dir], name, "gone") == lines(log_dir, name, "gone") == [], name
