"""Selection by the words of a command line: paths of any kind, and ``-t orders-0``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack, contextmanager
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _places, _reprs
from kafkalog._loose import Loose, loose, naming, only
from kafkalog.cli import _common, _printing
from kafkalog.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from kafkalog.log import PartitionFolder

# A partition's folder, also one that is being deleted or moved; and what people type for it.
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)(\..+-(delete|future|stray))?", re.DOTALL)
_NUMBERED = re.compile(r"(?P<topic>.+)[-:](?P<partition>\d{1,10})", re.DOTALL)
_SEGMENT = re.compile(r"\d{20}\.log")


def partitions_below(paths: Iterable[str]) -> dict[str, set[int]]:
    """Return the partitions in log dirs by topic, from the names of folders alone; unreadable paths have none."""
    found: dict[str, set[int]] = {}
    for path in map(_places.at, paths):
        names = _places.names(path)
        # The path may be in a partition's folder, or be one.
        place = path if _places.is_folder(path) else _places.above(path)
        near = [] if any(map(_FOLDER.fullmatch, names)) else [Path(place).name]
        for match in filter(None, map(_FOLDER.fullmatch, [*names, *near])):
            found.setdefault(match["topic"], set()).add(int(match["partition"]))
    return found


def settle(arguments: argparse.Namespace, known: Mapping[str, set[int]] | None = None) -> None:
    """Take ``-t orders-0`` for partition 0 of orders where no topic has that name, in a command that has ``-p``.

    Topics and partitions are those that are known, or that have folders.
    """
    names = getattr(arguments, "topic", None)
    if not isinstance(names, list) or not hasattr(arguments, "partition") or not any(map(_NUMBERED.fullmatch, names)):
        return
    paths: Any = getattr(arguments, "path", None) or getattr(arguments, "paths", None) or ()
    there = partitions_below([paths] if isinstance(paths, str) else paths) if known is None else known
    numbers: dict[str, set[int]] = {}
    whole: list[str] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if name in there or match is None or int(match["partition"]) not in there.get(match["topic"], ()):
            whole.append(name)
        else:
            numbers.setdefault(match["topic"], set()).add(int(match["partition"]))
    if not numbers:
        return
    if arguments.partition:
        raise ValueError(f"-t {names[0]} names a partition already; leave out -p, or name the topic alone")
    by_topic = {**numbers, **{name: there.get(name, set()) for name in whole}}
    arguments.topic = list(by_topic)
    sets = list(by_topic.values())
    # One list where it says the same: some commands take no more.
    alike = not whole and all(each == sets[0] for each in sets)
    arguments.partition = sorted(sets[0]) if alike else {name: sorted(each) for name, each in by_topic.items()}


def of_partitions(
    rows: Sequence[dict[str, Any]],
    arguments: argparse.Namespace,
    places: Callable[[dict[str, Any]], Iterable[tuple[str, int]]] = lambda row: [(row["topic"], row["partition"])],
) -> tuple[list[dict[str, Any]], int]:
    """Return the rows about the topics and partitions that are wanted, and the exit code.

    What no row names and of which there is no folder is reported on stderr; without any that there is, it is an error.
    """
    known = partitions_below(arguments.path)
    for topic, partition in (place for row in rows for place in places(row)):
        known.setdefault(topic, set()).add(partition)
    settle(arguments, known)
    if arguments.topic is None and arguments.partition is None:
        return list(rows), 0
    code = missing_named(arguments, known, ", ".join(arguments.path))
    return [row for row in rows if any(is_wanted(arguments, *place) for place in places(row))], code


def missing_named(arguments: argparse.Namespace, known: Mapping[str, set[int]], where: str) -> int:
    """Report topics and partitions of -t and -p that are not known; return the exit code, or raise without others."""
    wanted = {name: numbers for name, numbers in known.items() if name in (arguments.topic or known)}
    lacks = [f"no topic {name!r}" for name in arguments.topic or () if name not in known]
    # Those by topic are of folders that are there.
    given = () if isinstance(arguments.partition, Mapping) else arguments.partition or ()
    if wanted:
        there = set[int]().union(*wanted.values())
        lacks += [f"no partition {number}" for number in given if number not in there]
    found = f"found: {_reprs.short_list(_names(wanted or known), 20) or 'none'}"
    if lacks and not any(is_wanted(arguments, name, number) for name in wanted for number in wanted[name]):
        raise UnknownTopicOrPartitionError(f"{', '.join(lacks)} in {where}; {found}")
    for lack in lacks:
        _printing.warn(f"{lack} in {where}; {found}")
    return int(bool(lacks))


def _names(known: Mapping[str, set[int]]) -> list[str]:
    return [f"{topic}-{partition}" for topic in sorted(known) for partition in sorted(known[topic])]


def is_wanted(arguments: argparse.Namespace, topic: str, partition: int) -> bool:
    """Tell whether a partition is among those of -t and -p."""
    numbers = arguments.partition
    if isinstance(numbers, Mapping):
        numbers = numbers.get(topic, ())
    return topic in (arguments.topic or [topic]) and (numbers is None or partition in numbers)


class Source(NamedTuple):
    """The logs that one PATH names."""

    given: str
    path: str
    """A log dir, or the folder of a partition."""
    loose: Loose | None = None
    segment: str | None = None
    """The only file of the folder that was named."""


@contextmanager
def sources(
    paths: Sequence[str],
    topics: Sequence[str] | None = None,
    partitions: Collection[int] | Mapping[str, Collection[int]] | None = None,
    *,
    alone: bool = False,
) -> Iterator[list[Source]]:
    """Give what each path stands for; with ``alone``, a segment is read as if it were all of its partition."""
    with ExitStack() as stack:
        found = []
        for path in paths:
            file = Path(path)
            folder = _FOLDER.fullmatch(file.parent.name)
            place = _places.at(path)
            if path != "-" and folder is not None and _SEGMENT.fullmatch(file.name) and _places.is_file(place):
                if not alone:
                    found.append(Source(path, _places.above(place), None, file.name))
                    continue
                if not _places.on_disk([path]):
                    raise ValueError(f"{path}: a segment in a store; give the folder that it is in")
                made = loose(path, folder["topic"], int(folder["partition"]), alone=True)
            else:
                number = None if isinstance(partitions, Mapping) else only(partitions)
                made = loose(path, only(topics), number)
            if made is None:
                found.append(Source(path, path))
                continue
            stack.enter_context(naming(made))
            whole = Path(fspath(made))
            found.append(Source(path, str(whole.parent if made.is_segment else whole), made))
        yield found


class Chosen(NamedTuple):
    """The folders that were found, and those that were not."""

    folders: list[PartitionFolder]
    loose: list[Loose]
    segments: dict[str, set[str]]
    """Of folders of which not all was named: the names of segments."""
    places: dict[str, str]
    """Of each folder, the PATH below which it is."""
    code: int

    def is_loose(self, folder: PartitionFolder) -> bool:
        """Tell whether a folder is a temporary one, whose name means nothing to the user."""
        return any(Path(folder.path).is_relative_to(loose.root) for loose in self.loose)

    def partitions(self) -> _common.Partitions:
        """Return what asks each of them."""
        return _common.Partitions(self.folders, self.loose, self.code)


def chosen(
    found: Sequence[Source],
    topics: Sequence[str] | None = None,
    partitions: Collection[int] | Mapping[str, Collection[int]] | None = None,
    *,
    live: bool = False,
) -> Chosen:
    """List the folders of these topics and partitions; of several paths, one that cannot be read is reported."""
    listed: list[PartitionFolder] = []
    named: list[PartitionFolder] = []
    segments: dict[str, set[str]] = {}
    places: dict[str, str] = {}
    code = 0
    for source in found:
        some: list[PartitionFolder] = []
        with _common.others_continue(several=len(found) > 1) as failed:
            some = _common.folders(source.path, live=live)
        code = max(code, *failed)
        if source.loose is not None and source.loose.is_segment:
            names: dict[str, Any] = {"topic": source.loose.topic, "partition": source.loose.partition}
            named += [folder._replace(**names) for folder in some]
        else:
            listed += [folder for folder in some if folder.path not in places or source.segment is None]
        for folder in some:
            places.setdefault(folder.path, source.given)
            if source.segment is not None:
                segments.setdefault(folder.path, set()).add(source.segment)
    if listed or not named:
        where = ", ".join(source.given for source in found)
        # Of paths that cannot be read nobody knows what is in them.
        if listed or not code:
            listed = _common.select(listed, where, topics, partitions)
    return Chosen(listed + named, [each.loose for each in found if each.loose is not None], segments, places, code)
