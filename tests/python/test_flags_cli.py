"""Flags of ``recover``, ``rebuild`` and ``import`` reach what they are about; what is not given stays as it was."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from command import call, fails
from kafkalog import LogConfig, LogWriter, Record
from kafkalog.cli import import_, main
from recover_cases import digests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

NOW = 1_700_000_000_000


def log(home: Path) -> Path:
    """Write a log of a few segments, with several batches in each; give its folder."""
    with LogWriter(home / "logs", "orders", config=LogConfig(segment_bytes=4000), batch_bytes=200) as writer:
        writer.append([Record(b"v%d" % n * 10, b"k", NOW + n) for n in range(300)])
    return home / "logs" / "orders-0"


@pytest.mark.parametrize("level", [None, "4.3", "1.1", "0.10.0"])
def test_rebuild_for_a_version(tmp_path: Path, level: str | None) -> None:
    folder = log(tmp_path)
    config = LogConfig(index_interval_bytes=300)
    words = ["--config", "index.interval.bytes=300", *(["--kafka-version", level] if level else [])]
    assert call("rebuild", folder, "--out", tmp_path / "cli", *words).returncode == 0
    kafkalog.rebuild_indexes(folder, level or "4.3", out=tmp_path / "function", config=config)
    made = digests(tmp_path / "cli")
    assert made == digests(tmp_path / "function")
    kafkalog.rebuild_indexes(folder, out=tmp_path / "latest", config=config)
    assert (made == digests(tmp_path / "latest")) == (level in {None, "4.3"})
    kafkalog.rebuild_indexes(folder, level or "4.3", out=tmp_path / "sparse")
    assert made != digests(tmp_path / "sparse")


def test_rebuild_says_what_it_would_do(tmp_path: Path) -> None:
    folder = log(tmp_path)
    (folder / f"{0:020}.index").unlink()
    before = digests(folder)
    dry = call("rebuild", folder, "-n")
    said = json.loads(call("rebuild", folder, "--dry-run", "--json").stdout)
    assert digests(folder) == before
    done = call("rebuild", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, dry.stdout, "")
    assert (folder / f"{0:020}.index").exists()
    assert (said["topic"], said["partition"], said["logStartOffset"], said["logEndOffset"]) == ("orders", 0, 0, 300)
    size = (folder / f"{0:020}.index").stat().st_size
    assert {"name": f"{0:020}.index", "before": None, "after": size} in said["files"]
    assert json.loads(call("rebuild", folder, "-J").stdout)["files"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["{}", "--level", "4.5"], 2),
        (["{}", "--level", "new"], 2),
        (["{}/..", "-n"], 2),
        (["{}/none", "-n"], 3),
        (["{}", "--config", "segment.size=1"], 2),
    ],
)
def test_what_rebuild_refuses(tmp_path: Path, words: list[str], code: int) -> None:
    folder = log(tmp_path)
    before = digests(folder)
    fails(code, "rebuild", *(word.format(folder) for word in words))
    assert digests(folder) == before


def test_recover_from_an_offset_on(tmp_path: Path) -> None:
    """Everything below the offset is trusted, damaged as it is."""
    folder = log(tmp_path)
    first, *_, last = sorted(folder.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[700] ^= 1
    first.write_bytes(data)

    def cut(*words: str) -> int:
        told: int = json.loads(call("recover", folder, "--unclean", "--as-kafka", "-n", "-J", *words).stdout)[
            "bytesCut"
        ]
        return told

    assert cut("--recovery-point", last.stem.lstrip("0")) == 0
    assert cut("--recovery-point", "0") > len(data) - 700
    fails(2, "recover", folder, "--recovery-point", "-1")


def test_recover_under_the_topics_settings(tmp_path: Path) -> None:
    folder = log(tmp_path)
    words: list[str | Path] = ["recover", folder, "--unclean", "--recovery-point", "0"]
    for name, setting in (("dense", ["--config", "index.interval.bytes=0"]), ("default", [])):
        assert call(*words, "--out", tmp_path / name, *setting).returncode == 0
    sizes = [(tmp_path / name / f"{0:020}.index").stat().st_size for name in ("dense", "default")]
    batches = sum(row["segment"] == f"{0:020}.log" for row in kafkalog.scan_batches(folder).read_all().to_pylist())
    assert sizes == [8 * (batches - 1), 0]


def test_import_of_a_format_that_no_name_tells(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.write_text('{"value": "eA=="}\n')
    assert "does not show the format" in fails(2, "import", path, tmp_path / "logs", "-t", "t")
    assert call("import", path, tmp_path / "logs", "-t", "t", "--format", "jsonl").returncode == 0
    assert kafkalog.read_table(tmp_path / "logs")["value"].to_pylist() == [b"x"]


@pytest.mark.parametrize("sync", [None, "config", "never", "append"])
def test_import_brings_to_the_disk_as_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str | None
) -> None:
    told = []

    class Watched(LogWriter):
        def __init__(self, *args: Any, **options: Any) -> None:
            told.append(options["sync"])
            super().__init__(*args, **options)

    monkeypatch.setattr(import_, "LogWriter", Watched)
    path = tmp_path / "t-0.jsonl"
    path.write_text('{"value": "eA=="}\n')
    words = ["--sync", sync] if sync else []
    assert main.main(["import", str(path), str(tmp_path / "logs"), *words]) == 0
    assert told == [sync or "config"]
