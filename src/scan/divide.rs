//! A planned range, divided into parts at given offsets.
//!
//! Every part begins inside a segment at a position from the offset index, and ends by offset. Both parts read a batch
//! that crosses a border, and each returns its side of it.

use super::range::{PartitionRange, SegmentRange};
use crate::error::Result;
use crate::io::storage::Folder;
use crate::segment::lookup::SegmentLookup;
use crate::types::{Offset, Position};

/// Cuts a range before each of `borders`, which ascend; borders outside of it cut nothing.
///
/// # Errors
/// `Io`, or faults in the headers on the way from an index entry to a border.
pub(crate) fn divide(range: &PartitionRange, borders: &[Offset]) -> Result<Vec<PartitionRange>> {
    let end = range.end_offset.unwrap_or(Offset::MAX);
    let mut starts = vec![range.start_offset];
    starts.extend(
        borders
            .iter()
            .filter(|&&border| border > range.start_offset && border < end),
    );
    let mut parts = Vec::with_capacity(starts.len());
    for (n, &start) in starts.iter().enumerate() {
        let end = starts
            .get(n.saturating_add(1))
            .copied()
            .or(range.end_offset);
        let mut segments = Vec::new();
        for segment in &range.segments {
            let lies_below = segment.next_base_offset.is_some_and(|next| next <= start);
            let lies_above = end.is_some_and(|end| segment.base_offset >= end);
            if lies_below || lies_above {
                continue;
            }
            let mut segment = segment.clone();
            if start > range.start_offset && start > segment.base_offset {
                segment.start_position = start_position(&range.folder, &segment, start)?;
            }
            segments.push(segment);
        }
        if !segments.is_empty() {
            parts.push(PartitionRange {
                start_offset: start,
                end_offset: end,
                segments,
                ..range.clone()
            });
        }
    }
    Ok(parts)
}

/// Finds the position at which records from `offset` on begin, never before the segment's own start.
fn start_position(folder: &Folder, segment: &SegmentRange, offset: Offset) -> Result<Position> {
    let found = SegmentLookup::open(&segment.segment(folder))?.start_position(offset)?;
    Ok(found.max(segment.start_position))
}
