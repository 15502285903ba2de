"""``kafkalog schemas``: lists the schemas of a schema registry, from the topic that it keeps them in."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _places
from kafkalog.cli import _common, _printing

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

_COLUMNS: dict[str, Any] = {
    "SUBJECT": "subject",
    "VERSION": "version",
    "ID": "id",
    "TYPE": "schemaType",
    "DELETED": "deleted",
    "KEY": "keyFormat",
    "ENCRYPTED": lambda row: "yes" if _is_encrypted(row) else "no",
    "GUID": "guid",
}
_CHANGES = {"OFFSET": "logOffset", **_COLUMNS}
_NUMBERS = ("OFFSET", "VERSION", "ID")
_SUFFIXES = {"AVRO": ".avsc", "PROTOBUF": ".proto", "JSON": ".json"}
# File systems take names of 255 bytes; the rest is for versions, ids and suffixes.
_MOST_NAME = 150
EPILOG = """\
What the registry has deleted is listed as well: 'soft' can be restored, 'hard' is only in the log. The key is 'old'
where an older registry wrote it: compaction keeps such a record, and the schema comes back after it was deleted.

A registry that was lost, from its topic:

  kafkalog schemas /data/kafka-logs --export schemas/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    parser.add_argument("--subject", action="append", metavar="S", help="only this subject; may be repeated")
    parser.add_argument("--id", type=_common.number(), metavar="N", help="only schemas with this id, in any context")
    parser.add_argument("--history", action="store_true", help="every registration and deletion, in order")
    parser.add_argument("--registry-topic", default="_schemas", metavar="TOPIC", help="the registry's topic (_schemas)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--text", action="store_true", help="print the schemas themselves")
    how.add_argument("-J", "--json", action="store_true", help="one JSON object per line, by the names of the table")
    how.add_argument(
        "--export", metavar="DIR", type=_common.output, help="write each schema into a file of this new directory"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print or export the schemas; a subject that is requested and does not exist is reported."""
    from kafkalog import tables

    if arguments.history and arguments.export:
        raise ValueError("--history lists changes; --export writes schemas: give one of them")
    if arguments.export:
        _check_new(Path(arguments.export), arguments.path)
    table = tables.schemas(arguments.path, history=arguments.history, topic=arguments.registry_topic, on_corrupt="skip")
    rows, code = _printing.only_named(_printing.rows_of(table), "subject", arguments.subject, "subject", arguments.path)
    if arguments.id is not None:
        rows = [row for row in rows if row["id"] == arguments.id]
        if not rows:
            _printing.warn(f"no schema has id {arguments.id} in {', '.join(arguments.path)}")
            code = 1
    if arguments.export:
        print(f"{_export(rows, Path(arguments.export))} schemas in {_printing.cell(arguments.export)}")
    elif arguments.text:
        for row in rows:
            if row["schema"] is not None:
                print(row["schema"])
    else:
        columns = _CHANGES if arguments.history else _COLUMNS
        _printing.print_rows(columns, rows, _NUMBERS, as_json=arguments.json)
    return max(code, _common.print_partial(table))


def _is_encrypted(row: dict[str, Any]) -> bool:
    """Return whether the client encrypts fields of the schema: they decode to what it encrypted."""
    if row["ruleSet"] is None:
        return False
    try:
        rules = json.loads(row["ruleSet"])
        every = [rule for kind in ("domainRules", "encodingRules") for rule in rules.get(kind) or ()]
        return any(str(rule.get("type")).startswith("ENCRYPT") for rule in every)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return False


def _check_new(out: Path, sources: list[str]) -> None:
    """Refuse an output that cannot be made, before anything is read."""
    from kafkalog import _arguments, _core

    _core.check_output(str(out), _places.on_disk(sources))
    if os.path.lexists(out):
        raise _arguments.taken(out)
    for parent in out.parents:
        if parent.exists() and not parent.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(parent))


def _export(rows: Iterable[dict[str, Any]], out: Path) -> int:
    """Write each schema into a file of its own; return how many."""
    from kafkalog import _arguments

    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise _arguments.taken(out) from None
    taken: set[str] = set()
    for row in rows:
        name, suffix = _file_name(row), _SUFFIXES.get(row["schemaType"], ".txt")
        # Some file systems do not tell A from a.
        while (name + suffix).casefold() in taken:
            name += "+"
        taken.add((name + suffix).casefold())
        with Path(out, name + suffix).open("xb") as file:
            file.write(row["schema"].encode())
    return len(taken)


def _file_name(row: dict[str, Any]) -> str:
    """Make a file name of any subject: what is no letter, digit, dot, dash or underscore becomes ``%`` and its code."""
    subject = re.sub(
        r"[^A-Za-z0-9._-]|^\.", lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), row["subject"]
    )
    return f"{subject[:_MOST_NAME]}.v{row['version']}.id{row['id']}"
