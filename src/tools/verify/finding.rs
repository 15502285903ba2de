//! Findings of verification: place, severity, meaning and advice.
//!
//! Codes are a contract: scripts match on them. A code has one severity and one piece of advice, so both are in one
//! table, which `guides/damage.md` repeats and a test compares.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Error, FaultKind};
use crate::types::{Offset, Position, TopicPartition};

/// Findings of one code in one file, beyond which they are only counted: a file of noise would fill the memory.
const MAX_OF_A_CODE: usize = 100;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Severity {
    /// Normal for a running, stopped or killed broker; worth knowing.
    Info,
    /// A broker starts and serves every record, but a file says something wrong or misses something.
    Warning,
    /// Records are lost or unreadable, answers are wrong, or a broker does not start with it.
    Error,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A kind of finding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Code {
    /// In kebab-case.
    pub name: &'static str,
    /// Severity of the finding.
    pub severity: Severity,
    /// Advice to the user.
    pub advice: &'static str,
}

macro_rules! codes {
    ($($id:ident $name:literal $severity:ident $advice:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub(super) const $id: &Code = &Code {
                name: $name,
                severity: Severity::$severity,
                advice: $advice,
            };
        )+
        /// Every code.
        pub(crate) const CODES: &[&Code] = &[$($id),+];
    };
}

const _: () = assert!(!CODES.is_empty());

// What Kafka does was read in its classes, named above each line, up to 4.3; `tests/interop/test_advice.py` asks its
// `LogManager` what a start does.
codes! {
    // DefaultRecordBatch.ensureValid, LegacyRecord.ensureValid: consumers fail, LogSegment.recover cuts from here on.
    BATCH_CRC "batch-crc" Error "the bytes changed after they were written; continue with on_corrupt=\"skip\", or restore the segment from a replica";
    // FileLogInputStream.nextBatch throws or ends; LogSegment.recover cuts.
    BATCH_LENGTH "batch-length" Error "Kafka stops reading here, and its recovery cuts off everything after it; kafkalog recover --salvage keeps the batches after it";
    // FileLogInputStream.nextBatch, DefaultRecordBatch.ensureValid
    BATCH_MAGIC "batch-magic" Error "unknown record format; kafkalog recover --salvage keeps the other batches, or restore the segment from a replica";
    // OffsetIndex.append (InvalidOffsetException), LogSegment.ensureOffsetInRange
    BATCH_ORDER "batch-order" Error "the batch is out of place; kafkalog recover --salvage keeps the other batches, or restore the segment from a replica";
    // DefaultRecord.readFrom (InvalidRecordException), in consumers and the cleaner; loading reads headers alone.
    BATCH_RECORDS "batch-records" Error "consumers fail on this batch although its checksum holds: its writer was faulty; skip it";
    // Compression.wrapForInput, as above
    BATCH_CODEC "batch-codec" Error "consumers fail on this batch although its checksum holds: it cannot be decompressed; skip it";
    // FileLogInputStream.nextBatch ends where the size leads beyond the file.
    BATCH_TORN "batch-torn" Error "the rest of the batch is gone; restore the segment from a replica";
    BATCH_FOREIGN "batch-foreign" Error "bytes that do not belong to the log; kafkalog recover --salvage keeps the batches around them, or restore the segment from a replica";
    // ProducerAppendInfo.appendDataBatch (InvalidTxnStateException), EndTransactionMarker.deserialize
    // (IllegalArgumentException), both of LogSegment.recover and UnifiedLog.loadProducersFromRecords
    BATCH_TRANSACTION "batch-transaction" Error "a broker that reads this batch at its start does not load the log; kafkalog recover --salvage leaves it out";
    // DefaultRecordBatch.iterator counts on the header alone.
    BATCH_OFFSETS "batch-offsets" Error "record offsets contradict the header: its writer was faulty; consumers may skip or repeat records";
    // TimeIndex.maybeAppend, by DefaultRecordBatch.maxTimestamp
    BATCH_TIMESTAMP "batch-timestamp" Warning "lookups by timestamp and retention use the header; nothing to repair";
    // DefaultRecord.readFrom: any length below 0 is null.
    BATCH_NULL_LENGTH "batch-null-length" Warning "read as null; its writer was faulty";
    BATCH_LEVEL "batch-level" Error "a broker of this version cannot read it; use a newer one";
    // FileRecords.<init> (KafkaException)
    SEGMENT_SIZE "segment-size" Error "Kafka opens no segment above 2 GiB; salvage or truncate it";
    // UnifiedLog.read continues with the next segment; LogLoader does not compare neighbours.
    SEGMENT_MISSING "segment-missing" Error "a broker loads the log without these records and reports no error; restore the segment from a replica";
    // LogSegment.recover, LogLoader.recoverLog
    TORN_TAIL "torn-tail" Warning "left by a crash during a write; a broker that recovers the log cuts it off, with the segments after it, if any: kafkalog recover --salvage keeps those";
    // FileRecords.open (preallocate), LogSegment.recover
    ZERO_TAIL "zero-tail" Info "space that a broker preallocated, left by a crash; recovery cuts it off";
    // LogLoader.recoverLog, from the recovery point on; elsewhere FileLogInputStream.nextBatch
    // (CorruptRecordException).
    ZERO_TAIL_CLOSED "zero-tail-closed" Warning "nothing is lost: a power cut left it; a broker that recovers the segment cuts it off with all segments after it, one that stopped cleanly or had flushed the segment leaves it, and its consumers fail there; kafkalog recover refuses the first and leaves the second, recover --salvage cuts the zeros alone";
    // LogLoader.recoverLog recovers nothing after a clean stop, and FileRecords.append continues after the zeros.
    ZERO_TAIL_CLEAN "zero-tail-clean" Error "the clean-shutdown marker is wrong: remove it so that the broker recovers the log";
    // LogLoader.loadSegmentFiles, LogSegment.sanityCheck: without .index the segment is recovered; a new .timeindex
    // alone is cut to 0.
    INDEX_MISSING "index-missing" Info "a broker rebuilds all indexes of a segment without .index at its start; a .timeindex alone it leaves empty: rebuild the indexes";
    // AbstractIndex.<init> maps whole entries; only TransactionIndex.sanityCheck runs at a start.
    INDEX_LENGTH "index-length" Warning "rebuild the indexes";
    INDEX_ORDER "index-order" Error "rebuild the indexes";
    INDEX_POSITION "index-position" Error "rebuild the indexes";
    // LogSegment.translateOffset, LogSegment.findOffsetByTimestamp
    INDEX_OFFSET "index-offset" Error "lookups miss records; rebuild the indexes";
    // LogSegment.readNextOffset: no batch at the last entry is no batch at all.
    INDEX_BEYOND_LOG "index-beyond-log" Error "a broker may take the log for shorter or empty; rebuild the indexes";
    // AbstractIndex.<init> (maxIndexSize), AbstractIndex.trimToValidSize
    INDEX_ZERO_TAIL "index-zero-tail" Info "space that a broker preallocated, left by a crash; lookups are slower, never wrong";
    // LogLoader.loadSegmentFiles
    INDEX_ORPHAN "index-orphan" Warning "its .log is missing, which may be a lost segment; a broker deletes the file at its start";
    // LogSegment.largestTimestamp
    TIME_INDEX_EMPTY "time-index-empty" Info "written before 0.10.1, or replaced by a broker: retention uses the file's modification time; rebuild the indexes";
    // LogSegment.findOffsetByTimestamp, UnifiedLog.fetchOffsetByTimestamp
    TIME_INDEX_INCOMPLETE "time-index-incomplete" Warning "lookups by timestamp may skip the segment; rebuild the indexes";
    // LogSegment.collectAbortedTxns, by which consumers leave records out
    TXN_INDEX_MISSING_ENTRY "txn-index-missing-entry" Error "read_committed consumers get aborted records; rebuild the indexes";
    TXN_INDEX_ENTRY "txn-index-entry" Error "read_committed consumers may lose or gain records; rebuild the indexes";
    // ProducerStateManager.loadFromSnapshot (CorruptSnapshotException)
    SNAPSHOT_UNREADABLE "snapshot-unreadable" Warning "a broker deletes it and reads the log instead; rebuild the indexes";
    // ProducerAppendInfo.checkSequence, ProducerStateEntry.findDuplicateBatch
    SNAPSHOT_OUTDATED "snapshot-outdated" Warning "producers may be refused, or duplicates taken; rebuild the indexes";
    // ProducerStateManager.firstUnstableOffset
    SNAPSHOT_TRANSACTION "snapshot-transaction" Warning "the last stable offset may be wrong; rebuild the indexes";
    // ProducerStateManager.removeStraySnapshots
    SNAPSHOT_STRAY "snapshot-stray" Info "a broker deletes it at its start";
    // CheckpointFile.read, LeaderEpochFileCache.<init> (IllegalArgumentException); kafkalog recover ends there, too.
    EPOCHS_UNREADABLE "epochs-unreadable" Error "a broker does not load the log; kafkalog recover --salvage writes the file again from the log";
    // LeaderEpochFileCache.assign removes the entries before that are not below the next one.
    EPOCHS_ORDER "epochs-order" Warning "a broker drops entries that do not lie below the ones after them";
    // LeaderEpochFileCache.endOffsetFor; LogSegment.recover writes entries of what it recovers alone.
    EPOCHS_MISMATCH "epochs-mismatch" Warning "a follower may truncate at the wrong offset; remove the file and rebuild the indexes, which writes it again from the log";
    // LogLoader.load (truncateFromEndAsyncFlush)
    EPOCHS_BEYOND_END "epochs-beyond-end" Warning "records of this epoch are missing, or were cut; a broker drops the entry at its start";
    // CheckpointFileWithFailureHandler.read takes the log dir offline; without a file LogManager.loadLogs uses offset
    // 0.
    CHECKPOINT_UNREADABLE "checkpoint-unreadable" Error "a broker takes the log dir offline; remove the file: a broker then begins at offset 0 or at the first segment";
    // UnifiedLog.updateHighWatermark, LogLoader.load: a log start above the end drops the log.
    CHECKPOINT_BEYOND_END "checkpoint-beyond-end" Error "the log has lost its end, or belongs to another time than the checkpoint; restore it from a replica";
    // UnifiedLog.updateHighWatermark, LogCleanerManager.cleanableOffsets
    CHECKPOINT_ORDER "checkpoint-order" Warning "a broker moves the offset into the log when it first uses it";
    // LogManager.checkpointRecoveryOffsetsInDir, ReplicaManager.checkpointHighWatermarks,
    // LogCleanerManager.updateCheckpoints
    CHECKPOINT_STALE "checkpoint-stale" Info "a broker removes the line when it next writes the file";
    // LogManager.loadLog (IllegalStateException)
    DUPLICATE_PARTITION "duplicate-partition" Error "a broker does not start with it; move the shorter or older folder away";
    // MetaPropertiesEnsemble.Loader.load, KafkaRaftServer.initializeLogDirs; PartitionMetadataFile.read takes the log
    // dir offline.
    IDENTITY_UNREADABLE "identity-unreadable" Error "a broker does not start with it, or takes the log dir offline; restore it, or write it again with the ids of the others";
    // KafkaRaftServer.initializeLogDirs; before KRaft KafkaServer.startup wrote it.
    IDENTITY_MISSING "identity-missing" Info "a broker writes it, or the directory must be formatted first";
    // MetaPropertiesEnsemble.verify; of a topic's id LogManager.isStrayKraftReplica
    IDENTITY_MISMATCH "identity-mismatch" Error "the directory or folder belongs elsewhere; a broker does not start with it, or sets the folder aside as -stray";
    // LogManager.isStrayKraftReplica, LogManager.loadLog (renameDir)
    TOPIC_DELETED "topic-deleted" Warning "the topic was deleted, or the folder is another cluster's; a broker sets it aside as -stray at its start and serves none of it: export what is still wanted";
    TOPIC_RECREATED "topic-recreated" Warning "the topic was deleted and created again; a broker sets this folder aside as -stray at its start and serves none of it: export what is still wanted";
    TOPIC_ID_MISSING "topic-id-missing" Warning "a broker sets the folder aside as -stray at its start; write partition.metadata with this id again";
    PARTITION_UNKNOWN "partition-unknown" Warning "the folder is another cluster's, or the metadata log has lost its end; a broker sets it aside as -stray at its start and serves none of it: export what is still wanted";
    REPLICA_MOVED "replica-moved" Warning "the partition was reassigned to other brokers; a broker sets it aside as -stray at its start and serves none of it: export what they do not have";
    // PartitionRegistration.isr; ReplicaFetcherThread truncates it to its leader.
    REPLICA_OUT_OF_SYNC "replica-out-of-sync" Info "its end may lack committed records; prefer a replica of the ISR";
    // Partition.createLogIfNotExists
    REPLICA_MISSING "replica-missing" Error "a broker creates it empty at its start; unless another replica is in sync its records are lost: restore the folder first";
    REPLICA_NOT_CREATED "replica-not-created" Info "a broker creates it at its start";
    // FileQuorumStateStore.readElectionState
    QUORUM_STATE_UNREADABLE "quorum-state-unreadable" Error "a controller does not start with it; remove it if the other voters are healthy";
    // RecordsSnapshotReader, MetadataLoader.handleLoadSnapshot, BootstrapDirectory.readFromBinaryFile
    METADATA_SNAPSHOT "metadata-snapshot" Error "a controller cannot load it; copy it from another controller, or remove it if an older snapshot and the log after it cover it";
    // KafkaMetadataLog.apply ("Inconsistent snapshot state"), KafkaRaftClient.updateListenersProgress
    METADATA_GAP "metadata-gap" Error "a controller does not start, or lacks these changes: restore the files from another controller, or let kafkalog rescue name what is missing";
    // KafkaMetadataLog.apply (truncateToLatestSnapshot); of an end that nothing shows Kafka knows nothing.
    METADATA_CUT "metadata-cut" Warning "a controller starts without these changes and gets them from the other voters if they have them; otherwise copy the folder from one that does";
    // MetadataDelta.replay, MetadataRecordSerde.read; MetadataLoader's fault handler ends a controller.
    METADATA_RECORD "metadata-record" Error "a controller ends at this record; restore the metadata log from another one";
    METADATA_UNKNOWN "metadata-unknown" Warning "a newer Kafka wrote the record: topics, explain, rescue and the like leave it out; use a newer kafkalog";
    // LogLoader.removeTempFilesAndCollectSwapFiles and LogManager.loadLog (.deleted, .cleaned, .swap, -delete),
    // ReplicaManager.maybeAddLogDirFetchers (-future), KafkaMetadataLog.recoverSnapshots (.part), CheckpointFile.write
    // (.tmp: the next one writes over it)
    LEFTOVER "leftover" Info "a broker finishes, removes or overwrites it";
    // LogManager.addStrayLog: it is loaded, not served, and kept.
    STRAY_FOLDER "stray-folder" Info "a broker serves none of it and never removes it: export what is still wanted, then delete it";
    // LogLoader.load renames swaps whatever is in them.
    SWAP_LACKS_BATCHES "swap-lacks-batches" Warning "a broker puts it in the place of segments that hold more: unless compaction made it, move it away, or salvage";
    // LogLoader.removeTempFilesAndCollectSwapFiles, LogSegment.readNextOffset (CorruptRecordException)
    SWAP_UNREADABLE "swap-unreadable" Error "a broker does not start with it, because it reads it to find the end of its batches; move it away, or salvage";
    // LogFileUtils.offsetFromFileName (NumberFormatException)
    FILE_NAME "file-name" Error "a broker does not load the log: it parses the part before the first dot as an offset of 20 digits; move the file away";
    // CleanShutdownFileHandler.read
    CLEAN_SHUTDOWN_CONTENT "clean-shutdown-content" Info "only its existence counts; a broker gets no epoch from it";
    PENDING_JOB "pending-job" Warning "a Spark job is appending, or died: run it again, or open the log dir with kafkalog.LogWriter, which takes back what it appended";
    UNFINISHED_OUTPUT "unfinished-output" Warning "a command was killed while it wrote here: run it again with the same source, or delete the directory";
    // LogLoader.loadSegmentFiles, LogManager.loadLogs (directories alone)
    UNKNOWN_FILE "unknown-file" Info "not Kafka's; a broker leaves it alone";
    // UnifiedLog.parseTopicPartitionName (KafkaException), in LogManager.loadLogs
    UNKNOWN_FOLDER "unknown-folder" Error "a broker does not start with a folder in its log dir that is not a partition's; move it away";
    // UnifiedLog.parseTopicPartitionName checks no topic name; LogManager.isStrayKraftReplica knows no such topic.
    FOLDER_NAME "folder-name" Warning "a broker takes it for a partition of a topic with an invalid name, and sets it aside as -stray at its start; move it away";
    // LogLoader.removeTempFilesAndCollectSwapFiles (IOException): the log dir goes offline.
    UNREADABLE "unreadable" Error "the disk or its permissions; copy the directory with a tool that reads past errors";
    MORE "more" Info "findings of the same kind were left out";
}

/// Something found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file or folder.
    pub file: PathBuf,
    /// Position of the first byte, if it has a place.
    pub position: Option<Position>,
    /// Position after the last byte.
    pub end: Option<Position>,
    /// The kind.
    pub code: &'static Code,
    /// Partition, if it concerns one.
    pub topic_partition: Option<TopicPartition>,
    /// The first offset it is about.
    pub offset: Option<Offset>,
    /// Description of the fault: the expected and the actual value.
    pub message: String,
}

impl Finding {
    /// One about a file as a whole.
    #[must_use]
    pub(super) fn new(code: &'static Code, file: &Path, message: impl Into<String>) -> Self {
        Self {
            file: file.to_path_buf(),
            position: None,
            end: None,
            code,
            topic_partition: None,
            offset: None,
            message: message.into(),
        }
    }

    /// Converts an error about `file` to a finding under `code`; [`UNREADABLE`] if it is the operating system's.
    #[must_use]
    pub(super) fn of_error(code: &'static Code, file: &Path, error: &Error) -> Self {
        match (error, error.as_fault()) {
            (_, Some(fault)) => Self {
                position: fault.location.position,
                offset: fault.location.offset,
                ..Self::new(code, file, fault.text())
            },
            // The file is named before the message.
            (Error::Io { source, .. }, _) => Self::new(UNREADABLE, file, source.to_string()),
            (other, _) => Self::new(code, file, other.to_string()),
        }
    }

    /// Says where it begins.
    #[must_use]
    pub(super) const fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// Says where it ends.
    #[must_use]
    pub(super) const fn to(mut self, end: Position) -> Self {
        self.end = Some(end);
        self
    }

    /// Says which offset it is about.
    #[must_use]
    pub(super) const fn of(mut self, offset: Offset) -> Self {
        self.offset = Some(offset);
        self
    }
}

/// Findings about one partition, or none.
#[derive(Debug, Default)]
pub(super) struct Findings {
    topic_partition: Option<TopicPartition>,
    found: Vec<Finding>,
    /// Number of findings of a code in a file.
    counts: BTreeMap<(PathBuf, &'static str), usize>,
}

impl Findings {
    /// Of a partition.
    #[must_use]
    pub(super) fn about(topic_partition: &TopicPartition) -> Self {
        Self {
            topic_partition: Some(topic_partition.clone()),
            ..Self::default()
        }
    }

    /// Adds one, or counts it where there are very many like it.
    pub(super) fn add(&mut self, finding: Finding) {
        let key = (finding.file.clone(), finding.code.name);
        let count = self.counts.entry(key).or_default();
        *count = count.saturating_add(1);
        if *count <= MAX_OF_A_CODE {
            self.found.push(Finding {
                topic_partition: finding
                    .topic_partition
                    .or_else(|| self.topic_partition.clone()),
                ..finding
            });
        }
    }

    /// All of them.
    #[must_use]
    pub(super) fn finish(self) -> Vec<Finding> {
        let mut found = self.found;
        for ((file, code), count) in &self.counts {
            if let Some(more) = count.checked_sub(MAX_OF_A_CODE).filter(|&more| more > 0) {
                found.push(Finding {
                    topic_partition: self.topic_partition.clone(),
                    ..Finding::new(MORE, file, format!("{more} more of {code}"))
                });
            }
        }
        found
    }
}

/// The code of an error about a batch.
pub(super) fn code_of(error: &Error) -> &'static Code {
    match (error, error.fault_kind()) {
        (Error::UnsupportedFormat(_), FaultKind::Magic) => BATCH_MAGIC,
        (Error::UnsupportedFormat(_), _) => BATCH_CODEC,
        (Error::InvalidRecord(_), _) | (_, FaultKind::RecordsCount) => BATCH_RECORDS,
        (_, FaultKind::Crc) => BATCH_CRC,
        (_, FaultKind::Length) => BATCH_LENGTH,
        (_, FaultKind::Torn) => BATCH_TORN,
        (_, FaultKind::SegmentSize) => SEGMENT_SIZE,
        (_, FaultKind::Order) => BATCH_ORDER,
        _ => BATCH_CODEC,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_kinds_not_texts() {
        let said = |kind| Error::corrupt("any text", 0, 1, 2).of_kind(kind);
        for (kind, code) in [
            (FaultKind::Crc, BATCH_CRC),
            (FaultKind::Length, BATCH_LENGTH),
            (FaultKind::Torn, BATCH_TORN),
            (FaultKind::Order, BATCH_ORDER),
            (FaultKind::RecordsCount, BATCH_RECORDS),
            (FaultKind::SegmentSize, SEGMENT_SIZE),
            (FaultKind::Other, BATCH_CODEC),
        ] {
            assert_eq!(code_of(&said(kind)), code, "{kind:?}");
        }
        let magic = Error::unsupported("any text", 0, 1, 2).of_kind(FaultKind::Magic);
        assert_eq!(code_of(&magic), BATCH_MAGIC);
        assert_eq!(code_of(&Error::corrupt("crc", 0, 1, 2)), BATCH_CODEC);
    }
}
