"""Options about tiered storage."""

from __future__ import annotations

import argparse
from itertools import takewhile
from typing import TYPE_CHECKING

from kafkalog import _arguments

if TYPE_CHECKING:
    from collections.abc import Iterable


def add_remote(
    parser: argparse.ArgumentParser,
    help_: str = "tiered storage: read its segments and those of PATH as one log, or without PATH alone (help tiered)",
) -> None:
    """Add the options about tiered storage, by default of commands that read records."""
    parser.add_argument("--remote", metavar="URL", help=help_)
    help_ = "how it is stored; default: by its names"
    parser.add_argument("--remote-layout", choices=("auto", "local", "aiven"), default="auto", help=help_)
    help_ = "the private key (PEM) of a key pair that it is encrypted with; may be repeated"
    parser.add_argument("--remote-key", metavar="ID=FILE", type=_remote_key, action="append", default=[], help=help_)


def require_no_path(parser: argparse.ArgumentParser, words: Iterable[str]) -> None:
    """Let PATH be left out where the options name a tier, which can be read alone."""
    if not any(word.partition("=")[0] == "--remote" for word in takewhile(lambda word: word != "--", words)):
        return
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to the arguments
        if not action.option_strings and action.nargs == argparse.ONE_OR_MORE:
            action.nargs, action.required = argparse.ZERO_OR_MORE, False


def _remote_key(given: str) -> tuple[str, str]:
    name, equals, file = given.partition("=")
    if not equals or not name or not file:
        raise argparse.ArgumentTypeError(f"expected ID=FILE, found {given!r}")
    return name, _arguments.at_home(file)
