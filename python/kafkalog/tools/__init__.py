"""Work on a whole log: verifying it, recovering it after a crash, rebuilding its indexes, truncating it."""

from kafkalog.tools.recovery import rebuild_indexes, recover
from kafkalog.tools.reports import (
    CheckpointChange,
    FileChange,
    PartitionRecovery,
    RecoveryNote,
    RecoveryReport,
    TruncateReport,
)
from kafkalog.tools.truncation import truncate
from kafkalog.tools.verification import verify

__all__ = [
    "CheckpointChange",
    "FileChange",
    "PartitionRecovery",
    "RecoveryNote",
    "RecoveryReport",
    "TruncateReport",
    "rebuild_indexes",
    "recover",
    "truncate",
    "verify",
]
