"""The command line as a user runs it, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def call(*words: str | bytes | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``kafkalog`` with these words."""
    command: list[Any] = [sys.executable, "-m", "kafkalog", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def fails(code: int, *words: str | bytes | Path, **options: Any) -> str:
    """Run what ends with this exit code; give the one line it says."""
    done = call(*words, **options)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stderr.startswith("kafkalog: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr
