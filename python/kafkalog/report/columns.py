"""The tables of a report: of every figure its unit and one line that explains it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Kinds of figures: their form and unit."""

    TEXT = "text"
    COUNT = "number"
    BYTES = "bytes; 1 kB is 1000 bytes"
    OFFSET = "offset"
    TIME = "time, UTC"
    DAY = "day, UTC"
    DURATION = "time span"
    RATIO = "ratio"
    FLAG = "yes or no"


@dataclass(frozen=True)
class Column:
    """A column: the name of its figure in the JSON, and what a reader has to know."""

    key: str
    label: str
    kind: Kind
    about: str


@dataclass(frozen=True)
class Table:
    """A table: its rows are those of the JSON."""

    caption: str
    columns: tuple[Column, ...]


def _of(caption: str, *columns: tuple[str, str, Kind, str]) -> Table:
    return Table(caption, tuple(Column(*each) for each in columns))


_T, _N, _B, _O, _W = Kind.TEXT, Kind.COUNT, Kind.BYTES, Kind.OFFSET, Kind.TIME
_TOPIC = ("topic", "Topic", _T, "name of the topic")
_PARTITION = ("partition", "Partition", _N, "number of the partition in its topic")
_FREE = ("bytesFreeable", "Free now", _B, "what a broker's next check deletes by retention, or kafkalog retain")
_NEXT = ("nextTime", "Next at", _W, "when retention deletes the next closed segment, if nothing changes")
_REST = ("restBy", "Rest by", _W, "when retention will have deleted all segments that are here and have such a time")
_DISK = ("diskBytes", "On disk", _B, "length of all files: segments, indexes, snapshots, leftovers")
_SIZE = ("size", "Log", _B, "length of the .log files: record batches, without indexes")
_SEGMENTS = ("segments", "Segments", _N, "number of .log files")
_BATCHES = ("batches", "Batches", _N, "number of record batches; a message of format 0 or 1 is one")
_RECORDS = (
    *("records", "Records", _N),
    "records that the headers of batches count, transaction markers among them; formats 0 and 1 do not say",
)
_MIN = ("minTimestamp", "Earliest", _W, "smallest first timestamp of a batch")
_MAX = ("maxTimestamp", "Latest", _W, "largest timestamp of a batch")

DIRS = _of(
    "Log dirs that were read",
    ("path", "Path", _T, "the log dir, or the folder of a partition"),
    ("clusterId", "Cluster", _T, "cluster id in meta.properties"),
    ("nodeId", "Node", _T, "node id (broker id) in meta.properties"),
    ("directoryId", "Directory", _T, "directory id in meta.properties"),
    (
        "cleanShutdown",
        "Stopped cleanly",
        Kind.FLAG,
        "whether the marker of a clean shutdown is there",
    ),
    ("partitions", "Partitions", _N, "number of live partitions; those being deleted or moved are not counted"),
    ("diskBytes", "On disk", _B, "length of all files and folders, as du -b counts"),
    ("allocatedBytes", "Allocated", _B, "what the file system has allocated for them, as du -B1 counts"),
)
CODES = _of(
    "Findings by kind",
    (
        "severity",
        "Severity",
        _T,
        "error: records are at risk; warning: look at it; info: as brokers leave it",
    ),
    ("code", "Code", _T, "kind of the finding; kafkalog help damage explains it"),
    ("findings", "Findings", _N, "how many there are"),
    ("advice", "What to do", _T, "advice for this kind"),
)
FINDINGS = _of(
    "Findings, the worst first",
    ("severity", "Severity", _T, "error, warning or info"),
    ("code", "Code", _T, "kind of the finding"),
    ("file", "File", _T, "file or folder that the finding is about"),
    ("position", "From byte", _N, "first byte in the file that is concerned"),
    ("endPosition", "To byte", _N, "end of these bytes, exclusive"),
    ("offset", "Offset", _O, "first offset that is concerned"),
    ("message", "Finding", _T, "what was expected, and what was found"),
)
TOPICS = _of(
    "Topics, the largest first; the sums are those of du -b",
    _TOPIC,
    ("partitions", "Partitions", _N, "live partitions in the log dirs that were read"),
    _DISK,
    _SIZE,
    _SEGMENTS,
    _RECORDS,
    _FREE,
    ("nextBytes", "Next", _B, "what retention deletes next"),
    _NEXT,
    _REST,
    (
        "keptBytes",
        "Kept",
        _B,
        "segments that retention does not delete as things are",
    ),
    ("dirtyBytes", "To compact", _B, "what a log cleaner has yet to compact"),
    ("findings", "Findings", _N, "warnings and errors of verify about this topic"),
)
DISK = _of(
    "Disk usage by kind of file; the sums are those of du -b and du -B1",
    ("kind", "Kind", _T, "kind of file or folder"),
    ("files", "Files", _N, "number of files or folders"),
    ("bytes", "Bytes", _B, "their length"),
    ("allocatedBytes", "Allocated", _B, "what the file system has allocated for them"),
    ("bytesFreeable", "Free now", _B, "what can be freed of it now"),
    ("removedBy", "Removed by", _T, "who removes it"),
    ("advice", "How", _T, "how it is removed"),
)
DAYS = _of(
    "Freed by day",
    ("day", "Day", Kind.DAY, "day on which retention deletes, if nothing is written or changed"),
    ("bytes", "Bytes", _B, "length of the .log files that are deleted on it"),
    ("segments", "Segments", _N, "how many these are"),
)
HELD = _of(
    "Kept: segments without a time at which retention deletes them",
    (
        "heldBy",
        "Held by",
        _T,
        "what holds them, as explain names it",
    ),
    ("bytes", "Bytes", _B, "length of their .log files"),
    ("segments", "Segments", _N, "how many these are"),
)
SHARES = _of(
    "Partitions, the largest first",
    _TOPIC,
    _PARTITION,
    _DISK,
    _SIZE,
    _SEGMENTS,
    _FREE,
    _NEXT,
    _REST,
)
PARTITIONS = _of(
    "Offsets and records of partitions, the largest first",
    _TOPIC,
    _PARTITION,
    ("logStartOffset", "Log start", _O, "first offset that a broker serves"),
    ("highWatermark", "High watermark", _O, "end of what is replicated, by the last checkpoint; none without one"),
    (
        "lastStableOffset",
        "Last stable",
        _O,
        "where read_committed consumers end: at an open transaction, or the end",
    ),
    ("logEndOffset", "End", _O, "next offset to be written"),
    _BATCHES,
    _RECORDS,
    _MIN,
    _MAX,
)
CODECS = _of(
    "Codecs",
    ("codec", "Codec", _T, "compression of the batches"),
    ("batches", "Batches", _N, "number of batches with it"),
    ("bytes", "Bytes", _B, "their length, headers included"),
    ("ratio", "Ratio", Kind.RATIO, "size without compression to size with it, of the batches that were sampled"),
    ("sampledBatches", "Sampled", _N, "batches that were decompressed for the ratio"),
)
SIZES = _of(
    "Batch sizes",
    ("least", "From", _B, "batches from this size on, and below twice of it"),
    ("batches", "Batches", _N, "number of batches of this size"),
    ("bytes", "Bytes", _B, "their length together"),
)
TRANSACTIONS = _of(
    "Open transactions",
    ("transactionalId", "Transactional id", _T, "id in __transaction_state; none where it is not known"),
    _TOPIC,
    _PARTITION,
    ("producerId", "Producer", _N, "producer id"),
    ("producerEpoch", "Epoch", _N, "producer epoch"),
    ("firstOffset", "First offset", _O, "where the transaction begins in the partition"),
    ("firstTimestamp", "Since", _W, "timestamp at its beginning"),
    ("lastTimestamp", "Last record", _W, "timestamp of its last batch"),
    ("state", "State", _T, "state of the transaction at its coordinator"),
    ("isHanging", "Hanging", Kind.FLAG, "whether no coordinator will end it; unknown if its log is elsewhere"),
    ("blocksLastStableOffset", "Blocks readers", Kind.FLAG, "whether read_committed consumers wait for this one"),
)
GROUPS = _of(
    "Groups, the farthest behind first",
    ("group", "Group", _T, "group id"),
    ("groupType", "Type", _T, "classic, consumer, share or streams"),
    ("state", "State", _T, "state after loading, as Kafka's tools name it"),
    ("protocol", "Assignor", _T, "assignor of the group, where its records say"),
    ("epoch", "Epoch", _N, "group epoch; of a classic group the generation"),
    ("members", "Members", _N, "number of members"),
    ("partitions", "Partitions", _N, "partitions with an offset or a member"),
    ("lag", "Lag", _N, "records to the ends of the logs, summed over partitions"),
    ("maxLag", "Largest lag", _N, "of a single partition, in records"),
    ("unknown", "Unknown", _N, "partitions whose log is not here, or that have no offset"),
)
OFFSETS = _of(
    "Offsets of groups, the farthest behind first",
    ("group", "Group", _T, "group id"),
    _TOPIC,
    _PARTITION,
    ("offset", "Committed", _O, "next offset that the group reads"),
    ("logEndOffset", "End", _O, "end of the partition's log; none if it is not here"),
    ("lag", "Lag", _N, "records from the one to the other; below 0 if the log was cut"),
    ("memberId", "Member", _T, "member that has the partition"),
    ("clientHost", "Host", _T, "its host"),
    ("clientId", "Client", _T, "its client id"),
)
SCHEMAS = _of(
    "Schemas",
    ("context", "Context", _T, "context in the registry, in which the id counts"),
    ("subject", "Subject", _T, "subject in the registry"),
    ("version", "Version", _N, "version in its subject"),
    ("id", "Id", _N, "id in the framing of values"),
    ("schemaType", "Type", _T, "AVRO, PROTOBUF or JSON"),
    ("deleted", "Deleted", _T, "no; soft: can be restored; hard: only the log still has it"),
    ("logOffset", "Offset", _O, "offset of its record in _schemas"),
    ("logTimestamp", "Written", _W, "timestamp of its record in _schemas"),
)
