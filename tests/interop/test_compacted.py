"""A real broker mounts what was compacted here, serves it, and its own cleaner finds nothing more to remove."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

import kafkalog
from interop.mount import complaints, consumed, insert, rows_of
from recover_cases import digests

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Broker

pytestmark = [pytest.mark.interop, pytest.mark.full]

CHECKPOINT = "cleaner-offset-checkpoint"
CODECS = ("producer", "zstd", "lz4", "gzip", "snappy")
SETTINGS = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "segment.bytes": 4000}


def written(log_dir: Path) -> Path:
    """Write records with few keys, some of them tombstones, in every codec."""
    draw = random.Random(25)  # noqa: S311 - any records will do
    for codec in CODECS:
        config = kafkalog.LogConfig(segment_bytes=4000, compression_type=codec)
        with kafkalog.LogWriter(log_dir, "state", config=config) as log:
            for _ in range(40):
                keys = [b"k%d" % draw.randint(0, 60) for _ in range(draw.randint(1, 9))]
                values = [None if draw.random() < 0.2 else draw.randbytes(50) for _ in keys]
                log.append(
                    [
                        kafkalog.Record(value, key, 1000 + n)
                        for n, (key, value) in enumerate(zip(keys, values, strict=True))
                    ]
                )
    return log_dir / "state-0"


def compacted_to(log_dir: Path, topic: str) -> int:
    """Return the offset in the checkpoint of a broker's cleaner; -1 for none."""
    path = log_dir / CHECKPOINT
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return next((int(line[2]) for line in lines if line[:2] == [topic, "0"]), -1)


def add_line(log_dir: Path, topic: str, offset: int) -> None:
    path = log_dir / CHECKPOINT
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    lines = [line for line in lines if not line.startswith(f"{topic} ")] + [f"{topic} 0 {offset}"]
    path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def test_a_broker_finds_nothing_more_to_compact(broker: Broker, tmp_path: Path) -> None:
    """Three topics: mounted with our checkpoint; without, so that its cleaner starts over; and never compacted here."""
    source = written(tmp_path / "logs")
    report = kafkalog.compact(source, tmp_path / "out", config=SETTINGS)
    (done,) = report.partitions
    assert done.records_kept < done.records_read / 2
    expected = rows_of(kafkalog.read_table(tmp_path / "out"))
    topics = {"ours": tmp_path / "out" / "state-0", "again": tmp_path / "out" / "state-0", "theirs": source}
    for topic in topics:
        broker.create(topic, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0, segment_bytes=4000)
    folders = {topic: broker.folder(topic) for topic in topics}
    broker.stop()
    for topic, folder in topics.items():
        insert(broker, folder, topic)
    add_line(folders["ours"].parent, "ours", done.compacted_to)
    mounted = digests(folders["ours"])
    broker.start()
    deadline = time.monotonic() + 60
    for topic, folder in folders.items():
        while compacted_to(folder.parent, topic) < done.compacted_to:
            assert time.monotonic() < deadline, f"{topic} is not compacted\n{broker.output}"
            time.sleep(0.1)
    for topic in topics:
        assert consumed(broker, topic) == expected, topic
        assert complaints(broker, topic) == [], topic
    broker.stop()
    after = digests(folders["ours"])
    assert {name: after[name] for name in mounted if name.endswith(".log")} == {
        name: digest for name, digest in mounted.items() if name.endswith(".log")
    }
    for topic in topics:
        assert compacted_to(folders[topic].parent, topic) == done.compacted_to
    # Neighbours became one segment where a broker makes them one.
    ours, theirs = kafkalog.PartitionLog(folders["ours"]), kafkalog.PartitionLog(folders["theirs"])
    assert [s.base_offset for s in ours.segments] == [s.base_offset for s in theirs.segments]
