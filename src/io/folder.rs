//! A folder on a disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Disk;
use super::file::{modified_ms, open, read_at};
use super::index_file::IndexFile;
use super::links::detach;
use super::storage::{ReadFile, ReadFolder, Storage, StoredFile};
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

impl ReadFolder for DiskFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self, suffix: &str) -> Result<Vec<(String, u64)>> {
        let path = self.path();
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::io(path)(e)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::io(path))?;
            // Kafka's own names are ASCII; others are none of a log's business.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.ends_with(suffix) {
                let meta = fs::metadata(entry.path()).map_err(Error::io(entry.path()))?;
                if meta.is_file() {
                    found.push((name, meta.len()));
                }
            }
        }
        found.sort_unstable();
        Ok(found)
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

    fn modified_ms(&self, name: &str) -> Result<TimestampMs> {
        let path = self.path_of(name);
        let modified = fs::metadata(&path).and_then(|meta| modified_ms(&meta));
        modified.map_err(Error::io(&path))
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
    /// Opens `path`.
    ///
    /// # Errors
    /// `Io`, also for what is no file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Self::open_with_length(path).map(|(reader, _)| reader)
    }

    /// Opens `path`, whose length is known then.
    ///
    /// # Errors
    /// As [`DiskReader::open`].
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
