"""Transactions that begin in a remote segment and end in a local one, wherever the border is between them."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import kafkalog
import tiered_cases
from tiered_cases import COLUMNS, expected_rows, rows_of
from tiers import SEED, pick

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "txn-mixed"


def test_rows_are_the_consumers_wherever_the_border_is(tmp_path: Path) -> None:
    case = tiered_cases.unpack("txn", tmp_path / "txn")
    wanted = expected_rows(case.rows(TOPIC, 0, "committed") or [])
    remote = next(case.tier.rglob(f"{TOPIC}-0-*"))
    data = case.withheld(tmp_path / "data")
    # Without it the local log begins where its first segment does.
    (data / "log-start-offset-checkpoint").unlink()
    starts = sorted({int(file.name[:20]) for file in remote.glob("*.log")})
    chance = random.Random(SEED)  # noqa: S311 - of a test
    borders = chance.sample(range(1, len(starts)), pick(4, len(starts) - 1, len(starts) - 1))
    # Segments move from the tier into the local log, the last ones first.
    for border in sorted(borders, reverse=True):
        for file in list(remote.iterdir()):
            base, kind = int(file.name[:20]), file.name.rpartition(".")[2]
            if base < starts[border]:
                continue
            if kind in {"log", "index", "timeindex", "txnindex"}:
                shutil.copy(file, data / f"{TOPIC}-0" / f"{base:020}.{kind}")
            file.unlink()
        around = [starts[border] - 1, starts[border], starts[border] + 1]
        for start in [0, *around, chance.randrange(starts[-1])]:
            for threads in (1, 2):
                table = kafkalog.read_table(
                    data,
                    TOPIC,
                    remote=case.tier,
                    starting_offsets=start,
                    isolation_level="read_committed",
                    threads=threads,
                    columns=COLUMNS,
                )
                assert rows_of(table) == [row for row in wanted if row["offset"] >= start], (border, start, threads)
