//! Files of a log: in a folder on a disk, in a folder of a plan, or wherever else ranges of files come from.
//!
//! Readers request a name and a range, never a path: paths serve only for error messages.
//!
//! | trait | what | implemented by |
//! |---|---|---|
//! | [`ReadFile`] | ranges of one file | files on a disk, under plan and in a store |
//! | [`ReadFolder`] | entries, files | [`DiskFolder`](super::folder::DiskFolder), [`Overlay`](super::overlay::Overlay), [`objects`](super::objects) |
//! | [`StoredFile`] | a file that is written | as [`ReadFile`] |
//! | [`Storage`] | a folder that is written | as [`ReadFolder`] |

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::entry_file::EntryFile;
use super::file::{allocated, ensure_small, modified_ms, several_names};
use super::objects::request::RequestCounters;
use crate::error::{Error, Result};
use crate::types::TimestampMs;

/// A file open for reading.
pub trait ReadFile: fmt::Debug + Send + Sync {
    /// Path for error messages.
    fn path(&self) -> &Path;

    /// Its length.
    ///
    /// # Errors
    /// `Io`.
    fn length(&self) -> Result<u64>;

    /// Reads at `position` until `buffer` is full or the file ends; returns the bytes read.
    ///
    /// # Errors
    /// What the storage reports, interruptions aside.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Bytes from `position` on, at least `wanted` of them, as they lie in memory; `None` where they must be copied. They
    /// may keep much more memory than their own.
    ///
    /// # Errors
    /// As [`ReadFile::read_at`].
    fn share(&self, position: u64, wanted: usize) -> io::Result<Option<Bytes>> {
        let _ = (position, wanted);
        Ok(None)
    }

    /// Position of the byte at `position` in the file that [`ReadFile::path`] names: a file of a plan may be a part of
    /// it.
    fn origin(&self, position: u64) -> u64 {
        position
    }

    /// The operating system's file, where this is one: it can be mapped.
    fn disk_file(&self) -> Option<&File> {
        None
    }

    /// Says up to where a reader will read, so that nothing beyond is read ahead; `None` for the end of the file.
    fn stop_at(&self, position: Option<u64>) {
        let _ = position;
    }

    /// Gives other bytes for those that the storage cannot give since they are damaged, for readers that go on after
    /// damage.
    fn pass_damage(&self) {}

    /// Returns whether damage was met.
    fn has_damage(&self) -> bool {
        false
    }
}

/// Length and modification time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its length.
    pub length: u64,
    /// Its modification time.
    pub modified_ms: TimestampMs,
}

impl FileStat {
    /// From the metadata of a file on a disk.
    pub(super) fn of(meta: &Metadata) -> io::Result<Self> {
        Ok(Self {
            length: meta.len(),
            modified_ms: modified_ms(meta)?,
        })
    }
}

/// Space that a file or a folder itself takes up.
#[derive(Clone, Copy, Debug)]
pub struct EntrySpace {
    /// Its length.
    pub length: u64,
    /// Bytes that are set aside for it.
    pub allocated: u64,
    /// Device and inode of a file that has several names.
    pub inode: Option<(u64, u64)>,
}

impl EntrySpace {
    /// From metadata on a disk.
    pub(super) fn of(meta: &Metadata) -> Self {
        Self {
            length: meta.len(),
            allocated: allocated(meta),
            inode: several_names(meta),
        }
    }

    /// Of an object.
    const fn of_object(length: u64) -> Self {
        Self {
            length,
            allocated: length,
            inode: None,
        }
    }
}

/// The entries of a folder, in any order.
pub(crate) type FolderEntries<'a> = Box<dyn Iterator<Item = Result<FolderEntry<'a>>> + 'a>;

/// An entry of a folder. On a disk, a listing gives names and kinds; lengths and times cost a call for each file.
#[derive(Debug)]
pub struct FolderEntry<'a> {
    name: OsString,
    origin: EntryOrigin<'a>,
}

#[derive(Debug)]
enum EntryOrigin<'a> {
    Disk(DirEntry),
    /// In this folder, and whether it is a folder.
    Other(&'a dyn ReadFolder, bool),
}

impl<'a> FolderEntry<'a> {
    /// An entry of a folder on a disk.
    pub(super) fn on_disk(entry: DirEntry) -> Self {
        Self {
            name: entry.file_name(),
            origin: EntryOrigin::Disk(entry),
        }
    }

    /// An entry of a folder that is not on a disk.
    pub(crate) fn new(folder: &'a dyn ReadFolder, name: String, is_folder: bool) -> Self {
        Self {
            name: name.into(),
            origin: EntryOrigin::Other(folder, is_folder),
        }
    }

    /// Its name, if it is Unicode; Kafka's own names are ASCII.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.to_str()
    }

    /// Its name, Unicode or not.
    #[must_use]
    pub fn raw_name(&self) -> &OsStr {
        &self.name
    }

    /// Its name for messages.
    #[must_use]
    pub fn text(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Returns whether it is a file, or a link to one.
    #[must_use]
    pub fn is_file(&self) -> bool {
        match &self.origin {
            EntryOrigin::Disk(entry) => {
                entry.file_type().is_ok_and(|kind| kind.is_file())
                    || (self.is_link() && entry.path().is_file())
            }
            EntryOrigin::Other(_, is_folder) => !is_folder,
        }
    }

    /// Returns whether it is a folder, or a link to one.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        match &self.origin {
            EntryOrigin::Disk(entry) => {
                entry.file_type().is_ok_and(|kind| kind.is_dir())
                    || (self.is_link() && entry.path().is_dir())
            }
            EntryOrigin::Other(_, is_folder) => *is_folder,
        }
    }

    /// Returns whether it is a link.
    #[must_use]
    pub fn is_link(&self) -> bool {
        match &self.origin {
            EntryOrigin::Disk(entry) => entry.file_type().is_ok_and(|kind| kind.is_symlink()),
            EntryOrigin::Other(..) => false,
        }
    }

    /// Length and modification time; `None` for what is no file, or is gone since the listing. Of a link they are those
    /// of its target.
    ///
    /// # Errors
    /// `Io`.
    pub fn stat(&self) -> Result<Option<FileStat>> {
        let found = match &self.origin {
            EntryOrigin::Disk(entry) => {
                // By its name in the open folder: the path is not resolved again.
                let about = entry.metadata().and_then(|about| {
                    if about.is_symlink() {
                        return fs::metadata(entry.path());
                    }
                    Ok(about)
                });
                let stat = about
                    .and_then(|about| about.is_file().then(|| FileStat::of(&about)).transpose());
                stat.map_err(|error| Error::io(entry.path())(error))
            }
            EntryOrigin::Other(_, true) => Ok(None),
            EntryOrigin::Other(folder, false) => folder.stat(&self.text()).map(Some),
        };
        unless_gone(found)
    }

    /// Space that it takes up, of a link without its target; `None` if it is gone since the listing, or a folder of a
    /// store, which is no more than a part of names.
    ///
    /// # Errors
    /// `Io`.
    pub fn space(&self) -> Result<Option<EntrySpace>> {
        let found = match &self.origin {
            EntryOrigin::Disk(entry) => match entry.metadata() {
                Ok(about) => Ok(Some(EntrySpace::of(&about))),
                Err(error) => Err(Error::io(entry.path())(error)),
            },
            EntryOrigin::Other(..) => {
                let stat = self.stat()?;
                return Ok(stat.map(|stat| EntrySpace::of_object(stat.length)));
            }
        };
        unless_gone(found)
    }
}

fn unless_gone<T>(found: Result<Option<T>>) -> Result<Option<T>> {
    match found {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found,
    }
}

/// The entries of a folder; none if there is no folder.
///
/// # Errors
/// As [`ReadFolder::entries`].
pub(crate) fn entries_if_any(folder: &dyn ReadFolder) -> Result<FolderEntries<'_>> {
    match folder.entries() {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(Box::new(std::iter::empty()))
        }
        entries => entries,
    }
}

/// A folder whose files are read.
pub trait ReadFolder: fmt::Debug + Send + Sync {
    /// Path for error messages.
    fn path(&self) -> &Path;

    /// Its entries.
    ///
    /// # Errors
    /// `Io`, also where there is no such folder.
    fn entries(&self) -> Result<FolderEntries<'_>>;

    /// Opens a file.
    ///
    /// # Errors
    /// `Io`, also where there is no such file.
    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>>;

    /// As [`ReadFolder::open`], and its length.
    ///
    /// # Errors
    /// As there.
    fn open_with_length(&self, name: &str) -> Result<(Arc<dyn ReadFile>, u64)> {
        let file = self.open(name)?;
        let length = file.length()?;
        Ok((file, length))
    }

    /// Opens a file as it was planned to be read. A store does not list the folder for it, and refuses an object that is
    /// another one by now.
    ///
    /// # Errors
    /// As [`ReadFolder::open`]; in a store a missing or changed object is found when it is read.
    fn open_planned(
        &self,
        name: &str,
        size: u64,
        version: Option<&str>,
    ) -> Result<Arc<dyn ReadFile>> {
        let _ = (size, version);
        self.open(name)
    }

    /// Text that changes with the content of a file, where the storage has one: an object's `ETag`.
    ///
    /// # Errors
    /// `Io`, also where there is no such file.
    fn version(&self, name: &str) -> Result<Option<Arc<str>>> {
        let _ = name;
        Ok(None)
    }

    /// Returns whether its files may be mapped; otherwise it need not be asked which are closed.
    fn has_maps(&self) -> bool {
        true
    }

    /// Counters of the requests that are sent for it, in a store.
    fn counters(&self) -> Option<Arc<RequestCounters>> {
        None
    }

    /// The same folder for a reader of these topics alone, which need not list the others; `None` where it makes no
    /// difference.
    fn narrowed(&self, topics: &BTreeSet<String>) -> Option<Folder> {
        let _ = topics;
        None
    }

    /// The same folder for a reader of its names alone; `None` where it makes no difference.
    fn names_only(&self) -> Option<Folder> {
        None
    }

    /// Returns whether there is a file of that name.
    ///
    /// # Errors
    /// `Io`.
    fn contains(&self, name: &str) -> Result<bool>;

    /// Length and modification time of a file.
    ///
    /// # Errors
    /// `Io`, also where there is no such file.
    fn stat(&self, name: &str) -> Result<FileStat>;

    /// The folder of that name in it, there or not.
    fn folder(&self, name: &str) -> Folder;

    /// The path by which it is known again under other names: on a disk, without links and dots.
    ///
    /// # Errors
    /// `Io`, also where there is no such folder.
    fn place(&self) -> Result<PathBuf> {
        Ok(self.path().to_path_buf())
    }

    /// The folder that it is in.
    fn above(&self) -> Folder;

    /// Returns whether it is a folder; false of a file at its path.
    ///
    /// # Errors
    /// `Io`, also where there is neither.
    fn is_folder(&self) -> Result<bool>;

    /// Space that the folder itself takes up; `None` in a store, as of [`FolderEntry::space`].
    ///
    /// # Errors
    /// `Io`.
    fn space(&self) -> Result<Option<EntrySpace>> {
        Ok(None)
    }

    /// Path of a file in it for error messages.
    fn path_of(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

/// A folder, wherever it is. Two are equal if their paths are.
#[derive(Clone, Debug)]
pub struct Folder(Arc<dyn ReadFolder>);

impl Folder {
    /// A folder in any storage.
    #[must_use]
    pub fn new(folder: impl ReadFolder + 'static) -> Self {
        Self(Arc::new(folder))
    }
}

impl Deref for Folder {
    type Target = dyn ReadFolder;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Folder {
    fn eq(&self, other: &Self) -> bool {
        self.path() == other.path()
    }
}

impl Eq for Folder {}

impl From<&Self> for Folder {
    fn from(folder: &Self) -> Self {
        folder.clone()
    }
}

/// A file open for writing.
pub trait StoredFile: ReadFile {
    /// Writes all of `bytes` at `position`.
    ///
    /// # Errors
    /// `Io`; a part of the bytes may have been written then.
    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()>;

    /// Cuts the file, or lengthens it by zeros.
    ///
    /// # Errors
    /// `Io`.
    fn set_length(&self, length: u64) -> Result<()>;

    /// Makes sure that a write changes no other file: one with other names becomes a copy under this one.
    ///
    /// # Errors
    /// `Io`.
    fn detach(&mut self) -> Result<()> {
        Ok(())
    }

    /// Asks the system to begin writing a range to the device, where it can be asked. It is on the device after
    /// [`StoredFile::sync`] alone.
    fn write_back(&self, position: u64, length: u64) {
        let _ = (position, length);
    }

    /// Syncs bytes and length to the device before it returns.
    ///
    /// # Errors
    /// `Io`.
    fn sync(&self) -> Result<()>;

    /// Allocates blocks beyond the end; returns whether the storage has such a thing and did.
    #[must_use]
    fn make_room(&self, position: u64, length: u64) -> bool {
        let _ = (position, length);
        false
    }

    /// Frees blocks beyond the end where they come to `least` bytes or more; returns whether there were any.
    ///
    /// # Errors
    /// `Io`.
    fn free_room(&self, least: u64) -> Result<bool> {
        let _ = least;
        Ok(false)
    }
}

/// A folder whose files are written.
pub trait Storage: ReadFolder + Clone {
    /// A file in it, open for writing.
    type File: StoredFile;

    /// An index file in it.
    type IndexFile<const N: usize>: EntryFile<N>;

    /// Opens a file, which is created where there is none.
    ///
    /// # Errors
    /// `Io`.
    fn open_file(&self, name: &str) -> Result<Self::File>;

    /// Opens an index file for writing; a new one gets `max_size` bytes, rounded down to whole entries. Of an existing
    /// one every whole slot is an entry, whatever it holds: a broker's recovery does the rest.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where a new index would have no room for an entry, which leaves an empty file (as Kafka
    /// does); `CorruptIndex` for a file longer than an index can be.
    fn open_index<const N: usize>(&self, name: &str, max_size: usize)
    -> Result<Self::IndexFile<N>>;

    /// Gives a file another name, in place of a file that has it; returns whether there was one.
    ///
    /// # Errors
    /// `Io`.
    fn rename(&self, from: &str, to: &str) -> Result<bool>;

    /// Removes a file; returns whether there was one.
    ///
    /// # Errors
    /// `Io`.
    fn remove(&self, name: &str) -> Result<bool>;

    /// Makes `bytes` the content of a file, on the device if `sync`. A crash may leave a part of them.
    ///
    /// # Errors
    /// `Io`.
    fn put(&self, name: &str, bytes: &[u8], sync: bool) -> Result<()>;

    /// Gives a file this modification time.
    ///
    /// # Errors
    /// `Io`.
    fn set_modified_ms(&self, name: &str, ms: TimestampMs) -> Result<()>;

    /// Syncs the names in the folder to the device before it returns.
    ///
    /// # Errors
    /// `Io`.
    fn sync_names(&self) -> Result<()>;
}

/// All of a small file.
///
/// # Errors
/// `Io`, also where there is no such file; `CorruptIndex` above `limit`.
pub(crate) fn read_small(folder: &dyn ReadFolder, name: &str, limit: u64) -> Result<Vec<u8>> {
    let (file, length) = folder.open_with_length(name)?;
    ensure_small(&folder.path_of(name), length, limit)?;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(bytes)
}

/// A file that ends before the length it had: its user is not gone.
pub(crate) fn became_shorter() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "became shorter while it was read; stop the broker or writer that uses it, or read a copy",
    )
}

/// Reads a range of a file, all of it or an error.
///
/// # Errors
/// `Io`, also where the file ends before: it was cut.
pub(crate) fn read_exact_at(file: &dyn ReadFile, buffer: &mut [u8], position: u64) -> Result<()> {
    match file.read_at(buffer, position) {
        Ok(read) if read == buffer.len() => Ok(()),
        Ok(_) => Err(Error::io(file.path())(became_shorter())),
        Err(error) => Err(Error::io(file.path())(error)),
    }
}
