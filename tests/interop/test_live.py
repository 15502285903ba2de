"""Reading while a real broker writes, rolls, compacts and deletes underneath.

The reader is a process of its own, so that a crash of it is seen; the broker is never asked to hold still.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from interop.broker import free_ports

if TYPE_CHECKING:
    from interop.broker import Broker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

READER = Path(__file__).resolve().parent / "reader.py"

# Every name that a broker gives to what lies in its log dirs.
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
    """The reading process."""

    def __init__(self, broker: Broker, topic: str, kind: str) -> None:
        self.errors = (broker.work / f"reader-{topic}.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(READER), *map(str, broker.log_dirs), "--", topic, kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def finish(self) -> list[dict[str, Any]]:
        """Let it end and give what it saw; a signal (SIGBUS is -7) or an exception fails here."""
        output, _ = self.process.communicate("\n", timeout=60)
        self.errors.seek(0)
        said = self.errors.read()
        self.errors.close()
        assert self.process.returncode == 0, f"exit {self.process.returncode}\n{said[-5000:]}"
        return [json.loads(line) for line in output.splitlines()]


def foreign(home: Path) -> list[str]:
    """Names below the log dirs that no broker gives."""
    return [str(p) for d in ("data-0", "data-1") for p in (home / d).rglob("*") if not BROKERS_OWN.fullmatch(p.name)]


def watch(broker: Broker, topic: str, kind: str, seconds: float, during: Any = None) -> list[dict[str, Any]]:
    """Read ``topic`` for some seconds while the client writes."""
    broker.driver.ask("start", topics=[topic], partitions=2, seed=7)
    reader = Reader(broker, topic, kind)
    time.sleep(seconds)
    if during is not None:
        during()
        time.sleep(2)
    broker.driver.ask("stop")
    rounds = reader.finish()
    assert len(rounds) >= 4, rounds
    assert all(r["held"] == [] for r in rounds)
    assert foreign(broker.home) == []
    return rounds


def test_rolling_and_retention(broker: Broker) -> None:
    """Segments roll and are deleted at the front while they are read."""
    broker.create("t", 2, segment_bytes=15_000, index_interval_bytes=500, retention_bytes=90_000)
    rounds = watch(broker, "t", "complete", 15)
    firsts = [int(r["first"].get("0", 0)) for r in rounds if "first" in r]
    ends = [int(r["last"].get("0", -1)) for r in rounds if "last" in r]
    assert ends[-1] > ends[0] > -1, "nothing was written meanwhile"
    assert firsts[-1] > 0, "nothing was deleted meanwhile"
    assert sum(r.get("asked", 0) for r in rounds) > 0
    broker.stop()
    table = kafkalog.read_table([str(d) for d in broker.log_dirs], topics="t", partitions=[0], include_control=True)
    assert table["offset"][-1].as_py() >= ends[-1]


def test_compaction(broker: Broker) -> None:
    """The cleaner swaps segments for shorter ones while they are read."""
    broker.create(
        "c", 2, segment_bytes=15_000, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, delete_retention_ms=100
    )
    rounds = watch(broker, "c", "compacted", 20)
    rows = [int(r["rows"]) for r in rounds]
    ends = [int(r["last"].get("0", -1)) for r in rounds]
    assert ends[-1] > ends[0]
    assert rows[-1] < ends[-1], "nothing was compacted meanwhile"


def test_topic_deleted_underneath(broker: Broker) -> None:
    """The folders are renamed and removed while they are read; after that the topic is missing."""
    broker.create("gone", 2, segment_bytes=30_000)
    broker.create("other", 1)
    rounds = watch(broker, "gone", "complete", 6, lambda: broker.driver.ask("delete", topic="gone"))
    assert "gone" in rounds[-1], rounds[-3:]


def test_killed_while_read(broker: Broker) -> None:
    """A broker that dies and comes back, recovering, under a reader."""
    broker.create("k", 2, segment_bytes=30_000)
    broker.driver.ask("start", topics=["k"], partitions=2, seed=3)
    reader = Reader(broker, "k", "complete")
    time.sleep(4)
    broker.kill()
    time.sleep(1)
    broker.start()
    time.sleep(2)
    rounds = reader.finish()
    assert len(rounds) >= 4
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


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("left", [0, 1, 4000])
def test_active_segment_truncated_under_a_reader(broker: Broker, tmp_path: Path, layout: str, left: int) -> None:
    """What a broker does when it truncates: the active file shrinks. Never a SIGBUS, whatever the answer."""
    broker.create("cut", 1, segment_ms=3_153_600_000_000)  # markers lie years behind the data
    broker.driver.ask("write", topic="cut", partitions=1, seed=8, batches=200, keyed=False)
    broker.stop()
    folder = tmp_path / "cut-0"
    shutil.copytree(broker.folder("cut"), folder)
    done = subprocess.run(
        [sys.executable, "-c", CUT_SCRIPT, str(folder), layout, str(left)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    assert "rows" in done.stdout


def test_ports_are_free() -> None:
    """The harness does not hand out one port twice."""
    ports = free_ports(20)
    assert len(set(ports)) == 20
