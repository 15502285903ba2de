"""``kafkalog truncate``: what Kafka's truncation leaves, under the topic's settings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import corpus
import kafkalog
from command import call, fails
from recover_cases import digests, laid_out, outcome

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

CASES = corpus.GOLDEN / "log" / "truncate"
NAMES = ["batch-boundary", "inside-last-batch", "last-offset", "at-end"]


def left_by_kafka(case: Path) -> dict[str, str]:
    """Give the SHA-256 of every file."""
    files = [line for line in outcome(case) if line["event"] == "file" and line["change"] != "deleted"]
    return {line["name"]: line["after_sha256"] for line in files}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(2)
def test_indexes_are_made_by_the_settings(tmp_path: Path, name: str) -> None:
    """They are missing in the source: entries are as far apart as --config says, and else as Kafka's default."""
    config = laid_out(CASES / name, tmp_path / "source")
    folder = tmp_path / "source" / "orders-0"
    for index in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
        index.unlink()
    settings = [word for setting, value in config["log"].items() for word in ("--config", f"{setting}={value}")]
    offset = ["--offset", str(config["offset"])]
    done = call("truncate", folder, tmp_path / "out", *offset, *settings, "-J")
    told = json.loads(done.stdout)
    after = next(line for line in outcome(CASES / name) if line["event"] == "truncated")
    assert (told["logEndOffset"], told["segments"]) == (after["log_end_offset"], len(after["segments"]))
    left, kafkas = digests(tmp_path / "out"), left_by_kafka(CASES / name)
    assert left.keys() >= kafkas.keys()
    # By the clock of today the producers have expired.
    same = {at for at in kafkas if not at.endswith(".snapshot")}
    assert {at: left[at] for at in same} == {at: kafkas[at] for at in same}

    assert call("truncate", folder, tmp_path / "default", *offset).returncode == 0
    sizes = {way: (tmp_path / way / "orders-0" / f"{0:020}.index").stat().st_size for way in ("out", "default")}
    assert sizes["default"] < sizes["out"]


def test_settings_that_are_none(tmp_path: Path) -> None:
    config = laid_out(CASES / "at-end", tmp_path / "source")
    words: list[str | Path] = [
        "truncate",
        tmp_path / "source" / "orders-0",
        tmp_path / "out",
        "--offset",
        str(config["offset"]),
    ]
    for setting in ("segment.bytes=0", "no.such=1", "segment.bytes"):
        fails(2, *words, "--config", setting)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words", [["truncate", "{}/orders-0", "out", "--offset", "150"], ["recover", "{}", "--out", "out"]]
)
@pytest.mark.sampled(1)
def test_a_disk_without_room_leaves_nothing_half_done(tmp_path: Path, words: list[str]) -> None:
    """A partial copy would look like a log, and a second try would be refused."""
    resource = pytest.importorskip("resource")
    with kafkalog.LogWriter(tmp_path / "logs", "orders", config=kafkalog.LogConfig(segment_bytes=8000)) as log:
        for _ in range(2):
            log.append([kafkalog.Record(b"v" * 60) for _ in range(100)])
    given = [word.format(tmp_path / "logs") for word in words]
    assert len(list((tmp_path / "logs" / "orders-0").glob("*.log"))) == 2
    for was_there in (False, True):
        if was_there:
            (tmp_path / "out").mkdir()
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))  # noqa: E731
        told = fails(3, *given, cwd=tmp_path, preexec_fn=limit)
        assert "File too large" in told
        assert (tmp_path / "out").exists() == was_there
        assert not was_there or not any((tmp_path / "out").iterdir())
    assert call(*given, cwd=tmp_path).returncode == 0
    kept = 150 if words[0] == "truncate" else 200
    assert kafkalog.PartitionLog(tmp_path / "out" / "orders-0").log_end_offset in {100, kept}


def test_a_failure_after_the_copy_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is whole by then, but not cut."""
    with kafkalog.LogWriter(tmp_path / "logs", "orders") as log:
        log.append([kafkalog.Record(b"v")])
        log.append([kafkalog.Record(b"v")])

    def stop(*_: object) -> None:
        assert (tmp_path / "out" / "orders-0").is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr(kafkalog.LogWriter, "truncate", stop)
    with pytest.raises(KeyboardInterrupt):
        kafkalog.truncate(tmp_path / "logs" / "orders-0", tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "name",
    ["v2-1.1.1/data-0/headers-0", "v1-0.10.2.2/data-0/nulls-0", "compact/data-0/compact-keys-0"],
)
@pytest.mark.sampled(1)
def test_a_dry_run_and_a_run_agree_at_every_offset(tmp_path: Path, name: str) -> None:
    """Indexes up to Kafka 1.1 name first offsets; compacted logs have batches and segments without records."""
    log = kafkalog.PartitionLog(corpus.GOLDEN / name)
    start, end = log.log_start_offset, log.log_end_offset
    for offset in sorted({start, start + 1, *range(start, end, max((end - start) // 12, 1)), end - 1, end}):
        planned = kafkalog.truncate(log.path, tmp_path / "none", offset, dry_run=True)
        done = kafkalog.truncate(log.path, tmp_path / str(offset), offset)
        assert replace(done, out=None, dry_run=True) == planned, offset
