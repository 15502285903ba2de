"""A writer that is killed at random moments: ``crashing.py`` does it and says what must hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tiers

ROUNDS = tiers.pick(3, 12, 300)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(2)
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    """48 rounds in all; 1,200 in the slow profile (``KAFKALOG_SLOW=1``)."""
    program = Path(__file__).with_name("crashing.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(ROUNDS), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1100,
    )
    assert done.returncode == 0, done.stderr[-4000:]
