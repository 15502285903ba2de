//! The `.snapshot` files of a partition folder.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::format::file_name::{FileKind, FileState, offset_of_file};
use crate::io::disk::Disk;
use crate::io::file::read_all;
use crate::types::Offset;

/// Longest snapshot that is read: some twenty million producers.
pub const MAX_SNAPSHOT: u64 = 1 << 30;

/// Where snapshots are kept. Names are plain file names.
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

/// The snapshots in a folder.
#[derive(Clone, Debug)]
pub struct FolderSnapshots {
    folder: PathBuf,
    disk: Disk,
}

impl FolderSnapshots {
    /// Those of the partition folder `folder`.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, disk: Disk) -> Self {
        Self {
            folder: folder.into(),
            disk,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl SnapshotFiles for FolderSnapshots {
    fn list(&self) -> Result<Vec<(Offset, String)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(Error::io(&self.folder))? {
            let entry = entry.map_err(Error::io(&self.folder))?;
            let path = entry.path();
            let file_name = entry.file_name();
            let name = file_name.to_string_lossy();
            if name.ends_with(FileKind::Snapshot.suffix()) && path.is_file() {
                found.push((offset_of_file(&path)?, name.into_owned()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.path(name);
        let len = fs::metadata(&path).map_err(Error::io(&path))?.len();
        if len > MAX_SNAPSHOT {
            let expected = format!("at most {MAX_SNAPSHOT} bytes");
            return Err(Error::corrupt_index("snapshot", 0, expected, len).at(&path));
        }
        read_all(&path).map_err(Error::io(path))
    }

    /// In place, as Kafka does: a torn snapshot fails its checksum and is passed over.
    fn write(&self, name: &str, data: &[u8], sync: bool) -> Result<()> {
        let path = self.path(name);
        let file = self.disk.create(&path)?;
        self.disk.write(&file, &path, data)?;
        if sync {
            self.disk.sync(&file, &path)?;
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(&self.path(name)).map(drop)
    }

    fn mark_deleted(&self, name: &str) -> Result<bool> {
        let to = self.path(&format!("{name}{}", FileState::Deleted.suffix()));
        match self.disk.rename(&self.path(name), &to) {
            Ok(()) => Ok(true),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
