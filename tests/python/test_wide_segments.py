"""Segments that span more than 2^31 offsets, as cleaners before 2.0 left them (KAFKA-6264): every verb reads them.

Kafka's classes read and split them (``tests/golden/log/recover/split-overflow`` has what they answered).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import command
import corpus
import kafkalog
from byte_logs import Record, batch, messages

FAR = 2_147_483_653
OFFSETS = [0, 1, FAR, FAR + 1, FAR + 2**32]
TIME = 1_700_000_000_000


def records(offsets: list[int]) -> list[Record]:
    return [Record(offset, TIME + n, b"k%d" % n, b"v") for n, offset in enumerate(offsets)]


@pytest.fixture(params=["batches", "wrappers"])
def log_dir(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """One segment with offsets 0 and 1, and others far beyond."""
    folder = tmp_path / "data" / "t-0"
    folder.mkdir(parents=True)
    parts = [records(OFFSETS)[:2], records(OFFSETS)[2:4], records(OFFSETS)[4:]]
    encoded = [batch(each) if request.param == "batches" else messages(each, 1, "gzip") for each in parts]
    (folder / f"{0:020}.log").write_bytes(b"".join(encoded))
    return folder.parent


def offsets_of(path: Path, **options: Any) -> list[int]:
    found: Any = kafkalog.read_table(path, columns=["offset"], **options)["offset"].to_pylist()
    return [*found]


def test_reading(log_dir: Path) -> None:
    assert offsets_of(log_dir) == OFFSETS
    assert offsets_of(log_dir, starting_offsets=FAR) == OFFSETS[2:]
    assert offsets_of(log_dir, starting_timestamp=TIME + 3) == OFFSETS[3:]
    assert offsets_of(log_dir, on_corrupt="skip") == OFFSETS
    assert offsets_of(log_dir, isolation_level="read_committed") == OFFSETS
    assert sum(each.num_rows for each in kafkalog.scan_batches(log_dir)) == 3
    logs = kafkalog.dataset(log_dir)
    assert logs.count_rows() == len(OFFSETS)
    assert logs.count_rows(filter=pc.field("offset") >= FAR) == 3
    log = kafkalog.PartitionLog(log_dir / "t-0")
    assert log.log_end_offset == OFFSETS[-1] + 1
    assert log.offset_for_timestamp(TIME + 2).offset == FAR  # type: ignore[union-attr]
    assert log.statistics()["last_offset"] == OFFSETS[-1]


@pytest.mark.full
def test_the_shell(log_dir: Path, tmp_path: Path) -> None:
    for words in (["cat"], ["stats"], ["ls"], ["explain"], ["dump", "--files"]):
        path = {"dump": log_dir / "t-0" / f"{0:020}.log", "cat": log_dir / "t-0"}.get(words[0], log_dir)
        done = command.call(*words, path)
        assert (done.returncode, done.stderr) == (0, ""), words
    done = command.call("offsets", log_dir, "--time", "max-timestamp")
    assert str(OFFSETS[-1]) in done.stdout
    done = command.call("verify", log_dir, "-J")
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert not [each for each in said if each.get("severity") == "error"], said
    # Of OFFSETS, those in whole batches below it.
    runs: list[tuple[list[str | Path], list[int]]] = [
        (["truncate", log_dir / "t-0", tmp_path / "cut", "--offset", str(OFFSETS[4])], OFFSETS[:4]),
        (["rewrite", log_dir, tmp_path / "rewritten", "--drop-key", "k1"], [0, *OFFSETS[2:]]),
        (["compact", log_dir, tmp_path / "compacted", "--config", "cleanup.policy=compact"], OFFSETS),
        (["recover", log_dir, "--out", tmp_path / "recovered"], OFFSETS),
    ]
    for argv, expected in runs:
        done = command.call(*argv)
        assert done.returncode == 0, done.stderr
        (out,) = (each for each in argv if isinstance(each, Path) and log_dir not in {each, each.parent})
        assert offsets_of(out) == expected, argv
        assert command.call("verify", out).returncode == 0, argv


@pytest.mark.parametrize("case", ["split-overflow", "split-wrapper"])
def test_what_kafka_split_holds_the_same_records(case: str) -> None:
    """Kafka's loader wrote `after`."""
    folders = [corpus.GOLDEN / "log" / "recover" / case / when / "orders-0" for when in ("before", "after")]
    before, after = (kafkalog.read_table(folder, columns=["offset", "timestamp", "key", "value"]) for folder in folders)
    # Files that stayed as they were are not in `after`.
    begun = before["offset"].to_pylist().index(after["offset"][0].as_py())
    assert before.slice(begun).equals(after)
    assert after.num_rows > 0


def test_damage_costs_only_itself(log_dir: Path) -> None:
    """A flipped bit in the first batch, and one in the offset of another, which no checksum covers."""
    file = log_dir / "t-0" / f"{0:020}.log"
    whole = bytearray(file.read_bytes())
    whole[70] ^= 1
    file.write_bytes(whole)
    assert offsets_of(log_dir, on_corrupt="skip") == OFFSETS[2:]
    whole[70] ^= 1
    near = [batch(records([n])) for n in range(9)]
    moved = bytearray(near[4])
    moved[2] ^= 1
    file.write_bytes(b"".join([*near[:4], bytes(moved), *near[5:]]))
    with kafkalog.scan(log_dir, columns=["offset"], on_corrupt="skip") as reader:
        assert reader.read_all()["offset"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8]
        lost = reader.lost.to_pylist()
    assert [(each["reason"], each["firstOffset"], each["lastOffset"]) for each in lost] == [("order", 4, 4)]
    with pytest.raises(kafkalog.CorruptRecordError, match="base offset: expected at least"):
        offsets_of(log_dir)


def test_rescue_loses_nothing(log_dir: Path) -> None:
    report = kafkalog.rescue([log_dir], dry_run=True)
    (choice,) = (each for each in report.plan.choices if each.topic == "t")
    assert (choice.lost, choice.log_end_offset) == ((), OFFSETS[-1] + 1)
