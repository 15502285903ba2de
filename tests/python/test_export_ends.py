"""Exports that are ended from outside: nothing half-written has the output's name, and remains are reported."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import corpus
from command import call

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a partition whose export takes a while."""
    folder = tmp_path_factory.mktemp("long") / "orders-0"
    corpus.write_long(folder, 32 << 20, 2)
    return folder


def end(log: Path, out: Path, number: signal.Signals) -> int:
    """Begin an export, and end it while it writes; its exit code."""
    command = [sys.executable, "-m", "kafkalog", "export", str(log), str(out), "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as export:
        until = time.monotonic() + 100
        while not any(out.iterdir()) and time.monotonic() < until:
            time.sleep(0.01)
        export.send_signal(number)
        assert export.communicate() == (b"", b"")
        return export.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_export_that_is_asked_to_end_leaves_nothing(tmp_path: Path, long_log: Path, name: str) -> None:
    number = signal.Signals[name]
    assert end(long_log, tmp_path, number) == 128 + number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_what_a_killed_export_leaves_is_told_of_by_the_next(tmp_path: Path, long_log: Path) -> None:
    assert end(long_log, tmp_path, signal.SIGKILL) == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".orders-0.csv.")
    told = f"kafkalog: {left}: unfinished file of an export that was killed or still runs\n"
    orders = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    done = call("export", orders, tmp_path, "--format", "csv")
    assert (done.returncode, done.stderr) == (0, f"{told}kafkalog: 880 records in 1 csv file(s) in {tmp_path}\n")
    done = call("export", orders, tmp_path / "one.csv")
    assert done.stderr.startswith(told)
    assert {path.name for path in tmp_path.iterdir()} == {left.name, "orders-0.csv", "one.csv"}
