"""``kafkalog.spark.rewrite``, killed at any moment: the source is as it was, and the same call finishes the job."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog.spark
import tiers
from recover_cases import digests
from spark.test_rewrite import contents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.full

ROUNDS = 10
DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
OPTIONS: dict[str, Any] = {"drop_timestamps": (None, 1 << 50), "topics": "orders"}
# What a driver does to files, as Python tells it.
TOUCHES = {"open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "os.scandir", "shutil.copytree", "shutil.rmtree"}


class Frame:
    """Stand-in for a Spark frame, in the driver: a batch of one row in each task."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def mapInArrow(self, work: Callable[[Iterator[Any]], Iterator[Any]], _: str) -> Frame:  # noqa: N802 - Spark's name
        batches = [pa.RecordBatch.from_pydict({"id": [row]}) for row in self.rows]
        return Frame([row for batch in batches for made in work(iter([batch])) for row in made.to_pylist()])

    def collect(self) -> list[Any]:
        return self.rows


class Session:
    """Stand-in for a Spark session."""

    def range(self, start: int, end: int, step: int, _: int) -> Frame:
        return Frame(list(range(start, end, step)))


def rewritten(out: Path) -> None:
    session: Any = Session()
    kafkalog.spark.rewrite(session, DATA, out, **OPTIONS)


def forked(out: Path, die_at: int) -> tuple[int, int]:
    """Rewrite in a process that kills itself before a step; return its end, and its steps so far."""
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        seen = 0

        def see(event: str, _: Any) -> None:
            nonlocal seen
            if event in TOUCHES:
                if seen == die_at:
                    os.kill(os.getpid(), signal.SIGKILL)
                seen += 1

        sys.addaudithook(see)
        rewritten(out)
        os.write(tells, b"%d" % seen)
        os._exit(0)
    os.close(tells)
    with os.fdopen(told, "rb") as pipe:
        steps = int(pipe.read() or b"0")
    return os.waitpid(child, 0)[1], steps


@pytest.mark.timeout(1800 if tiers.SLOW else 300)
def test_at_every_kind_of_step(tmp_path: Path) -> None:
    """Before every step in the slow profile (``KAFKALOG_SLOW=1``)."""
    before = digests(DATA)
    # What is imported later is no step.
    rewritten(tmp_path / "first")
    ended, steps = forked(tmp_path / "whole", -1)
    assert ended == 0
    rounds = steps if tiers.SLOW else ROUNDS
    assert steps > ROUNDS
    whole = contents(tmp_path / "whole")
    chance = random.Random(5)  # noqa: S311 - to be repeated, not secret
    stages = set()
    for n in range(rounds):
        folder = tmp_path / f"{n}"
        folder.mkdir()
        out = folder / "out"
        # Each part of the steps once, the last one too.
        drawn = steps - 1 if n == 0 else (n * steps + chance.randrange(steps)) // rounds
        ended, _ = forked(out, n if tiers.SLOW else drawn)
        assert ended == signal.SIGKILL
        assert digests(DATA) == before
        stages.add((out.exists(), (folder / "out.parts").exists()))
        if out.exists():
            assert contents(out) == whole
            with pytest.raises(FileExistsError):
                rewritten(out)
        else:
            rewritten(out)
        assert contents(out) == whole
        assert {path.name for path in folder.iterdir()} == {"out", "out.rewrite.json"}
        shutil.rmtree(folder)
    assert {(False, True), (True, True)} <= stages
    assert digests(DATA) == before


_DRIVER = """
import sys, kafkalog.spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
kafkalog.spark.rewrite(spark, sys.argv[1], sys.argv[2], drop_timestamps=(None, 1 << 50), topics="orders")
"""


@pytest.mark.skipif(not tiers.SLOW, reason="each kill starts a Spark of its own: KAFKALOG_SLOW=1")
def test_driver_and_executors(spark: SparkSession, tmp_path: Path) -> None:
    before = digests(DATA)
    kafkalog.spark.rewrite(spark, DATA, tmp_path / "whole", **OPTIONS)
    whole, killed = contents(tmp_path / "whole"), 0
    for n in range(6):
        out, parts = tmp_path / f"out-{n}", tmp_path / f"out-{n}.parts"
        command = [sys.executable, "-c", _DRIVER, str(DATA), str(out)]
        driver = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        while driver.poll() is None and not parts.exists():
            time.sleep(0.01)
        time.sleep(n * 0.4)
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        killed += driver.wait() != 0
        assert digests(DATA) == before
        if not out.exists():
            kafkalog.spark.rewrite(spark, DATA, out, **OPTIONS)
        assert contents(out) == whole
    assert killed
