"""Questions about logs in a bucket: functions and commands answer as they do for the same files on a disk."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import corpus
import kafkalog
import tiered_cases
import tiers
from kafkalog.cli.main import main
from s3_server import CLIENTS, S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW = 1_790_000_000_000


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden folders with the times that the bucket gives its objects."""
    made = tmp_path_factory.mktemp("stores") / "golden"
    shutil.copytree(corpus.GOLDEN, made)
    for file in made.rglob("*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    return made


@pytest.fixture(scope="module")
def server(golden: Path) -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(golden)
    yield made
    made.close()


@pytest.fixture(params=CLIENTS)
def options(request: pytest.FixtureRequest, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return server.options_for(request.param, monkeypatch, 5)


def log_dirs(golden: Path) -> list[Path]:
    return sorted({each.parent for each in golden.rglob("meta.properties")})


def url_of(path: Path, golden: Path) -> str:
    return f"s3://bkt/{path.relative_to(golden).as_posix()}"


def answer(call: Callable[..., Any], path: Any, golden: Path, **more: Any) -> Any:
    """Return the rows of a call, or its error, with local paths as URLs."""
    try:
        rows = call(path, **more).to_pylist()
    except (kafkalog.KafkaLogError, OSError, ValueError) as error:
        rows = [type(error).__name__]
    return plain(repr(rows), golden)


def plain(text: str, golden: Path) -> str:
    text = re.sub(r"s3://bkt(#\d+)?/", "s3://bkt/", text.replace(f"{golden}/", "s3://bkt/"))
    return re.sub(r'"seconds":[^,}]*', "", text)


def explain(path: Any, **more: Any) -> Any:
    return kafkalog.explain(path, NOW, on_corrupt="skip", **more)


@pytest.mark.parametrize("call", [kafkalog.verify, explain], ids=["verify", "explain"])
def test_every_golden_log_dir(call: Callable[..., Any], options: dict[str, Any], golden: Path) -> None:
    found = log_dirs(golden)
    assert len(found) > 20
    for log_dir in found:
        local = answer(call, log_dir, golden)
        assert answer(call, url_of(log_dir, golden), golden, storage_options=options) == local, log_dir


def test_disk_usage_counts_objects_and_no_folders(options: dict[str, Any], golden: Path) -> None:
    for log_dir in log_dirs(golden):
        names = ["kind", "files", "bytes", "removedBy", "advice"]
        local = kafkalog.disk_usage(log_dir)
        there = kafkalog.disk_usage(url_of(log_dir, golden), storage_options=options)
        assert there["allocatedBytes"] == there["bytes"]
        # Folders that are being deleted count among the files of their kind.
        kinds = pc.field("kind").isin(["log", "index", "active_index", "snapshot", "partition_file", "log_dir_file"])
        assert there.filter(kinds).select(names).equals(local.filter(kinds).select(names))
        assert "folder" not in there["kind"].to_pylist()


def test_indexes_are_read_from_a_store(options: dict[str, Any], golden: Path) -> None:
    kinds = {".index": kafkalog.OffsetIndex, ".timeindex": kafkalog.TimeIndex, ".txnindex": kafkalog.TransactionIndex}
    files = [each for each in (golden / "clean-restarts" / "data-1").rglob("*") if each.suffix in kinds]
    assert {each.suffix for each in files} == set(kinds)
    for file in files:
        kind = kinds[file.suffix]
        with kind(file) as here, kind(url_of(file, golden), storage_options=options) as there:
            assert list(here) == list(there)
    with pytest.raises(ValueError, match="is a URL: only local paths"):
        kafkalog.OffsetIndex("s3://bkt/0.index", writable=True)


COMMANDS = [
    ["transactions", "DIR", "-J"],
    ["transactions", "DIR", "--open"],
    ["transactions", "DIR", "--aborted"],
    ["transactions", "DIR", "--hanging", "-J"],
    ["metadata", "DIR"],
    ["metadata", "DIR", "--as", "json", "--secrets"],
    ["metadata", "DIR", "--as", "strimzi"],
    ["verify", "DIR", "-J"],
    ["verify", "DIR", "--headers-only", "--evidence", "-J"],
    ["explain", "DIR", "--now", "2026-12-01T00:00:00Z", "-J"],
    ["dump", "DIR", "--deep-iteration"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words).replace("DIR-", ""))
def test_commands(words: list[str], options: dict[str, Any], golden: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    some = log_dirs(golden) if tiers.FULL else [golden / "clean-restarts" / "data-1", golden / "txn" / "data-1"]
    told = 0
    for log_dir in filter(Path.is_dir, some):

        def run(path: str, more: list[str]) -> tuple[int, str, list[str]]:
            code = main([path if word == "DIR" else word for word in words] + more)
            out, err = capfd.readouterr()
            # kafka-dump-log names files in the order of the hashes of their names.
            return code, plain(out, golden), sorted(plain(err, golden).splitlines())

        local = run(str(log_dir), [])
        assert run(url_of(log_dir, golden), given) == local
        told += len(local[1])
    assert told > 100


def test_files_of_partitions_are_dumped(
    options: dict[str, Any], golden: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    folder = golden / "clean-restarts" / "data-1" / "ledger-0"
    files = sorted(each for each in folder.iterdir() if each.name != "partition.metadata")
    assert {each.suffix for each in files} > {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    codes = [main(["dump", "--files", ",".join(map(str, files))])]
    out, err = capfd.readouterr()
    codes.append(main(["dump", "--files", ",".join(url_of(each, golden) for each in files), *given]))
    there, errors = capfd.readouterr()
    assert plain(there, golden) == plain(out, golden)
    assert sorted(plain(errors, golden).splitlines()) == sorted(plain(err, golden).splitlines())
    assert codes == [0, 0]


def test_a_report_has_the_numbers_of_the_local_one(
    server: S3Server, options: dict[str, Any], golden: Path, tmp_path: Path
) -> None:
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    some = log_dirs(golden) if tiers.FULL else [golden / "clean-restarts" / "data-1", golden / "metadata" / "data-0"]
    for log_dir in some:
        found = []
        for number, (path, more) in enumerate(((str(log_dir), []), (url_of(log_dir, golden), given))):
            server.reset()
            out, numbers = tmp_path / f"{number}.html", tmp_path / f"{number}.json"
            command = ["report", path, "-o", str(out), "--json", str(numbers), "--now", "2026-12-01T00:00:00Z"]
            assert main([*command, "--overwrite", *more]) in {0, 1}
            told = json.loads(plain(numbers.read_text(), golden))
            assert out.stat().st_size > 10_000
            # A store has no blocks and no folders, which take 4 KiB on a disk, also one that is to be deleted.
            sizes = ("besideBytes", "besideFreeable", "bytesFreeable", "diskBytes", "allocatedBytes")
            for each in (told, told["summary"], *told["dirs"]):
                for name in ("disk", "readAt", *sizes):
                    each.pop(name, None)
            found.append(told)
        assert found[0] == found[1], log_dir
        assert server.counts["LIST"] <= 3
    command = ["report", url_of(some[0], golden), "-o", str(tmp_path / "r.html"), "--json", str(tmp_path / "r.json")]
    assert main([*command, "--redact", *given]) in {0, 1}
    assert "s3://" not in (tmp_path / "r.html").read_text() + (tmp_path / "r.json").read_text()


def test_a_partition_named_by_its_folder(
    options: dict[str, Any], golden: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The meaning of ``-t orders-0`` is looked up in the store, with its options: nothing else opened this one."""
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    found = []
    for path, more in ((str(golden), []), (f"s3://by-{len(given)}-{options['max_retries']}", given)):
        assert main(["cat", f"{path}/clean-restarts/data-1", "-t", "orders-0", "-f", "%o\n", *more]) == 0
        found.append(capfd.readouterr().out)
    assert found[0] == found[1]
    assert len(found[0].split()) == 880


def test_one_listing_for_a_command(server: S3Server, options: dict[str, Any], golden: Path) -> None:
    url = url_of(golden / "clean-restarts" / "data-0", golden)
    kafkalog.verify(url, storage_options=options)
    assert server.counts["LIST"] == 1
    server.reset()
    explain(url, storage_options=options)
    assert server.counts["LIST"] == 1
    server.reset()
    kafkalog.tables.open_transactions(url, storage_options=options)
    assert server.counts["LIST"] == 1
    assert server.counts["HEAD"] <= server.counts["GET"]


def test_a_damaged_log_is_found_as_on_a_disk(options: dict[str, Any], golden: Path, tmp_path: Path) -> None:
    shutil.copytree(golden / "clean-restarts" / "data-1", tmp_path / "L")
    for number, file in enumerate(sorted((tmp_path / "L").rglob("*.*"))):
        if file.is_file() and number % 3 == 0 and file.stat().st_size > 20:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 0x55
            file.write_bytes(data)
    server = S3Server()
    server.put_folder(tmp_path)
    try:
        given = {**options, **server.storage_options}
        local = answer(kafkalog.verify, tmp_path / "L", tmp_path)
        assert local.count("'error'") > 10
        assert answer(kafkalog.verify, "s3://bkt/L", tmp_path, storage_options=given) == local
    finally:
        server.close()


def test_a_tier_in_a_bucket_beside_logs_in_a_bucket(options: dict[str, Any], tmp_path: Path) -> None:
    case = tiered_cases.unpack("lineage", tmp_path)
    server = S3Server()
    server.put_folder(case.data, "L/")
    server.put_folder(case.tier, "T/")
    folder = next(each.name for each in sorted(case.data.iterdir()) if re.fullmatch("[a-z]+-0", each.name))
    try:
        there: Any = {"remote": "s3://bkt/T", "storage_options": {**options, **server.storage_options}}
        here: Any = {"remote": case.tier}
        for call in (kafkalog.tables.remote_segments, kafkalog.verify, kafkalog.read_table):
            assert call("s3://bkt/L", **there).equals(call(case.data, **here)), call
        assert kafkalog.tables.remote_segments(None, **there).equals(kafkalog.tables.remote_segments(None, **here))
        local = kafkalog.read_table(case.data / folder, **here)
        assert local.num_rows > 0
        assert kafkalog.read_table(f"s3://bkt/L/{folder}", **there).equals(local)
        topic = folder[:-2]
        logs = kafkalog.dataset("s3://bkt/L", topics=topic, partitions=[0], **there)
        assert logs.to_table().equals(local)
        assert (
            logs.to_table(filter=pc.field("offset") < 100).num_rows == local.filter(pc.field("offset") < 100).num_rows
        )
        segments = kafkalog.dataset("s3://bkt/L", table="remote_segments", **there)
        assert segments.to_table().equals(kafkalog.tables.remote_segments(case.data, **here))
        polars = pytest.importorskip("polars")
        frame = kafkalog.scan_polars("s3://bkt/L", topics=topic, partitions=[0], **there)
        assert frame.select(polars.len()).collect().item() == local.num_rows
    finally:
        server.close()
