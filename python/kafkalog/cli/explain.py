"""``kafkalog explain``: what can be freed, how and when; then why each segment is still here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog._times import format_time
from kafkalog.cli import _common

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


EPILOG = """\
Prints the disk usage by kind, as du -b and du -B1 count it, what can be freed of it and how; then the topics, and when
more of their .log files will be deleted; then advice about records and settings that retain segments; then every
segment. --config shows the effect of other settings. Nothing is written, and a broker may be running.

examples:
  kafkalog explain /data/kafka-logs
  kafkalog explain /data/kafka-logs --config retention.ms=86400000
  kafkalog explain /data/kafka-logs/orders-0 --now 2026-12-01T00:00:00Z -J"""

# Reasons that retain a segment for ever, and what would change that.
_ADVICE = {
    "unlimited": "neither retention.ms nor retention.bytes is set; set one of them",
    "size": "only retention.bytes is set, and not exceeded; lower it, or set retention.ms",
    "high_watermark": "above the high watermark, not replicated; see to the other replicas",
    "tiered_storage": "tiered storage: deleted after its upload",
}
# What brokers keep there is lost by retention, and they take no kafka-delete-records for most of it
# (ReplicaManager.deleteRecordsOnLocalLog).
_INTERNAL = {
    "__consumer_offsets": "offsets go by offsets.retention.minutes; retention would lose those in use",
    "__transaction_state": "ids go by transactional.id.expiration.ms; retention would lose those in use",
    "__share_group_state": "brokers prune it (share.coordinator.state.topic.prune.interval.ms); leave it as it is",
    "__remote_log_metadata": "has to be kept as long as tiered segments (remote.log.metadata.topic.retention.ms)",
}
_PINS = {
    "future_timestamp": "is in the future",
    "microseconds": "is in microseconds: correct the producer",
    "nanoseconds": "is in nanoseconds: correct the producer",
    "seconds": "is in seconds: correct the producer",
}
# What the cleaner does not look at, and until when.
_UNCLEANABLE = {
    "active": "in active segments, which are compacted after they are rolled (segment.ms, segment.bytes)",
    "min_lag": "younger than min.compaction.lag.ms",
    "open_transaction": "at or after an open transaction",
    "high_watermark": "above the high watermark, not replicated; see to the other replicas",
}


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
    advice = list(dict.fromkeys(_advice(rows)))
    if any(topic.free for topic in topics.values()):
        print("\nfreed now: at the broker's next check, or by kafkalog retain into a new log dir")
    elif advice:
        print()
    for line in advice:
        print(line)


def _advice(rows: list[dict[str, Any]]) -> Iterable[str]:
    """Name what retains bytes that nothing removes, and what would free them."""
    kept: dict[tuple[str, str], int] = {}
    compacted: dict[str, list[dict[str, Any]]] = {}
    seconds: dict[str, int] = {}
    for row in rows:
        partition = f"{row['topic']}-{row['partition']}"
        if row["pinReason"] == "seconds" and row["retention"] == "deletable":
            seconds[partition] = seconds.get(partition, 0) + row["size"]
        elif row["pinReason"] in _PINS:
            until = "until then raise the log start above it with kafka-delete-records, or set retention.bytes"
            yield (
                f"{partition}: the timestamp of offset {row['pinOffset']} ({format_time(row['pinTimestamp'])}) "
                f"{_PINS[row['pinReason']]}" + ("" if row["topic"] in _INTERNAL else f"; {until}")
            )
        elif row["pinReason"] == "open_transaction":
            yield (
                f"{partition}: producer {row['pinProducerId']} has had a transaction open since offset "
                f"{row['pinOffset']}; nothing after it is compacted: end it with kafka-transactions abort "
                f"--topic {row['topic']} --partition {row['partition']} --start-offset {row['pinOffset']}"
            )
        if row["heldBy"] == "cleanup_policy":
            compacted.setdefault(row["topic"], []).append(row)
        elif row["heldBy"] in _ADVICE and row["size"]:
            key = (row["topic"], row["heldBy"])
            kept[key] = kept.get(key, 0) + row["size"]
    for partition, size in seconds.items():
        yield (
            f"{partition}: timestamps of {size} bytes are in seconds: correct the producer; brokers take them for "
            "January 1970, and delete the segments at their next check unless retention.ms is -1"
        )
    for (topic, hold), size in kept.items():
        yield f"{topic}: {size} bytes: {_INTERNAL.get(topic, _ADVICE[hold])}"
    for topic, some in compacted.items():
        yield from _compacted(topic, some)


def _compacted(topic: str, rows: list[dict[str, Any]]) -> Iterable[str]:
    """Say what compaction has to do in a topic that nothing else makes smaller, and why it was not done."""
    size = sum(row["size"] for row in rows)
    dirty = sum(row["size"] for row in rows if row["compaction"] == "dirty")
    yield (
        f"{topic}: {size} bytes: only compaction makes it smaller; brokers refuse kafka-delete-records here; "
        + _INTERNAL.get(topic, "delete in cleanup.policy would lose the last records of old keys, too")
    )
    due = {row["partition"] for row in rows if row["compactionDue"]}
    if due:
        never = {row["partition"] for row in rows if row["compactedTo"] is None} & due
        yield (
            f"{topic}: {dirty} of {size} bytes are dirty, and {len(due)} partition(s) due for compaction: the cleaner "
            "is not running or not keeping up"
            + (f" ({len(never)} of them it has never compacted)" if never else "")
            + "; see log-cleaner.log, the metrics uncleanable-partitions-count and time-since-last-run-ms, "
            "log.cleaner.enable and log.cleaner.threads"
        )
    elif dirty:
        yield (
            f"{topic}: {dirty} of {size} bytes are dirty, in no partition enough for the cleaner: lower "
            "min.cleanable.dirty.ratio or max.compaction.lag.ms to have them compacted"
        )
    for hold, text in _UNCLEANABLE.items():
        held = sum(row["size"] for row in rows if row["compactionHeldBy"] == hold)
        if held:
            yield f"{topic}: {held} of {size} bytes are {text}"


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
