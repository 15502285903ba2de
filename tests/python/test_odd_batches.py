"""Batches and messages that look wrong, and that Kafka reads.

``DefaultRecordBatch.iterator`` and ``AbstractLegacyRecordBatch.DeepRecordsIterator`` gave these rows (Kafka 4.3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import command
import kafkalog
import naive
import odd_batches
from byte_logs import TRANSACTIONAL, Producer, Record, batch, sealed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CASES, T = odd_batches.cases(), odd_batches.T
LAST = batch([Record(50, T, b"k", b"v")])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.sampled(2)
def test_what_kafka_reads_is_read(name: str, on_corrupt: str, tmp_path: Path) -> None:
    """Also where another batch of the segment is damaged."""
    log, expected = CASES[name]
    folder = tmp_path / "data" / "t-0"
    folder.mkdir(parents=True)
    file = folder / f"{0:020}.log"
    file.write_bytes(log)
    options = {"columns": ["offset", "timestamp"], "on_corrupt": on_corrupt}
    table = kafkalog.read_table(tmp_path / "data", **options)  # type: ignore[arg-type]
    rows = list(zip(table["offset"].to_pylist(), table["timestamp"].cast(pa.int64()).to_pylist(), strict=True))
    assert rows == expected
    assert command.call("cat", folder).returncode == 0
    dumped = command.call("dump", "--deep-iteration", "--files", file)
    assert dumped.returncode == 0, dumped.stderr
    said = [line for line in dumped.stdout.splitlines() if line.startswith("| offset: ")]
    assert [int(line.split()[2]) for line in said] == [offset for offset, _ in expected]
    done = command.call("recover", tmp_path / "data", "--dry-run")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    # Of offsets beyond their batch's, consumers skip some.
    assert ("batch-offsets" in command.call("verify", folder).stdout) == ("above" in name)
    if on_corrupt == "skip":
        damaged = bytearray(batch([Record(90, 5, b"k", b"v")]))
        damaged[-1] ^= 1
        file.write_bytes(log + bytes(damaged) + batch([Record(91, 5, b"k", b"v")]))
        with kafkalog.scan(tmp_path / "data", **options) as reader:  # type: ignore[arg-type]
            assert reader.read_all()["offset"].to_pylist() == [*(offset for offset, _ in expected), 91]
            assert reader.lost["firstOffset"].to_pylist() == [51]


@pytest.mark.parametrize("name", [name for name in CASES if "no records" not in name])
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_what_kafka_reads_is_raised(name: str, on_corrupt: str, tmp_path: Path) -> None:
    """Records beyond their wrapper's offset stay where they are, and their batch does not reach into the next."""
    log, expected = CASES[name]
    folder = tmp_path / "data" / "t-0"
    folder.mkdir(parents=True)
    if "above" in name:
        # Another batch has the offset that is beyond the wrapper's.
        log, expected = log[: -len(LAST)] + batch([Record(10, T, b"k", b"v")]), [*expected[:-1], (10, T)]
    (folder / f"{0:020}.log").write_bytes(log)
    how: dict[str, Any] = {"on_corrupt": on_corrupt}
    kafkalog.rewrite(tmp_path / "data", tmp_path / "out", magic=2, **how)
    rows = [(row.offset, row.timestamp) for row in naive.rows(tmp_path / "out" / "t-0")]
    assert rows == expected


def _three(
    times: Sequence[int] = (0, 1, 2),
    offsets: Sequence[int] = (1, 2, 3),
    producer: Producer | None = None,
    kind: int = 0,
) -> bytes:
    """Encode a batch of offsets 1 to 3 whose records have the keys k0, k1 and k2."""
    rows = zip(offsets, times, range(3), strict=True)
    data = batch(
        [Record(at, time, b"k%d" % n, b"v") for at, time, n in rows], producer=producer or Producer(), attributes=kind
    )
    # The last offset is 3, in whatever order the records are.
    return sealed(data[:23] + (2).to_bytes(4, "big") + data[27:])


@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(_three(times=(-2, -3, -5)), id="timestamps below -1"),
        pytest.param(_three(times=(-2, -(1 << 62), 5)), id="a far timestamp"),
        pytest.param(_three(offsets=(1, 3, 2)), id="offsets that fall"),
        pytest.param(_three(offsets=(1, 2, 2)), id="an offset twice"),
        pytest.param(_three(producer=Producer(7, -1, 0)), id="no producer epoch"),
        pytest.param(_three(producer=Producer(7, 0, -1)), id="no sequence"),
        pytest.param(_three(producer=Producer(-5, -9, -9)), id="a negative producer"),
        pytest.param(_three(kind=TRANSACTIONAL), id="a transaction without a producer"),
    ],
)
def test_what_consumers_read_is_written_as_it_is(odd: bytes, on_corrupt: str, tmp_path: Path) -> None:
    """Kafka's cleaner fails on these and leaves the partition as it is (``MemoryRecordsBuilder``): no record may go."""
    folder = tmp_path / "data" / "t-0"
    folder.mkdir(parents=True)
    last = batch([Record(9, T, b"k0", b"v")])
    (folder / f"{0:020}.log").write_bytes(batch([Record(0, T, b"k9", b"v")]) + odd + last)
    expected = [row for row in naive.rows(folder) if row.key != b"k0" or row.offset == 9]
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}
    how: dict[str, Any] = {"on_corrupt": on_corrupt}
    done = kafkalog.compact(tmp_path / "data", tmp_path / "a", config=compact, roll=True, map_bytes=1 << 16, **how)
    assert done.partitions[0].passes
    assert naive.rows(tmp_path / "a" / "t-0") == expected
    kafkalog.rewrite(tmp_path / "data", tmp_path / "b", drop_keys=[b"k0"], **how)
    assert naive.rows(tmp_path / "b" / "t-0") == expected[:-1]
