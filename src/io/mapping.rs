//! Read-only file maps. Every other map in the crate is that of an index under its writer
//! ([`io::index_file`](crate::io::index_file)).
//!
//! # Contract
//! While a map lives, no process may shorten the file below the mapped length or change mapped bytes. Touching a page after
//! the end of the file is a SIGBUS that no check can catch, and the crate hands the bytes out as `&[u8]`. No code can
//! enforce this against other processes, so [`Mapping::open`] is unsafe, and [`ClosedFile::map`] is the one way to it:
//! * Only files of closed segments are mapped, as their folder shows ([`ClosedName::of`]). Kafka appends to, truncates and
//!   preallocates the *active* segment's files; those are read by copy (`segment::source`, `index`). It only renames or
//!   unlinks closed ones, which leaves the mapped inode whole, or replaces them by new files.
//! * A map covers at most the length that the file had when it was mapped.
//! * No byte of a kept map ([`super::kept_map`]) is read between planning and reading. The reader first checks that the
//!   file is still there, closed and as long as it was.
//! * This crate never writes through a map of this module. Its writers hold the log dir's `.lock` and shorten a closed
//!   segment only where they truncate the log.
//!
//! What remains is a log that is truncated, by a broker or a writer of this crate, below segments that are being read. The
//! documentation of reading beside a broker says so.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: memmap2's maps are unsafe to make"
)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

use super::storage::{ReadFile, ReadFolder};
use crate::error::{Error, Result};
use crate::format::file_name::{FileKind, FileName, FileState, is_metadata_snapshot};
use crate::types::Offset;

/// The name of a file of a closed segment: no process appends to it, shortens it or changes its bytes any more.
#[derive(Clone, Copy, Debug)]
pub struct ClosedName<'a> {
    folder: &'a dyn ReadFolder,
    name: &'a str,
}

impl<'a> ClosedName<'a> {
    /// `name`, if its folder shows that its segment is closed: a live one has the next segment beside it, which begins at
    /// `next` and whose `.log` Kafka makes when it rolls (`LocalLog.roll`); a deleted or swapped one was closed before it
    /// got that name; a snapshot of the metadata log gets its name when it is whole (`FileRawSnapshotWriter.freeze`).
    ///
    /// A plan's word is not enough for a map: plans come from other processes too, and may be old.
    #[must_use]
    pub fn of(folder: &'a dyn ReadFolder, name: &'a str, next: Option<Offset>) -> Option<Self> {
        let is_closed = match FileName::parse(name) {
            Some(file) if file.kind == FileKind::Snapshot => false,
            Some(_) if !folder.has_maps() => false,
            Some(file) => match file.state {
                FileState::Live => next.is_some_and(|next| {
                    let next_name = FileName::new(next, FileKind::Log).to_string();
                    next > file.offset && folder.contains(&next_name).unwrap_or(false)
                }),
                FileState::Deleted | FileState::Swap => true,
                FileState::Cleaned => false,
            },
            None => is_metadata_snapshot(name),
        };
        is_closed.then_some(Self { folder, name })
    }

    /// Its path for error messages.
    #[must_use]
    pub fn path(self) -> PathBuf {
        self.folder.path_of(self.name)
    }

    /// Opens the file.
    ///
    /// # Errors
    /// `Io`, also where there is no such file.
    pub fn open(self) -> Result<ClosedFile> {
        let (file, length) = self.folder.open_with_length(self.name)?;
        Ok(ClosedFile { file, length })
    }
}

/// An open file of a closed segment, which may be mapped.
#[derive(Debug)]
pub struct ClosedFile {
    file: Arc<dyn ReadFile>,
    length: u64,
}

impl ClosedFile {
    /// The file.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn ReadFile> {
        &self.file
    }

    /// Its length when it was opened.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// A map of up to `length` bytes; `None` where the storage has no maps, or the system refuses one.
    #[must_use]
    pub fn map(&self, length: u64) -> Option<Mapping> {
        let file = self.file.disk_file()?;
        // SAFETY: the segment is closed, as `ClosedName::of` saw before the file was opened: the contract above.
        unsafe { Mapping::open(file, self.file.path(), length) }.ok()
    }
}

/// A file mapped for reading, as long as it was when it was mapped.
#[derive(Debug)]
pub struct Mapping {
    /// `None` for an empty file: it cannot be mapped.
    map: Option<Mmap>,
}

impl Mapping {
    /// Maps `file` up to `length` bytes, or to its present end if that comes first.
    ///
    /// # Errors
    /// `Io` if the file's length cannot be read or the file cannot be mapped (`ENOMEM` under an address space limit).
    ///
    /// # Safety
    /// Until the map and all that shares it is dropped, no process shortens the file below the mapped length or changes the
    /// mapped bytes.
    pub unsafe fn open(file: &File, path: &Path, length: u64) -> Result<Self> {
        let now = file.metadata().map_err(Error::io(path))?.len();
        let length = usize::try_from(length.min(now))
            .map_err(|_| Error::InvalidArgument(format!("{}: too long to map", path.display())))?;
        if length == 0 {
            return Ok(Self { map: None });
        }
        let mut options = MmapOptions::new();
        options.len(length);
        #[expect(clippy::disallowed_methods, reason = "this is the one mapping site")]
        // SAFETY: `length` is at most the length that fstat just gave, so the file backs every page of the map. The caller
        // keeps it so.
        let map = unsafe { options.map(file) }.map_err(Error::io(path))?;
        Ok(Self { map: Some(map) })
    }

    /// The mapped bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Advises the kernel of sequential reads; a refusal does not matter.
    pub fn advise_sequential(&self) {
        #[cfg(unix)]
        if let Some(map) = &self.map {
            let _ = map.advise(memmap2::Advice::Sequential);
        }
    }

    /// Advises the kernel of random reads; a refusal does not matter.
    pub fn advise_random(&self) {
        #[cfg(unix)]
        if let Some(map) = &self.map {
            let _ = map.advise(memmap2::Advice::Random);
        }
    }
}

/// A file read through a map of it.
#[derive(Debug)]
pub(crate) struct MapReader {
    /// Path of the file.
    pub path: PathBuf,
    /// Its map.
    pub map: Arc<Mapping>,
}

impl ReadFile for MapReader {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.map.as_slice().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        io::Read::read(
            &mut self.map.as_slice().get(from..).unwrap_or_default(),
            buffer,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::folder::DiskFolder;
    use std::io::Write;

    /// A file is mapped only where its folder bears out that it is closed, whatever a plan says.
    #[test]
    fn a_live_file_is_closed_once_the_next_log_exists() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [0, 7].map(|base| format!("{base:020}.log"));
        let index = format!("{:020}.index", 0);
        let on_disk = DiskFolder::at(folder.path());
        let closed = |name: &str, next| ClosedName::of(&on_disk, name, next).is_some();
        std::fs::write(folder.path().join(&first), b"").unwrap();
        assert!(!closed(&first, None) && !closed(&first, Some(7)));
        std::fs::write(folder.path().join(&second), b"").unwrap();
        assert!(closed(&first, Some(7)) && !closed(&first, Some(8)));
        assert!(closed(&index, Some(7)) && !closed(&index, None));
        assert!(!closed(&second, Some(0)) && !closed(&second, Some(7)) && !closed(&second, None));
        for (suffix, expected) in [(".deleted", true), (".swap", true), (".cleaned", false)] {
            assert_eq!(closed(&format!("{first}{suffix}"), None), expected);
        }
        assert!(closed("00000000000000000012-0000000003.checkpoint", None));
        assert!(!closed(
            "00000000000000000012-0000000003.checkpoint.part",
            None
        ));
        assert!(!closed(&first.replace("log", "snapshot"), Some(7)) && !closed("a", Some(7)));
    }

    #[test]
    fn covers_what_was_there_and_outlives_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"hello").unwrap();
        let file = File::open(&path).unwrap();
        let open = |length| {
            // SAFETY: the file lies in a folder of this test, which only appends to it.
            unsafe { Mapping::open(&file, &path, length) }.unwrap()
        };
        let (map, short) = (open(100), open(2));
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b" world")
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(map.as_slice(), b"hello");
        assert_eq!(short.as_slice(), b"he");
        assert_eq!(open(0).as_slice(), b"");
    }
}
