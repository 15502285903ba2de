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


def test_the_two_commands_of_a_clone() -> None:
    """The main job, and the tests; CI runs all of these."""
    main_job, tests = (commands(block) for block in blocks("README", "sh")[-2:])
    assert main_job == ["python3 tests/main_job.py"]
    assert tests == ["python3 tests/run.py"]
    assert commands((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == [f"{tests[0]} --full"]
    assert all((ROOT / command.split()[1]).is_file() for command in (*main_job, *tests))


def test_workflows_run_files_of_the_clone() -> None:
    """And pin the actions of others by commit."""
    for path in (ROOT / ".github" / "workflows").iterdir():
        text = path.read_text(encoding="utf-8")
        ran = re.findall(r"run: (?:python3|bash) (\S+)", text)
        assert ran
        assert [file for file in ran if not (ROOT / file).is_file()] == []
        used = re.findall(r"uses: (\S+)", text)
        assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)]+)\)", documents.text("README"))
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_every_guide_is_linked() -> None:
    linked = re.findall(r"\[([\w-]+)\]\(python/kafkalog/guides/([\w-]+)\.md\)", documents.text("README"))
    assert linked == [(guide, guide) for guide in GUIDES]


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.(?:rs|py))`", text))
    files = [f"/{path}" for top in ("src", "python", "tests", "benches") for path in (ROOT / top).rglob("*.*")]
    assert len(named) > 50
    assert sorted(name for name in named if not any(file.endswith(f"/{name}") for file in files)) == []
