"""Each segment of each corpus, damaged in every way: what is left is compared with Kafka's own list of its batches."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import corpus
import damages
import kafkalog
import tiers

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.corpus

MEMORY = Path("/dev/shm")
# What is damaged without KAFKALOG_SLOW: segments of a partition, and the bytes of the largest.
MOST, LARGEST = 1, 32 << 10


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty partition folder, in memory where there is such a place."""
    made = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    log = made / "t-0"
    log.mkdir()
    yield log
    shutil.rmtree(made)


def check(segment: damages.Segment, kind: str, folder: Path, seed: str) -> bool:
    """Damage a segment and read it; false where the damage leaves a doubt about which batch it is of."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    answers = damages.damaged(segment, kind, chance, chance.randrange(len(segment)))
    if not answers:
        return False
    log = folder / segment.name
    log.unlink(missing_ok=True)
    log.write_bytes(answers[0].data)

    reader = kafkalog.scan_batches(folder, on_corrupt="skip", starting_offsets="oldest")
    batches = reader.read_all().select(["position", "size", "baseOffset", "lastOffset"]).to_pylist()
    given = [tuple(row.values()) for row in batches]
    places = [row[0] for row in given]
    damage = next((each for each in answers if [place for place, _ in each.whole] == places), answers[0])
    listed = [(position, segment.listed[number]) for position, number in damage.whole]
    assert given == [(p, line["size"], line["base_offset"], line["last_offset"]) for p, line in listed]
    rows = reader.lost.to_pylist()
    lost = [(row["position"], row["endPosition"]) for row in rows if row["reason"] != "missing"]
    assert lost == damage.lost
    offsets = [(row["firstOffset"], row["lastOffset"]) for row in rows if row["reason"] != "missing"]
    assert offsets == damages.gaps(segment, damage)
    assert sum(row[1] for row in given) + sum(end - begin for begin, end in lost) == len(damage.data)

    records = kafkalog.scan(
        folder, on_corrupt="skip", starting_offsets="oldest", columns=["batchPosition"], include_control=True
    )
    counts = Counter(records.read_all()["batchPosition"].to_pylist())
    expected = {p: line["count"] for p, line in listed if line["count"] != 0}
    assert counts.keys() == expected.keys()
    assert all(count in (None, counts[p]) for p, count in expected.items())
    assert records.lost.to_pylist() == rows
    assert records.metrics["bytes"] + records.metrics["bytes_lost"] == len(damage.data)

    findings = [row for row in kafkalog.verify(folder, threads=1).to_pylist() if row["severity"] != "info"]
    named = {(row["position"], row["endPosition"]) for row in findings if row["file"] == str(log)}
    assert named >= set(lost)
    return True


def chosen(partition: corpus.Partition) -> list[damages.Segment]:
    """Give the segments; without ``KAFKALOG_SLOW`` only some of a partition that has many, and no large ones."""
    segments = damages.of_corpus(partition.lines("batches"), partition.folder)
    if tiers.SLOW:
        return segments
    small = [segment for segment in segments if len(segment.data) <= LARGEST]
    return random.Random(partition.id).sample(small, min(MOST, len(small)))  # noqa: S311 - repeatable, not secret


@pytest.mark.parametrize("partition", [p for p in corpus.partitions() if p.has("batches")], ids=lambda p: p.id)
@pytest.mark.sampled(5)
def test_what_is_whole_is_given_and_the_rest_accounted_for(partition: corpus.Partition, folder: Path) -> None:
    """Bytes given and bytes lost are the bytes of the file; offsets, records and findings are those of Kafka's list."""
    done = []
    for segment in chosen(partition):
        for file in folder.iterdir():
            file.unlink()
        # The segment is not the active one, whose torn end is no damage.
        (folder / f"{segment.next_offset:020}.log").touch()
        for kind in damages.KINDS:
            seed = f"{partition.id}/{segment.name}/{kind}"
            try:
                done.append(check(segment, kind, folder, seed))
            except AssertionError as error:
                raise AssertionError(seed) from error
    assert len(damages.KINDS) >= 25
    assert sum(done) >= len(done) * 0.9
