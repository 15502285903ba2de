"""Partitions that a table covers: those that are present and can be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog import _arguments, _core
from kafkalog.errors import KafkaLogError
from kafkalog.log import LogDir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from kafkalog.log import PartitionFolder
    from kafkalog.typing import Paths

COVERAGE, UNREAD = b"kafkalog.partitions", b"kafkalog.unread"

T = TypeVar("T")


def by_partition(
    path: Paths, topic: str, on_corrupt: str, read: Callable[[Paths], T]
) -> tuple[list[T], list[Exception]]:
    """Read an internal topic at once, or with ``skip`` by partition; return also the errors."""
    if _arguments.choose("on_corrupt", on_corrupt, ("raise", "skip")) == "raise":
        return [read(path)], []
    found, unread = list[T](), list[Exception]()
    parts: list[Paths] = [part for given in _arguments.paths(path) for part in _partitions(given, topic)]
    # Without one, the error is that of the paths as they were given.
    for part in parts or [path]:
        try:
            found.append(read(part))
        except (KafkaLogError, OSError) as error:  # noqa: PERF203 - one partition at a time
            if not parts:
                raise
            unread.append(error)
    return found, unread


def folders_in(path: str) -> list[PartitionFolder] | None:
    """Return the partition folders of a log dir; None for the folder of a partition, or a file."""
    try:
        return LogDir(path).folders
    except (ValueError, NotADirectoryError):
        return None


def _partitions(path: str, topic: str) -> list[str]:
    """Return the folders of a topic in a log dir; of anything else itself."""
    folders = folders_in(path)
    if folders is None:
        return [path]
    of_topic = [folder for folder in folders if folder.topic == topic and folder.state == "live"]
    return [folder.path for folder in sorted(of_topic, key=lambda folder: folder.partition)]


def rows_or_raise(found: tuple[_core.Rows, list[Exception]], on_corrupt: str) -> tuple[pa.Table, list[Exception]]:
    """Return the rows of partitions that could be read, and the errors of the others, or raise the first of these."""
    import pyarrow as pa

    rows, unread = found
    if unread and on_corrupt == "raise":
        raise unread[0]
    return pa.table(rows), unread


def coverage(path: Paths, topic: str) -> dict[str, Any]:
    """Return which partitions of a topic are here, of how many, and what shows it."""
    here, count, is_noted = _core.table_coverage(_arguments.paths(path), topic)
    return {"topic": topic, "here": here, "of": count, "source": "metadata" if is_noted else "highest"}


def missing_line(found: dict[str, Any]) -> str | None:
    """Return the line about partitions that are not here; None if all are."""
    here, count = found["here"], found["of"]
    if here and len(here) == count:
        return None
    many = f"{count}" if found["source"] == "metadata" else f"at least {count}"
    which = f"partitions {ranges(here)} of {many}" if count else "no partition"
    if count and not here:
        which = f"none of {many} partitions"
    return f"{found['topic']}: {which} here; other brokers' log dirs have the rest"


def ranges(numbers: Sequence[int]) -> str:
    """Write sorted numbers as ``0-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def with_coverage(table: pa.Table, path: Paths, topic: str | None, unread: Iterable[Exception] = ()) -> pa.Table:
    """Add to a table's schema which partitions of the topic are here, and what could not be read."""
    notes = {**(table.schema.metadata or {})}
    if topic is not None:
        notes[COVERAGE] = json.dumps(coverage(path, topic)).encode()
    errors = list(dict.fromkeys(str(error) for error in unread))
    if errors:
        notes[UNREAD] = json.dumps(errors).encode()
    return table.replace_schema_metadata(notes)
