"""Other folders of a log dir on the command line, which leaves all of it unchanged."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING

import pytest

import corpus
from command import call, fails

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

IN_FLIGHT = corpus.GOLDEN / "in-flight"
RECORDS = {"delete": 400, "stray": 400, "future": 90}


def named(state: str) -> Path:
    (found,) = IN_FLIGHT.glob(f"data-*/*-{state}")
    return found


@pytest.mark.parametrize("state", RECORDS)
def test_a_folder_that_is_no_longer_or_not_yet_live_is_listed_and_read_only_when_named(state: str) -> None:
    folder = named(state)
    topic, data = folder.name.rpartition("-0.")[0], folder.parent
    listed = [json.loads(line) for line in call("ls", data, "-J").stdout.splitlines()]
    assert [part["path"] for part in listed if part["state"] == state] == [str(folder)]
    rows = [line.split() for line in call("ls", data).stdout.splitlines()]
    assert {row[2] for row in rows if row[0] == topic} == {state}
    for words in (["offsets"], ["stats"], ["stats", "-J"]):
        assert topic not in call(words[0], data, *words[1:]).stdout
    assert "no topic" in fails(1, "stats", data, "-t", topic)
    assert topic in fails(1, "cat", data, "-t", topic)
    # By its path it is what its name says, and is read.
    end = RECORDS[state]
    one = json.loads(call("ls", folder, "-J").stdout)
    assert (one["topic"], one["partition"], one["state"], one["logEndOffset"]) == (topic, 0, state, end)
    assert call("offsets", folder).stdout == f"{topic}:0:{end}\n"
    assert json.loads(call("stats", folder, "-J").stdout)["records"] == end
    assert call("cat", folder, "-o", "-2", "-f", r"%o\n").stdout.split() == [str(end - 2), str(end - 1)]


def state_of(root: Path) -> dict[str, tuple[int, int, str]]:
    """Give the names, times and content of all there is."""
    return {
        str(path.relative_to(root)): (
            path.stat().st_mtime_ns,
            path.stat().st_size,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [root, *sorted(root.rglob("*"))]
    }


def test_commands_leave_what_they_read_as_it_was(tmp_path: Path) -> None:
    """Also where indexes are gone, of an odd length, or preallocated, as after a kill: a broker would mend them."""
    data, folder = tmp_path / "data", tmp_path / "data" / "to-shrink-0"
    shutil.copytree(IN_FLIGHT / "data-0", data)
    logs = sorted(folder.glob("*.log"))
    logs[0].with_suffix(".index").unlink()
    logs[1].with_suffix(".timeindex").write_bytes(b"12345678901")
    for suffix in (".index", ".timeindex"):
        with logs[-1].with_suffix(suffix).open("r+b") as index:
            index.truncate(10_485_756)
    with logs[-1].open("ab") as log:
        log.write(bytes(5000))
    before = state_of(data)
    files = ",".join(str(path) for path in sorted(folder.iterdir()) if path.suffix in {".log", ".snapshot"})
    commands: list[list[str | Path]] = [
        ["ls", data],
        ["ls", folder, "-J"],
        ["stats", data],
        ["offsets", data],
        ["offsets", data, "--time", "max-timestamp"],
        ["offsets", data, "--time", "1700008394000"],
        ["cat", data, "-t", "to-shrink", "-o", "-3"],
        ["cat", folder, "-J"],
        ["export", data, tmp_path / "files"],
        ["export", folder, tmp_path / "one.csv", "--threads", "3"],
    ]
    for words in commands:
        done = call(*words)
        assert done.returncode == 0, (words, done.stderr)
    assert call("dump", "--files", files, "--print-data-log").returncode == 1, "zeros at the end"
    assert state_of(data) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "files", "one.csv"]
