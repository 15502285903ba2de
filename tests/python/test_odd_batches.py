"""Batches and messages that look wrong, and that Kafka reads.

``DefaultRecordBatch.iterator`` and ``AbstractLegacyRecordBatch.DeepRecordsIterator`` gave these rows (Kafka 4.3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import command
import kafkalog
import odd_batches
from byte_logs import Record, batch

if TYPE_CHECKING:
    from pathlib import Path

CASES = odd_batches.cases()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
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
