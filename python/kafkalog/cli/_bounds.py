"""Bounds of ``cat``, ``export`` and others: ``-o``, ``--from`` and ``--until``."""

from __future__ import annotations

import argparse
import json
import os
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core, _places
from kafkalog._typed_values import sides_of
from kafkalog.cli import _common
from kafkalog.errors import KafkaLogError
from kafkalog.log import PartitionLog
from kafkalog.options import ReadOptions
from kafkalog.reader import plan_ranges, scan_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from kafkalog._core import RecordText
    from kafkalog.typing import Paths


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """Add -o, --from and --until."""
    parser.add_argument(
        "-o",
        "--offset",
        action="append",
        type=_offset,
        metavar="OFF",
        help="beginning, end, an offset, -N for the last N of each partition or of the file, s@WHEN from a time, "
        "e@WHEN until a time: milliseconds, ISO 8601 with a time zone, or from now: s@-2h",
    )
    _common.add_times(parser)


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Add what selects records within their bounds."""
    add_bounds(parser)
    _common.add_keys(parser)
    _common.add_latest_per_key(parser)
    _common.add_isolation_level(parser)
    _common.add_on_corrupt(parser)
    _common.add_count(parser)


def selection(
    paths: Paths, arguments: argparse.Namespace, report: Callable[[KafkaLogError | OSError], object]
) -> dict[str, Any] | None:
    """Return the arguments of ``scan``, or None if nothing can match."""
    if arguments.offset and (arguments.start is not None or arguments.end is not None):
        raise ValueError("--offset has bounds of its own, s@WHEN and e@WHEN; leave out --from and --until")
    found: dict[str, Any] = {
        "topics": arguments.topic,
        "partitions": arguments.partition,
        "starting_timestamp": arguments.start,
        "ending_timestamp": arguments.end,
        "latest_per_key": arguments.latest_per_key,
        "isolation_level": arguments.isolation_level,
        "on_corrupt": arguments.on_corrupt,
    }
    for kind, number in arguments.offset or ():
        if kind == "end":
            # Nothing to print; what is named must exist all the same.
            plan_ranges(paths, ReadOptions(topics=found["topics"], partitions=found["partitions"]))
            return None
        if kind == "from":
            found["starting_timestamp"] = number
        elif kind == "until":
            found["ending_timestamp"] = number
        elif kind == "last":
            found["starting_offsets"] = _last(paths, arguments, number, report)
        else:
            found["starting_offsets"] = number
    return found


def of_keys(
    batches: Iterable[pa.RecordBatch], keys: Sequence[str] | None, *, printed: RecordText | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records with one of these keys; all of them without keys.

    ``printed`` makes text of decoded keys, each ended by a zero byte, which no JSON has.
    """
    if not keys:
        yield from batches
        return
    wanted = {os.fsencode(key) for key in keys}
    if printed is not None:
        # Text without its quotes is what people type.
        wanted |= {json.dumps(key, ensure_ascii=False).encode(errors="surrogateescape") for key in keys}
    for batch in batches:
        own: list[Any] = (
            batch.column("key").to_pylist()
            if printed is None
            else printed.of(batch.select(printed.columns)).split(b"\0")[:-1]
        )
        # No kernel of pyarrow filters views: slices of neighbours, which copy nothing.
        found = [key in wanted for key in own]
        at = 0
        for is_wanted, run in groupby(found):
            length = sum(1 for _ in run)
            if is_wanted:
                yield batch.slice(at, length)
            at += length


def printed_keys(options: ReadOptions) -> RecordText | None:
    """Return what makes text of decoded keys; None for those that are not decoded."""
    if "key" not in sides_of(options.decode):
        return None
    return _core.RecordText("%k\\x00", null="\1", is_json_text=options.decode_as == "json")


def _last(
    paths: Paths, arguments: argparse.Namespace, number: int, report: Callable[[KafkaLogError | OSError], object]
) -> int | dict[str, dict[int, int]]:
    several = _arguments.paths(paths)
    if any(_places.is_file(path) for path in several):
        if len(several) > 1:
            raise ValueError("-o -N of a file takes that file alone; several paths must be folders")
        return _last_of_file(several[0], arguments, number)
    starts: dict[str, dict[int, int]] = {}
    wanted = [
        folder
        for path in several
        for folder in _common.folders(path, live=True)
        if (folder.topic in arguments.topic if arguments.topic else folder.path in several or folder.topic[:2] != "__")
        and _common.is_wanted(folder, arguments.partition)
    ]
    committed = arguments.isolation_level == "read_committed"
    for folder in wanted:
        try:
            log = PartitionLog(folder.path)
            end = log.last_stable_offset if committed else log.log_end_offset
            start = max(log.log_start_offset, end - number)
        except (KafkaLogError, OSError) as error:
            if len(wanted) == 1:
                raise
            report(error)
            continue
        if folder.path in several:
            # The folder was named itself; the offset applies to it, whatever its name.
            return start
        starts.setdefault(folder.topic, {})[folder.partition] = start
    return starts


def _last_of_file(path: str, arguments: argparse.Namespace, number: int) -> int:
    """Return the same for one segment, whose end is known from its batches."""
    most = None
    if arguments.isolation_level == "read_committed":
        most = PartitionLog(_places.above(path)).last_stable_offset
    end = 0
    for batch in scan_batches(path, check_crcs=False):
        lasts: list[Any] = batch.column("lastOffset").to_pylist()
        end = max(end, *(last + 1 for last in lasts))
    return max(0, (end if most is None else min(end, most)) - number)


def _offset(text: str) -> tuple[str, Any]:
    try:
        if text in {"beginning", "earliest"}:
            return "at", "earliest"
        if text in {"end", "latest"}:
            return "end", None
        if text[:2] in {"s@", "e@"}:
            return ("from" if text[0] == "s" else "until"), _common.time(text[2:])
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected beginning, end, an offset, -N, s@WHEN or e@WHEN, found {text!r}"
        ) from None
    return ("last", -number) if number < 0 else ("at", number)
