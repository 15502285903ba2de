//! What is to be read, as plain values: the contract between planning (here) and reading (`arrow::reader`).
//!
//! A range pins every file's name and size as they were at planning, so that a retried Spark task reads the same bytes.

use std::path::PathBuf;
use std::sync::Arc;

use crate::segment::filter::{AbortedRange, TimestampBounds};
use crate::types::Offset;

/// One `.log` file, as it was at planning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRange {
    /// Base offset, from the name.
    pub base_offset: Offset,
    /// Name of the file in the partition folder (`00000000000000000000.log`).
    pub file_name: String,
    /// Bytes of it that may be read.
    pub size: u64,
    /// The partition's last segment: read by copy, and a torn or zero tail is its end.
    pub is_active: bool,
    /// Where to begin: the start of a batch. Zero, or what the offset index says and the log confirms.
    pub start_position: u64,
    /// Base offset of the segment behind it: all offsets in this one lie below. `None` for the last.
    pub next_base_offset: Option<Offset>,
    /// Under `read_committed` the aborted transactions that reach into it, sorted; empty otherwise.
    pub aborted: Arc<[AbortedRange]>,
}

/// Consecutive segments of one partition, and which offsets of them count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRange {
    /// The partition folder.
    pub folder: PathBuf,
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// Records below are left out.
    pub start_offset: Offset,
    /// Records at or above are left out; `None` reads to the pinned end.
    pub end_offset: Option<Offset>,
    /// Records outside are left out.
    pub timestamps: TimestampBounds,
    /// The files, in offset order.
    pub segments: Vec<SegmentRange>,
}

impl PartitionRange {
    /// Bytes that may have to be read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|s| s.size.saturating_sub(s.start_position))
            .fold(0, u64::saturating_add)
    }
}
