"""Drivers killed at any moment, while the logs grow, roll, lose segments and get partitions and topics."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

import kafkalog
from spark.ways import needs_data_sources

SCRIPT = Path(__file__).resolve().parent / "surviving.py"
KILLS = int(os.environ.get("KAFKALOG_KILLS", "2"))
# Segments of about ten batches each.
CONFIG = kafkalog.LogConfig(segment_bytes=2000)


class Logs:
    """What a broker does to its logs: appends to partitions in turn, new partitions, retention."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)  # noqa: S311
        self.written: list[str] = []
        self.places = [("a", 0)]

    def step(self) -> None:
        """Append to a partition."""
        if len(self.written) > 150 * len(self.places):
            self.places.append([("a", 1), ("b", 0), ("b", 1), ("c", 0)][len(self.places) % 4])
        topic, partition = self.random.choice(self.places)
        first = len(self.written)
        values = [f"{n}" for n in range(first, first + self.random.randint(1, 15))]
        with kafkalog.LogWriter(self.folder / "logs", topic, partition, config=CONFIG) as writer:
            writer.append([kafkalog.Record(value=value.encode()) for value in values])
        self.written += values

    def retain(self) -> None:
        """Delete the closed segments that all queries have read and committed."""
        ends = [self._committed(folder) for folder in (self.folder / "checkpoints").glob("*")]
        for topic, partition in self.places:
            read = min((end.get(topic, {}).get(str(partition), 0) for end in ends), default=0)
            files = sorted((self.folder / "logs" / f"{topic}-{partition}").glob("*.log"))
            for file, behind in pairwise(files):
                if int(behind.stem) <= read:
                    for each in file.parent.glob(f"{file.stem}.*"):
                        each.unlink()

    @staticmethod
    def _committed(checkpoint: Path) -> dict[str, dict[str, int]]:
        done = [int(file.name) for file in checkpoint.glob("commits/[0-9]*")]
        if not done:
            return {}
        found: dict[str, dict[str, int]] = json.loads(
            (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1]
        )
        return found


def kept(folder: Path) -> dict[str, list[int]]:
    """The rows in each sink."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    each = [value for file in (folder / "each").glob("*.json") for value in json.loads(file.read_text())]
    # only files in the sink's own log count
    names = {
        json.loads(line)["path"].rpartition("/")[2]
        for file in (folder / "parquet" / "_spark_metadata").glob("[0-9]*")
        for line in file.read_text().splitlines()[1:]
    }
    tables = [pq.read_table(folder / "parquet" / name) for name in names]
    found = {"each": each, "parquet": pa.concat_tables(tables)["value"].to_pylist()}
    if (folder / "log").exists():
        found["log"] = kafkalog.read_table(folder / "log")["value"].to_pylist()
    return {name: sorted(map(int, values)) for name, values in found.items()}


@pytest.mark.spark
@needs_data_sources
def test_every_record_is_read_and_written_once_however_often_the_driver_dies(tmp_path: Path) -> None:
    seed = int(os.environ.get("KAFKALOG_SEED", time.time_ns() % 1_000_000))
    print("seed", seed)
    logs = Logs(tmp_path, seed)
    logs.step()

    def driver(what: str) -> subprocess.Popen[bytes]:
        with (tmp_path / "errors.txt").open("ab") as errors:
            command = [sys.executable, "-W", "ignore", str(SCRIPT), what, str(tmp_path)]
            return subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)

    for _ in range(KILLS):
        before = {*tmp_path.glob("checkpoints/*/commits/[0-9]*")}
        running = driver("run")
        dies, deadline = float("inf"), time.monotonic() + 120
        while time.monotonic() < dies:
            logs.step()
            logs.retain()
            time.sleep(0.1)
            assert running.poll() is None, (tmp_path / "errors.txt").read_text()
            assert time.monotonic() < deadline, (tmp_path / "errors.txt").read_text()
            if dies == float("inf") and {*tmp_path.glob("checkpoints/*/commits/[0-9]*")} - before:
                dies = time.monotonic() + logs.random.uniform(0.1, 4)
        # the JVM is in the same process group; its workers notice that it is gone
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert driver("finish").wait() == 0, (tmp_path / "errors.txt").read_text()
    wanted = list(range(len(logs.written)))
    assert kept(tmp_path) == dict.fromkeys(kept(tmp_path), wanted)
    assert not list(tmp_path.glob("log/.kafkalog-rows.*"))
