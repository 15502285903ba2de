"""A topic of a dead broker's disks goes into another cluster, whose broker then serves it and appends to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

import kafkalog
from interop.broker import Broker
from interop.mount import STAMP, Served, consumed, serves

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

pytestmark = pytest.mark.interop


def produce(broker: Broker, first: int) -> None:
    for n in range(first, first + 10):
        record: dict[str, object] = {"timestamp": STAMP + n, "key": None, "value": "YWJj" * 20, "headers": []}
        broker.driver.ask("produce", topic="orders", partition=0, records=[record])


def test_another_cluster_serves_what_was_rescued(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """The records have later leader epochs and higher producer ids than the other cluster knows."""
    broker.create("orders", segment_bytes=2000)
    for first in (0, 10, 20):
        produce(broker, first)
        broker.stop()
        broker.start()
    produce(broker, 30)
    truth = consumed(broker, "orders")
    disk = broker.folder("orders").parent
    disks = [each for each in broker.log_dirs if each.exists()]
    broker.kill()
    home = tmp_path / "other"
    with Broker(witness, home, {"log.dirs": str(home / "data-0")}) as other:
        other.create("orders")
        folder = other.folder("orders")
        other.stop()
        topic_id = (folder / "partition.metadata").read_text()
        old = kafkalog.scan_batches(disk / "orders-0").read_all()
        report = kafkalog.rescue(disks, into=home / "data-0", topics="orders")
        assert report.is_complete
        assert {"epochs-raised", "producer-ids-raised"} <= {each.code for each in report.plan.findings}
        assert (folder / "partition.metadata").read_text() == topic_id
        assert not (home / "data-0.unfinished").exists()
        other.start()
        assert len(truth) == 40
        serves(other, {"orders": Served(truth, 40)})
        other.kill()
        new = kafkalog.scan_batches(folder, starting_offsets=40).read_all()
        for name in ("partitionLeaderEpoch", "producerId"):
            assert pc.min(new[name]).as_py() > pc.max(old[name]).as_py(), name
