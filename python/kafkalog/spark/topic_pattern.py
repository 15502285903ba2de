"""The regular expressions of ``subscribePattern``, which are Java's.

The core's regular expressions run in linear time and have no look-around, back-references or quotations. Patterns that
use those run on Python's ``re``, whose syntax is close to Java's.
"""

from __future__ import annotations

import re

from kafkalog._patterns import compiled

# Look-around, atomic groups, back-references, quotations, possessive quantifiers.
_BEYOND_CORE = re.compile(r"\(\?(?:[=!>]|<[=!])|\\[1-9kQ]|[*+?}]\+")
_QUOTATION = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
# Java's named groups and references to them.
_NAMED_GROUP, _NAMED_REFERENCE = re.compile(r"\(\?<(?=[A-Za-z])"), re.compile(r"\\k<([A-Za-z0-9]+)>")


def needs_java_pattern(pattern: str) -> bool:
    """Tell whether a pattern is beyond the core's regular expressions."""
    return _BEYOND_CORE.search(pattern) is not None


def java_pattern(pattern: str) -> str:
    """Translate a Java regular expression to Python."""
    translated = _QUOTATION.sub(lambda quotation: re.escape(quotation[1]), pattern.strip())
    translated = _NAMED_REFERENCE.sub(r"(?P=\1)", _NAMED_GROUP.sub("(?P<", translated))
    try:
        compiled(translated)
    except ValueError as error:
        raise ValueError(f"topic pattern {pattern!r} is not supported: {error}") from None
    return translated
