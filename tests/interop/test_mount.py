"""A real broker mounts what was written here: clients read it, a producer appends, and Kafka's tool finds no error."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
from interop.mount import STAMP, Row, Served, consumed, faults, insert, rows_of, serves
from kafkalog import LogConfig, LogWriter, Record

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Broker, Witness

pytestmark = pytest.mark.interop

ORDERS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
TXN = corpus.GOLDEN / "txn" / "data-0" / "txn-aborts-0"
CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
SMALL: dict[str, Any] = {"segment_bytes": 20_000, "index_interval_bytes": 500}
NEW_EPOCH = "New epoch entry"


def row(offset: int) -> Row:
    """A record of every shape, by its offset."""
    key = (None, b"", b"key-%d" % offset, b"\xff\x00")[offset % 4]
    value = (b"value %d " % offset * (offset % 7), None, b"")[min(offset % 11, 2)]
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if offset % 3 == 0:
        headers = (("h", b"%d" % offset), ("\u00e9", None), ("h", b""))[: offset % 4]
    return Row(offset, STAMP + offset * 7 - offset % 5 * 20, key, value, headers)


def arrow(rows: list[Row]) -> pa.Table:
    headers = [[{"key": key, "value": value} for key, value in each.headers] or None for each in rows]
    return pa.table(
        {
            "key": pa.array([each.key for each in rows], pa.binary()),
            "value": pa.array([each.value for each in rows], pa.binary()),
            "timestamp": pa.array([each.timestamp for each in rows], pa.timestamp("ms", "UTC")),
            "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )


def prepared(broker: Broker, *topics: str, **config: Any) -> dict[str, str]:
    """Create topics and return their ids."""
    for topic in topics:
        broker.create(topic, **{**SMALL, **config})
    for topic in topics:
        broker.folder(topic)  # it appears a moment later
    return {topic: broker.driver.ask("topic-id", topic=topic) for topic in topics}


def no_faults(broker: Broker, witness: Witness, scratch: Path, *topics: str) -> None:
    assert faults(witness, [broker.folder(topic) for topic in topics], scratch / "dumped") == []


@pytest.mark.full
def test_the_harness_mounts_what_a_broker_wrote(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """A golden folder, so that a failure below is a fault of the writer."""
    broker.create("mounted", segment_bytes=1_048_576)
    broker.stop()
    insert(broker, ORDERS, "mounted")
    broker.start()
    log = kafkalog.PartitionLog(ORDERS)
    # The leader epochs of the copy are later than those of the new topic, which starts at 0.
    served = Served(rows_of(log.scan().read_all()), log.log_end_offset, aside=(NEW_EPOCH,))
    serves(broker, {"mounted": served})
    broker.stop()
    no_faults(broker, witness, tmp_path, "mounted")


@pytest.mark.full
def test_the_harness_sees_damage(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """The tool reports a wrong index."""
    broker.create("hurt", segment_bytes=1_048_576, index_interval_bytes=100)
    broker.driver.ask("write", topic="hurt", partitions=1, seed=1, batches=60, keyed=True)
    assert len(consumed(broker, "hurt")) > 0
    broker.stop()
    folder = broker.folder("hurt")
    assert faults(witness, [folder], tmp_path / "whole") == []
    index = max(folder.glob("*.index"), key=lambda path: path.stat().st_size)
    data = bytearray(index.read_bytes())
    data[11] ^= 1
    index.write_bytes(data)
    assert faults(witness, [folder], tmp_path / "damaged") != []


def test_arrow_with_every_codec(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """Written into the log dirs of a stopped broker in two runs, then read, appended to and restarted."""
    topics = [f"codec-{codec}" for codec in CODECS]
    ids = prepared(broker, *topics)
    broker.stop()
    rows = [row(offset) for offset in range(3000)]
    for codec, topic in zip(CODECS, topics, strict=True):
        config = LogConfig(**SMALL, compression_type=codec)
        for part in (rows[:1000], rows[1000:]):
            with LogWriter(broker.log_dirs, topic, config=config, topic_id=ids[topic], batch_bytes=2000) as log:
                log.append(arrow(part))
        assert len(kafkalog.PartitionLog(broker.folder(topic)).segments) >= 2
    no_faults(broker, witness, tmp_path, *topics)
    broker.start()
    serves(broker, {topic: Served(rows, 3000) for topic in topics})
    broker.stop()
    no_faults(broker, witness, tmp_path, *topics)


@pytest.mark.full
def test_a_copied_folder_and_its_kin(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """Written elsewhere and moved to the broker: leader and follower mode, LogAppendTime, a file, another log."""
    topics = ["arrow", "stamped", "imported", "rebuilt", "shifted", "txn"]
    ids = prepared(broker, *topics, "golden", segment_bytes=1_048_576)
    broker.driver.ask("alter", topic="stamped", config={"message.timestamp.type": "LogAppendTime"})
    broker.stop()
    rows = [row(offset) for offset in range(500)]
    with LogWriter(tmp_path / "a", "arrow", topic_id=ids["arrow"], config=LogConfig(**SMALL)) as log:
        log.append(arrow(rows))
    with LogWriter(
        tmp_path / "a", "stamped", config=LogConfig(message_timestamp_type="LogAppendTime"), clock=lambda: STAMP
    ) as log:
        log.append(arrow(rows))
    pq.write_table(arrow(rows), tmp_path / "imported-0.parquet")
    command = [sys.executable, "-m", "kafkalog", "import", str(tmp_path / "imported-0.parquet"), str(tmp_path / "a")]
    subprocess.run([*command, "--config", "compression.type=lz4"], check=True, timeout=60)
    with LogWriter(tmp_path / "a", "rebuilt", config=LogConfig(**SMALL)) as log:
        log.append_batches(ORDERS)
    with LogWriter(tmp_path / "a", "shifted", config=LogConfig(**SMALL)) as log:
        log.truncate_fully(1_000_000)
        log.append([Record(each.value, each.key, each.timestamp, each.headers) for each in rows])
    with LogWriter(tmp_path / "a", "txn") as log:
        log.append_batches(TXN)
    stamped = [Row(r.offset, STAMP, r.key, r.value, r.headers, "LogAppendTime") for r in rows]
    shifted = [Row(r.offset + 1_000_000, r.timestamp, r.key, r.value, r.headers) for r in rows]
    served = {
        "arrow": Served(rows, 500),
        "stamped": Served(stamped, 500),
        "imported": Served(rows, 500),
        "rebuilt": Served(rows_of(kafkalog.read_table(ORDERS)), 880, aside=(NEW_EPOCH,)),
        "shifted": Served(shifted, 1_000_500),
    }
    for topic in topics:
        insert(broker, tmp_path / "a" / f"{topic}-0", topic)
    insert(broker, TXN, "golden")
    no_faults(broker, witness, tmp_path, *topics)
    broker.start()
    committed = consumed(broker, "golden", isolation="read_committed")
    assert 0 < len(committed) < len(consumed(broker, "txn"))
    end = kafkalog.PartitionLog(TXN).log_end_offset
    served["txn"] = Served(committed, end, isolation="read_committed", aside=(NEW_EPOCH,))
    serves(broker, served)
    broker.stop()
    no_faults(broker, witness, tmp_path, *topics)


KILLED = """
import sys
import kafkalog
from kafkalog import LogConfig, Record
config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
writer = kafkalog.LogWriter(sys.argv[1].split(","), sys.argv[2], config=config, batch_bytes=600)
offset = 0
while True:
    records = [Record(b"v%d" % n * 9, b"k%d" % n, 1_700_000_000_000 + n) for n in range(offset, offset + 40)]
    offset = writer.append(records).last_offset + 1
    print(offset, flush=True)
"""


@pytest.mark.full
def test_after_a_kill(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """The writer dies by SIGKILL in the broker's own log dir; recovered here, or by the broker itself."""
    topics = ["ours", "theirs"]
    prepared(broker, *topics)
    broker.stop()
    served = {}
    for topic in topics:
        dirs = ",".join(map(str, broker.log_dirs))
        command = [sys.executable, "-c", KILLED, dirs, topic]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged = 0
            while acknowledged < 4000:
                acknowledged = int(process.stdout.readline())
            time.sleep(0.003)
            process.kill()
        folder = broker.folder(topic)
        if topic == "ours":
            # A batch that is torn in the middle, too.
            active = max(folder.glob("*.log"))
            with active.open("ab") as file:
                file.write(active.read_bytes()[:100])
            kafkalog.recover(folder)
            no_faults(broker, witness, tmp_path, topic)
        rows = rows_of(kafkalog.read_table(folder))
        assert len(rows) >= acknowledged
        assert rows == [Row(n, STAMP + n, b"k%d" % n, b"v%d" % n * 9) for n in range(len(rows))]
        served[topic] = Served(rows, len(rows))
    broker.start()
    serves(broker, served)
    broker.stop()
    no_faults(broker, witness, tmp_path, *topics)


@pytest.mark.full
def test_a_segment_missing_in_the_middle_is_passed_over(broker: Broker) -> None:
    """A broker accepts it silently, and so do we."""
    ids = prepared(broker, "gap")
    broker.stop()
    rows = [row(offset) for offset in range(3000)]
    with LogWriter(broker.log_dirs, "gap", config=LogConfig(**SMALL), topic_id=ids["gap"], batch_bytes=2000) as log:
        log.append(arrow(rows))
    folder = broker.folder("gap")
    _, second, third, *_ = kafkalog.PartitionLog(folder).segments
    for file in folder.glob(f"{second.base_offset:020}.*"):
        file.unlink()
    left = [each for each in rows if not second.base_offset <= each.offset < third.base_offset]
    assert len(left) < len(rows)
    assert rows_of(kafkalog.read_table(folder)) == left
    inside = kafkalog.PartitionLog(folder).scan(min_offset=second.base_offset + 1, max_offset=third.base_offset)
    assert [each.offset for each in rows_of(inside.read_all())] == [third.base_offset]
    broker.start()
    serves(broker, {"gap": Served(left, 3000)})


@pytest.mark.full
def test_a_log_dir_made_here(broker: Broker, witness: Witness, tmp_path: Path) -> None:
    """One log dir of the broker is lost, and we re-create it with its identity and a partition."""
    ids = prepared(broker, "moved", "other")
    broker.stop()
    # They are in both log dirs; the one with the metadata log must not be lost.
    topic = next(name for name in ids if not (broker.folder(name).parent / "__cluster_metadata-0").is_dir())
    lost = broker.folder(topic).parent
    meta = kafkalog.LogDir(lost).meta
    assert meta is not None
    lost.rename(tmp_path / "lost")
    rows = [row(offset) for offset in range(500)]
    with LogWriter(
        lost,
        topic,
        config=LogConfig(**SMALL),
        topic_id=ids[topic],
        cluster_id=meta["cluster.id"],
        node_id=int(meta["node.id"]),
        directory_id=meta["directory.id"],
    ) as log:
        log.append(arrow(rows))
    broker.start()
    serves(broker, {topic: Served(rows, 500)})
    broker.stop()
    no_faults(broker, witness, tmp_path, topic)


@pytest.mark.full
def test_a_broker_is_locked_out_and_locks_out(broker: Broker) -> None:
    """Kafka respects our lock of a log dir, and we respect its lock."""
    prepared(broker, "held")
    with pytest.raises(kafkalog.LogLockedError):
        LogWriter(broker.log_dirs, "held")
    broker.stop()
    with LogWriter(broker.log_dirs, "held") as log:
        log.append([Record(b"x")])
        with pytest.raises(AssertionError, match="the broker ended"):
            broker.start()
        assert "lock" in broker.output.lower()
    broker.start()
    assert [each.value for each in consumed(broker, "held")] == [b"x"]
