"""The line on a terminal that says how far a command has come."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import corpus
from kafkalog.cli import _progress

if TYPE_CHECKING:
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-0"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_was_written_is_told_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(_progress, "_PAUSE", 0.001)
    source, out = tmp_path / "source" / "t-0", tmp_path / "out" / "t-0"
    source.mkdir(parents=True)
    with (source / "0.log").open("wb") as file:
        file.truncate(3_200_000_000)
    (source / "0.index").write_bytes(b"not counted")
    with _progress.written(str(source), str(tmp_path / "out")):
        time.sleep(0.02)
        assert shown.getvalue() == ""
        out.mkdir(parents=True)
        for name, size in (("0.log", 700_000_000), ("9.log.cleaned", 500_000_000)):
            with (out / name).open("wb") as file:
                file.truncate(size)
        until = time.monotonic() + 30
        while "1.2 GB written, from a source of 3.2 GB" not in shown.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert "1.2 GB written, from a source of 3.2 GB" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("command", ["compact", "retain", "rewrite"])
def test_on_a_terminal_only(tmp_path: Path, command: str) -> None:
    controller, terminal = pty.openpty()
    words = [sys.executable, "-m", "kafkalog", command, str(DATA), str(tmp_path / "out")]
    with subprocess.Popen(words, stderr=terminal, stdout=subprocess.DEVNULL) as running:
        os.close(terminal)
        assert running.wait(60) == 0
    said = os.read(controller, 65_536)
    os.close(controller)
    assert said.endswith(b"\r\x1b[K")
    done = subprocess.run([*words[:-1], str(tmp_path / "again")], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
