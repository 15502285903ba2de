"""The order of the words of a command line: options and paths may be mixed.

``argparse`` takes a list of paths only where it stands in one piece: it refuses ``ls A -t orders B``. Here options go
first, and what stands by itself follows in the order given.
"""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The value of an option, not an option: -5, -2h.
NEGATIVE = re.compile(r"-\.?\d")
INSTEAD_OF_PATH = "broker"
"""``dest`` of options whose value is the path: kcat's ``-b``, and ``--bootstrap-server``."""


def ordered(parser: argparse.ArgumentParser, words: Iterable[str]) -> list[str]:
    """Return the words with options first."""
    options: list[str] = []
    places: list[str] = []
    rest = list(words)
    at = 0
    while at < len(rest):
        word = rest[at]
        at += 1
        if word == "--":
            places += rest[at:]
            break
        if not word.startswith("-") or word == "-" or NEGATIVE.match(word):
            places.append(word)
            continue
        action, value = split_option(parser, word)
        follows = action is not None and value is None and action.nargs != 0 and at < len(rest)
        following = rest[at : at + 1] if action is not None and follows and _is_value(parser, action, rest[at]) else []
        at += len(following)
        if action is None or action.dest != INSTEAD_OF_PATH or not (value or following):
            options += [word, *following]
            continue
        places[:0] = following or [value or ""]
        # -Jb DIR is -J as well.
        others = "" if word.startswith("--") else word[: len(word) - len(value or "") - 1]
        options += [others] if len(others) > 1 else []
    return [*options, "--", *places] if places else options


def split_option(parser: argparse.ArgumentParser, word: str) -> tuple[argparse.Action | None, str | None]:
    """Return the option that takes what follows, and its value if that is in the same word."""
    actions = {option: action for action in parser._actions for option in action.option_strings}  # noqa: SLF001
    name, sign, value = word.partition("=")
    if word.startswith("--"):
        found = {id(action): action for option, action in actions.items() if option.startswith(name)}
        exact = actions.get(name) or (next(iter(found.values())) if len(found) == 1 else None)
        return exact, value if sign else None
    for n, letter in enumerate(word[1:], 2):
        action = actions.get(f"-{letter}")
        if action is None:
            return None, None
        if action.nargs != 0:
            return action, word[n:] or None
    return action, None


def _is_value(parser: argparse.ArgumentParser, action: argparse.Action, word: str) -> bool:
    """Tell whether an option takes a word that follows it."""
    if word.startswith("-") and word != "-" and not NEGATIVE.match(word):
        # grep -e takes any pattern.
        return action.dest == INSTEAD_OF_PATH and "--regexp" in action.option_strings
    if action.nargs != argparse.OPTIONAL:
        return True
    try:
        parser._get_value(action, word)  # noqa: SLF001 - as argparse would
    except argparse.ArgumentError:
        # Of a value that is wrong argparse says so.
        return not os.path.lexists(word)
    return True
