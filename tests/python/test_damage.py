"""``on_corrupt="skip"``: what is whole is read, and ``lost`` accounts for the rest to the byte."""

from __future__ import annotations

import json
import shutil
import struct
import time
from typing import TYPE_CHECKING, Any, Literal

import pytest

import corpus
import damages
import kafkalog
from kafkalog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

HERE = corpus.GOLDEN / "corrupt"
CASES: list[dict[str, Any]] = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
ORDERS = DATA / "orders-0"

Layout = Literal["binary", "view"]


def skip(path: Path, **options: Any) -> tuple[Any, list[dict[str, Any]], dict[str, int]]:
    with kafkalog.scan(path, on_corrupt="skip", **options) as reader:
        table = reader.read_all()
        return table, reader.lost.to_pylist(), reader.metrics


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.log"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_bytes_read_and_lost_are_the_bytes_of_the_files(case: dict[str, Any]) -> None:
    folder = HERE / case["name"] / "t-0"
    table, lost, metrics = skip(folder)
    assert metrics["bytes"] + metrics["bytes_lost"] == size_of(folder)
    assert metrics["bytes_lost"] == sum(row["endPosition"] - row["position"] for row in lost)
    assert metrics["lost"] == len(lost)
    if case["stop"] in ("corrupt", "unsupported"):
        assert [(row["segment"], row["position"]) for row in lost] == [(case["file"], case["position"])]
        assert table.num_rows >= 5
    elif case["stop"] == "whole":
        assert lost == []
    for layout, threads in (("binary", 3), ("view", 1), ("view", 4)):
        again = skip(folder, layout=layout, threads=threads)
        assert again[0].to_pylist() == table.to_pylist()
        assert again[1] == lost
    batches = kafkalog.scan_batches(folder, on_corrupt="skip")
    sizes: list[Any] = batches.read_all()["size"].to_pylist()
    gone = sum(row["endPosition"] - row["position"] for row in batches.lost.to_pylist())
    assert sum(sizes) + gone == size_of(folder)


@pytest.mark.parametrize(
    "name", ["clean-restarts/data-1", "compact", "retention", "internal-compacted", "kill-9", "v1-0.10.2.2"]
)
def test_a_healthy_log_loses_nothing(name: str) -> None:
    for folder in sorted((corpus.GOLDEN / name).rglob("*-[0-9]")):
        if next(folder.glob("*.log"), None) is None:
            continue
        table, lost, _ = skip(folder, starting_offsets="oldest")
        assert [row for row in lost if row["reason"] != "torn"] == [], folder
        assert table.equals(kafkalog.read_table(folder, starting_offsets="oldest"))


def test_a_missing_segment_is_named(tmp_path: Path) -> None:
    log = tmp_path / "orders-0"
    shutil.copytree(ORDERS, log)
    names = sorted(file.name for file in log.glob("*.log"))
    (log / names[1]).unlink()
    table, lost, _ = skip(tmp_path)
    first, after = (int(name.split(".")[0]) for name in names[1:3])
    assert lost == [
        {
            "topic": "orders",
            "partition": 0,
            "segment": names[1],
            "position": 0,
            "endPosition": 0,
            "firstOffset": first,
            "lastOffset": after - 1,
            "reason": "missing",
        }
    ]
    whole: list[Any] = kafkalog.read_table(ORDERS)["offset"].to_pylist()
    assert table["offset"].to_pylist() == [offset for offset in whole if not first <= offset < after]
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 5\n", encoding="utf-8")
    assert skip(tmp_path)[1] == []


def flip(log: Path, number: int, place: int, bit: int = 1) -> dict[str, Any]:
    """Flip bits of a byte of a batch, in the first segment that has so many; returns the batch as it was listed."""
    rows = kafkalog.scan_batches(log).read_all().to_pylist()
    row: dict[str, Any] = rows[number]
    with (log / row["segment"]).open("r+b") as file:
        file.seek(row["position"] + place)
        byte = file.read(1)[0]
        file.seek(row["position"] + place)
        file.write(bytes([byte ^ bit]))
    return row


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    return tmp_path / "orders-0"


@pytest.mark.parametrize("place", [0, 5, 6, 7, 8, 9, 11, 16, 18, 30, 70])
def test_offsets_by_bounds_columns_and_threads(orders: Path, place: int) -> None:
    """The same account however the log is read; the damage lies inside, before or after the bounds."""
    row = flip(orders, 3, place, 4)
    whole: list[Any] = kafkalog.read_table(ORDERS)["offset"].to_pylist()
    gone = range(row["baseOffset"], row["lastOffset"] + 1)
    for start, end in (
        (0, 10_000),
        (row["baseOffset"] + 1, row["lastOffset"] + 30),
        (gone.stop, 10_000),
        (0, gone.start),
    ):
        for threads in (1, 2):
            table, lost, _ = skip(
                orders, starting_offsets=start, ending_offsets=end, columns=["offset"], threads=threads
            )
            expected = [offset for offset in whole if start <= offset < end and offset not in gone]
            assert table["offset"].to_pylist() == expected
            seen = [(each["firstOffset"], each["lastOffset"]) for each in lost]
            touches = start < gone.stop and end > gone.start
            assert seen == ([(gone.start, gone.stop - 1)] if touches else [])


def test_indexes_and_times_are_hints(orders: Path) -> None:
    row = flip(orders, 4, 40)
    stamps = kafkalog.read_table(ORDERS, columns=["offset", "timestamp"])
    gone = range(row["baseOffset"], row["lastOffset"] + 1)
    stamped: list[Any] = stamps["timestamp"].to_pylist()
    middle = int(stamped[gone.stop + 20].timestamp() * 1000)
    for damage in ("none", "noise", "gone"):
        for index in [*orders.glob("*.index"), *orders.glob("*.timeindex")]:
            if damage == "gone":
                index.unlink()
            elif damage == "noise":
                index.write_bytes(bytes(range(240)))
        for damaged in (13, middle):
            found = skip(orders, starting_timestamp=damaged)[0]["offset"].to_pylist()
            sound = kafkalog.read_table(ORDERS, starting_timestamp=damaged)["offset"].to_pylist()
            assert found == [n for n in sound if n not in gone]
        table, lost, _ = skip(orders)
        assert table["offset"].to_pylist() == [n for n in stamps["offset"].to_pylist() if n not in gone]
        assert [each["reason"] for each in lost] == ["crc"]
        assert skip(orders, min_timestamp=middle)[0].num_rows > 0


def test_a_torn_end_is_accounted_for(orders: Path) -> None:
    last = max(orders.glob("*.log"))
    end = last.stat().st_size
    with last.open("ab") as file:
        file.write(struct.pack(">qi", 880, 500) + b"\0" * 20)
    table, lost, _ = skip(orders)
    assert table.num_rows == kafkalog.read_table(orders).num_rows
    assert [(row["position"], row["endPosition"], row["reason"]) for row in lost] == [(end, end + 32, "torn")]
    assert (lost[0]["firstOffset"], lost[0]["lastOffset"]) == (880, None)


def test_raise_stays_the_default(orders: Path) -> None:
    flip(orders, 3, 40)
    with pytest.raises(kafkalog.CorruptRecordError):
        kafkalog.read_table(orders)
    log = kafkalog.PartitionLog(orders)
    with log.scan(on_corrupt="skip") as reader:
        assert reader.read_all().num_rows > 0
        assert reader.lost.num_rows == 1
    assert log.batches(on_corrupt="skip").read_all()["isValid"].to_pylist().count(False) == 0


def command(*words: str | Path, capsys: Any) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_commands_go_on_after_damage(orders: Path, tmp_path: Path, capsys: Any) -> None:
    row = flip(orders, 3, 8)
    gone = row["lastOffset"] - row["baseOffset"] + 1
    end = row["position"] + row["size"]
    says = f"bytes {row['position']} to {end - 1}: skipped (length): offsets {row['baseOffset']} to"
    assert command("cat", orders, "-f", "%o\\n", capsys=capsys)[0] == 1
    code, out, error = command("cat", orders, "-f", "%o\\n", "--on-corrupt", "skip", capsys=capsys)
    assert (code, len(out.split())) == (1, 880 - gone)
    assert says in error
    file = tmp_path / "out.jsonl"
    code, _, error = command("export", orders, file, "--on-corrupt", "skip", capsys=capsys)
    assert (code, len(file.read_bytes().splitlines())) == (1, 880 - gone)
    assert says in error
    assert command("stats", orders, capsys=capsys)[0] == 1
    code, out, _ = command("stats", orders, "--on-corrupt", "skip", "-J", capsys=capsys)
    sums = json.loads(out)
    assert (code, sums["records"], sums["validBytes"]) == (0, 880 - gone, size_of(orders) - row["size"])
    # A torn end is no damage.
    whole = tmp_path / "whole" / "orders-0"
    shutil.copytree(ORDERS, whole)
    with max(whole.glob("*.log")).open("ab") as log:
        log.write(bytes(1000))
    assert command("cat", whole, "-f", "%o\\n", "--on-corrupt", "skip", capsys=capsys)[0] == 0


def test_recover_says_what_it_lets_stand(orders: Path) -> None:
    """Kafka keeps a batch that begins below the end of the one before; a reader is refused."""
    for index in [*orders.glob("*.index"), *orders.glob("*.timeindex")]:
        index.unlink()
    assert [note.kind for note in kafkalog.recover(orders, clean=False, dry_run=True).partitions[0].notes].count(
        "out of order"
    ) == 0
    row = flip(orders, 5, 7, 16)
    report = kafkalog.recover(orders, clean=False, dry_run=True)
    (note,) = [note for note in report.partitions[0].notes if note.kind == "out of order"]
    # The offset was raised, so it is the next batch that contradicts it.
    assert (
        f"the batch at byte {row['position'] + row['size']} begins at offset {row['lastOffset'] + 1}, below"
        in note.text
    )
    assert "salvage" in note.text
    with pytest.raises(kafkalog.CorruptRecordError):
        kafkalog.read_table(orders)


@pytest.mark.parametrize("kind", damages.ADVERSARIAL)
@pytest.mark.sampled(2)
def test_the_time_is_linear_in_the_file(tmp_path: Path, kind: str) -> None:
    """Sixteen times the bytes take about sixteen times as long; checksums taken one by one would take 256 times."""
    log = tmp_path / "t-0"
    log.mkdir()
    (log / f"{1000:020}.log").touch()

    def seconds(size: int) -> float:
        (log / f"{0:020}.log").write_bytes(damages.ADVERSARIAL[kind](size))
        begun = time.process_time()
        reader = kafkalog.scan_batches(log, on_corrupt="skip")
        assert reader.read_all().num_rows == 0
        taken = time.process_time() - begun
        assert [(row["position"], row["endPosition"]) for row in reader.lost.to_pylist()] == [(0, size)]
        return taken

    small = min(seconds(128 << 10) for _ in range(3))
    assert seconds(2 << 20) < 64 * max(small, 0.002)


def test_committed_records_around_a_damaged_batch(tmp_path: Path) -> None:
    """Damage in a marker or in data costs the offsets of its batch and no other.

    A lost ABORT marker is in the transaction index, also in that of the active segment.
    """
    source = corpus.GOLDEN / "txn" / "data-0" / "txn-aborts-0"
    options: dict[str, Any] = {"isolation_level": "read_committed", "starting_offsets": "oldest", "columns": ["offset"]}
    committed: list[Any] = kafkalog.read_table(source, **options)["offset"].to_pylist()
    assert len(committed) < kafkalog.read_table(source, starting_offsets="oldest").num_rows, "some were aborted"
    batches = kafkalog.scan_batches(source, starting_offsets="oldest").read_all().to_pylist()
    markers = [batch for batch in batches if batch["isTransactional"] and batch["isControl"]]
    data = [batch for batch in batches if batch["isTransactional"] and not batch["isControl"]]
    assert len(markers) > 5
    assert len(data) > 20
    for number, batch in enumerate(markers + data[::3]):
        folder = tmp_path / str(number) / source.name
        shutil.copytree(source, folder)
        segment = folder / batch["segment"]
        begin, end = batch["position"], batch["position"] + batch["size"]
        damaged = bytearray(segment.read_bytes())
        damaged[end - 1] ^= 1
        segment.write_bytes(damaged)
        table, lost, _ = skip(folder, **options)
        assert [(row["segment"], row["position"], row["endPosition"]) for row in lost] == [
            (batch["segment"], begin, end)
        ]
        others = [offset for offset in committed if not batch["baseOffset"] <= offset <= batch["lastOffset"]]
        assert table["offset"].to_pylist() == others
