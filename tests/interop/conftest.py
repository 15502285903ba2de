"""Fixtures: the witness, built once, and brokers that end with their test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from interop.broker import Broker, Witness
from interop.maven import MissingToolError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def witness() -> Witness:
    """Kafka's own classes. Where they are not available the test is skipped with the reason, except in CI."""
    try:
        return Witness.build()
    except MissingToolError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"required in CI: {missing}")
        pytest.skip(str(missing))


@pytest.fixture
def broker(witness: Witness, tmp_path: Path) -> Iterator[Broker]:
    """A broker that runs; the test may stop, kill and start it."""
    with Broker(witness, tmp_path / "fresh") as running:
        yield running
