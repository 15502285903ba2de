"""``kafkalog truncate``: what Kafka's truncation leaves, under the topic's settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import corpus
from command import call, fails
from recover_cases import digests, laid_out, outcome

if TYPE_CHECKING:
    from pathlib import Path

CASES = corpus.GOLDEN / "log" / "truncate"
NAMES = ["batch-boundary", "inside-last-batch", "last-offset", "at-end"]


def left_by_kafka(case: Path) -> dict[str, str]:
    """Give the SHA-256 of every file."""
    files = [line for line in outcome(case) if line["event"] == "file" and line["change"] != "deleted"]
    return {line["name"]: line["after_sha256"] for line in files}


@pytest.mark.parametrize("name", NAMES)
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
