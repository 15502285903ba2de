"""``__remote_log_metadata``, replayed as a broker does (``RemoteLogMetadataCache``, ``RemotePartitionMetadataStore``).

| record | effect |
|---|---|
| segment metadata | a segment in its state, which is COPY_SEGMENT_STARTED in all that Kafka 4.4 and earlier write |
| update of one that is known | its state, where it may follow the one before |
| update of one that is not | a segment of which only the state is known: KIP-1266 compacts starts away |
| update of one whose deletion has finished | none: Kafka writes pairs of them again |
| a key without a value | the segment that ends there is deleted (KIP-1266) |
| partition deletion | every segment of the partition is deleted |
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core
from kafkalog.errors import UnknownTopicOrPartitionError
from kafkalog.reader import RecordReader
from kafkalog.tables import _rows
from kafkalog.tiers.segment import DELETED, DELETING, FINISHED, STARTED, STATES, RemoteSegment

if TYPE_CHECKING:
    from kafkalog.typing import Paths

__all__ = ["TOPIC", "RemoteMetadata", "replay"]

TOPIC = "__remote_log_metadata"
_SEGMENT = "REMOTE_LOG_SEGMENT_METADATA_RECORD"
_UPDATE = "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD"
_PARTITION = "REMOTE_PARTITION_DELETE_METADATA_RECORD"
# DELETE_PARTITION_MARKED, ..._STARTED, ..._FINISHED (RemotePartitionDeleteState).
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
# States that may follow (RemoteLogSegmentState.isValidTransition).
_NEXT = {
    STARTED: (STARTED, FINISHED, DELETING),
    FINISHED: (FINISHED, DELETING),
    DELETING: (DELETING, DELETED),
    DELETED: (DELETED,),
}


@dataclass
class RemoteMetadata:
    """State of the topic.

    Attributes
    ----------
    segments : dict
        Segments by topic id, partition and segment id, those that were deleted among them.
    partitions : dict
        The state of the deletion of a partition, by topic id and partition.
    here, count : set of int, int
        The partitions of the topic that were read, and how many it has.
    notes : Notes
        Records that were left out.
    """

    segments: dict[tuple[str, int, str], RemoteSegment] = field(default_factory=dict)
    partitions: dict[tuple[str, int], str] = field(default_factory=dict)
    here: set[int] = field(default_factory=set)
    count: int = 0
    notes: _rows.Notes = field(default_factory=_rows.Notes)

    def covers(self, topic_id: str, partition: int) -> bool:
        """Return whether the records of a partition are among those that were read."""
        return bool(self.count) and metadata_partition(topic_id, partition, self.count) in self.here


def metadata_partition(topic_id: str, partition: int, count: int) -> int:
    """Return the partition of the topic that holds the records of a partition (RemoteLogMetadataTopicPartitioner)."""
    import pyarrow as pa

    most, least = struct.unpack(">QQ", base64.urlsafe_b64decode(topic_id + "=="))
    # Objects.hash of both halves and the number.
    hashed = 1
    for each in (least ^ least >> 32, most ^ most >> 32, partition):
        hashed = (31 * hashed + each) & 0xFFFFFFFF
    key = struct.pack(">I", hashed)
    partitions = pa.table(_core.partition_for_key(pa.table({"key": pa.array([key], pa.binary())}), count))
    found: int = partitions["partition"][0].as_py()
    return found


def replay(path: Paths | None) -> RemoteMetadata:
    """Replay the topic, if the log dirs have it."""
    found = RemoteMetadata()
    if path is None:
        return found
    try:
        records = RecordReader(_core.table_records(_arguments.paths(path), topics=[TOPIC]))
    except UnknownTopicOrPartitionError:
        return found
    here, found.count, _ = _core.table_coverage(_arguments.paths(path), TOPIC)
    found.here = set(here)
    for batch in records:
        for row in batch.select(["partition", "offset", "type", "value", "keyBytes", "valueBytes"]).to_pylist():
            if row["value"] is not None:
                _apply(found, row["type"], json.loads(row["value"]), (row["offset"],))
            elif row["valueBytes"] is None and row["keyBytes"] is not None:
                _remove(found, row["keyBytes"])
            else:
                place = f"{TOPIC}-{row['partition']}: offset {row['offset']}"
                found.notes.name(f"{place}: not known to Kafka 4.4 and earlier, or cut off")
    return found


def _remove(to: RemoteMetadata, key: bytes) -> None:
    """Apply a tombstone of a compacted topic, whose key is topicId:topicName:partition:endOffset:epoch (KIP-1266)."""
    try:
        topic_id, _, partition, end, _ = key.decode().split(":")
        at = (topic_id, int(partition), int(end))
    except ValueError:
        to.notes.name(f"a record without a value, of a key that is not known: {key[:80]!r}")
        return
    for each in to.segments.values():
        if (each.topic_id, each.partition, each.end_offset) == at:
            each.state = DELETED


def _apply(to: RemoteMetadata, kind: str, value: dict[str, Any], order: tuple[int, ...]) -> None:
    if kind == _SEGMENT:
        made = _segment(value)
        known = to.segments.get(made.place)
        if known is not None and known.state == DELETED:
            return
        made.order = order
        to.segments[made.place] = made
    elif kind == _UPDATE:
        _update(to, value, order)
    elif kind == _PARTITION:
        at = value["topicIdPartition"]
        state = _PARTITION_STATES[value["remotePartitionDeleteState"]]
        to.partitions[at["id"], at["partition"]] = state
        for each in to.segments.values():
            if (each.topic_id, each.partition) == (at["id"], at["partition"]):
                each.state = DELETED if state == _PARTITION_STATES[-1] else DELETING


def _ids(value: dict[str, Any]) -> tuple[str, str, int, str]:
    ids = value["remoteLogSegmentId"]
    at = ids["topicIdPartition"]
    return at["name"], at["id"], at["partition"], ids["id"]


def _state(value: dict[str, Any]) -> str | None:
    number = value["remoteLogSegmentState"]
    return STATES[number] if 0 <= number < len(STATES) else None


def _segment(value: dict[str, Any]) -> RemoteSegment:
    topic, topic_id, partition, segment_id = _ids(value)
    return RemoteSegment(
        topic,
        topic_id,
        partition,
        segment_id,
        "metadata",
        value["startOffset"],
        value["endOffset"],
        {each["leaderEpoch"]: each["offset"] for each in value["segmentLeaderEpochs"]},
        _state(value),
        value["segmentSizeInBytes"],
        value["maxTimestampMs"],
    )


def _update(to: RemoteMetadata, value: dict[str, Any], order: tuple[int, ...]) -> None:
    topic, topic_id, partition, segment_id = _ids(value)
    place = (topic_id, partition, segment_id)
    state = _state(value)
    known = to.segments.get(place)
    if known is None:
        to.segments[place] = RemoteSegment(topic, topic_id, partition, segment_id, "metadata", state=state, order=order)
    elif state is not None and state in _NEXT[known.state or STARTED]:
        if known.state != state:
            known.order = order
        known.state = state
    elif known.state != DELETED:
        to.notes.name(f"segment {segment_id} of {topic}-{partition}: {state} after {known.state}")
