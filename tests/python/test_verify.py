"""``kafkalog.verify``: what brokers wrote is clean, and every way of breaking it is named, by file and place."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import corpus
import crc32c_plain
import documents
import kafkalog
from byte_logs import Record, batch
from kafkalog import _core

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.corpus

ROOTS = [Path(root) for root in os.environ.get("KAFKALOG_CORPUS", "").split(os.pathsep) if root] or [corpus.GOLDEN]
CASES: list[dict[str, Any]] = json.loads((corpus.GOLDEN / "corrupt" / "cases.json").read_text(encoding="utf-8"))
FIELDS: list[pa.Field[Any]] = [
    pa.field("file", pa.string(), nullable=False),
    pa.field("position", pa.int64()),
    pa.field("endPosition", pa.int64()),
    pa.field("severity", pa.string(), nullable=False),
    pa.field("code", pa.string(), nullable=False),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("message", pa.string(), nullable=False),
    pa.field("advice", pa.string(), nullable=False),
]
SCHEMA = pa.schema(FIELDS)


def found(path: Path | list[Path], **options: Any) -> list[dict[str, Any]]:
    return list(kafkalog.verify(path, **options).to_pylist())


def above_info(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["severity"] != "info"]


def log_dirs() -> list[Path]:
    """Every log dir of the corpora, whether the broker was stopped or killed."""
    own = ("meta.properties", "replication-offset-checkpoint")
    dirs = {file.parent for root in ROOTS for name in own for file in root.rglob(name)}
    dirs |= {case for case in corpus.GOLDEN.glob("*/*-?") if case.parent.name not in ("corrupt", "log")}
    return sorted(dirs)


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("log_dir", log_dirs(), ids=name_of)
def test_what_a_broker_wrote_is_clean(log_dir: Path) -> None:
    rows = above_info(found(log_dir))
    if log_dir.parent.name == "live-copy":
        # Copied while the broker wrote: its files are of several moments, each of them sound.
        assert {row["code"] for row in rows} <= {"index-beyond-log", "checkpoint-beyond-end"}
    elif log_dir == corpus.GOLDEN / "metadata" / "data-0":
        # The metadata log is kept, and few of the other partitions.
        assert {row["code"] for row in rows} == {"replica-missing"}
    else:
        assert rows == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_each_damaged_file_is_named(case: dict[str, Any]) -> None:
    folder = corpus.GOLDEN / "corrupt" / case["name"] / "t-0"
    rows = [row for row in found(folder) if row["code"] != "index-missing"]
    assert {row["topic"] for row in rows} <= {"t"}
    if case["name"] == "index-good":
        assert rows == []
    elif case["name"] == "index-empty":
        assert [(Path(row["file"]).suffix, row["severity"], row["code"]) for row in rows] == [
            (".timeindex", "info", "time-index-empty")
        ]
    elif case["stop"] == "whole":
        assert {Path(row["file"]).suffix for row in above_info(rows)} <= {".index", ".timeindex"}
        assert above_info(rows)
        assert all(row["code"].split("-")[0] in ("index", "time") for row in rows)
    else:
        rooms = case["name"] in ("zero-tail", "only-zeros")
        first = rows[0]
        assert Path(first["file"]) == folder / case["file"]
        assert first["position"] == case["position"]
        assert first["severity"] == ("info" if rooms else "warning" if case["stop"] == "end" else first["severity"])
        assert first["severity"] != "info" or rooms
        assert first["endPosition"] is None or first["position"] < first["endPosition"]


TAILS = {"torn-tail", "zero-tail", "zero-tail-closed"}


def test_the_bytes_named_are_those_that_reading_loses() -> None:
    """One walk past the damage serves both."""
    for case in CASES:
        folder = corpus.GOLDEN / "corrupt" / case["name"] / "t-0"
        reader = kafkalog.scan(folder, on_corrupt="skip", include_control=True)
        reader.read_all()
        lost = {(row["segment"], row["position"], row["endPosition"]) for row in reader.lost.to_pylist()}
        named = {
            (Path(row["file"]).name, row["position"], row["endPosition"])
            for row in found(folder)
            if row["code"] in TAILS
            or (row["code"].startswith("batch-") and row["severity"] == "error" and row["code"] != "batch-offsets")
        }
        # Kafka's readers take a control batch whose record is too short, and so does ours.
        assert named == lost or case["name"] == "control-key-short", case["name"]


def test_rows_and_types() -> None:
    table = kafkalog.verify(corpus.GOLDEN / "corrupt" / "flipped-bit" / "t-0")
    assert table.schema == SCHEMA
    (row,) = above_info(table.to_pylist())
    batch = (93, 186)
    assert (row["code"], row["position"], row["endPosition"]) == ("batch-crc", *batch)
    assert (row["topic"], row["partition"], row["offset"]) == ("t", 0, 2)
    assert "crc (CRC-32C): expected 0x" in row["message"]
    assert kafkalog.verify(corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0").schema == SCHEMA


# Ways of breaking one file of a log dir that is clean.


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def put(at: int, data: bytes) -> Callable[[bytes], bytes]:
    """Write over the bytes at a place; below 0 from the end."""

    def change(old: bytes) -> bytes:
        place = at if at >= 0 else len(old) + at
        return old[:place] + data + old[place + len(data) :]

    return change


def sealed(data: bytes) -> bytes:
    """A snapshot with its right checksum: an outside witness writes it."""
    return data[:2] + struct.pack(">I", crc32c_plain.of(data[6:])) + data[6:]


def of_snapshot(field: int, kind: str, change: Callable[[Any], Any]) -> Callable[[bytes], bytes]:
    """Change a field of the snapshot's first producer that has a batch."""

    def changed(old: bytes) -> bytes:
        entries = (len(old) - 10) // 46
        at = next(10 + n * 46 for n in range(entries) if struct.unpack_from(">q", old, 10 + n * 46 + 14)[0] >= 0)
        (value,) = struct.unpack_from(kind, old, at + field)
        return sealed(put(at + field, struct.pack(kind, change(value)))(old))

    return changed


def text(old: str, new: str) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        assert re.search(old.encode(), data), data
        return re.sub(old.encode(), new.encode(), data, count=1)

    return change


def with_line(line: str) -> Callable[[bytes], bytes]:
    """Add a line to a checkpoint, or replace the one about that partition."""
    key = line.rsplit(" ", 1)[0]

    def change(data: bytes) -> bytes:
        lines = [each for each in data.decode().splitlines()[2:] if not each.startswith(key + " ")]
        return "\n".join(["0", str(len(lines) + 1), *lines, line, ""]).encode()

    return change


def later(old: bytes, field: int) -> bytes:
    (value,) = struct.unpack_from(">q", old, field)
    step = 1 if field == FIRST else -1
    return put(field, struct.pack(">q", value + step))(old)


def epoch(old: bytes, start: int) -> bytes:
    lines = old.decode().splitlines()[2:]
    return "\n".join(["0", str(len(lines) + 1), *lines, f"9 {start}", ""]).encode()


def cut_last_batch(old: bytes) -> bytes:
    at = end = 0
    while end < len(old):
        at, end = end, end + 12 + struct.unpack_from(">i", old, end + 8)[0]
    return old[:at]


LAST_OFFSET, LAST_SEQUENCE, OPEN_SINCE = 14, 10, 38
FIRST, LAST = 10, 18  # of an aborted transaction

BREAKS: list[tuple[str, str, Callable[[bytes], bytes], str]] = [
    ("a bit of a snapshot", "ledger-0/*.snapshot", put(30, b"\xff\xfe"), "snapshot-unreadable"),
    ("an empty snapshot", "ledger-0/*.snapshot", lambda _: b"", "snapshot-unreadable"),
    (
        "a snapshot that missed a batch",
        "ledger-0/*.snapshot",
        of_snapshot(LAST_OFFSET, ">q", lambda old: old - 1),
        "snapshot-outdated",
    ),
    (
        "a snapshot from the future",
        "ledger-0/*.snapshot",
        of_snapshot(LAST_OFFSET, ">q", lambda old: old + 10**6),
        "snapshot-outdated",
    ),
    (
        "another sequence",
        "ledger-0/*.snapshot",
        of_snapshot(LAST_SEQUENCE, ">i", lambda old: old + 7),
        "snapshot-outdated",
    ),
    (
        "an open transaction that ended",
        "ledger-0/*.snapshot",
        of_snapshot(OPEN_SINCE, ">q", lambda _: 0),
        "snapshot-transaction",
    ),
    ("no entry of an aborted transaction", "ledger-0/*.txnindex", lambda old: old[34:], "txn-index-missing-entry"),
    ("an entry of another producer", "ledger-0/*.txnindex", put(9, b"\x7f"), "txn-index-entry"),
    ("an entry with a later first offset", "ledger-0/*.txnindex", lambda old: later(old, FIRST), "txn-index-entry"),
    ("an entry for no marker", "ledger-0/*.txnindex", lambda old: later(old, LAST), "txn-index-entry"),
    ("an entry of an unknown version", "ledger-0/*.txnindex", put(0, b"\x01"), "txn-index-entry"),
    ("half an entry", "ledger-0/*.txnindex", lambda old: old[:-5], "index-length"),
    ("falling entries", "ledger-0/*.txnindex", lambda old: old + old[:34], "index-order"),
    ("an epoch that began elsewhere", "orders-0/leader-epoch-checkpoint", text(r"\n2 220", "\n2 3"), "epochs-mismatch"),
    ("an epoch too few", "orders-0/leader-epoch-checkpoint", lambda _: b"0\n1\n0 0\n", "epochs-mismatch"),
    ("an epoch of the future", "orders-0/leader-epoch-checkpoint", lambda old: epoch(old, 10**6), "epochs-beyond-end"),
    ("falling epochs", "orders-0/leader-epoch-checkpoint", lambda old: epoch(old, 0), "epochs-order"),
    ("no epochs", "orders-0/leader-epoch-checkpoint", lambda old: old + b"x\n", "epochs-unreadable"),
    (
        "a high watermark beyond the end",
        "replication-offset-checkpoint",
        with_line("orders 0 881"),
        "checkpoint-beyond-end",
    ),
    (
        "a recovery point beyond the end",
        "recovery-point-offset-checkpoint",
        with_line("orders 0 1000"),
        "checkpoint-beyond-end",
    ),
    ("a log start beyond the end", "log-start-offset-checkpoint", with_line("orders 0 1000"), "checkpoint-beyond-end"),
    ("a negative offset", "replication-offset-checkpoint", with_line("orders 0 -1"), "checkpoint-order"),
    ("compacted beyond the end", "cleaner-offset-checkpoint", with_line("orders 0 1000"), "checkpoint-order"),
    ("no checkpoint", "replication-offset-checkpoint", lambda _: b"0\n7\n", "checkpoint-unreadable"),
    ("a topic id of two words", "orders-0/partition.metadata", lambda old: old + b" x", "identity-unreadable"),
    (
        "another topic's id",
        "events-2/partition.metadata",
        text("topic_id: .*", "topic_id: 0rtfp9DjROqBpwPllfDtAQ"),
        "identity-mismatch",
    ),
    ("a node without number", "meta.properties", text(r"node\.id=\d+", "node.id=one"), "identity-unreadable"),
    ("an unknown version", "meta.properties", text("version=1", "version=2"), "identity-unreadable"),
    ("no cluster", "meta.properties", text(r"cluster\.id=.*", ""), "identity-unreadable"),
    ("a directory without id", "meta.properties", text(r"directory\.id=.*", "directory.id=x"), "identity-unreadable"),
    ("no votes", "__cluster_metadata-0/quorum-state", lambda old: old[:-3], "quorum-state-unreadable"),
    (
        "a vote for nobody",
        "__cluster_metadata-0/quorum-state",
        text('"votedId":-?[0-9]+', '"votedId":null'),
        "quorum-state-unreadable",
    ),
    ("no footer", "__cluster_metadata-0/*.checkpoint", cut_last_batch, "metadata-snapshot"),
    ("a bit of a record", "bootstrap.checkpoint", put(-20, b"\xff\xfe"), "metadata-snapshot"),
    ("a time entry too early", "orders-0/*.timeindex", put(0, struct.pack(">q", 5)), "index-offset"),
    ("a time entry too late", "orders-0/*.timeindex", put(-12, struct.pack(">q", 1 << 50)), "index-offset"),
    ("a position inside of a batch", "ledger-0/*.index", put(7, b"\x01"), "index-position"),
    ("an entry too early", "ledger-0/*.index", put(0, struct.pack(">i", 1)), "index-offset"),
    ("a time index cut short", "orders-0/*.timeindex", lambda old: old[:-12], "time-index-incomplete"),
    ("zeros under a clean marker", "orders-0/*.log", lambda old: old + b"\0" * 64, "zero-tail-clean"),
    ("half a batch at the end", "orders-0/*.log", lambda old: old[:-9], "torn-tail"),
    ("a byte of the last batch", "orders-0/*.log", put(-9, b"\x55\xaa"), "batch-crc"),
]


def files_for(log_dir: Path, pattern: str) -> list[Path]:
    """The files that a way of breaking is for; of several those that hold something."""
    return [file for file in sorted(log_dir.glob(pattern)) if file.stat().st_size > 0 or "*" not in pattern]


def home_of(pattern: str) -> Path:
    where = "data-0" if pattern.startswith(("__cluster", "bootstrap", "events-2")) else "data-1"
    return corpus.GOLDEN / "clean-restarts" / where


@pytest.mark.parametrize(("pattern", "change", "code"), [each[1:] for each in BREAKS], ids=[each[0] for each in BREAKS])
def test_what_is_broken_is_named(pattern: str, change: Callable[[bytes], bytes], code: str, tmp_path: Path) -> None:
    """Some file of the pattern shows it: not every snapshot has a producer, nor every index an entry that matters."""
    source = home_of(pattern)
    candidates = [file.relative_to(source) for file in files_for(source, pattern)]
    assert candidates
    seen = []
    for n, name in enumerate(reversed(candidates)):
        log_dir = tmp_path / str(n)
        shutil.copytree(source, log_dir)
        try:
            rewrite(log_dir / name, change)
        except StopIteration:
            continue
        rows = above_info(found(log_dir))
        named = {(Path(row["file"]).relative_to(log_dir), row["code"]) for row in rows}
        seen.append(named)
        if (name, code) in named:
            # Nothing else is blamed but what stands against it.
            assert {file.parts[0] for file, _ in named} <= {name.parts[0], "meta.properties"} | CHECKPOINTS
            return
    raise AssertionError(seen)


CHECKPOINTS = {f"{name}-offset-checkpoint" for name in ("replication", "recovery-point", "log-start", "cleaner")}


def test_files_that_are_gone_or_foreign(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    shutil.copytree(corpus.GOLDEN / "clean-restarts" / "data-1", log_dir)
    orders = log_dir / "orders-0"
    first, second = sorted(orders.glob("*.log"))[:2]
    second.unlink()
    first.with_suffix(".index").unlink()
    (orders / "24.log").touch()
    (orders / "notes.txt").touch()
    (log_dir / "lost+found").mkdir()
    (log_dir / "old.tar").touch()
    (log_dir / "x.tmp").touch()
    (log_dir / ".kafkalog-job").touch()
    (log_dir / ".kafkalog-sink").touch()
    (log_dir / ".kafkalog-unfinished").touch()
    rows = {(Path(row["file"]).name, row["severity"], row["code"]) for row in found(log_dir)}
    index = second.with_suffix(".index").name
    assert rows >= {
        (index, "warning", "index-orphan"),
        (first.with_suffix(".index").name, "info", "index-missing"),
        ("24.log", "error", "file-name"),
        ("notes.txt", "info", "unknown-file"),
        ("lost+found", "error", "unknown-folder"),
        ("old.tar", "info", "unknown-file"),
        ("x.tmp", "info", "leftover"),
        (".kafkalog-job", "warning", "pending-job"),
        (".kafkalog-unfinished", "warning", "unfinished-output"),
    }
    assert ".kafkalog-sink" not in {name for name, _, _ in rows}
    rewrite(log_dir / "log-start-offset-checkpoint", with_line("ledger 0 900"))
    rewrite(log_dir / "replication-offset-checkpoint", with_line("ledger 0 899"))
    gone = with_line("gone 3 7")
    rewrite(log_dir / "replication-offset-checkpoint", gone)
    rows = {(row["topic"], row["partition"], row["code"]) for row in found(log_dir)}
    assert {("gone", 3, "checkpoint-stale"), ("ledger", 0, "checkpoint-order")} <= rows


@pytest.mark.parametrize("time", [2, (1 << 63) - 1])
def test_an_index_made_of_two_batches_with_one_offset(tmp_path: Path, time: int) -> None:
    """Recovery takes both, as Kafka's does; the entry of the second is not compared with the first."""
    log_dir = tmp_path / "logs"
    (log_dir / "t-0").mkdir(parents=True)
    log = b"".join(batch([Record(offset, ms, b"k", b"v")]) for offset, ms in [(0, 0), (5, 1), (5, time)])
    (log_dir / "t-0" / f"{0:020}.log").write_bytes(log)
    kafkalog.recover(log_dir, config=kafkalog.LogConfig(index_interval_bytes=80))
    assert (log_dir / "t-0" / f"{0:020}.timeindex").stat().st_size > 0
    found = [row["code"] for row in kafkalog.verify(log_dir).to_pylist() if row["severity"] == "error"]
    assert found == ["batch-order"]
    kafkalog.retain(log_dir, tmp_path / "out", config={"retention.ms": -1})
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0, "min.compaction.lag.ms": 1 << 62}
    kafkalog.compact(log_dir, tmp_path / "compacted", config=config, roll=True, now=0)


def test_a_partition_in_two_dirs_of_one_node(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts"
    dirs = [tmp_path / "a", tmp_path / "b"]
    for name, where in zip(("data-0", "data-1"), dirs, strict=True):
        shutil.copytree(source / name, where)
    assert above_info(found(dirs)) == []
    shutil.copytree(dirs[1] / "orders-0", dirs[0] / "orders-0")
    (row,) = above_info(found(dirs))
    assert (row["code"], row["topic"], row["partition"]) == ("duplicate-partition", "orders", 0)
    assert str(dirs[0] / "orders-0") in row["file"] + row["message"]
    assert str(dirs[1] / "orders-0") in row["file"] + row["message"]
    # Replicas in the directories of two nodes are none.
    rewrite(dirs[1] / "meta.properties", text(r"node\.id=\d+", "node.id=77"))
    assert {row["code"] for row in above_info(found(dirs))} == {"replica-moved"}
    rewrite(dirs[1] / "meta.properties", text(r"cluster\.id=.*", "cluster.id=other"))
    assert [row["code"] for row in above_info(found(dirs))] == ["identity-mismatch"]


def test_a_path_may_be_a_partition_or_a_file(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    shutil.copytree(corpus.GOLDEN / "clean-restarts" / "data-1", log_dir)
    log = max((log_dir / "orders-0").glob("*.log"))
    rewrite(log, put(-9, b"\x55\xaa"))
    rewrite(log_dir / "replication-offset-checkpoint", with_line("orders 0 5000"))
    rewrite(log_dir / "events-1" / "leader-epoch-checkpoint", lambda _: b"x")
    assert {row["code"] for row in above_info(found(log_dir / "orders-0"))} == {"batch-crc"}
    (row,) = above_info(found(log))
    assert (row["file"], row["code"]) == (str(log), "batch-crc")
    assert above_info(found(log.with_suffix(".index"))) == []
    assert {row["code"] for row in above_info(found(log_dir))} == {"batch-crc", "epochs-unreadable"}


def test_what_an_older_broker_cannot_read() -> None:
    codecs = corpus.GOLDEN / "codecs" / "data-0"
    assert above_info(found(codecs, kafka_version="2.1")) == []
    old = above_info(found(codecs, kafka_version="2.0"))
    assert {(row["code"], row["topic"]) for row in old} == {
        ("batch-level", "broker-zstd"),
        ("batch-level", "codec-zstd"),
    }
    assert {row["code"] for row in above_info(found(codecs, kafka_version="0.10"))} == {"batch-level"}
    with pytest.raises(ValueError, match="Kafka version"):
        kafkalog.verify(codecs, kafka_version="new")
    with pytest.raises(TypeError, match="kafka_version"):
        kafkalog.verify(codecs, kafka_version=4.3)  # type: ignore[arg-type]


def digest(folder: Path) -> dict[str, tuple[str, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in files
    }


def test_nothing_is_written(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    shutil.copytree(corpus.GOLDEN / "kill-9" / "data-1", log_dir)
    for index in log_dir.glob("*/*.index"):
        index.unlink()
    before = digest(log_dir)
    kafkalog.verify(log_dir)
    assert digest(log_dir) == before


@pytest.mark.parametrize("threads", [1, 3, 16])
@pytest.mark.sampled(2)
def test_threads_find_the_same(threads: int) -> None:
    folders = [corpus.GOLDEN / "corrupt" / case["name"] / "t-0" for case in CASES]
    one = [kafkalog.verify(folder, threads=1) for folder in folders]
    assert [kafkalog.verify(folder, threads=threads) for folder in folders] == one


def test_very_many_findings_are_counted(tmp_path: Path) -> None:
    """A log of which every other batch is damaged gives no more rows than can be read."""
    with kafkalog.LogWriter(tmp_path, "t", batch_bytes=1) as log:
        log.append([kafkalog.Record(b"value", b"key", 1_700_000_000_000) for _ in range(600)])
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    at = count = 0
    while at < len(data):
        # Damaged batches in a row are one finding.
        data[at + 17] ^= count % 2
        count += 1
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    path.write_bytes(data)
    rows = [row for row in found(tmp_path) if row["file"] == str(path)]
    assert [row["code"] for row in rows].count("batch-crc") == 100
    (more,) = (row for row in rows if row["code"] == "more")
    assert more["message"] == "200 more of batch-crc"


def test_paths_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        kafkalog.verify(tmp_path / "gone")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match="not a log dir"):
        kafkalog.verify(tmp_path)


MUTANTS = [
    (path.relative_to(corpus.GOLDEN), path.stat().st_size)
    for case in ("clean-restarts/data-0", "clean-restarts/data-1", "v1-0.10.0.1/data-0", "txn/data-0")
    for path in sorted((corpus.GOLDEN / case).rglob("*"))
    if path.is_file() and path.stat().st_size > 0
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_are_too_odd(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any file of a log dir, with bytes changed, cut out, put in: an answer comes, and soon."""
    name, size = data.draw(st.sampled_from(MUTANTS))
    log_dir = tmp_path_factory.mktemp("mutant") / "logs"
    source = corpus.GOLDEN / Path(*name.parts[:2])
    if len(name.parts) > 3:
        shutil.copytree(source / name.parts[2], log_dir / name.parts[2])
    else:
        log_dir.mkdir()
        shutil.copy(source / "meta.properties", log_dir)
        shutil.copy(source / name.parts[2], log_dir)
    path = log_dir / Path(*name.parts[2:])
    mutant = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, min(size, len(mutant))))
        new = data.draw(st.binary(max_size=24))
        gone = data.draw(st.integers(0, 24))
        mutant[at : at + gone] = new
    path.write_bytes(mutant)
    table = kafkalog.verify(log_dir, threads=data.draw(st.integers(1, 3)))
    assert table.schema == SCHEMA
    shutil.rmtree(log_dir.parent)


def test_the_guide_lists_every_code() -> None:
    guide = documents.text("damage")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.*) \|$", guide, flags=re.MULTILINE)
    assert rows == _core.verify_codes()
