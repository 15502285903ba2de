"""Colour on a terminal, and only there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def coloured(stream: TextIO) -> bool:
    """Tell whether to colour what is written to a stream: not with ``NO_COLOR`` (no-color.org), nor in a pipe."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def styled(text: str, style: str | None, stream: TextIO) -> str:
    """Return text in a style if the stream shows it."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style and text and coloured(stream) else text
