"""Reading while a real broker writes, rolls, compacts and deletes underneath.

The reader is a process of its own, so that a crash of it is seen; the broker is never asked to hold still.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from interop.broker import Broker, held_ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.full]

READER = Path(__file__).resolve().parent / "reader.py"

# Every kind of name that a broker uses in its log dirs.
BROKERS_OWN = re.compile(
    r"data-[01]|.+-\d+(\.[0-9a-f]{32}-(delete|future|stray))?"
    r"|\d{20}\.(log|index|timeindex|txnindex|snapshot)(\.(deleted|cleaned|swap))?|\d{20}-\d{10}\.checkpoint(\.deleted|\.part)?"
    r"|(leader-epoch-checkpoint|partition\.metadata|[a-z-]+-offset-checkpoint|meta\.properties)(\.tmp)?"
    r"|bootstrap\.checkpoint|quorum-state(\.tmp)?|\.lock|\.kafka_cleanshutdown(\.tmp)?"
)


CUT_SCRIPT = """
import os, sys, kafkalog
folder, layout, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
reader = iter(kafkalog.scan(folder, layout=layout, batch_rows=20))
log = kafkalog.PartitionLog(folder)
kept = [next(reader), next(reader)]
assert sum(name.endswith('.log') for name in os.listdir(folder)) == 1
for name in os.listdir(folder):
    file = os.path.join(folder, name)
    if name.endswith(('.log', 'index')):
        os.truncate(file, min(left, os.path.getsize(file)))
try:
    kept += list(reader)
    log.lookup(5), log.offset_for_timestamp(1700000000100)
except (kafkalog.KafkaLogError, OSError) as error:
    print('error', error)
print('rows', sum(len(b.to_pylist()) for b in kept))
"""


class Reader:
    """The reading process, whose output is collected while it runs."""

    def __init__(self, broker: Broker, topic: str, kind: str) -> None:
        self.errors = broker.work / f"reader-{topic}.log"
        self.rounds: list[dict[str, Any]] = []
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(READER), *map(str, broker.log_dirs), "--", topic, kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.collector = threading.Thread(target=self._collect, daemon=True)
        self.collector.start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        self.rounds.extend(json.loads(line) for line in self.process.stdout)

    def until(self, seen: Callable[[list[dict[str, Any]]], bool], least: int = 6, seconds: float = 120) -> None:
        """Wait until it has made some rounds and seen what is requested, or has ended."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and not (len(self.rounds) >= least and seen(list(self.rounds))):
            assert time.monotonic() < deadline, f"not seen in {seconds} s; the last rounds: {self.rounds[-3:]}"
            time.sleep(0.1)

    def finish(self) -> list[dict[str, Any]]:
        """End it and return what it saw; fail on a signal (SIGBUS is -7) or an exception."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.close()
        try:
            code = self.process.wait(60)
        finally:
            self.process.kill()
        self.collector.join(20)
        if self.process.stdout is not None:
            self.process.stdout.close()
        assert code == 0, f"exit {code}\n{self.errors.read_text()[-5000:]}"
        assert all(r["held"] == [] for r in self.rounds)
        return self.rounds


def foreign(home: Path) -> list[str]:
    """Names in the log dirs that no broker uses."""
    return [str(p) for d in ("data-0", "data-1") for p in (home / d).rglob("*") if not BROKERS_OWN.fullmatch(p.name)]


def firsts(rounds: list[dict[str, Any]]) -> list[int]:
    return [int(r["first"].get("0", 0)) for r in rounds if "first" in r]


def ends(rounds: list[dict[str, Any]]) -> list[int]:
    return [int(r["last"].get("0", -1)) for r in rounds if "last" in r]


def test_rolling_and_retention(broker: Broker) -> None:
    """Segments roll and are deleted at the front while they are read."""
    broker.create("t", 2, segment_bytes=15_000, index_interval_bytes=500, retention_bytes=90_000)
    broker.driver.ask("start", topics=["t"], partitions=2, seed=7)
    reader = Reader(broker, "t", "complete")
    reader.until(lambda rounds: len(set(firsts(rounds))) > 3 and len(set(ends(rounds))) > 3)
    broker.driver.ask("stop")
    rounds = reader.finish()
    assert sum(r.get("asked", 0) for r in rounds) > 0
    assert foreign(broker.home) == []
    broker.stop()
    table = kafkalog.read_table(broker.log_dirs, topics="t", partitions=[0], include_control=True)
    assert table["offset"][-1].as_py() >= ends(rounds)[-1]


def test_compaction(broker: Broker) -> None:
    """The cleaner swaps segments for shorter ones, merged from several, while they are read."""
    broker.create(
        "c",
        2,
        segment_bytes=15_000,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=86_400_000,
    )
    broker.driver.ask("start", topics=["c"], partitions=2, seed=7, transactions=False)
    reader = Reader(broker, "c", "compacted")
    reader.until(lambda rounds: rounds[-1]["rows"] * 3 < ends(rounds)[-1], least=25)
    broker.driver.ask("stop")
    rounds = reader.finish()
    assert len(set(ends(rounds))) > 3
    assert foreign(broker.home) == []


def test_topic_deleted_underneath(broker: Broker) -> None:
    """The folders are renamed and removed while they are read; after that the topic is missing."""
    broker.create("gone", 2, segment_bytes=30_000)
    broker.create("other", 1)
    broker.driver.ask("start", topics=["gone", "other"], partitions=1, seed=7)
    reader = Reader(broker, "gone", "complete")
    reader.until(lambda rounds: len(set(ends(rounds))) > 2)
    broker.driver.ask("delete", topic="gone")
    reader.until(lambda rounds: "gone" in rounds[-1])
    broker.driver.ask("stop")
    rounds = reader.finish()
    assert "gone" in rounds[-1], rounds[-3:]
    assert foreign(broker.home) == []


def test_killed_while_read(broker: Broker) -> None:
    """A broker that is killed and recovers while a reader reads."""
    broker.create("k", 2, segment_bytes=30_000)
    broker.driver.ask("start", topics=["k"], partitions=2, seed=3)
    reader = Reader(broker, "k", "complete")
    reader.until(lambda rounds: len(set(ends(rounds))) > 2)
    broker.kill()
    so_far = len(reader.rounds)
    reader.until(lambda rounds: len(rounds) > so_far + 1)
    broker.start()
    so_far = len(reader.rounds)
    reader.until(lambda rounds: len(rounds) > so_far + 1)
    reader.finish()
    assert foreign(broker.home) == []


def test_broker_starts_on_a_directory_that_is_being_read(broker: Broker) -> None:
    """No lock of ours keeps a broker out, and an open reader keeps its records."""
    broker.create("s", 1, segment_bytes=20_000)
    broker.driver.ask("write", topic="s", partitions=1, seed=5, batches=50, keyed=False)
    folder = broker.folder("s")
    reader = kafkalog.scan(folder, columns=["offset", "value"], layout="view", batch_rows=50)
    first = next(iter(reader))
    broker.stop()
    before = first["value"].to_pylist()
    broker.start()
    broker.driver.ask("write", topic="s", partitions=1, seed=6, batches=20, keyed=False)
    assert first["value"].to_pylist() == before
    assert sum(b.num_rows for b in reader) > 0


@pytest.fixture(scope="module")
def one_segment(witness: Witness, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partition in one segment, after its broker has ended."""
    home = tmp_path_factory.mktemp("cut")
    with Broker(witness, home / "fresh") as broker:
        broker.create("cut", 1, segment_ms=3_153_600_000_000)  # markers are years later than the data
        broker.driver.ask("write", topic="cut", partitions=1, seed=8, batches=200, keyed=False)
        broker.stop()
        return broker.folder("cut")


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("left", [0, 1, 4000])
def test_active_segment_truncated_under_a_reader(one_segment: Path, tmp_path: Path, layout: str, left: int) -> None:
    """The active file shrinks, as when a broker truncates it: never a SIGBUS, whatever the answer."""
    folder = tmp_path / "cut-0"
    shutil.copytree(one_segment, folder)
    done = subprocess.run(
        [sys.executable, "-c", CUT_SCRIPT, str(folder), layout, str(left)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    assert "rows" in done.stdout


def test_ports_are_kept() -> None:
    """A port that the harness holds is given to nobody, and only a server that asks to reuse it may listen on it."""
    with held_ports(20) as ports, held_ports(20) as others:
        assert len({*ports, *others}) == 40
        for reuse in (0, 1):
            with socket.socket() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
                with contextlib.nullcontext() if reuse else pytest.raises(OSError, match="in use"):
                    server.bind(("127.0.0.1", ports[0]))
                    server.listen()
