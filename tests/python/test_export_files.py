"""Files that ``kafkalog export`` writes by the name of OUT, and that ``import`` reads them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
from command import call, fails
from kafkalog.schema import RECORD_COLUMNS

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_compressed_file_holds_what_the_plain_one_does(tmp_path: Path, form: str) -> None:
    """And nothing of the time or the name: the same records give the same bytes."""
    for name in (f"plain.{form}", f"once.{form}.gz", f"twice.{form}.GZ"):
        assert call("export", ORDERS, tmp_path / name).returncode == 0
    packed = (tmp_path / f"once.{form}.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / f"plain.{form}").read_bytes()
    assert len(packed) < (tmp_path / f"plain.{form}").stat().st_size / 2
    assert (tmp_path / f"twice.{form}.GZ").read_bytes() == packed


def test_a_compressed_file_is_imported_again(tmp_path: Path) -> None:
    file = tmp_path / "orders-0.jsonl.gz"
    assert call("export", ORDERS, file).returncode == 0
    done = call("import", file, tmp_path / "logs")
    assert done.stderr.startswith("kafkalog: 880 records in "), done.stderr
    columns = ["key", "value", "headers", "timestamp", "offset"]
    assert kafkalog.read_table(tmp_path / "logs", columns=columns).equals(kafkalog.read_table(ORDERS, columns=columns))
    # Cut off, flipped, and not compressed at all.
    packed = file.read_bytes()
    for damaged in (packed[:-20], packed[:500] + b"\0" * 50 + packed[550:], b"{}"):
        file.write_bytes(damaged)
        assert f"{file}: byte " in fails(1, "import", file, tmp_path / "damaged")


@pytest.mark.parametrize(
    ("out", "more", "said"),
    [
        (
            "out.xlsx",
            [],
            "expected a folder, or a file that ends in .parquet, .arrow, .jsonl, .csv, ",
        ),
        ("out.parquet.gz", [], "expected a folder, or a file that ends in"),
        ("out.csv.zst", [], "expected a folder, or a file that ends in"),
        ("out.csv.gz", ["--format", "parquet"], "parquet files are compressed inside; leave .gz out"),
        ("out.csv.gz", ["--spark", "local"], "only local exports write .gz files"),
    ],
)
def test_a_file_that_is_not_written_is_no_folder(tmp_path: Path, out: str, more: list[str], said: str) -> None:
    assert f"kafkalog: {tmp_path / out}: {said}" in fails(2, "export", ORDERS, tmp_path / out, *more)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_have_a_dot(tmp_path: Path) -> None:
    (tmp_path / "out.txt").mkdir()
    for name in ("out.2024", "out.txt"):
        assert call("export", ORDERS, tmp_path / name).returncode == 0
        assert [file.name for file in (tmp_path / name).iterdir()] == ["orders-0.parquet"]


def test_other_readers_read_the_parquet_file(tmp_path: Path) -> None:
    """Columns of numbers that rise are stored as differences, and only columns that repeat have a dictionary."""
    file, columns = tmp_path / "orders.parquet", [column.name for column in RECORD_COLUMNS]
    assert call("export", ORDERS, file, "--columns", ",".join(columns)).returncode == 0
    rows = kafkalog.read_table(ORDERS, columns=columns).to_pylist()
    group = pq.ParquetFile(file).metadata.row_group(0)
    encodings = {group.column(n).path_in_schema: group.column(n).encodings for n in range(group.num_columns)}
    for name in columns:
        assert ("DELTA_BINARY_PACKED" in encodings.get(name, ())) == (name in ("offset", "timestamp")), name
    plain = {name for name, used in encodings.items() if not any("DICTIONARY" in encoding for encoding in used)}
    assert plain - {"isControl", "isTransactional"} == {"offset", "timestamp", "value", "headers.list.element.value"}
    assert any(row["headers"] for row in rows)
    assert pytest.importorskip("polars").read_parquet(file).rows(named=True) == rows
    connection = pytest.importorskip("duckdb").connect()
    found = pa.table(connection.sql(f"from '{file}'")).cast(pq.read_schema(file))
    assert found.to_pylist() == rows


def test_the_longest_topics_have_files_too(tmp_path: Path) -> None:
    """A topic has up to 249 characters, and a file's name up to 255, with partition and ending."""
    logs, topics = tmp_path / "logs", ["t" * 248 + end for end in "ab"]
    for topic in topics:
        with kafkalog.LogWriter(logs, topic) as writer:
            writer.append([kafkalog.Record(b"v")])
    assert call("export", logs, tmp_path / "out", "--columns", "topic").returncode == 0
    files = sorted((tmp_path / "out").iterdir())
    assert sorted(pq.read_table(file)["topic"][0].as_py() for file in files) == topics
    assert {file.name[:201] for file in files} == {"t" * 200 + "~"}
    assert call("export", logs / f"{topics[0]}-0", tmp_path / ("\u00fc" * 123 + ".jsonl")).returncode == 0
