"""The Python that Spark starts for its workers, which must have kafkalog."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HAS_KAFKALOG = "import importlib.util, sys; sys.exit(importlib.util.find_spec('kafkalog') is None)"


def check_interpreter(spark: SparkSession) -> None:
    """Refuse a local session whose workers are of a Python without kafkalog.

    Spark starts ``python3`` of the PATH unless configured otherwise. What a worker without kafkalog says does not name
    it: ``DATA_SOURCE_NOT_FOUND``, or a traceback of pickle. The Python of executors on other machines is not seen from
    here, nor is that behind Spark Connect.
    """
    context: Any = getattr(spark, "_sc", None)
    if context is None or not str(context.master).startswith("local"):
        return
    given = spark.conf.get("spark.sql.execution.pyspark.python", None) or context.pythonExec
    found = shutil.which(given)
    if found is not None and not _has_kafkalog(found):
        raise ImportError(
            f"Spark's workers run {found}, which has no kafkalog; set the environment variable "
            f"PYSPARK_PYTHON={sys.executable} before the session is created"
        )


@lru_cache(maxsize=8)
def _has_kafkalog(python: str) -> bool:
    # Not realpath: the Python of a virtual environment is a link to another one's.
    if os.path.abspath(python) == os.path.abspath(sys.executable):  # noqa: PTH100 - links stay
        return True
    try:
        # The Python that Spark is about to run.
        asked = subprocess.run([python, "-c", _HAS_KAFKALOG], check=False, capture_output=True, timeout=60)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0
