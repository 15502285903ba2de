//! What compaction makes of a segment, by the one rule of [`crate::log::cleanable`].

use super::Pin;
use crate::error::Result;
use crate::log::cleanable::{CleanableOffsets, CleanerBound, is_young};
use crate::log::config::LogConfig;
use crate::log::dir::PartitionFolder;
use crate::log::retention::{RetainedLog, SegmentAge};
use crate::tables::producers::Producers;
use crate::types::{Offset, TimestampMs};

/// The oldest open transaction of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenTransaction {
    producer_id: i64,
    first_offset: Offset,
    timestamp: Option<TimestampMs>,
}

impl OpenTransaction {
    pub(super) const fn pin(self) -> Pin {
        Pin {
            offset: self.first_offset,
            timestamp: self.timestamp,
            producer_id: Some(self.producer_id),
            reason: "open_transaction",
        }
    }
}

/// Finds the oldest open transaction of a partition, from its producer snapshot and the batches after it.
///
/// # Errors
/// As [`Producers::of_all`].
pub(super) fn open_transaction(folder: &PartitionFolder) -> Result<Option<OpenTransaction>> {
    let all = Producers::of_all(std::slice::from_ref(&folder.path))?;
    let open = all.iter().find_map(|partition| {
        let first_offset = partition.first_undecided?;
        let mut entries = partition.entries.iter();
        let producer =
            entries.find(|entry| entry.current_txn_first_offset() == Some(first_offset))?;
        Some(OpenTransaction {
            producer_id: producer.producer_id(),
            first_offset,
            timestamp: partition.timestamp_at(first_offset),
        })
    });
    Ok(open)
}

/// Which offsets compaction may look at, and what bounds them.
#[derive(Clone, Debug)]
pub(super) struct Range {
    offsets: CleanableOffsets,
    /// The first offset after each segment; `None` of the active one.
    ends: Vec<Option<Offset>>,
}

impl Range {
    /// `cleaned` is the offset in the cleaner's checkpoint; `None` where the topic is not compacted.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn of(
        cleaned: Option<Offset>,
        config: &LogConfig,
        log: &RetainedLog,
        ages: &[SegmentAge],
        open: Option<OpenTransaction>,
        now_ms: TimestampMs,
    ) -> Result<Option<Self>> {
        if !config.cleanup_policy.compact {
            return Ok(None);
        }
        let active = ages.last();
        let active = active.map_or(log.log_end_offset, |last| last.base_offset);
        let mut bounds = vec![
            (CleanerBound::Active, active),
            (CleanerBound::HighWatermark, log.high_watermark),
        ];
        bounds.extend(open.map(|open| (CleanerBound::OpenTransaction, open.first_offset)));
        let first_young = |first_dirty| {
            let mut closed = ages.iter().zip(ages.iter().skip(1));
            let young = closed.find(|(age, next)| {
                next.base_offset > first_dirty
                    && is_young(age.largest_timestamp, config.min_compaction_lag_ms, now_ms)
            });
            Ok(young.map(|(age, _)| age.base_offset))
        };
        let range = log.log_start_offset..=log.log_end_offset;
        let offsets = CleanableOffsets::of(&range, cleaned, &bounds, first_young)?;
        let next = ages.iter().skip(1).map(|age| Some(age.base_offset));
        Ok(Some(Self {
            offsets,
            ends: next.chain([None]).collect(),
        }))
    }

    /// What becomes of segment `n`, and what keeps it from being compacted. The cleaner takes whole segments.
    pub(super) fn verdict(&self, n: usize) -> (&'static str, Option<CleanerBound>) {
        let offsets = self.offsets;
        match self.ends.get(n).copied().flatten() {
            Some(end) if end <= offsets.first_dirty => ("clean", None),
            Some(end) if end <= offsets.first_uncleanable => ("dirty", None),
            // The lag is not what holds the active segment.
            None if offsets.bound == CleanerBound::MinLag => {
                ("uncleanable", Some(CleanerBound::Active))
            }
            Some(_) | None => ("uncleanable", Some(offsets.bound)),
        }
    }
}
