"""Apache Kafka's on-disk logs as Arrow, without a broker.

``scan`` and ``read_table`` return records, ``scan_batches`` returns Kafka's batches, and ``dataset`` and
``scan_polars`` give logs to query engines. ``LogDir`` and ``PartitionLog`` describe logs, and ``LogWriter`` writes
them. ``kafkalog.tables`` decodes internal topics, ``kafkalog.spark`` reads and writes on Spark.
"""

from typing import TYPE_CHECKING

from kafkalog._core import __version__, build_profile
from kafkalog.config import LogConfig
from kafkalog.engines import dataset, scan_polars
from kafkalog.errors import (
    CorruptIndexError,
    CorruptRecordError,
    InternalError,
    InvalidRecordError,
    KafkaLogError,
    LogLockedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    UnsupportedFormatError,
)
from kafkalog.index import (
    AbortedTransaction,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    TransactionIndex,
)
from kafkalog.log import (
    LeaderEpoch,
    LogDir,
    Lookup,
    OffsetAndTimestamp,
    PartitionFolder,
    PartitionLog,
    PartitionOffset,
    SegmentInfo,
)
from kafkalog.options import ReadOptions
from kafkalog.partitioner import partition_for_key
from kafkalog.reader import RecordReader, read_table, scan, scan_batches
from kafkalog.writer import AppendInfo, LogWriter, Record

if TYPE_CHECKING:
    from kafkalog import spark, tables
    from kafkalog.rescue import rescue
    from kafkalog.rescue.model import RescuePlan, RescueReport
    from kafkalog.tools import (
        CheckpointChange,
        CompactReport,
        DeletedSegment,
        FileChange,
        LeftOut,
        PartitionCompaction,
        PartitionRecovery,
        PartitionRetention,
        PartitionRewrite,
        RecoveryNote,
        RecoveryReport,
        RetainReport,
        RewriteReport,
        TruncateReport,
        compact,
        disk_usage,
        explain,
        rebuild_indexes,
        recover,
        retain,
        rewrite,
        truncate,
        verify,
    )

__all__ = [
    "AbortedTransaction",
    "AppendInfo",
    "CheckpointChange",
    "CompactReport",
    "CorruptIndexError",
    "CorruptRecordError",
    "DeletedSegment",
    "FileChange",
    "InternalError",
    "InvalidRecordError",
    "KafkaLogError",
    "LeaderEpoch",
    "LeftOut",
    "LogConfig",
    "LogDir",
    "LogLockedError",
    "LogWriter",
    "Lookup",
    "OffsetAndTimestamp",
    "OffsetIndex",
    "OffsetOutOfRangeError",
    "OffsetPosition",
    "PartitionCompaction",
    "PartitionFolder",
    "PartitionLog",
    "PartitionOffset",
    "PartitionRecovery",
    "PartitionRetention",
    "PartitionRewrite",
    "ReadOptions",
    "Record",
    "RecordReader",
    "RecoveryNote",
    "RecoveryReport",
    "RescuePlan",
    "RescueReport",
    "RetainReport",
    "RewriteReport",
    "SegmentInfo",
    "TimeIndex",
    "TimestampOffset",
    "TransactionIndex",
    "TruncateReport",
    "UnknownTopicOrPartitionError",
    "UnsupportedFormatError",
    "__version__",
    "build_profile",
    "compact",
    "dataset",
    "disk_usage",
    "explain",
    "partition_for_key",
    "read_table",
    "rebuild_indexes",
    "recover",
    "rescue",
    "retain",
    "rewrite",
    "scan",
    "scan_batches",
    "scan_polars",
    "spark",
    "tables",
    "truncate",
    "verify",
]


# Imported on first use, as are the tools: what many programs never need takes longer than the rest.
_MODULES = ("rescue", "spark", "tables")

if not TYPE_CHECKING:  # type checkers would take any name for an attribute

    def __getattr__(name: str) -> object:
        """Import a module or a tool on first use."""
        import importlib

        if name in _MODULES:
            return importlib.import_module(f"kafkalog.{name}")
        # Whatever else is public was imported above.
        if name in __all__:
            home = "kafkalog.rescue.model" if name.startswith("Rescue") else "kafkalog.tools"
            found = globals()[name] = getattr(importlib.import_module(home), name)
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
