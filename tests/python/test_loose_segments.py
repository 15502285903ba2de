"""A segment outside a log dir: under another name, compressed, or from standard input."""

from __future__ import annotations

import gzip
import json
import tempfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import corpus
import kafkalog
from command import call
from kafkalog import _loose

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEGMENT = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0" / f"{0:020}.log"
LATER = max((corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0").glob("*.log"))
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
def test_it_is_read_as_under_its_own_name(form: str, segment: Path, tmp_path: Path) -> None:
    file = tmp_path / "ticket 4711.bin"
    file.write_bytes(PACKED[form](segment.read_bytes()))
    before = file.read_bytes()
    expected = kafkalog.read_table(segment, columns=COLUMNS)
    assert kafkalog.read_table(file, columns=COLUMNS).equals(expected)
    named = kafkalog.read_table(file, topics="orders", partitions=7, columns=["topic", "partition", *COLUMNS])
    assert named.select(COLUMNS).equals(expected)
    assert set(zip(named["topic"].to_pylist(), named["partition"].to_pylist(), strict=True)) == {("orders", 7)}
    whole = call("cat", segment, "-f", "%o %K %S\\n").stdout
    assert call("cat", file, "-f", "%o %K %S\\n").stdout == whole
    with file.open("rb") as source:
        assert call("cat", "-", "-f", "%o %K %S\\n", stdin=source).stdout == whole
    assert call("verify", file).returncode == 0
    counted = json.loads(call("stats", file, "-J", "-t", "orders").stdout)
    assert (counted["topic"], counted["records"]) == ("orders", expected.num_rows)
    assert "baseOffset: " in call("dump", "--files", file).stdout
    assert file.read_bytes() == before
    assert list((tmp_path / "tmp").iterdir()) == []


def test_damage_is_named_with_the_file_that_was_given(tmp_path: Path) -> None:
    data = bytearray(SEGMENT.read_bytes())
    data[700] ^= 1
    for name, content in (("a.bin", data), ("a.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        said = call("cat", tmp_path / name, "-J")
        assert said.returncode == 1
        assert said.stderr.startswith(f"kafkalog: {tmp_path / name}: byte ")
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
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_bomb_ends_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_loose, "MOST_BYTES", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(SEGMENT.read_bytes() + bytes(64 << 20)))
    with pytest.raises(kafkalog.CorruptRecordError, match="more than 1048576 bytes"):
        kafkalog.read_table(tmp_path / "bomb.gz")
    assert list((tmp_path / "tmp").iterdir()) == []
