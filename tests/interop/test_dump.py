"""``kafkalog dump`` beside kafka-dump-log itself, over every file of the golden folders."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import corpus

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]

TOOL = "org.apache.kafka.tools.DumpLogSegments"
KINDS = {".log", ".checkpoint", ".index", ".timeindex", ".txnindex", ".snapshot"}
API = "org.apache.kafka.tools.api."


def files_of(root: Path) -> list[str]:
    # Answers for damaged folders are in tests/golden/dump. Log cases are mostly damaged too, and too many for one
    # argument.
    found = (path.relative_to(root) for path in root.rglob("*") if path.suffix in KINDS)
    return sorted(str(path) for path in found if path.parts[0] not in {"corrupt", "dump", "log"})


def run(command: list[str], root: Path) -> tuple[str, str, int]:
    done = subprocess.run(command, cwd=root, capture_output=True, check=False, timeout=250)
    err = re.sub(r"(?m)^SLF4J.*\n", "", done.stderr.decode())
    return done.stdout.decode(), err, done.returncode


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--deep-iteration"],
        ["--print-data-log"],
        ["--print-data-log", "--skip-record-metadata"],
        ["--deep-iteration", "--max-bytes", "5000"],
        ["--key-decoder-class", API + "StringDecoder", "--value-decoder-class"],
        ["--verify-index-only"],
    ],
    ids=lambda flags: " ".join(flags).replace(API, "") or "none",
)
def test_every_golden_file(witness: Witness, tmp_path: Path, flags: list[str]) -> None:
    # The tool creates and truncates indexes in the folder that it reads.
    root = tmp_path.resolve() / "golden"
    shutil.copytree(corpus.GOLDEN, root)
    rest = files_of(root)
    assert len(rest) > 1500
    ends = 0
    # A file that kills the tool ends the run: the output up to there must be the same, and the next run continues after
    # that file.
    while rest:
        arguments = ["--files", ",".join(rest), *flags]
        ours, our_err, code = run([sys.executable, "-m", "kafkalog", "dump", *arguments], root)
        theirs, their_err, died = run(witness.command(TOOL, *arguments), root)
        assert ours == theirs
        if died == 0:
            assert our_err == their_err
            assert code == (1 if is_damage(theirs, their_err) else 0)
            break
        assert code == 1
        ends += 1
        rest = rest[theirs.count("\nDumping ") + 1 :]
    assert ends < 60


@pytest.mark.parametrize(
    ("flag", "topic"),
    [
        ("--offsets-decoder", "__consumer_offsets"),
        ("--transaction-log-decoder", "__transaction_state"),
        ("--share-group-state-decoder", "__share_group_state"),
        ("--cluster-metadata-decoder", "__cluster_metadata"),
    ],
)
def test_decoders_of_internal_topics(witness: Witness, tmp_path: Path, flag: str, topic: str) -> None:
    root = tmp_path.resolve() / "golden"
    for folder in corpus.GOLDEN.glob(f"*/data-*/{topic}-*"):
        shutil.copytree(folder, root / folder.relative_to(corpus.GOLDEN))
    files = sorted(str(path.relative_to(root)) for kind in ("log", "checkpoint") for path in root.rglob(f"*.{kind}"))
    assert files
    arguments = ["--files", ",".join(files), flag]
    ours, our_err, _ = run([sys.executable, "-m", "kafkalog", "dump", *arguments], root)
    theirs, their_err, died = run(witness.command(TOOL, *arguments), root)
    assert (ours, our_err, died) == (theirs, their_err, 0)
    assert theirs.count("payload: ") >= 3


def is_damage(out: str, err: str) -> bool:
    back = any(int(after) <= int(before) for before, after in re.findall(r"  (-?\d+) is followed by (-?\d+)", err))
    mismatch = re.search(r"Mismatches in|timestamp mismatch|out of order|not found in", err)
    return back or mismatch is not None or re.search(r"(?i)isvalid: false|invalid bytes at the end", out) is not None
