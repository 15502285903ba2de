//! First offset of each leader epoch (`LeaderEpochFileCache`, KIP-101, KIP-279).
//!
//! Entries rise strictly in both epoch and start offset. They are kept in `leader-epoch-checkpoint` and are on the device
//! before the batches of a new epoch are: a missing entry would be wrong, one too many is cut when the log is loaded.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::checkpoint::{EpochEntry, LEADER_EPOCH_CHECKPOINT, parse_epochs, write_epochs};
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::log::dir::read_parsed;
use crate::types::Offset;

/// Storage of the entries.
#[derive(Clone, Debug)]
struct Checkpoint {
    path: PathBuf,
    disk: Disk,
}

/// The leader epochs of one partition log.
#[derive(Clone, Debug)]
pub struct LeaderEpochs {
    entries: Vec<EpochEntry>,
    checkpoint: Option<Checkpoint>,
}

impl LeaderEpochs {
    /// Reads a partition folder's checkpoint; where there is none, an empty one is made.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` where Kafka would refuse the file; `InvalidArgument` for negative numbers in it.
    pub fn load(folder: &Path, disk: Disk) -> Result<Self> {
        let path = folder.join(LEADER_EPOCH_CHECKPOINT);
        let entries = if let Some(entries) = read_parsed(&path, parse_epochs)? {
            entries
        } else {
            drop(disk.create(&path)?);
            Vec::new()
        };
        let mut epochs = Self::in_memory(&entries)?;
        epochs.checkpoint = Some(Checkpoint { path, disk });
        Ok(epochs)
    }

    /// Epochs without a file. An entry that does not rise is replaced by the next one.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative epoch or offset.
    pub fn in_memory(entries: &[EpochEntry]) -> Result<Self> {
        let mut epochs = Self {
            entries: Vec::new(),
            checkpoint: None,
        };
        for &entry in entries {
            epochs.add(entry)?;
        }
        Ok(epochs)
    }

    /// Notes that `epoch` begins at `start_offset`, and keeps it if that is news. Entries of that epoch or above, or at
    /// that offset or after, give way. Returns whether it was news.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative epoch or offset, `Io`.
    pub fn assign(&mut self, epoch: i32, start_offset: Offset) -> Result<bool> {
        let is_news = self.add(EpochEntry {
            epoch,
            start_offset,
        })?;
        if is_news {
            self.flush()?;
        }
        Ok(is_news)
    }

    fn add(&mut self, new: EpochEntry) -> Result<bool> {
        if new.epoch < 0 || new.start_offset < 0 {
            return Err(Error::InvalidArgument(format!(
                "leader epoch {} from offset {}: neither may be negative",
                new.epoch, new.start_offset
            )));
        }
        if let Some(latest) = self.latest()
            && new.epoch == latest.epoch
            && new.start_offset >= latest.start_offset
        {
            return Ok(false);
        }
        let below =
            |entry: &EpochEntry| entry.epoch < new.epoch && entry.start_offset < new.start_offset;
        let kept = self.entries.iter().rposition(below);
        self.entries
            .truncate(kept.map_or(0, |at| at.saturating_add(1)));
        self.entries.push(new);
        Ok(true)
    }

    /// All entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest entry.
    #[must_use]
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Removes the epochs that begin at `end_offset` or after it; returns whether there were any. The caller flushes.
    pub fn truncate_from_end(&mut self, end_offset: Offset) -> bool {
        let before = self.entries.len();
        if end_offset >= 0 {
            let kept = self
                .entries
                .partition_point(|entry| entry.start_offset < end_offset);
            self.entries.truncate(kept);
        }
        self.entries.len() < before
    }

    /// Removes the epochs that ended before `start_offset`; the one it lies in begins there now. Returns whether an entry
    /// was touched. The caller flushes.
    pub fn truncate_from_start(&mut self, start_offset: Offset) -> bool {
        let upto = self
            .entries
            .partition_point(|entry| entry.start_offset <= start_offset);
        let Some(last) = upto.checked_sub(1) else {
            return false;
        };
        self.entries.drain(..last);
        if let Some(first) = self.entries.first_mut() {
            first.start_offset = start_offset;
        }
        true
    }

    /// Removes all epochs. The caller flushes.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Rewrites the checkpoint, if there is one.
    ///
    /// # Errors
    /// `Io`.
    pub fn flush(&self) -> Result<()> {
        match &self.checkpoint {
            Some(checkpoint) => atomic::replace(
                &checkpoint.disk,
                &checkpoint.path,
                &write_epochs(&self.entries),
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
