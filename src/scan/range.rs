//! Ranges to read, as plain values: the contract between planning (here) and reading (`arrow::reader`).
//!
//! A range fixes every file's name and size as they were at planning, so that a retried Spark task reads the same
//! bytes.

use std::path::PathBuf;
use std::sync::Arc;

use crate::io::kept_map::KeptMap;
use crate::io::storage::ReadFolder;
use crate::segment::LogSegment;
use crate::segment::batches::Bounds;
use crate::segment::filter::{AbortedRange, TimestampBounds};
use crate::segment::offset_set::OffsetSet;
use crate::types::{Offset, Position};

/// Boundary between two readers inside a segment: the start of a batch of magic 2, which the log confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Position of the batch in the file.
    pub position: Position,
    /// Its base offset: all before it lie below, none after it does.
    pub offset: Offset,
}

/// One `.log` file, or a piece of it, as it was at planning.
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
    /// Position at which to begin: the start of a batch. Zero, or what the offset index says and the log confirms.
    pub start_position: u64,
    /// Base offset of the segment after it: all offsets in this one lie below. `None` for the last.
    pub next_base_offset: Option<Offset>,
    /// Under `read_committed` the aborted transactions that reach into it, sorted.
    pub aborted: Option<Arc<[AbortedRange]>>,
    /// Offsets below belong to another piece: the base offset, or the offset of the cut it begins at.
    pub start_offset: Offset,
    /// Start of the next piece; `None` reads to the end.
    pub end: Option<Cut>,
    /// The file's map, if planning made one: it does not outlive the process.
    pub map: KeptMap,
}

impl SegmentRange {
    /// Bytes that may have to be read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let end = self.end.map_or(self.size, |cut| cut.position);
        end.saturating_sub(self.start_position)
    }

    /// The offset that all of it lie below, if one is known.
    #[must_use]
    pub fn ceiling(&self) -> Option<Offset> {
        self.end.map(|cut| cut.offset).or(self.next_base_offset)
    }

    /// Of a piece, the offsets with which it and the next one begin.
    #[must_use]
    pub(crate) fn piece(&self) -> Option<(Offset, Option<Offset>)> {
        let is_piece = self.start_offset != self.base_offset || self.end.is_some();
        is_piece.then(|| (self.start_offset, self.end.map(|cut| cut.offset)))
    }

    /// Facts about it other than its bytes.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            base_offset: self.base_offset,
            next_base_offset: self.next_base_offset,
            is_active: self.is_active,
            end: self.end.map(|cut| cut.position),
        }
    }

    /// The segment as its folder's lister would have given it, with an offset index if there is one.
    #[must_use]
    pub fn segment(&self, folder: &Arc<dyn ReadFolder>) -> LogSegment {
        let mut segment = LogSegment::named(
            Arc::clone(folder),
            self.file_name.clone(),
            self.base_offset,
            self.size,
            0,
        );
        segment.is_active = self.is_active;
        segment.next_base_offset = self.next_base_offset;
        segment.has_offset_index = true;
        segment
    }
}

/// The partition of a segment whose name and folder say none; its topic is empty.
pub(crate) const NO_PARTITION: i32 = i32::MIN;

/// A topic, unless it is that of a segment whose topic is unknown.
#[must_use]
pub(crate) fn known_topic(topic: &str) -> Option<&str> {
    Some(topic).filter(|topic| !topic.is_empty())
}

/// A partition, unless it is [`NO_PARTITION`].
#[must_use]
pub(crate) fn known_partition(partition: i32) -> Option<i32> {
    Some(partition).filter(|&partition| partition != NO_PARTITION)
}

/// Consecutive segments of one partition, and which offsets of them count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Of the others only these, where it is known which are wanted.
    pub chosen: Option<Arc<OffsetSet>>,
    /// The files, in offset order.
    pub segments: Vec<SegmentRange>,
}

impl PartitionRange {
    /// Bytes that may have to be read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(SegmentRange::bytes)
            .fold(0, u64::saturating_add)
    }
}
