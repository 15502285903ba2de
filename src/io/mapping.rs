//! Read-only file maps. Every other map in the crate is that of an index under its writer
//! ([`io::index_file`](crate::io::index_file)).
//!
//! # Contract
//! While a map lives, no process may shorten the file below the mapped length or change mapped bytes. Touching a page after
//! the end of the file is a SIGBUS that no check can catch, and the crate hands the bytes out as `&[u8]`. No code can
//! enforce this against other processes, so [`Mapping::open`] is unsafe and its callers argue why it holds:
//! * They map only files of closed segments, and look that up in the folder (`segment::closed::is_closed`), unless the log
//!   is their own, under its lock. Kafka appends to, truncates and preallocates the *active* segment's files; those are read
//!   by copy (`segment::source`, `index`). It only renames or unlinks closed ones, which leaves the mapped inode whole, or
//!   replaces them by new files.
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
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Result};

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
