//! Index files, wherever they are: entries of `W` words of four bytes, big-endian, in a file that is longer than its
//! entries while it is written (`AbstractIndex`).
//!
//! | implemented by | where | read |
//! |---|---|---|
//! | [`IndexFile`](super::index_file::IndexFile) | on a disk | through a map |
//! | [`StoredIndex`](super::stored_index::StoredIndex) | in any storage | by reads and writes |

use std::fmt::Debug;
use std::path::Path;

use crate::error::{Error, Result};

/// Bytes of a word.
pub(crate) const WORD: usize = 4;
/// No index is longer: Kafka maps it with a Java `int`.
pub(crate) const MAX_SIZE: u64 = i32::MAX as u64;

/// An index file and its only writer.
pub trait EntryFile<const W: usize>: Debug + Sized {
    /// Bytes of an entry.
    const ENTRY_SIZE: usize = W * WORD;

    /// Bytes of `entries` entries.
    #[inline]
    fn size_of(entries: usize) -> u64 {
        (entries as u64).saturating_mul(Self::ENTRY_SIZE as u64)
    }

    /// Whole entries in `length` bytes.
    fn entries_in(length: u64) -> usize {
        let whole = length.checked_div(Self::ENTRY_SIZE as u64);
        usize::try_from(whole.unwrap_or_default()).unwrap_or(usize::MAX)
    }

    /// `length` rounded down to whole entries.
    fn whole(length: u64) -> u64 {
        Self::size_of(Self::entries_in(length))
    }

    /// Checks the length that a new file is to have.
    ///
    /// # Errors
    /// `InvalidArgument` for less than an entry.
    fn check_new(path: &Path, max_size: u64) -> Result<()> {
        if max_size >= Self::size_of(1) {
            return Ok(());
        }
        let least = Self::ENTRY_SIZE;
        let what = format_args!("an index of {max_size} bytes has no room for an entry of {least}");
        Err(invalid(path, what))
    }

    /// The file.
    fn path(&self) -> &Path;

    /// Entries written.
    fn entries(&self) -> usize;

    /// Whole entries the file has room for.
    fn max_entries(&self) -> usize;

    /// The file's length.
    fn length(&self) -> u64;

    /// The length of a file that is as long as it may be, before rounding.
    fn max_size(&self) -> u64;

    /// Refuses an index that was closed.
    ///
    /// # Errors
    /// `InvalidArgument`.
    fn ensure_open(&self) -> Result<()> {
        Ok(())
    }

    /// Entry `n`, if there is one.
    ///
    /// # Errors
    /// `InvalidArgument` after a close; `Io`.
    fn get(&self, n: usize) -> Result<Option<[u32; W]>>;

    /// Writes an entry after the others.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no room, or after a close; `Io`.
    fn push(&mut self, words: [u32; W]) -> Result<()>;

    /// Removes all but the first `entries` entries; their bytes stay in the file.
    ///
    /// # Errors
    /// `InvalidArgument` after a close; `Io`.
    fn truncate(&mut self, entries: usize) -> Result<()>;

    /// Sets the file's length to `size` rounded down to whole entries; returns whether that changed it. Entries stay.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close; an error where entries would be lost.
    fn resize(&mut self, size: usize) -> Result<bool>;

    /// Cuts the file after the last entry; nothing after a close.
    ///
    /// # Errors
    /// `Io`.
    fn trim_to_valid_size(&mut self) -> Result<()>;

    /// Syncs the entries to the device before it returns.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close.
    fn flush(&mut self) -> Result<()>;

    /// Trims and closes. Closing again does nothing.
    ///
    /// # Errors
    /// `Io`; it is closed even so.
    fn close(&mut self) -> Result<()>;

    /// Closes and leaves the file as long as it is (`closeHandler`): as after a crash.
    fn close_handler(&mut self);
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
