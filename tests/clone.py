"""This clone: its folders, its environments, and commands that run in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from steps import FailedError

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()


def python_of(venv: Path) -> Path:
    """Return the interpreter of an environment."""
    return venv / ("Scripts" if os.name == "nt" else "bin") / "python"


VENV = TARGET / "test-venv"
PYTHON = python_of(VENV)
# Has a debug build of kafkalog, and finds all other packages in the environment above.
DEBUG_VENV = TARGET / "debug-venv"
WHEELS = TARGET / "wheels"
DEBUG_WHEELS = TARGET / "debug-wheels"
SHARED_CORPUS = ROOT.parent / "shared" / "corpus"
IN_CI = os.environ.get("CI") == "true"

ENVIRONMENT = {
    # What an incremental build prepares for the next one costs half of a compilation more.
    "CARGO_INCREMENTAL": "0",
    **os.environ,
    "CARGO_TARGET_DIR": str(TARGET),
    "CARGO_TERM_COLOR": "never",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def run(*command: str | Path, **extra: str) -> None:
    """Run a command in the clone and pass its output through."""
    words = [str(word) for word in command]
    print("+", " ".join(w if len(w) < 200 else w[:200] + "..." for w in words), flush=True)
    done = subprocess.run(words, cwd=ROOT, env={**ENVIRONMENT, **extra}, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise FailedError(f"{Path(words[0]).name} ended with {done.returncode}")


def answer(*command: str, **extra: str) -> str:
    """Run a command in the clone and return what it prints; nothing if it fails."""
    done = subprocess.run(command, cwd=ROOT, env={**ENVIRONMENT, **extra}, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def fresh(folder: Path) -> Path:
    """Delete a folder that an earlier run left."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def pip_install(python: Path, *args: str | Path, **extra: str) -> None:
    """Install packages. What pip builds itself, PySpark above all, is stored: it is unpacked at once."""
    settings = TARGET / "pip-builds.cfg"
    TARGET.mkdir(parents=True, exist_ok=True)
    settings.write_text("[bdist_wheel]\ncompression = stored\n", encoding="utf-8")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, *args, DIST_EXTRA_CONFIG=str(settings), **extra)


def packages_of(python: Path) -> Path:
    """Return the folder in which an interpreter's packages are installed."""
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())


def new_venv(home: Path, python: str = sys.executable) -> Path:
    """Make an environment where there is none; return its interpreter."""
    if not python_of(home).exists():
        run(python, "-m", "venv", home)
    return python_of(home)


def over_test_venv(home: Path) -> Path:
    """Make an environment that has the packages of the test environment, except what it has itself."""
    python = new_venv(home)
    (packages_of(python) / "test-venv.pth").write_text(f"{packages_of(PYTHON)}\n", encoding="utf-8")
    return python


def install(wheel: Path, python: Path) -> None:
    """Install kafkalog in place of the one that is installed."""
    pip_install(python, "--force-reinstall", "--no-deps", wheel)


def the_wheel(folder: Path) -> Path:
    """Return the only wheel in a folder."""
    found = list(folder.glob("*.whl"))
    if len(found) != 1:
        raise FailedError(f"{folder} holds {len(found)} wheels instead of one: run the step that builds it")
    return found[0]
