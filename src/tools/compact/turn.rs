//! A cleaner thread's turn with one log (`LogCleaner.CleanerThread.tryCleanFilthiestLog`): look, clean, note how far.

use std::path::Path;
use std::sync::PoisonError;

use super::cleanable::Cleanable;
use super::{Cleaner, CleanerStats};
use crate::error::{Error, Result};
use crate::format::checkpoint::parse_offsets;
use crate::io::disk::Disk;
use crate::log::dir::{CLEANER, read_parsed};
use crate::types::{Offset, TimestampMs, TopicPartition};
use crate::write::WritableLog;
use crate::write::checkpoints::set_cleaner;

/// What came of a turn.
#[derive(Debug)]
pub struct Turn {
    /// What there was to do.
    pub cleanable: Cleanable,
    /// What was done; `None` where it was not worth it.
    pub outcome: Option<Result<CleanerStats>>,
}

impl Cleaner {
    /// Takes a turn with a partition of a log dir. Where it fails, the offset up to which the log is compacted stays.
    ///
    /// # Errors
    /// Those of [`Cleanable::of`]; `CorruptIndex` for a checkpoint that cannot be read; `Io`. The pass's own are in the
    /// outcome.
    pub fn turn(
        &mut self,
        log_dir: &Path,
        partition: &TopicPartition,
        log: &mut WritableLog,
        disk: &Disk,
        now_ms: TimestampMs,
    ) -> Result<Turn> {
        let lines = read_parsed(&log_dir.join(CLEANER), parse_offsets)?.unwrap_or_default();
        let cleanable = Cleanable::of(log, lines.get(partition).copied(), now_ms)?;
        let first_dirty = cleanable.first_dirty_offset;
        if cleanable.is_reset {
            self.note(log_dir, partition, disk, first_dirty)?;
        }
        if !cleanable.is_due(log.config().min_cleanable_dirty_ratio) {
            return Ok(Turn {
                cleanable,
                outcome: None,
            });
        }
        let outcome = self.clean(log, &cleanable, now_ms);
        let end = outcome
            .as_ref()
            .map_or(first_dirty, |stats| stats.end_offset);
        match outcome {
            Err(error @ (Error::Io { .. } | Error::Interrupted)) => return Err(error),
            _ => self.note(log_dir, partition, disk, end)?,
        }
        Ok(Turn {
            cleanable,
            outcome: Some(outcome),
        })
    }

    /// Notes how far a partition is compacted; the other cleaners' lines stay.
    fn note(
        &self,
        log_dir: &Path,
        partition: &TopicPartition,
        disk: &Disk,
        offset: Offset,
    ) -> Result<()> {
        let held = self.checkpoint.lock();
        let _held = held.unwrap_or_else(PoisonError::into_inner);
        set_cleaner(disk, log_dir, partition, offset)
    }
}
