"""One Spark session for all Spark tests: starting the JVM is slow."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
# A warning of PySpark 4.3 about the installed pandas, which we do not use.
PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"
NEEDS_SESSION = {"spark"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a Spark session: options and splits are plain Python.

    The short tier has one test for each way in which Spark calls kafkalog.
    """
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(PANDAS))
            if NEEDS_SESSION & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.spark)
                if item.get_closest_marker("every_spark") is None:
                    item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two slots on this machine; Spark checks what a worker sends against the declared schema."""
    pytest.importorskip("pyspark", minversion="3.5")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("kafkalog tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.validateSchema.enabled", "true")
        # Without it, Spark before 4.2 runs one batch for Trigger.AvailableNow; a batch started before counts as it.
        .config("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def limits() -> None:
    """Python data sources get the limits of a trigger from Spark 4.2 on."""
    pytest.importorskip("pyspark", minversion="4.2")
