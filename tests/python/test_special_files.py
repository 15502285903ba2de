"""A pipe, device, socket or folder in the place of any file, and small files that are huge: no verb hangs on one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import command
import corpus
import kafkalog
import tiers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no named pipes among files")

LOG_DIR = corpus.GOLDEN / "txn" / "data-1"
METADATA = corpus.GOLDEN / "metadata" / "data-0" / "__cluster_metadata-0"
OF_DIR = [
    "meta.properties",
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafkalog-job",
    ".kafkalog-append.lock",
    ".lock",
]
OF_PARTITION = ["leader-epoch-checkpoint", "partition.metadata"]
SUFFIXES = [".snapshot", ".txnindex", ".index", ".timeindex", ".log"]


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(600 << 20)


KINDS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "folder": os.mkdir,
    "huge": _huge,
}


def _put(log_dir: Path, name: str, kind: str) -> None:
    partition = next(path for path in sorted(log_dir.iterdir()) if path.is_dir() and not path.name.startswith("__"))
    if name in OF_DIR:
        path = log_dir / name
    elif name in OF_PARTITION:
        path = partition / name
    else:
        path = next(iter(sorted(partition.glob(f"*{name}"))), partition / f"{0:020}{name}")
    path.unlink(missing_ok=True)
    KINDS[kind](path)


VERBS = [
    ("ls",),
    ("cat",),
    ("stats",),
    ("verify",),
    ("explain",),
    ("offsets",),
    ("recover", "--dry-run"),
    ("recover", "--out"),
    ("compact", "OUT"),
    ("retain", "OUT"),
    ("rewrite", "OUT", "--drop-key", "none"),
    ("rescue", "--dry-run"),
]


@pytest.mark.parametrize("kind", KINDS if tiers.SLOW else ["pipe"])
@pytest.mark.parametrize("name", [*OF_DIR, *OF_PARTITION, *SUFFIXES])
@pytest.mark.sampled(2)
def test_no_verb_hangs(name: str, kind: str, tmp_path: Path) -> None:
    """In one process with limits on time and memory; what the verbs answer, other tests say."""
    log_dir = tmp_path / "data"
    shutil.copytree(LOG_DIR, log_dir)
    _put(log_dir, name, kind)
    calls = []
    for n, (verb, *words) in enumerate(VERBS):
        out = str(tmp_path / f"out-{n}")
        calls.append([verb, str(log_dir), *(out if word == "OUT" else word for word in words)])
        if words[-1:] == ["--out"]:
            calls[-1].append(out)
    script = (
        "import resource, signal, sys, kafkalog\n"
        "from kafkalog.cli.main import main\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        f"for words in {calls!r}:\n"
        "    signal.alarm(20)\n"
        "    print(words[0], main(words), flush=True, file=sys.stderr)\n"
        "signal.alarm(20)\n"
        "try:\n"
        f"    kafkalog.LogWriter({str(log_dir)!r}, 'new', 0).close()\n"
        "except (OSError, ValueError, kafkalog.KafkaLogError) as error:\n"
        "    print(error, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "panic" not in done.stderr
    assert "MemoryError" not in done.stderr


def test_a_small_file_beyond_its_limit_is_an_error_that_says_it(tmp_path: Path) -> None:
    log_dir = tmp_path / "data"
    shutil.copytree(LOG_DIR, log_dir)
    (log_dir / "meta.properties").write_bytes(b"#" * (1 << 20))
    with pytest.raises(kafkalog.CorruptIndexError, match="file length: expected at most 65536 bytes"):
        kafkalog.LogDir(log_dir).meta  # noqa: B018 - it is read now
    assert "meta.properties" in command.call("verify", log_dir).stdout


@pytest.mark.parametrize("verb", ["recover", "retain", "compact", "rewrite"])
def test_a_small_file_beyond_its_limit_is_not_copied(verb: str, tmp_path: Path) -> None:
    """Nobody could read it in the result; the report names it."""
    log_dir, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(LOG_DIR, log_dir)
    folder = next(path for path in sorted(log_dir.iterdir()) if path.is_dir() and not path.name.startswith("__"))
    metadata = shutil.copytree(METADATA, log_dir / METADATA.name)
    files = [log_dir / ".kafkalog-job", log_dir / f".kafkalog-stream-{'a' * 32}", log_dir / "meta.properties"]
    files += [next(iter(sorted(folder.glob("*.snapshot")))), metadata / "quorum-state", folder / "quorum-state"]
    for file in files:
        file.unlink(missing_ok=True)
        _huge(file)
    config = {"cleanup.policy": "compact"}
    options: dict[str, dict[str, object]] = {
        "compact": {"config": config},
        "retain": {"config": config},
        "rewrite": {"drop_keys": [b"none"]},
    }
    run: Callable[..., kafkalog.RewriteReport] = getattr(kafkalog, verb)
    planned = run(log_dir, out=out, dry_run=True, **options.get(verb, {}))
    report = run(log_dir, out=out, **options.get(verb, {}))
    assert planned.left_out == report.left_out
    assert {str(file) for file in files} <= {each.path for each in report.left_out}
    assert [path for path in out.rglob("*") if path.stat().st_size > 100 << 20] == []
