"""Apache Kafka's on-disk logs as Arrow, without a broker.

``scan`` and ``read_table`` return records, ``scan_batches`` returns Kafka's batches, and ``dataset`` and
``scan_polars`` give logs to query engines. ``LogDir`` and ``PartitionLog`` describe logs, and ``LogWriter`` writes
them. ``kafkalog.tables`` decodes internal topics, ``kafkalog.spark`` reads and writes on Spark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog import spark, tables, tiers
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
    from kafkalog.writer import AppendInfo, LogWriter, Record

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
    "tiers",
    "truncate",
    "verify",
]


# Everything is imported on first use: `kafkalog --help` needs none of it, and most programs need little.
_HOMES = {
    "_core": ("__version__", "build_profile"),
    "config": ("LogConfig",),
    "engines": ("dataset", "scan_polars"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "index": (
        "AbortedTransaction",
        "OffsetIndex",
        "OffsetPosition",
        "TimeIndex",
        "TimestampOffset",
        "TransactionIndex",
    ),
    "log": (
        "LeaderEpoch",
        "LogDir",
        "Lookup",
        "OffsetAndTimestamp",
        "PartitionFolder",
        "PartitionLog",
        "PartitionOffset",
        "SegmentInfo",
    ),
    "options": ("ReadOptions",),
    "partitioner": ("partition_for_key",),
    "reader": ("RecordReader", "read_table", "scan", "scan_batches"),
    "rescue.model": ("RescuePlan", "RescueReport"),
    "writer": ("AppendInfo", "LogWriter", "Record"),
}
_MODULES = ("rescue", "spark", "tables", "tiers")

if not TYPE_CHECKING:  # type checkers would take any name for an attribute

    def __getattr__(name: str) -> object:
        """Import a module, or what is public of one, on first use."""
        import importlib

        if name in __all__ and name not in _MODULES:
            # Whatever has no other home is a tool.
            home = next((home for home, names in _HOMES.items() if name in names), "tools")
            found = globals()[name] = getattr(importlib.import_module(f"kafkalog.{home}"), name)
            return found
        try:
            if not name.startswith("__"):
                return importlib.import_module(f"kafkalog.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"kafkalog.{name}":
                raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
