"""One writer, and beside it four reading processes and four reading threads: ``reading.py`` says what must hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tiers

pytestmark = pytest.mark.full

SECONDS = tiers.pick(2, 4, 60)


@pytest.mark.timeout(300)
def test_readers_beside_a_writer(tmp_path: Path) -> None:
    """No torn read and no wrong lookup; a minute in the slow profile (``KAFKALOG_SLOW=1``)."""
    program = str(Path(__file__).with_name("reading.py"))
    (tmp_path / "known").write_bytes(bytes(8))
    roles = [["write", str(SECONDS)], *([["read", "1"]] * 4), ["read", "4"]]
    started = [
        subprocess.Popen(
            [sys.executable, program, role, str(tmp_path), how],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role, how in roles
    ]
    try:
        said = [process.communicate(timeout=SECONDS + 120) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(roles), [errors for _, errors in said if errors]
    print(f"{SECONDS} s: passes and rows read", *[out.strip() for out, _ in said[1:]], sep="; ")
