"""Leftovers beside a log (``.swap``, ``.cleaned``, ``.deleted``) hide no record of it."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog import LogConfig, LogWriter

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 600


def write(log_dir: Path, topic: str = "orders") -> Path:
    """A log of four or more segments, offsets 0 to 599."""
    table = pa.table({"value": [b"%s %090d" % (topic.encode(), n) for n in range(COUNT)]})
    with LogWriter(log_dir, topic, config=LogConfig(segment_bytes=16_000), batch_bytes=1_000) as writer:
        writer.append(table)
    return log_dir / f"{topic}-0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = write(tmp_path / "logs")
    assert len(logs(found)) > 3
    return found


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def offsets(folder: Path, on_corrupt: Any = "raise") -> list[Any]:
    table = kafkalog.read_table(folder, columns=["offset", "value"], on_corrupt=on_corrupt)
    values: list[Any] = table["value"].to_pylist()
    assert {value[:6] for value in values} == {b"orders"}
    assert kafkalog.dataset(folder, on_corrupt=on_corrupt).count_rows() == table.num_rows
    return table["offset"].to_pylist()


def batch_ends(data: bytes) -> list[int]:
    ends, at = [0], 0
    while at < len(data):
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        ends.append(at)
    return ends


def states(data: bytes, other: bytes) -> dict[str, bytes]:
    """List possible leftovers of ``data``."""
    ends = batch_ends(data)
    middle = len(ends) // 2
    flipped = bytearray(data)
    flipped[ends[middle] + 70] ^= 1
    return {
        "empty": b"",
        "zeros": bytes(len(data)),
        "random": random.Random(1).randbytes(len(data)),  # noqa: S311 - to be repeated, not secret
        "torn": data[: ends[middle] + 30],
        "cut between batches": data[: ends[middle]],
        "without its first batch": data[ends[1] :],
        "without a batch": data[: ends[middle]] + data[ends[middle + 1] :],
        "damaged": bytes(flipped),
        "of another partition": other,
        "twice": data + data,
        "text": b"no batch at all",
    }


@pytest.mark.parametrize("suffix", [".swap", ".cleaned", ".deleted"])
@pytest.mark.parametrize("state", states(bytes(500), b""))
@pytest.mark.sampled(5)
def test_a_leftover_hides_nothing(folder: Path, tmp_path: Path, suffix: str, state: str) -> None:
    """No leftover hides a record, whichever segment it stands beside."""
    other = logs(write(tmp_path / "other", "other"))
    for at, log in enumerate(logs(folder)):
        leftover = beside(log, suffix)
        leftover.write_bytes(states(log.read_bytes(), other[at].read_bytes())[state])
        for on_corrupt in ("raise", "skip"):
            assert offsets(folder, on_corrupt) == list(range(COUNT)), (log.name, on_corrupt)
        opened = kafkalog.PartitionLog(folder)
        assert opened.log_end_offset == COUNT
        assert opened.statistics()["records"] == COUNT
        found = kafkalog.verify(folder).to_pylist()
        assert leftover.name in {each["file"].rsplit("/", 1)[-1] for each in found}
        leftover.unlink()


@pytest.mark.parametrize("state", states(bytes(500), b""))
def test_salvage_keeps_the_originals(folder: Path, tmp_path: Path, state: str) -> None:
    """It asks of a swap what reading asks."""
    log, other = logs(folder)[1], logs(write(tmp_path / "other", "other"))[1]
    beside(log, ".swap").write_bytes(states(log.read_bytes(), other.read_bytes())[state])
    kafkalog.recover(folder, salvage=True)
    assert not list(folder.glob("*.swap"))
    assert offsets(folder) == list(range(COUNT))


def test_a_leftover_elsewhere_hides_nothing(folder: Path) -> None:
    """Under a base offset that is no segment's: inside of one, or of bytes that are no batch, after all of them."""
    data = logs(folder)[1].read_bytes()
    for base, content in ((7, data), (7, b""), (COUNT, b""), (COUNT, bytes(100)), (9_999, b"text"), (9_999, b"")):
        leftover = folder / f"{base:020}.log.swap"
        leftover.write_bytes(content)
        assert offsets(folder) == list(range(COUNT)), (base, content)
        assert kafkalog.PartitionLog(folder).log_end_offset == COUNT
        leftover.unlink()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_whole_copy_stands_for_the_original(folder: Path, *, is_damaged: bool) -> None:
    """The more so where that is damaged."""
    log = logs(folder)[1]
    data = log.read_bytes()
    beside(log, ".swap").write_bytes(data)
    if is_damaged:
        log.write_bytes(data[:70] + bytes([data[70] ^ 1]) + data[71:])
    assert beside(log, ".swap").name in {each.name for each in kafkalog.PartitionLog(folder).segments}
    assert offsets(folder) == list(range(COUNT))


def test_a_split_that_a_crash_cut_short(folder: Path) -> None:
    """Two swaps hold a segment together; it goes, then they get their names one by one."""
    log = logs(folder)[1]
    data = log.read_bytes()
    cut = batch_ends(data)[3]
    second = int.from_bytes(data[cut : cut + 8], "big")
    (first, last) = (beside(log, ".swap"), folder / f"{second:020}.log.swap")
    first.write_bytes(data[:cut])
    last.write_bytes(data[cut:])
    assert offsets(folder) == list(range(COUNT))
    names = {each.name for each in kafkalog.PartitionLog(folder).segments}
    assert {first.name, last.name} <= names
    assert log.name not in names
    log.unlink()
    assert offsets(folder) == list(range(COUNT))
    first.rename(log)
    assert offsets(folder) == list(range(COUNT))


def test_a_compaction_that_a_crash_cut_short(folder: Path) -> None:
    """The live logs count as far as they are there; of what is gone, the swap's records."""
    first, second, third, *_ = logs(folder)
    datas = [each.read_bytes() for each in (first, second, third)]
    # Every other batch of three segments.
    kept = [
        data[a:b] for data in datas for a, b in list(zip(batch_ends(data), batch_ends(data)[1:], strict=False))[::2]
    ]
    swap = beside(first, ".swap")
    swap.write_bytes(b"".join(kept))
    assert offsets(folder) == list(range(COUNT))
    shutil.move(first, beside(first, ".deleted"))
    found = offsets(folder)
    base = int(second.name[:20])
    assert found[-(COUNT - base) :] == list(range(base, COUNT))
    expected = [offset for offset in range(base) if offset in records(kept)]
    assert found[: len(found) - (COUNT - base)] == expected
    for each in (second, third):
        shutil.move(each, beside(each, ".deleted"))
    rest = int(logs(folder)[0].name[:20])
    assert offsets(folder) == sorted(records(kept)) + list(range(rest, COUNT))


def records(batches: list[bytes]) -> set[int]:
    """The offsets of batches without gaps, by their headers."""
    found: set[int] = set()
    for each in batches:
        base = int.from_bytes(each[:8], "big")
        found |= set(range(base, base + int.from_bytes(each[57:61], "big")))
    return found
