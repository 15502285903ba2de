"""Warning of the guide ``writing``: a log mounted in a cluster that assigns the log's producer ids again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from interop.broker import Broker
from interop.mount import consumed, insert

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]


def produce(broker: Broker, value: str) -> Any:
    """Send one record with a producer of its own, which is idempotent by default; return its offset."""
    record: dict[str, Any] = {"timestamp": int(time.time() * 1000), "key": None, "value": value, "headers": []}
    return broker.driver.ask("produce", topic="t", partition=0, records=[record])


def test_acknowledged_records_of_a_new_producer_are_dropped_until_the_ids_are_higher(
    witness: Witness, tmp_path: Path
) -> None:
    with Broker(witness, tmp_path / "old") as old:
        old.create("t")
        assert produce(old, "b2xk") == [0]
        old.stop()
        log = old.folder("t")
        report = kafkalog.recover(log, dry_run=True)
        assert report.highest_producer_id == 0
        with Broker(witness, tmp_path / "young") as young:
            young.create("t")
            young.folder("t")
            young.stop()
            insert(young, log, "t")
            young.start()
            assert produce(young, "bmV3") == [0], "acknowledged with the offset of the old record"
            assert [row.value for row in consumed(young, "t")] == [b"old"], "and not there"
            # A broker that restarts gives up the rest of its block of 1000 ids.
            young.stop()
            young.start()
            assert produce(young, "bmV3") == [1]
            assert [row.value for row in consumed(young, "t")] == [b"old", b"new"]
            young.stop()
            grown = kafkalog.recover(young.folder("t"), dry_run=True)
            assert grown.highest_producer_id == 1000
