"""``kafkalog offsets``: prints what kafka-get-offsets prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import _core, _reprs
from kafkalog._patterns import compiled, matching
from kafkalog._times import parse_time, since_1970
from kafkalog.cli import _common
from kafkalog.errors import UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse
    import re

    from kafkalog._core import DirState

# As in a ListOffsetsRequest.
_WORDS = {"latest": -1, "earliest": -2, "max-timestamp": -3}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_path(parser)
    _common.add_topics(parser, "only topics that these names or regular expressions match")
    _common.add_partitions(parser, "only these partitions", "--partitions")
    parser.add_argument(
        "--time",
        type=_time,
        default=-1,
        metavar="WHEN",
        help="latest (-1, the default), earliest (-2), max-timestamp (-3), milliseconds since the epoch, or "
        "ISO 8601 with a time zone",
    )
    _common.add_isolation_level(parser)
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out topics named __...")


def run(arguments: argparse.Namespace) -> int:
    """Print a line for each partition with an answer; one that cannot be read is reported."""
    there = found = _common.folders(arguments.path, live=True)
    if arguments.topic:
        patterns = [_pattern(each) for each in arguments.topic if each.strip()]
        names = {folder.topic for folder in found}
        wanted = {name for pattern in patterns for name in matching(pattern, names, whole=True)}
        found = [folder for folder in found if folder.topic in wanted]
    if arguments.partition:
        found = [folder for folder in found if folder.partition in arguments.partition]
    if arguments.exclude_internal_topics:
        found = [folder for folder in found if not folder.topic.startswith("__")]
    if not found:
        raise UnknownTopicOrPartitionError(f"no partition in {arguments.path} matches; {_reprs.found(there)}")
    committed = arguments.isolation_level == "read_committed"
    partitions = _common.Partitions(found)

    def question(folders: list[str], log_dir: DirState | None) -> list[int | BaseException | None]:
        return _core.list_offsets(folders, log_dir, arguments.time, committed)

    for folder, offset in partitions.ask_all(question):
        if offset is not None:
            print(f"{folder.topic}:{folder.partition}:{offset}")
    return partitions.code


def _time(text: str) -> int:
    if text in _WORDS:
        return _WORDS[text]
    if text in {str(number) for number in _WORDS.values()}:
        return int(text)
    try:
        return since_1970(parse_time(text, "the time"), "the time")
    except ValueError as error:
        import argparse

        raise argparse.ArgumentTypeError(f"expected {', '.join(_WORDS)} or a time: {error}") from None


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return compiled(text.strip())
    except ValueError as error:
        raise ValueError(f"--topic {text!r} is not a regular expression: {error}") from None
