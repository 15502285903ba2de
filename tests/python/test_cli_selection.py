"""Options of the command line that select: each leaves out what it says, and nothing else."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
from command import call

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
TRANSACTIONS = next(p.folder for p in corpus.partitions() if p.folder.name == "txn-aborts-0")


@pytest.fixture(name="logs", scope="module")
def two_partitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a log dir with two partitions of a topic, of another length, and another topic."""
    logs = tmp_path_factory.mktemp("logs")
    for source, name in (("orders-0", "orders-0"), ("ledger-0", "orders-1"), ("events-1", "orders2-0")):
        shutil.copytree(DATA / source, logs / name)
    return logs


def rows(path: Path, **options: Any) -> list[tuple[str, int, int]]:
    table = kafkalog.read_table(path, columns=["topic", "partition", "offset"], **options)
    return [(row["topic"], row["partition"], row["offset"]) for row in table.to_pylist()]


def shown(*words: str | Path) -> list[tuple[str, int, int]]:
    done = call("cat", *words, "-f", r"%t %p %o\n")
    assert (done.returncode, done.stderr) == (0, "")
    cells = [line.split() for line in done.stdout.splitlines()]
    return [(topic, int(partition), int(offset)) for topic, partition, offset in cells]


def test_cat_of_one_partition(logs: Path) -> None:
    both, first, second = (rows(DATA / name) for name in ("orders-0", "orders-0", "ledger-0"))
    second = [("orders", 1, offset) for _, _, offset in second]
    assert len(first) != len(second)
    assert shown(logs, "-t", "orders") == both + second
    assert shown(logs, "-t", "orders", "-p", "0") == first
    assert shown(logs, "-t", "orders", "-p", "1") == second
    # The last offsets of a log may be a marker's.
    last = [row for row in second if row[2] >= 954 - 3]
    assert shown(logs, "-t", "orders", "-o", "-3") == first[-3:] + last
    assert shown(logs, "-t", "orders", "-p", "1", "-o", "-3") == last
    assert shown(logs, "-t", "orders", "-p", "1", "-o", "950") == [row for row in second if row[2] >= 950]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["-t", "orders"], {"topics": "orders"}),
        (["-t", "orders", "-t", "orders2"], {}),
        (["--topic-pattern", "orders"], {"topics": "orders"}),
        (["--topic-pattern", "orders."], {"topics": "orders2"}),
        (["-p", "1"], {"partitions": {"orders": [1]}}),
        (["-t", "orders", "-p", "0", "-p", "1"], {"topics": "orders"}),
        (["--from", "1700030390000"], {"starting_timestamp": 1_700_030_390_000}),
        (["--until", "2023-11-15T06:39:50Z"], {"ending_timestamp": 1_700_030_390_000}),
        (["--include-control", "-t", "orders"], {"topics": "orders", "include_control": True}),
    ],
    ids=str,
)
def test_export_of_a_selection(logs: Path, tmp_path: Path, words: list[str], options: dict[str, Any]) -> None:
    done = call("export", logs, tmp_path / "out.parquet", "--columns", "offset,topic,partition", *words)
    assert done.returncode == 0, done.stderr
    table = pq.ParquetFile(tmp_path / "out.parquet").read()
    assert table.column_names == ["offset", "topic", "partition"]
    found = [(row["topic"], row["partition"], row["offset"]) for row in table.to_pylist()]
    assert found == rows(logs, **options)
    everything = rows(logs, include_control=True)
    assert 0 < len(found) < len(everything)
    assert set(found) <= set(everything)


def test_export_by_several_threads_is_the_same(tmp_path: Path) -> None:
    for threads in ("1", "4"):
        done = call("export", TRANSACTIONS, tmp_path / f"{threads}.parquet", "--threads", threads)
        assert done.returncode == 0, done.stderr
    assert pq.ParquetFile(tmp_path / "1.parquet").read() == pq.ParquetFile(tmp_path / "4.parquet").read()


def test_topics_of_ls_stats_and_offsets(logs: Path) -> None:
    for command in ("ls", "stats"):
        lines = call(command, logs, "-t", "orders").stdout.splitlines()[1:]
        assert {tuple(line.split()[:2]) for line in lines} == {("orders", "0"), ("orders", "1")}
        assert len(call(command, logs, "-t", "orders", "-t", "orders2", "-J").stdout.splitlines()) == 3
    assert call("offsets", logs, "--partitions", "1,7").stdout == "orders:1:954\n"
    assert call("offsets", logs, "--topic", "orders").stdout == "orders:0:880\norders:1:954\n"
    assert call("offsets", logs, "--topic", "orders.").stdout == "orders2:0:880\n"


def printed(*words: str | Path) -> list[str]:
    done = call(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_one_shape_of_selections(tmp_path: Path) -> None:
    """Topics and partitions may be listed, repeated, or both, in every command; times too."""
    assert printed("cat", DATA, "-t", "orders,ledger", "-f", r"%t\n") == printed(
        "cat", DATA, "-t", "orders", "--topic", "ledger", "-f", r"%t\n"
    )
    assert {*printed("cat", DATA, "-t", "orders,events,ledger", "-p", "0,1", "-f", r"%t-%p\n")} == {
        "orders-0",
        "events-1",
        "ledger-0",
    }
    for command in ("ls", "stats"):
        listed = printed(command, DATA, "-t", "ledger,orders", "-J")
        assert {json.loads(line)["topic"] for line in listed} == {"ledger", "orders"}
    assert printed("offsets", DATA, "-t", "orders,led.*", "-p", "0") == ["ledger:0:954", "orders:0:880"]
    assert "expected names separated by commas, found ','" in call("ls", DATA, "-t", ",").stderr
    when = ("--from", "2023-11-15T06:39:25Z", "--until", "1700030380000")
    again = ("-o", "s@2023-11-15T06:39:25Z", "-o", "e@1700030380000")
    assert printed("cat", DATA, "-t", "orders", *when, "-J") == printed("cat", DATA, "-t", "orders", *again, "-J") != []
    assert "leave out --from and --until" in call("cat", DATA, "-t", "orders", "-o", "870", *when).stderr
    latest = kafkalog.read_table(DATA, "orders", columns="offset", latest_per_key=True)["offset"].to_pylist()
    found = printed("cat", DATA, "-t", "orders", "--latest-per-key", "-f", r"%o\n")
    assert list(map(int, found)) == latest
    assert call("export", DATA, tmp_path / "o.arrow", "-t", "orders", "--latest-per-key").returncode == 0
    assert pa.ipc.open_file(str(tmp_path / "o.arrow")).read_all()["offset"].to_pylist() == latest
