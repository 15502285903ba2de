//! Offsets missing between two segments: removed by the cleaner, or in a missing segment.
//!
//! A broker names a segment by the log end offset at that time, so without compaction segments follow each other
//! without a gap. Logs that are compacted:
//!
//! | sign | source |
//! |---|---|
//! | an internal topic other than `__cluster_metadata` | `Topic.isInternal`; brokers compact these |
//! | a line in `cleaner-offset-checkpoint` | `LogCleanerManager.updateCheckpoints` |
//! | a batch beside the gap with fewer records than offsets, or offsets missing before one | `Cleaner.cleanInto` |
//!
//! The last is for a folder that was copied without its log dir.

use super::dir::{CLEANER, read_parsed_in};
use super::listing;
use crate::format::batch::BatchHeader;
use crate::format::checkpoint::parse_offsets;
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, INTERNAL_TOPIC_PREFIX};
use crate::io::storage::Folder;
use crate::segment::LogSegment;
use crate::segment::source::Access;
use crate::types::{Offset, TopicPartition};

/// Returns whether compaction may have made the gap before `to` in the log of a partition folder.
pub(crate) fn may_be_compacted(folder: &Folder, name: &TopicPartition, to: Offset) -> bool {
    let is_internal =
        name.topic.starts_with(INTERNAL_TOPIC_PREFIX) && name.topic != CLUSTER_METADATA_TOPIC;
    is_internal || is_cleaned(folder, name) || has_compacted_neighbour(folder, to)
}

/// Returns whether the cleaner has been at the partition.
fn is_cleaned(folder: &Folder, name: &TopicPartition) -> bool {
    let offsets = read_parsed_in(&*folder.above(), CLEANER, parse_offsets)
        .ok()
        .flatten();
    offsets.is_some_and(|offsets| offsets.contains_key(name))
}

fn has_compacted_neighbour(folder: &Folder, to: Offset) -> bool {
    let segments = listing::segments(folder).unwrap_or_default();
    let beside = segments.iter().filter(|segment| {
        segment.base_offset == to || segment.next_base_offset.is_some_and(|next| next == to)
    });
    // Farther than one segment reaches: the work of a cleaner before 2.0 (KAFKA-6264).
    let is_far = |segment: &LogSegment| {
        let gap = to.saturating_sub(segment.base_offset);
        segment.base_offset < to && gap > i64::from(i32::MAX)
    };
    beside
        .into_iter()
        .any(|segment| is_far(segment) || is_compacted(segment))
}

/// Returns whether the headers of a segment show that records were taken out; what is damaged shows nothing.
fn is_compacted(segment: &LogSegment) -> bool {
    let Ok(source) = segment.open(Access::Headers) else {
        return false;
    };
    let mut batches = segment.batches(source, 0);
    let mut expected = segment.base_offset;
    while let Ok(Some((_, header))) = batches.next() {
        if has_room(&header, expected) {
            return true;
        }
        expected = header.next_offset();
    }
    false
}

/// Returns whether offsets are missing in a batch, or before it.
fn has_room(header: &BatchHeader, expected: Offset) -> bool {
    // A wrapper of magic 0 or 1 names its last offset alone.
    if header.is_legacy() {
        return !header.is_wrapper() && header.base_offset > expected;
    }
    let offsets = header.next_offset().saturating_sub(header.base_offset);
    header.base_offset > expected
        || header
            .records_count
            .is_some_and(|count| i64::from(count) < offsets)
}
