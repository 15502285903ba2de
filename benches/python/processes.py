"""Processor time from /proc: of a process with all below it, and of the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Processor seconds of a process tree: of its JVMs and of the others, in programs and in the kernel."""

    jvm_user: float = 0.0
    jvm_system: float = 0.0
    user: float = 0.0
    system: float = 0.0

    def since(self, before: Spent) -> Spent:
        """Return the values after ``before``."""
        return Spent(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.jvm_user + self.jvm_system + self.user + self.system


def tree_seconds(root: int) -> float:
    """User and system time of a process, its descendants, and those of them that have ended."""
    return tree_spent(root).seconds


def tree_spent(root: int) -> Spent:
    """The same, divided."""
    before: dict[int, int] = {}
    while True:
        parents, sums = _look(root)
        # A process that ended while the others were read is in no sum, or in two: its own and its parent's.
        if parents == before:
            return Spent(*(ticks / TICK for ticks in sums))
        before = parents


def _look(root: int) -> tuple[dict[int, int], list[int]]:
    """Each process of the tree with its parent, and the sums of their ticks."""
    parents: dict[int, int] = {}
    times: dict[int, tuple[bool, int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            name, _, rest = text.rpartition(")")
            words = rest.split()
            parents[int(entry.name)] = int(words[1])
            # Of itself, and of its children that were waited for.
            user, system, child_user, child_system = map(int, words[11:15])
            times[int(entry.name)] = name.endswith("(java"), user + child_user, system + child_system
    tree: dict[int, int] = {}
    sums = [0, 0, 0, 0]
    for process, (is_jvm, user, system) in times.items():
        above = process
        while above not in {0, root}:
            above = parents.get(above, 0)
        if above:
            tree[process] = parents[process]
            sums[0 if is_jvm else 2] += user
            sums[1 if is_jvm else 3] += system
    return tree, sums


def busy_seconds() -> float:
    """User, system and interrupt time of all processors since the start."""
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return sum(int(words[at]) for at in (1, 2, 3, 6, 7)) / TICK
