//! Offset and time indexes that are written, with the same results as `AbstractIndex`, `OffsetIndex` and `TimeIndex`.
//!
//! | module | what |
//! |---|---|
//! | [`offset`] | [`WritableOffsetIndex`](offset::WritableOffsetIndex) |
//! | [`time`] | [`WritableTimeIndex`](time::WritableTimeIndex) |
//!
//! Here is what both do, over any [`EntryFile`]: mapped on a disk, or under plan.
//!
//! # Differences from Kafka
//! Kafka's objects can be driven into a state in which their entries and their write position
//! disagree (a resize below the entries; a time entry whose offset does not fit): exceptions out of that state follow,
//! and bytes in wrong places. On a disk such a call is refused and changes nothing. Under plan a resize below the
//! entries shortens the file, as Kafka does before it throws, and fails.

use std::fmt::Debug;
use std::path::Path;

use super::search;
use crate::error::{Error, Refusal, Result};
use crate::format::entry::relative_offset;
use crate::io::disk::Disk;
use crate::io::entry_file::EntryFile;
use crate::io::folder::open_index;
use crate::io::index_file::IndexFile;
use crate::io::storage::Storage;
use crate::types::Offset;

pub(crate) mod offset;
pub(crate) mod time;

/// An entry of `W` words.
pub trait Entry<const W: usize>: Copy + Debug + PartialEq {
    /// Slots that count as full while they are free.
    const KEPT_FREE: usize;

    /// From the words on disk.
    fn decode(base_offset: Offset, words: [u32; W]) -> Self;

    /// The words on disk, for an offset so far from the base.
    fn encode(&self, relative_offset: i32) -> [u32; W];

    /// Substitute for the last entry of an empty index, and for the entry before the first.
    fn before_all(base_offset: Offset) -> Self;

    /// The offset it names.
    fn offset(&self) -> Offset;

    /// The number of the last entry whose key is at or below `target`, as Kafka's search finds it.
    ///
    /// # Errors
    /// Where an entry cannot be read.
    fn floor<F: EntryFile<W>>(base_offset: Offset, file: &F, target: i64) -> Result<Option<usize>>;
}

/// An index and its only writer.
#[derive(Debug)]
pub struct WritableIndex<E, const W: usize, F = IndexFile<W>> {
    file: F,
    base_offset: Offset,
    last: E,
}

#[inline]
fn entry_at<E: Entry<W>, const W: usize, F: EntryFile<W>>(
    base_offset: Offset,
    file: &F,
    n: usize,
) -> Result<Option<E>> {
    let words = file.get(n)?;
    Ok(words.map(|words| E::decode(base_offset, words)))
}

fn last_of<E: Entry<W>, const W: usize, F: EntryFile<W>>(
    base_offset: Offset,
    file: &F,
) -> Result<E> {
    let last = match file.entries().checked_sub(1) {
        Some(n) => entry_at(base_offset, file, n)?,
        None => None,
    };
    Ok(last.unwrap_or_else(|| E::before_all(base_offset)))
}

impl<E: Entry<W>, const W: usize> WritableIndex<E, W> {
    /// Opens the index of the segment that begins at `base_offset`, as [`WritableIndex::open_in`].
    ///
    /// # Errors
    /// As there.
    pub fn open(
        disk: &Disk,
        path: &Path,
        base_offset: Offset,
        max_index_size: usize,
    ) -> Result<Self> {
        Self::over(open_index(disk, path, max_index_size)?, base_offset)
    }
}

impl<E: Entry<W>, const W: usize, F: EntryFile<W>> WritableIndex<E, W, F> {
    /// Opens the index of the segment that begins at `base_offset`; a new one gets `max_index_size` bytes, rounded down
    /// to whole entries. Of an existing one every whole slot is an entry, zeros too: it is full until
    /// [`WritableIndex::resize`].
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where a new index would have no room for an entry (an empty file stays, as in Kafka);
    /// `CorruptIndex` for a file longer than an index can be.
    pub(crate) fn open_in<S: Storage<IndexFile<W> = F>>(
        storage: &S,
        name: &str,
        base_offset: Offset,
        max_index_size: usize,
    ) -> Result<Self> {
        Self::over(storage.open_index::<W>(name, max_index_size)?, base_offset)
    }

    fn over(file: F, base_offset: Offset) -> Result<Self> {
        let last = last_of(base_offset, &file)?;
        Ok(Self {
            file,
            base_offset,
            last,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The segment's base offset.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Entries written.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.file.entries()
    }

    /// Entries the file has room for.
    #[must_use]
    pub fn max_entries(&self) -> usize {
        self.file.max_entries()
    }

    /// Returns whether there is no room for an entry; a time index keeps a slot free for the end of its segment.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Entries that can be made until it is full.
    #[must_use]
    pub fn room(&self) -> usize {
        let used = self.file.entries().saturating_add(E::KEPT_FREE);
        self.file.max_entries().saturating_sub(used)
    }

    /// The file's length.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.file.length()
    }

    /// Bytes of the entries.
    #[must_use]
    pub fn size_in_bytes(&self) -> usize {
        self.file.entries().saturating_mul(F::ENTRY_SIZE)
    }

    /// The last entry, or what stands for it in an empty index; also after a close.
    #[must_use]
    pub const fn last_entry(&self) -> E {
        self.last
    }

    /// Entry `n`.
    ///
    /// # Errors
    /// `InvalidArgument` where there is none, and after a close.
    pub fn entry(&self, n: usize) -> Result<E> {
        entry_at(self.base_offset, &self.file, n)?.ok_or_else(|| {
            let (path, entries) = (self.path().display(), self.entries());
            Error::InvalidArgument(format!("{path}: no entry {n}, the index has {entries}"))
        })
    }

    /// The last entry whose key is at or below `target`, or what stands for it: `(base, 0)` in an offset index,
    /// `(-1, base)` in a time index.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    #[inline]
    pub fn lookup(&self, target: i64) -> Result<E> {
        self.file.ensure_open()?;
        let found = match E::floor(self.base_offset, &self.file, target)? {
            Some(n) => entry_at(self.base_offset, &self.file, n)?,
            None => None,
        };
        Ok(found.unwrap_or_else(|| E::before_all(self.base_offset)))
    }

    /// Returns whether entries can name this offset: at the base or up to 2^31 - 1 above.
    #[must_use]
    pub fn can_append_offset(&self, offset: Offset) -> bool {
        relative_offset(self.base_offset, offset).is_some()
    }

    /// Distance of `offset` from the base.
    ///
    /// # Errors
    /// `Refused` (`SegmentOffsetOverflow`) where entries cannot name it.
    #[inline]
    pub fn relative_offset(&self, offset: Offset) -> Result<i32> {
        relative_offset(self.base_offset, offset).ok_or_else(|| {
            let (path, base) = (self.path().display(), self.base_offset);
            let text = format!(
                "{path}: expected at most {} above the base {base}",
                i32::MAX
            );
            Error::refused(Refusal::SegmentOffsetOverflow, text).for_offset(offset)
        })
    }

    #[cold]
    fn full(&self) -> Error {
        let (path, entries) = (self.path().display(), self.entries());
        let text = format!(
            "{path}: full with {entries} entries of {}",
            self.max_entries()
        );
        Error::refused(Refusal::IndexFull, text)
    }

    #[cold]
    fn out_of_order(&self, offset: Offset) -> Error {
        let (path, last) = (self.path().display(), self.last.offset());
        let text = format!("{path}: expected an offset above the last one, {last}");
        Error::refused(Refusal::OffsetsOutOfOrder, text).for_offset(offset)
    }

    #[inline]
    fn push(&mut self, entry: E, relative_offset: i32) -> Result<()> {
        self.file.push(entry.encode(relative_offset))?;
        self.last = entry;
        Ok(())
    }

    /// Drops all entries.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    pub fn truncate(&mut self) -> Result<()> {
        self.truncate_to_entries(0)
    }

    fn truncate_to_entries(&mut self, entries: usize) -> Result<()> {
        self.file.truncate(entries)?;
        self.last = last_of(self.base_offset, &self.file)?;
        Ok(())
    }

    /// Drops the entries at or above `offset`.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<()> {
        let at = |n| {
            let entry = entry_at::<E, W, _>(self.base_offset, &self.file, n)?;
            Ok(entry.map_or(i64::MAX, |entry| entry.offset()))
        };
        let kept = search::below::<W, Error>(self.entries(), offset, at)?;
        self.truncate_to_entries(kept)
    }

    /// Sets the file's length to `size` rounded down to whole entries; returns whether that changed it.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close, or where entries would be lost.
    pub fn resize(&mut self, size: usize) -> Result<bool> {
        self.file.resize(size)
    }

    /// Makes the file as long as it may be. Entries that have no room then go, as if the index had been full before
    /// them; returns whether all had room.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close.
    pub(crate) fn fit(&mut self) -> Result<bool> {
        let slots = F::entries_in(self.file.max_size());
        let has_room = self.entries() <= slots;
        if !has_room {
            self.truncate_to_entries(slots.saturating_sub(E::KEPT_FREE))?;
        }
        self.resize_to_max()?;
        Ok(has_room)
    }

    fn resize_to_max(&mut self) -> Result<()> {
        let size = usize::try_from(self.file.max_size()).unwrap_or(usize::MAX);
        self.resize(size).map(drop)
    }

    /// Drops all entries and makes the file as long as it may be.
    ///
    /// # Errors
    /// As [`WritableIndex::resize`].
    pub fn reset(&mut self) -> Result<()> {
        self.truncate()?;
        self.resize_to_max()
    }

    /// Cuts the file after the last entry; nothing after a close.
    ///
    /// # Errors
    /// `Io`.
    pub fn trim_to_valid_size(&mut self) -> Result<()> {
        self.file.trim_to_valid_size()
    }

    /// Syncs the entries to the device before it returns.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    /// Trims and closes. Closing again does nothing.
    ///
    /// # Errors
    /// `Io`; it is closed even so.
    pub fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    /// Closes and leaves the file as long as it is (`closeHandler`): as after a crash.
    pub fn close_handler(&mut self) {
        self.file.close_handler();
    }

    /// Checks that the file consists of whole entries.
    fn check_length(&self) -> Result<()> {
        let (length, size) = (self.length(), F::ENTRY_SIZE);
        if length.checked_rem(size as u64) == Some(0) {
            return Ok(());
        }
        let expected = format_args!("a multiple of {size}");
        Err(Error::corrupt_index("index length", length, expected, length).at(self.path()))
    }

    /// Position of the last entry.
    fn last_position(&self) -> u64 {
        self.size_in_bytes().saturating_sub(F::ENTRY_SIZE) as u64
    }
}

#[cfg(test)]
mod tests;
