"""``kafkalog help``: list the guides that ship with the package, or show one."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

# In the order in which a newcomer reads them.
GUIDES = (
    "first-hour",
    "reading",
    "typed",
    "engines",
    "tables",
    "object-stores",
    "tiered",
    "spark",
    "cluster",
    "writing",
    "recovering",
    "rescue",
    "moving",
    "damage",
    "care",
    "shell",
    "safety",
)
EPILOG = "Without GUIDE, the guides are listed. `kafkalog COMMAND --help` describes a command's options."


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("guide", nargs="?", choices=GUIDES, metavar="GUIDE", help=f"one of {', '.join(GUIDES)}")


def run(arguments: argparse.Namespace) -> int:
    """Print one guide, or the list of them."""
    if arguments.guide:
        print(_text(arguments.guide), end="")
        return 0
    width = max(map(len, GUIDES))
    for name in GUIDES:
        print(f"{name:{width}}  {_title(name)}")
    return 0


def _text(guide: str) -> str:
    return (files("kafkalog") / "guides" / f"{guide}.md").read_text(encoding="utf-8")


def _title(guide: str) -> str:
    return _text(guide).partition("\n")[0].removeprefix("# ")
