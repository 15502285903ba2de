"""Advice about records and settings that retain segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalog._times import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def advice(rows: Iterable[dict[str, Any]]) -> Iterable[str]:
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
