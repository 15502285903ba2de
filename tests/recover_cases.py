"""The golden cases of recovery, laid out to be recovered; and what a folder holds, to see that nothing changed."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import corpus

if TYPE_CHECKING:
    from pathlib import Path

CASES = corpus.GOLDEN / "log" / "recover"
NAMES = sorted(path.name for path in CASES.iterdir() if path.name != "_base")


def laid_out(case: Path, to: Path) -> dict[str, Any]:
    """Lay out what was there before, and give the case's settings."""
    config: dict[str, Any] = json.loads((case / "config.json").read_text())
    to.mkdir(parents=True)
    if "base" in config:
        shutil.copytree(case.parent / "_base" / config["base"], to, dirs_exist_ok=True)
    for name in config.get("removed", []):
        (to / name).unlink()
    if (case / "before").exists():
        shutil.copytree(case / "before", to, dirs_exist_ok=True)
    (to / "orders-0").mkdir(exist_ok=True)
    return config


def outcome(case: Path) -> list[dict[str, Any]]:
    """Give what Kafka answered."""
    return [json.loads(line) for line in (case / "result.jsonl").read_text().splitlines()]


def digests(root: Path) -> dict[str, str]:
    """Give the SHA-256 of every file below."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
