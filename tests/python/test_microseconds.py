"""Milliseconds that microseconds cannot hold: Spark's Kafka source fails at such a record, and so does this."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from naive import crc32c

if TYPE_CHECKING:
    from pathlib import Path

# KafkaRecordToRowConverter: milliseconds are multiplied by 1000 exactly (Math.multiplyExact), or there is no row.
MOST = (2**63 - 1) // 1000
CONFIG: dict[str, Any] = {"message_timestamp_after_max_ms": 2**63 - 1, "segment_bytes": 4000}


def log_of(folder: Path, times: list[int], batch: int, **config: Any) -> Path:
    """Write records of these times, so many in each batch."""
    with kafkalog.LogWriter(folder, "t", config=kafkalog.LogConfig(**{**CONFIG, **config})) as writer:
        for start in range(0, len(times), batch):
            writer.append([kafkalog.Record(value=b"v", timestamp=time) for time in times[start : start + batch]])
    return folder / "t-0"


def read(path: Path, **given: Any) -> tuple[list[dict[str, Any]], kafkalog.KafkaLogError | None]:
    """Read what there is before an error, and that."""
    import pyarrow as pa

    found: list[dict[str, Any]] = []
    with kafkalog.scan(path, **given) as reader:
        try:
            for batch in reader:
                whole = batch.set_column(0, "timestamp", batch["timestamp"].cast(pa.int64()))
                found += whole.to_pylist()
        except kafkalog.KafkaLogError as error:
            return found, error
    return found, None


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("batch", "compression"), [(1, "producer"), (7, "producer"), (7, "zstd"), (200, "lz4")])
def test_a_time_out_of_range_is_an_error_after_the_rows_before_it(
    tmp_path: Path, layout: str, threads: int, batch: int, compression: str
) -> None:
    times = [1_700_000_000_000 + n for n in range(200)]
    times[3], times[150] = MOST, MOST + 1
    path = log_of(tmp_path, times, batch, compression_type=compression)
    given: dict[str, Any] = {"columns": ["timestamp", "offset"], "layout": layout, "threads": threads}
    assert read(path, **given) == ([{"timestamp": t, "offset": n} for n, t in enumerate(times)], None)
    found, error = read(path, **given, timestamp_unit="us")
    assert found == [{"timestamp": times[n] * 1000, "offset": n} for n in range(150)]
    assert isinstance(error, kafkalog.InvalidRecordError)
    with kafkalog.scan_batches(path) as batches:
        headers = batches.read_all().select(["segment", "position", "baseOffset", "lastOffset"]).to_pylist()
    (at,) = (each for each in headers if each["baseOffset"] <= 150 <= each["lastOffset"])
    assert (error.path, error.position, error.offset) == (str(path / at["segment"]), at["position"], 150)
    assert str(error) == (
        f"{error.path}: byte {error.position}: offset 150: timestamp: "
        f"expected -{MOST} to {MOST} ms, which is what microseconds hold, found {MOST + 1} ms; "
        'columns without timestamp can be read; on_corrupt="skip" continues after it'
    )


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("batch", "compression"), [(1, "producer"), (7, "zstd"), (200, "lz4"), (3000, "zstd")])
@pytest.mark.sampled(2)
def test_past_damage_such_a_record_alone_is_left_out(
    tmp_path: Path, threads: int, batch: int, compression: str
) -> None:
    times = [1_700_000_000_000 + n for n in range(3000)]
    ranges = [(0, 0), (3, 5), (150, 150), (1023, 1024), (2998, 2999)]
    gone = [n for first, last in ranges for n in range(first, last + 1)]
    for n in gone:
        times[n] = MOST + 1 + n
    path = log_of(tmp_path, times, batch, compression_type=compression, segment_bytes=1 << 20)
    given: dict[str, Any] = {"columns": ["timestamp", "offset"], "threads": threads, "on_corrupt": "skip"}
    # milliseconds hold them
    assert read(path, **given) == ([{"timestamp": t, "offset": n} for n, t in enumerate(times)], None)
    with kafkalog.scan(path, **given, timestamp_unit="us") as reader:
        assert reader.read_all()["offset"].to_pylist() == [n for n in range(3000) if n not in gone]
        lost = reader.lost.to_pylist()
        assert [(row["firstOffset"], row["lastOffset"]) for row in lost] == ranges
        assert {row["reason"] for row in lost} == {"timestamp"}
        assert reader.metrics["lost"] == len(ranges)
        assert reader.metrics["bytes_lost"] == 0
        assert reader.metrics["bytes"] == sum(file.stat().st_size for file in path.glob("*.log"))
    with kafkalog.scan_batches(path) as batches:
        positions = set(batches.read_all()["position"].to_pylist())
    assert {row["position"] for row in lost} <= positions


def test_who_asks_for_no_times_gets_all_rows(tmp_path: Path) -> None:
    path = log_of(tmp_path, [2**63 - 1] * 5, 2)
    assert kafkalog.read_table(path, columns=["offset"], timestamp_unit="us")["offset"].to_pylist() == [0, 1, 2, 3, 4]
    # nor who leaves such records out
    assert kafkalog.read_table(path, ending_offsets=0, timestamp_unit="us").num_rows == 0


@pytest.mark.parametrize(("time", "says"), [(-MOST, ""), (-MOST - 1, "found -"), (-(2**63), "found -")])
def test_times_long_ago(tmp_path: Path, time: int, says: str) -> None:
    """No producer makes such ones, but the format has them."""
    path = log_of(tmp_path, [0], 1)
    file = next(path.glob("*.log"))
    data = bytearray(file.read_bytes())
    # baseTimestamp and maxTimestamp of the batch
    data[27:43] = struct.pack(">qq", time, time)
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    file.write_bytes(data)
    assert read(path, columns=["timestamp"]) == ([{"timestamp": time}], None)
    found, error = read(path, columns=["timestamp"], timestamp_unit="us")
    assert found == ([] if says else [{"timestamp": time * 1000}])
    assert (error is None) if not says else (says in str(error))
