"""``kafkalog explain``: what can be freed, how and when; then why each segment is still here."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog._times import format_time
from kafkalog.cli import _common

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

_EPILOG = """\
First what can be freed now, by topic, and when more goes; then what to do about records and settings that hold
segments; then every segment. Sizes are bytes of .log files. --config says what other settings would do. Nothing is
written, and a broker may be running.

examples:
  kafkalog explain /data/kafka-logs
  kafkalog explain /data/kafka-logs --config retention.ms=86400000
  kafkalog explain /data/kafka-logs/orders-0 --now 2026-12-01T00:00:00Z -J"""

# What keeps a segment that never goes by itself, and what would change that.
_ADVICE = {
    "unlimited": "neither retention.ms nor retention.bytes is set; set one of them",
    "size": "only retention.bytes is set, and not exceeded; lower it, or set retention.ms",
    "cleanup_policy": "cleanup.policy has no delete; add it, or raise the log start with kafka-delete-records",
    "high_watermark": "above the high watermark, not replicated; see to the other replicas",
    "tiered_storage": "tiered storage: goes after its upload",
}
_PINS = {
    "future_timestamp": "is in the future",
    "microseconds": "is in microseconds: correct the producer",
    "nanoseconds": "is in nanoseconds: correct the producer",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _common.add_path(parser)
    parser.add_argument("--now", metavar="TIME", type=_common.time, help="the time to assume; default: now")
    _common.add_config(parser)
    parser.add_argument("-J", "--json", action="store_true", help="one JSON object per segment, nothing else")


def run(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    from kafkalog import tools

    config = dict(arguments.config) if arguments.config else None
    table = tools.explain(arguments.path, arguments.now, config=config)
    _common.tell_notes(_common.notes_of(table))
    rows = _rows(table)
    if arguments.json:
        for row in rows:
            _common.json_line(row)
        return 0
    _print_summary(arguments.path, rows)
    _print_segments(rows)
    return 0


@dataclass
class _Topic:
    """What is said of a topic on the first page."""

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


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows with times in milliseconds: a datetime ends with the year 9999, microseconds do not."""
    import pyarrow as pa

    for n, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(n, column.name, table.column(n).cast(pa.int64()))
    return table.to_pylist()


def _print_summary(path: str, rows: list[dict[str, Any]]) -> None:
    topics: dict[str, _Topic] = {}
    for row in rows:
        topics.setdefault(row["topic"], _Topic()).add(row)
    total = _Topic()
    for row in rows:
        total.add(row)
    print(f"{path}: {total.size} bytes in {len(rows)} segment(s); {total.free} bytes can be freed now")
    print()
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
    advice = list(dict.fromkeys(_advice(rows)))
    if total.free:
        print("\nfreed now: at the broker's next check, or by kafkalog retain into a new log dir")
    elif advice:
        print()
    for line in advice:
        print(line)


def _advice(rows: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Say what holds bytes that do not go by themselves, and what would free them."""
    kept: dict[tuple[str, str], int] = {}
    for row in rows:
        partition = f"{row['topic']}-{row['partition']}"
        if row["pinReason"] in _PINS:
            yield (
                f"{partition}: the timestamp of offset {row['pinOffset']} ({format_time(row['pinTimestamp'])}) "
                f"{_PINS[row['pinReason']]}; until then raise the log start above it with kafka-delete-records, or set "
                "retention.bytes"
            )
        elif row["pinReason"] == "open_transaction":
            yield (
                f"{partition}: producer {row['pinProducerId']} has had a transaction open since offset "
                f"{row['pinOffset']}; nothing after it is compacted: end it with kafka-transactions"
            )
        if row["heldBy"] in _ADVICE and row["size"]:
            key = (row["topic"], row["heldBy"])
            kept[key] = kept.get(key, 0) + row["size"]
    for (topic, hold), size in kept.items():
        yield f"{topic}: {size} bytes: {_ADVICE[hold]}"


def _print_segments(rows: list[dict[str, Any]]) -> None:
    print()
    head = ["PARTITION", "SEGMENT", "BYTES", "LARGEST TIMESTAMP"]
    head += ["RETENTION", "BY", "AT", "HELD BY", "COMPACTION", "ROLLED"]
    lines = []
    for row in rows:
        source = "" if row["timestampSource"] == "index" else f" ({row['timestampSource']})"
        held = row["heldBy"]
        if row["pinOffset"] is not None:
            held = f"{held} (offset {row['pinOffset']}, {row['pinReason']})"
        compaction = row["compaction"]
        if row["compactionHeldBy"]:
            compaction = f"{compaction} ({row['compactionHeldBy']})"
        lines.append(
            [
                f"{row['topic']}-{row['partition']}",
                row["baseOffset"],
                row["size"],
                f"{format_time(row['largestTimestamp'])}{source}",
                row["retention"],
                row["retentionRule"],
                format_time(row["retentionTime"]),
                held,
                compaction,
                "active" if row["isActive"] else row["rolledBy"],
            ]
        )
    _common.table(head, lines, right=("SEGMENT", "BYTES"))
