//! One partition.

use std::path::Path;

use super::absolute;
use super::reader::RecordReader;
use super::scan::{ScanOptions, scan, scan_batches};
use crate::error::Result;
use crate::log::partition::{self, Lookup, OffsetAndTimestamp};
use crate::segment::skipping::OnCorrupt;
use crate::segment::statistics::SegmentStatistics;
use crate::types::{Offset, TimestampMs};

/// One segment as it was when its folder was listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Base offset, from the file's name.
    pub base_offset: Offset,
    /// Name of the `.log` file.
    pub file_name: String,
    /// Bytes of the `.log` file.
    pub size: u64,
    /// True if it is the last one, to which a broker appends.
    pub is_active: bool,
    /// Modification time of the `.log` file.
    pub modified_ms: TimestampMs,
}

/// One partition folder, with the answers that a broker would give after loading it. Nothing in it is written.
///
/// It can be used while a broker runs: if the broker has replaced files in the meantime, the folder is listed again and
/// the lookup is repeated on the new files.
///
/// ```
/// # fn main() -> Result<(), kafkalog::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/clean-restarts/data-1/orders-0");
/// let log = kafkalog::PartitionLog::open(path)?;
/// let end = log.log_end_offset()?;
/// if let Some(found) = log.lookup(log.log_start_offset())? {
///     println!("first record at byte {} of segment {}", found.position, found.segment_base_offset);
/// }
/// # assert!(end > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PartitionLog(partition::PartitionLog);

impl PartitionLog {
    /// Opens a partition folder and reads the checkpoints of the log dir above it.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) where it does not exist;
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) where it is not a partition folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        partition::PartitionLog::open(&absolute(path.as_ref())?).map(Self)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.0.name().topic_partition.topic
    }

    /// The partition's number.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.0.name().topic_partition.partition
    }

    /// The topic's id, from `partition.metadata`.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), [`Error::CorruptIndex`](crate::Error::CorruptIndex).
    pub fn topic_id(&self) -> Result<Option<String>> {
        self.0.topic_id()
    }

    /// The segments, in order.
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        let segments = self.0.segments().iter();
        segments
            .map(|segment| Segment {
                base_offset: segment.base_offset,
                file_name: segment.file_name.clone(),
                size: segment.size,
                is_active: segment.is_active,
                modified_ms: segment.modified_ms,
            })
            .collect()
    }

    /// The first offset that a consumer may read.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.0.log_start_offset()
    }

    /// The offset after the last whole batch.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), and a fault in a header of the active segment.
    pub fn log_end_offset(&self) -> Result<Offset> {
        self.0.log_end_offset()
    }

    /// Returns the last stable offset, at which a `read_committed` consumer stops: the first offset of the first open
    /// transaction, or the log end.
    ///
    /// # Errors
    /// As [`PartitionLog::log_end_offset`].
    pub fn last_stable_offset(&self) -> Result<Offset> {
        self.0.last_stable_offset()
    }

    /// The checkpointed high watermark.
    #[must_use]
    pub fn high_watermark(&self) -> Option<Offset> {
        self.0.high_watermark()
    }

    /// The first record at or after `offset`; `None` at the log end.
    ///
    /// # Errors
    /// [`Error::OffsetOutOfRange`](crate::Error::OffsetOutOfRange) below the log start offset or above the log end
    /// offset; [`Error::Io`](crate::Error::Io); faults in the bytes on the way.
    pub fn lookup(&self, offset: Offset) -> Result<Option<Lookup>> {
        self.0.lookup(offset)
    }

    /// The first record at or after this timestamp, as Kafka's `ListOffsets` finds it.
    ///
    /// Like Kafka, it trusts the segments' largest timestamps;
    /// [`exact_offset_for_timestamp`](Self::exact_offset_for_timestamp) looks at the records.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a negative timestamp;
    /// [`Error::Io`](crate::Error::Io); faults in the bytes on the way.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: TimestampMs,
    ) -> Result<Option<OffsetAndTimestamp>> {
        self.0.offset_for_timestamp(timestamp_ms, false)
    }

    /// The first record at or after this timestamp, whatever the indexes say.
    ///
    /// # Errors
    /// As [`PartitionLog::offset_for_timestamp`].
    pub fn exact_offset_for_timestamp(
        &self,
        timestamp_ms: TimestampMs,
    ) -> Result<Option<OffsetAndTimestamp>> {
        self.0.offset_for_timestamp(timestamp_ms, true)
    }

    /// The first record with the largest timestamp; `None` if no record has one.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io); faults in the bytes on the way.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<OffsetAndTimestamp>> {
        self.0.offset_of_max_timestamp()
    }

    /// Computes statistics of each segment from its batch headers, in the order of the segments.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io), and a fault in a header.
    pub fn statistics(&self) -> Result<Vec<SegmentStatistics>> {
        let segments = self.0.statistics(OnCorrupt::Raise)?.into_iter();
        Ok(segments.map(|(_, sums)| sums).collect())
    }

    /// Scans the records of this partition.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn scan(&self, options: ScanOptions) -> Result<RecordReader> {
        scan(self.path(), options)
    }

    /// Scans the batches of this partition, one row each.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn scan_batches(&self, options: ScanOptions) -> Result<RecordReader> {
        scan_batches(self.path(), options)
    }
}
