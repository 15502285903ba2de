"""Logs in object stores: the same answers as from a disk, by as few requests as promised, and secrets nowhere."""

from __future__ import annotations

import io
import os
import pickle
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest

import corpus
import kafkalog
from kafkalog import storage
from kafkalog.cli.main import main
from kafkalog.storage._clients import azure_authorities
from kafkalog.storage._options import StorageOptions
from kafkalog.storage._urls import is_url, parse
from s3_server import CLIENTS, SECRET, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(corpus.GOLDEN)
    yield made
    made.close()


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {**server.options_for(request.param, monkeypatch, 3), "timeout": "20s"}


def ipc(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def log_dirs() -> list[Path]:
    found = {each.parent for each in corpus.GOLDEN.rglob("meta.properties")}
    # Tests beside this one read some of the others by hand.
    return sorted(found)


@pytest.mark.parametrize(
    "given", [{}, {"isolation_level": "read_committed", "threads": 2}, {"layout": "view", "columns": "*"}]
)
def test_every_golden_log_dir_is_read_as_from_a_disk(options: dict[str, Any], given: dict[str, Any]) -> None:
    def answer(path: str | Path, **more: Any) -> Any:
        try:
            table = kafkalog.read_table(path, **given, **more)
        except (kafkalog.KafkaLogError, OSError, ValueError) as error:
            return type(error), Path(str(error)).name
        # Views of the same bytes lie in other buffers.
        return table if "layout" in given else ipc(table)

    for log_dir in log_dirs():
        url = f"s3://bkt/{log_dir.relative_to(corpus.GOLDEN).as_posix()}"
        assert answer(url, storage_options=options) == answer(log_dir), url


def test_one_listing_and_no_head_for_a_whole_log_dir(server: S3Server, options: dict[str, Any]) -> None:
    with kafkalog.scan("s3://bkt/clean-restarts/data-1", storage_options=options) as reader:
        table = reader.read_all()
        metrics = reader.metrics
    assert table.equals(kafkalog.read_table(DATA))
    assert server.counts["LIST"] == 1
    # pyarrow looks at an object when it opens it.
    assert server.counts["HEAD"] == (server.counts["GET"] if metrics["requests"] < sum(server.counts.values()) else 0)
    assert metrics["requests"] == server.counts["LIST"] + server.counts["GET"]
    assert metrics["bytes_fetched"] == server.bytes - server_list_bytes(server)
    assert metrics["retries"] == 0
    assert metrics["seconds_waited"] > 0


def server_list_bytes(server: S3Server) -> int:
    return server.listed


def test_of_a_topic_only_its_folders_are_listed(options: dict[str, Any]) -> None:
    objects = {f"logs/t{topic}-{number}/{0:020}.log": b"" for topic in range(50) for number in range(100)}
    server = S3Server({"logs/meta.properties": b"version=1\n", **objects})
    try:
        given = {**options, **server.storage_options}
        with kafkalog.scan("s3://bkt/logs", "t7", partitions=[1, 2], storage_options=given) as reader:
            assert reader.read_all().num_rows == 0
        # The level of the log dir has 5,001 entries, of the topic's 100 folders each is one more page.
        assert server.counts["LIST"] <= 6 + 100
        server.reset()
        with kafkalog.scan("s3://bkt/logs", storage_options=given) as reader:
            reader.read_all()
        assert server.counts["LIST"] == 6
    finally:
        server.close()


def test_a_large_log_is_fetched_in_windows_and_ahead(options: dict[str, Any], tmp_path: Path) -> None:
    with kafkalog.LogWriter(tmp_path / "L", "t", 0) as log:
        for second in range(40):
            values = pa.array([os.urandom(10_000) for _ in range(100)], pa.binary())
            times = pa.array([1_700_000_000_000 + second * 1000 + n for n in range(100)], pa.timestamp("ms", "UTC"))
            log.append(pa.table({"value": values, "timestamp": times}))
    server = S3Server()
    server.put_folder(tmp_path / "L", "L/")
    try:
        given = {**options, **server.storage_options}
        local = kafkalog.read_table(tmp_path / "L")
        with kafkalog.scan("s3://bkt/L", storage_options=given) as reader:
            assert reader.read_all().equals(local)
            metrics = reader.metrics
        with kafkalog.scan("s3://bkt/L", storage_options=given, layout="view") as reader:
            assert reader.read_all().equals(kafkalog.read_table(tmp_path / "L", layout="view"))
        size = sum(len(data) for key, data in server.objects.items() if key.endswith(".log"))
        assert size <= metrics["bytes_fetched"] <= size + 100_000
        # Twice: 4 MiB, then 8 MiB each.
        assert server.counts["GET"] <= 2 * (3 + size / (8 << 20) + 8)
        assert 2 <= server.most_at_once <= 16
        # Threads do not fetch twice, nor less at a time; without indexes neither.
        indexes = {key: server.objects[key] for key in server.objects if key.endswith("index")}
        for without in ({}, indexes):
            for key in without:
                del server.objects[key]
            server.reset()
            more: dict[str, Any] = {"threads": 4, "batch_bytes": 1 << 16}
            with kafkalog.scan("s3://bkt/L", storage_options=given, **more) as reader:
                assert reader.read_all().combine_chunks().equals(local.combine_chunks())
                assert reader.metrics["bytes_fetched"] <= size + 1_000_000
            assert server.counts["GET"] <= 12 + size / (4 << 20)
        server.objects.update(indexes)
        server.reset()
        found = kafkalog.PartitionLog("s3://bkt/L/t-0", storage_options=given)
        server.reset()
        assert found.offset_for_timestamp(1_700_000_020_005).offset == 2005  # type: ignore[union-attr]
        assert server.counts["GET"] <= 4
    finally:
        server.close()


def test_log_dirs_tables_and_commands(options: dict[str, Any]) -> None:
    url = "s3://bkt/clean-restarts/data-1"
    here, there = kafkalog.LogDir(DATA), kafkalog.LogDir(url, storage_options=options)
    assert (there.topics, there.meta, there.checkpoints) == (here.topics, here.meta, here.checkpoints)
    for one, other in zip(here, there, strict=True):
        assert (one.log_end_offset, one.leader_epochs) == (other.log_end_offset, other.leader_epochs)
        assert _timeless(one.statistics()) == _timeless(other.statistics())
    for name in ("consumer_offsets", "transactions", "topics", "producers", "records"):
        table = getattr(kafkalog.tables, name)
        log_dir = next(
            (each for each in log_dirs() if list(each.glob("__consumer_offsets-*")) and _reads(table, each)), DATA
        )
        remote = f"s3://bkt/{log_dir.relative_to(corpus.GOLDEN).as_posix()}"
        if _reads(table, log_dir):
            assert table(remote, storage_options=options).equals(table(log_dir)), name
    words = [f"--storage-option={name}={value}" for name, value in options.items()]
    for command in (
        ["ls", "-J"],
        ["stats"],
        ["offsets"],
        ["cat", "-t", "orders", "-c", "5", "-J"],
        ["cat", "-t", "events", "-o", "-3"],
    ):
        outputs = []
        for path, more in ((str(DATA), []), (url, words)):
            out = io.StringIO()
            out.buffer = buffer = io.BytesIO()  # type: ignore[misc]
            with redirect_stdout(out), redirect_stderr(io.StringIO()):
                assert main([command[0], path, *command[1:], *more]) == 0
            text = out.getvalue() + buffer.getvalue().decode(errors="replace")
            text = re.sub(r'"modified": ?\d+', "", text)
            outputs.append(re.sub(r"s3://bkt(#\d+)?/clean-restarts/data-1", str(DATA), text))
        assert outputs[0] == outputs[1], command


def _timeless(statistics: dict[str, Any]) -> dict[str, Any]:
    """Return the same without the times of files."""
    return {**statistics, "segments": [{**each, "modified_ms": 0} for each in statistics["segments"]]}


def _reads(table: Any, path: Path) -> bool:
    try:
        table(path)
    except (kafkalog.KafkaLogError, ValueError):
        return False
    return True


def test_memory_and_filesystems_that_are_handed_over() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for file in DATA.rglob("*"):
        if file.is_file():
            memory.pipe_file(f"/mem/L/{file.relative_to(DATA).as_posix()}", file.read_bytes())
    expected = kafkalog.read_table(DATA)
    assert kafkalog.read_table("memory://mem/L").equals(expected)
    assert kafkalog.read_table("fsspec::memory://mem/L").equals(expected)
    assert kafkalog.read_table("mem/L", filesystem=memory).equals(expected)
    assert kafkalog.read_table(str(DATA.resolve()), filesystem=pa_fs.LocalFileSystem()).equals(expected)
    under = pa_fs.SubTreeFileSystem(str(DATA.parent.resolve()), pa_fs.LocalFileSystem())
    assert kafkalog.read_table("data-1", filesystem=under).equals(expected)
    assert kafkalog.dataset("memory://mem/L", topics="orders").to_table().num_rows == 880


def test_secrets_are_shown_nowhere(server: S3Server, options: dict[str, Any]) -> None:
    place = storage.open_storage("s3://bkt/clean-restarts/data-1", options)
    assert SECRET not in repr(place) + str(place) + repr(StorageOptions(options))
    with pytest.raises(ValueError, match=r"storage option 'aws_secret_access_key' is a secret") as raised:
        pickle.dumps(place)
    assert SECRET not in str(raised.value)
    ranges = kafkalog.reader.plan_ranges(storage.located("s3://bkt/clean-restarts/data-1", options))
    assert SECRET.encode() not in pickle.dumps(ranges)
    server.fault = lambda kind, key, number: "denied"  # noqa: ARG005
    with pytest.raises(PermissionError) as denied:
        kafkalog.read_table("s3://bkt/clean-restarts/data-1", storage_options=options)
    assert SECRET not in str(denied.value)
    assert "s3://bkt" in str(denied.value)
    for url in (f"s3://key:{SECRET}@bkt/x", f"s3://bkt/x?X-Amz-Signature={SECRET}"):
        with pytest.raises(ValueError, match="use storage_options") as refused:
            kafkalog.read_table(url)
        assert SECRET not in str(refused.value)
    with pytest.raises(ValueError, match=r"unknown storage option 'aws_acess_key_id'.*did you mean"):
        kafkalog.read_table("s3://bkt/x", storage_options={"aws_acess_key_id": SECRET})


def test_values_from_the_environment_travel_by_name(options: dict[str, Any], tmp_path: Path) -> None:
    given = {**options, "aws_secret_access_key": "env:KAFKALOG_TEST_SECRET"}
    with pytest.raises(ValueError, match="no environment variable KAFKALOG_TEST_SECRET"):
        kafkalog.LogDir("s3://bkt/clean-restarts/data-1", storage_options=given)
    os.environ["KAFKALOG_TEST_SECRET"] = SECRET
    try:
        log_dir = kafkalog.LogDir("s3://bkt/clean-restarts/data-1", storage_options=given)
        pickled = pickle.dumps(log_dir)
        assert SECRET.encode() not in pickled
        (tmp_path / "log_dir").write_bytes(pickled)
        code = "import pathlib, pickle, sys; print(pickle.loads(pathlib.Path(sys.argv[1]).read_bytes()).topics)"
        done = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "log_dir"], check=True, stdout=subprocess.PIPE, text=True
        )
        assert done.stdout.strip() == str(log_dir.topics)
    finally:
        del os.environ["KAFKALOG_TEST_SECRET"]


def test_what_is_not_there(options: dict[str, Any]) -> None:
    for url in ("s3://bkt/nothing", "s3://bkt/clean-restarts/data-1/orders-0/no.log"):
        with pytest.raises(FileNotFoundError, match=url.removeprefix("s3://bkt")):
            kafkalog.read_table(url, storage_options=options)
    one = f"clean-restarts/data-1/orders-0/{0:020}.log"
    remote = kafkalog.read_table(f"s3://bkt/{one}", storage_options=options)
    assert remote.equals(kafkalog.read_table(corpus.GOLDEN / one))


@pytest.mark.parametrize(
    ("text", "root", "key"),
    [
        ("s3://bucket/a/b/", "s3://bucket", "a/b"),
        ("S3A://bucket", "s3a://bucket", ""),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net", "x"),
        ("s3:/bucket/x", "s3://bucket", "x"),
        ("hdfs://host:8020/x", "hdfs://host:8020", "x"),
    ],
)
def test_urls(text: str, root: str, key: str) -> None:
    assert is_url(text)
    assert (parse(text).root, parse(text).key) == (root, key)


def test_local_paths_are_no_urls() -> None:
    assert not any(map(is_url, ("/data", "data/s3://x", "C:/data", "file:///data", "FILE:/data", "a:b", "-")))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (None, (None, None)),
        ("127.0.0.1:10000/acc", ("127.0.0.1:10000", "127.0.0.1:10000")),
        ("acc.blob.core.windows.net", (".blob.core.windows.net", ".dfs.core.windows.net")),
        ("acc.blob.core.chinacloudapi.cn", (".blob.core.chinacloudapi.cn", ".dfs.core.chinacloudapi.cn")),
    ],
)
def test_endpoints_of_azure_for_pyarrow(host: str | None, expected: tuple[str | None, str | None]) -> None:
    assert azure_authorities(host, "acc") == expected
