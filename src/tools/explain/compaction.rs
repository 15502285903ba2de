//! What compaction makes of a segment (`LogCleanerManager.cleanableOffsets`).
//!
//! ```text
//! log start      first dirty offset      first uncleanable offset     log end
//!     |  clean          |        dirty             |      uncleanable     |
//! ```

use super::Pin;
use crate::error::Result;
use crate::format::checkpoint::parse_offsets;
use crate::log::config::LogConfig;
use crate::log::dir::{CLEANER, PartitionFolder, dir_above, read_parsed};
use crate::log::retention::{RetainedLog, SegmentAge};
use crate::tables::producers::Producers;
use crate::types::{Offset, TimestampMs};

/// Why compaction does not come to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompactionHold {
    Active,
    MinLag,
    OpenTransaction,
    HighWatermark,
}

impl CompactionHold {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::MinLag => "min_lag",
            Self::OpenTransaction => "open_transaction",
            Self::HighWatermark => "high_watermark",
        }
    }
}

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
    first_dirty: Offset,
    first_uncleanable: Offset,
    hold: CompactionHold,
    /// The first offset after each segment; `None` of the active one.
    ends: Vec<Option<Offset>>,
}

impl Range {
    /// `None` where the topic is not compacted.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` for a cleaner checkpoint that cannot be read.
    pub(super) fn of(
        folder: &PartitionFolder,
        config: &LogConfig,
        log: &RetainedLog,
        ages: &[SegmentAge],
        open: Option<OpenTransaction>,
        now_ms: TimestampMs,
    ) -> Result<Option<Self>> {
        if !config.cleanup_policy.compact {
            return Ok(None);
        }
        let checkpoint = dir_above(&folder.path).join(CLEANER);
        let cleaned = read_parsed(&checkpoint, parse_offsets)?.unwrap_or_default();
        let cleaned = cleaned.get(&folder.name.topic_partition).copied();
        let inside = |offset: &Offset| (log.log_start_offset..=log.log_end_offset).contains(offset);
        let first_dirty = cleaned.filter(inside).unwrap_or(log.log_start_offset);
        let active = ages
            .last()
            .map_or(log.log_end_offset, |last| last.base_offset);
        let lag = config.min_compaction_lag_ms;
        let young = ages.iter().zip(ages.iter().skip(1)).find(|(age, next)| {
            let is_dirty = next.base_offset > first_dirty;
            is_dirty && lag > 0 && age.largest_timestamp > now_ms.saturating_sub(lag)
        });
        let bounds = [
            Some((CompactionHold::Active, active)),
            young.map(|(age, _)| (CompactionHold::MinLag, age.base_offset)),
            open.map(|open| (CompactionHold::OpenTransaction, open.first_offset)),
            Some((CompactionHold::HighWatermark, log.high_watermark)),
        ];
        let least = bounds
            .into_iter()
            .flatten()
            .min_by_key(|(_, offset)| *offset);
        let (hold, bound) = least.unwrap_or((CompactionHold::Active, active));
        let next = ages.iter().skip(1).map(|age| Some(age.base_offset));
        Ok(Some(Self {
            first_dirty,
            first_uncleanable: bound.max(first_dirty),
            hold,
            ends: next.chain([None]).collect(),
        }))
    }

    /// What becomes of segment `n`, and what keeps it from being compacted. The cleaner takes whole segments.
    pub(super) fn verdict(&self, n: usize) -> (&'static str, Option<CompactionHold>) {
        match self.ends.get(n).copied().flatten() {
            Some(end) if end <= self.first_dirty => ("clean", None),
            Some(end) if end <= self.first_uncleanable => ("dirty", None),
            Some(_) => ("uncleanable", Some(self.hold)),
            None => {
                let is_held_before = self.hold != CompactionHold::MinLag;
                let hold = if is_held_before {
                    self.hold
                } else {
                    CompactionHold::Active
                };
                ("uncleanable", Some(hold))
            }
        }
    }
}
