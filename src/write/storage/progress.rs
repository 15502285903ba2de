//! Offsets of a writer for the checkpoints of its log dir.

use crate::types::Offset;

/// Offsets of a partition, for the checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionProgress {
    /// The first offset that may not be on the device.
    pub recovery_point: Offset,
    /// The first offset that may be read, if it lies above the base of the first segment.
    pub log_start_offset: Option<Offset>,
    /// The first offset that is not replicated; the log end where there are no replicas.
    pub high_watermark: Offset,
}
