//! A cleaner thread's turn with one log (`LogCleaner.CleanerThread.tryCleanFilthiestLog`): find the range, clean it,
//! store its end.

use std::path::Path;
use std::sync::Mutex;

use super::cleanable::Cleanable;
use super::{Cleaner, CleanerStats};
use crate::error::{Error, Result};
use crate::format::checkpoint::write_offsets;
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::io::storage::Storage;
use crate::io::threads::{into_inner, lock};
use crate::log::dir::{CLEANER, PartitionOffsets};
use crate::types::{Offset, TimestampMs, TopicPartition};
use crate::write::WritableLog;

/// The cleaner's checkpoint of a log dir, which is read once and written once for all its partitions.
#[derive(Debug)]
pub struct CleanerLines {
    /// As they were read.
    before: PartitionOffsets,
    lines: Mutex<PartitionOffsets>,
}

impl CleanerLines {
    /// Begins with these lines.
    #[must_use]
    pub fn new(lines: PartitionOffsets) -> Self {
        Self {
            before: lines.clone(),
            lines: Mutex::new(lines),
        }
    }

    /// The line of a partition.
    #[must_use]
    pub const fn line<'a>(&'a self, partition: &'a TopicPartition) -> CleanerLine<'a> {
        CleanerLine {
            lines: &self.lines,
            partition,
        }
    }

    /// Writes the checkpoint, if a line has changed.
    ///
    /// # Errors
    /// `Io`.
    pub fn write(self, disk: &Disk, log_dir: &Path) -> Result<()> {
        let lines = into_inner(self.lines);
        if lines == self.before {
            return Ok(());
        }
        atomic::replace(disk, &log_dir.join(CLEANER), &write_offsets(&lines))
    }
}

/// A partition's line in the checkpoint of a log dir: the offset up to which it is compacted.
#[derive(Clone, Copy, Debug)]
pub struct CleanerLine<'a> {
    lines: &'a Mutex<PartitionOffsets>,
    partition: &'a TopicPartition,
}

impl CleanerLine<'_> {
    fn get(self) -> Option<Offset> {
        lock(self.lines).get(self.partition).copied()
    }

    fn set(self, offset: Offset) {
        lock(self.lines).insert(self.partition.clone(), offset);
    }
}

/// Result of a turn.
#[derive(Debug)]
pub struct CleaningPass {
    /// Range of the compaction.
    pub cleanable: Cleanable,
    /// Statistics of the passes; `None` if compaction was not worth it.
    pub outcome: Option<Result<CleanerStats>>,
}

impl Cleaner {
    /// Takes a turn with a partition. Where it fails, the offset up to which the log is compacted stays.
    ///
    /// # Errors
    /// Those of [`Cleanable::of`]; `Io`. The pass's own are in the outcome.
    pub fn turn<S: Storage>(
        &mut self,
        log: &mut WritableLog<S>,
        cleaned_to: CleanerLine<'_>,
        now_ms: TimestampMs,
    ) -> Result<CleaningPass> {
        let cleanable = Cleanable::of(log, cleaned_to.get(), now_ms)?;
        let first_dirty = cleanable.first_dirty_offset;
        if cleanable.is_reset {
            cleaned_to.set(first_dirty);
        }
        if !cleanable
            .dirtiness
            .is_due(log.config().min_cleanable_dirty_ratio)
        {
            return Ok(CleaningPass {
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
            _ => cleaned_to.set(end),
        }
        Ok(CleaningPass {
            cleanable,
            outcome: Some(outcome),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::format::checkpoint::parse_offsets;

    #[test]
    fn the_checkpoint_is_written_once_and_only_if_a_line_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (log_dir, disk) = (folder.path(), Disk::default());
        let path = log_dir.join(CLEANER);
        let [one, other] = [0, 1].map(|n| TopicPartition::new("t", n));
        CleanerLines::new(BTreeMap::new())
            .write(&disk, log_dir)
            .unwrap();
        assert!(!path.exists());
        let lines = CleanerLines::new(BTreeMap::new());
        lines.line(&one).set(5);
        lines.line(&other).set(7);
        lines.line(&one).set(9);
        assert_eq!(lines.line(&one).get(), Some(9));
        assert!(!path.exists());
        lines.write(&disk, log_dir).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "0\n2\nt 0 9\nt 1 7\n"
        );
        let read = parse_offsets(&std::fs::read(&path).unwrap());
        let lines = CleanerLines::new(read.unwrap());
        assert_eq!(lines.line(&other).get(), Some(7));
        std::fs::remove_file(&path).unwrap();
        lines.line(&other).set(7);
        lines.write(&disk, log_dir).unwrap();
        assert!(!path.exists());
    }
}
