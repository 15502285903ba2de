"""``kafkalog export`` to a URL: the files that a local export writes, each whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
from kafkalog.cli.main import main
from s3_server import CLIENTS, SECRET, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.fixture
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(DATA, "L/")
    yield made
    made.close()


@pytest.fixture(params=CLIENTS)
def words(
    request: pytest.FixtureRequest, server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[str]:
    """Options of the command line for the server, for each client."""
    # What is uploaded is made here, and nothing of it stays.
    monkeypatch.setenv("TMPDIR", str(tmp_path / "made"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "made"))
    (tmp_path / "made").mkdir()
    given = server.options_for(request.param, monkeypatch, 7)
    return [f"--storage-option={name}={value}" for name, value in given.items()]


def written(server: S3Server, below: str) -> dict[str, bytes]:
    return {key.removeprefix(below): data for key, data in server.objects.items() if key.startswith(below)}


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv", "tsv"])
def test_a_folder_and_a_file_are_those_of_a_local_export(
    form: str, server: S3Server, words: list[str], tmp_path: Path
) -> None:
    assert main(["export", str(DATA), str(tmp_path / "out"), "-f", form]) == 0
    local = {each.name: each.read_bytes() for each in (tmp_path / "out").iterdir()}
    assert len(local) > 2
    for source, target in ((str(DATA), "s3://bkt/a/out"), ("s3://bkt/L", "s3://bkt/b")):
        assert main(["export", source, target, "-f", form, *words]) == 0
        assert written(server, f"{target.removeprefix('s3://bkt/')}/") == local
    assert main(["export", str(DATA), f"s3://bkt/one.{form}", "-t", "orders", *words]) == 0
    assert server.objects[f"one.{form}"] == local[f"orders-0.{form}"]
    assert not server.uploads
    assert not list((tmp_path / "made").iterdir())


def test_what_is_there_is_replaced_only_if_told(
    server: S3Server, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.objects["x.parquet"] = b"mine"
    command = ["export", str(DATA), "s3://bkt/x.parquet", "-t", "orders", *words]
    assert main(command) == 3
    assert "x.parquet: File exists (--overwrite replaces it)" in capsys.readouterr().err
    assert server.objects["x.parquet"] == b"mine"
    assert main([*command, "--overwrite"]) == 0
    table = pq.read_table(pa.BufferReader(server.objects["x.parquet"]))
    assert table["value"].to_pylist() == kafkalog.read_table(DATA, topics="orders")["value"].to_pylist()


def test_nothing_is_there_of_what_was_not_finished(
    server: S3Server, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = next((DATA / "ledger-0").glob("*478.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0x55
    server.objects[f"L/ledger-0/{log.name}"] = bytes(data)
    assert main(["export", "s3://bkt/L", "s3://bkt/one.parquet", "-t", "ledger", *words]) == 1
    assert "one.parquet" not in server.objects
    assert main(["export", "s3://bkt/L", "s3://bkt/many", *words]) == 1
    assert "/many/ledger-0.parquet is not written" in capsys.readouterr().err
    assert {"orders-0.parquet", "events-1.parquet"} <= set(written(server, "many/"))
    assert "many/ledger-0.parquet" not in server.objects
    server.fault = lambda kind, key, number: "denied" if kind in {"PUT", "POST"} else None  # noqa: ARG005
    assert main(["export", str(DATA), "s3://bkt/denied.parquet", "-t", "orders", *words]) == 3
    said = capsys.readouterr().err
    assert "/denied.parquet: " in said
    assert SECRET not in said
    assert "denied.parquet" not in server.objects
    assert not list((tmp_path / "made").iterdir())


def test_what_may_pass_is_tried_again(server: S3Server, words: list[str]) -> None:
    failed = list[str]()

    def fault(kind: str, key: str, number: int) -> str | None:
        if kind in {"PUT", "POST"} and len(failed) < 2:
            failed.append(kind)
            return "slow-down"
        return None

    server.fault = fault
    assert main(["export", str(DATA), "s3://bkt/again.jsonl", "-t", "orders", *words]) == 0
    assert len(failed) == 2
    assert server.objects["again.jsonl"].count(b"\n") == kafkalog.read_table(DATA, topics="orders").num_rows


def test_a_large_file_is_uploaded_in_parts(server: S3Server, words: list[str], tmp_path: Path) -> None:
    with kafkalog.LogWriter(tmp_path / "big", "t", 0) as log:
        for _ in range(30):
            log.append(pa.table({"value": pa.array([os.urandom(10_000) for _ in range(100)], pa.binary())}))
    local = tmp_path / "big.arrow"
    assert main(["export", str(tmp_path / "big"), str(local)]) == 0
    assert main(["export", str(tmp_path / "big"), "s3://bkt/big.arrow", *words]) == 0
    # Where its batches end depends on the threads that decode.
    there = pa.ipc.open_file(pa.BufferReader(server.objects["big.arrow"])).read_all()
    assert there.equals(pa.ipc.open_file(pa.memory_map(str(local))).read_all())
    assert server.counts["PUT"] > 2
    assert not server.uploads


@pytest.mark.parametrize("out", ["s3://bkt/L", "s3://bkt/L/out.parquet", "s3://bkt/L/orders-0/x"])
def test_not_among_logs(out: str, server: S3Server, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(server.objects)
    # L is a log dir, whether it is read or not.
    for source in ("s3://bkt/L", "s3://bkt/L/orders-0", *([] if out == "s3://bkt/L" else [str(DATA)])):
        assert main(["export", source, out, *words]) == 2
        assert "the output would lie in" in capsys.readouterr().err
    assert server.objects == before


def test_not_among_logs_by_another_scheme(
    server: S3Server, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of a partition by itself: no ``meta.properties`` above tells that the output lies among logs."""
    server.put_folder(DATA / "orders-0", "P/orders-0/")
    before = dict(server.objects)
    for source, out in (("s3a", "s3"), ("s3", "s3a")):
        segment = f"{out}://bkt/P/orders-0/00000000000000000000.log"
        command = ["export", f"{source}://bkt/P/orders-0", segment, "-f", "jsonl", "--overwrite", *words]
        assert main(command) == 2
        assert "the output would lie in the source's folder" in capsys.readouterr().err
    assert server.objects == before


def test_other_clients(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    assert main(["export", str(DATA), "memory://exports/orders.csv", "-t", "orders"]) == 0
    assert main(["export", str(DATA), str(tmp_path / "orders.csv"), "-t", "orders"]) == 0
    assert fsspec.filesystem("memory").cat_file("/exports/orders.csv") == (tmp_path / "orders.csv").read_bytes()
    assert pa_fs.LocalFileSystem().get_file_info(str(tmp_path / "orders.csv")).size > 0


_FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from kafkalog.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_no_room_for_what_is_made_says_what_to_do(server: S3Server, words: list[str], tmp_path: Path) -> None:
    command = ["export", str(DATA), "s3://bkt/large.parquet", "-t", "orders", "--compression", "none", *words]
    done = subprocess.run([sys.executable, "-c", _FULL, *command], check=False, capture_output=True, text=True)
    assert done.returncode == 3
    assert "set TMPDIR to a folder with more room" in done.stderr
    assert str(tmp_path / "made") in done.stderr
    assert not list((tmp_path / "made").iterdir())
    assert "large.parquet" not in server.objects


def test_of_two_exports_to_one_url_the_last_one_wins(server: S3Server, words: list[str]) -> None:
    """Each is whole: at no time is there a mixture of both."""
    commands = [
        ["export", str(DATA), "s3://bkt/one.jsonl", "-t", topic, "--overwrite", *words]
        for topic in ("orders", "events")
    ]
    wholes = []
    for command in commands:
        assert main(command) == 0
        wholes.append(server.objects.pop("one.jsonl"))
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(main, commands)) == [0, 0]
    assert server.objects["one.jsonl"] in wholes
