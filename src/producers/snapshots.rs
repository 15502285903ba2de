//! The `.snapshot` files of a partition folder.

use std::fmt;

use crate::error::Result;
use crate::format::file_name::{FileKind, FileState, leading_offset, offset_of_file};
use crate::io::storage::{ReadFolder, Storage, entries_if_any, read_small};
use crate::types::Offset;

/// Longest snapshot that is read: three million producers.
pub(crate) const MAX_SNAPSHOT: u64 = 128 << 20;

/// Storage of snapshots. Names are plain file names.
pub trait SnapshotFiles: fmt::Debug + Send + Sync {
    /// Every snapshot there is.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` for a name that does not begin with an offset.
    fn list(&self) -> Result<Vec<(Offset, String)>>;

    /// A whole snapshot.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` for one beyond all measure.
    fn read(&self, name: &str) -> Result<Vec<u8>>;

    /// Writes a snapshot, onto the device if `sync`.
    ///
    /// # Errors
    /// `Io`.
    fn write(&self, name: &str, data: &[u8], sync: bool) -> Result<()>;

    /// Removes a snapshot; one that is gone already is fine.
    ///
    /// # Errors
    /// `Io`.
    fn remove(&self, name: &str) -> Result<()>;

    /// Renames a snapshot so that it counts no longer (`.deleted`); `false` where it is gone already.
    ///
    /// # Errors
    /// `Io`.
    fn mark_deleted(&self, name: &str) -> Result<bool>;
}

/// The snapshots in a partition folder.
#[derive(Clone, Debug)]
pub struct Snapshots<S>(S);

/// The snapshots in a partition folder on a disk.
#[cfg(feature = "internal")]
pub type FolderSnapshots = Snapshots<crate::io::folder::DiskFolder>;

impl<S> Snapshots<S> {
    /// Those of a folder.
    #[must_use]
    pub const fn over(storage: S) -> Self {
        Self(storage)
    }
}

#[cfg(feature = "internal")]
impl FolderSnapshots {
    /// Those of the partition folder `folder`.
    #[must_use]
    pub fn new(folder: impl AsRef<std::path::Path>, disk: &crate::io::disk::Disk) -> Self {
        Self(crate::io::folder::DiskFolder::new(folder.as_ref(), disk))
    }
}

/// The snapshots in a folder, by name.
///
/// # Errors
/// `Io`; `CorruptIndex` for a name that does not begin with an offset.
pub(crate) fn snapshots_in(folder: &dyn ReadFolder) -> Result<Vec<(Offset, String)>> {
    // The path is for the error.
    let offset =
        |name: &str| leading_offset(name).map_or_else(|| offset_of_file(&folder.path_of(name)), Ok);
    let mut found = Vec::new();
    for entry in entries_if_any(folder)? {
        let entry = entry?;
        let name = entry
            .name()
            .filter(|name| name.ends_with(FileKind::Snapshot.suffix()));
        if let Some(name) = name.filter(|_| entry.is_file()) {
            found.push((offset(name)?, name.to_owned()));
        }
    }
    found.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    Ok(found)
}

impl<S: Storage> SnapshotFiles for Snapshots<S> {
    fn list(&self) -> Result<Vec<(Offset, String)>> {
        snapshots_in(&self.0)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        read_small(&self.0, name, MAX_SNAPSHOT)
    }

    /// In place, as Kafka does: a torn snapshot fails its checksum and is skipped.
    fn write(&self, name: &str, data: &[u8], sync: bool) -> Result<()> {
        self.0.put(name, data, sync)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.0.remove(name).map(drop)
    }

    fn mark_deleted(&self, name: &str) -> Result<bool> {
        let to = format!("{name}{}", FileState::Deleted.suffix());
        self.0.rename(name, &to)
    }
}
