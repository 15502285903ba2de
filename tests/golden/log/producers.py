"""Write the inputs of the cases ``append/producers-*``: producers whose ids meet in few bins of a Java ``HashMap``.

Usage: ``python3 tests/golden/log/producers.py FOLDER``. Makes ``<case>/config.json`` and ``<case>/input.jsonl``; what
Kafka made of them (``result.jsonl``, ``after/``) was answered by the program that answered the rest of the corpus.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

NOW = 1_700_000_000_000
EXPIRATION_MS = 86_400_000
CHANCE = random.Random(1)  # noqa: S311 - to be repeated, not secret
SNAPSHOT = {"op": "snapshot"}


def batch(producer_id: int, timestamp: int = NOW, **more: int) -> dict[str, Any]:
    """Give one record of a producer."""
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "base_ts": timestamp, **more}
    return {**fields, "records": [{"value": "v"}]}


def shuffled(ids: list[int]) -> list[int]:
    """Give them in some order."""
    return CHANCE.sample(ids, len(ids))


def each(batches: list[dict[str, Any]], every: int) -> list[dict[str, Any]]:
    """Append one by one, with a snapshot now and then."""
    found: list[dict[str, Any]] = []
    for n, one in enumerate(batches):
        found += [{"batches": [one]}, *([SNAPSHOT] if n % every == every // 2 else [])]
    return found


def in_few_bins() -> list[dict[str, Any]]:
    """One by one: lists become trees, and trees are split when the map grows."""
    ids = shuffled([n * 1024 for n in range(40)])
    ids += [n * 1000 for n in range(100)]
    ids += [n << 32 | n for n in range(1, 30)]  # all of hash 0
    ids += list(range(7_000_000, 7_000_030))
    return each([batch(producer_id) for producer_id in dict.fromkeys(ids)], 60)


def in_one_append() -> list[dict[str, Any]]:
    """Put in order by the map of an append before they come into that of the log."""
    few = shuffled([n * 4096 + CHANCE.randrange(2) for n in range(70)])
    many = shuffled([n * 512 for n in range(300)])
    first = [batch(producer_id, base_offset=n) for n, producer_id in enumerate(few)]
    second = [batch(producer_id, base_offset=len(few) + n, base_sequence=5) for n, producer_id in enumerate(many)]
    return [{"as": "follower", "batches": first}, SNAPSHOT, {"as": "follower", "batches": second}]


def expired() -> list[dict[str, Any]]:
    """Some go out of the trees; others come into what is left."""
    ids = shuffled([n * 2048 for n in range(60)])
    old = set(ids[:35])
    before = [batch(n, NOW - EXPIRATION_MS + 1000 if n in old else NOW) for n in shuffled(ids)]
    new = shuffled([n * 2048 for n in range(60, 90)] + [n * 2048 + 1 for n in range(20)])
    after = [batch(producer_id, NOW + 2000) for producer_id in new]
    return [*each(before, 200), SNAPSHOT, {"op": "expire_producers", "advance_ms": 2000}, *each(after, 17)]


CASES = {
    "producers-in-few-bins": (in_few_bins, "Ids that share bins of the map of producers: lists, trees, split trees."),
    "producers-in-one-append": (in_one_append, "Many producers in one append, whose own map orders them first."),
    "producers-expired": (
        expired,
        "Producers expire out of crowded bins; new ones come into what is left of the trees.",
    ),
}


def main(out: Path) -> None:
    """Write them."""
    for name, (make, about) in CASES.items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        config = {"kind": "append", "about": about, "log": {"segment.bytes": 1 << 20}}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        lines = (json.dumps(line, separators=(",", ":")) + "\n" for line in make())
        (folder / "input.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
