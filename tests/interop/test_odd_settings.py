"""A real broker mounts what was written with rare settings, each at a limit of what Kafka accepts."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from interop.mount import STAMP, Row, Served, consumed, faults, rows_of, serves
from interop.test_mount import NEW_EPOCH, SMALL, TXN, arrow, prepared, row
from kafkalog import LogConfig, LogWriter

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Broker, Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]

KILLED = """
import os, pickle, signal, sys
from kafkalog import LogWriter
with open(sys.argv[1], "rb") as file:
    openings, options = pickle.load(file)
for rows in openings:
    log = LogWriter(clock=lambda: 1_700_000_000_000, **options)
    for row in rows:
        log.append(row)
    if rows is openings[-1]:
        os.kill(os.getpid(), signal.SIGKILL)
    log.close()
"""
COMPACTED: dict[str, Any] = {"cleanup_policy": "compact", "min_compaction_lag_ms": 1 << 60}
SETTINGS: dict[str, dict[str, Any]] = {
    # One batch for each segment, and one entry for each batch.
    "tiny": {"segment_bytes": 400, "index_interval_bytes": 1, "segment_index_bytes": 24},
    # Room for two time entries: the index is full long before its segment.
    "full-index": {"index_interval_bytes": 0, "segment_index_bytes": 24},
    "sparse": {"index_interval_bytes": 1 << 30, "segment_ms": 500, "segment_jitter_ms": 400},
    "preallocated": {"preallocate": True},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "compacted": COMPACTED,
    # The other levels: test_codecs.
    "gzip-9": {"compression_type": "gzip", "compression_gzip_level": 9},
    "lz4-17": {"compression_type": "lz4", "compression_lz4_level": 17},
    "zstd-22": {"compression_type": "zstd", "compression_zstd_level": 22},
    "nothing": {},
    "raised": {},
    "raised-to-end": {},
    "aborts": {"segment_bytes": 4000, "index_interval_bytes": 1},
}


def test_odd_settings(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """Written into the broker's log dir, read at both isolation levels, appended to and restarted."""
    ids = {topic: prepared(broker, topic, **settings)[topic] for topic, settings in SETTINGS.items()}
    broker.stop()
    rows = [row(offset) for offset in range(300)]
    keyed = [
        Row(each.offset, each.timestamp, b"%d" % (each.offset % 7), each.value, (*each.headers, ("null", None)))
        for each in rows
    ]
    served: dict[str, Served] = {}
    for topic, settings in SETTINGS.items():
        config = LogConfig(**{**SMALL, **settings})
        with LogWriter(
            broker.log_dirs, topic, config=config, topic_id=ids[topic], batch_bytes=350, clock=lambda: STAMP
        ) as log:
            if topic == "aborts":
                log.append_batches(TXN)
            elif topic != "nothing":
                log.append(arrow(keyed if topic == "compacted" else rows))
            if topic.startswith("raised"):
                log.delete_records(300 if topic == "raised-to-end" else 123)
            end = log.log_end_offset
        served[topic] = Served(keyed if topic == "compacted" else rows, end)
    stamped = [Row(each.offset, STAMP, each.key, each.value, each.headers, "LogAppendTime") for each in rows]
    served["stamped"] = Served(stamped, 300)
    served["nothing"] = Served([], 0)
    served["raised"] = Served(rows[123:], 300)
    served["raised-to-end"] = Served([], 300)
    all_rows, end = rows_of(kafkalog.read_table(TXN)), served["aborts"].next_offset
    committed = rows_of(kafkalog.read_table(TXN, isolation_level="read_committed"))
    served["aborts"] = Served(committed, end, isolation="read_committed", aside=(NEW_EPOCH,))
    assert len(list(broker.folder("tiny").glob("*.log"))) > 10
    folders = [broker.folder(topic) for topic in SETTINGS]
    assert faults(witness, folders, tmp_path / "dumped") == []
    broker.start()
    assert consumed(broker, "aborts") == all_rows != committed
    serves(broker, served)
    broker.stop()
    assert faults(witness, folders, tmp_path / "dumped") == []


def test_recovered_with_a_full_index(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """Every opening leaves out an index entry that recovery wants: after some, the index has no room for all of them.

    Kafka's own recovery fails there ("Attempt to append to a full index").
    """
    settings = {"index_interval_bytes": 0, "segment_index_bytes": 240}
    topic = "full-again"
    topic_id = prepared(broker, topic, **settings)[topic]
    broker.stop()
    config = LogConfig(**{**SMALL, **settings})
    options: dict[str, Any] = {"log_dir": broker.log_dirs, "topic": topic, "config": config, "topic_id": topic_id}
    rows = [row(offset) for offset in range(40)]
    ends = [8, 16, 24, 32, 35]
    openings = [[arrow([each]) for each in rows[begin:end]] for begin, end in zip([0, *ends], ends, strict=False)]
    said = tmp_path / "openings"
    said.write_bytes(pickle.dumps((openings, options)))
    done = subprocess.run([sys.executable, "-c", KILLED, str(said)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    folder = broker.folder(topic)
    assert [file.stem for file in folder.glob("*.log")] == [f"{0:020}"]
    dry = kafkalog.recover(folder, clean=False, config=config, dry_run=True)
    assert "index full" in {note.kind for note in dry.partitions[0].notes}

    with LogWriter(**options, clock=lambda: STAMP) as log:
        assert log.log_end_offset == 35
        for each in rows[35:]:
            log.append(arrow([each]))
    assert sorted(file.stem for file in folder.glob("*.log")) == [f"{0:020}", f"{35:020}"]
    assert (folder / f"{0:020}.index").stat().st_size == 240
    assert faults(witness, [folder], tmp_path / "dumped") == []
    broker.start()
    serves(broker, {topic: Served(rows, 40)})
    broker.stop()
    assert faults(witness, [folder], tmp_path / "dumped") == []
