"""Work on whole logs: verifying, recovering after a crash, rebuilding indexes, truncating, retaining, compacting."""

from kafkalog.tools.compaction import compact
from kafkalog.tools.recovery import rebuild_indexes, recover
from kafkalog.tools.reports import (
    CheckpointChange,
    CompactReport,
    DeletedSegment,
    FileChange,
    PartitionCompaction,
    PartitionRecovery,
    PartitionRetention,
    RecoveryNote,
    RecoveryReport,
    RetainReport,
    TruncateReport,
)
from kafkalog.tools.retention import retain
from kafkalog.tools.truncation import truncate
from kafkalog.tools.verification import verify

__all__ = [
    "CheckpointChange",
    "CompactReport",
    "DeletedSegment",
    "FileChange",
    "PartitionCompaction",
    "PartitionRecovery",
    "PartitionRetention",
    "RecoveryNote",
    "RecoveryReport",
    "RetainReport",
    "TruncateReport",
    "compact",
    "rebuild_indexes",
    "recover",
    "retain",
    "truncate",
    "verify",
]
