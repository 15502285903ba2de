"""Kafka's own loader accepts every salvaged log, of which it had refused the original or dropped sound batches."""

from __future__ import annotations

import gzip
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from interop.test_answers import walk
from recover_cases import CASES, NAMES, laid_out

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]


def salvaged(case: str, scratch: Path, out: Path) -> kafkalog.PartitionRecovery | None:
    """Salvage the log of a case; None where recovery needs no salvage."""
    config = laid_out(CASES / case, scratch)
    options: dict[str, Any] = {
        "clean": config["clean"],
        "recovery_point": config["recovery_point"],
        "log_start_offset": config["log_start_offset"],
        "config": kafkalog.LogConfig.from_kafka(config.get("log", {})),
        "now": config.get("now_ms", 1_700_000_000_000),
    }
    try:
        kafkalog.recover(scratch / "orders-0", dry_run=True, **options)
    except kafkalog.KafkaLogError:
        return kafkalog.recover(scratch / "orders-0", salvage=True, out=out, **options).partitions[0]
    return None


def test_kafka_loads_what_was_salvaged(witness: Witness, tmp_path: Path) -> None:
    """Loaded as after a crash with nothing flushed, it has the same end and gives our answers."""
    made = tmp_path / "made"
    reports = {}
    for number, case in enumerate(NAMES):
        mended = tmp_path / "mended" / str(number)
        report = salvaged(case, tmp_path / case, mended)
        if report is not None:
            shutil.copytree(mended, made / "data-0" / f"orders-{number}")
            reports[number] = (case, report)
    assert len(reports) > 15
    (made / "expected").mkdir()
    (made / "expected" / "case.json").write_text(json.dumps({"kafka_version": "4.3.1", "topics": {}}), encoding="utf-8")
    witness.run("expect", str(made))
    for number, (case, report) in reports.items():
        loaded = made / "expected" / f"orders-{number}" / "load.jsonl.gz"
        log = json.loads(gzip.decompress(loaded.read_bytes()))
        # The witness knows no checkpoint that has the log begin later.
        asked = json.loads((CASES / case / "config.json").read_text(encoding="utf-8"))["log_start_offset"]
        start = max(log["log_start_offset"], asked)
        assert (start, log["log_end_offset"]) == (report.log_start_offset, report.log_end_offset), case
    for stray in (made / "data-0").glob("*/24.*index"):
        stray.unlink()  # belongs to what was 24.log; neither we nor a broker read it
    walk(made)
