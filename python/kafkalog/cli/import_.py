"""``kafkalog import``: files and other logs into a log dir that a broker mounts."""

from __future__ import annotations

import argparse
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog.cli import _common
from kafkalog.cli._sources import FORMATS, batches
from kafkalog.cli.export import Progress
from kafkalog.errors import InvalidRecordError, KafkaLogError
from kafkalog.log import PartitionLog
from kafkalog.writer import AppendInfo, LogWriter, as_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

_EPILOG = """\
SOURCE is a file (.parquet, .arrow, .jsonl), a folder of such files, a partition's folder or a log dir. Files are
appended in the order in which they are named; what names no topic with -t is named by its file, as export names files:
orders-0.parquet. Columns are key, value, headers and timestamp; what else an export holds is left out. In JSON lines
keys and values are base64, or with --text what export --text wrote. Logs are copied batch by batch, offsets kept.
What was appended before an error or an interruption stays; the same command with --resume goes on behind it.

examples:
  kafkalog import orders.parquet /data/kafka-logs -t orders --config compression.type=zstd
  kafkalog import events.jsonl /data/kafka-logs -t events --text
  kafkalog import /backup/kafka-logs /data/kafka-logs -t orders
  kafkalog import /backup/kafka-logs/orders-0 /data/kafka-logs -t restored -p 0"""
_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("sources", metavar="SOURCE", nargs="+", help="files, folders of files, or logs")
    parser.add_argument("out", metavar="LOG_DIR", help="the log dir to write; created when it is not there")
    parser.add_argument("-t", "--topic", help="the topic to write; of a log dir, the one to read")
    parser.add_argument("-p", "--partition", type=int, help="its partition; default 0, or as the source says")
    parser.add_argument("--format", choices=("parquet", "arrow", "jsonl"), help="default: as the file's name ends")
    parser.add_argument("--text", action="store_true", help="keys and values of JSON lines are text")
    parser.add_argument(
        "--keep-offsets",
        action="store_true",
        help="the column offset says each record's offset; as a follower does, without a look at clock, size and keys",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with an import that ended early: what the partition holds is taken for the first records, which are"
        " left out (with --keep-offsets, and of logs: those of lower offsets)",
    )
    parser.add_argument("--ignore-extra", action="store_true", help="columns that are no record's are left out")
    _common.add_config(parser)
    parser.add_argument("--topic-id", metavar="ID", help="the topic's id, as the cluster knows it")
    parser.add_argument("--cluster-id", metavar="ID", help="for meta.properties of a new log dir")
    parser.add_argument("--node-id", metavar="N", type=int, help="the same")
    parser.add_argument(
        "--sync",
        choices=("config", "never", "append"),
        default="config",
        help="when data goes to the disk; default config: as flush.messages and flush.ms say, and at the end",
    )


@dataclass(frozen=True)
class _Source:
    """One file or log, and the partition it goes to."""

    path: Path
    form: str
    topic: str
    partition: int
    size: int


def run(arguments: argparse.Namespace) -> int:
    """Import, and say what was written on stderr."""
    found = [each for source in arguments.sources for each in _sources(Path(source), arguments)]
    out = Path(arguments.out).resolve()
    for source in found:
        if source.path.resolve().parent == out:
            raise ValueError(f"{source.path} lies in {arguments.out}, which is to be written")
    config = _common.config(arguments)
    progress = Progress(sum(source.size for source in found))
    done, before = AppendInfo(), 0
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
            there = writer.log_end_offset
            behind = _Behind(there if arguments.resume else 0, keep_offsets=arguments.keep_offsets)
            try:
                for source in some:
                    progress.begin(before)
                    rows = first if source is some[0] else _rows(source, arguments)
                    done = done.followed_by(_appended(writer, source, rows, behind, progress))
                    before += source.size
            except (KafkaLogError, OSError, KeyboardInterrupt) as error:
                # A file that stands alone can be taken again; what was appended of it must not.
                if writer.log_end_offset > (0 if some[0].form == "log" or arguments.keep_offsets else there):
                    _tell(error, f"{writer.path} ends at offset {writer.log_end_offset}; --resume goes on there")
                raise
            if behind.left:
                raise ValueError(f"{writer.path} holds {behind.left} records more than what is imported: no --resume")
    progress.end()
    print(
        f"kafkalog: {done.records} records in {done.batches} batches, {len(targets)} partition(s) in {arguments.out}",
        file=sys.stderr,
    )
    return 0


def _rows(source: _Source, arguments: argparse.Namespace) -> Iterator[tuple[Any, int]]:
    """Give the rows of a file, and how much of it is read by then; none of a log."""
    if source.form == "log":
        return iter(())
    return batches(source.path, source.form, text=arguments.text, keep_offsets=arguments.keep_offsets)


def _begun(source: _Source, arguments: argparse.Namespace) -> Iterator[tuple[Any, int]]:
    """Give its rows, the first looked at: what is no source is found before anything is created for it.

    It is read once: it may be a pipe.
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
    """Say whose columns are wrong: the file's."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{source.path}: {error}".replace('extra="ignore"', "--ignore-extra")) from error


class _Behind:
    """What of the rows is in the log already, for --resume: so many of the first, or those of lower offsets."""

    def __init__(self, end: int, *, keep_offsets: bool) -> None:
        self.end = end
        self.left = 0 if keep_offsets else end
        self.keep_offsets = keep_offsets

    def rows(self, rows: Any) -> Any:
        """Leave out what is there, of Arrow rows or of a list of records."""
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
    behind: _Behind,
    progress: Progress,
) -> AppendInfo:
    if source.form == "log":
        behind.left = 0
        log = PartitionLog(source.path)
        if behind.end >= log.log_end_offset > 0:
            return AppendInfo()
        return writer.append_batches(log.batches(starting_offsets=behind.end) if behind.end else source.path)

    def rows() -> Iterator[Any]:
        for some, read in given:
            wanted = behind.rows(some)
            if isinstance(wanted, list):
                yield from wanted
            elif len(wanted) or not len(some):
                yield wanted
            progress.show_read(read)

    left_out = behind.left
    try:
        with _naming(source):
            return writer.append(rows(), keep_offsets=behind.keep_offsets)
    except InvalidRecordError as error:
        if error.path == str(source.path):
            raise
        counted = f", counted behind the {left_out} left out" if left_out else ""
        raise InvalidRecordError(f"{source.path}: {error}{counted}", error.path) from error


def _tell(error: BaseException, more: str) -> None:
    """Say also how to go on: records that are appended twice are there twice."""
    if isinstance(error, OSError) and error.strerror:
        error.strerror = f"{error.strerror}; {more}"
    elif isinstance(error, KafkaLogError):
        error.args = (f"{error}; {more}",)
    elif isinstance(error, KeyboardInterrupt):
        print(f"kafkalog: interrupted; {more}", file=sys.stderr)


def _sources(path: Path, arguments: argparse.Namespace) -> list[_Source]:
    if not path.is_dir():
        return [_file(path, arguments)]
    if _common.is_partition(str(path)):
        log = PartitionLog(path)
        topic = arguments.topic or log.topic
        partition = log.partition if arguments.partition is None else arguments.partition
        return [_Source(path, "log", topic, partition, _log_size(log))]
    files = [file for file in sorted(path.iterdir()) if file.is_file() and file.suffix in FORMATS]
    if files:
        return [_file(file, arguments) for file in files]
    return _log_dir(path, arguments)


def _log_dir(path: Path, arguments: argparse.Namespace) -> list[_Source]:
    found = []
    for folder in _common.folders(str(path), live=True):
        chosen = folder.topic == arguments.topic if arguments.topic else not folder.topic.startswith("__")
        if not chosen:
            continue
        if arguments.partition is None or folder.partition == arguments.partition:
            log = PartitionLog(folder.path)
            found.append(_Source(Path(folder.path), "log", folder.topic, folder.partition, _log_size(log)))
    if not found:
        named = f" of topic {arguments.topic!r}" if arguments.topic else ""
        raise ValueError(f"{path}: neither files to import nor partitions{named}")
    return found


def _file(path: Path, arguments: argparse.Namespace) -> _Source:
    size = path.stat().st_size
    form = arguments.format or FORMATS.get(path.suffix)
    if form is None:
        raise ValueError(f"{path}: no format by this name; say which with --format")
    if arguments.topic:
        return _Source(path, form, arguments.topic, arguments.partition or 0, size)
    match = _NAME.fullmatch(path.stem)
    if match is None:
        raise ValueError(f"{path}: names no topic and partition; say which with -t")
    partition = int(match["partition"]) if arguments.partition is None else arguments.partition
    return _Source(path, form, match["topic"], partition, size)


def _log_size(log: PartitionLog) -> int:
    return sum(segment.size for segment in log.segments)
