"""Fixtures: the witness, built once, and brokers that never outlive their test."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker import Missing, Witness  # noqa: E402  (the path is set above)


@pytest.fixture(scope="session")
def witness() -> Witness:
    """Kafka's own classes; skipped with the reason where they cannot be had, required in CI."""
    try:
        return Witness.build()
    except Missing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"required in CI: {missing}")
        pytest.skip(str(missing))
