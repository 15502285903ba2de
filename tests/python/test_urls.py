"""A path that looks like a URL is never taken for a local one: ``s3:`` is read or refused, ``file:`` is read.

The functions are those that the packages export, and the paths are the parameters that are annotated as such, so a new
one is tested as soon as it is public.
"""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
import kafkalog.spark
import kafkalog.tables
from kafkalog.spark.source_options import parse, parse_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
_KINDS = ("StrPath", "Paths", "PathLike")
# Parameters of kafkalog.spark that are options of Spark, too, and take whatever these take.
_SPARK = {"path", "out", "source"}
# Which function takes a folder of a partition rather than a log dir, or a file.
_PARTITION = {"PartitionLog", "rebuild_indexes", "truncate", "append_batches"}
_FILE = {"OffsetIndex": ".index", "TimeIndex": ".timeindex", "TransactionIndex": ".txnindex"}
_OTHERS = {"topic": "orders", "partition": 0, "offset": 5, "to_offset": 5, "spark": None}
# Segments in a tier are asked for beside the tier; the others tell of paths, times of files and folders.
OWN_TESTS = {"tables.remote_segments", "verify", "explain", "disk_usage"}
# Path("file://host/x") is file:/host/x, which names a local file.
URLS = ("s3://bucket/x", "hdfs://host:8020/x", "abfss://container@account/x", "dbfs:/x", "S3A://b", "file://host/x")


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package in (kafkalog, kafkalog.tables, kafkalog.spark):
        for name in package.__all__:
            found = getattr(package, name)
            short = f"{package.__name__.removeprefix('kafkalog.')}.{name}".removeprefix("kafkalog.")
            # Exceptions and reports carry paths that were checked.
            if (
                inspect.isclass(found)
                and not issubclass(found, (Exception, tuple))
                and found.__module__[-8:] != ".reports"
            ):
                yield short, found
                yield from ((f"{short}.{each}", call) for each, call in vars(found).items() if inspect.isfunction(call))
            elif callable(found) and not inspect.isclass(found):
                yield short, found


def path_parameters() -> Iterator[tuple[str, Callable[..., Any], str]]:
    for name, call in public():
        for parameter in inspect.signature(call).parameters.values():
            is_path = any(kind in str(parameter.annotation) for kind in _KINDS)
            is_option = name.startswith("spark.") and parameter.name in _SPARK
            # A ring of keys is a mapping to files; a tier may lie in a bucket, which its own tests read.
            is_path = is_path and parameter.name not in {"keyring", "remote"}
            if (is_path or is_option) and not name.endswith(".__init__"):
                yield name, call, parameter.name


def takes_stores(call: Callable[..., Any], parameter: str) -> bool:
    """Report whether a parameter may be a URL of a store: beside it are the options of one."""
    return parameter == "path" and "storage_options" in inspect.signature(call).parameters


def is_of_spark(name: str, parameter: str) -> bool:
    """Report whether it is a path of a read or an export on Spark, whose options of the store are ``storage.NAME``."""
    reads = name in {"spark.count", "spark.export", "spark.plan", "spark.read"} and parameter == "path"
    return reads or (name, parameter) == ("spark.export", "out")


CASES = [
    pytest.param(*case, id=f"{case[0]}-{case[2]}")
    for case in path_parameters()
    if not takes_stores(case[1], case[2]) and not is_of_spark(case[0], case[2])
]
READERS = [
    pytest.param(*case[:2], id=case[0])
    for case in path_parameters()
    if takes_stores(case[1], case[2]) and case[0] not in OWN_TESTS
]


def arguments(name: str, call: Callable[..., Any], folder: Path) -> dict[str, Any]:
    """Return the required arguments of a call, all of them sound."""
    last = name.rsplit(".", maxsplit=1)[-1]
    found: dict[str, Any] = {"remote": folder / "L"} if last == "remote_segments" else {}
    if name == "rescue":
        # Only a tier may stand in for them.
        found["paths"] = folder / "L"
    for parameter in inspect.signature(call).parameters.values():
        if parameter.default is not inspect.Parameter.empty or parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if parameter.name == "self":
            found["self"] = kafkalog.LogWriter(folder / "new", "t")
        elif parameter.name == "out":
            found["out"] = folder / "out"
        elif parameter.name in _OTHERS:
            found[parameter.name] = _OTHERS[parameter.name]
        elif last in _FILE:
            found[parameter.name] = next(
                (folder / "L" / ("ledger-0" if last == "TransactionIndex" else "orders-0")).glob(f"*{_FILE[last]}")
            )
        else:
            found[parameter.name] = folder / "L" / ("orders-0" if last in _PARTITION else "")
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(DATA, tmp_path / "L")
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.rglob("*") if each.relative_to(folder).parts[0] != "new")


def test_the_functions_with_paths_are_found() -> None:
    found = {(name, parameter) for name, _, parameter in path_parameters()}
    assert len(found) >= 50
    assert {("scan", "path"), ("rewrite", "drop_keys"), ("rescue", "into"), ("LogWriter", "log_dir")} <= found
    assert {("spark.export", "out"), ("tables.lag", "path"), ("LogWriter.append_batches", "source")} <= found


@pytest.mark.parametrize(("name", "call", "parameter"), CASES)
def test_a_url_is_refused_before_anything_is_done(
    name: str, call: Callable[..., Any], parameter: str, folder: Path
) -> None:
    before = files(folder)
    given = arguments(name, call, folder)
    several = "Paths" in str(inspect.signature(call).parameters[parameter].annotation)
    for url in (*URLS, *map(Path, URLS[:-1]), *([[url] for url in URLS] if several else [])):
        with pytest.raises(ValueError, match="is a URL: "):
            call(**{**given, parameter: url})
        assert files(folder) == before


@pytest.mark.parametrize(("name", "call"), READERS)
def test_a_url_of_a_store_is_read_as_the_local_path(name: str, call: Callable[..., Any], folder: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    given = arguments(name, call, folder)
    memory = fsspec.filesystem("memory")
    for file in files(folder / "L"):
        if file.is_file():
            memory.pipe_file(f"/urls/L/{file.relative_to(folder / 'L').as_posix()}", file.read_bytes())
    url = f"memory://urls/{given['path'].relative_to(folder).as_posix()}"

    def answer(path: Any) -> Any:
        try:
            found = call(**{**given, "path": path})
        except kafkalog.KafkaLogError as error:
            return type(error)
        return found if isinstance(found, pa.Table) else type(found)

    assert answer(url) == answer(given["path"])


@pytest.mark.parametrize("url", URLS)
def test_log_dirs_that_spark_writes_are_no_urls(url: str, folder: Path) -> None:
    for given in ({"path": url}, {"paths": f'["{url}"]'}, {"path": f"{folder}/L,{url}"}):
        with pytest.raises(ValueError, match="is a URL: "):
            parse_paths(given)


def test_file_urls_are_read_and_written(folder: Path) -> None:
    shutil.copytree(DATA, folder / "a b%c")
    expected = kafkalog.read_table(DATA, topics="orders")
    odd = folder / "a b%c"
    for url in (odd.as_uri(), f"file:{odd.as_uri()[7:]}", f"FILE://localhost{odd.as_uri()[7:]}", Path(odd.as_uri())):
        assert kafkalog.read_table(url, topics="orders").equals(expected)
        assert kafkalog.LogDir(url).path == str(odd)
    kafkalog.rewrite(odd.as_uri(), (folder / "new").as_uri(), drop_keys=[])
    assert kafkalog.read_table(folder / "new", topics="orders").equals(expected)
    assert parse({"path": odd.as_uri()}).paths == (str(odd),)
    assert list((folder / "cwd").iterdir()) == []


def test_a_local_folder_of_such_a_name_is_reached_by_another_spelling(folder: Path) -> None:
    shutil.copytree(DATA, Path("s3:") / "bucket")
    for path in ("./s3:/bucket", "./s3://bucket", folder / "cwd" / "s3:" / "bucket"):
        assert kafkalog.LogDir(path).topics == kafkalog.LogDir(DATA).topics
