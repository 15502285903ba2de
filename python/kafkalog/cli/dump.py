"""``kafkalog dump``: prints what ``kafka-dump-log`` prints, with the same flags, without Java."""

import argparse
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from os import fspath
from pathlib import Path
from typing import Literal

from kafkalog import _places
from kafkalog._loose import Loose, ensure_named, loose, naming, only
from kafkalog.cli import _common

_Decoder = Literal["string", "integer", "long", "bytes"]

_PACKAGE = "org.apache.kafka.tools.api."
# Kafka's decoders by class name, and our short names for them.
_DECODERS: dict[str, _Decoder] = {
    _PACKAGE + "StringDecoder": "string",
    _PACKAGE + "IntegerDecoder": "integer",
    _PACKAGE + "LongDecoder": "long",
    _PACKAGE + "DefaultDecoder": "bytes",
    "string": "string",
    "integer": "integer",
    "long": "long",
    "bytes": "bytes",
}

# The flags that decode an internal topic, and the topic. Of several the first here counts, as for Kafka's tool.
_TOPIC_DECODERS = {
    "--offsets-decoder": "__consumer_offsets",
    "--transaction-log-decoder": "__transaction_state",
    "--cluster-metadata-decoder": "__cluster_metadata",
    "--remote-log-metadata-decoder": "__remote_log_metadata",
    "--share-group-state-decoder": "__share_group_state",
}

# Java's Integer.MAX_VALUE: the largest size of the tool, and "no limit" for --max-bytes.
_MAX_SIZE = 2**31 - 1

DESCRIPTION = """\
Print the contents of .log, .checkpoint, .index, .timeindex, .txnindex and .snapshot files exactly as
kafka-dump-log of Kafka 4.3 does: same flags, same fields, same findings at the end (on stderr). Files of
other kinds are named and skipped. Nothing is ever created or changed next to the files, so those of a
running broker may be dumped. A .index needs its .log next to it, a .timeindex its .log and its .index.
"""

EPILOG = """\
The line of a batch:
  baseOffset, lastOffset    first and last offset as written
  count                     records in the batch
  baseSequence, lastSequence, producerId, producerEpoch
                            the idempotent producer, -1 for none
  partitionLeaderEpoch      -1 unknown
  isTransactional, isControl, deleteHorizonMs
  position, size            bytes in the file
  CreateTime, LogAppendTime, NoTimestampType
                            the timestamp type, and the largest timestamp
  magic, compresscodec      format (0, 1, 2) and codec
  crc, isvalid              the stored checksum, and whether it is correct

Compaction may have removed the records of the first and the last offset. Messages of magic 0 and 1 have 'offset' (of a
wrapper: its last) and the fields from 'position' on.

Exit status: 0 nothing wrong; 1 damage (an invalid batch, bytes after the last one, an index that
contradicts its log, decreasing offsets, bytes that end the dump); 2 wrong usage; 3 input or output
failed. Offsets that are not consecutive are reported on stderr, as kafka-dump-log does: after
compaction, and at the start of a log that does not start at 0, they are normal and not counted as damage.

Where kafka-dump-log would end with a Java stack trace, this ends with one line: the file, the byte,
what was expected and what was found. The decoder 'bytes' (DefaultDecoder) writes keys and payloads
as they are. The decoders of internal topics print what kafka-dump-log prints, salts, keys and passwords
included; only the reason why a record cannot be decoded is worded differently.
"""


_size = _common.number(0, _MAX_SIZE)


def _decoder(text: str) -> _Decoder:
    if text not in _DECODERS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(_DECODERS)}, found {text!r}")
    return _DECODERS[text]


def _files(text: str) -> list[str]:
    # As Java's String.split: empty names at the end do not count.
    names = text.rstrip(",").split(",")
    if "" in names:
        raise argparse.ArgumentTypeError(f"expected names separated by commas, found {text!r}")
    return [_common.place(name) for name in names]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add = parser.add_argument
    add(
        "path",
        nargs="*",
        type=_common.place,
        metavar="FILE",
        help="the files to dump; of a folder all its segments, of a log dir those of all partitions or of -t and -p",
    )
    add(
        "--files",
        default=[],
        type=_files,
        metavar="FILE,...",
        help="the files to dump, in this order; a segment under any "
        "name, compressed, in a .tar, or - for standard input, too",
    )
    _common.add_loose_names(parser)
    add("--deep-iteration", action="store_true", help="print each record, not only batches")
    add("--print-data-log", action="store_true", help="print keys and payloads; includes --deep-iteration")
    add("--skip-record-metadata", action="store_true", help="print only keys and payloads, and no control records")
    add("--max-bytes", type=_size, default=_MAX_SIZE, metavar="SIZE", help="read at most this many bytes of each log")
    add("--verify-index-only", action="store_true", help="check indexes without printing their entries")
    add("--index-sanity-check", action="store_true", help="check indexes only as a broker does when it starts")
    add(
        "--max-message-size",
        type=_size,
        default=5 * 1024 * 1024,
        metavar="SIZE",
        help="bytes after an indexed position within which its batch must end (default: %(default)s)",
    )
    for of in ("key", "value"):
        add(
            f"--{of}-decoder-class",
            nargs="?",
            const="string",
            type=_decoder,
            metavar="CLASS",
            help=f"how {of}s are printed: string (default), integer, long, bytes, or Kafka's class names for them "
            f"({_PACKAGE}IntegerDecoder ...); includes --print-data-log",
        )
    for flag, topic in _TOPIC_DECODERS.items():
        add(flag, action="store_true", help=f"decode records of {topic}; includes --print-data-log")


def run(args: argparse.Namespace) -> int:
    """Dump the files."""
    from kafkalog import _core

    named_folders = any(each != "-" and _places.is_folder(_places.at(each)) for each in args.path)
    codes = [0]
    args.files += [each for path in args.path for each in _segments(path, args.topic, args.partition, codes)]
    if not args.files:
        if named_folders:
            return max(codes)
        raise ValueError("dump: the following arguments are required: FILE, a folder, or --files FILE,FILE")
    topic = only(args.topic)
    number = None if isinstance(args.partition, Mapping) else only(args.partition)
    given = (topic for flag, topic in _TOPIC_DECODERS.items() if getattr(args, flag[2:].replace("-", "_")))
    topic_decoder = next(given, topic if topic in _TOPIC_DECODERS.values() else None)
    named = (topic_decoder, args.key_decoder_class, args.value_decoder_class)
    printing = args.print_data_log or any(each is not None for each in named)
    # Flush what was printed before; the core writes to the descriptors.
    sys.stdout.flush()
    sys.stderr.flush()
    with ExitStack() as stack:
        # Names mean that the file's folder does not tell them.
        in_any = args.topic is None and args.partition is None
        found = {file: loose(file, topic, number, in_any_folder=in_any or named_folders) for file in args.files}
        if not named_folders:
            ensure_named(found.values(), topic, number)
        for each in found.values():
            stack.enter_context(naming(each))
        files = [shown for file in args.files for shown in _shown(file, found[file])]
        wrong = _core.dump(
            files,
            sys.stdout.fileno(),
            sys.stderr.fileno(),
            print_data_log=printing,
            deep_iteration=args.deep_iteration,
            skip_record_metadata=args.skip_record_metadata,
            verify_index_only=args.verify_index_only,
            index_sanity_check=args.index_sanity_check,
            max_bytes=None if args.max_bytes == _MAX_SIZE else args.max_bytes,
            max_message_size=args.max_message_size,
            key_decoder=args.key_decoder_class or "string",
            value_decoder=args.value_decoder_class or "string",
            topic_decoder=topic_decoder,
        )
    return max(int(wrong), *codes)


def _segments(
    file: str, topics: list[str] | None, partitions: list[int] | dict[str, list[int]] | None, codes: list[int]
) -> list[str]:
    """Return the segments in a folder, or the file itself; folders that cannot be read are reported."""
    file = _places.at(file)
    if file == "-" or not _places.is_folder(file):
        return [file]
    chosen = _common.selected(file, topics, partitions, live=True)
    found = []
    for folder in chosen:
        with _common.others_continue(several=len(chosen) > 1) as failed:
            names = sorted(name for name in _places.listed(folder.path) if name.endswith(".log"))
            found += [os.path.join(folder.path, name) for name in names]  # noqa: PTH118 - of any bytes
        codes += failed
    return [each for each in found if _places.is_file(each)]


def _shown(file: str, found: Loose | None) -> list[tuple[str, str]]:
    """Return each file to dump, and the name to show."""
    if found is None:
        return [(_places.at(file), _places.at(file))]
    if found.is_segment:
        return [(fspath(found), file)]
    return [(str(each), found.shown(str(each))) for each in sorted(Path(found).rglob("*.log"))]
