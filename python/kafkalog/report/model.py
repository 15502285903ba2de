"""The numbers of a report: what ``--json`` prints, spelled as columns are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# A row of a table of this package, by the names of its columns.
Row = dict[str, Any]


@dataclass
class LogDirFigures:
    """A log dir, or the folder of a partition."""

    path: str
    cluster_id: str | None = None
    node_id: str | None = None
    directory_id: str | None = None
    clean_shutdown: bool | None = None
    partitions: int = 0
    disk_bytes: int = 0
    allocated_bytes: int = 0


@dataclass
class PartitionFigures:
    """A live partition in a log dir: the figures of ``stats``, ``offsets`` and ``explain``."""

    log_dir: str
    topic: str
    partition: int
    # of every file in its folder
    disk_bytes: int
    # of its .log files
    size: int
    segments: int
    batches: int
    records: int
    legacy_batches: int
    log_start_offset: int
    high_watermark: int | None
    last_stable_offset: int | None
    log_end_offset: int
    min_timestamp: int | None
    max_timestamp: int | None
    bytes_freeable: int = 0
    # the next segment that retention deletes, and the last of those with a known time
    next_time: int | None = None
    rest_by: int | None = None


@dataclass
class Timeline:
    """Bytes and records of batches by their largest timestamp, in steps of equal length."""

    start: int
    step_ms: int
    bytes: list[int]
    records: list[int]
    # batches outside the steps
    undated_bytes: int = 0
    before_bytes: int = 0
    future_bytes: int = 0


@dataclass
class SizeClass:
    """Batches of at least ``least`` bytes and less than twice as many."""

    least: int
    batches: int
    bytes: int


@dataclass
class CodecFigures:
    """Batches of a codec. The ratio is that of some of them, which were decompressed."""

    codec: str
    batches: int
    bytes: int
    sampled_batches: int = 0
    sampled_bytes: int = 0
    uncompressed_bytes: int = 0
    ratio: float | None = None


@dataclass
class BatchFigures:
    """Figures of the batches of a topic, from their headers."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    smallest: int | None = None
    largest: int | None = None
    sizes: list[SizeClass] = field(default_factory=list)
    timeline: Timeline | None = None
    # places where offsets are missing between two batches, and these offsets
    gaps: int = 0
    missing_offsets: int = 0
    # offsets inside batches without a record: compaction leaves them
    holes: int = 0
    future_batches: int = 0
    latest_timestamp: int | None = None
    # batches that begin at an earlier time than the one before them ended, and the largest such step
    late_batches: int = 0
    largest_step_back_ms: int = 0


@dataclass
class TopicFigures:
    """A topic: sums over its partitions."""

    topic: str
    partitions: int = 0
    segments: int = 0
    disk_bytes: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    legacy_batches: int = 0
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    bytes_freeable: int = 0
    next_bytes: int = 0
    next_time: int | None = None
    rest_by: int | None = None
    kept_bytes: int = 0
    dirty_bytes: int = 0
    findings: int = 0


@dataclass
class TopicDetail:
    """A topic in full."""

    topic: str
    codecs: list[CodecFigures]
    figures: BatchFigures


@dataclass
class FreedOn:
    """Deletions by retention on a day (UTC)."""

    day: int
    bytes: int
    segments: int


@dataclass
class Retention:
    """Deletions by retention: now, on the coming days, later, and never."""

    now_bytes: int = 0
    days: list[FreedOn] = field(default_factory=list)
    later_bytes: int = 0
    # what has no time: by what holds it
    held: list[Row] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


@dataclass
class Findings:
    """Findings of ``verify``, and what else could not be read."""

    # False: nothing was verified
    verified: bool = True
    # as verify --headers-only, and not every byte
    headers_only: bool = False
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    codes: list[Row] = field(default_factory=list)
    # the worst ones
    rows: list[Row] = field(default_factory=list)
    # what a question found unreadable, a line each
    unread: list[str] = field(default_factory=list)


@dataclass
class Summary:
    """Sums over everything."""

    topics: int = 0
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    legacy_batches: int = 0
    # of the .log files
    size: int = 0
    # of all files and folders, as du -b and du -B1 count them
    disk_bytes: int = 0
    allocated_bytes: int = 0
    bytes_freeable: int = 0
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    open_transactions: int = 0
    hanging_transactions: int = 0
    groups: int = 0
    groups_behind: int = 0
    lag: int = 0
    schemas: int = 0


@dataclass
class Overview:
    """Everything that a report shows."""

    version: str
    # when the files were read, and the time that retention and "in the future" refer to
    read_at: int
    now: int
    redacted: bool = False
    # the level of the metadata log, and the formats of batches
    metadata_version: str | None = None
    magics: list[int] = field(default_factory=list)
    dirs: list[LogDirFigures] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)
    findings: Findings = field(default_factory=Findings)
    disk: list[Row] = field(default_factory=list)
    topics: list[TopicFigures] = field(default_factory=list)
    # the topics that are not in ``topics``, as one
    other_topics: TopicFigures | None = None
    # of files and folders that are not in the folder of a live partition
    beside_bytes: int = 0
    beside_freeable: int = 0
    partitions: list[PartitionFigures] = field(default_factory=list)
    retention: Retention = field(default_factory=Retention)
    details: list[TopicDetail] = field(default_factory=list)
    transactions: list[Row] = field(default_factory=list)
    groups: list[Row] = field(default_factory=list)
    offsets: list[Row] = field(default_factory=list)
    schemas: list[Row] = field(default_factory=list)
    # what is elsewhere, or was left out
    notes: list[str] = field(default_factory=list)
