"""The golden files are the ones that were selected, and the damaged ones are those that their script makes."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import corpus

if TYPE_CHECKING:
    from pathlib import Path


def test_every_folder_is_as_the_manifest_says() -> None:
    lines = (corpus.GOLDEN / "MANIFEST.sha256").read_text(encoding="utf-8").splitlines()
    assert len(lines) > 200
    for line in lines:
        digest, name = line.split("  ")
        total = hashlib.sha256()
        for file in sorted(p for p in (corpus.GOLDEN / name).iterdir() if p.is_file()):
            total.update(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n".encode())
        assert total.hexdigest() == digest, name


def test_the_damaged_folders_are_what_their_script_makes(tmp_path: Path) -> None:
    kept = corpus.GOLDEN / "corrupt"
    shutil.copy(kept / "make.py", tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "make.py")], check=True)
    made = {p.relative_to(tmp_path): p for p in tmp_path.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    there = {p.relative_to(kept): p for p in kept.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert made.keys() == there.keys()
    for name, path in made.items():
        # zlib's output may differ between builds, its input does not: compressed cases are compared by name only.
        if not any(word in name.parts[0] for word in ("gzip", "wrapper", "inner", "v0-bomb")):
            assert path.read_bytes() == there[name].read_bytes(), name
