"""``kafkalog.compact`` against a model: random logs, and of each key the last record, by rules over a dict."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
import tiers
from byte_logs import Record
from random_logs import HOUR, NOW, random_log

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = tiers.pick(8, 24, 4000)


def records_of(log_dir: Path, **how: Any) -> list[Record]:
    columns = ["offset", "timestamp", "key", "value"]
    table = kafkalog.read_table(log_dir, columns=columns, starting_offsets="oldest", **how)
    rows = table.to_pylist()
    return [Record(row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"]) for row in rows]


# Both wrappers at the end of a log are damaged, and what seems a message inside one has a right checksum.
MESSAGE_IN_A_WRAPPER = 3705
# A later pass reads batches again that were messages of magic 0 or 1, and those that are only a header.
RAISED_AND_READ_AGAIN = 245
EMPTIED_AND_READ_AGAIN = 61
SEEDS_OF_NOTE = {MESSAGE_IN_A_WRAPPER, RAISED_AND_READ_AGAIN, EMPTIED_AND_READ_AGAIN}


@pytest.mark.parametrize("seed", sorted({*range(SEEDS), *SEEDS_OF_NOTE}))
def test_as_the_model(tmp_path: Path, seed: int) -> None:
    """4,000 logs in the slow profile (``KAFKALOG_SLOW=1``)."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
    legacy, damage = chance.random() < 0.3, chance.random() < 0.3
    log = random_log(chance, legacy=legacy, damage=damage)
    folder = log.write(tmp_path / "logs", chance)
    roll = chance.random() < 0.5
    # Messages of magic 0 have no time but that of their file.
    lag = 0 if legacy else chance.choice([0, 0, HOUR])
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0,
        "min.compaction.lag.ms": lag,
        "segment.bytes": chance.choice([1000, 1 << 20]),
    }
    out = tmp_path / "out"
    how: dict[str, Any] = {
        "now": NOW,
        "config": config,
        "roll": roll,
        "on_corrupt": "skip" if damage else "raise",
        "map_bytes": chance.choice([24 * 8, 24 * 30, 1 << 20]),
    }
    # So small an index has an output of several segments, each written in pieces.
    config["segment.index.bytes"] = chance.choice([36, 120, 10 << 20])
    config["index.interval.bytes"] = chance.choice([0, 300, 4096])
    planned = kafkalog.compact(folder, out, dry_run=True, **how)
    report = kafkalog.compact(folder, out, **how)
    (first,), (done,) = planned.partitions, report.partitions
    bound = log.first_uncleanable(roll=roll, lag_ms=lag)
    if first.more_passes:
        assert first.passes == 1
        assert first.compacted_to < bound
    else:
        assert replace(planned, dry_run=False, out=report.out) == report
    assert done.first_uncleanable_offset == bound
    assert done.compacted_to == bound
    assert done.log_end_offset == log.end
    expected = log.cleaned(roll=roll, lag_ms=lag)
    assert records_of(out) == expected
    assert records_of(out, isolation_level="read_committed") == log.committed(expected)
    errors = [row for row in kafkalog.verify(out).to_pylist() if row["severity"] == "error"]
    assert errors == []
