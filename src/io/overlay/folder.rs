//! An overlay as a storage: files that are read and written under plan.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::Overlay;
use super::content::Content;
use crate::error::{Error, Result};
use crate::io::file::since_epoch_ms;
use crate::io::storage::{
    FileStat, Folder, FolderEntries, FolderEntry, ReadFile, ReadFolder, Storage, StoredFile,
};
use crate::io::stored_index::StoredIndex;
use crate::types::TimestampMs;

impl ReadFolder for Overlay {
    fn path(&self) -> &Path {
        &self.path
    }

    fn entries(&self) -> Result<FolderEntries<'_>> {
        let names = self.names().into_iter();
        Ok(Box::new(
            names.map(|name| Ok(FolderEntry::new(self, name, false))),
        ))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let path = self.path_of(name);
        match self.get(name) {
            Some(content) => content.open(&self.origins(), path),
            None => Err(Error::io(path)(io::ErrorKind::NotFound.into())),
        }
    }

    fn contains(&self, name: &str) -> Result<bool> {
        Ok(Self::contains(self, name))
    }

    fn folder(&self, name: &str) -> Folder {
        self.origins().base().folder(name)
    }

    fn is_folder(&self) -> Result<bool> {
        Ok(true)
    }

    fn above(&self) -> Folder {
        self.origins().base().above()
    }

    /// Returns the current time for files that the plan creates.
    fn stat(&self, name: &str) -> Result<FileStat> {
        if !Self::contains(self, name) {
            return Err(Error::io(self.path_of(name))(
                io::ErrorKind::NotFound.into(),
            ));
        }
        let now = || since_epoch_ms(SystemTime::now());
        Ok(FileStat {
            length: self.length(name),
            modified_ms: self.modified_ms(name).unwrap_or_else(now),
        })
    }
}

impl Storage for Overlay {
    type File = PlannedFile;
    type IndexFile<const N: usize> = StoredIndex<N, PlannedFile>;

    fn open_file(&self, name: &str) -> Result<PlannedFile> {
        if !self.contains(name) {
            self.write(name, Content::empty())?;
        }
        Ok(PlannedFile {
            overlay: self.clone(),
            path: self.path_of(name),
            name: name.to_owned(),
        })
    }

    fn open_index<const N: usize>(
        &self,
        name: &str,
        max_size: usize,
    ) -> Result<Self::IndexFile<N>> {
        let is_new = !Self::contains(self, name);
        StoredIndex::open(self.open_file(name)?, max_size, is_new)
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool> {
        self.state().rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<bool> {
        Ok(self.state().remove(name))
    }

    fn put(&self, name: &str, bytes: &[u8], _sync: bool) -> Result<()> {
        self.write(name, Content::bytes(bytes.to_vec()))
    }

    fn set_modified_ms(&self, name: &str, ms: TimestampMs) -> Result<()> {
        if let Some(content) = self.state().files.get_mut(name) {
            content.set_modified_ms(ms);
        }
        Ok(())
    }

    /// Does nothing: the caller who carries out the plan syncs.
    fn sync_names(&self) -> Result<()> {
        Ok(())
    }
}

/// A file under plan, open for writing. Syncing it ends the writing piece by piece: bytes that the file had at the
/// beginning are not written then.
#[derive(Debug)]
pub(crate) struct PlannedFile {
    overlay: Overlay,
    path: PathBuf,
    name: String,
}

impl ReadFile for PlannedFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.overlay.length(&self.name))
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        match self
            .overlay
            .held(&self.name)
            .and_then(|()| self.overlay.open(&self.name))
        {
            Ok(file) => file.read_at(buffer, position),
            Err(Error::Io { source, .. }) => Err(source),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl StoredFile for PlannedFile {
    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
        self.overlay.state().patch(&self.name, bytes, position)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.overlay.set_length(&self.name, length);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.overlay.state().close(&self.name)
    }
}
