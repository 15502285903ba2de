"""Past damage, whatever skips batches on their headers gives what the same rows filtered afterwards are."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLUMNS = ["key", "offset", "timestamp", "value"]


def write(folder: Path, chance: random.Random) -> Path:
    """Write a log of batches of all sizes; return its only segment."""
    with kafkalog.LogWriter(folder, "t", batch_bytes=chance.choice([1, 200, 600]), sync="never") as log:
        for number in range(chance.randint(3, 30)):
            value = b"v%d" % number * chance.randint(1, 9)
            log.append(
                [
                    kafkalog.Record(
                        key=b"k%d" % chance.randint(0, 4), value=value, timestamp=1_700_000_000_000 + number
                    )
                    for _ in range(chance.randint(1, 4))
                ]
            )
    return folder / "t-0" / f"{0:020}.log"


def damaged(data: bytes, batches: list[dict[str, Any]], chance: random.Random) -> bytes:
    """Break one batch, or put bytes before it; a wrong length may lead to another batch, or into one."""
    out, batch = bytearray(data), chance.choice(batches)
    begin, size = batch["position"], batch["size"]
    kind = chance.choice(["length", "to a later batch", "base offset", "checksum", "gone", "foreign"])
    if kind in {"length", "to a later batch"}:
        longer = size + (chance.choice(batches)["size"] if kind == "to a later batch" else chance.randint(1, 300))
        out[begin + 8 : begin + 12] = (longer - 12).to_bytes(4, "big")
    elif kind == "base offset":
        out[begin + chance.randint(4, 7)] ^= 1 << chance.randint(0, 7)
    elif kind == "checksum":
        out[begin + chance.randint(17, size - 1)] ^= 1
    elif kind == "gone":
        del out[begin : begin + size]
    else:
        out[begin:begin] = chance.randbytes(chance.randint(1, 200))
    return bytes(out)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.sampled(24)
def test_filters_choose_among_the_rows_that_are_left(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    segment = write(tmp_path, chance)
    log = segment.parent
    batches = kafkalog.scan_batches(log).read_all().to_pylist()
    segment.write_bytes(damaged(segment.read_bytes(), batches, chance))
    reader = kafkalog.scan(log, on_corrupt="skip", columns=COLUMNS)
    rows = reader.read_all().to_pylist()
    assert reader.metrics["bytes"] + reader.metrics["bytes_lost"] == segment.stat().st_size
    latest = {row["key"]: row["offset"] for row in rows}
    middle, last = batches[len(batches) // 2]["baseOffset"], batches[-1]["baseOffset"]
    filters: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
        ({"latest_per_key": True, "tombstones": True}, lambda row: latest[row["key"]] == row["offset"]),
        ({"starting_offsets": middle}, lambda row: row["offset"] >= middle),
        ({"ending_offsets": middle}, lambda row: row["offset"] < middle),
        ({"starting_offsets": last}, lambda row: row["offset"] >= last),
    ]
    for options, wants in filters:
        found = kafkalog.read_table(log, on_corrupt="skip", columns=COLUMNS, **options).to_pylist()
        assert found == [row for row in rows if wants(row)], options


@pytest.mark.parametrize("case", sorted(path.parent.name for path in (corpus.GOLDEN / "corrupt").glob("*/t-0")))
def test_the_latest_of_each_key_is_one_of_the_rows_that_are_left(case: str) -> None:
    log = corpus.GOLDEN / "corrupt" / case / "t-0"
    rows = kafkalog.read_table(log, on_corrupt="skip", columns=COLUMNS).to_pylist()
    latest = {row["key"]: row["offset"] for row in rows if row["key"] is not None}
    found = kafkalog.read_table(log, on_corrupt="skip", columns=COLUMNS, latest_per_key=True, tombstones=True)
    assert found["offset"].to_pylist() == sorted(latest.values())
