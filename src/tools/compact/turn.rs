//! A cleaner thread's turn with one log (`LogCleaner.CleanerThread.tryCleanFilthiestLog`): look, clean, note how far.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::cleanable::Cleanable;
use super::{Cleaner, CleanerStats};
use crate::error::{Error, Result};
use crate::format::checkpoint::parse_offsets;
use crate::io::disk::Disk;
use crate::io::storage::Storage;
use crate::log::dir::{CLEANER, read_parsed};
use crate::types::{Offset, TimestampMs, TopicPartition};
use crate::write::WritableLog;
use crate::write::checkpoints::set_cleaner;

/// Where it is noted up to which offset a partition is compacted.
pub trait CleanedTo {
    /// The offset, where there is one.
    ///
    /// # Errors
    /// `CorruptIndex` where it cannot be read; `Io`.
    fn get(&self) -> Result<Option<Offset>>;

    /// Notes another one.
    ///
    /// # Errors
    /// As [`CleanedTo::get`].
    fn set(&mut self, offset: Offset) -> Result<()>;
}

/// In memory alone.
impl CleanedTo for Option<Offset> {
    fn get(&self) -> Result<Self> {
        Ok(*self)
    }

    fn set(&mut self, offset: Offset) -> Result<()> {
        *self = Some(offset);
        Ok(())
    }
}

/// A partition's line in the checkpoint of a log dir.
#[derive(Debug)]
pub struct CleanerLine<'a> {
    /// The log dir.
    pub log_dir: &'a Path,
    /// Whose line.
    pub partition: &'a TopicPartition,
    /// The way to the file system.
    pub disk: &'a Disk,
    /// Held while the checkpoint is written, which has the other cleaners' lines, too.
    pub lock: &'a Mutex<()>,
}

impl CleanedTo for CleanerLine<'_> {
    fn get(&self) -> Result<Option<Offset>> {
        let lines = read_parsed(&self.log_dir.join(CLEANER), parse_offsets)?;
        Ok(lines.unwrap_or_default().get(self.partition).copied())
    }

    fn set(&mut self, offset: Offset) -> Result<()> {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        set_cleaner(self.disk, self.log_dir, self.partition, offset)
    }
}

/// What came of a turn.
#[derive(Debug)]
pub struct Turn {
    /// What there was to do.
    pub cleanable: Cleanable,
    /// What was done; `None` where it was not worth it.
    pub outcome: Option<Result<CleanerStats>>,
}

impl Cleaner {
    /// Takes a turn with a partition. Where it fails, the offset up to which the log is compacted stays.
    ///
    /// # Errors
    /// Those of [`Cleanable::of`]; `CorruptIndex` for a checkpoint that cannot be read; `Io`. The pass's own are in the
    /// outcome.
    pub fn turn<S: Storage>(
        &mut self,
        log: &mut WritableLog<S>,
        cleaned_to: &mut impl CleanedTo,
        now_ms: TimestampMs,
    ) -> Result<Turn> {
        let cleanable = Cleanable::of(log, cleaned_to.get()?, now_ms)?;
        let first_dirty = cleanable.first_dirty_offset;
        if cleanable.is_reset {
            cleaned_to.set(first_dirty)?;
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
            _ => cleaned_to.set(end)?,
        }
        Ok(Turn {
            cleanable,
            outcome: Some(outcome),
        })
    }
}
