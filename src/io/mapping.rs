//! Read-only file maps, the only ones in the crate.
//!
//! # Contract
//! A map is sound while nobody shortens the file below it: touching a page behind the end is a SIGBUS that no check
//! can catch. What holds, and who sees to it:
//! * The map covers the length seen when it was opened, never more ([`Mapping::open`]).
//! * Only closed segments and their indexes are mapped. Kafka appends to, truncates and preallocates the *active*
//!   segment's files; those are read by copy (`segment::source`). Closed ones are only ever renamed and unlinked, which
//!   leaves the mapped inode whole, or replaced by new files.
//! * We never write through a map of this module, and never shorten a file that we mapped.
//!
//! What remains is a broker that truncates a closed segment as a follower while we read it: the documentation says so.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: memmap2's maps are unsafe to make"
)]

use std::fs::File;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Result};

/// A mapped file, as long as it was when it was opened.
#[derive(Debug)]
pub struct Mapping {
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Mmap>,
}

impl Mapping {
    /// Maps `file` up to `length` bytes, or to its present end where that is nearer.
    ///
    /// # Errors
    /// `Io` where the file cannot be stat'ed or mapped (`ENOMEM` under an address space limit).
    pub fn open(file: &File, path: &Path, length: u64) -> Result<Self> {
        let now = file.metadata().map_err(Error::io(path))?.len();
        let length = usize::try_from(length.min(now))
            .map_err(|_| Error::InvalidArgument(format!("{}: too long to map", path.display())))?;
        if length == 0 {
            return Ok(Self { map: None });
        }
        let mut options = MmapOptions::new();
        options.len(length);
        #[expect(clippy::disallowed_methods, reason = "this is the one mapping site")]
        // SAFETY: `length` is at most the file's length as fstat just gave it, so every page of the map is backed; the
        // module's contract keeps it backed.
        let map = unsafe { options.map(file) }.map_err(Error::io(path))?;
        Ok(Self { map: Some(map) })
    }

    /// The mapped bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Says that the map will be read front to back. A hint; refusal does not matter.
    pub fn advise_sequential(&self) {
        #[cfg(unix)]
        if let Some(map) = &self.map {
            let _ = map.advise(memmap2::Advice::Sequential);
        }
    }

    /// Says that the map will be read here and there. A hint; refusal does not matter.
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
        let map = Mapping::open(&file, &path, 100).unwrap();
        let short = Mapping::open(&file, &path, 2).unwrap();
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b" world")
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(map.as_slice(), b"hello");
        assert_eq!(short.as_slice(), b"he");
        assert_eq!(Mapping::open(&file, &path, 0).unwrap().as_slice(), b"");
    }
}
