"""``kafkalog export``: writes directories as files."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog._arguments import MAX_THREADS
from kafkalog._export_files import SUFFIXES, TEXT_FORMATS, Files, format_of, interruptible, unfinished
from kafkalog._loose import Loose, staged
from kafkalog.cli import _common
from kafkalog.cli._progress import Progress
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.options import ReadOptions, decode_arguments
from kafkalog.reader import RecordReader, plan_ranges
from kafkalog.schema import DEFAULT_COLUMNS, RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog.typing import Paths

# Of a file, on the usual file systems.
_LONGEST_NAME = 255
EPILOG = """\
OUT is one file if it ends in .parquet, .arrow, .jsonl, .csv, .jsonl.gz or .csv.gz, and otherwise a folder with one file
per partition. A file appears under its name when it is complete; in a folder, a partition that cannot be read has no
file, and the exit code is 1. A folder that --spark writes holds files of several partitions, and appears when all are
complete. In JSON lines and CSV keys and values are base64; with --text they are text, and bytes that are not UTF-8 are
null there and base64 in a field or column of their own: "value":null,"valueBase64":"/w=="."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "paths", metavar="PATH", type=_common.place, nargs="+", help="log dirs, folders of partitions, or files of them"
    )
    parser.add_argument("out", metavar="OUT", type=_common.output, help="a folder, or one file")
    parser.add_argument("--format", choices=list(SUFFIXES), help="default: from the ending of OUT, or parquet")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    parser.add_argument("--text", action="store_true", help="keys and values as text in jsonl and csv")
    _common.add_topics(parser)
    parser.add_argument("--topic-pattern", metavar="REGEX", help="topics whose whole name matches")
    _common.add_partitions(parser)
    parser.add_argument(
        "--columns", type=_names, help="names, separated by commas; default: those of Spark's Kafka source, and headers"
    )
    _common.add_times(parser)
    _common.add_latest_per_key(parser)
    _common.add_isolation_level(parser)
    _common.add_on_corrupt(parser)
    parser.add_argument("--include-control", action="store_true", help="export control records too")
    parser.add_argument(
        "--threads",
        type=_common.number(1, MAX_THREADS),
        help="number of threads that decode; default: one per processor",
    )
    parser.add_argument("--spark", metavar="MASTER", help="export on Spark, for instance 'local[*]'")


def run(arguments: argparse.Namespace) -> int:
    """Export, and report on stderr what was written."""
    # On Spark, executors read what is given, and not the driver's temporary files.
    if arguments.spark is not None or len(arguments.paths) > 1:
        return _run(arguments, arguments.paths, None)
    with staged(arguments.paths[0], arguments.topic, arguments.partition) as path:
        return _run(arguments, path, path if isinstance(path, Loose) else None)


def _run(arguments: argparse.Namespace, path: Paths, outside: Loose | None) -> int:
    out = Path(arguments.out)
    named = format_of(out)
    form = arguments.format or (named.form if named else "parquet")
    if named and named.compressed and form not in TEXT_FORMATS:
        raise ValueError(f"{out}: {form} files are compressed inside; leave .gz out")
    if arguments.spark is not None:
        if named and named.compressed:
            raise ValueError(f"{out}: only local exports write .gz files; on Spark, name a folder")
        _check_for_spark(arguments)
    options = ReadOptions(
        topics=arguments.topic,
        topic_pattern=arguments.topic_pattern,
        partitions=arguments.partition,
        starting_timestamp=arguments.start,
        ending_timestamp=arguments.end,
        isolation_level=arguments.isolation_level,
        columns=arguments.columns or DEFAULT_COLUMNS,
        include_control=arguments.include_control,
        latest_per_key=arguments.latest_per_key,
        threads=arguments.threads,
        on_corrupt=arguments.on_corrupt,
    )
    # In a folder, a partition that cannot be read has no file; a single file would look whole without it.
    is_single = named is not None or arguments.spark is not None
    ranges, errors = (plan_ranges(path, options), []) if is_single else _common.planned(path, options)
    if outside is not None:
        ranges = outside.named(ranges)
    for error in errors:
        _common.report(error, "; no file is written for this partition")
    if not ranges and not errors and arguments.topic_pattern is not None:
        raise UnknownTopicOrPartitionError(
            f"no topic in {', '.join(arguments.paths)} matches {arguments.topic_pattern!r}"
        )
    # A file outside a log dir may lie beside the output, but is not replaced.
    is_beside = outside is not None and not (out.exists() and out.samefile(str(outside)))
    _core.check_output(str(out), [] if is_beside else arguments.paths)
    # Spark plans again; an error in the selection is the same with and without it.
    if arguments.spark is not None:
        return _on_spark(arguments, form)
    files = Files(
        form, overwrite=arguments.overwrite, text=arguments.text, compressed=named is not None and named.compressed
    )
    progress = Progress(sum(each.bytes for each in ranges))
    for left in unfinished(out.parent if named else out):
        _common.warn(f"{left}: unfinished file of an export that was killed or still runs")
    lost: list[dict[str, Any]] = []
    with interruptible():
        written = _write(
            files,
            progress,
            _targets(out, ranges, SUFFIXES[form], single=named is not None),
            options,
            outside,
            lost=lost,
            errors=errors,
        )
    progress.end()
    print(f"kafkalog: {written} records in {files.count} {form} file(s) in {arguments.out}", file=sys.stderr)
    return max(_common.print_lost(lost), _common.DAMAGED if errors else 0)


def _write(
    files: Files,
    progress: Progress,
    targets: Iterable[tuple[Path, list[_core.PartitionRange]]],
    options: ReadOptions,
    outside: Loose | None,
    *,
    lost: list[dict[str, Any]],
    errors: list[KafkaLogError | OSError],
) -> int:
    """Write each file, and collect what was skipped and why files were not written; return the number of records."""
    written = 0
    all_targets = list(targets)
    for target, some in all_targets:
        reader = RecordReader(_core.scan_ranges(some, **decode_arguments(options)), outside)
        with reader:
            try:
                written += files.write(target, reader.schema, progress.watched(reader))
            except KafkaLogError as error:
                if len(all_targets) + len(errors) == 1:
                    raise
                _common.report(error, f"; {target} is not written")
                errors.append(error)
        progress.finished(reader)
        lost += reader.lost.to_pylist()
    return written


def _targets(
    out: Path, ranges: list[_core.PartitionRange], suffix: str, *, single: bool
) -> Iterator[tuple[Path, list[_core.PartitionRange]]]:
    """Yield each file with its ranges."""
    if single:
        yield out, ranges
        return
    by_name: dict[str, list[_core.PartitionRange]] = {}
    for each in ranges:
        # A segment outside a log dir may have no known topic or partition.
        name = (each.topic or "segment") + (f"-{each.partition}" if each.partition >= 0 else "") + suffix
        if len(name) > _LONGEST_NAME:
            # Topics have up to 249 characters.
            digest = hashlib.sha256(each.topic.encode()).hexdigest()[:16]
            name = f"{each.topic[:200]}~{digest}-{each.partition}{suffix}"
        by_name.setdefault(name, []).append(each)
    out.mkdir(parents=True, exist_ok=True)
    for name, some in by_name.items():
        yield out / name, some


def _check_for_spark(arguments: argparse.Namespace) -> None:
    if arguments.overwrite:
        raise ValueError("--overwrite is for local exports; on Spark, name a folder that does not exist yet")
    if arguments.text:
        raise ValueError("--text is for local exports; on Spark keys and values are base64 in jsonl and csv")
    if arguments.partition and not arguments.topic:
        raise ValueError("on Spark, --partition needs --topic")


def _on_spark(arguments: argparse.Namespace, form: str) -> int:
    from kafkalog.spark import export

    partitions = arguments.partition
    selection: dict[str, Any] = {
        "columns": arguments.columns,
        "startingTimestamp": arguments.start,
        "endingTimestamp": arguments.end,
        "includeControl": arguments.include_control or None,
        "latestPerKey": arguments.latest_per_key or None,
        "kafka.isolation.level": arguments.isolation_level,
        "onCorrupt": arguments.on_corrupt,
        # Match the whole name, as in a local export; Spark's pattern matches any part of it.
        "subscribePattern": f"^(?:{arguments.topic_pattern})$" if arguments.topic_pattern else None,
    }
    if arguments.topic and partitions:
        selection["assign"] = dict.fromkeys(arguments.topic, partitions)
    elif arguments.topic:
        selection["subscribe"] = arguments.topic
    given = {name: value for name, value in selection.items() if value is not None}
    with interruptible():
        done = export(arguments.spark, list(arguments.paths), arguments.out, form, **given)
    print(f"kafkalog: {done['rows']} records in {done['files']} {form} file(s) in {arguments.out}", file=sys.stderr)
    if ranges := done["metrics"].get("lost", 0):
        skipped = done["metrics"]["bytes_lost"]
        print(f"kafkalog: {ranges} ranges with {skipped} bytes were skipped; the tasks log which", file=sys.stderr)
    return _common.DAMAGED if ranges else 0


def _names(text: str) -> list[str]:
    try:
        found = _arguments.column_names(
            [name.strip() for name in text.split(",") if name.strip()], [column.name for column in RECORD_COLUMNS]
        )
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return list(found or ())
