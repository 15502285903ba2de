//! End of the part of a log that can be compacted, and whether compaction is worth it (`LogCleanerManager`,
//! `LogToClean`).
//!
//! The offsets are those of [`CleanableOffsets`]; a pass takes whole segments.

use crate::error::Result;
use crate::io::storage::Storage;
use crate::log::cleanable::{self, CleanableOffsets, CleanerBound, Dirtiness, is_young};
use crate::types::{Offset, TimestampMs};
use crate::write::{SegmentInfo, WritableLog};

/// Range and effect of a pass over a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleanable {
    /// Keys are taken in from here on.
    pub first_dirty_offset: Offset,
    /// And before this one.
    pub first_uncleanable_offset: Offset,
    /// Bytes before the first offset and between both.
    pub dirtiness: Dirtiness,
    /// The bound at the end of the range.
    pub bound: CleanerBound,
    /// The oldest open transaction: its producer, and where it begins.
    pub open_transaction: Option<(i64, Offset)>,
    /// The offset at which the last pass ended is not in the log, and starts over.
    pub is_reset: bool,
}

impl Cleanable {
    /// Looks at a log whose last pass ended at `checkpoint`.
    ///
    /// # Errors
    /// `Io`; a fault in the first batch of a segment, or with a time index.
    pub fn of<S: Storage>(
        log: &mut WritableLog<S>,
        checkpoint: Option<Offset>,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        let offsets = log.log_start_offset()..=log.log_end_offset();
        let active = log.active_base_offset();
        let open_transaction = log.first_undecided();
        let (start, stable) = (log.log_start_offset(), log.last_stable_offset());
        // A transaction whose end is not replicated holds the cleaner, too.
        let unstable = match open_transaction {
            Some((_, first)) if first.max(start) == stable.max(start) => {
                CleanerBound::OpenTransaction
            }
            _ => CleanerBound::HighWatermark,
        };
        let bounds = [(CleanerBound::Active, active), (unstable, stable)];
        let found = CleanableOffsets::of(&offsets, checkpoint, &bounds, |first_dirty| {
            first_young(log, first_dirty, now_ms)
        })?;
        let (first_dirty_offset, bound) = (found.first_dirty, found.first_uncleanable);
        let is_overdue = has_overdue(log, first_dirty_offset, now_ms)?;
        let uncleanable = log
            .inactive_from(bound)
            .first()
            .map(|first| first.base_offset);
        let first_uncleanable_offset = uncleanable.unwrap_or(active);
        let from = first_dirty_offset.min(first_uncleanable_offset);
        Ok(Self {
            first_dirty_offset,
            first_uncleanable_offset,
            dirtiness: Dirtiness {
                clean_bytes: bytes(&log.segments_between(-1, first_dirty_offset)),
                cleanable_bytes: bytes(&log.segments_between(from, first_uncleanable_offset)),
                is_overdue,
            },
            bound: found.bound,
            open_transaction,
            is_reset: found.is_reset,
        })
    }
}

fn bytes(segments: &[SegmentInfo]) -> u64 {
    segments
        .iter()
        .fold(0, |sum, each| sum.saturating_add(each.size))
}

/// The first dirty segment with a record that is too young (`findFirstUncleanableSegment`).
fn first_young<S: Storage>(
    log: &mut WritableLog<S>,
    first_dirty_offset: Offset,
    now_ms: TimestampMs,
) -> Result<Option<Offset>> {
    let lag_ms = log.config().min_compaction_lag_ms;
    if lag_ms <= 0 {
        return Ok(None);
    }
    for segment in log.inactive_from(first_dirty_offset) {
        if is_young(
            log.largest_or_modified_ms(segment.base_offset)?,
            lag_ms,
            now_ms,
        ) {
            return Ok(Some(segment.base_offset));
        }
    }
    Ok(None)
}

/// Returns whether the first batch of a dirty segment is older than it may become (`maxCompactionDelay`).
fn has_overdue<S: Storage>(
    log: &WritableLog<S>,
    first_dirty_offset: Offset,
    now_ms: TimestampMs,
) -> Result<bool> {
    let lag_ms = log.config().max_compaction_lag_ms;
    let mut found = false;
    for segment in log.inactive_from(first_dirty_offset) {
        let mut segment = log.open_closed(segment.base_offset)?;
        // Kafka looks at all of them, and fails where one cannot be read.
        let first = segment.first_batch_timestamp()?;
        found |= first.is_some_and(|first| cleanable::is_overdue(first, lag_ms, now_ms));
        segment.close_handlers();
    }
    Ok(found)
}
