"""``kafkalog explain``: what can be freed, how and when; then why each segment is still here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalog import _core, _places
from kafkalog._times import format_time
from kafkalog.cli import _common, _printing
from kafkalog.cli._selection import chosen, sources

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from kafkalog.cli._selection import Chosen, Source
    from kafkalog.log import PartitionFolder

_SUMS = ("files", "bytes", "allocatedBytes", "bytesFreeable")

EPILOG = """\
Prints the disk usage by kind, as du -b and du -B1 count it, what can be freed of it and how; then the topics, and when
more of their .log files will be deleted; then advice about records and settings that retain segments; then every
segment. --config shows the effect of other settings. Nothing is written, and a broker may be running.

examples:
  kafkalog explain /data/kafka-logs
  kafkalog explain /data/kafka-logs --config retention.ms=86400000
  kafkalog explain /data/kafka-logs -t orders -p 0 --now 2026-12-01T00:00:00Z -J"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_log_dirs(parser)
    _common.add_topics(parser)
    _common.add_partitions(parser)
    _common.add_now(parser, "the time to assume")
    _common.add_config(parser)
    _common.add_human_readable(parser)
    parser.add_argument("--disk", action="store_true", help="print only the disk usage; with -J an object per kind")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per segment, nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation of each path; one that cannot be read is reported, and the others are explained."""
    code = 0
    with sources(arguments.path) as found:
        listed = None
        if arguments.topic or arguments.partition:
            listed = chosen(found, arguments.topic, arguments.partition)
            code = listed.code
        wanted = {listed.places[each.path] for each in listed.folders} if listed is not None else None
        some = [source for source in found if wanted is None or source.given in wanted]
        for number, source in enumerate(some):
            with _common.others_continue(several=len(found) > 1) as failed:
                shown = {"is_next": number > 0, "several": len(found) > 1}
                code = max(code, _explain(source, arguments, listed, **shown))
            code = max(code, *failed)
    return code


def _explain(
    source: Source, arguments: argparse.Namespace, listed: Chosen | None, *, is_next: bool, several: bool
) -> int:
    from kafkalog import tools

    if source.loose is not None and source.loose.is_segment:
        raise ValueError(
            f"{source.given}: what keeps a segment depends on those around it; name it in the folder of its partition, "
            f"or sum it up with kafkalog stats"
        )
    table = tools.explain(source.path, arguments.now, config=arguments.config, on_corrupt="skip")
    rows = [row for row in _printing.rows_of(table) if source.segment in {None, row["segment"]}]
    folders = None
    if listed is not None:
        folders = [each for each in listed.folders if listed.places[each.path] == source.given]
        wanted = {(each.topic, each.partition) for each in folders}
        rows = [row for row in rows if (row["topic"], row["partition"]) in wanted]
    code = _common.print_partial(table)
    names: dict[str, Any] = {"path": source.given} if several else {}
    if arguments.json and not arguments.disk:
        for row in rows:
            _printing.json_line({**names, **row})
        return code
    kinds = _kinds(source, rows, folders)
    code = max(code, _common.DAMAGED if any(kind["kind"] == "unreadable" for kind in kinds) else 0)
    if arguments.json:
        for kind in kinds:
            _printing.json_line({**names, **kind})
        return code
    sized = _common.sized(human=arguments.human_readable)
    if is_next:
        print()
    _print_kinds(source.given, kinds, sized)
    if not arguments.disk:
        print()
        _print_topics(rows, sized)
        _print_segments(rows, sized)
    return code


def _kinds(source: Source, rows: list[dict[str, Any]], folders: list[PartitionFolder] | None) -> list[dict[str, Any]]:
    """Return the disk usage, of these folders or of all, with what can be freed of logs."""
    from kafkalog import tools

    if source.segment is not None:
        kinds = _only(source, rows)
    elif folders is None:
        kinds = _printing.rows_of(tools.disk_usage(source.path))
    else:
        kinds = _summed(row for folder in folders for row in _printing.rows_of(tools.disk_usage(folder.path)))
    for kind in kinds:
        if kind["kind"] == "log":
            kind["bytesFreeable"] = sum(row["bytesFreeable"] for row in rows)
        if kind["kind"] == "unreadable":
            _printing.warn(f"{kind['files']} folder(s) below {source.given} cannot be listed")
    return kinds


def _summed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each kind."""
    kinds: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        kind = kinds.setdefault((row["kind"], row["advice"]), {**row, **dict.fromkeys(_SUMS, 0)})
        kind.update({name: kind[name] + row[name] for name in _SUMS})
    return list(kinds.values())


def _only(source: Source, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the disk usage of one segment's file."""
    path = _places.at(source.given)
    if _core.is_mounted(path):
        stamp = _places.stamp(path)
        size = allocated = 0 if stamp is None else stamp.size
    else:
        about = Path(path).stat()
        size, allocated = about.st_size, about.st_blocks * 512
    usage = {"kind": "log", "files": 1, "bytes": size, "allocatedBytes": allocated}
    advice = "see below" if rows else "not a segment of the log"
    return [{**usage, "bytesFreeable": 0, "removedBy": "broker", "advice": advice}]


def _print_kinds(path: str, kinds: list[dict[str, Any]], sized: Callable[[int], Any]) -> None:
    """Print what ``du`` counts."""
    files, *sums = (sum(kind[name] for kind in kinds) for name in _SUMS)
    size, allocated, free = map(sized, sums)
    unit = " bytes" if isinstance(size, int) else ""
    _printing.say(f"{path}: {size}{unit}, {allocated} allocated; {free}{unit} can be freed now")
    print()
    head = ["KIND", "FILES", "BYTES", "ALLOCATED", "FREE NOW", "BY", "HOW"]
    lines = [
        [kind["kind"], kind["files"], *(sized(kind[name]) for name in _SUMS[1:]), kind["removedBy"], kind["advice"]]
        for kind in kinds
    ]
    lines.append(["total", files, size, allocated, free, "", ""])
    _printing.table(head, lines, right=head[1:5])


@dataclass
class _Topic:
    """Summary of a topic on the first page."""

    size: int = 0
    free: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    kept: int = 0
    cleanable: int = 0
    sources: set[str] = field(default_factory=set)

    def add(self, row: dict[str, Any]) -> None:
        size = row["size"]
        self.size += size
        self.free += row["bytesFreeable"]
        self.sources.add(row["configSource"])
        self.cleanable += size if row["compaction"] == "dirty" else 0
        if row["retention"] == "waiting":
            self.waiting[row["retentionTime"]] = self.waiting.get(row["retentionTime"], 0) + size
        elif row["retention"] == "kept":
            self.kept += size


def _print_topics(rows: list[dict[str, Any]], sized: Callable[[int], Any]) -> None:
    from kafkalog.tools.advice import advice

    topics: dict[str, _Topic] = {}
    for row in rows:
        topics.setdefault(row["topic"], _Topic()).add(row)
    head = ["TOPIC", "BYTES", "FREE NOW", "NEXT", "AT", "REST BY", "KEPT", "TO COMPACT", "SETTINGS"]
    lines = []
    for name, topic in sorted(topics.items(), key=lambda item: (-item[1].free, -item[1].size, item[0])):
        times = sorted(topic.waiting)
        first, last = (times[0], times[-1]) if times else (None, None)
        following = sized(topic.waiting[times[0]]) if times else None
        when, rest = format_time(first), format_time(last)
        source = ", ".join(sorted(topic.sources))
        size, free, kept, cleanable = map(sized, (topic.size, topic.free, topic.kept, topic.cleanable))
        lines.append([name, size, free, following, when, rest, kept, cleanable, source])
    _printing.table(head, lines, right=("BYTES", "FREE NOW", "NEXT", "KEPT", "TO COMPACT"))
    told = list(dict.fromkeys(advice(rows)))
    if any(topic.free for topic in topics.values()):
        print("\nfreed now: at the broker's next check, or by kafkalog retain into a new log dir")
    elif told:
        print()
    for line in told:
        print(line)


def _print_segments(rows: list[dict[str, Any]], sized: Callable[[int], Any]) -> None:
    print()
    columns = {**_SEGMENTS, "BYTES": lambda row: sized(row["size"])}
    _printing.print_rows(columns, rows, ("SEGMENT", "BYTES"), as_json=False)


def _noted(text: Any, note: str | None) -> Any:
    return f"{text} ({note})" if note else text


_SEGMENTS: dict[str, Any] = {
    "PARTITION": lambda row: f"{row['topic']}-{row['partition']}",
    "SEGMENT": "baseOffset",
    "BYTES": "size",
    "LARGEST TIMESTAMP": lambda row: _noted(
        format_time(row["largestTimestamp"]), row["timestampSource"].replace("index", "")
    ),
    "RETENTION": "retention",
    "BY": "retentionRule",
    "AT": lambda row: format_time(row["retentionTime"]),
    "HELD BY": lambda row: _noted(
        row["heldBy"], None if row["pinOffset"] is None else f"offset {row['pinOffset']}, {row['pinReason']}"
    ),
    "COMPACTION": lambda row: _noted(row["compaction"], row["compactionHeldBy"]),
    "ROLLED": lambda row: "active" if row["isActive"] else row["rolledBy"],
}
