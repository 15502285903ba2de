"""``kafkalog offsets``: prints what kafka-get-offsets prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkalog import _core, _reprs
from kafkalog._patterns import compiled, matching
from kafkalog._times import from_now, parse_time, since_1970
from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._selection import chosen, sources
from kafkalog.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse
    import re

    from kafkalog._core import DirState
    from kafkalog.cli._selection import Chosen

# As in a ListOffsetsRequest.
_WORDS = {"latest": -1, "earliest": -2, "max-timestamp": -3}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    _tier.add_remote(parser)
    _common.add_topics(parser, "only topics that these names or regular expressions match")
    _common.add_partitions(parser)
    parser.add_argument(
        "--time",
        type=_time,
        default=-1,
        metavar="WHEN",
        help="latest (-1, the default), earliest (-2), max-timestamp (-3), milliseconds since the epoch, "
        "ISO 8601 with a time zone, or from now: -2h",
    )
    _common.add_isolation_level(parser)
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out topics named __...")


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each partition with an answer; one that cannot be read is reported."""
    with sources(arguments.path, alone=True) as given:
        return _run(arguments, chosen(given, live=True))


def _run(arguments: argparse.Namespace, listed: Chosen) -> int:
    there = found = listed.folders
    lacks = []
    if arguments.topic:
        # A segment outside a log dir has no topic.
        names = {folder.topic for folder in found if folder.topic}
        wanted = set[str]()
        for each in filter(str.strip, arguments.topic):
            some = set(matching(_pattern(each), names, whole=True))
            wanted |= some
            lacks += [] if some else [f"no topic {each!r}"]
        found = [folder for folder in found if folder.topic in wanted]
    if arguments.partition:
        # Those by topic are of folders that are there.
        given = [] if isinstance(arguments.partition, Mapping) else arguments.partition
        here = {folder.partition for folder in found}
        lacks += [f"no partition {number}" for number in given if found and number not in here]
        found = [folder for folder in found if _common.is_wanted(folder, arguments.partition)]
    if arguments.exclude_internal_topics:
        found = [folder for folder in found if not folder.topic.startswith("__")]
    places = ", ".join(arguments.path)
    if not found and not listed.code:
        lack = f"{', '.join(lacks)} in {places}" if lacks else f"no partition in {places} matches"
        raise UnknownTopicOrPartitionError(f"{lack}; {_reprs.found(there)}")
    for lack in lacks:
        _printing.warn(f"{lack} in {places}; {_reprs.found(there)}")
    committed = arguments.isolation_level == "read_committed"
    partitions = listed._replace(folders=found).partitions()

    def question(folders: list[str], log_dir: DirState | None) -> list[int | BaseException | None]:
        return _core.list_offsets(folders, log_dir, arguments.time, committed)

    for folder, offset in partitions.ask_all(question):
        if offset is not None:
            place = ["-" if each is None else str(each) for each in (folder.topic, folder.partition)]
            print(":".join([*place, str(offset)]))
    return max(partitions.code, int(bool(lacks)))


def _time(text: str) -> int:
    if text in _WORDS:
        return _WORDS[text]
    if text in {str(number) for number in _WORDS.values()}:
        return int(text)
    try:
        since = from_now(text)
        return since_1970(parse_time(text, "the time") if since is None else since, "the time")
    except ValueError as error:
        import argparse

        raise argparse.ArgumentTypeError(f"expected {', '.join(_WORDS)} or a time: {error}") from None


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return compiled(text.strip())
    except ValueError as error:
        raise ValueError(f"--topic {text!r} is not a regular expression: {error}") from None
