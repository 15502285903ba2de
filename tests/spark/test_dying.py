"""Drivers, executors and writers that are killed at random steps: ``dying.py`` does it and says what must hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tiers
from spark.ways import needs_data_sources

pytestmark = pytest.mark.full

ROUNDS = tiers.pick(20, 60, 600)


@needs_data_sources
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(tiers.pick(1, 2, 4)))
def test_killed_at_random_steps(tmp_path: Path, seed: int) -> None:
    """120 rounds in all; 2,400 in the slow profile (``KAFKALOG_SLOW=1``)."""
    program = Path(__file__).with_name("dying.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), str(ROUNDS), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert done.returncode == 0, done.stderr[-4000:]
