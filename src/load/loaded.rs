//! Result of loading a partition.

use crate::format::entry::TimestampOffset;
use crate::log::epochs::LeaderEpochs;
use crate::producers::ProducerStateManager;
use crate::types::Offset;

/// A segment that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedSegment {
    /// Its base offset.
    pub base_offset: Offset,
    /// Bytes of its `.log` that count.
    pub size: u64,
    /// Its largest timestamp, where loading had to look at it: what truncation takes for the start, in Kafka.
    pub max_timestamp: Option<TimestampOffset>,
}

/// State of a broker after loading.
#[derive(Debug)]
pub struct LoadedLog {
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The next offset to be written.
    pub log_end_offset: Offset,
    /// First offset not known to be on disk.
    pub recovery_point: Offset,
    /// In order; there is at least one.
    pub segments: Vec<LoadedSegment>,
    /// Leader epochs.
    pub epochs: LeaderEpochs,
    /// Producers; their snapshots are those of the plan.
    pub producers: ProducerStateManager,
}
