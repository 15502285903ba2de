"""Searches in keys and values, derived from a filter: the core looks for their literals in whole blocks.

A search finds every row for which the filter is true, and perhaps others, which the engine's own filter then removes.
What is not understood is not searched for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog.engines.expressions import Call, Field, Literal

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkalog.engines.expressions import Node

# The core looks for so many literals at once with vector instructions.
_MOST = 64
# Expressions that mean the same to RE2, on bytes, and to the core: no groups with flags, no classes within classes.
_SAME_TO_ALL = re.compile(rb"(?:[ -\[\]-~]|\\[dDwWb.\\*+?()\[\]{}|^$/-])*")
_DIFFERENT = re.compile(rb"\(\?|\[.*(\[|&&|--|~~)|[*+?}][*+?{]|\{[^0-9]")


@dataclass(frozen=True)
class _Search:
    """Alternatives, one of which is in one of the fields."""

    fields: frozenset[str]
    literals: frozenset[bytes] = frozenset()
    expressions: frozenset[bytes] = frozenset()
    ignores_case: bool = False

    @property
    def quality(self) -> tuple[bool, int, int]:
        """Return how much a search is worth: literals, long ones, few of them."""
        is_plain = not self.expressions and not self.ignores_case
        return is_plain, min(map(len, self.literals), default=0), -len(self.literals)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``_core.scan_ranges``."""
        fields = sorted(self.fields)
        if len(self.literals) == 1 and not self.expressions and not self.ignores_case:
            return {"containing": next(iter(self.literals)), "search_in": fields}
        parts = sorted(map(_escaped, self.literals)) + sorted(f"(?:{each.decode()})" for each in self.expressions)
        pattern = "|".join(parts)
        return {"matching": f"(?i:{pattern})" if self.ignores_case else pattern, "search_in": fields}


def search_arguments(node: Node, searched: Collection[str]) -> dict[str, Any]:
    """Return what finds all rows for which a filter is true: arguments of ``_core.scan_ranges``, or none.

    ``searched`` are the columns that are there as bytes.
    """
    found = _of(node, frozenset(searched))
    if found is None:
        return {}
    arguments = found.arguments()
    try:
        _core.check_search(arguments.get("containing"), arguments.get("matching"), arguments["search_in"])
    except ValueError:
        return {}
    return arguments


def _of(node: Node, searched: frozenset[str]) -> _Search | None:
    if not isinstance(node, Call):
        return None
    name, arguments = node
    if name in {"and", "or"}:
        parts = [_of(each, searched) for each in arguments]
        known = [each for each in parts if each is not None]
        if name == "and":
            return max(known, key=lambda each: each.quality, default=None)
        return _either(known) if len(known) == len(parts) else None
    if name == "if":
        # DuckDB's form of a condition that null makes false.
        condition, then, otherwise = arguments
        is_then = isinstance(otherwise, Literal) and not otherwise.value
        return _of(Call("and", (condition, then)), searched) if is_then else None
    if name == "equal":
        arguments = arguments if isinstance(arguments[0], Field) else arguments[::-1]
    field, *operands = arguments or (None,)
    if not isinstance(field, Field) or field.name not in searched:
        return None
    constants = [each.value for each in operands if isinstance(each, Literal)]
    if len(constants) != len(operands):
        return None
    fields = frozenset({field.name})
    if name in {"equal", "in"}:
        values = [each.encode() if isinstance(each, str) else each for each in constants]
        is_searched = values and len(values) <= _MOST and all(isinstance(each, bytes) and each for each in values)
        return _Search(fields, frozenset(values)) if is_searched else None
    return _looked_for(name, fields, *constants) if len(constants) == 2 else None  # noqa: PLR2004 - its options


def _looked_for(function: str, fields: frozenset[str], pattern: Any, ignores_case: Any) -> _Search | None:
    """Return the search of a function with a pattern."""
    # RE2 ignores the case of more than ASCII.
    if not isinstance(pattern, bytes) or not pattern or (ignores_case and not pattern.isascii()):
        return None
    if function in {"match_substring", "starts_with", "ends_with"}:
        return _Search(fields, frozenset({pattern}), ignores_case=bool(ignores_case))
    if function == "match_like" and b"\\" not in pattern:
        longest = max(re.split(b"[%_]", pattern), key=len)
        return _Search(fields, frozenset({longest}), ignores_case=bool(ignores_case)) if longest else None
    if function == "match_substring_regex" and _SAME_TO_ALL.fullmatch(pattern) and not _DIFFERENT.search(pattern):
        return _Search(fields, expressions=frozenset({pattern}), ignores_case=bool(ignores_case))
    return None


def _either(parts: list[_Search]) -> _Search | None:
    found = _Search(
        frozenset().union(*(each.fields for each in parts)),
        frozenset().union(*(each.literals for each in parts)),
        frozenset().union(*(each.expressions for each in parts)),
        ignores_case=any(each.ignores_case for each in parts),
    )
    return found if len(found.literals) + len(found.expressions) <= _MOST else None


def _escaped(literal: bytes) -> str:
    return "".join(chr(each) if chr(each).isascii() and chr(each).isalnum() else f"\\x{each:02x}" for each in literal)
