"""``LogWriter``: how records are laid out in the log and in the log dir, and whole batches of another log."""

from __future__ import annotations

import base64
import hashlib
import pickle
import random
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
import naive
from kafkalog import AppendInfo, LogConfig, LogWriter, Record
from writing import NOW, both, clock, writer

# How it is laid out


def test_batches_are_cut_by_bytes(tmp_path: Path) -> None:
    with writer(tmp_path, batch_bytes=1000) as log:
        info = log.append(pa.table({"value": [b"v" * 90] * 200}))
    found = naive.batches(tmp_path / "orders-0")
    assert info.batches == len(found)
    assert all(batch.size <= 1000 for batch in found)
    assert max(batch.size for batch in found) > 900
    assert len(both(tmp_path / "orders-0")) == 200


def test_segments_roll_by_size_and_snapshots_follow(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=4000, index_interval_bytes=500)
    with writer(tmp_path, config=config, batch_bytes=400) as log:
        info = log.append([Record(b"v" * 90, b"%d" % n, NOW + n) for n in range(300)])
        assert info.rolled == len(naive.segments(tmp_path / "orders-0")) - 1 > 5
        active = max((tmp_path / "orders-0").glob("*.index"))
        assert active.stat().st_size == 10_485_760
    folder = tmp_path / "orders-0"
    assert all(log.stat().st_size <= 4000 for log in naive.segments(folder))
    assert naive.check_indexes(folder) > 40
    assert max((tmp_path / "orders-0").glob("*.index")).stat().st_size < 1000
    # The last two that a broker needs, the one of the log's end among them.
    assert [int(p.stem) for p in sorted(folder.glob("*.snapshot"))][-1] == 300
    assert len(both(folder)) == 300


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(tmp_path: Path, codec: str) -> None:
    data = pa.table({"value": [b"the same words again and again %d" % n for n in range(1000)]})
    with writer(tmp_path, config=LogConfig(compression_type=codec)) as log:
        plain = log.append(data)
    folder = tmp_path / "orders-0"
    named = kafkalog.scan_batches(folder).read_all()["compression"].unique().to_pylist()
    assert named == ["none" if codec == "uncompressed" else codec]
    assert kafkalog.read_table(folder, columns=["value"]).equals(data)
    assert (plain.bytes < 20_000) == (codec != "uncompressed")
    if codec in {"uncompressed", "gzip"}:
        assert len(both(folder)) == 1000


def test_log_append_time(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    with writer(tmp_path, config=config) as log:
        log.append([Record(b"x", timestamp=1), Record(b"y", timestamp=2)])
    assert [row.timestamp for row in both(tmp_path / "orders-0")] == [NOW, NOW]
    assert kafkalog.read_table(tmp_path)["timestampType"].to_pylist() == [1, 1]


def test_roll_flush_truncate(tmp_path: Path) -> None:
    with writer(tmp_path, batch_bytes=1) as log:
        log.append([Record(b"%d" % n) for n in range(10)])
        assert log.recovery_point == 0
        log.flush()
        assert log.recovery_point == 10
        log.roll()
        log.append([Record(b"%d" % n) for n in range(10, 15)])
        assert [int(p.stem) for p in naive.segments(tmp_path / "orders-0")] == [0, 10]
        assert not log.truncate(15)
        assert log.truncate(12)
        assert log.log_end_offset == 12
        assert log.append([Record(b"again")]).first_offset == 12
        assert log.truncate(4)
        assert (log.log_end_offset, log.recovery_point) == (4, 4)
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"0", b"1", b"2", b"3"]
    with writer(tmp_path) as log:
        log.truncate_fully(100)
        assert (log.log_start_offset, log.log_end_offset) == (100, 100)
        log.append([Record(b"x")])
    assert [row.offset for row in both(tmp_path / "orders-0")] == [100]


def test_reopened_it_goes_on(tmp_path: Path) -> None:
    for n in range(5):
        with writer(tmp_path) as log:
            assert log.log_end_offset == n
            log.append([Record(b"%d" % n)])
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"0", b"1", b"2", b"3", b"4"]


def test_keeping_offsets(tmp_path: Path) -> None:
    data = pa.table({"value": [b"a", b"b", b"c"], "offset": [3, 7, 8]})
    with writer(tmp_path) as log:
        info = log.append(data, keep_offsets=True)
        assert (info.first_offset, info.last_offset, log.log_end_offset) == (3, 8, 9)
        log.append([Record(b"d", offset=20)], keep_offsets=True)
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append([Record(b"e", offset=20)], keep_offsets=True)
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append(pa.table({"value": [b"f", b"g"], "offset": [31, 30]}), keep_offsets=True)
        # The batch before the one that does not rise stays.
        assert log.log_end_offset == 32
    assert [(row.offset, row.value) for row in both(tmp_path / "orders-0")] == [
        (3, b"a"),
        (7, b"b"),
        (8, b"c"),
        (20, b"d"),
        (31, b"f"),
    ]


# What Kafka 4.3.1's UnifiedLog.appendAsFollower left of the same records under the same settings.
FOLLOWERS_LOG = "a6d1714741ccd00f4dd4292983c58b7146f692858b42b77d0f9b97098e3c2d6e"
FOLLOWERS_TIME_INDEX = "000001a3185c500000000007"


def test_kept_offsets_are_a_followers(tmp_path: Path) -> None:
    """No clock, no LogAppendTime, no key, no max.message.bytes: a follower asks for nothing of it, but for segments."""
    config = LogConfig(
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms=1000,
        message_timestamp_after_max_ms=1000,
        max_message_bytes=200,
        cleanup_policy="compact",
        segment_bytes=2000,
        segment_index_bytes=1024,
    )
    first = [Record(b"old", None, 5, offset=3), Record(b"young", b"k", 1_800_000_000_000, offset=7)]
    with writer(tmp_path, config=config) as log:
        assert log.append(first, keep_offsets=True).max_timestamp == 1_800_000_000_000
        log.append([Record(b"x" * 500, b"k", -1, offset=9)], keep_offsets=True)
        with pytest.raises(kafkalog.InvalidRecordError, match=r"2071 bytes, above segment\.bytes, 2000"):
            log.append([Record(b"y" * 2000, b"k", NOW, offset=10)], keep_offsets=True)
        # A leader of the same log still asks.
        with pytest.raises(kafkalog.InvalidRecordError, match="batch size: expected at most 200"):
            log.append([Record(b"z" * 200, b"k")])
        with pytest.raises(kafkalog.InvalidRecordError, match="compacted"):
            log.append([Record(b"z")])
    log_file = tmp_path / "orders-0" / f"{0:020}.log"
    assert hashlib.sha256(log_file.read_bytes()).hexdigest() == FOLLOWERS_LOG
    assert log_file.with_suffix(".timeindex").read_bytes().hex() == FOLLOWERS_TIME_INDEX
    assert kafkalog.read_table(tmp_path)["timestampType"].to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_kept_offsets_are_cut_as_a_leader_would(tmp_path: Path, codec: str) -> None:
    """Only a record that is too large by itself goes beyond max.message.bytes."""
    config = LogConfig(max_message_bytes=500, compression_type=codec)
    values = [random.Random(n).randbytes(900 if n == 20 else 100) for n in range(40)]  # noqa: S311
    data = pa.table({"value": values, "offset": range(100, 140)})
    with writer(tmp_path, config=config) as log:
        log.append(data, keep_offsets=True)
    batches = kafkalog.scan_batches(tmp_path).read_all()
    beyond = [(row["baseOffset"], row["count"]) for row in batches.to_pylist() if row["size"] > 500]
    assert beyond == [(120, 1)]
    assert kafkalog.read_table(tmp_path, columns=["value"])["value"].to_pylist() == values


# The log dir


def test_identity_of_the_log_dir(tmp_path: Path) -> None:
    topic_id = base64.urlsafe_b64encode(uuid.UUID(int=7 << 64).bytes).decode().rstrip("=")
    options: dict[str, Any] = {"topic_id": topic_id, "cluster_id": "kafkalogTESTclusterAA", "node_id": 1}
    with writer(tmp_path, **options) as log:
        assert log.topic_id == topic_id
    meta = kafkalog.LogDir(tmp_path).meta
    assert meta is not None
    assert (meta["cluster.id"], meta["node.id"], meta["version"]) == ("kafkalogTESTclusterAA", "1", "1")
    assert len(meta["directory.id"]) == 22
    assert kafkalog.PartitionLog(tmp_path / "orders-0").topic_id == topic_id
    assert (tmp_path / "orders-0" / "partition.metadata").read_text() == f"version: 0\ntopic_id: {topic_id}"
    with pytest.raises(ValueError, match="topic"):
        writer(tmp_path, topic_id=base64.urlsafe_b64encode(bytes(15) + b"\1").decode().rstrip("="))
    with writer(tmp_path) as log:
        assert log.topic_id == topic_id


def test_what_a_clean_close_leaves(tmp_path: Path) -> None:
    with writer(tmp_path) as log:
        log.append([Record(b"x")])
        assert (tmp_path / ".lock").exists()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
    directory = kafkalog.LogDir(tmp_path)
    assert directory.clean_shutdown
    offsets = {name: [tuple(each) for each in entries] for name, entries in directory.checkpoints.items()}
    assert offsets["recovery-point-offset-checkpoint"] == [("orders", 0, 1)]
    assert offsets["replication-offset-checkpoint"] == [("orders", 0, 1)]


def test_of_several_log_dirs_the_one_with_the_fewest_partitions(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    seen = []
    for partition in range(4):
        with writer(dirs, partition=partition) as log:  # type: ignore[arg-type]
            seen.append(Path(log.path).parent.name)
            log.append([Record(b"x")])
    assert sorted(seen) == ["a", "a", "b", "b"]
    with writer(dirs, partition=2) as log:  # type: ignore[arg-type]
        assert Path(log.path).parent.name == seen[2]
        assert log.log_end_offset == 1


HOLDER = """
import sys, kafkalog
with kafkalog.LogWriter(sys.argv[1], "orders"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_locked_out(tmp_path: Path) -> None:
    with writer(tmp_path):
        with pytest.raises(kafkalog.LogLockedError) as caught:
            writer(tmp_path)
        # One process may well write several partitions of a log dir.
        with writer(tmp_path, partition=1) as other:
            other.append([Record(b"x")])
    assert str(tmp_path) in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).path == caught.value.path  # noqa: S301 - our own
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(kafkalog.LogLockedError):
            writer(tmp_path)
        holder.stdin.close()
    assert holder.returncode == 0
    with writer(tmp_path) as log:
        log.append([Record(b"x")])


# Another log's batches

CRC_POSITION = 17
BATCH_CASES = ["clean-restarts", "txn", "compact", "codecs", "v0-0.8.2.2", "mixed-upgrade", "empties"]


@pytest.mark.parametrize("case", BATCH_CASES)
def test_append_batches(tmp_path: Path, case: str) -> None:
    """Every batch of a real broker's partitions, byte for byte."""
    seen = 0
    for partition in corpus.partitions():
        if partition.case.name != case or partition.state != "live" or partition.topic.startswith("__"):
            continue
        out = tmp_path / str(seen)
        log = kafkalog.PartitionLog(partition.folder)
        with LogWriter(out, partition.topic, partition.partition, clock=clock) as target:
            info = target.append_batches(log)
            assert target.log_start_offset == log.log_start_offset
            if info.batches:
                assert target.log_end_offset == log.log_end_offset
        folder = out / partition.folder.name
        whole = [c for c in kafkalog.scan_batches(folder).schema.names if c not in {"segment", "position"}]
        theirs = log.batches().read_all()
        assert kafkalog.scan_batches(folder).read_all().select(whole).equals(theirs.select(whole))
        assert info.batches == theirs.num_rows
        columns = ["offset", "key", "value", "headers", "timestamp", "sequence", "controlType"]
        assert kafkalog.read_table(folder, columns=columns).equals(log.scan(columns=columns).read_all())
        seen += 1
    assert seen > 0


def test_a_copy_begins_where_its_source_does(tmp_path: Path) -> None:
    """Inside of a batch, which is copied whole, as by a follower: what lies below the log start is not to be read."""
    with writer(tmp_path / "a") as log:
        log.append([Record(b"%d" % n) for n in range(9)])
        assert log.delete_records(4)
    with writer(tmp_path / "b") as copy:
        copy.append_batches(tmp_path / "a" / "orders-0")
        assert (copy.log_start_offset, copy.log_end_offset) == (4, 9)
    assert kafkalog.read_table(tmp_path / "b")["offset"].to_pylist() == list(range(4, 9))


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts what is read, as Linux does")
def test_append_batches_reads_each_byte_once(tmp_path: Path) -> None:
    """Batches of most of a window, each followed by a small one: the next header is beyond the window."""
    with LogWriter(tmp_path / "source", "orders", batch_bytes=1_000_000) as log:
        for _ in range(8):
            for size in (240_000, 16_000):
                log.append([Record(random.Random(size).randbytes(size))])  # noqa: S311
    source = tmp_path / "source" / "orders-0"

    def read() -> int:
        words = Path("/proc/self/io").read_text().split()
        return int(words[words.index("rchar:") + 1])

    with LogWriter(tmp_path / "copy", "orders") as log:
        before = read()
        log.append_batches(source)
        size = sum(each.stat().st_size for each in source.glob("*.log"))
        assert size <= read() - before < 1.1 * size
    assert naive.batches(tmp_path / "copy" / "orders-0") == naive.batches(source)


def test_append_batches_in_parts(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    nothing = tmp_path.parent / f"{tmp_path.name}-nothing"
    nothing.mkdir()
    with writer(tmp_path) as log:
        assert log.append_batches(kafkalog.scan_batches(source, ending_offsets=300)).first_offset == 0
        middle = log.log_end_offset
        assert 300 <= middle < 880
        log.append_batches(kafkalog.scan_batches(source, starting_offsets=middle))
        assert log.log_end_offset == 880
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append_batches(source)
        assert log.log_end_offset == 880
        with pytest.raises(ValueError, match="itself"):
            log.append_batches(log.path)
        with pytest.raises(ValueError, match="one partition"):
            log.append_batches(source.parent)
        with pytest.raises(ValueError, match="has none"):
            log.append_batches(nothing)
        with pytest.raises(ValueError, match="records"):
            log.append_batches(kafkalog.scan(source))
    assert kafkalog.read_table(tmp_path).equals(kafkalog.read_table(source))


def test_leader_epochs_never_fall(tmp_path: Path) -> None:
    """A reader would take what follows for damage: an epoch is outside of the checksum."""
    first = tmp_path / "first"
    with writer(first, leader_epoch=3) as log:
        log.append([Record(b"a")])
    with pytest.raises(ValueError, match="leader_epoch is 2, below the log's latest, 3"):
        writer(first, leader_epoch=2)
    assert kafkalog.LogDir(first).clean_shutdown
    with writer(first) as log:
        log.append([Record(b"b")])
    with writer(first, leader_epoch=4) as log:
        log.append([Record(b"c")])
    table = kafkalog.read_table(first, columns=["partitionLeaderEpoch"])
    assert table["partitionLeaderEpoch"].to_pylist() == [3, 3, 4]
    with writer(tmp_path / "other", leader_epoch=1) as log:
        log.append_batches(first / "orders-0")
        with pytest.raises(ValueError, match="leader_epoch is 1, below the log's latest, 4"):
            log.append([Record(b"d")])
    assert kafkalog.read_table(tmp_path / "other").num_rows == 3


def test_batches_of_an_earlier_epoch_are_refused(tmp_path: Path) -> None:
    """Kafka's follower takes them; but what would then be in the log, no reader can tell from a flipped bit."""
    target = tmp_path / "target"
    with writer(target, leader_epoch=5) as log:
        log.append([Record(b"0")])
    sources = {epoch: tmp_path / str(epoch) for epoch in (5, 3)}
    for offset, (epoch, source) in enumerate(sources.items(), 1):
        with writer(source, leader_epoch=epoch) as log:
            log.truncate_fully(offset)
            log.append([Record(b"%d" % offset)])
    with writer(target) as log:
        log.append_batches(sources[5])
        with pytest.raises(ValueError, match="the batch at offset 2 is of leader epoch 3, below the log's latest, 5"):
            log.append_batches(sources[3])
        assert log.log_end_offset == 2
    assert [row.value for row in both(target / "orders-0")] == [b"0", b"1"]


@pytest.mark.parametrize("size", [24, 48, 100])
def test_batches_into_indexes_that_are_full_before_their_segment(tmp_path: Path, size: int) -> None:
    """Rolled when an index is full, as batch by batch in Kafka: many batches are never more than it has room for."""
    source = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    with writer(tmp_path, config=LogConfig(segment_index_bytes=size, index_interval_bytes=100)) as log:
        log.append_batches(source)
    assert kafkalog.read_table(tmp_path).equals(kafkalog.read_table(source))
    for index in tmp_path.rglob("*.index"):
        assert index.stat().st_size <= size
    batches = pa.table(kafkalog.scan_batches(tmp_path / "orders-0")).num_rows
    assert len(list(tmp_path.rglob("*.log"))) > batches / (size // 12 + 1)


def test_a_damaged_batch_is_not_passed_on(tmp_path: Path) -> None:
    """The fault lies in the source, so that file is named, with the position in it."""
    settings = kafkalog.LogConfig(segment_bytes=4096)
    with writer(tmp_path / "source", batch_bytes=1, config=settings) as log:
        log.append([Record(b"%d" % n * 50) for n in range(100)])
    folder = tmp_path / "source" / "orders-0"
    batches = kafkalog.scan_batches(folder).read_all().to_pylist()
    wrong = batches[3 * len(batches) // 4]
    file = folder / wrong["segment"]
    data = bytearray(file.read_bytes())
    data[wrong["position"] + wrong["size"] - 2] ^= 1
    file.write_bytes(data)
    with writer(tmp_path / "target") as log, pytest.raises(kafkalog.CorruptRecordError) as caught:
        log.append_batches(folder)
    assert caught.value.path == str(file)
    assert caught.value.position == wrong["position"] + CRC_POSITION


def test_append_info_adds_up() -> None:
    nothing, first, then = AppendInfo(), AppendInfo(0, 4, 5, 1, 100, 0, 7), AppendInfo(5, 9, 5, 2, 90, 1, 3)
    assert first.followed_by(then) == AppendInfo(0, 9, 10, 3, 190, 1, 7)
    assert nothing.followed_by(first) == first.followed_by(nothing) == first
