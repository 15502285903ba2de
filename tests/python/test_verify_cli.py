"""``kafkalog verify`` as a user runs it: lines, JSON, evidence, progress, exit codes."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import corpus
import kafkalog
from kafkalog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
FLIPPED = corpus.GOLDEN / "corrupt" / "flipped-bit" / "t-0"


def test_one_line_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(FLIPPED), "-s", "warning"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    log = FLIPPED / "00000000000000000000.log"
    assert line.startswith(f"{log}: byte 93 to 186: error: byte 110: crc (CRC-32C): expected 0x")
    assert " [batch-crc]; the bytes changed after they were written" in line


def test_what_is_at_most_info_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(DATA)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(": info: " in line for line in lines)
    assert main(["verify", str(DATA), "-s", "warning"]) == 0
    assert capsys.readouterr().out == ""


def test_the_exit_code_does_not_depend_on_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    torn = corpus.GOLDEN / "corrupt" / "torn-tail" / "t-0"
    assert main(["verify", str(torn), "-s", "error"]) == 1
    assert capsys.readouterr().out == ""


def test_json_lines_are_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-J", str(FLIPPED), str(DATA)]) == 1
    *rows, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert set(last) == {"summary"}
    assert rows == kafkalog.verify([FLIPPED, DATA]).to_pylist()


def test_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = tmp_path / "logs"
    shutil.copytree(DATA / "orders-0", log_dir / "orders-0")
    files = sorted(path for path in log_dir.rglob("*") if path.is_file())
    assert main(["verify", str(log_dir), "--evidence", "-s", "error"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    expected = [
        f"{file}: {file.stat().st_size} bytes, SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}"
        for file in files
    ]
    assert lines == expected
    assert last == f"{len(files)} files; none changed while they were verified"
    assert main(["verify", str(log_dir), "--evidence", "-J", "-s", "error"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert json.loads(last)["summary"]["files"] == len(files)
    *rows, total = [json.loads(line)["evidence"] for line in lines]
    assert [row["file"] for row in rows] == [str(file) for file in files]
    assert {row["unchanged"] for row in rows} == {True}
    assert total == {"files": len(files), "changed": 0}


def test_wrong_usage_and_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify"]) == 2
    assert main(["verify", str(DATA), "--threads", "0"]) == 2
    assert main(["verify", str(tmp_path / "gone")]) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    assert str(tmp_path / "gone") in error


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    """The terminal is a pseudo terminal; the work takes longer than the first pause."""
    with kafkalog.LogWriter(tmp_path, "t", config=kafkalog.LogConfig(compression_type="gzip")) as log:
        value = os.urandom(1000)
        for _ in range(150):
            log.append([kafkalog.Record(value, b"k", 1_700_000_000_000) for _ in range(400)])
    command = [sys.executable, "-m", "kafkalog", "verify", str(tmp_path), "--threads", "1"]
    quiet = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert quiet.stderr == b""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as shown:
        assert shown.wait(120) == 0
    os.close(theirs)
    text = os.read(ours, 100_000)
    os.close(ours)
    # What was shown is wiped out at the end.
    assert text.endswith(b"\r\x1b[K")
