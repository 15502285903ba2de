"""``read_committed`` under bounds that leave out what lies between: the ends of transactions among it.

A bound on the timestamp leaves out whole segments, and begins inside others; damage takes bytes away.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kafkalog
import tiers
from byte_logs import TRANSACTIONAL, Producer, Record, batch, marker

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = tiers.pick(12, 40, 2000)
P, Q = 7, 9


def of(producer: int, offset: int, time: int) -> bytes:
    record = Record(offset, time, b"k", b"v%d" % offset)
    return batch([record], "none", Producer(producer, 0, offset), TRANSACTIONAL)


def write(folder: Path, *segments: tuple[int, list[bytes]]) -> Path:
    folder.mkdir(parents=True)
    for base, batches in segments:
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    return folder.parent


def committed(log_dir: Path, **options: int | str) -> list[int]:
    table = kafkalog.read_table(log_dir, columns=["offset"], isolation_level="read_committed", **options)  # type: ignore[arg-type]
    offsets: Any = table["offset"].to_pylist()
    return [*offsets]


def test_a_bound_leaves_out_the_segment_with_the_end_of_a_transaction(tmp_path: Path) -> None:
    """P is given, its commit is not read, and a later marker aborts another one."""
    log_dir = write(
        tmp_path / "t-0",
        (0, [of(P, 0, 50)]),
        (1, [marker(1, 10, P, commit=True), of(P, 2, 10)]),
        (3, [of(Q, 3, 50), marker(4, 50, P, commit=False), marker(5, 50, Q, commit=True)]),
    )
    assert committed(log_dir) == [0, 3]
    logs = kafkalog.dataset(log_dir, isolation_level="read_committed", columns=["offset", "timestamp"])
    later = pc.field("timestamp") >= pa.scalar(20, pa.timestamp("ms", "UTC"))
    assert logs.to_table(filter=later)["offset"].to_pylist() == [0, 3]
    assert logs.count_rows(filter=later) == 2


def test_damage_takes_the_end_of_a_transaction_away(tmp_path: Path) -> None:
    log_dir = write(
        tmp_path / "t-0",
        (0, [of(P, 0, 10), marker(1, 10, P, commit=True), of(P, 2, 10), marker(3, 10, P, commit=False)]),
    )
    file = log_dir / "t-0" / f"{0:020}.log"
    whole = bytearray(file.read_bytes())
    at = len(of(P, 0, 10)) + 70
    whole[at] ^= 1
    file.write_bytes(whole)
    assert committed(log_dir, on_corrupt="skip") in ([], [0])
    with pytest.raises(kafkalog.CorruptRecordError, match='on_corrupt="skip"'):
        committed(log_dir)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_transactions_under_random_bounds(seed: int, tmp_path: Path) -> None:
    """Beside the rows that all bounds leave of the whole read."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    segments: list[tuple[int, list[bytes]]] = [(0, [])]
    opened: dict[int, list[tuple[int, int]]] = {}
    expected: list[tuple[int, int]] = []
    count = chance.choice([20, 60])
    for offset in range(count):
        if chance.random() < 0.2:
            segments.append((offset, []))
        producer, time = chance.randrange(4), chance.randrange(100)
        if producer in opened and chance.random() < 0.4:
            commit = chance.random() < 0.5
            rows = opened.pop(producer)
            expected += rows if commit else []
            segments[-1][1].append(marker(offset, time, producer, commit=commit))
        else:
            opened.setdefault(producer, []).append((offset, time))
            segments[-1][1].append(of(producer, offset, time))
    stable = min((each[0][0] for each in opened.values()), default=count)
    expected = sorted(row for row in expected if row[0] < stable)
    log_dir = write(tmp_path / "t-0", *segments)
    assert committed(log_dir) == [offset for offset, _ in expected]
    logs = kafkalog.dataset(log_dir, isolation_level="read_committed", columns=["offset", "timestamp"])
    for _ in range(10):
        low, high, first = chance.randrange(100), chance.randrange(100), chance.randrange(count)
        moment = pa.scalar(low, pa.timestamp("ms", "UTC"))
        end = pa.scalar(high, pa.timestamp("ms", "UTC"))
        wanted, left = chance.choice(
            [
                (pc.field("timestamp") >= moment, [o for o, t in expected if t >= low]),
                (pc.field("timestamp") <= end, [o for o, t in expected if t <= high]),
                (
                    (pc.field("timestamp") >= moment) & (pc.field("offset") >= first),
                    [o for o, t in expected if t >= low and o >= first],
                ),
                (
                    (pc.field("timestamp") >= moment) & (pc.field("timestamp") <= end),
                    [o for o, t in expected if low <= t <= high],
                ),
            ]
        )
        assert logs.to_table(filter=wanted)["offset"].to_pylist() == left, wanted
        assert logs.count_rows(filter=wanted) == len(left), wanted
