"""``kafkalog grep``: prints the records in which a pattern is found, with grep's options and exit codes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kafkalog._core import PrintedSearch
from kafkalog._loose import staged
from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._bounds import add_bounds, selection
from kafkalog.cli._decoding import add_decoding, decoding_options, is_json
from kafkalog.cli._words import INSTEAD_OF_PATH
from kafkalog.cli.cat import Result, add_shape, readers, text_of
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.options import ReadOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kafkalog._core import PartitionRange, RecordText
    from kafkalog.typing import Paths

FOUND, NONE, USAGE, FAILED = 0, 1, 2, 3

EPILOG = """\
PATTERN is a regular expression over bytes that means what Python's re means by it: . is any byte but a line feed,
\\d, \\w and -i know ASCII alone, (?u) switches to characters, and \\xff is a byte. With -F it is found as it is. A
match lies within one value, key, or name or value of a header; null has none. With --decode, decoded keys and values
are searched as they are printed: in their JSON.

Exit codes: 0 a record was found, 1 none, 2 wrong usage, 3 input or output failed, or the data is damaged.

examples:
  kafkalog grep -F '"order": 4711' /data/kafka-logs -t orders -J
  kafkalog grep -c 'ERROR|FATAL' /data/kafka-logs --from -2h
  kafkalog grep '"amount":9[0-9]{2}' /data/kafka-logs -t orders --decode value
  kafkalog grep -l -i --in key,headers '^trace-[0-9a-f]+$' /data/kafka-logs"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("pattern", metavar="PATTERN", help="a regular expression, or with -F a literal")
    _common.add_logs(parser)
    _tier.add_remote(parser)
    # Its value goes where PATTERN stands, as the value of -b goes to PATH elsewhere.
    parser.add_argument("-e", "--regexp", dest=INSTEAD_OF_PATH, metavar="PATTERN", help="PATTERN, if it begins with -")
    # What is so in any case.
    _common.add_ignored(parser, "-E", "--extended-regexp", "-P", "--perl-regexp", "-r", "-R", "--recursive", "-a")
    _common.add_topics(parser, "only these topics; default all but internal ones")
    _common.add_partitions(parser)
    parser.add_argument(
        "--in",
        dest="search_in",
        metavar="FIELDS",
        type=_fields,
        default=("value",),
        help="where to search: value, key, headers (names and values), separated by commas; default value",
    )
    parser.add_argument("-F", "--fixed-strings", action="store_true", help="PATTERN is a literal")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="upper and lower case of ASCII are the same")
    parser.add_argument("-v", "--invert-match", action="store_true", help="the records in which nothing is found")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing, and stop at the first record")
    parser.add_argument("-m", "--max-count", metavar="N", type=_common.number(0), help="stop after this many records")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-c", "--count", action="store_true", help="print topic-partition:number for each partition")
    what.add_argument("-l", "--list", action="store_true", help="print topic-partition of those with a match")
    add_bounds(parser)
    _common.add_latest_per_key(parser)
    _common.add_isolation_level(parser)
    _common.add_on_corrupt(parser, "continues after damage, names on stderr what is lost, and exits with 3")
    add_shape(parser)
    add_decoding(parser)
    parser.add_argument(
        "--threads", metavar="N", type=_common.number(1, 256), help="threads that search; default one per processor"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what is found."""
    try:
        if len(arguments.path) > 1:
            return _run(arguments, arguments.path)
        with staged(arguments.path[0], arguments.topic, arguments.partition) as path:
            return _run(arguments, path)
    except UnknownTopicOrPartitionError as error:
        _common.report(error)
        return USAGE
    except KafkaLogError as error:
        sys.stdout.flush()
        _common.report(error)
        return FAILED


def _run(arguments: argparse.Namespace, paths: Paths) -> int:
    text = None if arguments.count or arguments.list or arguments.quiet else text_of(arguments)
    columns = text.columns if text is not None else []
    pattern = {**_search(arguments), "search_in": arguments.search_in}
    decoded = decoding_options(arguments)
    if decoded:
        # What is searched comes into being with the columns.
        columns = list(dict.fromkeys([*columns, *arguments.search_in]))
    result = Result()
    bounds = selection(paths, arguments, result.report)
    if bounds is None:
        return NONE
    options = ReadOptions(
        columns=columns or ("offset",),
        **(decoded or pattern),
        **bounds,
        threads=arguments.threads,
        layout="view",
        batch_rows=8_192,
        batch_bytes=1 << 20,
    )
    further: dict[str, Any] = {} if decoded else {"is_inverted": arguments.invert_match}
    search = PrintedSearch(**pattern, is_inverted=arguments.invert_match, is_json_text=is_json(arguments))
    left = 1 if arguments.quiet else arguments.max_count
    total = 0
    with closing(readers(paths, options, result, further)) as found:
        while left is None or left > 0:
            # Of each partition no more is read than what is printed of it.
            most = 1 if arguments.list else left
            if not decoded:
                further["limit"] = most
            partition, batches = next(found, (None, ()))
            if partition is None:
                break
            count = 0
            for batch in batches:
                rows = search.rows(batch)[: None if most is None else most - count] if decoded else None
                count += batch.num_rows if rows is None else len(rows)
                _print(text, batch, rows)
                if most is not None and count >= most:
                    break
            total += count
            left = None if left is None else left - count
            if not arguments.quiet and (arguments.count or (arguments.list and count)):
                _print_partition(paths, partition, count if arguments.count else None, as_json=arguments.json)
    sys.stdout.flush()
    result.print_undecoded(arguments)
    if max(_common.print_lost(result.lost), result.code):
        return FAILED
    return FOUND if total else NONE


def _print(text: RecordText | None, batch: pa.RecordBatch, rows: list[int] | None) -> None:
    if text is not None:
        sys.stdout.buffer.write(text.of(batch, rows))
        if sys.stdout.isatty():
            sys.stdout.flush()


def _search(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the pattern as an argument of ``scan``."""
    if arguments.fixed_strings and not arguments.ignore_case:
        return {"containing": os.fsencode(arguments.pattern)}
    pattern: str = arguments.pattern
    if arguments.fixed_strings:
        literal = os.fsencode(pattern).decode("latin-1")
        pattern = re.sub("[^0-9A-Za-z]", lambda found: f"\\x{ord(found[0]):02x}", literal)
    elif not pattern.isascii():
        try:
            pattern.encode()
        except UnicodeEncodeError:
            raise ValueError("PATTERN is not UTF-8; write bytes as \\xff, or give a literal with -F") from None
    return {"matching": f"(?i){pattern}" if arguments.ignore_case else pattern}


def _print_partition(paths: Paths, partition: PartitionRange, count: int | None, *, as_json: bool) -> None:
    # Of a segment outside a log dir they may be unknown.
    topic, number = partition.topic or None, partition.partition if partition.partition >= 0 else None
    if as_json:
        counted = {} if count is None else {"count": count}
        _printing.json_line({"topic": topic, "partition": number, **counted})
        return
    name = "-".join(str(each) for each in (topic or str(paths), number) if each is not None)
    _printing.say(name if count is None else f"{name}:{count}")


def _fields(text: str) -> Sequence[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    valid = ("value", "key", "headers")
    if not names or any(name not in valid for name in names):
        raise argparse.ArgumentTypeError(f"expected {', '.join(valid)}, separated by commas; found {text!r}")
    return tuple(names)
