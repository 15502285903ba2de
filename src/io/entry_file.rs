//! Index files, wherever they are: entries of `N` bytes in a file that is longer than its entries while it is written
//! (`AbstractIndex`).
//!
//! | implemented by | where | read |
//! |---|---|---|
//! | [`IndexFile`](super::index_file::IndexFile) | on a disk | through a map |
//! | [`StoredIndex`](super::stored_index::StoredIndex) | in any storage | by reads and writes |
//!
//! Those that are only read are implemented where they are used; they refuse every change.

use std::fmt::Debug;
use std::path::Path;

use crate::error::{Error, Result};

/// No index is longer: Kafka maps it with a Java `int`.
pub(crate) const MAX_SIZE: u64 = i32::MAX as u64;

/// Bytes of `entries` entries.
#[inline]
#[must_use]
pub(crate) const fn bytes_of<const N: usize>(entries: usize) -> u64 {
    (entries as u64).saturating_mul(N as u64)
}

/// Whole entries in `length` bytes.
#[must_use]
pub(crate) fn entries_in<const N: usize>(length: u64) -> usize {
    let whole = length.checked_div(N as u64).unwrap_or_default();
    usize::try_from(whole).unwrap_or(usize::MAX)
}

/// `length` rounded down to whole entries.
#[must_use]
pub(crate) fn whole<const N: usize>(length: u64) -> u64 {
    bytes_of::<N>(entries_in::<N>(length))
}

/// An index file; its only writer, if it is written.
pub trait EntryFile<const N: usize>: Debug + Sized {
    /// The file.
    fn path(&self) -> &Path;

    /// Entries written.
    fn entries(&self) -> usize;

    /// The file's length.
    fn length(&self) -> u64;

    /// Entry `n`, if there is one.
    ///
    /// # Errors
    /// `InvalidArgument` after a close; `Io`.
    fn get(&self, n: usize) -> Result<Option<[u8; N]>>;

    /// Reads entries from `n` on into `slots`; returns how many there were.
    ///
    /// # Errors
    /// As [`EntryFile::get`].
    fn read(&self, n: usize, slots: &mut [[u8; N]]) -> Result<usize> {
        let mut read = 0usize;
        for slot in slots {
            let Some(found) = self.get(n.saturating_add(read))? else {
                break;
            };
            *slot = found;
            read = read.saturating_add(1);
        }
        Ok(read)
    }

    /// All entries, of a file that stays as it is in memory.
    #[inline]
    fn in_memory(&self) -> Option<&[[u8; N]]> {
        None
    }

    /// Returns whether every whole slot of the file is to count as an entry when Kafka opens it, but some were never
    /// written.
    fn has_zero_tail(&self) -> bool {
        false
    }

    /// Whole entries the file has room for.
    #[inline]
    fn max_entries(&self) -> usize {
        entries_in::<N>(self.length())
    }

    /// The length of a file that is as long as it may be, before rounding.
    fn max_size(&self) -> u64 {
        self.length()
    }

    /// Refuses an index that was closed.
    ///
    /// # Errors
    /// `InvalidArgument`.
    #[inline]
    fn ensure_open(&self) -> Result<()> {
        Ok(())
    }

    /// Writes an entry after the others.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no room, or after a close; `Io`.
    fn push(&mut self, _slot: [u8; N]) -> Result<()> {
        Err(for_reading(self.path()))
    }

    /// Removes all but the first `entries` entries; their bytes stay in the file.
    ///
    /// # Errors
    /// `InvalidArgument` after a close; `Io`.
    fn truncate(&mut self, _entries: usize) -> Result<()> {
        Err(for_reading(self.path()))
    }

    /// Sets the file's length to `size` rounded down to whole entries; returns whether that changed it. Entries stay.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close; an error where entries would be lost.
    fn resize(&mut self, _size: usize) -> Result<bool> {
        Err(for_reading(self.path()))
    }

    /// Cuts the file after the last entry; nothing after a close.
    ///
    /// # Errors
    /// `Io`.
    fn trim_to_valid_size(&mut self) -> Result<()> {
        Err(for_reading(self.path()))
    }

    /// Syncs the entries to the device before it returns.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close.
    fn flush(&mut self) -> Result<()> {
        Err(for_reading(self.path()))
    }

    /// Trims and closes. Closing again does nothing.
    ///
    /// # Errors
    /// `Io`; it is closed even so.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    /// Closes and leaves the file as long as it is (`closeHandler`): as after a crash.
    fn close_handler(&mut self) {}
}

/// Checks the length that a new file of entries of `N` bytes is to have.
///
/// # Errors
/// `InvalidArgument` for less than an entry.
pub(crate) fn check_new<const N: usize>(path: &Path, max_size: u64) -> Result<()> {
    if max_size >= N as u64 {
        return Ok(());
    }
    let what = format_args!("an index of {max_size} bytes has no room for an entry of {N}");
    Err(invalid(path, what))
}

/// Refuses a file that is longer than an index can be.
///
/// # Errors
/// `CorruptIndex`.
pub(crate) fn check_length(path: &Path, length: u64) -> Result<()> {
    if length <= MAX_SIZE {
        return Ok(());
    }
    let expected = format!("at most {MAX_SIZE} bytes");
    Err(Error::corrupt_index("index length", 0, expected, length).at(path))
}

/// `InvalidArgument` that names the file.
#[cold]
pub(crate) fn invalid(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::InvalidArgument(format!("{}: {what}", path.display()))
}

#[cold]
fn for_reading(path: &Path) -> Error {
    invalid(path, "the index was opened for reading")
}
