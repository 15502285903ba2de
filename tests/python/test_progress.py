"""Progress reports: a line on a terminal, and calls of a function."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog.cli import _progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-0"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with contextlib.suppress(OSError), _progress.on_terminal() as show:
        assert show is not None
        show("written", 1_200_000_000, 3_200_000_000)
        assert shown.getvalue() == "\r 37% of 3.2 GB written\x1b[K"
        raise OSError
    assert shown.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("command", ["compact", "retain", "rewrite"])
@pytest.mark.sampled(1)
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


def test_a_report_shows_its_phases(tmp_path: Path) -> None:
    """On a terminal a line changes, and is gone at the end; in a pipe there is none."""
    program = "import sys; from kafkalog.cli import _progress, main; _progress._PAUSE = 0; sys.exit(main.main())"
    words = [sys.executable, "-c", program, "report", str(DATA), "--overwrite", "-o", str(tmp_path / "r.html")]
    controller, terminal = pty.openpty()
    with subprocess.Popen(words, stderr=terminal, stdout=subprocess.DEVNULL) as running:
        os.close(terminal)
        said = b""
        # Linux ends a terminal that nobody has open any more with an error.
        with contextlib.suppress(OSError):
            while some := os.read(controller, 65_536):
                said += some
        code = running.wait(60)
    os.close(controller)
    *shown, last = said.decode().split("\r\x1b[K")
    phases = {line.partition("% ")[2] or line for line in shown if line}
    assert {"of the partitions counted", "verified", "open transactions"} & phases, said
    assert all(line.partition("%")[0].strip().isdecimal() for line in shown if "%" in line)
    # What is left is the line about the file.
    assert last.startswith(f"kafkalog: {tmp_path / 'r.html'}: ")
    assert last.count("\n") == 1
    done = subprocess.run(words, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (code, last.replace("\r\n", "\n"))


VERBS: dict[str, tuple[Callable[..., Any], dict[str, Any], list[str]]] = {
    "compact": (kafkalog.compact, {"config": {"cleanup.policy": "compact"}}, ["written", "compacted"]),
    "retain": (kafkalog.retain, {"config": {"retention.ms": -1}}, ["written"]),
    "rewrite": (kafkalog.rewrite, {"drop_key_pattern": "x"}, ["read", "written"]),
}


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make three partitions of 4 MB, which take longer than the time between two calls."""
    path = tmp_path_factory.mktemp("progress") / "logs"
    for partition in range(3):
        with kafkalog.LogWriter(path, "orders", partition) as log:
            log.append([kafkalog.Record(os.urandom(1000), f"{n % 400}".encode(), n) for n in range(4000)])
    return path


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_is_told(log_dir: Path, tmp_path: Path, verb: str) -> None:
    work, how, stages = VERBS[verb]
    told: list[tuple[str, int, int]] = []
    work(log_dir, tmp_path / "out", **how, progress=lambda *said: told.append(said))
    found = [stage for stage, _, _ in told]
    assert [stage for n, stage in enumerate(found) if n == 0 or found[n - 1] != stage] in (stages, stages[-1:])
    size = sum(file.stat().st_size for file in log_dir.glob("*/*.log"))
    for stage in set(found):
        done = [done for name, done, _ in told if name == stage]
        assert done == sorted(done)
        assert {total for name, _, total in told if name == stage} == {size}
    assert told[-1] == (stages[-1], size, size)


def test_what_it_raises_ends_the_work(log_dir: Path, tmp_path: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        raise RuntimeError(f"{what} {done < total}")

    with pytest.raises(RuntimeError, match="written True"):
        kafkalog.rewrite(log_dir, tmp_path / "out", compression_type="gzip", progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_what_cannot_be_called_is_refused(log_dir: Path, tmp_path: Path, verb: str) -> None:
    work, how, _ = VERBS[verb]
    with pytest.raises(TypeError, match="progress must be callable, not 3"):
        work(log_dir, tmp_path / "out", **how, progress=3)
    assert list(tmp_path.iterdir()) == []
