"""Imports and their time: a task pays for every module, and a broken install must not hide other data sources."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from spark.ways import needs_data_sources


def run(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.every_spark
def test_the_package_and_a_task_import_little() -> None:
    run("""
        import sys
        import kafkalog, kafkalog.spark, kafkalog.spark.read_split, kafkalog.spark.pyspark_private, kafkalog.spark.split
        driver = {"kafkalog.spark.planner", "kafkalog.spark.source_options", "kafkalog.spark.exporter"}
        assert not driver & set(sys.modules)
        kafkalog.spark.schema(["value"])
        heavy = {"pyspark", "pyarrow", "pandas", "numpy", "kafkalog.spark.data_source"} & set(sys.modules)
        assert not heavy, heavy
    """)


@pytest.mark.every_spark
@needs_data_sources
def test_the_module_that_spark_discovers_imports_nothing_of_kafkalog() -> None:
    run("""
        import sys
        sys.modules["kafkalog"] = None  # importing it fails
        from pyspark.sql.datasource import DataSource
        import pyspark_kafkalog
        assert issubclass(pyspark_kafkalog.DefaultSource, DataSource)
        assert pyspark_kafkalog.DefaultSource.name() == "kafkalog"
    """)


@pytest.mark.every_spark
def test_a_spark_without_data_sources_gets_a_module_without_one() -> None:
    run("""
        import sys
        sys.modules["pyspark.sql.datasource"] = None
        import pyspark_kafkalog
        assert not hasattr(pyspark_kafkalog, "DefaultSource")
        assert pyspark_kafkalog.__all__ == []
    """)
