//! Up to where a log can be compacted, and whether it is worth it (`LogCleanerManager`, `LogToClean`).
//!
//! The offsets are those of [`CleanableOffsets`]; a pass takes whole segments.

use crate::error::Result;
use crate::io::storage::Storage;
use crate::log::cleanable::{CleanableOffsets, CleanerBound, is_young};
use crate::types::{Offset, TimestampMs};
use crate::write::{SegmentInfo, WritableLog};

/// What a pass over a log would do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleanable {
    /// Keys are taken in from here on.
    pub first_dirty_offset: Offset,
    /// And before this one.
    pub first_uncleanable_offset: Offset,
    /// Bytes of the segments before the first dirty offset.
    pub clean_bytes: u64,
    /// Bytes of the segments between both offsets.
    pub cleanable_bytes: u64,
    /// The offset at which the last pass ended is not in the log, and starts over.
    pub is_reset: bool,
    /// A record has waited for longer than `max.compaction.lag.ms`.
    pub is_overdue: bool,
}

impl Cleanable {
    /// Looks at a log whose last pass ended at `checkpoint`.
    ///
    /// # Errors
    /// `Io`; what is wrong with the first batch of a segment, or with a time index.
    pub fn of<S: Storage>(
        log: &mut WritableLog<S>,
        checkpoint: Option<Offset>,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        let offsets = log.log_start_offset()..=log.log_end_offset();
        let active = log.active_base_offset();
        // Everything from an open transaction or the high watermark on.
        let unstable = (CleanerBound::OpenTransaction, log.last_stable_offset());
        let bounds = [(CleanerBound::Active, active), unstable];
        let found = CleanableOffsets::of(&offsets, checkpoint, &bounds, |first_dirty| {
            first_young(log, first_dirty, now_ms)
        })?;
        let (first_dirty_offset, bound) = (found.first_dirty, found.first_uncleanable);
        let is_overdue = is_overdue(log, first_dirty_offset, now_ms)?;
        let uncleanable = log
            .inactive_from(bound)
            .first()
            .map(|first| first.base_offset);
        let first_uncleanable_offset = uncleanable.unwrap_or(active);
        let from = first_dirty_offset.min(first_uncleanable_offset);
        Ok(Self {
            first_dirty_offset,
            first_uncleanable_offset,
            clean_bytes: bytes(&log.segments_between(-1, first_dirty_offset)),
            cleanable_bytes: bytes(&log.segments_between(from, first_uncleanable_offset)),
            is_reset: found.is_reset,
            is_overdue,
        })
    }

    /// Share of the bytes that are dirty; not a number for an empty log.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "as in Kafka")]
    pub fn ratio(&self) -> f64 {
        self.cleanable_bytes as f64 / self.total_bytes() as f64
    }

    /// Bytes that a pass would look at.
    #[must_use]
    pub const fn total_bytes(&self) -> u64 {
        self.clean_bytes.saturating_add(self.cleanable_bytes)
    }

    /// Whether a cleaner would take the log (`LogCleanerManager.grabFilthiestCompactedLog`): dirty by more than
    /// `min.cleanable.dirty.ratio`, or overdue.
    #[must_use]
    pub fn is_due(&self, min_dirty_ratio: f64) -> bool {
        self.total_bytes() > 0
            && ((self.is_overdue && self.cleanable_bytes > 0) || self.ratio() > min_dirty_ratio)
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

/// Whether the first batch of a dirty segment is older than it may become (`maxCompactionDelay`).
fn is_overdue<S: Storage>(
    log: &WritableLog<S>,
    first_dirty_offset: Offset,
    now_ms: TimestampMs,
) -> Result<bool> {
    let until = now_ms.saturating_sub(log.config().max_compaction_lag_ms.max(0));
    let mut is_overdue = false;
    for segment in log.inactive_from(first_dirty_offset) {
        let mut segment = log.open_closed(segment.base_offset)?;
        // Kafka looks at all of them, and fails where one cannot be read.
        let first = segment.first_batch_timestamp()?;
        is_overdue |= first.is_some_and(|first| first > 0 && first < until);
        segment.close_handlers();
    }
    Ok(is_overdue)
}
