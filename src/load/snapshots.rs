//! The producers' snapshots of a folder under plan.

use super::content::Content;
use super::folder::SharedFolder;
use crate::error::Result;
use crate::format::file_name::{FileKind, FileState, leading_offset, offset_of_file};
use crate::producers::snapshots::{MAX_SNAPSHOT, SnapshotFiles};
use crate::types::Offset;

/// The snapshots of a folder under plan.
#[derive(Debug)]
pub(super) struct PlannedSnapshots {
    folder: SharedFolder,
}

impl PlannedSnapshots {
    pub(super) const fn new(folder: SharedFolder) -> Self {
        Self { folder }
    }
}

impl SnapshotFiles for PlannedSnapshots {
    fn list(&self) -> Result<Vec<(Offset, String)>> {
        let folder = self.folder.lock();
        // Asked anew for each segment that is recovered: only snapshots are cloned, and paths are for errors.
        let names = folder.files().keys();
        names
            .filter(|name| name.ends_with(FileKind::Snapshot.suffix()))
            .map(|name| {
                let offset = leading_offset(name)
                    .map_or_else(|| offset_of_file(&folder.path_of(name)), Ok)?;
                Ok((offset, name.clone()))
            })
            .collect()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.folder.lock().read(name, MAX_SNAPSHOT)
    }

    fn write(&self, name: &str, data: &[u8], _sync: bool) -> Result<()> {
        self.folder
            .lock()
            .write(name, Content::bytes(data.to_vec()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.folder.lock().delete(name);
        Ok(())
    }

    fn mark_deleted(&self, name: &str) -> Result<bool> {
        let to = format!("{name}{}", FileState::Deleted.suffix());
        Ok(self.folder.lock().rename(name, &to))
    }
}
