"""``kafkalog.explain`` tells what Kafka did in its cases, and what ``compact`` and ``retain`` do to random logs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import clean_cases
import corpus
import kafkalog
import retain_cases
import tiers
from random_logs import HOUR, NOW, random_log
from recover_cases import outcome, stopped_cleanly

SEEDS = tiers.pick(4, 12, 1000)
_SHARED = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "log"
ROOT = _SHARED if _SHARED.exists() else corpus.GOLDEN / "log"


def cases(kind: str) -> list[Path]:
    return sorted(path for path in (ROOT / kind).iterdir() if (path / "config.json").exists())


def first_of(case: Path, event: str) -> dict[str, Any]:
    """Give Kafka's first answer of a kind."""
    return next((line for line in outcome(case) if line["event"] == event), {})


PASSES = [case for case in cases("clean") if "first_dirty_offset" in first_of(case, "pass")]
# Others begin with DeleteRecords.
ROUNDS = [
    case
    for case in cases("retain")
    if "delete_records_before" not in json.loads((case / "config.json").read_text())["rounds"][0]
]


def rows_of(log_dir: Path, now: int, settings: dict[str, Any]) -> list[dict[str, Any]]:
    columns = ["baseOffset", "compaction", "compactionHeldBy", "isActive", "bytesFreeable", "retentionRule"]
    return kafkalog.explain(log_dir, now, config=settings).select(columns).to_pylist()


def verdicts(bases: list[int], first_dirty: int, first_uncleanable: int) -> list[str]:
    """A pass takes whole segments: those that end up to where it may look, and did not before."""
    ends = [*bases[1:], 1 << 62]
    return ["clean" if end <= first_dirty else "dirty" if end <= first_uncleanable else "uncleanable" for end in ends]


@pytest.mark.parametrize("case", PASSES, ids=lambda case: case.name)
def test_what_is_dirty_is_what_kafka_compacts(tmp_path: Path, case: Path) -> None:
    config = clean_cases.source_of(case, tmp_path / "source")
    kafka = first_of(case, "pass")
    settings = {name: value for name, value in config["log"].items() if name != "file.delete.delay.ms"}
    rows = rows_of(tmp_path / "source", kafka["now_ms"], settings)
    bases = [row["baseOffset"] for row in rows]
    expected = verdicts(bases, kafka["first_dirty_offset"], kafka["first_uncleanable_offset"])
    assert [row["compaction"] for row in rows] == expected
    assert [row["compactionHeldBy"] is not None for row in rows] == [said == "uncleanable" for said in expected]


@pytest.mark.parametrize("case", ROUNDS, ids=lambda case: case.name)
def test_what_is_deletable_is_what_kafka_deletes(tmp_path: Path, case: Path) -> None:
    config = retain_cases.source_of(case, tmp_path / "source")
    first = config["rounds"][0]
    kafka = first_of(case, "round")
    if "high_watermark" in first:
        stopped_cleanly(config, tmp_path / "source", first["high_watermark"])
    rows = rows_of(tmp_path / "source", first["now_ms"], config["log"])
    freeable = [row["baseOffset"] for row in rows if row["bytesFreeable"]]
    assert freeable == [each["base"] for each in kafka["deleted_segments"]]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_logs(tmp_path: Path, seed: int) -> None:
    """1,000 logs in the slow profile (``KAFKALOG_SLOW=1``)."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
    log = random_log(chance, legacy=False, damage=False)
    source = tmp_path / "logs"
    log.write(source, chance)
    # A pass of a broker, and what it had not replicated.
    checkpoint = chance.choice([None, *log.bases])
    if checkpoint is not None:
        (source / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {checkpoint}\n")
    watermark = chance.choice([None, chance.randint(log.bases[0], log.end)])
    if watermark is not None:
        (source / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {watermark}\n")
    lag = chance.choice([0, HOUR, 5 * HOUR])
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "min.compaction.lag.ms": lag}
    rows = rows_of(source, NOW, settings)
    (done,) = kafkalog.compact(source, tmp_path / "out", now=NOW, config=settings).partitions
    bases = [row["baseOffset"] for row in rows]
    assert bases == log.bases
    told = [row["compaction"] for row in rows]
    assert told == verdicts(bases, done.first_dirty_offset, done.first_uncleanable_offset)
    assert (done.passes > 0) == ("dirty" in told)
    times = sorted(each.time for each in log.batches)
    retention = {
        "retention.ms": chance.choice([-1, NOW - chance.choice(times)]),
        "retention.bytes": chance.choice([-1, chance.randint(0, sum(len(each.data) for each in log.batches))]),
    }
    rows = rows_of(source, NOW, retention)
    report = kafkalog.retain(source, tmp_path / "kept", now=NOW, config=retention)
    deleted = [(each.base_offset, each.rule) for each in report.partitions[0].deleted]
    assert [(row["baseOffset"], row["retentionRule"]) for row in rows if row["bytesFreeable"]] == deleted
    left = [segment.base_offset for segment in kafkalog.PartitionLog(tmp_path / "kept" / "orders-0").segments]
    assert set(left).isdisjoint(base for base, _ in deleted)
