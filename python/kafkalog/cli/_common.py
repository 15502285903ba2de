"""Shared by several commands: which partitions are selected, and how results are printed."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog import _arguments, _core, _places, _reprs
from kafkalog._loose import Loose
from kafkalog._times import from_now, parse_time
from kafkalog.cli._printing import cell, in_options, print_notes, warn
from kafkalog.cli._words import INSTEAD_OF_PATH
from kafkalog.errors import InternalError, KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.log import LogDir, PartitionFolder, PartitionLog, PartitionOpener, partition_at

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from kafkalog._core import DirState, PartitionRange
    from kafkalog.options import ReadOptions
    from kafkalog.typing import Paths

DAMAGED, FAILED = 1, 3
# Enough for several threads, and few enough that the first answers are printed soon.
_ASKED_AT_ONCE = 1024
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1

T = TypeVar("T")


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add PATH."""
    parser.add_argument("path", metavar="PATH", type=place, help="a log dir, or the folder of a partition")
    add_broker(parser)


def add_broker(parser: argparse.ArgumentParser) -> None:
    """Add what names the broker in other tools: here its path, in the place of PATH."""
    names = ("-b", "--bootstrap-server", "--bootstrap-servers", "--broker-list")
    parser.add_argument(*names, dest=INSTEAD_OF_PATH, metavar="BROKER", help=argparse.SUPPRESS)


def add_ignored(parser: argparse.ArgumentParser, *names: str, value: bool = False) -> None:
    """Add options of other tools that say what is so in any case; with ``value``, they have one."""
    more: dict[str, Any] = {"metavar": "VALUE"} if value else {"action": "store_true"}
    for name in names:
        parser.add_argument(name, dest="ignored", help=argparse.SUPPRESS, **more)


def add_copy(parser: argparse.ArgumentParser, dry: str, path: str = "a log dir, or the folder of a partition") -> None:
    """Add PATH, OUT and --dry-run, of commands that write a new log dir."""
    parser.add_argument("path", metavar="PATH", type=place, help=path)
    parser.add_argument("out", metavar="OUT", type=output, nargs="?", help="a new log dir; not needed for --dry-run")
    parser.add_argument("-n", "--dry-run", action="store_true", help=dry)


def target(arguments: argparse.Namespace) -> str:
    """Return OUT; for a dry run any name will do, and this one exists nowhere."""
    if arguments.out is None:
        if not arguments.dry_run:
            raise ValueError("name OUT, a new log dir for the result; or --dry-run to see what it would be")
        return str(Path(tempfile.gettempdir(), f"kafkalog-dry-run-{os.getpid()}"))
    return str(arguments.out)


def add_logs(parser: argparse.ArgumentParser) -> None:
    """Add the paths of logs of any kind."""
    parser.add_argument(
        "path",
        metavar="PATH",
        type=place,
        nargs="+",
        help="log dirs, folders of partitions, or a segment: under any name, compressed (gzip, zstd, lz4), or - "
        "for standard input; or a .tar of a log dir",
    )


def add_log_dirs(parser: argparse.ArgumentParser) -> None:
    """Add PATH..., for commands that read several partitions."""
    parser.add_argument(
        "path", metavar="PATH", type=place, nargs="+", help="log dirs, folders of partitions, or files of them"
    )
    add_broker(parser)


class Names(argparse.Action):
    """Collects names that are separated by commas, or given one by one."""

    def __call__(self, _: Any, namespace: argparse.Namespace, values: Any, *__: Any) -> None:
        given = [name for name in str(values).split(",") if name]
        if not given:
            raise argparse.ArgumentError(self, f"expected names separated by commas, found {values!r}")
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or ()), *given])


def add_option(parser: argparse.ArgumentParser, *names: str, other: Sequence[str] = (), **options: Any) -> None:
    """Add an option, and other names for it that people may type, which the help does not list."""
    action = parser.add_argument(*names, **options)
    if other:
        parser.add_argument(*other, **{**options, "dest": action.dest, "help": argparse.SUPPRESS})


def add_topics(parser: argparse.ArgumentParser, what: str = "only these topics") -> None:
    """Add -t, each of which names one topic or several."""
    help_ = f"{what}, separated by commas; orders-0 is partition 0 of orders; may be repeated"
    add_option(parser, "-t", "--topic", other=["--topics"], dest="topic", metavar="TOPIC", action=Names, help=help_)


def add_partitions(parser: argparse.ArgumentParser, what: str = "only these partitions") -> None:
    """Add -p, each of which names one partition or several."""
    help_ = f"{what}, separated by commas; may be repeated"
    names = ("-p", "--partition")
    add_option(parser, *names, other=["--partitions"], metavar="PARTITION", type=_numbers, action="extend", help=help_)


def add_times(parser: argparse.ArgumentParser) -> None:
    """Add --from and --until."""
    parser.add_argument(
        "--from",
        dest="start",
        type=time,
        metavar="WHEN",
        help="begin at the first record at or after this time: milliseconds, ISO 8601 with a time zone, or -2h",
    )
    parser.add_argument(
        "--until", dest="end", type=time, metavar="WHEN", help="end before the first record at or after this time"
    )


def add_latest_per_key(parser: argparse.ArgumentParser) -> None:
    """Add --latest-per-key."""
    add_option(
        parser,
        "--latest-per-key",
        other=["--latest"],
        action="store_true",
        help="only the last record of each key of a partition, as compaction leaves it",
    )


def _numbers(text: str) -> list[int]:
    return [number()(each) for each in text.split(",")]


def add_isolation_level(parser: argparse.ArgumentParser) -> None:
    """Add --isolation-level."""
    parser.add_argument(
        "--isolation-level",
        choices=["read_uncommitted", "read_committed"],
        default="read_uncommitted",
        help="read_committed leaves out aborted transactions, and ends at the start of the oldest open one",
    )


def add_on_corrupt(
    parser: argparse.ArgumentParser,
    what: str = "continues after damage, names on stderr what is lost, and exits with 1",
) -> None:
    """Add --on-corrupt."""
    help_ = f"skip {what}; default raise"
    parser.add_argument("--on-corrupt", choices=["raise", "skip"], default="raise", help=help_)


def add_out(parser: argparse.ArgumentParser) -> None:
    """Add --out, of commands that otherwise work in place."""
    help_ = "write the result into a new directory; default: in place"
    parser.add_argument("--out", metavar="DIR", type=output, help=help_)


def add_now(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --now."""
    parser.add_argument("--now", metavar="TIME", type=time, help=f"{what}; from now on: +7d; default: now")


def add_human_readable(parser: argparse.ArgumentParser) -> None:
    """Add --human-readable."""
    help_ = "print sizes as 131 kB; JSON has all digits in any case"
    parser.add_argument("--human-readable", action="store_true", help=help_)


def sized(*, human: bool) -> Callable[[int], Any]:
    """Return what prints a number of bytes."""
    return _reprs.size if human else lambda octets: octets


def add_keys(parser: argparse.ArgumentParser) -> None:
    """Add -k."""
    help_ = "only records with exactly this key; may be repeated"
    parser.add_argument("-k", "--key", metavar="KEY", action="append", help=help_)


def add_count(parser: argparse.ArgumentParser) -> None:
    """Add -c."""
    help_ = "stop after this many records"
    add_option(parser, "-c", "--count", other=["--max-messages"], type=number(0, INT64_MAX), help=help_)


def print_lost(lost: Iterable[dict[str, Any]]) -> int:
    """Print the ranges skipped as damaged, one line each; return the exit code.

    A torn end of the log is no damage: a crash or a running broker leaves one.
    """
    code = 0
    for row in lost:
        first, last = row["firstOffset"], row["lastOffset"]
        offsets = "no offsets" if first is None else f"offsets {first} to {'the end' if last is None else last}"
        # A segment outside a log dir has no known partition.
        names = [str(row[name]) for name in ("topic", "partition") if row[name] is not None]
        place = "/".join(["-".join(names), row["segment"]] if names else [row["segment"]])
        if row["reason"] == "missing":
            warn(f"{place}: missing: {offsets}")
        else:
            bytes_ = f"bytes {row['position']} to {row['endPosition'] - 1}"
            warn(f"{place}: {bytes_}: skipped ({row['reason']}): {offsets}")
        if row["reason"] != "torn" or last is not None:
            code = DAMAGED
    return code


def add_loose_names(parser: argparse.ArgumentParser) -> None:
    """Add what selects partitions, and names the one of a segment that lies outside a partition's folder."""
    add_topics(parser, "of a log dir only these topics; of a segment outside a partition's folder, its topic")
    add_partitions(parser, "only these partitions; or the one of such a segment")


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add --config."""
    parser.add_argument("--config", metavar="NAME=VALUE", action=_Settings, help="a topic setting; may be repeated")


class _Settings(argparse.Action):
    """Collects settings in a dict."""

    def __call__(self, _: Any, namespace: argparse.Namespace, values: Any, *__: Any) -> None:
        name, sign, value = str(values).partition("=")
        if not sign or not name:
            text = f"expected NAME=VALUE, for instance compression.type=zstd, found {values!r}"
            raise argparse.ArgumentError(self, text)
        setattr(namespace, self.dest, {**(getattr(namespace, self.dest) or {}), name: value})


def number(least: int = 0, most: int = INT32_MAX) -> Callable[[str], int]:
    """Return a parser of whole numbers within bounds, for ``type=``."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {most}, found {text!r}")
        return value

    return parse


class _Places:
    """The paths that the command takes."""

    of_stores = False


_PLACES = _Places()


def expect_urls(*, of_stores: bool) -> None:
    """Set whether the command that is parsed reads URLs of stores; others refuse them."""
    _PLACES.of_stores = of_stores


def place(text: str) -> str:
    """Return the path of a ``file:`` URL, or the path itself; for ``type=``. A store is opened when it is read."""
    from kafkalog.storage._urls import is_url, parse

    if not _PLACES.of_stores or not is_url(text):
        return _local(text)
    try:
        parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _local(text: str) -> str:
    try:
        found = _core.local_path(_arguments.at_home(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if _ADDRESS.fullmatch(text) and not os.path.lexists(found):
        raise argparse.ArgumentTypeError(
            f"{text!r} is the address of a broker; kafkalog reads its files: give the folder that log.dirs names in "
            "the broker's server.properties"
        )
    return found


def output(text: str) -> str:
    """As ``place``, and refuse ``-`` as an output: a user who types it means standard output, not a folder."""
    if text in {"", "-"}:
        raise argparse.ArgumentTypeError(
            f"expected the name of a file or folder, found {text!r}; only cat and export write to standard output"
        )
    return _local(text)


def time(text: str) -> int:
    """Parse a time for ``type=``; it selects the first record at or after it. Also from now: ``now``, ``-2h``."""
    try:
        since = from_now(text)
        return parse_time(text, "the time") if since is None else since
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; a time from now is -2h, or +7d") from None


def any_output(text: str) -> str:
    """As ``output``, and take a URL, and ``-`` for standard output."""
    from kafkalog.storage._urls import is_url

    if text == "-":
        return text
    return place(text) if is_url(text) else output(text)


# localhost:9092, and several of them.
_ADDRESS = re.compile(r"([\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}(,.*)?")


def folders(path: str, *, live: bool = False) -> list[PartitionFolder]:
    """List the partition folders in a log dir, or only the live ones, sorted; or the one folder that the path is."""
    path = _arguments.path(path)
    if _places.exists(path) and not _places.is_folder(path):
        raise ValueError(f"{path}: neither a log dir nor a partition folder")
    if (log := partition_at(path)) is not None:
        return [PartitionFolder(path, log.topic, log.partition, log.state)]
    found = sorted(LogDir(path).folders, key=lambda folder: (folder.topic, folder.partition, folder.path))
    return [folder for folder in found if folder.state == "live" or not live]


def selected(
    path: str,
    topics: Sequence[str] | None = None,
    partitions: Collection[int] | Mapping[str, Collection[int]] | None = None,
    *,
    live: bool = False,
) -> list[PartitionFolder]:
    """List the folders of these topics and partitions, each of which must exist."""
    return select(folders(path, live=live), path, topics, partitions)


def select(
    found: list[PartitionFolder],
    where: str,
    topics: Sequence[str] | None = None,
    partitions: Collection[int] | Mapping[str, Collection[int]] | None = None,
) -> list[PartitionFolder]:
    """Return those of these topics and partitions, each of which must exist."""
    for topic in topics or ():
        if all(folder.topic != topic for folder in found):
            raise UnknownTopicOrPartitionError(f'no topic "{topic}" in {where}; {_reprs.found(found)}')
    if topics:
        found = [folder for folder in found if folder.topic in topics]
    for partition in partitions if partitions and not isinstance(partitions, Mapping) else ():
        if all(folder.partition != partition for folder in found):
            raise UnknownTopicOrPartitionError(f"no partition {partition} in {where}; {_reprs.found(found)}")
    return [folder for folder in found if is_wanted(folder, partitions)]


def is_wanted(folder: PartitionFolder, partitions: Collection[int] | Mapping[str, Collection[int]] | None) -> bool:
    """Tell whether a folder's partition is among these: of any topic, or by topic."""
    wanted = partitions.get(folder.topic, ()) if isinstance(partitions, Mapping) else partitions
    return wanted is None or folder.partition in wanted


def opened(found: Iterable[PartitionFolder]) -> Iterator[tuple[PartitionFolder, PartitionLog]]:
    """Open the folders; a folder that a running broker deleted meanwhile is not an error."""
    opener = PartitionOpener()
    for folder in found:
        try:
            log = opener.open(folder.path)
        except FileNotFoundError:
            _report_deleted(folder)
            continue
        yield folder, log


def _report_deleted(folder: PartitionFolder) -> None:
    warn(f"{folder.path}: skipped, it was deleted meanwhile")


class Partitions:
    """Asks each of several partition folders; one that cannot be read is reported on stderr; the others continue."""

    def __init__(self, found: Iterable[PartitionFolder], loose: Sequence[Loose] = (), code: int = 0) -> None:
        self._found = found
        self._loose = loose
        self._opener = PartitionOpener()
        self.code = code
        """The exit code: 0, or the highest one of the errors."""

    def ask(self, question: Callable[[PartitionFolder, PartitionLog], T]) -> Iterator[tuple[PartitionFolder, T]]:
        """Yield the answer of each folder."""
        for folder in self._found:
            yield from self._ask(folder, question)

    def _ask(
        self, folder: PartitionFolder, question: Callable[[PartitionFolder, PartitionLog], T]
    ) -> Iterator[tuple[PartitionFolder, T]]:
        try:
            answer = question(folder, self._opener.open(folder.path))
        except (KafkaLogError, OSError) as error:
            self._fail(folder, error)
        else:
            yield folder, answer

    def ask_all(
        self, question: Callable[[list[str], DirState | None], Sequence[T | BaseException]]
    ) -> Iterator[tuple[PartitionFolder, T]]:
        """As ``ask``, for a function of the core that takes many folders at once."""
        folders = iter(self._found)
        while some := list(islice(folders, _ASKED_AT_ONCE)):
            for log_dir, group in groupby(some, lambda folder: self._opener.log_dir(folder.path)):
                alike = list(group)
                answers = question([folder.path for folder in alike], log_dir)
                for folder, answer in zip(alike, answers, strict=True):
                    if isinstance(answer, BaseException):
                        self._fail(folder, answer)
                    else:
                        yield folder, answer

    def _fail(self, folder: PartitionFolder, error: BaseException) -> None:
        """Report an error of the data or the system; others are raised."""
        if not isinstance(error, (KafkaLogError, OSError)):
            raise error
        if isinstance(error, FileNotFoundError) and not _places.exists(folder.path):
            _report_deleted(folder)
        else:
            self._report(error)

    def _report(self, error: KafkaLogError | OSError) -> None:
        for loose in self._loose:
            loose.rename(error)
        self.code = max(self.code, report(error))


def listable(paths: list[str]) -> tuple[list[str], int]:
    """Return the paths without folders that cannot be listed, which are reported, and the exit code.

    Those that are not there are left to the command, as are all where none can be listed.
    """
    found, errors = [], []
    for path in paths:
        error = None if path == "-" or not _places.on_disk([path]) else _places.fault(path)
        if error is None or isinstance(error, FileNotFoundError):
            found.append(path)
        else:
            errors.append(error)
    if not found:
        return paths, 0
    return found, max([0, *map(report, errors)])


@contextmanager
def others_continue(*, several: bool) -> Iterator[list[int]]:
    """Report an error of the data or the system if there are other places to ask; give 0 and the exit codes."""
    codes = [0]
    try:
        yield codes
    except (KafkaLogError, OSError) as error:
        if not several or isinstance(error, BrokenPipeError):
            raise
        codes.append(report(error))


def report(error: KafkaLogError | OSError, more: str = "") -> int:
    """Print an error that does not end the command; return the exit code."""
    text, code = described(error)
    warn(f"{text}{more}")
    return code


def planned(paths: Paths, options: ReadOptions) -> tuple[list[PartitionRange], list[KafkaLogError | OSError]]:
    """Plan a read; return also why partitions cannot be planned, if there are others."""
    from kafkalog.reader import plan_ranges

    try:
        return plan_ranges(paths, options), []
    except UnknownTopicOrPartitionError:
        raise
    except (KafkaLogError, OSError):
        alone = _each_alone(paths, options)
        if len(alone) <= 1:
            raise
    ranges: list[PartitionRange] = []
    errors: list[KafkaLogError | OSError] = []
    for path, each in alone:
        try:
            ranges += plan_ranges(path, each)
        except (KafkaLogError, OSError) as error:  # noqa: PERF203 - each for itself
            if isinstance(paths, Loose):
                paths.rename(error)
            errors.append(error)
    return ranges, errors


def _each_alone(paths: Paths, options: ReadOptions) -> list[tuple[str, ReadOptions]]:
    """Return a read of each folder that the options select, whatever is in it."""
    from dataclasses import replace

    from kafkalog._patterns import compiled, matching

    found = []
    for path in _arguments.paths(paths):
        if _places.is_file(path):
            found.append((path, options))
            continue
        listed = folders(path, live=True)
        names = set(options.topics or ())
        if options.topic_pattern is not None:
            names.update(matching(compiled(options.topic_pattern), {each.topic for each in listed}, whole=True))
        is_named = options.topics is not None or options.topic_pattern is not None
        for each in listed:
            # Internal topics are read where they are named, or given by path.
            is_taken = each.topic in names if is_named else each.path == path or not each.topic.startswith("__")
            if not is_taken or not is_wanted(each, options.partitions):  # type: ignore[arg-type]
                continue
            start = options.starting_offsets
            if isinstance(start, Mapping):
                number = start.get(each.topic, {}).get(each.partition)
                start = "earliest" if number is None else number
            own: dict[str, Any] = {"topics": None, "topic_pattern": None, "partitions": None}
            found.append((each.path, replace(options, **own, starting_offsets=start)))
    return found


def print_partial(*tables: pa.Table) -> int:
    """Print what tables were not made of: partitions that cannot be read or are elsewhere; return the exit code."""
    import json

    from kafkalog.tables._partial import COVERAGE, UNREAD, missing_line
    from kafkalog.tables._rows import notes_of

    # What a replay came upon may concern several.
    print_notes(dict.fromkeys(note for table in tables for note in notes_of(table)))
    notes = [table.schema.metadata or {} for table in tables]
    errors = [error for note in notes for error in json.loads(note.get(UNREAD, b"[]"))]
    for error in dict.fromkeys(errors):
        warn(f"{' '.join(error.split())}; the rest is shown without it")
    # Several tables of a topic say the same.
    for text in dict.fromkeys(note[COVERAGE] for note in notes if COVERAGE in note):
        line = missing_line(json.loads(text))
        if line is not None:
            warn(line)
    return DAMAGED if errors else 0


def described(error: KafkaLogError | OSError) -> tuple[str, int]:
    """Return one line about an error of the data or the system, and its exit code."""
    text, code = str(error), FAILED if isinstance(error, InternalError) else DAMAGED
    if isinstance(error, OSError):
        names = [os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None]
        if not names and error.errno is not None and error.strerror == os.strerror(error.errno):
            # Streams have no name, and this is the only one that commands write to.
            names = ["standard output"]
        text, code = ": ".join([*names, error.strerror]) if names and error.strerror else text, FAILED
        if isinstance(error, FileNotFoundError) and [Path(name).name for name in names] == ["-"]:
            text += "; only cat, dump, export, grep, ls, offsets, stats and verify read standard input"
    return cell(" ".join(in_options(text).split())), code
