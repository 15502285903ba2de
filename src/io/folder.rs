//! Folders on a disk.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Disk;
use super::file::{about, open, read_at};
use super::index_file::IndexFile;
use super::links::detach;
use super::objects::folder::ObjectFolder;
use super::storage::{
    EntrySpace, FileStat, Folder, FolderEntries, FolderEntry, ReadFile, ReadFolder, Storage,
    StoredFile, read_small,
};
use super::url::dir_above;
use crate::error::{Error, Result};
use crate::types::TimestampMs;

/// A folder, and the way to the disk it is on.
#[derive(Clone, Debug)]
pub struct DiskFolder {
    path: Arc<Path>,
    disk: Disk,
}

impl DiskFolder {
    /// The folder at `path`, there or not.
    #[must_use]
    pub fn new(path: &Path, disk: &Disk) -> Self {
        Self {
            path: Arc::from(path),
            disk: disk.clone(),
        }
    }

    /// The folder at `path`, to be read.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self::new(path, &Disk::default())
    }
}

impl Folder {
    /// The folder at `path`, on a disk or in a mounted store: here alone a path becomes one.
    #[must_use]
    pub fn at(path: impl AsRef<Path>) -> Self {
        match ObjectFolder::at(path.as_ref()) {
            Some(folder) => Self::new(folder),
            None => Self::new(DiskFolder::at(path.as_ref())),
        }
    }
}

/// Returns whether there is a folder at a path, on a disk or in a mounted store.
pub(crate) fn is_folder(path: &Path) -> bool {
    Folder::at(path).is_folder().unwrap_or(false)
}

/// Returns whether there is a file at a path likewise.
pub(crate) fn is_file(path: &Path) -> bool {
    Folder::at(path)
        .is_folder()
        .is_ok_and(|is_folder| !is_folder)
}

/// Opens the file at a path, on a disk or in a mounted store, and returns its length too.
///
/// # Errors
/// `Io`, also for what is no file.
pub(crate) fn open_file(path: &Path) -> Result<(Arc<dyn ReadFile>, u64)> {
    if let Some(object) = ObjectFolder::at(path) {
        return object.above().open_with_length(&name_of(path));
    }
    let (file, length) = DiskReader::open_with_length(path)?;
    Ok((Arc::new(file), length))
}

/// All of a small file at a path likewise.
///
/// # Errors
/// As [`open_file`]; `CorruptIndex` above `limit`.
pub(crate) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>> {
    match ObjectFolder::at(path) {
        Some(object) => read_small(&*object.above(), &name_of(path), limit),
        None => super::file::read_small(path, limit),
    }
}

fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

impl From<&Path> for Folder {
    fn from(path: &Path) -> Self {
        Self::at(path)
    }
}

impl From<&PathBuf> for Folder {
    fn from(path: &PathBuf) -> Self {
        Self::at(path)
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::at("")
    }
}

impl ReadFolder for DiskFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn entries(&self) -> Result<FolderEntries<'_>> {
        let path = self.path();
        let entries = fs::read_dir(path).map_err(Error::io(path))?;
        Ok(Box::new(entries.map(move |entry| match entry {
            Ok(entry) => Ok(FolderEntry::on_disk(entry)),
            Err(error) => Err(Error::io(path)(error)),
        })))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(self.open_with_length(name)?.0)
    }

    fn open_with_length(&self, name: &str) -> Result<(Arc<dyn ReadFile>, u64)> {
        let (file, length) = DiskReader::open_with_length(&self.path_of(name))?;
        Ok((Arc::new(file), length))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        let path = self.path_of(name);
        path.try_exists().map_err(Error::io(&path))
    }

    fn folder(&self, name: &str) -> Folder {
        Folder::new(Self::new(&self.path_of(name), &self.disk))
    }

    fn is_folder(&self) -> Result<bool> {
        let about = fs::metadata(&self.path).map_err(Error::io(&*self.path))?;
        Ok(about.is_dir())
    }

    fn place(&self) -> Result<PathBuf> {
        let place = self.path.canonicalize();
        place.map_err(Error::io(&*self.path))
    }

    fn space(&self) -> Result<Option<EntrySpace>> {
        let about = fs::metadata(&self.path).map_err(Error::io(&*self.path))?;
        Ok(Some(EntrySpace::of(&about)))
    }

    fn above(&self) -> Folder {
        Folder::new(Self::new(&dir_above(&self.path), &self.disk))
    }

    fn stat(&self, name: &str) -> Result<FileStat> {
        let path = self.path_of(name);
        let stat = about(&path).and_then(|about| FileStat::of(&about));
        stat.map_err(Error::io(&path))
    }
}

impl Storage for DiskFolder {
    type File = DiskFile;
    type IndexFile<const N: usize> = IndexFile<N>;

    fn open_file(&self, name: &str) -> Result<DiskFile> {
        let path = self.path_of(name);
        let file = self.disk.open_or_create(&path)?;
        let disk = self.disk.clone();
        let reader = DiskReader { file, path };
        Ok(DiskFile { reader, disk })
    }

    fn open_index<const N: usize>(&self, name: &str, max_size: usize) -> Result<IndexFile<N>> {
        IndexFile::open(&self.disk, &self.path_of(name), max_size)
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool> {
        match self.disk.rename(&self.path_of(from), &self.path_of(to)) {
            Ok(()) => Ok(true),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, name: &str) -> Result<bool> {
        self.disk.remove(&self.path_of(name))
    }

    fn put(&self, name: &str, bytes: &[u8], sync: bool) -> Result<()> {
        let path = self.path_of(name);
        let file = self.disk.create(&path)?;
        self.disk.write(&file, &path, bytes)?;
        if sync {
            self.disk.sync(&file, &path)?;
        }
        Ok(())
    }

    fn set_modified_ms(&self, name: &str, ms: TimestampMs) -> Result<()> {
        Disk::set_modified_ms(&self.path_of(name), ms)
    }

    fn sync_names(&self) -> Result<()> {
        self.disk.sync_folder(&self.path)
    }
}

/// A file on a disk, open for reading.
#[derive(Debug)]
pub(crate) struct DiskReader {
    file: File,
    path: PathBuf,
}

impl DiskReader {
    /// Opens `path`, whose length is known then.
    ///
    /// # Errors
    /// `Io`, also for what is no file.
    pub(crate) fn open_with_length(path: &Path) -> Result<(Self, u64)> {
        let (file, about) = open(path).map_err(Error::io(path))?;
        let path = path.to_path_buf();
        Ok((Self { file, path }, about.len()))
    }
}

impl ReadFile for DiskReader {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        let meta = self.file.metadata().map_err(Error::io(&self.path))?;
        Ok(meta.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        read_at(&self.file, buffer, position)
    }

    fn disk_file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// A file on a disk, open for writing.
#[derive(Debug)]
pub struct DiskFile {
    reader: DiskReader,
    disk: Disk,
}

impl ReadFile for DiskFile {
    fn path(&self) -> &Path {
        self.reader.path()
    }

    fn length(&self) -> Result<u64> {
        self.reader.length()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.reader.read_at(buffer, position)
    }
}

impl StoredFile for DiskFile {
    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
        let DiskReader { file, path } = &self.reader;
        self.disk.write_at(file, path, bytes, position)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        let DiskReader { file, path } = &self.reader;
        self.disk.set_length(file, path, length)
    }

    fn detach(&mut self) -> Result<()> {
        let DiskReader { file, path } = &mut self.reader;
        if let Some(own) = detach(&self.disk, file, path)? {
            *file = own;
        }
        Ok(())
    }

    fn write_back(&self, position: u64, length: u64) {
        self.disk.write_back(&self.reader.file, position, length);
    }

    fn sync(&self) -> Result<()> {
        let DiskReader { file, path } = &self.reader;
        self.disk.sync(file, path)
    }

    fn make_room(&self, position: u64, length: u64) -> bool {
        Disk::make_room(&self.reader.file, position, length)
    }

    fn free_room(&self, least: u64) -> Result<bool> {
        let DiskReader { file, path } = &self.reader;
        self.disk.free_room(file, path, least)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::symlink;

    /// A listing gives files and links to files; what is gone by the time that it is looked at is left out.
    #[test]
    fn entries_of_a_folder_that_changes() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("t-0");
        let on_disk = DiskFolder::at(&path);
        assert!(on_disk.entries().is_err());
        fs::create_dir_all(path.join("folder.log")).unwrap();
        for name in ["a.log", "gone.log"] {
            fs::write(path.join(name), b"12345").unwrap();
        }
        symlink(path.join("a.log"), path.join("link.log")).unwrap();
        symlink(path.join("b.log"), path.join("dangling.log")).unwrap();
        Disk::set_modified_ms(&path.join("a.log"), 7_000).unwrap();
        let entries: Vec<_> = on_disk.entries().unwrap().map(Result::unwrap).collect();
        fs::remove_file(path.join("gone.log")).unwrap();
        let found: BTreeMap<_, _> = entries
            .iter()
            .map(|entry| (entry.name().unwrap(), entry.stat().unwrap()))
            .collect();
        let stat = Some(on_disk.stat("a.log").unwrap());
        assert_eq!(
            stat.map(|stat| (stat.length, stat.modified_ms)),
            Some((5, 7_000))
        );
        let expected = [
            ("a.log", stat),
            ("dangling.log", None),
            ("folder.log", None),
            ("gone.log", None),
            ("link.log", stat),
        ];
        assert_eq!(found, expected.into());
        let is_file =
            |entry: &&FolderEntry<'_>| entry.name() != Some("gone.log") && entry.is_file();
        assert_eq!(entries.iter().filter(is_file).count(), 2);
    }
}
