"""The README: its commands are those that CI runs, its examples run in a clone, its links lead somewhere."""

from __future__ import annotations

import re

import pytest

import documents
from documents import ROOT, blocks
from kafkalog.cli.help import GUIDES

pytestmark = pytest.mark.release


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith(("#", "set ", "cd "))]


def test_the_first_command_is_the_main_job() -> None:
    first = commands(blocks("README", "sh")[0])
    assert first == ["python3 tests/main_job.py"]
    assert (ROOT / first[0].split()[1]).is_file()


def test_ci_runs_exactly_the_second_command() -> None:
    assert commands((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == commands(blocks("README", "sh")[1])


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)]+)\)", documents.text("README"))
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_guide_is_linked() -> None:
    linked = re.findall(r"\[(\w+)\]\(python/kafkalog/guides/(\w+)\.md\)", documents.text("README"))
    assert linked == [(guide, guide) for guide in GUIDES]
