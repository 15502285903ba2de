"""Names and texts of a user, a file or a log that become a path, a property or HTML stay what they are."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
from typing import TYPE_CHECKING

import pytest

import kafkalog
from command import call, fails
from kafkalog import _reprs

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["../outside", "/outside", "..", ".", "", "a/b", "new\nline", "nul\0", "n" * 250, "\u00fc", "\x1b[2J"]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tmp" / "deep").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp" / "deep"))
    with kafkalog.LogWriter(tmp_path / "logs", "t") as writer:
        writer.append([kafkalog.Record(b"v")])
    (tmp_path / "loose.gz").write_bytes(gzip.compress((tmp_path / "logs" / "t-0" / f"{0:020}.log").read_bytes()))
    return tmp_path / "logs"


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("name", [*NAMES, "ABSOLUTE"])
def test_a_topic_is_no_path(logs: Path, name: str) -> None:
    """The folder of a segment's temporary file, and that of an export, were made where the name led."""
    tmp_path = logs.parent
    name = str(tmp_path / "outside") if name == "ABSOLUTE" else name
    before = tree(tmp_path)
    for act in (
        lambda: kafkalog.read_table(tmp_path / "loose.gz", topics=name, partitions=[0]),
        lambda: kafkalog.dataset(tmp_path / "loose.gz", topics=name),
        lambda: kafkalog.LogWriter(tmp_path / "new", name),
        lambda: kafkalog.scan(logs, topics=name),
    ):
        with pytest.raises((ValueError, kafkalog.UnknownTopicOrPartitionError)):
            act()
    if "\0" not in name and name:
        said = fails(2, "export", tmp_path / "loose.gz", tmp_path / "out", "-t", name, "-p", "0")
        assert "expected 1 to 249 ASCII letters" in said
        assert "\x1b" not in said
    assert tree(tmp_path) == before


MEMBERS = {
    "long": ["x" * 300 + "/a"],
    "deep": ["/".join(["d"] * 2500)],
    "file and folder": ["logs"],
    "folder and file": [f"logs/t-0/{0:020}.log", "logs/t-0"],
    "no name": [""],
    "up": ["logs/../../x"],
    "absolute up": ["/../../x"],
}


@pytest.mark.parametrize("case", MEMBERS)
def test_a_member_of_an_archive_is_no_path_out_of_it(logs: Path, case: str) -> None:
    tmp_path = logs.parent
    segment = (logs / "t-0" / f"{0:020}.log").read_bytes()
    with tarfile.open(tmp_path / "a.tar", "w") as packed:
        for name in [*MEMBERS[case], f"logs/t-0/{0:020}.log"]:
            member = tarfile.TarInfo(name)
            member.size = len(segment)
            packed.addfile(member, io.BytesIO(segment))
    before = tree(tmp_path)
    with pytest.raises((kafkalog.CorruptRecordError, ValueError)) as caught:
        kafkalog.read_table(tmp_path / "a.tar")
    assert str(caught.value).startswith(f"{tmp_path / 'a.tar'}: ")
    assert str(tmp_path / "tmp") not in str(caught.value)
    del caught
    assert {name for name in tree(tmp_path) if not name.startswith("tmp/")} == {
        name for name in before if not name.startswith("tmp/")
    }


def test_a_note_of_a_job_removes_nothing_but_staged_rows(logs: Path) -> None:
    """A log dir may come from anywhere: its note names the files that are removed when the job is settled."""
    victim = logs.parent / "important.txt"
    victim.write_text("x")
    job = {"id": "a1", "dirs": [str(logs)], "clock": 1, "settings": [], "files": [str(victim)], "ends": []}
    for committed in (True, False):
        note = {**job, "created": {}, "state": None, "committed": committed, "place": 0}
        (logs / ".kafkalog-job").write_text(f"kafkalog-job 1 a1\n{json.dumps(note)}\n")
        with pytest.raises(ValueError, match=r"kafkalog-job: expected the note of a job"):
            kafkalog.LogWriter(logs, "t")
        assert victim.read_text() == "x"
    for created in ({"../../evil": 1}, ["x"], 3):
        note = {**job, "files": [], "created": created, "state": None, "committed": False, "place": 0}
        (logs / ".kafkalog-job").write_text(f"kafkalog-job 1 a1\n{json.dumps(note)}\n")
        with pytest.raises(ValueError, match=r"kafkalog-job: expected the note|expected 1 to 249 ASCII"):
            kafkalog.LogWriter(logs, "t")
    assert not [*logs.parent.glob("**/evil*")]


def test_a_cluster_id_is_one_property(logs: Path) -> None:
    """An escaped newline in the ``meta.properties`` of a disk would add properties to those of the new node."""
    (logs / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=a\\u000anode.id\\=77\n")
    out = logs.parent / "rescued"
    call("rescue", logs, "--out", out)
    lines = (out / "meta.properties").read_text().splitlines()
    assert [line.partition("=")[0] for line in lines] == ["version", "node.id", "cluster.id", "directory.id"]
    assert (kafkalog.LogDir(out).meta or {})["cluster.id"] == "a\nnode.id=77"


def test_html_is_escaped() -> None:
    text = _reprs.html_table("<b>", ["<i>"], [["<script>", None]], "<more>")
    assert "<script>" not in text
    assert text.count("<b>") == 1
    assert "<i>" not in text
    assert "<more>" not in text
