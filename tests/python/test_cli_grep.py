"""``kafkalog grep`` beside GNU grep over the same records, one a line."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import corpus
from command import call, fails
from kafkalog import LogWriter, Record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

LINES = [f"{'Error' if n % 7 == 0 else 'info'} order-{n} of [customer.{n % 5}]" for n in range(200)]


@pytest.fixture(name="logs", scope="module")
def two_partitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a log dir whose two partitions hold the same lines."""
    logs = tmp_path_factory.mktemp("logs")
    for partition in range(2):
        with LogWriter(logs, "orders", partition) as log:
            rows = [Record(line.encode(), b"key-%d" % n, headers={"trace": b"t%d" % n}) for n, line in enumerate(LINES)]
            log.append(rows)
    return logs


@pytest.mark.skipif(shutil.which("grep") is None, reason="needs grep")
@pytest.mark.parametrize(
    "words",
    [
        ["order-1"],
        ["-i", "ERROR"],
        ["-v", "order-1"],
        ["-F", "[customer.3]"],
        ["-F", "-i", "[CUSTOMER.3]"],
        ["order-[0-9]+7 of"],
        ["^Error.*[.]4]$"],
        ["-m", "5", "info"],
        ["-v", "-i", "-m", "3", "INFO"],
        ["-c", "info"],
        ["-c", "no such"],
        ["no such"],
        ["-v", "o"],
    ],
)
def test_as_grep(logs: Path, words: list[str]) -> None:
    text = "".join(f"{line}\n" for line in LINES)
    wanted = subprocess.run(
        ["grep", "-E" if "-F" not in words else "-a", *words], input=text, capture_output=True, text=True, check=False
    )
    found = call("grep", *words, logs, "-p", "0")
    counted = f"orders-0:{wanted.stdout}" if "-c" in words else wanted.stdout
    assert (found.stdout, found.returncode, found.stderr) == (counted, wanted.returncode, "")


def test_in_keys_and_headers(logs: Path) -> None:
    assert call("grep", "^key-17$", logs).returncode == 1
    assert call("grep", "^key-17$", logs, "--in", "key", "-f", r"%t-%p %o\n").stdout == "orders-0 17\norders-1 17\n"
    assert call("grep", "-F", "t199", logs, "--in", "key,headers", "-p", "1", "-f", r"%o\n").stdout == "199\n"
    assert call("grep", "-c", "^trace$", logs, "--in", "headers").stdout == "orders-0:200\norders-1:200\n"
    assert call("grep", "-l", "order-3", logs, "-p", "1").stdout == "orders-1\n"
    line = call("grep", "-c", "order-3 ", logs, "-p", "1", "-J").stdout
    assert json.loads(line) == {"topic": "orders", "partition": 1, "count": 1}
    assert json.loads(call("grep", "order-3 ", logs, "-m", "1", "-J").stdout)["payload"] == LINES[3]


def test_exit_codes(logs: Path, tmp_path: Path) -> None:
    for code, words, error in (
        (2, ["a(b", str(logs)], "the pattern 'a(b' at position 1: unclosed group"),
        (2, ["a", str(logs), "--in", "values"], "expected value, key, headers"),
        (2, ["a", str(logs), "-t", "nosuch"], 'no topic "nosuch"'),
        (2, ["-c", "-l", "a", str(logs)], "not allowed with argument"),
        (3, ["a", str(tmp_path / "nowhere")], "No such file or directory"),
    ):
        done = call("grep", *words)
        assert (done.returncode, done.stdout) == (code, "")
        assert error in done.stderr
    shutil.copytree(logs, tmp_path / "logs")
    segment = tmp_path / "logs" / "orders-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:70] + b"\0" + segment.read_bytes()[71:])
    done = call("grep", "-c", "info", tmp_path / "logs")
    assert (done.returncode, done.stdout) == (3, "orders-0:0\norders-1:171\n")
    assert "CRC" in done.stderr or "crc" in done.stderr
    done = call("grep", "-c", "info", tmp_path / "logs", "--on-corrupt", "skip")
    assert (done.returncode, done.stdout) == (3, "orders-0:0\norders-1:171\n")
    done = call("grep", "info", tmp_path / "logs", "-p", "0")
    assert (done.returncode, done.stdout) == (3, "")


def test_of_a_bare_segment_and_of_golden_logs(logs: Path, tmp_path: Path) -> None:
    shutil.copy(logs / "orders-0" / f"{0:020}.log", tmp_path / "some.bin")
    assert call("grep", "-v", "-m", "1", "x", tmp_path / "some.bin").stdout == f"{LINES[0]}\n"
    data = corpus.GOLDEN / "clean-restarts" / "data-1"
    assert call("grep", "-c", "x", data).stdout.splitlines() == ["events-1:112", "ledger-0:56", "orders-0:107"]


def test_bounds_of_offsets() -> None:
    """Those of cat; -o -N takes the last N of each partition, of topics that are not internal."""
    data = corpus.GOLDEN / "clean-restarts" / "data-1"
    shape = ["-f", r"%t-%p %o\n"]
    every = call("grep", "item", data, *shape).stdout.splitlines()
    for bound in (100, 10_000):
        wanted = [line for line in every if int(line.split()[1]) >= bound]
        assert call("grep", "item", data, "-o", str(bound), *shape).stdout.splitlines() == wanted
    ends = {"orders-0": 880, "events-1": 880, "ledger-0": 954}
    wanted = [line for line in every if int(line.split()[1]) >= ends[line.split()[0]] - 50]
    assert call("grep", "item", data, "-o", "-50", *shape).stdout.splitlines() == wanted != []
    assert call("grep", "item", data, "-o", "end").returncode == 1
    assert "leave out --from" in fails(2, "grep", "item", data, "-o", "5", "--from", "-1h")


def test_habits_of_grep(tmp_path: Path) -> None:
    data = corpus.GOLDEN / "clean-restarts" / "data-1"
    counted = call("grep", "-c", "item", data).stdout
    assert call("grep", "-rEc", "-e", "item", data).stdout == call("grep", data, "-ce", "item").stdout == counted
    assert call("grep", "-e", "-item", data).returncode == 1
    assert (call("grep", "-q", "item", data).stdout, call("grep", "-q", "item", data).returncode) == ("", 0)
    assert call("grep", "-q", "no such text", data).returncode == 1
    for word in ("-n", "-w", "-x", "-A", "-C", "-k", "-b"):
        assert ": " in fails(2, "grep", "item", data, word).partition(f"unknown option {word}")[2]
    segment = shutil.copy(data / "orders-0" / f"{145:020}.log", tmp_path / "ticket")
    assert call("grep", "-c", "item", segment).stdout == f"{segment}:12\n"
    assert call("grep", "-c", "item", segment, "-t", "orders").stdout == "orders:12\n"
    assert json.loads(call("grep", "-cJ", "item", segment).stdout) == {"topic": None, "partition": None, "count": 12}
