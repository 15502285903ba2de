"""Ends of batches, and of ranges."""

from __future__ import annotations

import shutil
import struct
from typing import TYPE_CHECKING

import pytest

import corpus
import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from kafkalog.typing import Layout

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
WRAPPERS = corpus.GOLDEN / "v0-0.8.2.2" / "data-0" / "mixcodec-0"
GAPS = corpus.GOLDEN / "compact" / "data-0" / "compact-codecs-0"
WHERE = ["topic", "partition", "segment", "position", "baseOffset", "lastOffset"]
LAST_OFFSET_DELTA_AT = 23


def payload(batch: pa.RecordBatch) -> int:
    """Count the bytes of keys, values and headers, one by one."""
    total = 0
    for name in ("key", "value"):
        total += sum(len(cell) for cell in batch[name].to_pylist() if cell is not None)
    for headers in batch["headers"].to_pylist():
        total += sum(len(h["key"].encode()) + len(h["value"] or b"") for h in headers or ())
    return total


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("wide", ["value", "headers"])
@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_no_batch_has_more_bytes_than_asked_for(
    tmp_path: Path, codec: str, wide: str, layout: Layout, threads: int
) -> None:
    """Also inside one large Kafka batch, of whose records many are taken over at once."""
    most = 600_000
    config = kafkalog.LogConfig(compression_type=codec)
    cell = bytes(range(100)) * 2
    headers = [("h", cell)] if wide == "headers" else None
    value = cell if wide == "value" else None
    with kafkalog.LogWriter(tmp_path, "t", config=config, batch_bytes=1 << 20) as log:
        log.append([kafkalog.Record(key=b"k", value=value, headers=headers) for _ in range(4_500)])
    assert kafkalog.scan_batches(tmp_path).read_all().num_rows == 1
    batches = list(kafkalog.scan(tmp_path, layout=layout, threads=threads, batch_bytes=most))
    assert sum(batch.num_rows for batch in batches) == 4_500
    sizes = [payload(batch) for batch in batches]
    assert max(sizes) <= most
    assert min(sizes[:-1]) > most / 2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize(("codec", "most"), [("uncompressed", 2 << 20), ("lz4", 512 << 10)])
def test_batches_of_decompressed_records_are_small(
    tmp_path: Path, codec: str, most: int, layout: Layout, threads: int
) -> None:
    """They are still in a processor's cache when they are read."""
    config = kafkalog.LogConfig(compression_type=codec)
    with kafkalog.LogWriter(tmp_path, "t", config=config) as log:
        log.append([kafkalog.Record(value=bytes(1_000)) for _ in range(6_000)])
    sizes = [payload(batch) for batch in kafkalog.scan(tmp_path, layout=layout, threads=threads)]
    assert sum(sizes) == 6_000_000
    assert most * 0.8 < max(sizes) <= most
    one = kafkalog.scan(tmp_path, layout=layout, threads=threads, batch_bytes=1 << 30)
    assert max(payload(batch) for batch in one) > 2 << 20


def test_a_record_larger_than_a_batch_comes_alone(tmp_path: Path) -> None:
    with kafkalog.LogWriter(tmp_path, "t") as log:
        log.append([kafkalog.Record(value=bytes(size)) for size in (10, 5_000, 10, 10, 5_000)])
    cut = [batch["offset"].to_pylist() for batch in kafkalog.scan(tmp_path, batch_bytes=1_000)]
    assert cut == [[0], [1], [2, 3], [4]]


def test_a_batch_that_a_flipped_bit_puts_below_the_start_is_no_batch_left_out(tmp_path: Path) -> None:
    """Its last offset says that nothing in it is wanted, and no later batch contradicts: only the checksum does."""
    rows = kafkalog.scan_batches(DATA, topics="orders").read_all().select(WHERE).to_pylist()
    tried = 0
    for row in rows[:-1]:
        if row["lastOffset"] == row["baseOffset"]:
            continue
        tried += 1
        folder = tmp_path / str(tried) / "orders-0"
        shutil.copytree(DATA / "orders-0", folder)
        with (folder / row["segment"]).open("r+b") as file:
            file.seek(row["position"] + LAST_OFFSET_DELTA_AT)
            file.write(struct.pack(">i", 0))
        with pytest.raises(kafkalog.CorruptRecordError, match="crc") as caught:
            kafkalog.read_table(folder, starting_offsets=row["lastOffset"])
        assert caught.value.path == str(folder / row["segment"])
        assert row["position"] <= (caught.value.position or 0) < row["position"] + 61
    assert tried > 5


@pytest.mark.parametrize("folder", [DATA / "orders-0", WRAPPERS, GAPS], ids=["dense", "wrappers", "gaps"])
def test_batches_up_to_an_offset(folder: Path) -> None:
    rows = kafkalog.scan_batches(folder).read_all().select(WHERE).to_pylist()
    for end in (row["baseOffset"] + more for row in rows for more in (0, 1)):
        listed = kafkalog.scan_batches(folder, ending_offsets=end).read_all()["baseOffset"].to_pylist()
        assert listed == [row["baseOffset"] for row in rows if row["baseOffset"] < end], end


def test_batches_from_an_offset() -> None:
    rows = kafkalog.scan_batches(DATA, topics="orders").read_all().select(WHERE).to_pylist()
    for start in (row["lastOffset"] + more for row in rows[:-1] for more in (0, 1)):
        listed = kafkalog.scan_batches(DATA, topics="orders", starting_offsets=start).read_all()
        assert listed["lastOffset"].to_pylist() == [row["lastOffset"] for row in rows if row["lastOffset"] >= start]


@pytest.mark.parametrize("layout", ["binary", "view"])
def test_records_up_to_an_offset_inside_a_wrapper(layout: Layout) -> None:
    """Its header tells the last offset only, which may lie after the end while earlier records do not."""
    offsets = list(range(208))
    for end in offsets:
        rows = kafkalog.read_table(WRAPPERS, columns="offset", ending_offsets=end, layout=layout)
        assert rows["offset"].to_pylist() == offsets[:end], end


def test_a_partition_without_a_high_watermark_has_reached_none(tmp_path: Path) -> None:
    """A broker's checkpoint leaves out what it does not lead or follow yet: Kafka takes 0 for it."""
    data = shutil.copytree(DATA, tmp_path / "data")
    checkpoint = data / "replication-offset-checkpoint"
    checkpoint.write_text("0\n1\nledger 0 954\n", encoding="ascii")
    table = kafkalog.read_table(data, columns=["topic", "offset"], ending_offsets="high_watermark")
    assert set(table["topic"].to_pylist()) == {"ledger"}


def test_the_metadata_log_has_no_high_watermark(tmp_path: Path) -> None:
    """Raft keeps it to itself (`KafkaRaftLog`): a log dir's checkpoint, which tells of others, does not make it 0."""
    data = shutil.copytree(corpus.GOLDEN / "metadata" / "data-0", tmp_path / "data")
    (data / "replication-offset-checkpoint").write_text("0\n1\ntopic-0-1 1 5\n", encoding="ascii")
    with pytest.raises(ValueError, match="no high watermark"):
        kafkalog.scan(data / "__cluster_metadata-0", ending_offsets="high_watermark")
