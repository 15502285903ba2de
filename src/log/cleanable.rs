//! Range of offsets that the cleaner may process (`LogCleanerManager.cleanableOffsets`).
//!
//! ```text
//! log start      first dirty offset      first uncleanable offset     log end
//!     |  clean          |        dirty             |      uncleanable     |
//! ```
//!
//! A cleaner selects the dirtiest log, if it is dirty enough: [`Dirtiness`].
//!
//! | offset | is |
//! |---|---|
//! | first dirty | where the last pass ended; the log start where there was none, or its offset is not in the log |
//! | first uncleanable | the lowest bound: the active segment, an open transaction, the high watermark, the first dirty segment with a record younger than `min.compaction.lag.ms` |

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::types::{Offset, TimestampMs};

/// Bound that the cleaner cannot pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CleanerBound {
    /// The active segment.
    Active,
    /// `min.compaction.lag.ms`.
    MinLag,
    /// The oldest open transaction.
    OpenTransaction,
    /// Records that may not be replicated.
    HighWatermark,
}

impl CleanerBound {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::MinLag => "min_lag",
            Self::OpenTransaction => "open_transaction",
            Self::HighWatermark => "high_watermark",
        }
    }
}

/// A part of a log, by offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CleanableOffsets {
    /// Keys are taken in from here on.
    pub first_dirty: Offset,
    /// And before this one, which may lie inside of a segment.
    pub first_uncleanable: Offset,
    /// The bound at the end of the range.
    pub bound: CleanerBound,
    /// The offset at which the last pass ended is not in the log, and starts over.
    pub is_reset: bool,
}

impl CleanableOffsets {
    /// Of a log of these offsets whose last pass ended at `checkpoint`. `bounds` has the active segment's base and what
    /// else is known; `first_young` finds the base of the first segment, from the first dirty offset on, that the lag
    /// holds.
    ///
    /// # Errors
    /// Those of `first_young`.
    pub(crate) fn of(
        log: &RangeInclusive<Offset>,
        checkpoint: Option<Offset>,
        bounds: &[(CleanerBound, Offset)],
        first_young: impl FnOnce(Offset) -> Result<Option<Offset>>,
    ) -> Result<Self> {
        let first_dirty = checkpoint.filter(|offset| log.contains(offset));
        let first_dirty = first_dirty.unwrap_or(*log.start());
        let young = first_young(first_dirty)?.map(|base| (CleanerBound::MinLag, base));
        let all = bounds.iter().copied().chain(young);
        let (bound, offset) = all
            .min_by_key(|(bound, offset)| (*offset, *bound))
            .unwrap_or((CleanerBound::Active, *log.end()));
        Ok(Self {
            first_dirty,
            first_uncleanable: offset.max(first_dirty),
            bound,
            is_reset: checkpoint.is_some_and(|offset| offset != first_dirty),
        })
    }
}

/// Dirty part of a log (`LogToClean`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dirtiness {
    /// Bytes of the segments before the first dirty offset.
    pub clean_bytes: u64,
    /// Bytes of the segments between it and the first uncleanable one.
    pub cleanable_bytes: u64,
    /// A record has waited for longer than `max.compaction.lag.ms`.
    pub is_overdue: bool,
}

impl Dirtiness {
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

    /// Returns whether a cleaner would take the log (`LogCleanerManager.grabFilthiestCompactedLog`): dirty by more than
    /// `min.cleanable.dirty.ratio`, or overdue.
    #[must_use]
    pub fn is_due(&self, min_dirty_ratio: f64) -> bool {
        self.total_bytes() > 0
            && ((self.is_overdue && self.cleanable_bytes > 0) || self.ratio() > min_dirty_ratio)
    }
}

/// Returns whether a segment whose first batch has this timestamp has waited for longer than `max.compaction.lag.ms`
/// (`LogCleanerManager.maxCompactionDelay`).
#[must_use]
pub(crate) fn is_overdue(first: TimestampMs, lag_ms: i64, now_ms: TimestampMs) -> bool {
    first > 0 && first < now_ms.saturating_sub(lag_ms.max(0))
}

/// Returns whether the lag holds a segment with this largest timestamp; a lag of 0 holds none.
#[must_use]
pub(crate) const fn is_young(largest: TimestampMs, lag_ms: i64, now_ms: TimestampMs) -> bool {
    lag_ms > 0 && largest > now_ms.saturating_sub(lag_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bound_holds() {
        let of = |checkpoint, bounds: &[(CleanerBound, Offset)], young| {
            let found = CleanableOffsets::of(&(10..=90), checkpoint, bounds, |_| Ok(young));
            let found = found.unwrap();
            (
                found.first_dirty,
                found.first_uncleanable,
                found.bound,
                found.is_reset,
            )
        };
        let active = (CleanerBound::Active, 80);
        assert_eq!(
            of(None, &[active], None),
            (10, 80, CleanerBound::Active, false)
        );
        assert_eq!(
            of(Some(30), &[active], Some(50)),
            (30, 50, CleanerBound::MinLag, false)
        );
        for outside in [9, 91] {
            assert_eq!(
                of(Some(outside), &[active], None),
                (10, 80, CleanerBound::Active, true)
            );
        }
        let open = (CleanerBound::OpenTransaction, 20);
        assert_eq!(
            of(Some(30), &[active, open], None),
            (30, 30, CleanerBound::OpenTransaction, false)
        );
        assert!(is_young(100, 50, 149) && !is_young(100, 50, 150) && !is_young(100, 0, 0));
    }
}
