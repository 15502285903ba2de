"""Shared by every suite: the helpers beside this file, and those of the interop suite, are importable."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "interop")]
