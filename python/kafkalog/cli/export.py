"""``kafkalog export``: writes directories as files."""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _core, _places
from kafkalog._arguments import MAX_THREADS
from kafkalog._export_files import (
    COMPRESSIONS,
    STANDARD_OUTPUT,
    SUFFIXES,
    TEXT_FORMATS,
    FileFormat,
    Files,
    format_of,
    interruptible,
    unfinished,
)
from kafkalog._export_targets import StoreTarget, target_of
from kafkalog._loose import Loose, staged
from kafkalog._typed_values import json_columns
from kafkalog.cli import _common, _printing, _tier
from kafkalog.cli._bounds import add_selection, of_keys, printed_keys, selection
from kafkalog.cli._decoding import Decodings, add_decoding, decoding_options
from kafkalog.cli._progress import Progress
from kafkalog.errors import KafkaLogError, UnknownTopicOrPartitionError
from kafkalog.options import ReadOptions, column_names, decode_arguments, whole_columns
from kafkalog.reader import RecordReader, plan_ranges
from kafkalog.schema import DEFAULT_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from kafkalog.typing import Paths

# Of a file, on the usual file systems.
_LONGEST_NAME = 255
EPILOG = """\
OUT is one file if it ends in .parquet, .arrow, .jsonl, .json, .ndjson (all three are JSON lines), .csv or .tsv, or in
one of the last five and .gz; - is standard output; otherwise it is a folder with one file per partition. A file appears
under its name when it is complete; in a folder, a partition that cannot be read has no file, and the exit code is 1.
OUT may be a URL of a store: each file is made in TMPDIR, and uploaded when it is complete; of two exports to one URL at
the same time the last to finish wins. A folder that --spark writes holds files of several partitions, and appears when
all are complete; in a store, the object _SUCCESS does. In JSON lines, CSV and
TSV keys and values are base64; with --text they are text, and bytes that are not UTF-8 are null there and base64 in a
field or column of their own: "value":null,"valueBase64":"/w==". With --decode, keys or values are nested columns in
Parquet and Arrow, objects in JSON lines, and JSON text in CSV and TSV; --columns takes fields of them: value.amount.

examples:
  kafkalog export /data/kafka-logs orders.parquet -t orders
  kafkalog export /data/kafka-logs - -t orders -c 10 --text
  kafkalog export /data/kafka-logs orders.parquet -t orders --decode value --columns offset,value"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "paths", metavar="PATH", type=_common.place, nargs="+", help="log dirs, folders of partitions, or files of them"
    )
    _common.add_broker(parser)
    _tier.add_remote(parser)
    help_ = "a folder, one file, a URL of either, or - for standard output (jsonl, csv, tsv, arrow)"
    parser.add_argument("out", metavar="OUT", type=_common.any_output, help=help_)
    help_ = "default: from the ending of OUT, or parquet; jsonl for -"
    _common.add_option(parser, "--format", other=["-f"], choices=list(SUFFIXES), help=help_)
    parser.add_argument("-J", "--json", dest="format", action="store_const", const="jsonl", help=argparse.SUPPRESS)
    parser.add_argument(
        "--compression",
        choices=sorted({codec for some in COMPRESSIONS.values() for codec in some}),
        help="default: zstd for parquet, none for the others; gzip for jsonl, csv and tsv",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    parser.add_argument("--text", action="store_true", help="keys and values as text in jsonl, csv and tsv")
    _common.add_topics(parser)
    parser.add_argument("--topic-pattern", metavar="REGEX", help="topics whose whole name matches")
    _common.add_partitions(parser)
    parser.add_argument(
        "--columns", type=_names, help="names, separated by commas; default: those of Spark's Kafka source, and headers"
    )
    add_selection(parser)
    add_decoding(parser)
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


def _run(arguments: argparse.Namespace, path: Paths, outside: Loose | None) -> int:  # noqa: C901 - checks, one by one
    out = target_of(arguments.out)
    named = format_of(out)
    is_printed = arguments.out == STANDARD_OUTPUT
    form = arguments.format or (named.form if named else "jsonl" if is_printed else "parquet")
    compression = _compression(arguments, form, named)
    if arguments.spark is not None:
        if named and named.compressed:
            raise ValueError(f"{out}: only local exports write .gz files; on Spark, name a folder")
        _check_for_spark(arguments)
    selected = selection(path, arguments, _common.report)
    if selected is None:
        raise ValueError("-o end selects no record; name an offset, -N or a time")
    columns = arguments.columns or list(DEFAULT_COLUMNS)
    more: dict[str, Any] = {
        "topic_pattern": arguments.topic_pattern,
        "columns": columns if not arguments.key or "key" in columns else [*columns, "key"],
        "include_control": arguments.include_control,
        "threads": arguments.threads,
    }
    options = ReadOptions(**selected, **more, **decoding_options(arguments))
    # In a folder, a partition that cannot be read has no file; a single file would look whole without it.
    is_single = named is not None or arguments.spark is not None or is_printed
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
    sources = getattr(arguments, "local_paths", arguments.paths)
    if isinstance(out, StoreTarget):
        out.check([*sources, *filter(None, [arguments.remote])])
    elif not is_printed:
        is_beside = outside is not None and not (out.exists() and out.samefile(str(outside)))
        _core.check_output(str(out), [] if is_beside else _places.on_disk(sources))
    # Spark plans again; an error in the selection is the same with and without it.
    if arguments.spark is not None:
        return _on_spark(arguments, form)
    files = Files(
        form,
        overwrite=arguments.overwrite,
        text=arguments.text,
        compression=compression,
        json=json_columns(options),
    )
    decodings = Decodings(ranges, path, options)
    progress = Progress(sum(each.bytes for each in ranges))
    for left in () if is_printed or isinstance(out, StoreTarget) else unfinished(out.parent if named else out):
        _printing.warn(f"{left}: unfinished file of an export that was killed or still runs")
    lost: list[dict[str, Any]] = []
    with interruptible():
        written = _write(
            files,
            progress,
            _targets(out, ranges, files.suffix, single=named is not None or is_printed),
            options,
            outside,
            decodings=decodings,
            part=_Part(columns, arguments.key, arguments.count, printed_keys(options)),
            lost=lost,
            errors=errors,
        )
    progress.end()
    if not is_printed:
        print(f"kafkalog: {written} records in {files.count} {form} file(s) in {arguments.out}", file=sys.stderr)
    return max(_common.print_lost(lost), _common.DAMAGED if errors else 0)


def _write(
    files: Files,
    progress: Progress,
    targets: Iterable[tuple[Path | StoreTarget, list[_core.PartitionRange]]],
    options: ReadOptions,
    outside: Loose | None,
    *,
    decodings: Decodings,
    part: _Part,
    lost: list[dict[str, Any]],
    errors: list[KafkaLogError | OSError],
) -> int:
    """Write each file, and collect what was skipped and why files were not written; return the number of records."""
    written = 0
    all_targets = list(targets)
    for target, some in all_targets:
        if part.left == 0 and files.count:
            break
        try:
            stream = _core.scan_ranges(some, decoding=decodings.of(some), **decode_arguments(options))
        except ValueError as error:
            # What cannot be decoded at all.
            if len(all_targets) + len(errors) == 1:
                raise
            refused = KafkaLogError(str(error))
            _common.report(refused, f"; {target} is not written")
            errors.append(refused)
            continue
        reader = RecordReader(stream, outside)
        with reader:
            try:
                schema, batches = part.of(reader, progress)
                if str(target) == STANDARD_OUTPUT:
                    written += files.print(schema, batches)
                else:
                    written += files.write(target, schema, batches)
            except KafkaLogError as error:
                if len(all_targets) + len(errors) == 1:
                    raise
                _common.report(error, f"; {target} is not written")
                errors.append(error)
        progress.finished(reader)
        lost += [each for each in reader.lost.to_pylist() if each not in lost]
    return written


def _targets(
    out: Path | StoreTarget, ranges: list[_core.PartitionRange], suffix: str, *, single: bool
) -> Iterator[tuple[Path | StoreTarget, list[_core.PartitionRange]]]:
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
    if isinstance(out, Path):
        out.mkdir(parents=True, exist_ok=True)
    for name, some in by_name.items():
        yield out / name, some


class _Part:
    """Selection among the records that are read: keys, columns, and a maximum number."""

    def __init__(
        self, columns: list[str], keys: list[str] | None, count: int | None, printed: _core.RecordText | None
    ) -> None:
        self._columns = whole_columns(columns) or []
        self._keys, self.left, self._printed = keys, count, printed

    def of(self, reader: RecordReader, progress: Progress) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema, and the batches."""
        import pyarrow as pa

        schema = pa.schema([reader.schema.field(name) for name in self._columns])
        return schema, self._batches(progress.watched(reader))

    def _batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if self.left == 0:
            return
        for batch in of_keys(batches, self._keys, printed=self._printed):
            some = batch if self._keys is None else batch.select(self._columns)
            if self.left is not None:
                some = some.slice(0, self.left)
                self.left -= some.num_rows
            yield some
            if self.left == 0:
                return


def _compression(arguments: argparse.Namespace, form: str, named: FileFormat | None) -> str | None:
    """Return what files are compressed with, as far as it is asked for; the name of a file must agree."""
    if named and named.compressed and form not in TEXT_FORMATS:
        raise ValueError(f"{arguments.out}: {form} files are compressed inside; leave .gz out")
    asked: str | None = arguments.compression
    if asked is not None and asked not in COMPRESSIONS[form]:
        raise ValueError(f"--compression {asked} is not for {form}; it takes {', '.join(COMPRESSIONS[form])}")
    if named is None or form not in TEXT_FORMATS:
        return asked
    by_name = "gzip" if named.compressed else "none"
    if asked not in {None, by_name}:
        fitting = f"{arguments.out}.gz" if asked == "gzip" else arguments.out.removesuffix(".gz")
        raise ValueError(f"--compression {asked} does not fit the name {arguments.out}; name it {fitting}")
    return by_name


def _check_for_spark(arguments: argparse.Namespace) -> None:
    for option, given in (("-o", arguments.offset), ("-c", arguments.count), ("-k", arguments.key)):
        if given is not None:
            raise ValueError(f"{option} is for local exports; leave out --spark, or select by --from and --until")
    if arguments.compression is not None:
        raise ValueError("--compression is for local exports; on Spark, spark.sql.parquet.compression.codec counts")
    if arguments.out == STANDARD_OUTPUT:
        raise ValueError("only local exports write to standard output; on Spark, name a folder")
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
        **_spark_decoding(arguments),
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
    paths = getattr(arguments, "local_paths", arguments.paths)
    if arguments.remote is not None:
        keyring = dict(arguments.remote_key) or None
        selection |= {"remote": arguments.remote, "remoteLayout": arguments.remote_layout, "keyring": keyring}
    given = {name: value for name, value in selection.items() if value is not None}
    with interruptible():
        done = export(arguments.spark, list(paths) or None, arguments.out, form, **given)
    print(f"kafkalog: {done['rows']} records in {done['files']} {form} file(s) in {arguments.out}", file=sys.stderr)
    if ranges := done["metrics"].get("lost", 0):
        skipped = done["metrics"]["bytes_lost"]
        print(f"kafkalog: {ranges} ranges with {skipped} bytes were skipped; the tasks log which", file=sys.stderr)
    return _common.DAMAGED if ranges else 0


def _spark_decoding(arguments: argparse.Namespace) -> dict[str, Any]:
    words = {"reader_schema": "readerSchema", "decode_as": "decodeAs", "on_undecoded": "onUndecoded"}
    return {words.get(name, name): value for name, value in decoding_options(arguments).items()}


def _names(text: str) -> list[str]:
    try:
        return list(column_names([name.strip() for name in text.split(",") if name.strip()]) or ())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
