"""The tiers of the tests: short by default, full in CI, slow on request.

``KAFKALOG_FULL=1`` runs the full tier, which `tests/run.py --full` sets, and ``KAFKALOG_SLOW=1`` the slow one. A test
marked ``full`` is left out of the short tier, and one marked ``sampled(n)`` runs ``n`` of its cases in it
(`tests/conftest.py`). Random tests run fewer rounds in it, from one seed: what fails in CI fails again on a desk.
``KAFKALOG_SEED`` names another, and the nightly run takes a new one each time.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

SLOW = os.environ.get("KAFKALOG_SLOW", "0") != "0"
FULL = SLOW or os.environ.get("KAFKALOG_FULL", "0") != "0"
SEED = int(os.environ.get("KAFKALOG_SEED", "1"))


def pick(short: T, full: T, slow: T) -> T:
    """Return the value for the tier that runs."""
    return slow if SLOW else full if FULL else short
