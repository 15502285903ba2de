"""Work on whole logs: verifying, recovering after a crash, rebuilding indexes, truncating, retaining."""

from kafkalog.tools.recovery import rebuild_indexes, recover
from kafkalog.tools.reports import (
    CheckpointChange,
    DeletedSegment,
    FileChange,
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
    "DeletedSegment",
    "FileChange",
    "PartitionRecovery",
    "PartitionRetention",
    "RecoveryNote",
    "RecoveryReport",
    "RetainReport",
    "TruncateReport",
    "rebuild_indexes",
    "recover",
    "retain",
    "truncate",
    "verify",
]
