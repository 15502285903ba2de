"""Records that kafka-dump-log and reading past damage find in damaged segments; the guide has the table."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

import pytest

import corpus
import damages
import documents
import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]

BATCH = re.compile(r"baseOffset: .* position: (\d+) .* size: (\d+) .* isvalid: true")
# Segments of tests/golden, their fewest batches and most bytes.
SEGMENTS, FEWEST, LARGEST = 12, 8, 20 << 10


def segments() -> list[damages.Segment]:
    """Give segments of magic 2, spread over the corpus, the same ones every time."""
    found = []
    for partition in corpus.partitions():
        if partition.folder.is_relative_to(corpus.GOLDEN) and partition.has("batches"):
            of_partition = damages.of_corpus(partition.lines("batches"), partition.folder)
            fits = [s for s in of_partition if len(s) >= FEWEST and len(s.data) <= LARGEST and not s.is_legacy(0)]
            found += fits[:1]
    return found[:: len(found) // SEGMENTS][:SEGMENTS]


def test_what_the_tool_and_what_we_save(witness: Witness, tmp_path: Path) -> None:
    made: list[tuple[str, damages.Segment, list[damages.Damaged], Path]] = []
    for number, segment in enumerate(segments()):
        for kind in damages.KINDS:
            chance = random.Random(f"{number} {kind}")  # noqa: S311 - repeatable, not secret
            answers = damages.damaged(segment, kind, chance, chance.randrange(1, len(segment) - 1))
            if answers:
                folder = tmp_path / f"{len(made)}" / "t-0"
                folder.mkdir(parents=True)
                (folder / segment.name).write_bytes(answers[0].data)
                # What a broker appends to next: the damaged segment is not the active one.
                (folder / f"{segment.next_offset:020}.log").touch()
                made.append((kind, segment, answers, folder))
    files = [str(folder / segment.name) for _, segment, _, folder in made]
    printed = witness.run("dump", *files).split("Dumping ")[1:]
    assert len(printed) == len(files)

    intact, theirs, ours = (dict.fromkeys(damages.KINDS, 0) for _ in range(3))
    for (kind, segment, answers, folder), text in zip(made, printed, strict=True):
        assert text.startswith(str(folder))
        rows = kafkalog.scan_batches(folder, on_corrupt="skip").read_all().select(["position", "size"]).to_pylist()
        given = {(row["position"], row["size"]) for row in rows}
        dumped = {(int(position), int(size)) for position, size in BATCH.findall(text)}

        def records(places: set[tuple[int, int]], segment: damages.Segment, damage: damages.Damaged) -> int:
            """Count those of intact batches."""
            found = [(position, segment.listed[number]) for position, number in damage.whole]
            return sum(line["count"] for position, line in found if (position, line["size"]) in places)

        def all_of(segment: damages.Segment, damage: damages.Damaged) -> int:
            return sum(segment.listed[number]["count"] for _, number in damage.whole)

        intact[kind] += all_of(segment, answers[0])
        theirs[kind] += max(records(dumped, segment, damage) for damage in answers)
        ours[kind] += max(records(given, segment, damage) for damage in answers)
    assert ours == intact
    assert all(theirs[kind] <= intact[kind] for kind in damages.KINDS)
    assert sum(theirs.values()) < 0.9 * sum(intact.values())
    table = [f"| {kind} | {intact[kind]} | {theirs[kind]} | {ours[kind]} |" for kind in damages.KINDS]
    table.append(f"| **all** | {sum(intact.values())} | {sum(theirs.values())} | {sum(ours.values())} |")
    guide = documents.text("damage")
    assert [row for row in table if row not in guide.splitlines()] == [], "\n" + "\n".join(table)
