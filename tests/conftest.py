"""Shared by every suite: `corpus` and `interop.broker` are importable, signals arrive, and the tier is chosen."""

from __future__ import annotations

import signal
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))

import tiers

if TYPE_CHECKING:
    import pytest

# What starts a job in the background may have it ignore them, and so all that it starts: those that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the full tier runs: tests marked ``full``, and of those marked ``sampled(n)`` all but ``n``.

    The cases that stay are spaced evenly.
    """
    if tiers.FULL:
        return
    kept, cases = [], defaultdict(list)
    for item in items:
        if item.get_closest_marker("full"):
            continue
        if sampled := item.get_closest_marker("sampled"):
            cases[item.nodeid.split("[")[0], sampled.args[0]].append(item)
        else:
            kept.append(item)
    for (_, count), all_cases in cases.items():
        some = min(count, len(all_cases))
        kept += [all_cases[number * len(all_cases) // some] for number in range(some)]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def pytest_report_header() -> str:
    """Say which tier this is."""
    return "tier: slow" if tiers.SLOW else "tier: full" if tiers.FULL else "tier: short (KAFKALOG_FULL=1: all tests)"
