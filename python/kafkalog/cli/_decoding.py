"""Options of decoded keys and values, and the decoding of a command's reads."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog._typed_values import find_schemas, plan_decoding

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from kafkalog._core import PartitionRange
    from kafkalog.options import ReadOptions
    from kafkalog.typing import Paths

REGISTRY_TOPIC = "_schemas"
# Before the equals sign; a schema's text has other signs before its first one.
_NAMED = re.compile(r"([\w.-]+)=(.*)", re.DOTALL)
_OPTIONS = {
    "schemas": "--schemas",
    "reader_schema": "--reader-schema",
    "decode_as": "--decode-as",
    "on_undecoded": "--on-undecoded",
}


def add_decoding(parser: argparse.ArgumentParser) -> None:
    """Add --decode and what belongs to it."""
    group = parser.add_argument_group("decoded keys and values (guide: typed)")
    group.add_argument(
        "--decode",
        choices=["value", "key", "both"],
        help="decode by the schemas of a schema registry: those in topic _schemas of PATH, or --schemas",
    )
    group.add_argument(
        "--schemas",
        metavar="WHERE",
        action="append",
        help="a log dir that has the topic _schemas; or ID=FILE, GUID=FILE, or TOPIC=FILE for values without an id; "
        "FILE ends in .avsc, .proto, .desc or .json; may be repeated",
    )
    group.add_argument(
        "--reader-schema",
        metavar="SCHEMA",
        action="append",
        help="the schema that all records are shown by: latest, a version or a FILE, or TOPIC=one of these; "
        "default latest, of subject TOPIC-value (TOPIC-key)",
    )
    group.add_argument(
        "--decode-as", choices=["struct", "json"], help="json shows each record by the schema that it was written with"
    )
    group.add_argument(
        "--on-undecoded",
        choices=["raise", "null", "skip"],
        help="what cannot be decoded ends the command, is null, or is left out; default raise",
    )


def decoding_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of ``scan`` for them."""
    given = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
    if arguments.decode is None:
        if given:
            raise ValueError(f"{_OPTIONS[next(iter(given))]} is for decoded records: add --decode value, key or both")
        return {}
    if "schemas" in given:
        given["schemas"] = _schemas(given["schemas"])
    if "reader_schema" in given:
        given["reader_schema"] = _reader_schema(given["reader_schema"])
    return {"decode": arguments.decode, **given}


def _schemas(given: Sequence[str]) -> Any:
    named = {each: _NAMED.fullmatch(each) for each in given if not os.path.lexists(each)}
    schemas = {found[1]: found[2] for found in named.values() if found is not None}
    dirs = [each for each in given if named.get(each) is None]
    if schemas and dirs:
        raise ValueError(f"--schemas takes log dirs, or ID=FILE and TOPIC=FILE, not both; {dirs[0]!r} has no name")
    return schemas or dirs


def _reader_schema(given: Sequence[str]) -> Any:
    named = {each: _NAMED.fullmatch(each) for each in given if not os.path.lexists(each)}
    schemas = {found[1]: found[2] for found in named.values() if found is not None}
    others = [each for each in given if named.get(each) is None]
    if len(others) + bool(schemas) > 1:
        raise ValueError("--reader-schema takes one schema for all topics, or TOPIC=SCHEMA for each")
    return schemas or others[0]


def is_json(arguments: argparse.Namespace) -> bool:
    """Tell whether decoded keys and values are JSON text."""
    return bool(arguments.decode_as == "json")


class Decodings:
    """The decoding of each read of a command: schemas are read once, and chosen for each topic by itself."""

    def __init__(self, ranges: list[PartitionRange], paths: Paths, options: ReadOptions) -> None:
        self._options, self._paths = options, _arguments.paths(paths)
        self._found = None if options.decode is None else find_schemas(ranges, self._paths, options)
        self._topics: set[str] = set()
        self._planned: _core.Decoding | None = None

    def of(self, ranges: Iterable[PartitionRange]) -> _core.Decoding | None:
        """Return the decoding of some of the ranges."""
        some = list(ranges)
        topics = {each.topic for each in some}
        if self._found is not None and topics != self._topics:
            self._planned = plan_decoding(some, self._paths, self._options, self._found)
            self._topics = topics
        return self._planned
