"""``kafkalog cat``: prints records to standard output, with kcat's options."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from os import fspath
from typing import TYPE_CHECKING, Any

from kafkalog import _core, _places
from kafkalog._core import RecordText
from kafkalog._loose import Loose, staged
from kafkalog._reprs import short_list
from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._bounds import add_selection, of_keys, printed_keys, selection
from kafkalog.cli._decoding import REGISTRY_TOPIC, Decodings, add_decoding, decoding_options, is_json
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.log import LogDir, partition_at
from kafkalog.options import ReadOptions, decode_arguments
from kafkalog.reader import RecordReader

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    import pyarrow as pa

    from kafkalog._core import PartitionRange
    from kafkalog.typing import Paths

# What the records of internal topics say, and each record.
DECODERS = {
    "__consumer_offsets": ("kafkalog groups", "--offsets-decoder"),
    "__transaction_state": ("kafkalog transactions", "--transaction-log-decoder"),
    "__cluster_metadata": ("kafkalog topics", "--cluster-metadata-decoder"),
    "__share_group_state": (None, "--share-group-state-decoder"),
    "__remote_log_metadata": (None, "--remote-log-metadata-decoder"),
}

_FORMAT_HELP = """\
%%s value, %%S its size, %%R its size as 4 bytes, %%k key, %%K its size, %%t topic, %%p partition, %%o offset, \
%%T timestamp in ms, %%h headers, %%%% a percent sign; \\n \\t \\r \\xNN. Sizes of null are -1"""


EPILOG = """\
Keys and values are printed as they are. In JSON (-J) they are text, and bytes that are not UTF-8 are base64 in a field
of their own: "payload":null,"payloadBase64":"/w=="; in the list of headers an object: {"base64":"/w=="}. kcat's -C, -e,
-q and -u are taken and change nothing; -b takes the path.

With --decode, keys or values are JSON: objects in -J, their text for %k and %s, which are the columns of the newest
schema that is not deleted. Bytes in them are base64, decimals and times text. -k takes a decoded key as it is printed.

examples:
  kafkalog cat /data/kafka-logs -t orders -c 5
  kafkalog cat /data/kafka-logs -t orders -p 0 -o -10 -f '%o %k %s\\n'
  kafkalog cat /data/kafka-logs -t orders --from 2026-01-31T12:00:00Z -k customer-4711 -J
  kafkalog cat /data/kafka-logs -t orders --decode value -J"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_logs(parser)
    _tier.add_remote(parser)
    _common.add_broker(parser)
    _common.add_ignored(parser, "-C", "-e", "-q", "-u", "--from-beginning")
    parser.add_argument("-s", dest="unpack", action="append", type=_unpack, metavar="WHAT", help=argparse.SUPPRESS)
    _common.add_topics(parser, "the topics to print; required if PATH is a log dir")
    _common.add_partitions(parser)
    add_selection(parser)
    add_shape(parser)
    add_decoding(parser)


def add_shape(parser: argparse.ArgumentParser) -> None:
    """Add the options of how a record is printed."""
    parser.add_argument(
        "-D", dest="delimiter", metavar="DELIM", default="\\n", help="delimiter after each record; default \\n"
    )
    parser.add_argument("-K", dest="key_delimiter", metavar="DELIM", help="print keys too, each followed by DELIM")
    parser.add_argument("-Z", dest="null", action="store_const", const="NULL", default="", help="print null as NULL")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("-f", "--format", metavar="FMT", type=_shape, help=_FORMAT_HELP)
    shape.add_argument("-J", "--json", action="store_true", help="one JSON object per record")


def _shape(text: str) -> str:
    """Return a format; the name of one would be printed for each record, and of an empty one nothing."""
    if not text:
        raise argparse.ArgumentTypeError("empty; '%s\\n' prints values, each on a line")
    if text.lower() in {"json", "jsonl", "ndjson"}:
        raise argparse.ArgumentTypeError(
            f"{text}: -J prints a JSON object a record; a format is text with fields: '%o %s\\n'"
        )
    if text.lower() in {"csv", "tsv", "arrow", "parquet"}:
        raise argparse.ArgumentTypeError(f"kafkalog export PATH - --format {text.lower()} prints that")
    return text


def _unpack(text: str) -> str:
    """Parse kcat's -s: what the schema decodes."""
    of, sign, kind = text.rpartition("=")
    if kind != "avro" or of not in ({"key", "value"} if sign else {""}):
        raise argparse.ArgumentTypeError(
            f"expected value=avro, key=avro or avro, found {text!r}; numbers are shown by "
            "kafkalog dump PATH --value-decoder-class integer or long"
        )
    return of or "both"


def _settle_unpack(arguments: argparse.Namespace) -> None:
    """Take kcat's -s value=avro for --decode value."""
    parts = set(arguments.unpack or ())
    if not parts:
        return
    part = parts.pop() if len(parts) == 1 else "both"
    if arguments.decode is None:
        arguments.decode = part


def run(arguments: argparse.Namespace) -> int:
    """Print the records."""
    _settle_unpack(arguments)
    if len(arguments.path) > 1:
        return _run(arguments, arguments.path)
    with staged(arguments.path[0], arguments.topic, arguments.partition) as path:
        return _run(arguments, path)


def _run(arguments: argparse.Namespace, paths: Paths) -> int:
    if arguments.topic is None:
        _require_topic([fspath(paths)] if isinstance(paths, Loose) else arguments.path)
    text = text_of(arguments)
    out = sys.stdout.buffer
    result = Result()
    left = arguments.count
    try:
        with closing(_batches(arguments, paths, text.columns, result)) as batches:
            for batch in batches:
                out.write(text.of(batch if left is None else batch.slice(0, left)))
                if left is not None:
                    left -= batch.num_rows
                    if left <= 0:
                        break
        out.flush()
    finally:
        # Below what was printed: it may be long, and interrupted.
        result.print_undecoded(arguments)
        if sys.stdout.isatty():
            _tell_decoders(result.topics)
    return max(_common.print_lost(result.lost), result.code)


def text_of(arguments: argparse.Namespace) -> RecordText:
    """Return how a record is printed."""
    decoded: dict[str, Any] = {"is_json_text": is_json(arguments)}
    if arguments.json:
        return RecordText(**decoded, errors_of=arguments.decode or "" if arguments.on_undecoded == "null" else "")
    key = "" if arguments.key_delimiter is None else f"%k{_literal(arguments.key_delimiter)}"
    shape = f"{key}%s{_literal(arguments.delimiter)}" if arguments.format is None else arguments.format
    return RecordText(shape, null=arguments.null, **decoded)


def _require_topic(paths: list[str]) -> None:
    for path in paths:
        if _places.is_file(path) or partition_at(path) is not None:
            continue
        names = LogDir(path).topics
        if not names:
            raise UnknownTopicOrPartitionError(f"{path}: no partition in this log dir")
        raise ValueError(f"name a topic with -t: the log dir holds {short_list(names, 10)}")


def _tell_decoders(topics: Iterable[str]) -> None:
    """Say which command decodes the topics whose records are Kafka's own."""
    for topic in topics:
        if topic not in DECODERS:
            continue
        command, flag = DECODERS[topic]
        shown = f"{command} PATH shows what they say, and " if command else ""
        _printing.warn(
            f"the records of {topic} are in a format of Kafka's own: {shown}kafkalog dump PATH {flag} each of them"
        )


class Result:
    """Skipped ranges, and the highest exit code of partitions that cannot be read."""

    def __init__(self) -> None:
        self.lost: list[dict[str, Any]] = []
        self.code = 0
        self.topics: dict[str, None] = {}
        """Those that were read, in order."""
        self.undecoded = 0
        self._refused: set[str] = set()

    def report(self, error: KafkaLogError | OSError) -> None:
        """Print an error, below what was printed."""
        sys.stdout.flush()
        self.code = max(self.code, _common.report(error))

    def refuse(self, topic: str, error: ValueError) -> None:
        """Print, once, why the records of a topic cannot be decoded."""
        if topic not in self._refused:
            self._refused.add(topic)
            sys.stdout.flush()
            _printing.warn(_printing.in_options(str(error)))
        self.code = max(self.code, _common.DAMAGED)

    def print_undecoded(self, arguments: argparse.Namespace) -> None:
        """Print how many records were not decoded."""
        if self.undecoded:
            what = "left out" if arguments.on_undecoded == "skip" else "null"
            _printing.warn(f"{self.undecoded} records could not be decoded: {what}")


def _literal(delimiter: str) -> str:
    return delimiter.replace("%", "%%")


def _batches(
    arguments: argparse.Namespace, paths: Paths, columns: list[str], result: Result
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the requested columns of the records; of several partitions, a damaged one does not end the others."""
    if arguments.count == 0:
        return
    found = selection(paths, arguments, result.report)
    if found is None:
        return
    # Few records are ready sooner in a small batch, and many print faster while their text stays in the cache.
    rows = min(8_192, arguments.count or 8_192)
    shape: dict[str, Any] = {"layout": "view", "batch_rows": rows, "batch_bytes": 1 << 20}
    keys = ["key"] if arguments.key and "key" not in columns else []
    decoded = decoding_options(arguments)
    options = ReadOptions(columns=[*columns, *keys] or ("offset",), **shape, **found, **decoded)
    for _, reader in readers(paths, options, result):
        yield from of_keys(reader, arguments.key, printed=printed_keys(options))


def readers(
    paths: Paths, options: ReadOptions, result: Result, further: Mapping[str, Any] | None = None
) -> Generator[tuple[PartitionRange, Iterable[pa.RecordBatch]], None, None]:
    """Yield each partition with its records; of several, a damaged one does not end the others.

    ``further`` are arguments of ``_core.scan_ranges`` that may change from one partition to the next.
    """
    ranges, errors = _common.planned(paths, options)
    for error in errors:
        result.report(error)
    outside = paths if isinstance(paths, Loose) else None
    ranges = ranges if outside is None else outside.named(ranges)
    if options.decode is not None and options.topics is None:
        # It has no schemas of its own.
        ranges = [each for each in ranges if each.topic != REGISTRY_TOPIC]
    is_alone = len({each.topic for each in ranges}) <= 1
    decodings = Decodings(ranges, paths, options)

    def batches(reader: RecordReader) -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except (KafkaLogError, OSError) as error:
            if len(ranges) + len(errors) == 1 or isinstance(error, BrokenPipeError):
                raise
            result.report(error)
        finally:
            # Schemas are read once for several partitions.
            result.lost += [each for each in reader.lost.to_pylist() if each not in result.lost]
            result.undecoded += reader.metrics["undecoded"]

    for each in ranges:
        result.topics.setdefault(each.topic)
        try:
            decoding = decodings.of([each])
        except ValueError as error:
            if is_alone:
                raise
            result.refuse(each.topic, error)
            continue
        arguments = {**decode_arguments(options), "decoding": decoding, **(further or {})}
        with RecordReader(_core.scan_ranges([each], **arguments), outside) as reader:
            yield each, batches(reader)
