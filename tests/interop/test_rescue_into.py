"""A topic of a dead broker's disk goes into another cluster, whose broker then serves it and appends to it.

Closed segments are links to the disk, none of whose bytes change.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

import clusters
import corpus
import kafkalog
from interop.broker import Broker
from interop.mount import Served, consumed, rows_of, serves

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]

DISK = corpus.GOLDEN / "clean-restarts" / "data-1"


def test_another_cluster_serves_what_was_rescued(witness: Witness, tmp_path: Path) -> None:
    """The records have later leader epochs and higher producer ids than the other cluster knows."""
    old = kafkalog.scan_batches(DISK / "orders-0").read_all()
    truth = rows_of(kafkalog.read_table(DISK / "orders-0"))
    assert len(truth) > 800
    disk = tmp_path / "dead"
    shutil.copytree(DISK, disk)
    before = clusters.contents(disk)
    home = tmp_path / "other"
    with Broker(witness, home, {"log.dirs": str(home / "data-0")}) as other:
        other.create("orders", message_timestamp_type="CreateTime")
        folder = other.folder("orders")
        other.stop()
        identity = (folder / "partition.metadata").read_text()
        report = kafkalog.rescue(disk, into=home / "data-0", topics="orders", link=True)
        codes = {each.code for each in report.plan.findings}
        assert {"epochs-raised", "producer-ids-raised"} <= codes
        assert (folder / "partition.metadata").read_text() == identity
        assert not (home / "data-0.unfinished").exists()
        other.start()
        serves(other, {"orders": Served(truth, truth[-1].offset + 1)})
        other.kill()
        other.start()
        assert len(consumed(other, "orders")) == len(truth) + 3
        other.kill()
        assert clusters.contents(disk) == before
        new = kafkalog.scan_batches(folder, starting_offsets=truth[-1].offset + 1).read_all()
        for name in ("partitionLeaderEpoch", "producerId"):
            assert pc.min(new[name]).as_py() > pc.max(old[name]).as_py(), name
