"""A real broker mounts what was written here: clients read it, a producer goes on, and Kafka's tool finds no fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import corpus
import kafkalog
from interop.mount import consumed, faults, insert, rows_of, serves

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Broker, Witness

pytestmark = pytest.mark.interop


def test_the_harness_mounts_what_a_broker_wrote(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """A golden folder, so that what fails below is the writer's."""
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    broker.create("mounted", segment_bytes=1_048_576)
    broker.stop()
    insert(broker, source, "mounted")
    broker.start()
    log = kafkalog.PartitionLog(source)
    # The copy's leader epochs are beyond the new topic's, which begins again at the first.
    expected = rows_of(log.scan().read_all())
    serves(broker, "mounted", expected, next_offset=log.log_end_offset, aside="New epoch entry")
    broker.stop()
    assert faults(witness, broker.folder("mounted"), tmp_path / "dumped") == []


def test_the_harness_sees_damage(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """An index that lies is a fault to the tool, and a flipped byte is not served."""
    broker.create("hurt", segment_bytes=1_048_576, index_interval_bytes=100)
    broker.driver.ask("write", topic="hurt", partitions=1, seed=1, batches=60, keyed=True)
    before = consumed(broker, "hurt")
    broker.stop()
    folder = broker.folder("hurt")
    assert faults(witness, folder, tmp_path / "whole") == []
    index = next(folder.glob("*.index"))
    data = bytearray(index.read_bytes())
    data[11] ^= 1
    index.write_bytes(data)
    assert faults(witness, folder, tmp_path / "damaged") != []
    assert len(before) > 0
