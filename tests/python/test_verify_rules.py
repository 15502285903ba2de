"""``kafkalog.verify`` by the rules of loading, and what it says of gaps, tails, folders and identities."""

from __future__ import annotations

import json
import os
import pty
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import byte_logs
import corpus
import kafkalog
import tiers
from byte_logs import CONTROL, TRANSACTIONAL, Producer, Record
from kafkalog.cli.main import main
from kafkalog.rescue import inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    copy = tmp_path / "logs"
    shutil.copytree(DATA, copy)
    return copy


def found(path: Path) -> list[dict[str, Any]]:
    """Return the findings above info."""
    return [row for row in kafkalog.verify(path).to_pylist() if row["severity"] != "info"]


def named(path: Path) -> set[tuple[str, str, str]]:
    return {(Path(row["file"]).name, row["severity"], row["code"]) for row in found(path)}


def write_log(folder: Path, *segments: tuple[int, bytes]) -> Path:
    folder.mkdir(parents=True)
    for base, data in segments:
        (folder / f"{base:020}.log").write_bytes(data)
    return folder


NOBODY = Producer()


def plain(first: int, count: int = 1, producer: Producer = NOBODY, attributes: int = 0) -> bytes:
    records = [Record(first + n, 1_700_000_000_000 + first + n, b"k", b"v%d" % (first + n)) for n in range(count)]
    return byte_logs.batch(records, "none", producer, attributes)


# Gaps between segments


@pytest.mark.parametrize("how", ["removed", "emptied"])
def test_offsets_missing_between_segments(log_dir: Path, how: str) -> None:
    """``verify`` and ``lost`` name the same; on a compacted log neither does."""
    orders = log_dir / "orders-0"
    log = sorted(orders.glob("*.log"))[1]
    first, last = int(log.stem), int(sorted(orders.glob("*.log"))[2].stem) - 1
    for file in orders.glob(f"{log.stem}.*"):
        file.unlink() if how == "removed" else file.write_bytes(b"")
    rows = [row for row in found(log_dir) if row["code"] == "segment-missing"]
    assert [(row["file"], row["severity"], row["offset"]) for row in rows] == [(str(log), "error", first)]
    assert rows[0]["message"].endswith(f"offsets {first} to {last} are lost")
    reader = kafkalog.scan(log_dir, topics="orders", on_corrupt="skip")
    reader.read_all()
    lost = [(row["segment"], row["firstOffset"], row["lastOffset"], row["reason"]) for row in reader.lost.to_pylist()]
    assert lost == [(log.name, first, last, "missing")]
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 476\n", encoding="utf-8")
    assert "segment-missing" not in {row["code"] for row in found(log_dir)}
    reader = kafkalog.scan(log_dir, topics="orders", on_corrupt="skip")
    reader.read_all()
    assert reader.lost.num_rows == 0


def test_a_compacted_log_shows_it_without_its_log_dir(tmp_path: Path) -> None:
    whole = write_log(tmp_path / "a-0", (0, plain(0, 5) + plain(5, 5)), (20, plain(20)))
    assert [row["code"] for row in found(whole)] == ["segment-missing"]
    cleaned = write_log(tmp_path / "b-0", (0, plain(0) + plain(7, 3)), (20, plain(20)))
    assert found(cleaned) == []


def test_what_the_log_start_passed_is_not_missing(log_dir: Path) -> None:
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\norders 0 331\n", encoding="utf-8")
    for file in (log_dir / "orders-0").glob(f"{145:020}.*"):
        file.unlink()
    assert found(log_dir) == []


# The end of a closed segment


def test_zeros_after_a_closed_segment_lose_nothing(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()
    orders = log_dir / "orders-0"
    log = sorted(orders.glob("*.log"))[1]
    whole = log.read_bytes()
    log.write_bytes(whole + bytes(4096))
    (row,) = [row for row in found(orders) if row["file"] == str(log)]
    assert (row["severity"], row["code"]) == ("warning", "zero-tail-closed")
    assert (row["position"], row["endPosition"]) == (len(whole), len(whole) + 4096)
    assert kafkalog.recover(orders, clean=True, dry_run=True).partitions[0].bytes_cut == 0
    with pytest.raises(kafkalog.CorruptRecordError, match="whole records lie"):
        kafkalog.recover(orders, recovery_point=0, dry_run=True)
    kafkalog.recover(orders, salvage=True, out=tmp_path / "orders-0")
    assert (tmp_path / "orders-0" / log.name).read_bytes() == whole
    assert found(tmp_path / "orders-0") == []
    # Where a batch became zeros, its offsets are lost.
    last = last_batch(whole)
    log.write_bytes(whole[:last] + bytes(len(whole) - last))
    rows = [row for row in found(orders) if row["file"] == str(log)]
    assert [(row["severity"], row["code"], row["position"]) for row in rows] == [("error", "batch-torn", last)]
    assert rows[0]["message"].endswith("to 330 may be lost")


def last_batch(log: bytes) -> int:
    at = end = 0
    while end < len(log):
        at, end = end, end + 12 + struct.unpack_from(">i", log, end + 8)[0]
    return at


def test_of_two_equal_batches_the_first_is_in_its_place(tmp_path: Path) -> None:
    """A compacted log of one record a batch: the gap before has the length of the copy."""
    copy = plain(3)
    log = plain(0) + plain(1) + copy + copy + plain(4) + plain(8)
    folder = write_log(tmp_path / "t-0", (0, log))
    (row,) = found(folder)
    assert (row["code"], row["position"]) == ("batch-order", len(plain(0) + plain(1) + copy))
    assert row["message"].endswith("no offset is lost")
    reader = kafkalog.scan(folder, on_corrupt="skip")
    assert reader.read_all()["offset"].to_pylist() == [0, 1, 3, 4, 8]
    (lost,) = reader.lost.to_pylist()
    assert (lost["position"], lost["firstOffset"], lost["lastOffset"]) == (row["position"], None, None)


# Rules of loading: `recover` refuses the log, and so would a broker.

MINE = Producer(7, 0, 0)


def control(offset: int, kind: int) -> bytes:
    record = Record(offset, 1_700_000_000_000, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return byte_logs.batch([record], "none", Producer(7, 0), TRANSACTIONAL | CONTROL)


OPEN, INSIDE = plain(0, 2, MINE, TRANSACTIONAL), plain(2, 1, MINE)
REFUSED: dict[str, tuple[list[tuple[int, bytes]], int, str]] = {
    "a plain batch in an open transaction": ([(0, OPEN + INSIDE)], 0, "transaction open since offset 0"),
    "in the next segment": ([(0, OPEN), (2, INSIDE)], 2, "transaction open since offset 0"),
    "after one that ended": (
        [(0, plain(0) + control(1, 1)), (2, plain(2, 1, MINE, TRANSACTIONAL) + plain(3, 1, MINE))],
        2,
        "transaction open since offset 2",
    ),
    "a control record of type 99": ([(0, OPEN + control(2, 99))], 0, "COMMIT or ABORT"),
    "of a new leader": ([(0, OPEN + control(2, 2))], 0, "COMMIT or ABORT"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_load_refuses_is_an_error(name: str, tmp_path: Path) -> None:
    segments, base, told = REFUSED[name]
    folder = write_log(tmp_path / "t-0", *segments)
    (row,) = found(folder)
    assert (Path(row["file"]).name, row["severity"], row["code"]) == (f"{base:020}.log", "error", "batch-transaction")
    assert told in row["message"]
    with pytest.raises(kafkalog.errors.KafkaLogError):
        kafkalog.recover(folder, out=tmp_path / "refused" / "t-0")
    kafkalog.recover(folder, salvage=True, out=tmp_path / "saved" / "t-0")
    assert found(tmp_path / "saved" / "t-0") == []


@pytest.mark.parametrize("at", [0, 1, 2])
def test_offsets_that_overflow(at: int, tmp_path: Path) -> None:
    """A base offset near 2^63, which no checksum covers: the last offset seems to be below it."""
    batches = [plain(0, 5), plain(5, 5), plain(10, 5)]
    batches[at] = b"\x7f" + b"\xff" * 7 + batches[at][8:]
    folder = write_log(tmp_path / "t-0", (0, b"".join(batches)), (15, plain(15)))
    (row,) = found(folder)
    assert (row["severity"], row["code"], row["offset"]) == ("error", "batch-order", 5 * at)
    reader = kafkalog.scan(folder, on_corrupt="skip")
    offsets = reader.read_all()["offset"].to_pylist()
    assert offsets == [offset for offset in range(16) if offset // 5 != at or offset == 15]
    assert [(lost["firstOffset"], lost["lastOffset"]) for lost in reader.lost.to_pylist()] == [(5 * at, 5 * at + 4)]
    with pytest.raises(kafkalog.KafkaLogError):
        kafkalog.recover(folder, dry_run=True)


@pytest.mark.parametrize("data", [bytes(400), b"\xff" * 400], ids=["zeros", "noise"])
def test_a_swap_without_batches_ends_a_load(log_dir: Path, data: bytes) -> None:
    swap = log_dir / "orders-0" / f"{145:020}.log.swap"
    swap.write_bytes(data)
    with pytest.raises(kafkalog.KafkaLogError):
        kafkalog.recover(log_dir / "orders-0", on_loss="as_kafka", dry_run=True)
    assert (swap.name, "error", "swap-unreadable") in named(log_dir)
    # What compaction had not finished is removed.
    (log_dir / "orders-0" / f"{0:020}.log.cleaned").touch()
    kafkalog.recover(log_dir / "orders-0", on_loss="as_kafka", dry_run=True)
    assert "swap-unreadable" not in {code for _, _, code in named(log_dir)}


ROUNDS = tiers.pick(20, 60, 3000)
# Of a header of magic 2, what a load looks at or a reader needs: where, how many bytes.
FIELDS = [(0, 8), (12, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4), (66, 4)]


def changed(data: bytes, chance: random.Random) -> bytes:
    """A log, one field of one batch of which was changed before its checksum was taken."""
    batches = list(split(data))
    at = chance.randrange(len(batches))
    batch = bytearray(batches[at])
    begin, size = chance.choice(FIELDS)
    if begin + size > len(batch):
        return data
    other = chance.choice(batches)[begin : begin + size].ljust(size, b"\0")
    some = chance.choice([other, bytes(size), b"\xff" * size, chance.randbytes(size), bytes(size - 1) + b"\x63"])
    batch[begin : begin + size] = some
    batches[at] = byte_logs.sealed(bytes(batch))
    return b"".join(batches)


def split(log: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(log):
        size = 12 + struct.unpack_from(">i", log, at + 8)[0]
        yield log[at : at + size]
        at += size


def broken(folder: Path, chance: random.Random) -> str:
    """Break one file of a partition folder."""
    file = chance.choice([file for file in sorted(folder.iterdir()) if file.stat().st_size])
    data = file.read_bytes()
    if file.suffix == ".log":
        file.write_bytes(changed(data, chance))
    else:
        at = chance.randrange(len(data))
        some = chance.choice(
            [data[:at], data[:at] + chance.randbytes(2) + data[at + 2 :], bytes(len(data)), data + b"x\n"]
        )
        file.write_bytes(some)
    return file.name


def test_whatever_a_load_refuses_is_an_error(tmp_path: Path) -> None:
    """Random changes: ``recover``, which loads as a broker does after a crash, and ``verify`` agree."""
    source = DATA / "ledger-0"
    refused = []
    # Of these a load refuses some.
    for seed in sorted({*range(ROUNDS), 20, 35, 42, 48}):
        chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        folder = tmp_path / str(seed) / "ledger-0"
        shutil.copytree(source, folder)
        name = broken(folder, chance)
        if (why := refusal(folder)) is not None:
            found_too = any(row["severity"] == "error" for row in found(folder))
            refused.append((seed, name, why, found_too))
        shutil.rmtree(folder)
    assert refused
    assert [each for each in refused if not each[3]] == []


def refusal(folder: Path) -> str | None:
    try:
        kafkalog.recover(folder, dry_run=True)
    except (kafkalog.errors.KafkaLogError, ValueError) as error:
        return str(error)
    return None


def test_what_a_load_takes_is_none(tmp_path: Path) -> None:
    """Plain batches before a transaction, after one, and of another producer meanwhile."""
    log = plain(0, 1, MINE) + plain(1, 1, MINE, TRANSACTIONAL) + plain(2, 1, Producer(8, 0, 0))
    log += control(3, 1) + plain(4, 1, MINE)
    folder = write_log(tmp_path / "t-0", (0, log), (5, plain(5, 1, MINE)))
    assert found(folder) == []
    kafkalog.recover(folder, out=tmp_path / "out" / "t-0")


def test_log_files_alone_are_a_backup(log_dir: Path, tmp_path: Path) -> None:
    """The usual backup: a start, and ``rebuild``, write the transaction indexes first."""
    copy = tmp_path / "ledger-0"
    copy.mkdir()
    for file in (log_dir / "ledger-0").glob("*.log"):
        shutil.copy(file, copy)
    assert found(copy) == []
    for file in (log_dir / "ledger-0").glob("*.index"):
        shutil.copy(file, copy)
    assert {row["code"] for row in found(copy)} == {"txn-index-missing-entry"}


@pytest.mark.parametrize("line", ["-1 5", "3 -5"])
def test_a_negative_leader_epoch_or_offset(log_dir: Path, line: str, tmp_path: Path, capsys: Any) -> None:
    orders = log_dir / "orders-0"
    file = orders / "leader-epoch-checkpoint"
    file.write_text(f"0\n2\n0 0\n{line}\n", encoding="utf-8")
    (row,) = [row for row in found(log_dir) if row["severity"] == "error"]
    assert (row["file"], row["code"]) == (str(file), "epochs-unreadable")
    assert "recover --salvage" in row["advice"]
    assert main(["recover", str(orders), "--out", str(tmp_path / "orders-0")]) == 1
    assert str(file) in capsys.readouterr().err
    with pytest.raises(kafkalog.errors.CorruptIndexError, match="leader-epoch-checkpoint"):
        kafkalog.LogWriter(log_dir, "orders", 0)
    assert main(["recover", str(orders), "--salvage", "--out", str(tmp_path / "orders-0")]) == 0
    said = capsys.readouterr()
    assert "<bytes>" not in said.out + said.err
    assert found(tmp_path / "orders-0") == []


# The log dir


def test_folders_that_end_a_start_and_folders_that_do_not(log_dir: Path) -> None:
    """``UnifiedLog.parseTopicPartitionName`` of Kafka 4.3.1 decides, before any log is loaded."""
    for name in ("lost+found", ".snapshot", "tmp", "a+b-0", "sp ace-0", "orders-0.1f-stray"):
        (log_dir / name).mkdir()
    assert named(log_dir) == {
        ("lost+found", "error", "unknown-folder"),
        (".snapshot", "error", "unknown-folder"),
        ("tmp", "error", "unknown-folder"),
        ("a+b-0", "warning", "folder-name"),
        ("sp ace-0", "warning", "folder-name"),
    }
    rows = {Path(row["file"]).name: row for row in kafkalog.verify(log_dir).to_pylist()}
    assert rows["orders-0.1f-stray"]["code"] == "stray-folder"
    assert "never removes it" in rows["orders-0.1f-stray"]["advice"]


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda old: bytes(len(old)),
        lambda old: old.replace(b"version=1\n", b""),
        lambda old: old.replace(b"version=1", b"version=0"),
        lambda old: old[:3],
    ],
    ids=["empty", "zeros", "no version", "no broker.id", "cut"],
)
def test_identities_that_no_broker_starts_with(log_dir: Path, change: Callable[[bytes], bytes]) -> None:
    meta = log_dir / "meta.properties"
    meta.write_bytes(change(meta.read_bytes()))
    assert named(log_dir) == {("meta.properties", "error", "identity-unreadable")}


def test_a_rescue_names_a_damaged_identity(log_dir: Path) -> None:
    meta = log_dir / "meta.properties"
    for data, told in [
        (b"", "meta.properties is damaged or cut: expected version, node.id, cluster.id, found none"),
        (bytes(80), "meta.properties is damaged or cut: expected version, node.id, cluster.id, found none"),
        (b"\xff\xfe", "meta.properties is damaged: "),
        (None, "no meta.properties says"),
    ]:
        meta.unlink() if data is None else meta.write_bytes(data)
        (finding,) = inventory.open_disks([str(log_dir)])[1]
        assert finding.code == "unknown-disk"
        assert finding.message.startswith(told)


@pytest.mark.parametrize("change", [lambda old: old[:-9], lambda old: bytes(len(old)), lambda _: b""])
def test_a_damaged_metadata_snapshot_has_advice_of_its_own(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    log_dir = tmp_path / "logs"
    shutil.copytree(corpus.GOLDEN / "clean-restarts" / "data-0", log_dir)
    file = max((log_dir / "__cluster_metadata-0").glob("*.checkpoint"))
    file.write_bytes(change(file.read_bytes()))
    rows = [row for row in found(log_dir) if row["file"] == str(file)]
    assert {row["code"] for row in rows} == {"metadata-snapshot"}
    assert all("another controller" in row["advice"] for row in rows)


# What is said


def test_the_epochs_are_written_again_as_the_advice_says(log_dir: Path) -> None:
    file = log_dir / "orders-0" / "leader-epoch-checkpoint"
    expected = file.read_bytes()
    file.write_bytes(b"0\n1\n0 0\n")
    assert {row["code"] for row in found(log_dir)} == {"epochs-mismatch"}
    file.unlink()
    assert main(["rebuild", str(log_dir / "orders-0")]) == 0
    assert file.read_bytes() == expected


def test_it_ends_with_one_line_that_sums_up(log_dir: Path, capsys: Any) -> None:
    (log_dir / "lost+found").mkdir()
    assert main(["verify", "-J", str(log_dir)]) == 1
    *rows, last = map(json.loads, capsys.readouterr().out.splitlines())
    summary = last["summary"]
    files = [file for file in log_dir.rglob("*") if file.is_file()]
    assert summary.pop("seconds") >= 0
    assert summary == {
        "partitions": 4,
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        "errors": 1,
        "warnings": 0,
        "infos": len(rows) - 1,
    }
    command = [sys.executable, "-m", "kafkalog", "verify", str(log_dir), "-s", "error"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL) as shown:
        assert shown.wait(120) == 1
    os.close(theirs)
    lines = os.read(ours, 100_000).decode().splitlines()
    os.close(ours)
    assert lines[-1].startswith(f"4 partitions, {len(files)} files, ")
    assert f" bytes: 1 error, 0 warnings, {len(rows) - 1} infos; " in lines[-1]
    assert main(["verify", str(log_dir), "-s", "error"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1
