"""The README's first two shell blocks are the commands that are run here and in CI."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def blocks() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith(("#", "set ", "cd "))]


def test_ci_runs_exactly_the_second_command() -> None:
    assert commands((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == commands(blocks()[1])


def test_the_first_command_is_the_main_job() -> None:
    first = commands(blocks()[0])
    assert first == ["python3 tests/main_job.py"]
    assert (ROOT / first[0].split()[1]).is_file()
