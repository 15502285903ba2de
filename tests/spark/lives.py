"""Drivers that are killed and restarted, while the logs grow, roll, lose segments and get partitions and topics.

``surviving.py`` is what they run. ``KAFKALOG_KILLS`` and ``KAFKALOG_SEED`` say how many are killed, and where.
"""

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

import kafkalog
import tiers

SCRIPT = Path(__file__).resolve().parent / "surviving.py"
KILLS = int(os.environ.get("KAFKALOG_KILLS", str(tiers.pick(1, 2, 12))))
SEED = int(os.environ.get("KAFKALOG_SEED", "1"))
# Steps of a commit into a log, and whether the job is noted when the driver dies there.
STEPS = {
    "begin:before": False,
    "begin:after": True,
    "get:after": None,
    "_append:before": True,
    "_append:after": True,
    "close:after": True,
    "commit:before": True,
    "_finish:before": True,
    "_finish:after": False,
}
# The queries need not read more than this many records at the end, however slow they are.
MOST_UNREAD = 300
# A life takes ten seconds on a quiet machine and a minute on a busy one.
LIFE_SECONDS = 240
# Rare failures of Spark's own: it gives a Python process ten seconds to start, which is not enough on a busy machine,
# and serializes a plan that another query changes meanwhile ("Illegal size 5 of collection, expected 6").
SPARK_FAILURES = ("failed to connect back", "Task not serializable")
# Segments of about ten batches each.
CONFIG = kafkalog.LogConfig(segment_bytes=2000)


class Logs:
    """Model of a broker's work on its logs: appends to partitions in turn, new partitions, retention."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)  # noqa: S311
        self.written: list[str] = []
        self.places = [("a", 0)]

    def step(self) -> None:
        """Append to a partition."""
        if len(self.written) > 100 * len(self.places):
            self.places.append([("a", 1), ("b", 0), ("b", 1), ("c", 0)][len(self.places) % 4])
        topic, partition = self.random.choice(self.places)
        first = len(self.written)
        values = [f"{n}" for n in range(first, first + self.random.randint(1, 15))]
        with kafkalog.LogWriter(self.folder / "logs", topic, partition, config=CONFIG) as writer:
            writer.append([kafkalog.Record(value=value.encode()) for value in values])
        self.written += values

    def unread(self) -> int:
        """Count the records that the slowest query has yet to read."""
        ends = [self._committed(folder) for folder in (self.folder / "checkpoints").glob("*")]
        read = [sum(offset for topic in end.values() for offset in topic.values()) for end in ends]
        return len(self.written) - min(read, default=0)

    def retain(self) -> None:
        """Delete the closed segments that all queries have read and committed."""
        ends = [self._committed(folder) for folder in (self.folder / "checkpoints").glob("*")]
        for topic, partition in self.places:
            read = min((end.get(topic, {}).get(str(partition), 0) for end in ends), default=0)
            files = sorted((self.folder / "logs" / f"{topic}-{partition}").glob("*.log"))
            for file, following in pairwise(files):
                if int(following.stem) <= read:
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


class Drivers:
    """Starts drivers, and kills them."""

    def __init__(self, folder: Path, logs: Logs) -> None:
        self.folder, self.logs = folder, logs
        self.lives = 0
        # What another writer has appended to the log that the sink appends to.
        self.others: list[int] = []

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        self.lives += 1
        with self._errors().open("wb") as errors:
            command = [sys.executable, "-W", "ignore", str(SCRIPT), args[0], str(self.folder), *args[1:]]
            return subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)

    def _errors(self) -> Path:
        return self.folder / f"errors-{self.lives}.txt"

    def said(self) -> str:
        """Return what the driver printed at last, without the frames of Java's stacks."""
        lines = self._errors().read_text().splitlines(keepends=True)
        return "".join(line for line in lines if not line.lstrip().startswith("at "))[-6000:]

    def is_failure_of_spark(self) -> bool:
        """Tell whether the driver ended for a reason that is none of ours."""
        said = self.said()
        return any(words in said for words in SPARK_FAILURES)

    def _commits(self) -> set[Path]:
        return {*self.folder.glob("checkpoints/*/commits/[0-9]*")}

    def live(self, step: str) -> bool:
        """Let a driver live until it dies at a step or, without one, a moment after its first commit.

        Returns whether it died so, and not of a failure of Spark's own.
        """
        before, running = self._commits(), self.start("run", *([step] if step else []))
        dies, deadline = float("inf"), time.monotonic() + LIFE_SECONDS
        try:
            while time.monotonic() < dies and running.poll() is None:
                if self.logs.unread() < MOST_UNREAD:
                    self.logs.step()
                self.logs.retain()
                time.sleep(0.1)
                assert time.monotonic() < deadline, self.said()
                if not step and dies == float("inf") and self._commits() - before:
                    dies = time.monotonic() + self.logs.random.uniform(0.1, 2)
        finally:
            # the JVM is in the same process group; its workers notice that it is gone
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        if running.returncode == -signal.SIGKILL:
            return True
        assert self.is_failure_of_spark(), self.said()
        return False

    def finish(self) -> None:
        """Let a driver read everything that is left."""
        for _ in range(5):
            running = self.start("finish")
            try:
                if running.wait(LIFE_SECONDS) == 0:
                    return
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGKILL)
            assert self.is_failure_of_spark(), self.said()
        raise AssertionError(self.said())

    def _try_append(self, partition: int, number: int) -> bool:
        try:
            with kafkalog.LogWriter(self.folder / "log", "copy", partition) as writer:
                writer.append([kafkalog.Record(value=str(number).encode())])
        except kafkalog.LogLockedError:
            return False
        return True

    def append_beside(self) -> None:
        """Append to a partition of the sink, which settles the job of the driver that died."""
        folders = sorted((self.folder / "log").glob("copy-*"))
        if not folders:
            return
        number, deadline = -1 - len(self.others), time.monotonic() + 60
        while not self._try_append(-number % len(folders), number):
            # A process of the dead driver may not have noticed yet.
            assert time.monotonic() < deadline
            time.sleep(0.1)
        self.others.append(number)
        assert not (self.folder / "log" / ".kafkalog-job").exists()


def has_stream_sink() -> bool:
    """Tell whether this Spark writes streams with Arrow (4.1)."""
    from pyspark.sql import datasource

    return hasattr(datasource, "DataSourceStreamArrowWriter")


def killed_often(folder: Path) -> None:
    """Kill drivers at steps of the sink and at any moment by turns, let one finish, and check what all sinks hold."""
    print("seed", SEED)
    logs = Logs(folder, SEED)
    for _ in range(15):
        logs.step()
    drivers = Drivers(folder, logs)
    steps = logs.random.sample(list(STEPS), len(STEPS)) if has_stream_sink() else [""]
    for number in range(KILLS):
        step = steps[number // 2 % len(steps)] if number % 2 == 0 else ""
        assert any(drivers.live(step) for _ in range(5)), drivers.said()
        if step and STEPS[step] is not None:
            assert (folder / "log" / ".kafkalog-job").exists() is STEPS[step], step
        drivers.append_beside()
    drivers.finish()
    wanted = list(range(len(logs.written)))
    found = kept(folder)
    assert {*found} == {"each", "parquet", *(["log"] if has_stream_sink() else [])}
    for name, values in found.items():
        assert values == sorted([*wanted, *(drivers.others if name == "log" else [])]), name
    assert not list(folder.glob("log/.kafkalog-rows.*.arrows"))
