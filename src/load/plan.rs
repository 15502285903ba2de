//! A plan: the folder as loading leaves it, and what is planned after that.

use std::sync::Arc;

use super::loaded::LoadedLog;
use super::loss::{Loss, WAYS_OUT, refusal};
use super::note::Note;
use super::segments::PlannedSegmentList;
use crate::error::Result;
use crate::format::entry::ProducerState;
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::folder::DiskFolder;
use crate::io::overlay::{FileChange, Overlay};
use crate::io::storage::ReadFolder as _;
#[cfg(test)]
use crate::io::storage::Storage;
use crate::producers::snapshots::{MAX_SNAPSHOT, Snapshots};
use crate::segment::writer::WritableSegment;
use crate::types::TimestampMs;

/// Plan of loading a folder.
#[derive(Debug)]
pub struct Plan {
    pub(super) folder: Overlay,
    /// State that a broker would then have, or the reason why it would not start.
    pub outcome: Result<LoadedLog>,
    /// Whole batches that would go; not looked for by salvage.
    pub losses: Vec<Loss>,
    /// Notes for the report.
    pub notes: Vec<Note>,
    pub(super) segments: PlannedSegmentList,
    /// Files that were only renamed.
    pub(super) deleted: Vec<String>,
}

impl Plan {
    /// The same plan, of which whole batches that would go are the outcome.
    pub(super) fn refuse_loss(mut self) -> Self {
        let damage = self.notes.iter().find_map(|note| match note {
            Note::Recovered {
                truncated: 1..,
                reason,
                ..
            } => reason.as_deref(),
            _ => None,
        });
        // Where a segment is cut, the log ends.
        let end = self.outcome.as_ref().ok().map(|log| log.log_end_offset);
        let damage = damage.zip(end);
        if let Some(error) = refusal(&self.losses, damage, self.folder.path()) {
            self.outcome = Err(error);
        }
        self
    }

    /// The plan of a log that is loaded.
    ///
    /// # Errors
    /// Why it is not; where that is a loss, with the alternatives.
    pub(crate) fn loaded(self) -> Result<Self> {
        match self.outcome {
            Err(error) if self.losses.is_empty() => Err(error),
            Err(error) => Err(error.hinted(&format!(" ({WAYS_OUT})"))),
            Ok(_) => Ok(self),
        }
    }

    /// Plans, after loading, a clean close as at a broker's shutdown: `LogManager.shutdown` for one log.
    ///
    /// # Errors
    /// `Io`.
    pub fn close(&mut self) -> Result<()> {
        let Ok(log) = &mut self.outcome else {
            return Ok(());
        };
        for segment in self.segments.onward_mut(log.recovery_point) {
            segment.flush()?;
        }
        log.recovery_point = log.log_end_offset;
        log.producers.take_snapshot(true)?;
        for segment in self.segments.iter_mut() {
            segment.close()?;
        }
        Ok(())
    }

    /// Plans that the log is opened for writing: the active segment's indexes are cut to their entries, so that the
    /// next opening sees how many there are, and restores the full length. Does nothing to a log that was not loaded.
    ///
    /// # Errors
    /// `Io`.
    pub fn hand_over(&mut self) -> Result<()> {
        match self.segments.active_mut() {
            Some(active) if self.outcome.is_ok() => active.trim_indexes(),
            _ => Ok(()),
        }
    }

    /// Plans the removal of every live file of a kind.
    pub fn remove_all(&mut self, kind: FileKind) {
        let folder = self.folder.clone();
        for name in folder.names() {
            if FileName::parse(&name)
                .is_some_and(|name| (name.kind, name.state) == (kind, FileState::Live))
            {
                folder.delete(&name);
            }
        }
    }

    /// The segments, in order.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &WritableSegment<Overlay>> {
        self.segments.iter()
    }

    /// Returns whether a file will hold a snapshot of the producers, and nothing else.
    pub(crate) fn has_snapshot(&self, name: &str) -> bool {
        let data = self.folder.read(name, MAX_SNAPSHOT);
        data.is_ok_and(|data| ProducerState::parse_snapshot(&data).is_ok())
    }

    /// Modification time of the file whose bytes one of these names will have.
    pub(crate) fn modified_ms(&self, name: &str) -> Option<TimestampMs> {
        self.folder.modified_ms(name)
    }

    /// The folder, and what a broker would then have.
    pub(crate) fn into_folder(self) -> (Overlay, Result<LoadedLog>) {
        (self.folder, self.outcome)
    }

    /// The log as it was loaded, of a plan that was written to this folder.
    ///
    /// # Errors
    /// Why it was not loaded.
    pub(crate) fn into_loaded(self, folder: &DiskFolder) -> Result<LoadedLog> {
        let loaded = self.outcome?;
        let snapshots = Arc::new(Snapshots::over(folder.clone()));
        Ok(LoadedLog {
            producers: loaded.producers.kept_in(snapshots),
            ..loaded
        })
    }

    /// Bytes in memory that will be written.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.folder.kept_bytes()
    }

    /// Plans the unlinking of what was only renamed, as after `file.delete.delay.ms`.
    pub fn unlink_deleted(&mut self) {
        let folder = self.folder.clone();
        for name in self.deleted.drain(..) {
            folder.delete(&name);
        }
    }

    /// Files that were only renamed, and are removed after `file.delete.delay.ms`.
    #[must_use]
    pub fn deleted(&self) -> &[String] {
        &self.deleted
    }

    /// Every file that will be there, and its length.
    #[cfg(feature = "internal")]
    #[must_use]
    pub fn files(&self) -> std::collections::BTreeMap<String, u64> {
        let files = self.folder.files().into_iter();
        files
            .map(|(name, content)| (name, content.length()))
            .collect()
    }

    /// Writes the folder as it will be into another one, of any storage.
    #[cfg(test)]
    pub(crate) fn put_into(&self, to: &impl Storage) -> Result<()> {
        for name in self.folder.files().into_keys() {
            to.put(&name, &self.folder.read(&name, u64::MAX)?, true)?;
        }
        to.sync_names()
    }

    /// Changes of the files, by name.
    #[must_use]
    pub fn changes(&self) -> Vec<FileChange> {
        self.folder.changes()
    }
}
