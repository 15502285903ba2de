"""What ``subscribePattern`` may be beyond the core's regular expressions: Java's look around, refer back and quote.

The core's run in linear time and have none of that; Python's have, and are spelled nearly as Java's.
"""

from __future__ import annotations

import re

__all__ = ["java", "matching", "needs_java"]

# Look-around, atomic groups, references to groups, quotations, possessive repetitions.
_BEYOND = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9kQ]|[*+?}]\+")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
# Java's spelling of a group with a name, and of a reference to it.
_GROUP, _REFERENCE = re.compile(r"\(\?<(?=[A-Za-z])"), re.compile(r"\\k<([A-Za-z0-9]+)>")


def needs_java(pattern: str) -> bool:
    """Tell whether the core could not take the pattern."""
    return _BEYOND.search(pattern) is not None


def java(pattern: str) -> str:
    """Spell a pattern of Java as one of Python.

    Raises
    ------
    ValueError
        When Python has no such thing.
    """
    spelled = _QUOTED.sub(lambda quoted: re.escape(quoted[1]), pattern.strip())
    spelled = _REFERENCE.sub(r"(?P=\1)", _GROUP.sub("(?P<", spelled))
    try:
        re.compile(spelled)
    except re.error as error:
        raise ValueError(f"topic pattern {pattern!r}: {error}") from None
    return spelled


def matching(pattern: str, paths: list[str], *, include_inactive: bool) -> list[str]:
    """List the topics in the log dirs whose names have a match in them."""
    from kafkalog import _core

    planned = _core.plan(paths, topic_pattern=".*", include_inactive=include_inactive)
    searched = re.compile(pattern)
    return sorted({topic for _, topic, *_ in planned if searched.search(topic)})
