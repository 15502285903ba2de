//! Effect of compaction on a segment, by the one rule of [`crate::log::cleanable`].

use super::Pin;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::log::cleanable::{CleanableOffsets, CleanerBound, Dirtiness, is_overdue, is_young};
use crate::log::config::LogConfig;
use crate::log::dir::{DirState, PartitionFolder};
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
/// As [`Producers::of`].
pub(super) fn open_transaction(
    folder: &PartitionFolder,
    dir: &DirState,
) -> Result<Option<OpenTransaction>> {
    let partition = Producers::of(folder.clone(), dir)?;
    let Some(first_offset) = partition.first_undecided else {
        return Ok(None);
    };
    let mut entries = partition.entries.iter();
    let producer = entries.find(|entry| entry.current_txn_first_offset() == Some(first_offset));
    Ok(producer.map(|producer| OpenTransaction {
        producer_id: producer.producer_id(),
        first_offset,
        timestamp: partition.timestamp_at(first_offset),
    }))
}

/// State of a partition for a cleaner.
#[derive(Clone, Copy, Debug)]
pub(super) struct CleanerState {
    /// End of its last pass; `None` if the cleaner's checkpoint does not have the partition.
    pub(super) cleaned: Option<Offset>,
    pub(super) dirtiness: Dirtiness,
    pub(super) is_due: bool,
}

/// Range of offsets that compaction may process, and its bounds.
#[derive(Clone, Debug)]
pub(super) struct Range {
    offsets: CleanableOffsets,
    cleaned: Option<Offset>,
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
            cleaned,
            ends: next.chain([None]).collect(),
        }))
    }

    /// Decides about segment `n`, and names the bound that keeps it from being compacted. The cleaner takes whole
    /// segments.
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

    /// Computes whether a cleaner would select the partition. `first` has the first batch of each segment.
    pub(super) fn cleaner(
        &self,
        ages: &[SegmentAge],
        first: &[Option<BatchHeader>],
        config: &LogConfig,
        now_ms: TimestampMs,
    ) -> CleanerState {
        let mut dirtiness = Dirtiness::default();
        for (n, (age, first)) in ages.iter().zip(first).enumerate() {
            let (word, _) = self.verdict(n);
            match word {
                "clean" => dirtiness.clean_bytes = dirtiness.clean_bytes.saturating_add(age.size),
                "dirty" => {
                    dirtiness.cleanable_bytes = dirtiness.cleanable_bytes.saturating_add(age.size);
                }
                _ => {}
            }
            let is_closed = self.ends.get(n).copied().flatten().is_some();
            dirtiness.is_overdue |= word != "clean"
                && is_closed
                && first.as_ref().is_some_and(|first| {
                    is_overdue(first.max_timestamp, config.max_compaction_lag_ms, now_ms)
                });
        }
        CleanerState {
            cleaned: self.cleaned,
            is_due: dirtiness.is_due(config.min_cleanable_dirty_ratio),
            dirtiness,
        }
    }
}
