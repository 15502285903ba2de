"""Work on whole logs: verifying, recovering after a crash, rebuilding indexes, truncating, retaining, compacting."""

from kafkalog.tools.compaction import compact
from kafkalog.tools.copy_reports import (
    CompactReport,
    DeletedSegment,
    PartitionCompaction,
    PartitionRetention,
    PartitionRewrite,
    RetainReport,
    RewriteReport,
)
from kafkalog.tools.explanation import disk_usage, explain
from kafkalog.tools.recovery import rebuild_indexes, recover
from kafkalog.tools.reports import (
    CheckpointChange,
    FileChange,
    LeftOut,
    PartitionRecovery,
    RecoveryNote,
    RecoveryReport,
    TruncateReport,
)
from kafkalog.tools.retention import retain
from kafkalog.tools.rewriting import rewrite
from kafkalog.tools.truncation import truncate
from kafkalog.tools.verification import verify

__all__ = [
    "CheckpointChange",
    "CompactReport",
    "DeletedSegment",
    "FileChange",
    "LeftOut",
    "PartitionCompaction",
    "PartitionRecovery",
    "PartitionRetention",
    "PartitionRewrite",
    "RecoveryNote",
    "RecoveryReport",
    "RetainReport",
    "RewriteReport",
    "TruncateReport",
    "compact",
    "disk_usage",
    "explain",
    "rebuild_indexes",
    "recover",
    "retain",
    "rewrite",
    "truncate",
    "verify",
]
