"""What several commands share: which partitions are meant, and how they are shown."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalog._times import parse_time
from kafkalog.errors import InternalError, KafkaLogError
from kafkalog.log import LogDir, PartitionFolder, PartitionLog

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalog.config import LogConfig

DAMAGED, FAILED = 1, 3

T = TypeVar("T")


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add PATH."""
    parser.add_argument("path", metavar="PATH", help="a log dir, or a partition's folder")


def add_isolation_level(parser: argparse.ArgumentParser) -> None:
    """Add --isolation-level."""
    parser.add_argument(
        "--isolation-level",
        choices=["read_uncommitted", "read_committed"],
        default="read_uncommitted",
        help="read_committed leaves out aborted transactions, and ends where the oldest open one begins",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add --config."""
    parser.add_argument(
        "--config", metavar="NAME=VALUE", type=_setting, action="append", help="a topic setting; may be repeated"
    )


def config(arguments: argparse.Namespace) -> LogConfig:
    """Give the topic settings that --config names."""
    from kafkalog.config import LogConfig

    return LogConfig.from_kafka(dict(arguments.config or ()))


def _setting(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        import argparse

        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, for instance compression.type=zstd")
    return name, value


def time(text: str) -> int:
    """Give milliseconds since the epoch, for ``type=``: the first record at or after the time is meant."""
    try:
        return parse_time(text, "the time")
    except ValueError as error:
        import argparse

        raise argparse.ArgumentTypeError(str(error)) from None


def folders(path: str, *, live: bool = False) -> list[PartitionFolder]:
    """Give the partition folders that a path holds, or the live ones of them, or the one that it is; sorted."""
    if is_partition(path):
        log = PartitionLog(path)
        return [PartitionFolder(path, log.topic, log.partition, log.state)]
    found = sorted(LogDir(path).folders, key=lambda folder: (folder.topic, folder.partition, folder.path))
    return [folder for folder in found if folder.state == "live" or not live]


def is_partition(path: str) -> bool:
    """Tell whether a folder is a partition's rather than a log dir."""
    try:
        PartitionLog(path)
    except ValueError:
        return False
    return True


def opened(found: Iterable[PartitionFolder]) -> Iterator[tuple[PartitionFolder, PartitionLog]]:
    """Open the folders; one that a running broker took away meanwhile is no error."""
    for folder in found:
        try:
            log = PartitionLog(folder.path)
        except FileNotFoundError:
            _gone(folder)
            continue
        yield folder, log


def _gone(folder: PartitionFolder) -> None:
    print(f"kafkalog: {folder.path}: gone meanwhile", file=sys.stderr)


class Partitions:
    """Partition folders, each asked by itself: one that cannot be read is named on stderr, and the others are asked.

    Parameters
    ----------
    found : iterable of PartitionFolder
        What to ask.
    """

    def __init__(self, found: Iterable[PartitionFolder]) -> None:
        self._found = found
        self.code = 0
        """0, or the gravest exit code of what went wrong."""

    def ask(self, question: Callable[[PartitionFolder, PartitionLog], T]) -> Iterator[tuple[PartitionFolder, T]]:
        """Give each folder's answer."""
        for folder in self._found:
            yield from self._ask(folder, question)

    def _ask(
        self, folder: PartitionFolder, question: Callable[[PartitionFolder, PartitionLog], T]
    ) -> Iterator[tuple[PartitionFolder, T]]:
        try:
            answer = question(folder, PartitionLog(folder.path))
        except FileNotFoundError as error:
            if Path(folder.path).exists():
                self._tell(error)
            else:
                _gone(folder)
        except (KafkaLogError, OSError) as error:
            self._tell(error)
        else:
            yield folder, answer

    def _tell(self, error: KafkaLogError | OSError) -> None:
        text, code = told(error)
        print("kafkalog:", text, file=sys.stderr)
        self.code = max(self.code, code)


def told(error: KafkaLogError | OSError) -> tuple[str, int]:
    """Give one line about an error of the data or of the system, and the exit code for it."""
    text, code = str(error), FAILED if isinstance(error, InternalError) else DAMAGED
    if isinstance(error, OSError):
        names = [os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None]
        if not names and error.errno is not None and error.strerror == os.strerror(error.errno):
            # A stream has no name, and the only one that is written to is this.
            names = ["standard output"]
        text, code = ": ".join([*names, error.strerror]) if names and error.strerror else text, FAILED
    return " ".join(text.split()), code


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], right: Iterable[str] = ()) -> None:
    """Print rows in columns; None is a dash."""
    cells = [list(head), *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(head))]
    to_the_right = set(right)
    for row in cells:
        aligned = [
            cell.rjust(width) if name in to_the_right else cell.ljust(width)
            for cell, width, name in zip(row, widths, head, strict=True)
        ]
        print("  ".join(aligned).rstrip())


def json_line(fields: dict[str, Any]) -> None:
    """Print one object."""
    import json

    print(json.dumps(fields, ensure_ascii=True, separators=(",", ":")))


def camel(name: str) -> str:
    """Spell a name as columns are spelled."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
