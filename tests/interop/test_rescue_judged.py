"""Rescues with disks missing, and of clusters that live and die for the test; ``KAFKALOG_SLOW=1`` runs them.

They take an hour. The oracle that makes and judges them is in the shared folder. Other versions of Kafka need a copy of
it, ``COPY/oracle/cluster`` beside ``COPY/corpus/clusters``, to which ``KAFKALOG_CLUSTERS`` points. For 3.9 its
``Make.java`` says ``segment.bytes`` for ``internal.segment.bytes``; for 4.4 it says 4.4.0 for 4.3.1 in
``run``, ``pom.xml`` and ``Make.java``, and leaves out ``org.eclipse.jetty.ee10`` of ``kafka-tools``.
"""

from __future__ import annotations

import shutil
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

import clusters
import tiers
from interop import judge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not tiers.SLOW, reason="takes an hour; KAFKALOG_SLOW=1 runs it"),
    pytest.mark.timeout(1800),
    pytest.mark.full,
]

WITHHELD = [
    (case, without)
    for case in clusters.CASES
    for count in (1, 2)
    for without in combinations(clusters.nodes(case), count)
]
COMBINED, SEPARATE = "three-combined", "three-plus-three"
MADE: list[tuple[str, int, tuple[str, ...]]] = [
    *((COMBINED, seed, ()) for seed in (101, 102, 103)),
    *((SEPARATE, seed, ()) for seed in (104, 105)),
    (COMBINED, 106, ("--death", "together")),
    (COMBINED, 107, ("--quorum", "static")),
    (SEPARATE, 108, ("--quorum", "dynamic")),
    (COMBINED, 109, ("--kafka", "3.9.1")),
    (SEPARATE, 110, ("--kafka", "3.9.1")),
    (COMBINED, 111, ("--kafka", "4.4.0")),
    (SEPARATE, 112, ("--kafka", "4.4.0", "--death", "together")),
]


def check(case: Path, work: Path, without: Sequence[int] = ()) -> None:
    report = judge.rescued(case, work / "rescued", without)
    verdict = judge.judged(case, work / "rescued", work / "judge", without)
    assert verdict.unexplained(report) == []
    assert verdict.required > 1000
    if not without:
        assert report.is_complete, [str(each) for each in report.plan.findings]
    if "partition_lost" in {each.get("note") for each in verdict.said}:
        assert not report.is_complete
    shutil.rmtree(work)


@pytest.mark.parametrize(("case", "without"), WITHHELD, ids=str)
def test_without_the_disks_of_one_or_two_nodes(case: str, without: tuple[int, ...], tmp_path: Path) -> None:
    check(clusters.FOLDER / case, tmp_path / "work", without)


@pytest.mark.parametrize(("kind", "seed", "options"), MADE, ids=str)
def test_a_cluster_that_just_died(kind: str, seed: int, options: tuple[str, ...], tmp_path: Path) -> None:
    """With all disks, and without those of each node."""
    case = judge.make(kind, tmp_path / "case", "--seed", seed, *options)
    check(case, tmp_path / "work")
    for node in clusters.nodes_of(case):
        check(case, tmp_path / f"without-{node}", [node])
