"""``kafkalog cat``: prints records to standard output, with kcat's options."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog._core import RecordText
from kafkalog._loose import Loose, staged
from kafkalog._reprs import short_list
from kafkalog.cli import _common
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.log import LogDir, PartitionLog, partition_at
from kafkalog.options import ReadOptions, decode_arguments
from kafkalog.reader import RecordReader, plan_ranges, scan_batches

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

_FORMAT_HELP = """\
%%s value, %%S its size, %%R its size as 4 bytes, %%k key, %%K its size, %%t topic, %%p partition, %%o offset, \
%%T timestamp in ms, %%h headers, %%%% a percent sign; \\n \\t \\r \\xNN. Sizes of null are -1"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "path",
        metavar="PATH",
        type=_common.place,
        help="a log dir, the folder of a partition, or a segment: under any name, compressed (gzip, zstd, lz4), or - "
        "for standard input; or a .tar of a log dir",
    )
    _common.add_topics(parser, "the topics to print; required if PATH is a log dir")
    _common.add_partitions(parser)
    parser.add_argument(
        "-o",
        "--offset",
        action="append",
        type=_offset,
        metavar="OFF",
        help="beginning, end, an offset, -N for the last N of each partition or of the file, s@WHEN from a time, "
        "e@WHEN until a time: milliseconds, or ISO 8601 with a time zone",
    )
    _common.add_times(parser)
    _common.add_latest_per_key(parser)
    _common.add_isolation_level(parser)
    _common.add_on_corrupt(parser)
    parser.add_argument("-c", "--count", type=_common.number(0, _common.INT64_MAX), help="stop after this many records")
    parser.add_argument(
        "-D", dest="delimiter", metavar="DELIM", default="\\n", help="delimiter after each record; default \\n"
    )
    parser.add_argument("-K", dest="key_delimiter", metavar="DELIM", help="print keys too, each followed by DELIM")
    parser.add_argument("-Z", dest="null", action="store_const", const="NULL", default="", help="print null as NULL")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("-f", "--format", metavar="FMT", help=_FORMAT_HELP)
    shape.add_argument("-J", "--json", action="store_true", help="one JSON object per record")


def run(arguments: argparse.Namespace) -> int:
    """Print the records."""
    with staged(arguments.path, arguments.topic, arguments.partition) as arguments.path:
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.topic is None and not Path(arguments.path).is_file() and partition_at(arguments.path) is None:
        names = LogDir(arguments.path).topics
        if not names:
            raise UnknownTopicOrPartitionError(f"{arguments.path}: no partition in this log dir")
        raise ValueError(f"name a topic with -t: the log dir holds {short_list(names, 10)}")
    if arguments.json:
        text = RecordText()
    else:
        key = "" if arguments.key_delimiter is None else f"%k{_literal(arguments.key_delimiter)}"
        shape = f"{key}%s{_literal(arguments.delimiter)}" if arguments.format is None else arguments.format
        text = RecordText(shape, null=arguments.null)
    out = sys.stdout.buffer
    result = _Result()
    left = arguments.count
    with closing(_batches(arguments, text.columns, result)) as batches:
        for batch in batches:
            out.write(text.of(batch if left is None else batch.slice(0, left)))
            if left is not None:
                left -= batch.num_rows
                if left <= 0:
                    break
    out.flush()
    return max(_common.print_lost(result.lost), result.code)


class _Result:
    """Skipped ranges, and the highest exit code of partitions that cannot be read."""

    def __init__(self) -> None:
        self.lost: list[dict[str, Any]] = []
        self.code = 0

    def report(self, error: KafkaLogError) -> None:
        sys.stdout.flush()
        self.code = max(self.code, _common.report(error))


def _literal(delimiter: str) -> str:
    return delimiter.replace("%", "%%")


def _batches(
    arguments: argparse.Namespace, columns: list[str], result: _Result
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the requested columns of the records; of several partitions, a damaged one does not end the others."""
    if arguments.count == 0:
        return
    selection = _selection(arguments, result)
    if selection is None:
        return
    # Few records are ready sooner in a small batch, and many print faster while their text stays in the cache.
    rows = min(8_192, arguments.count or 8_192)
    shape: dict[str, Any] = {"layout": "view", "batch_rows": rows, "batch_bytes": 1 << 20}
    options = ReadOptions(columns=columns or ("offset",), **shape, **selection)
    ranges, errors = _common.planned(arguments.path, options)
    for error in errors:
        result.report(error)
    outside = arguments.path if isinstance(arguments.path, Loose) else None
    for each in ranges if outside is None else outside.named(ranges):
        with RecordReader(_core.scan_ranges([each], **decode_arguments(options)), outside) as reader:
            try:
                yield from reader
            except KafkaLogError as error:
                if len(ranges) + len(errors) == 1:
                    raise
                result.report(error)
            finally:
                result.lost += reader.lost.to_pylist()


def _selection(arguments: argparse.Namespace, result: _Result) -> dict[str, Any] | None:
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
            plan_ranges(arguments.path, ReadOptions(topics=found["topics"], partitions=found["partitions"]))
            return None
        if kind == "from":
            found["starting_timestamp"] = number
        elif kind == "until":
            found["ending_timestamp"] = number
        elif kind == "last":
            found["starting_offsets"] = _last(arguments, number, result)
        else:
            found["starting_offsets"] = number
    return found


def _last(arguments: argparse.Namespace, number: int, result: _Result) -> int | dict[str, dict[int, int]]:
    if Path(arguments.path).is_file():
        return _last_of_file(arguments, number)
    starts: dict[str, dict[int, int]] = {}
    wanted = [
        folder
        for folder in _common.folders(arguments.path, live=True)
        if folder.topic in (arguments.topic or [folder.topic])
        and folder.partition in (arguments.partition or [folder.partition])
    ]
    committed = arguments.isolation_level == "read_committed"
    for folder, log in _common.opened(wanted):
        try:
            end = log.last_stable_offset if committed else log.log_end_offset
            start = max(log.log_start_offset, end - number)
        except KafkaLogError as error:
            if len(wanted) == 1:
                raise
            result.report(error)
            continue
        if folder.path == arguments.path:
            # The folder was named itself; the offset applies to it, whatever its name.
            return start
        starts.setdefault(folder.topic, {})[folder.partition] = start
    return starts


def _last_of_file(arguments: argparse.Namespace, number: int) -> int:
    """Return the same for one segment, whose end is known from its batches."""
    most = None
    if arguments.isolation_level == "read_committed":
        most = PartitionLog(Path(arguments.path).parent).last_stable_offset
    end = 0
    for batch in scan_batches(arguments.path, check_crcs=False):
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
