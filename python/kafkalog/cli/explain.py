"""``kafkalog explain``: what can be freed, how and when; then why each segment is still here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog._times import format_time
from kafkalog.cli import _common

if TYPE_CHECKING:
    import argparse


EPILOG = """\
Prints the disk usage by kind, as du -b and du -B1 count it, what can be freed of it and how; then the topics, and when
more of their .log files will be deleted; then advice about records and settings that retain segments; then every
segment. --config shows the effect of other settings. Nothing is written, and a broker may be running.

examples:
  kafkalog explain /data/kafka-logs
  kafkalog explain /data/kafka-logs --config retention.ms=86400000
  kafkalog explain /data/kafka-logs/orders-0 --now 2026-12-01T00:00:00Z -J"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _common.add_path(parser)
    _common.add_now(parser, "the time to assume")
    _common.add_config(parser)
    parser.add_argument("--disk", action="store_true", help="print only the disk usage; with -J an object per kind")
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per segment, nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    from kafkalog import tools

    table = tools.explain(arguments.path, arguments.now, config=arguments.config, on_corrupt="skip")
    rows = _common.rows_of(table)
    code = _common.print_partial(table)
    if arguments.json and not arguments.disk:
        for row in rows:
            _common.json_line(row)
        return code
    kinds = _common.rows_of(tools.disk_usage(arguments.path))
    for kind in kinds:
        if kind["kind"] == "log":
            kind["bytesFreeable"] = sum(row["bytesFreeable"] for row in rows)
        if kind["kind"] == "unreadable":
            _common.warn(f"{kind['files']} folder(s) below {arguments.path} cannot be listed")
            code = _common.DAMAGED
    if arguments.json:
        for kind in kinds:
            _common.json_line(kind)
        return code
    _print_kinds(arguments.path, kinds)
    if not arguments.disk:
        print()
        _print_topics(rows)
        _print_segments(rows)
    return code


def _print_kinds(path: str, kinds: list[dict[str, Any]]) -> None:
    """Print what ``du`` counts."""
    names = ("files", "bytes", "allocatedBytes", "bytesFreeable")
    files, size, allocated, free = (sum(kind[name] for kind in kinds) for name in names)
    _common.say(f"{path}: {size} bytes, {allocated} allocated; {free} bytes can be freed now")
    print()
    head = ["KIND", "FILES", "BYTES", "ALLOCATED", "FREE NOW", "BY", "HOW"]
    lines = [[kind["kind"], *(kind[name] for name in names), kind["removedBy"], kind["advice"]] for kind in kinds]
    lines.append(["total", files, size, allocated, free, "", ""])
    _common.table(head, lines, right=head[1:5])


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


def _print_topics(rows: list[dict[str, Any]]) -> None:
    from kafkalog.tools.advice import advice

    topics: dict[str, _Topic] = {}
    for row in rows:
        topics.setdefault(row["topic"], _Topic()).add(row)
    head = ["TOPIC", "BYTES", "FREE NOW", "NEXT", "AT", "REST BY", "KEPT", "TO COMPACT", "SETTINGS"]
    lines = []
    for name, topic in sorted(topics.items(), key=lambda item: (-item[1].free, -item[1].size, item[0])):
        times = sorted(topic.waiting)
        first, last = (times[0], times[-1]) if times else (None, None)
        following = topic.waiting[times[0]] if times else None
        when, rest = format_time(first), format_time(last)
        source = ", ".join(sorted(topic.sources))
        lines.append([name, topic.size, topic.free, following, when, rest, topic.kept, topic.cleanable, source])
    _common.table(head, lines, right=("BYTES", "FREE NOW", "NEXT", "KEPT", "TO COMPACT"))
    told = list(dict.fromkeys(advice(rows)))
    if any(topic.free for topic in topics.values()):
        print("\nfreed now: at the broker's next check, or by kafkalog retain into a new log dir")
    elif told:
        print()
    for line in told:
        print(line)


def _print_segments(rows: list[dict[str, Any]]) -> None:
    print()
    _common.print_rows(_SEGMENTS, rows, ("SEGMENT", "BYTES"), as_json=False)


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
