"""``LogDir`` and ``PartitionLog`` beyond what the corpus walk shows."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import corpus
import kafkalog
from naive import crc32c

CASE = corpus.GOLDEN / "clean-restarts"
DATA = CASE / "data-1"


def test_log_dir() -> None:
    dirs = kafkalog.LogDir(DATA)
    assert dirs.topics == ["__transaction_state", "events", "ledger", "orders"]
    assert [(log.topic, log.partition) for log in dirs] == [
        ("__transaction_state", 1),
        ("events", 1),
        ("ledger", 0),
        ("orders", 0),
    ]
    assert [log.partition for log in dirs.partitions("orders")] == [0]
    assert dirs.partitions("nope") == []
    assert len(dirs) == 4
    assert ("orders", 0) in dirs
    assert ("orders", 1) not in dirs
    assert dirs["orders", 0].log_end_offset == 880
    assert dirs.meta is not None
    assert dirs.meta["node.id"] == "1"
    assert ("orders", 0, 880) in dirs.checkpoints["recovery-point-offset-checkpoint"]
    assert dirs.path == str(DATA)


def test_what_is_not_there_lists_what_is() -> None:
    dirs = kafkalog.LogDir(DATA)
    with pytest.raises(KeyError, match=r"no topic 'nope' in .*, only __transaction_state, events, ledger, orders"):
        dirs["nope", 0]
    with pytest.raises(KeyError, match=r"no partition 5 of topic 'orders' in .*, only 0"):
        dirs["orders", 5]


def test_a_partition_folder_is_no_empty_log_dir(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="orders-0: a partition's folder, not a log dir"):
        kafkalog.LogDir(DATA / "orders-0")
    # Log dirs are often called so.
    (tmp_path / "data-0").mkdir()
    assert kafkalog.LogDir(tmp_path / "data-0").topics == []


def test_a_log_dir_is_no_empty_partition() -> None:
    """The folder around log dirs ``data-0`` and ``data-1``, whose names are those of partitions."""
    for ask in (kafkalog.scan, kafkalog.scan_batches, lambda path: kafkalog.recover(path, dry_run=True)):
        with pytest.raises(ValueError, match="clean-restarts: not a log dir"):
            ask(CASE)
    assert kafkalog.read_table([CASE / "data-0", CASE / "data-1"], columns="offset").num_rows > 880


def test_a_folder_of_others_is_no_empty_log_dir(tmp_path: Path) -> None:
    """A path one folder too high, or mistyped; a folder that is empty may yet become a log dir."""
    asks = (
        kafkalog.LogDir,
        kafkalog.scan,
        kafkalog.scan_batches,
        lambda path: kafkalog.scan([DATA, path]),
        lambda path: kafkalog.recover(path, dry_run=True),
    )
    (tmp_path / "lost+found").mkdir()
    for ask in asks:
        ask(tmp_path)
    (tmp_path / "backup").mkdir()
    for ask in asks:
        with pytest.raises(ValueError, match=f"{tmp_path}: not a log dir"):
            ask(tmp_path)
    # A folder that is only named like a partition, as dbus-1 in /etc.
    (tmp_path / "mine-0").mkdir()
    for ask in asks:
        with pytest.raises(ValueError, match=f"{tmp_path}: not a log dir"):
            ask(tmp_path)
    (tmp_path / "mine-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    for ask in asks:
        ask(tmp_path)


def test_a_folder_counts_as_a_partition_for_what_it_holds_or_where_it_is(tmp_path: Path) -> None:
    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    (tmp_path / "dbus-1").mkdir()
    (tmp_path / "dbus-1" / "system.conf").touch()
    assert kafkalog.LogDir(tmp_path).topics == ["orders"]
    assert kafkalog.read_table(tmp_path, columns="offset").num_rows == 880
    for ask in (kafkalog.PartitionLog, kafkalog.scan):
        with pytest.raises(ValueError, match=r"dbus-1: (not a partition folder|not a log dir)"):
            ask(tmp_path / "dbus-1")
    # In a log dir a broker takes the folder for the partition that it is named after.
    shutil.copy(DATA / "meta.properties", tmp_path)
    assert kafkalog.LogDir(tmp_path).topics == ["dbus", "orders"]
    assert kafkalog.PartitionLog(tmp_path / "dbus-1").log_end_offset == 0


def test_a_partition_in_two_log_dirs_is_an_error_that_says_what_can_be_read(tmp_path: Path) -> None:
    """As in backups of several brokers of a cluster."""
    one, two = (tmp_path / name / "orders-0" for name in ("one", "two"))
    for folder in (one, two):
        shutil.copytree(DATA / "orders-0", folder)
    said = f"orders-0 is in two folders, {one} and {two}; name the path of one of them, or leave out one log dir"
    for read in (kafkalog.scan, kafkalog.scan_batches):
        with pytest.raises(kafkalog.KafkaLogError, match=re.escape(said)) as caught:
            read([one.parent, two.parent])
        assert caught.value.path == str(one)
    with pytest.raises(kafkalog.KafkaLogError, match=re.escape(said)):
        kafkalog.LogWriter([one.parent, two.parent], "orders")
    assert kafkalog.read_table(two, columns="offset").num_rows == 880
    assert kafkalog.read_table(one.parent, columns="offset").num_rows == 880


def test_relative_paths_hold_after_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = shutil.copytree(CASE, tmp_path / "case")
    monkeypatch.chdir(case)
    wanted = kafkalog.read_table("data-1", topics="orders")
    readers = [
        kafkalog.scan("data-1", topics="orders"),
        kafkalog.scan(Path("data-1/orders-0")),
        kafkalog.scan([f"data-1/orders-0/{name.name}" for name in Path("data-1/orders-0").glob("*.log")]),
        kafkalog.scan("./data-0/../data-1", topics="orders", threads=2),
    ]
    dirs, log = kafkalog.LogDir("data-1"), kafkalog.PartitionLog("data-1/orders-0")
    pickles = [pickle.dumps(dirs), pickle.dumps(log)]
    index = kafkalog.OffsetIndex(f"data-1/orders-0/{0:020}.index")
    writer = kafkalog.LogWriter("new", "t", config=kafkalog.LogConfig(segment_bytes=1 << 20))
    monkeypatch.chdir("/")
    for reader in readers:
        assert reader.read_all().equals(wanted)
    log_again: Any
    dirs_again, log_again = map(pickle.loads, pickles)
    for each in (dirs, dirs_again):
        assert each.path == str(case / "data-1")
        assert each.meta is not None
        assert each.checkpoints
        assert each["orders", 0].log_end_offset == 880
        assert kafkalog.read_table(each, topics="orders").equals(wanted)
    for each in (log, log_again):
        assert (each.path, each.log_end_offset) == (str(case / "data-1" / "orders-0"), 880)
        found = each.lookup(500)
        assert found is not None
        assert found.offset == 500
        assert each.scan().read_all().equals(wanted)
    assert index.path == str(case / "data-1" / "orders-0" / f"{0:020}.index")
    for _ in range(2):
        writer.append([kafkalog.Record(b"1")])
        writer.roll()
    writer.truncate(1)
    writer.close()
    assert kafkalog.read_table(case / "new", columns="offset")["offset"].to_pylist() == [0]


def test_inactive_folders_are_listed_and_read_only_when_asked_for(tmp_path: Path) -> None:
    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    tag = "0123456789abcdef0123456789abcdef"
    for state, partition in (("delete", 1), ("future", 2), ("stray", 3)):
        shutil.copytree(DATA / "orders-0", tmp_path / f"orders-{partition}.{tag}-{state}")
    dirs = kafkalog.LogDir(tmp_path)
    states = [(folder.partition, folder.state) for folder in dirs.folders]
    assert sorted(states) == [(0, "live"), (1, "delete"), (2, "future"), (3, "stray")]
    assert len(dirs) == 1
    assert kafkalog.read_table(tmp_path, columns="offset").num_rows == 880
    assert kafkalog.read_table(tmp_path, columns="offset", include_inactive=True).num_rows == 4 * 880
    named = kafkalog.read_table(tmp_path / f"orders-1.{tag}-delete", columns=["topic", "partition"])
    assert named.num_rows == 880
    assert named["topic"].unique().to_pylist() == ["orders"]
    assert named["partition"].unique().to_pylist() == [1]


def test_a_folder_with_a_segments_name_is_no_segment(tmp_path: Path) -> None:
    """As to Kafka, which loads files only (LogLoader.loadSegmentFiles)."""
    folder = shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    names = [segment.name for segment in kafkalog.PartitionLog(folder).segments]
    (folder / f"{900:020}.log").mkdir()
    log = kafkalog.PartitionLog(folder)
    assert [segment.name for segment in log.segments] == names
    assert log.log_end_offset == 880
    assert kafkalog.read_table(folder, columns="offset").num_rows == 880


def test_partitions_of_a_log_dir_are_as_opened_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog import _core

    read: list[str] = []

    def state(log_dir: str) -> _core.DirState:
        read.append(log_dir)
        return original(log_dir)

    original = _core.DirState
    monkeypatch.setattr(_core, "DirState", state)
    dirs = kafkalog.LogDir(DATA)
    for every in (True, False):
        logs = list(dirs) if every else dirs.partitions()
        assert read == [str(DATA)], "the checkpoints are read once, not for each partition"
        read.clear()
        assert {log.high_watermark is None for log in logs} == {False}
        for log in logs:
            alone = kafkalog.PartitionLog(log.path)
            for one in (log, alone):
                assert one.path == f"{DATA}/{one.topic}-{one.partition}"
            for name in (
                "log_start_offset",
                "high_watermark",
                "log_end_offset",
                "segments",
                "leader_epochs",
                "topic_id",
            ):
                assert getattr(log, name) == getattr(alone, name), (log, name)
            assert log.offset_of_max_timestamp() == alone.offset_of_max_timestamp()
            assert copy.copy(log).segments == alone.segments


def test_a_log_dir_named_as_a_partition_is_none_of_a_log_dir_either(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "data-0")
    (tmp_path / "meta.properties").touch()
    dirs = kafkalog.LogDir(tmp_path)
    assert len(dirs) == 1
    for opening in (dirs.partitions, lambda: kafkalog.PartitionLog(tmp_path / "data-0")):
        with pytest.raises(ValueError, match="data-0: not a partition folder"):
            opening()


def test_a_partition_that_links_lead_to_is_read_once(tmp_path: Path) -> None:
    real, linked, mixed = (tmp_path / name for name in ("real", "linked", "mixed"))
    shutil.copytree(DATA, real)
    linked.symlink_to(real)
    mixed.mkdir()
    (mixed / "orders-0").symlink_to(real / "orders-0")
    once = kafkalog.read_table(real, topics="orders").num_rows
    for others in ([linked], [mixed], [mixed, linked], [linked / "orders-0"], [mixed / "orders-0"]):
        for paths in ([real, *others], [*others, real]):
            assert kafkalog.read_table(paths, topics="orders").num_rows == once, paths
    assert kafkalog.read_table(mixed).num_rows == once
    assert [log.segments for log in kafkalog.LogDir(mixed)] == [kafkalog.LogDir(real)["orders", 0].segments]
    # A link to nothing, and one to a file, are no partitions.
    (mixed / "orders-1").symlink_to(tmp_path / "nothing")
    (mixed / "orders-2").symlink_to(real / "meta.properties")
    assert len(kafkalog.LogDir(mixed)) == 1


def test_partition() -> None:
    log = kafkalog.PartitionLog(DATA / "orders-0")
    assert log.path == str(DATA / "orders-0")
    assert [segment.base_offset for segment in log.segments] == [0, 145, 331, 476, 588, 818]
    assert [segment.is_active for segment in log.segments] == [False] * 5 + [True]
    assert log.size == sum(file.stat().st_size for file in (DATA / "orders-0").glob("*.log"))
    assert log.other_files["leader-epoch-checkpoint"] > 0
    assert log.leader_epochs[0].start_offset == 0
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 880, 880)
    found = log.lookup(500)
    assert found is not None
    assert (found.segment_base_offset, found.offset) == (476, 500)
    assert log.lookup(880) is None
    with pytest.raises(kafkalog.OffsetOutOfRangeError):
        log.lookup(881)
    with pytest.raises(TypeError):
        log.lookup("5")  # type: ignore[arg-type]


def test_times_may_be_datetimes() -> None:
    log = kafkalog.PartitionLog(DATA / "orders-0")
    moment = datetime(2023, 11, 15, 6, 39, 50, tzinfo=timezone.utc)
    assert log.offset_for_timestamp(moment) == log.offset_for_timestamp(1_700_030_390_000) is not None
    with pytest.raises(ValueError, match="no time zone"):
        log.offset_for_timestamp(moment.replace(tzinfo=None))


def test_exact_times_agree_with_the_index_where_time_goes_forward() -> None:
    log = kafkalog.PartitionLog(DATA / "orders-0")
    stamps: list[Any] = log.scan(columns="timestamp").read_all()["timestamp"].cast(pa.int64()).to_pylist()
    for offset in range(0, 880, 97):
        exact = log.offset_for_timestamp(stamps[offset], exact=True)
        want = next((n, t) for n, t in enumerate(stamps) if t >= stamps[offset])
        assert exact is not None
        assert (exact.offset, exact.timestamp) == want


def test_statistics_add_up() -> None:
    for folder in (CASE / "data-0" / "state-0", DATA / "ledger-0", DATA / "orders-0"):
        log = kafkalog.PartitionLog(folder)
        sums = log.statistics()
        batches = log.batches(starting_offsets="oldest").read_all()
        columns: dict[str, list[Any]] = {name: batches[name].to_pylist() for name in batches.column_names}
        assert sums["batches"] == batches.num_rows == sum(part["batches"] for part in sums["segments"])
        assert sums["records"] == sum(columns["count"])
        assert sums["size"] == log.size
        assert sums["control_batches"] == sum(columns["isControl"])
        assert sums["max_timestamp"] == pc.max(batches["maxTimestamp"].cast(pa.int64())).as_py()
        stamps = [stamp for stamp in batches["baseTimestamp"].cast(pa.int64()).to_pylist() if stamp is not None]
        assert sums["min_timestamp"] == min(stamp for stamp in stamps if stamp >= 0)
        assert (sums["first_offset"], sums["last_offset"]) == (
            min(columns["baseOffset"]),
            max(columns["lastOffset"]),
        )
        codecs = Counter(columns["compression"])
        assert {name: tally["batches"] for name, tally in sums["codecs"].items()} == codecs
        assert sums["producers"] == sorted(set(columns["producerId"]) - {-1})
        # The sums come from a walk over all headers; the log end offset by itself is looked for with the index.
        assert sums["log_end_offset"] == kafkalog.PartitionLog(folder).log_end_offset


@pytest.mark.parametrize(
    "partition",
    [p for p in corpus.partitions() if "append" in p.topic and {b["magic"] for b in p.lines("batches")} == {2}],
    ids=lambda p: p.id,
)
def test_times_that_the_broker_set(partition: corpus.Partition) -> None:
    """Its first one too: what stands at a batch's beginning is what the producer had said."""
    records = corpus.expected_records(partition)
    assert set(records["timestampType"]) == {1}
    sums = kafkalog.PartitionLog(partition.folder).statistics()
    assert (sums["min_timestamp"], sums["max_timestamp"]) == (min(records["timestamp"]), max(records["timestamp"]))


def test_statistics_of_zeros(tmp_path: Path) -> None:
    """The first of all times, producers and epochs is one of them; only what is below is none."""
    with kafkalog.LogWriter(tmp_path, "t", leader_epoch=0) as writer:
        writer.append([kafkalog.Record(b"v", timestamp=0)])
    file = tmp_path / "t-0" / f"{0:020}.log"
    batch = bytearray(file.read_bytes())
    # producerId, producerEpoch and baseSequence, all after the checksum
    batch[43:57] = bytes(14)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    file.write_bytes(batch)
    log = kafkalog.PartitionLog(tmp_path / "t-0")
    sums = log.statistics()
    assert (sums["min_timestamp"], sums["max_timestamp"]) == (0, 0)
    assert (sums["producers"], sums["leader_epochs"]) == ([0], [0])
    largest = log.offset_of_max_timestamp()
    assert largest is not None
    assert (largest.offset, largest.timestamp) == (0, 0)


def test_statistics_of_nothing() -> None:
    sums = kafkalog.PartitionLog(CASE / "data-0" / "events-2").statistics()
    assert (sums["batches"], sums["first_offset"], sums["max_timestamp"], sums["codecs"]) == (0, None, None, {})
