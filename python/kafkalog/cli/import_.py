"""``kafkalog import``: writes files and other logs into a log dir that a broker can mount."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog.cli import _common
from kafkalog.cli._progress import Progress
from kafkalog.cli._sources import batches, format_of
from kafkalog.config import as_config
from kafkalog.errors import InvalidRecordError, KafkaLogError
from kafkalog.log import PartitionLog, PartitionOpener, partition_at
from kafkalog.tools.reports import known_to_brokers
from kafkalog.writer import AppendInfo, LogWriter, as_arrow

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

EPILOG = """\
SOURCE is a file (.parquet, .arrow, .jsonl, .jsonl.gz), a folder of such files, the folder of a partition, or a log dir.
Files are appended in the given order. Without -t, the name of a file gives topic and partition, as export names files:
orders-0.parquet. Columns are key, value, headers and timestamp; the other columns of an export are left out. In JSON
lines keys and values are base64, or with --text what export --text wrote; the output of `kafkalog cat -J` is accepted
as well. Logs are copied batch by batch with their offsets. Records that were appended before an error or an
interruption stay; the same command with --resume continues after them.

examples:
  kafkalog import orders.parquet /data/kafka-logs -t orders --config compression.type=zstd
  kafkalog import events.jsonl /data/kafka-logs -t events --text
  kafkalog import /backup/kafka-logs /data/kafka-logs -t orders
  kafkalog import /backup/kafka-logs/orders-0 /data/kafka-logs -t restored -p 0"""
_LIE = "timestamps seem to be in {}, and Kafka takes milliseconds: they lie {}"
_WRONG_UNIT = {
    "seconds": _LIE.format("seconds", "in January 1970, where retention deletes them at once"),
    "microseconds": _LIE.format("microseconds", "in the far future, where retention keeps them"),
    "nanoseconds": _LIE.format("nanoseconds", "in the far future, where retention keeps them"),
}
_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "sources", metavar="SOURCE", type=_common.place, nargs="+", help="files, folders of files, or logs"
    )
    parser.add_argument(
        "out", metavar="LOG_DIR", type=_common.output, help="the log dir to write; created if it does not exist"
    )
    parser.add_argument("-t", "--topic", help="the topic to write; if SOURCE is a log dir, the topic to read")
    parser.add_argument(
        "-p", "--partition", type=_common.number(), help="the partition to write; default: that of the source, or 0"
    )
    parser.add_argument(
        "--format", choices=("parquet", "arrow", "jsonl"), help="default: from the ending of the file's name"
    )
    parser.add_argument("--text", action="store_true", help="keys and values of JSON lines are text")
    parser.add_argument(
        "--keep-offsets",
        action="store_true",
        help="take the offset of each record from the column offset; as a follower does, this skips the checks of "
        "timestamp, size and key",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue an import that ended early: as many records as the partition has are skipped (with "
        "--keep-offsets, and for logs: those with lower offsets)",
    )
    parser.add_argument("--ignore-extra", action="store_true", help="leave out columns that do not belong to a record")
    _common.add_config(parser)
    parser.add_argument("--topic-id", metavar="ID", help="the topic's id in the cluster")
    parser.add_argument("--cluster-id", metavar="ID", help="cluster.id for the meta.properties of a new log dir")
    parser.add_argument(
        "--node-id", metavar="N", type=_common.number(), help="node.id for the meta.properties of a new log dir"
    )
    parser.add_argument(
        "--sync",
        choices=("config", "never", "append"),
        default="config",
        help="when data is flushed to disk; default config: as flush.messages and flush.ms say, and at the end",
    )


@dataclass(frozen=True)
class _Source:
    """One file or log, and the partition that it is written to."""

    path: Path
    form: str
    topic: str
    partition: int
    size: int


def run(arguments: argparse.Namespace) -> int:
    """Import, and report on stderr what was written."""
    found = [each for source in arguments.sources for each in _sources(Path(_arguments.local(source)), arguments)]
    out = Path(arguments.out).resolve()
    for source in found:
        if source.path.resolve().parent == out:
            raise ValueError(f"{source.path} is inside {arguments.out}, which is written; choose another log dir")
    config = as_config(arguments.config)
    progress = Progress(sum(source.size for source in found))
    done, before = AppendInfo(), 0
    producer_ids: list[int] = []
    notes: list[str] = []
    leader_epochs: list[int] = []
    targets: dict[tuple[str, int], list[_Source]] = {}
    for source in found:
        targets.setdefault((source.topic, source.partition), []).append(source)
    for (topic, partition), some in targets.items():
        first = _begun(some[0], arguments)
        with LogWriter(
            arguments.out,
            topic,
            partition,
            config=config,
            topic_id=arguments.topic_id,
            cluster_id=arguments.cluster_id,
            node_id=arguments.node_id,
            sync=arguments.sync,
            extra="ignore" if arguments.ignore_extra else "raise",
        ) as writer:
            before_import = writer.log_end_offset
            present = _Present(before_import if arguments.resume else 0, keep_offsets=arguments.keep_offsets)
            try:
                for source in some:
                    progress.begin(before)
                    rows = first if source is some[0] else _rows(source, arguments)
                    appended = _appended(writer, source, rows, present, progress)
                    notes += _about_unit(source, appended)
                    done = done.followed_by(appended)
                    before += source.size
            except (KafkaLogError, OSError, KeyboardInterrupt) as error:
                # A file can be imported again, but what was appended of it must not be appended twice.
                if writer.log_end_offset > (0 if some[0].form == "log" or arguments.keep_offsets else before_import):
                    _add_hint(error, f"{writer.path} ends at offset {writer.log_end_offset}; --resume continues there")
                raise
            if present.left:
                more = f"{writer.path} has {present.left} records more than the sources"
                raise ValueError(f"{more}; --resume needs the sources of the import that ended")
            producer_ids += [] if writer.highest_producer_id is None else [writer.highest_producer_id]
            leader_epochs += [] if writer.latest_leader_epoch is None else [writer.latest_leader_epoch]
    progress.end()
    for note in notes:
        print(f"kafkalog: {note}", file=sys.stderr)
    print(
        f"kafkalog: {done.records} records in {done.batches} batches, {len(targets)} partition(s) in {arguments.out}"
        f"{known_to_brokers(max(producer_ids, default=None), max(leader_epochs, default=None))}",
        file=sys.stderr,
    )
    return 0


def _about_unit(source: _Source, appended: AppendInfo) -> list[str]:
    unit = appended.seeming_unit
    return [] if unit is None else [f"{source.path}: {_WRONG_UNIT[unit]}"]


def _rows(source: _Source, arguments: argparse.Namespace) -> Iterator[tuple[Any, int]]:
    """Yield the rows of a file with the number of bytes read so far; nothing for a log."""
    if source.form == "log":
        return iter(())
    return batches(source.path, source.form, text=arguments.text, keep_offsets=arguments.keep_offsets)


def _begun(source: _Source, arguments: argparse.Namespace) -> Iterator[tuple[Any, int]]:
    """Yield its rows after checking the first, so that nothing is created for a file that cannot be imported.

    The file is read once: it may be a pipe.
    """
    rows, keep = _rows(source, arguments), arguments.keep_offsets
    first = list(islice(rows, 1))
    for some, _ in first:
        with _naming(source):
            for each in as_arrow(some if isinstance(some, list) else [some], keep_offsets=keep):
                _core.check_columns(each, keep_offsets=keep, ignore_extra=arguments.ignore_extra)
    return chain(first, rows)


@contextmanager
def _naming(source: _Source) -> Iterator[None]:
    """Name the file in errors about its columns."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{source.path}: {error}".replace('extra="ignore"', "--ignore-extra")) from error


class _Present:
    """The rows that the log already has, for --resume: the first ones by number, or those with lower offsets."""

    def __init__(self, end: int, *, keep_offsets: bool) -> None:
        self.end = end
        self.left = 0 if keep_offsets else end
        self.keep_offsets = keep_offsets

    def rows(self, rows: Any) -> Any:
        """Leave them out, of Arrow rows or of a list of records."""
        if not self.keep_offsets:
            first = min(self.left, len(rows))
            self.left -= first
            return rows if first == 0 else rows[first:]
        if not self.end:
            return rows
        offsets = [row.offset for row in rows] if isinstance(rows, list) else rows.column("offset").to_pylist()
        new = (n for n, offset in enumerate(offsets) if not isinstance(offset, int) or offset >= self.end)
        return rows[next(new, len(offsets)) :]


def _appended(
    writer: LogWriter,
    source: _Source,
    given: Iterator[tuple[Any, int]],
    present: _Present,
    progress: Progress,
) -> AppendInfo:
    if source.form == "log":
        present.left = 0
        log = PartitionLog(source.path)
        if present.end >= log.log_end_offset > 0:
            return AppendInfo()
        return writer.append_batches(log.batches(starting_offsets=present.end) if present.end else source.path)

    def rows() -> Iterator[Any]:
        for some, read in given:
            wanted = present.rows(some)
            if isinstance(wanted, list):
                yield from wanted
            elif len(wanted) or not len(some):
                yield wanted
            progress.show_read(read)

    left_out = present.left
    try:
        with _naming(source):
            return writer.append(rows(), keep_offsets=present.keep_offsets)
    except InvalidRecordError as error:
        if error.path == str(source.path):
            raise
        counted = f", counted after the {left_out} skipped rows" if left_out else ""
        raise InvalidRecordError(f"{source.path}: {error}{counted}", error.path) from error


def _add_hint(error: BaseException, more: str) -> None:
    """Add how to continue: records that are appended twice would be duplicated."""
    if isinstance(error, OSError) and error.strerror:
        error.strerror = f"{error.strerror}; {more}"
    elif isinstance(error, KafkaLogError):
        error.args = (f"{error}; {more}",)
    elif isinstance(error, KeyboardInterrupt):
        print(f"kafkalog: interrupted; {more}", file=sys.stderr)


def _sources(path: Path, arguments: argparse.Namespace) -> list[_Source]:
    if not path.is_dir():
        return [_file(path, arguments)]
    if (log := partition_at(path)) is not None:
        topic = arguments.topic or log.topic
        partition = log.partition if arguments.partition is None else arguments.partition
        return [_Source(path, "log", topic, partition, _log_size(log))]
    files = [file for file in sorted(path.iterdir()) if file.is_file() and format_of(file)[0] is not None]
    if files:
        return [_file(file, arguments) for file in files]
    return _log_dir(path, arguments)


def _log_dir(path: Path, arguments: argparse.Namespace) -> list[_Source]:
    topics = None if arguments.topic is None else [arguments.topic]
    partitions = None if arguments.partition is None else [arguments.partition]
    found, opener = [], PartitionOpener()
    for folder in _common.selected(str(path), topics, partitions, live=True):
        if topics or not folder.topic.startswith("__"):
            log = opener.open(folder.path)
            found.append(_Source(Path(folder.path), "log", folder.topic, folder.partition, _log_size(log)))
    if not found:
        raise ValueError(f"{path}: contains neither files to import nor partitions")
    return found


def _file(path: Path, arguments: argparse.Namespace) -> _Source:
    size = path.stat().st_size
    found, stem = format_of(path)
    form = arguments.format or found
    if form is None:
        raise ValueError(f"{path}: the name does not show the format; give it with --format")
    if arguments.topic:
        return _Source(path, form, arguments.topic, arguments.partition or 0, size)
    match = _NAME.fullmatch(stem)
    if match is None:
        raise ValueError(f"{path}: the name does not show topic and partition; give them with -t and -p")
    partition = int(match["partition"]) if arguments.partition is None else arguments.partition
    return _Source(path, form, match["topic"], partition, size)


def _log_size(log: PartitionLog) -> int:
    return sum(segment.size for segment in log.segments)
