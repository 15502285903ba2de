"""A real broker mounts what was retained and rewritten; its consumer sees exactly the records that should remain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import kafkalog
from interop.mount import consumed, faults, insert
from interop.test_mount import SMALL, arrow, prepared, row
from kafkalog import LogConfig, LogWriter

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Broker, Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]

COUNT = 3000


def test_retained_and_rewritten(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    topics = ["retained", "erased", "packed"]
    prepared(broker, *topics)
    broker.stop()
    source = tmp_path / "logs"
    rows = [row(offset) for offset in range(COUNT)]
    for topic in topics:
        with LogWriter(source, topic, config=LogConfig(**SMALL, compression_type="lz4"), batch_bytes=2000) as log:
            log.append(arrow(rows))
    size = {"retention.ms": -1, "retention.bytes": 10_000}
    kept = kafkalog.retain(source / "retained-0", tmp_path / "retained", config=size).partitions[0]
    assert 0 < kept.log_start_offset < COUNT
    erased = [each.key for each in rows[2:COUNT:40] if each.key is not None]
    # The last record goes too: the log has to end where it did.
    last = {"erased": {0: [(COUNT - 30, COUNT)]}}
    kafkalog.rewrite(source / "erased-0", tmp_path / "erased", drop_keys=erased, drop_offsets=last)
    kafkalog.rewrite(
        source / "packed-0", tmp_path / "packed", compression_type="zstd", config={"segment.bytes": 1 << 20}
    )
    for topic in topics:
        insert(broker, tmp_path / topic / f"{topic}-0", topic)
    found = faults(witness, [broker.folder(topic) for topic in topics], tmp_path / "dumped")
    # The tool tells gaps, which are what was erased.
    assert [line for line in found if " is followed by " not in line] == []
    broker.start()
    expected = {
        "retained": [each for each in rows if each.offset >= kept.log_start_offset],
        "erased": [each for each in rows[: COUNT - 30] if each.key not in erased],
        "packed": rows,
    }
    assert len(expected["erased"]) < COUNT - 60
    for _ in range(2):
        for topic in topics:
            assert consumed(broker, topic) == expected[topic], topic
        broker.stop()
        broker.start()
    broker.stop()
