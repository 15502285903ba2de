"""No verb that loads a log takes a whole batch out of it unasked: hints, leftovers and damage, each with each verb."""

from __future__ import annotations

import itertools
import shutil
import struct
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from kafkalog import KafkaLogError, LogConfig, LogWriter, Record
from kafkalog.cli import main
from recover_cases import digests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORDS = 3001
START = "log-start-offset-checkpoint"
MARKER = ".kafka_cleanshutdown"


def written(root: Path) -> Path:
    """A log of three segments, offsets 0 to 3000, in batches of at most 2 kB, and a clean stop."""
    config = LogConfig(segment_bytes=300_000, index_interval_bytes=4096)
    with LogWriter(root, "orders", 0, config=config, batch_bytes=2000) as writer:
        for first in range(0, RECORDS, 100):
            rows = range(first, min(first + 100, RECORDS))
            writer.append([Record(b"%08d" % n * 30, b"k%d" % n, 1_700_000_000_000 + n) for n in rows])
    assert len(list((root / "orders-0").glob("*.log"))) == 3
    return root / "orders-0"


def offsets_in(folder: Path) -> set[int]:
    """The offsets of every whole batch of a folder's live ``.log`` files, wherever it begins; without kafkalog."""
    found: set[int] = set()
    for log in folder.glob("*.log"):
        data, at = log.read_bytes(), 0
        while at + 61 <= len(data):
            base, length = struct.unpack_from(">qi", data, at)
            end = at + 12 + length
            if data[at + 16] == 2 and length >= 49 and end <= len(data):
                crc, delta = struct.unpack_from(">I", data, at + 17)[0], struct.unpack_from(">i", data, at + 23)[0]
                if crc32c(data[at + 21 : end]) == crc:
                    found.update(range(base, base + delta + 1))
                    at = end
                    continue
            at += 1
    return found


TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)  # noqa: PLW2901 - bit by bit
    TABLE.append(number)


def crc32c(data: bytes) -> int:
    """CRC-32C by its definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def start_beyond(folder: Path) -> None:
    (folder.parent / START).write_text("0\n1\norders 0 4001\n")


def swap_of(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def leave(folder: Path) -> None:
        original = min(folder.glob("*.log"))
        original.with_name(original.name + ".swap").write_bytes(content(original.read_bytes()))

    return leave


def foreign(data: bytes) -> bytes:
    """Another partition's segment of the same offsets: whole, and of the same length."""
    fresh, at = b"", 0
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        batch = bytearray(data[at:end])
        batch[-1 - 30] ^= 0xFF
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
        fresh, at = fresh + bytes(batch), end
    return fresh


def index_beyond(folder: Path) -> None:
    active = max(folder.glob("*.log"))
    data = active.read_bytes()
    active.write_bytes(data[:-5])
    base = int(active.stem)
    index = active.with_suffix(".index")
    index.write_bytes(index.read_bytes() + struct.pack(">ii", RECORDS - base + 5, len(data) + 100))


def flipped(folder: Path) -> None:
    active = max(folder.glob("*.log"))
    data = bytearray(active.read_bytes())
    data[len(data) // 4] ^= 1
    active.write_bytes(data)
    (folder.parent / MARKER).unlink()


def unindexed(folder: Path) -> None:
    """Damage in a closed segment whose index is gone: loading rebuilds it, and cuts what follows."""
    closed = min(folder.glob("*.log"))
    data = bytearray(closed.read_bytes())
    data[len(data) // 2] ^= 1
    closed.write_bytes(data)
    closed.with_suffix(".index").unlink()


def unpadded(folder: Path) -> None:
    active = max(folder.glob("*.log"))
    active.rename(active.with_name(f"{int(active.stem)}.log"))


HURTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "start beyond the end": (start_beyond, "3001 whole records lie below the log start 4001 that the checkpoint names"),
    "empty swap": (swap_of(lambda _: b""), "whole records lie in 00000000000000000000.log"),
    "torn swap": (swap_of(lambda data: data[: len(data) // 2]), "whole records lie in 00000000000000000000.log"),
    "random swap": (swap_of(lambda data: bytes(range(256)) * (len(data) // 256)), "whole records lie in 000"),
    "swap of another partition": (swap_of(foreign), "whole records lie in 00000000000000000000.log"),
    "index beyond the end": (index_beyond, "where the offset index would end the log"),
    "flipped bit": (flipped, "after the damage at byte"),
    "damage and no index": (unindexed, "after the damage at byte"),
    "unpadded name": (unpadded, "not padded to 20 digits"),
}

VERBS: dict[str, Callable[[Path, Path], Any]] = {
    "recover the log dir": lambda root, _: kafkalog.recover(root),
    "recover the partition": lambda root, _: kafkalog.recover(root / "orders-0"),
    "recover elsewhere": lambda root, out: kafkalog.recover(root, out=out),
    "recover, dry": lambda root, _: kafkalog.recover(root, dry_run=True),
    "LogWriter": lambda root, _: LogWriter(root, "orders", 0),
    "retain": lambda root, out: kafkalog.retain(root, out, config=LogConfig()),
    "compact": lambda root, out: kafkalog.compact(root, out, config=LogConfig(cleanup_policy="compact")),
    "rewrite": lambda root, out: kafkalog.rewrite(root, out, drop_keys=[b"none"]),
    "truncate": lambda root, out: kafkalog.truncate(root / "orders-0", out, offset=2900),
}


@pytest.mark.parametrize(("hurt", "verb"), list(itertools.product(HURTS, VERBS)))
@pytest.mark.sampled(9)
def test_refused_and_unchanged(tmp_path: Path, hurt: str, verb: str) -> None:
    root = tmp_path / "logs"
    hurting, said = HURTS[hurt]
    hurting(written(root))
    before = digests(tmp_path)
    with pytest.raises(KafkaLogError) as refused:
        VERBS[verb](root, tmp_path / "out")
    assert said in str(refused.value)
    assert "salvage" in str(refused.value)
    assert "as_kafka" in str(refused.value)
    assert digests(tmp_path) == before


@pytest.mark.parametrize("hurt", HURTS)
@pytest.mark.sampled(2)
def test_both_ways_out(tmp_path: Path, hurt: str) -> None:
    """Salvage keeps every whole batch, in any file; a broker's start takes what the refusal has counted."""
    root = tmp_path / "logs"
    folder = written(root)
    HURTS[hurt][0](folder)
    whole = offsets_in(folder)
    kafkalog.recover(root, out=tmp_path / "saved", on_loss="salvage")
    assert offsets_in(tmp_path / "saved" / "orders-0") >= whole
    done = kafkalog.recover(root, out=tmp_path / "kafka", on_loss="as_kafka")
    notes = [note for partition in done.partitions for note in partition.notes]
    assert any(note.kind == "lost" for note in notes)
    end = done.partitions[0].log_end_offset
    left = {n for n in offsets_in(tmp_path / "kafka" / "orders-0") if n < end}
    if hurt not in {"swap of another partition", "unpadded name"}:
        assert left < whole


def test_in_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "logs"
    start_beyond(written(root))
    before = digests(root)
    assert main.main(["recover", str(root)]) == 1
    said = capsys.readouterr().err
    assert "3001 whole records lie below the log start 4001 that the checkpoint names" in said
    assert "--salvage" in said
    assert "--as-kafka" in said
    source = tmp_path / "rows.jsonl"
    source.write_text('{"value": "x"}\n')
    assert main.main(["import", str(source), str(root), "-t", "orders", "-p", "0", "--text"]) == 1
    assert "3001 whole records lie below" in capsys.readouterr().err
    assert digests(root) == before
    assert main.main(["recover", str(root), "--as-kafka"]) == 0
    assert "3001 whole records lie below" in capsys.readouterr().out
    assert not offsets_in(root / "orders-0")


def test_no_loss(tmp_path: Path) -> None:
    """A torn tail is cut, whatever the marker says; a start within the log takes nothing."""
    root = tmp_path / "logs"
    folder = written(root)
    (root / START).write_text("0\n1\norders 0 1500\n")
    active = max(folder.glob("*.log"))
    active.write_bytes(active.read_bytes()[:-5])
    whole = offsets_in(folder)
    for clean in (True, False):
        copy = tmp_path / f"copy-{clean}"
        shutil.copytree(root, copy)
        if not clean:
            (copy / MARKER).unlink()
        with LogWriter(copy, "orders", 0) as writer:
            info = writer.append([Record(b"more")])
        assert info.first_offset == max(whole) + 1
        table = kafkalog.read_table(copy, starting_offsets="oldest", columns=["offset"])
        assert set(table["offset"].to_pylist()) == whole | {info.first_offset}
    assert kafkalog.recover(root).partitions[0].bytes_cut > 0
    assert offsets_in(folder) == whole


def test_an_interrupted_compaction(tmp_path: Path) -> None:
    """A leftover with fewer batches takes no place unasked; as Kafka, it does."""
    root = tmp_path / "logs"
    folder = written(root)
    first = min(folder.glob("*.log"))
    last = kafkalog.PartitionLog(folder).segments[1].base_offset - 1
    kept = [n for n in range(last + 1) if n % 3 == 0 or n == last]
    records = kafkalog.read_table(root, ending_offsets=last + 1)
    with LogWriter(tmp_path / "cleaned", "orders", 0, config=LogConfig(segment_bytes=1 << 30)) as writer:
        writer.append(records.take(kept).select(["key", "value", "timestamp", "offset"]), keep_offsets=True)
    cleaned = min((tmp_path / "cleaned" / "orders-0").glob("*.log"))
    swap = first.with_name(first.name + ".swap")
    swap.write_bytes(cleaned.read_bytes())
    with pytest.raises(KafkaLogError, match=f"in {first.name}, which {swap.name} would replace"):
        kafkalog.recover(root)
    saved = tmp_path / "saved"
    kafkalog.recover(root, out=saved, on_loss="salvage")
    assert offsets_in(saved / "orders-0") == set(range(RECORDS))
    kafkalog.recover(root, on_loss="as_kafka")
    table = kafkalog.read_table(root, columns=["offset"])["offset"].to_pylist()
    assert table == [*kept, *range(last + 1, RECORDS)]


def test_a_swap_that_holds_its_original(tmp_path: Path) -> None:
    """A leftover with all batches takes its place without a word."""
    folder = written(tmp_path / "logs")
    swap_of(lambda data: data)(folder)
    kafkalog.recover(tmp_path / "logs")
    assert not list(folder.glob("*.swap"))
    assert offsets_in(folder) == set(range(RECORDS))


@pytest.mark.parametrize("lock", [None, b"", b"mine"])
def test_a_refused_writer_leaves_the_log_dir_as_it_is(tmp_path: Path, lock: bytes | None) -> None:
    """No topic id, which is written when the log was loaded; a lock file only if there was one."""
    folder = written(tmp_path)
    if lock is not None:
        (tmp_path / ".lock").write_bytes(lock)
    (tmp_path / START).write_text("0\n1\norders 0 4001\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(KafkaLogError, match="below the log start 4001"):
        LogWriter(tmp_path, "orders", 0, topic_id="0rtfp9DjROqBpwPllfDtAQ")
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before
    (tmp_path / START).unlink()
    LogWriter(tmp_path, "orders", 0, topic_id="0rtfp9DjROqBpwPllfDtAQ").close()
    assert "topic_id: 0rtfp9DjROqBpwPllfDtAQ" in (folder / "partition.metadata").read_text()
