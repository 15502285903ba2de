"""``latest_per_key`` against a dict over all records: golden logs that a real cleaner compacted, and random ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog import LogConfig, LogWriter, Record

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

COLUMNS = ["topic", "partition", "offset", "key", "value"]
COMPACTED = sorted(
    path for case in ("compact", "internal-compacted") for path in (corpus.GOLDEN / case).glob("data-*/*-[0-9]*")
)


def naive(rows: pa.Table, *, tombstones: bool) -> list[dict[str, Any]]:
    """Keep the last row of each key, by a dict of everything."""
    last: dict[Any, dict[str, Any]] = {}
    for row in rows.to_pylist():
        if row["key"] is not None:
            last[row["topic"], row["partition"], row["key"]] = row
    found = [row for row in last.values() if tombstones or row["value"] is not None]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def latest(path: Any, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = kafkalog.read_table(path, columns=COLUMNS, latest_per_key=True, **options).to_pylist()
    return rows


@pytest.mark.parametrize("folder", COMPACTED, ids=lambda path: f"{path.parent.parent.name}-{path.name}")
@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_golden_logs(folder: Path, level: Any) -> None:
    every = kafkalog.read_table(folder, columns=COLUMNS, isolation_level=level)
    for tombstones in (False, True):
        expected = naive(every, tombstones=tombstones)
        assert latest(folder, isolation_level=level, tombstones=tombstones) == expected
        assert latest(folder, isolation_level=level, tombstones=tombstones, threads=3, batch_rows=10) == expected


def test_random_logs(tmp_path: Path) -> None:
    chance = random.Random(11)  # noqa: S311 - to be repeated, not secret
    for partition in range(3):
        config = LogConfig(segment_bytes=4000, compression_type=["uncompressed", "zstd", "gzip"][partition])
        with LogWriter(tmp_path, "t", partition, config=config, batch_bytes=500) as log:
            keys = [10, 100, 1000][partition]
            for _ in range(60):
                log.append(
                    [
                        Record(
                            None if chance.random() < 0.2 else b"%d" % chance.randrange(9),
                            b"%d" % chance.randrange(keys),
                            1_700_000_000_000,
                        )
                        for _ in range(chance.randrange(1, 20))
                    ]
                )
    every = kafkalog.read_table(tmp_path, columns=COLUMNS)
    assert latest(tmp_path) == naive(every, tombstones=False)
    assert latest(tmp_path, tombstones=True) == naive(every, tombstones=True)
    within = {"starting_offsets": 50, "ending_offsets": 300}
    every = kafkalog.read_table(tmp_path, columns=COLUMNS, **within)  # type: ignore[arg-type]
    assert latest(tmp_path, **within) == naive(every, tombstones=False)
    assert (
        kafkalog.PartitionLog(tmp_path / "t-1").scan(columns=["offset"], latest_per_key=True).read_all().num_rows > 50
    )


def test_keys_and_values_need_not_be_asked_for(tmp_path: Path) -> None:
    with LogWriter(tmp_path, "t") as log:
        log.append([Record(b"1", b"a"), Record(b"2", b"b"), Record(b"3", b"a"), Record(b"4", None)])
    rows = kafkalog.read_table(tmp_path, columns=["offset"], latest_per_key=True, layout="view")
    assert rows["offset"].to_pylist() == [1, 2]


def test_tombstones_without_latest() -> None:
    with pytest.raises(ValueError, match="tombstones=True is for latest_per_key=True"):
        kafkalog.ReadOptions(tombstones=True)


def test_damage_is_an_error(tmp_path: Path) -> None:
    with LogWriter(tmp_path, "t") as log:
        log.append([Record(b"1" * 100, b"a")])
        log.append([Record(b"2" * 100, b"b")])
    (file,) = tmp_path.glob("t-0/*.log")
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError):
        latest(tmp_path)
