"""Regular expressions of users that the core's linear ones cannot serve: Python's, with a limit of time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS = 10.0
"""Time limit of an expression, in seconds."""

# Python's expressions take exponential time where they try again, which nothing can interrupt but the end of a process.
_TRIES_AGAIN = re.compile(r"[*+?{]")
_SEARCH = """
import json, re, sys
pattern, whole, names = json.load(sys.stdin)
matches = getattr(re.compile(pattern), "fullmatch" if whole else "search")
json.dump([name for name in names if matches(name)], sys.stdout)
"""


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile an expression."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from None


def matching(pattern: re.Pattern[str], names: Iterable[str], *, whole: bool) -> list[str]:
    """Return the names that an expression matches as a whole, or in which it finds something."""
    left = sorted(set(names))
    if _TRIES_AGAIN.search(pattern.pattern) is None:
        return [name for name in left if (pattern.fullmatch if whole else pattern.search)(name)]
    try:
        done = subprocess.run(  # noqa: S603 - a program of ours
            [sys.executable, "-I", "-S", "-c", _SEARCH],
            input=json.dumps([pattern.pattern, whole, left]),
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"the expression {pattern.pattern!r} takes more than {SECONDS:.0f} s; simplify it") from None
    found: list[str] = json.loads(done.stdout)
    return found
