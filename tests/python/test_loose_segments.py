"""A segment outside a log dir: under another name, compressed, or from standard input."""

from __future__ import annotations

import gc
import gzip
import io
import json
import os
import pickle
import shutil
import sys
import tarfile
import tempfile
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
from command import call
from kafkalog import _loose

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG_DIR = corpus.GOLDEN / "clean-restarts" / "data-1"
SEGMENT = LOG_DIR / "orders-0" / f"{0:020}.log"
LATER = max((LOG_DIR / "orders-0").glob("*.log"))
COLUMNS = ["key", "value", "offset", "timestamp"]
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip twice": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "zstd": lambda data: pa.Codec("zstd").compress(data).to_pybytes(),
    "lz4": lambda data: pa.Codec("lz4").compress(data).to_pybytes(),
}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)


@pytest.mark.parametrize("segment", [SEGMENT, LATER], ids=["first", "later"])
@pytest.mark.parametrize("form", PACKED)
@pytest.mark.sampled(1)
def test_it_is_read_as_under_its_own_name(form: str, segment: Path, tmp_path: Path) -> None:
    file = tmp_path / "ticket 4711.bin"
    file.write_bytes(PACKED[form](segment.read_bytes()))
    before = file.read_bytes()
    expected = kafkalog.read_table(segment, columns=COLUMNS)
    assert kafkalog.read_table(file, columns=COLUMNS).equals(expected)
    whole = call("cat", segment, "-f", "%o %K %S\\n").stdout
    assert call("cat", file, "-f", "%o %K %S\\n").stdout == whole
    assert call("verify", file).returncode == 0
    dumped = call("dump", "--files", segment, "--print-data-log").stdout
    assert call("dump", "--files", file, "--print-data-log").stdout == dumped.replace(str(segment), str(file))
    for argument, shown in ((file, None), ("-", file)):
        with file.open("rb") as source:
            assert call("cat", argument, "-f", "%o %K %S\\n", stdin=source if shown else None).stdout == whole
    assert file.read_bytes() == before
    assert [*(tmp_path / "tmp").rglob("*")] == []


@pytest.mark.parametrize("names", [(), ("orders",), ("orders", 7), (None, 7)], ids=str)
@pytest.mark.sampled(2)
def test_topic_and_partition_are_those_that_are_named_else_null(
    names: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, partition = (*names, None, None)[:2]
    data = bytearray(SEGMENT.read_bytes())
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(data)
    whole = kafkalog.read_table(SEGMENT, columns=COLUMNS)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    for path in (file, "-"):
        table = kafkalog.read_table(path, topic, partitions=partition, columns=["topic", "partition", *COLUMNS])
        assert table.select(COLUMNS).equals(whole)
        assert set(table["topic"].to_pylist()) == {topic}
        assert set(table["partition"].to_pylist()) == {partition}
    for rows in (
        kafkalog.scan_batches(file, topic, partitions=partition).read_all(),
        kafkalog.dataset(file, topic, partitions=partition).to_table(),
        kafkalog.dataset(file, topic, partitions=partition, table="batches").to_table(),
        kafkalog.read_table(file, topic, partitions=partition, layout="view", columns=["topic", "partition"]),
    ):
        assert rows.num_rows
        assert {(row["topic"], row["partition"]) for row in rows.select(["topic", "partition"]).to_pylist()} == {
            (topic, partition)
        }
    options = [*(["-t", topic] if topic else []), *(["-p", "7"] if partition else [])]
    line = json.loads(call("cat", file, "-J", "-c", "1", *options).stdout)
    assert (line["topic"], line["partition"]) == (topic, partition)
    shown = call("cat", file, "-c", "1", "-f", "%t/%p", "-Z", *options).stdout
    assert shown == f"{topic or 'NULL'}/{'NULL' if partition is None else partition}"
    assert len(call("cat", file, "-o", "-5", "-f", "%o\\n", *options).stdout.splitlines()) == 5
    counted = json.loads(call("stats", file, "-J", *options).stdout)
    assert (counted["topic"], counted["partition"], counted["records"]) == (topic, partition, whole.num_rows)
    assert call("dump", "--files", file, *options).returncode == 0
    assert call("verify", file, *options).returncode == 0
    data[700] ^= 1
    file.write_bytes(data)
    finding = json.loads(call("verify", file, "-J", *options).stdout.splitlines()[0])
    assert (finding["topic"], finding["partition"], finding["file"]) == (topic, partition, str(file))
    with kafkalog.scan(file, topic, partitions=partition, on_corrupt="skip") as reader:
        reader.read_all()
        assert [(row["topic"], row["partition"]) for row in reader.lost.to_pylist()] == [(topic, partition)]
    skipped = call("cat", file, "--on-corrupt", "skip", "-f", "%o\\n", *options)
    assert skipped.returncode == 1
    assert "None" not in skipped.stderr
    assert str(tmp_path / "tmp") not in skipped.stderr


def test_names_that_no_segment_takes_are_refused() -> None:
    said = call("dump", "--files", SEGMENT, "-t", "orders")
    assert (said.returncode, said.stdout) == (2, "")
    assert "for a segment outside a partition's folder" in said.stderr


def test_a_dataset_filters_and_pickles_what_lies_outside_a_log_dir(tmp_path: Path) -> None:
    file = tmp_path / "orders.gz"
    file.write_bytes(gzip.compress(SEGMENT.read_bytes()))
    logs = kafkalog.dataset(file)
    assert logs.to_table(filter=pc.field("topic") == "orders").num_rows == 0
    assert logs.to_table(filter=pc.is_null(pc.field("topic")) & (pc.field("offset") < 5)).num_rows == 5
    copy = pickle.loads(pickle.dumps(logs))  # noqa: S301
    assert logs.count_rows() == copy.to_table().num_rows > 0
    with pytest.raises(TypeError, match="pickle the dataset"):
        pickle.dumps(next(logs.get_fragments()))


@pytest.mark.parametrize(("form", "above"), [("plain", ""), ("zstd", "backup/var/kafka-logs/")])
@pytest.mark.sampled(1)
def test_a_tar_of_a_log_dir_is_read(form: str, above: str, tmp_path: Path) -> None:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as packed:
        packed.add(LOG_DIR, arcname=above or ".")
    file = tmp_path / "backup.tar"
    file.write_bytes(PACKED[form](held.getvalue()))
    expected = kafkalog.read_table(LOG_DIR)
    assert kafkalog.read_table(file).equals(expected)
    assert kafkalog.dataset(file).to_table(filter=pc.field("topic") == "orders").num_rows > 0
    assert kafkalog.scan_batches(file, "orders").read_all().num_rows > 0
    assert call("cat", file, "-t", "orders", "-J").stdout == call("cat", LOG_DIR, "-t", "orders", "-J").stdout
    assert call("stats", file).stdout == call("stats", LOG_DIR).stdout
    assert call("verify", file).stdout.replace(f"{file}/{above}", f"{LOG_DIR}/") == call("verify", LOG_DIR).stdout
    assert f"Dumping {file}/{above}orders-0/{0:020}.log" in call("dump", "--files", file).stdout
    assert [*(tmp_path / "tmp").rglob("*")] == []


def test_a_tar_writes_nothing_outside_its_folder(tmp_path: Path) -> None:
    for name, kind in (("../outside", tarfile.REGTYPE), ("/etc/outside", tarfile.SYMTYPE), ("pipe", tarfile.FIFOTYPE)):
        file = tmp_path / "evil.tar"
        with tarfile.open(file, "w") as packed:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            packed.addfile(member)
        with pytest.raises(kafkalog.KafkaLogError, match=r"evil\.tar: "):
            kafkalog.read_table(file)
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(kafkalog.CorruptRecordError, match=r"evil\.tar: "):
        kafkalog.read_table(file)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["evil.tar", "tmp"]
    assert [*(tmp_path / "tmp").rglob("*")] == []


def test_damage_is_named_with_the_file_that_was_given(tmp_path: Path) -> None:
    data = bytearray(SEGMENT.read_bytes())
    data[700] ^= 1
    for name, content in (("a.bin", data), ("a.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        said = call("cat", tmp_path / name, "-J")
        assert said.returncode == 1
        assert said.stderr.startswith(f"kafkalog: {tmp_path / name}: byte ")
        with pytest.raises(kafkalog.CorruptRecordError) as caught:
            kafkalog.read_table(tmp_path / name)
        assert caught.value.path == str(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}: byte ")
        said = call("dump", "--files", tmp_path / name, "--print-data-log")
        assert said.returncode == 1
        assert str(tmp_path / "tmp") not in said.stdout + said.stderr
        said = call("stats", tmp_path / name)
        assert str(tmp_path / "tmp") not in said.stdout + said.stderr
        found = call("verify", tmp_path / name)
        assert found.returncode == 1
        assert found.stdout.startswith(f"{tmp_path / name}: byte ")


def test_what_is_no_segment_stays_an_error(tmp_path: Path) -> None:
    for name, content in (
        ("notes.txt", b"notes about segments"),
        ("empty", b""),
        ("notes.gz", gzip.compress(b"n" * 99)),
    ):
        (tmp_path / name).write_bytes(content)
        assert call("cat", tmp_path / name, "-J").returncode == 2
    (tmp_path / "cut.gz").write_bytes(gzip.compress(SEGMENT.read_bytes())[:500])
    assert call("cat", tmp_path / "cut.gz", "-J").returncode == 1
    assert [*(tmp_path / "tmp").rglob("*")] == []


def test_a_bomb_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loose, "MOST_BYTES", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(SEGMENT.read_bytes() + bytes(64 << 20)))
    with pytest.raises(kafkalog.CorruptRecordError, match="more than 1048576 bytes"):
        kafkalog.read_table(tmp_path / "bomb.gz")
    assert [*(tmp_path / "tmp").rglob("*")] == []


def test_export_reads_them(tmp_path: Path) -> None:
    expected = kafkalog.read_table(SEGMENT, columns=["offset", "value"])
    (tmp_path / "a.bin").write_bytes(SEGMENT.read_bytes())
    (tmp_path / "a.gz").write_bytes(gzip.compress(SEGMENT.read_bytes()))
    with tarfile.open(tmp_path / "a.tar", "w") as packed:
        packed.add(SEGMENT.parent, "logs/t-0")
    for name, words, files in (
        ("a.bin", [], ["segment.parquet"]),
        ("a.gz", ["-t", "orders", "-p", "3"], ["orders-3.parquet"]),
        ("a.gz", ["-t", "orders"], ["orders.parquet"]),
        ("a.gz", ["-p", "3"], ["segment-3.parquet"]),
        ("a.tar", [], ["t-0.parquet"]),
    ):
        out = tmp_path / f"{'-'.join([name, *words])}-out"
        said = call("export", tmp_path / name, out, "--columns", "offset,value,topic", *words)
        assert said.returncode == 0, said.stderr
        assert [each.name for each in out.iterdir()] == files
        found = pq.read_table(out / files[0])
        topic = "t" if name == "a.tar" else "orders" if "-t" in words else None
        assert set(found["topic"].to_pylist()) == {topic}
        if name != "a.tar":
            assert found.select(["offset", "value"]).equals(expected)
    data = bytearray(SEGMENT.read_bytes())
    data[700] ^= 1
    (tmp_path / "bad.gz").write_bytes(gzip.compress(data))
    said = call("export", tmp_path / "a.bin", tmp_path / "a.bin", "--format", "csv", "--overwrite")
    assert said.returncode == 2
    assert (tmp_path / "a.bin").read_bytes() == SEGMENT.read_bytes()
    # An error may hold the temporary folder until the process ends as usual.
    said = call("export", tmp_path / "bad.gz", tmp_path / "out.csv", env=os.environ | {"TMPDIR": str(tmp_path / "tmp")})
    assert said.returncode == 1
    assert said.stderr.startswith(f"kafkalog: {tmp_path / 'bad.gz'}: byte ")
    assert [*(tmp_path / "tmp").rglob("*")] == []


def test_what_is_none_says_what_to_do(tmp_path: Path) -> None:
    """So does Spark, which plans by the same function."""
    file = tmp_path / "ticket.bin"
    file.write_bytes(b"x" * 100)
    for words in ([file], [file, SEGMENT.parent]):
        said = call("export", *words, tmp_path / "out.parquet")
        assert said.returncode == 2
        assert "export, stats and verify read a segment under another name, compressed or in a .tar" in said.stderr
        assert "For Spark, in a store, and beside other paths, decompress or unpack it" in said.stderr


@pytest.mark.parametrize("name", ["a.gz", "a.tar"])
def test_streams_of_other_libraries_name_the_file_and_keep_it(tmp_path: Path, name: str) -> None:
    """A stream outlives the reader that gave it."""

    def write(data: bytearray) -> None:
        if name == "a.gz":
            (tmp_path / name).write_bytes(gzip.compress(data))
            return
        (tmp_path / "t-0").mkdir(exist_ok=True)
        (tmp_path / "t-0" / SEGMENT.name).write_bytes(data)
        with tarfile.open(tmp_path / name, "w") as packed:
            packed.add(tmp_path / "t-0", "logs/t-0")

    data = bytearray(SEGMENT.read_bytes())
    write(data)
    stream = pa.RecordBatchReader.from_stream(kafkalog.scan(tmp_path / name))
    gc.collect()
    assert stream.read_all().num_rows == kafkalog.read_table(SEGMENT).num_rows
    data[700] ^= 1
    write(data)
    duckdb = pytest.importorskip("duckdb")
    for source in (kafkalog.scan(tmp_path / name), kafkalog.dataset(tmp_path / name)):
        with pytest.raises(duckdb.Error) as caught:
            duckdb.from_arrow(source).aggregate("count(value)").fetchall()
        assert f"{tmp_path / name}" in str(caught.value)
        assert str(tmp_path / "tmp") not in str(caught.value)
    with pytest.raises(Exception, match="crc") as failed:
        pa.table(kafkalog.scan(tmp_path / name))
    assert str(tmp_path / "tmp") not in str(failed.value)
    del stream, source, caught, failed
    # DuckDB's threads may drop the stream of a failed query after the error has been raised.
    deadline = time.monotonic() + 30
    while [*(tmp_path / "tmp").rglob("*")] and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert [*(tmp_path / "tmp").rglob("*")] == []


def test_a_tar_that_leads_out_of_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as packed:
        member = tarfile.TarInfo("../escaped")
        member.size = 1
        packed.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(
        kafkalog.CorruptRecordError, match=r"evil\.tar: expected a log dir, found '\.\./escaped'"
    ) as refused:
        kafkalog.read_table(path)
    assert "/kafkalog-" not in str(refused.value)
    assert list(tmp_path.rglob("escaped")) == []


def test_a_tar_of_a_log_dir_that_is_called_like_a_partition(tmp_path: Path) -> None:
    logs = shutil.copytree(corpus.GOLDEN / "codecs" / "data-0", tmp_path / "kafka-1")
    with tarfile.open(tmp_path / "kafka-1.tar", "w") as packed:
        packed.add(logs, "kafka-1")
    found = kafkalog.read_table(tmp_path / "kafka-1.tar", "codec-none", columns="offset")
    assert found.equals(kafkalog.read_table(logs, "codec-none", columns="offset"))
