"""Processor time from /proc: of a process with all below it, and of the machine."""

from __future__ import annotations

import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def tree_seconds(root: int) -> float:
    """User and system time of a process, its descendants, and those of them that have ended."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            words = text.rpartition(")")[2].split()
            parents[int(entry.name)] = int(words[1])
            seconds[int(entry.name)] = sum(map(int, words[11:15])) / TICK
    total = 0.0
    for process, own in seconds.items():
        above = process
        while above not in {0, root}:
            above = parents.get(above, 0)
        total += own if above else 0.0
    return total


def busy_seconds() -> float:
    """User, system and interrupt time of all processors since the start."""
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return sum(int(words[at]) for at in (1, 2, 3, 6, 7)) / TICK
