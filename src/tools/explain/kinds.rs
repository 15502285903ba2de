//! Role of each file and folder of a log dir for a broker, and how it is removed.

use std::collections::BTreeSet;

use crate::format::checkpoint::{LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use crate::format::file_name::{
    CLUSTER_METADATA_TOPIC, FileKind, FileName, FileState, FolderName, FolderState, base_offset,
};
use crate::io::lock::LOCK_FILE;
use crate::log::dir::is_of_log_dir;
use crate::tables::plan::BOOTSTRAP;
use crate::types::Offset;
use crate::write::storage::OWN_FILES;

/// Kind of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UsageKind {
    Log,
    Index,
    ActiveIndex,
    OrphanIndex,
    Snapshot,
    PartitionFile,
    Deleted,
    Cleaned,
    Swap,
    Delete,
    Stray,
    Future,
    MetadataLog,
    RemoteIndexes,
    LogDirFile,
    Own,
    Foreign,
    Folder,
    Unreadable,
}

/// Facts about a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) name: &'static str,
    /// All of it may go.
    pub(super) is_freeable: bool,
    pub(super) removed_by: &'static str,
    pub(super) advice: &'static str,
}

impl UsageKind {
    /// Bytes that can be freed of a file or folder of this length.
    pub(super) const fn freeable(self, length: u64) -> u64 {
        if self.about().is_freeable { length } else { 0 }
    }

    /// As Kafka's classes do it, which are named beside each.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub(super) const fn about(self) -> About {
        let (name, is_freeable, removed_by, advice) = match self {
            // `UnifiedLog.deleteOldSegments`, `Cleaner.cleanSegments`.
            Self::Log => (
                "log",
                false,
                "broker",
                "retention and compaction: see the topics below",
            ),
            // `LogSegment.deleteIfExists`.
            Self::Index => ("index", false, "broker", "go with their segments"),
            // `LogSegment.onBecomeInactiveSegment`, `AbstractIndex.close`.
            Self::ActiveIndex => (
                "active_index",
                false,
                "broker",
                "preallocated (segment.index.bytes); cut when the segment is rolled or the broker stops cleanly",
            ),
            // `LogLoader.loadSegmentFiles`.
            Self::OrphanIndex => (
                "orphan_index",
                true,
                "broker",
                "indexes without a .log; removed at the broker's next start",
            ),
            // `ProducerStateManager.deleteSnapshotsBefore`, `removeStraySnapshots`.
            Self::Snapshot => (
                "snapshot",
                false,
                "broker",
                "producer states; go with their segments",
            ),
            // `UnifiedLog.delete`.
            Self::PartitionFile => (
                "partition_file",
                false,
                "broker",
                "leader epochs and topic ids; go with their partitions",
            ),
            // `LocalLog.deleteSegmentFiles`, `LogLoader.removeTempFilesAndCollectSwapFiles`.
            Self::Deleted => (
                "deleted",
                true,
                "broker",
                "removed after file.delete.delay.ms, or at the broker's next start",
            ),
            // `LogLoader.removeTempFilesAndCollectSwapFiles`.
            Self::Cleaned => (
                "cleaned",
                true,
                "broker",
                "unfinished compactions or splits; removed at the broker's next start",
            ),
            // `LogLoader.completeSwapOperations`: their originals become `.deleted`.
            Self::Swap => (
                "swap",
                false,
                "broker",
                "finished compactions or splits; replace their originals at the broker's next start",
            ),
            // `LogManager.loadLog`, `addLogToBeDeleted`, `deleteLogs`.
            Self::Delete => (
                "delete_folder",
                true,
                "broker",
                "deleted partitions; removed after file.delete.delay.ms, also after the next start",
            ),
            // `LogManager.addStrayLog` only takes a note of it.
            Self::Stray => (
                "stray_folder",
                true,
                "you",
                "replicas that are not this broker's; no broker removes them: export what is still wanted, then delete \
                 the folders",
            ),
            // `LogManager.replaceCurrentWithFutureLog`, `ReplicaManager.maybeAddLogDirFetchers`.
            Self::Future => (
                "future_folder",
                false,
                "broker",
                "replicas on their way from another log dir; take their place when the broker has copied them",
            ),
            // `KafkaMetadataLog.maybeClean`.
            Self::MetadataLog => (
                "metadata_log",
                false,
                "broker",
                "metadata.max.retention.bytes and .ms, once a snapshot covers it",
            ),
            // `RemoteIndexCache`.
            Self::RemoteIndexes => (
                "remote_index_cache",
                false,
                "broker",
                "indexes of tiered segments; at most remote.log.index.file.cache.total.size.bytes",
            ),
            Self::LogDirFile => (
                "log_dir_file",
                false,
                "nobody",
                "checkpoints and identity; stay",
            ),
            Self::Own => (
                "kafkalog",
                false,
                "kafkalog",
                "notes and staged records of its jobs; the next one settles them",
            ),
            Self::Foreign => (
                "foreign",
                false,
                "you",
                "not Kafka's; no broker removes them: see what they are and move them away",
            ),
            Self::Folder => (
                "folder",
                false,
                "nobody",
                "the log dir's own folder and those of partitions in use",
            ),
            Self::Unreadable => (
                "unreadable",
                false,
                "you",
                "folders that cannot be listed; what is in them is not counted",
            ),
        };
        About {
            name,
            is_freeable,
            removed_by,
            advice,
        }
    }
}

/// Place of a folder.
#[derive(Clone, Copy, Debug)]
pub(super) enum FolderPlace {
    LogDir,
    /// A partition in use, whose files have kinds of their own.
    Partition {
        is_metadata: bool,
    },
    /// All that is in it.
    All(UsageKind),
}

impl FolderPlace {
    /// A partition's folder.
    pub(super) fn of(name: &FolderName) -> Self {
        match name.state {
            FolderState::Live => Self::Partition {
                is_metadata: name.topic_partition.topic == CLUSTER_METADATA_TOPIC,
            },
            FolderState::Delete => Self::All(UsageKind::Delete),
            FolderState::Future => Self::All(UsageKind::Future),
            FolderState::Stray => Self::All(UsageKind::Stray),
        }
    }
}

/// A file in the log dir itself.
pub(super) fn in_log_dir(name: &str) -> UsageKind {
    let written = name.strip_suffix(".tmp").unwrap_or(name);
    if name.starts_with(OWN_FILES) {
        UsageKind::Own
    } else if is_of_log_dir(written) || [LOCK_FILE, BOOTSTRAP].contains(&written) {
        UsageKind::LogDirFile
    } else {
        UsageKind::Foreign
    }
}

/// The files of a partition in use, which say of each other what they are.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    /// Base offsets of the logs that a broker loads, also of those it has to rename first.
    logs: BTreeSet<Offset>,
    /// A `.swap` from here on was not finished (`LogLoader.removeTempFilesAndCollectSwapFiles`).
    unfinished: Option<Offset>,
}

impl Siblings {
    pub(super) fn of<'a>(names: &(impl Iterator<Item = &'a str> + Clone)) -> Self {
        let names = || names.clone().filter_map(FileName::parse);
        let is_cleaned = |name: &FileName| name.state == FileState::Cleaned;
        let unfinished = names().filter(is_cleaned).map(|name| name.offset).min();
        let is_loaded = |name: &FileName| match name.state {
            FileState::Live => true,
            FileState::Swap => unfinished.is_none_or(|at| name.offset < at),
            FileState::Cleaned | FileState::Deleted => false,
        };
        let logs = names().filter(|name| name.kind == FileKind::Log && is_loaded(name));
        Self {
            logs: logs.map(|name| name.offset).collect(),
            unfinished,
        }
    }

    pub(super) fn kind(&self, name: &str, is_metadata: bool) -> UsageKind {
        let Some(found) = FileName::parse(name) else {
            return Self::other(name, is_metadata);
        };
        let is_active = self.logs.last() == Some(&found.offset);
        match (found.state, found.kind) {
            (FileState::Deleted, _) => UsageKind::Deleted,
            (FileState::Cleaned, _) => UsageKind::Cleaned,
            (FileState::Swap, _) if self.unfinished.is_some_and(|at| found.offset >= at) => {
                UsageKind::Cleaned
            }
            (FileState::Swap, _) => UsageKind::Swap,
            (FileState::Live, _) if is_metadata => UsageKind::MetadataLog,
            (FileState::Live, FileKind::Log) => UsageKind::Log,
            (FileState::Live, FileKind::Snapshot) => UsageKind::Snapshot,
            (FileState::Live, _) if !self.logs.contains(&found.offset) => UsageKind::OrphanIndex,
            (FileState::Live, FileKind::OffsetIndex | FileKind::TimeIndex) if is_active => {
                UsageKind::ActiveIndex
            }
            (FileState::Live, _) => UsageKind::Index,
        }
    }

    /// Anything but a segment's file. Kafka takes no other file ending in `.deleted` for its own, except of a snapshot of
    /// the metadata (`Snapshots.deleteIfExists`).
    fn other(name: &str, is_metadata: bool) -> UsageKind {
        let written = name.strip_suffix(".tmp").unwrap_or(name);
        if is_metadata && base_offset(name).is_some() && name.ends_with(".checkpoint.deleted") {
            UsageKind::Deleted
        } else if is_metadata && base_offset(name).is_some() && name.ends_with(".checkpoint.part") {
            UsageKind::Cleaned
        } else if is_metadata {
            UsageKind::MetadataLog
        } else if matches!(written, LEADER_EPOCH_CHECKPOINT | PARTITION_METADATA) {
            UsageKind::PartitionFile
        } else {
            UsageKind::Foreign
        }
    }
}
