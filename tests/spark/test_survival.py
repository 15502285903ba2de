"""Every record is read and written once, however often the driver dies: ``lives.py`` kills it and checks that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import tiers
from spark.lives import killed_often
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.full


@pytest.mark.spark
@pytest.mark.timeout(0 if tiers.SLOW else 1200)
@needs_data_sources
def test_every_record_is_read_and_written_once_however_often_the_driver_dies(tmp_path: Path) -> None:
    killed_often(tmp_path)
