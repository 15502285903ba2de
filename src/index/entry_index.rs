//! The offset and the time index, for reading and writing, with the results of Kafka's `AbstractIndex`, `OffsetIndex`
//! and `TimeIndex`.
//!
//! Its entries lie in an [`EntryFile`]: read-only [`Slots`], a mapped file on disk, or a file of a plan.
//!
//! # Differences from Kafka
//! Kafka's objects can be driven into a state in which their entries and their write position
//! disagree (a resize below the entries; a time entry whose offset does not fit): exceptions out of that state follow,
//! and bytes in wrong places. On a disk such a call is refused and changes nothing. In a plan a resize below the
//! entries shortens the file, as Kafka does before it throws, and fails.
//!
//! Slots in memory are searched faster than Kafka searches. Both find the same among entries that rise.

use std::fmt::Debug;
use std::path::Path;

use super::search;
use super::slots::{SlotFile, Slots};
use crate::error::{Error, Refusal, Result};
use crate::format::entry::relative_offset;
use crate::io::disk::Disk;
use crate::io::entry_file::{EntryFile, bytes_of, entries_in};
use crate::io::folder::open_file;
use crate::io::index_file::IndexFile;
use crate::io::mapping::ClosedFile;
use crate::io::storage::{ReadFolder, Storage};
use crate::types::Offset;

/// An entry of `N` bytes.
pub trait IndexEntry<const N: usize>: Copy + Debug + PartialEq {
    /// Value that is computed once when slots are opened and makes lookups among them quick.
    type Guide: Clone + Debug + Send + Sync;

    /// Slots that count as full while they are free.
    const KEPT_FREE: usize;

    /// Name of the last key, if Kafka's check holds it against the first.
    const CHECKED_KEY: Option<&'static str>;

    /// The guide to these entries.
    fn guide(slots: &[[u8; N]]) -> Self::Guide;

    /// Returns whether slot `n` was never written, given that all before it were.
    fn is_tail(n: usize, slot: &[u8; N]) -> bool;

    /// From the bytes on disk.
    fn decode(base_offset: Offset, slot: &[u8; N]) -> Self;

    /// The bytes on disk, for an offset so far from the base.
    fn encode(&self, relative_offset: i32) -> [u8; N];

    /// Substitute for the last entry of an empty index, and for the entry before the first.
    fn before_all(base_offset: Offset) -> Self;

    /// The offset it names.
    fn offset(&self) -> Offset;

    /// The value that is looked up.
    fn key(&self) -> i64;

    /// The number of the greatest entry at or below `target`, among entries that rise.
    fn floor(
        guide: &Self::Guide,
        base_offset: Offset,
        slots: &[[u8; N]],
        target: i64,
    ) -> Option<usize>;
}

/// An offset or time index.
#[derive(Clone, Debug)]
pub struct EntryIndex<E: IndexEntry<N>, const N: usize, F = Slots<N>> {
    pub(super) file: F,
    pub(super) base_offset: Offset,
    pub(super) last: E,
    guide: E::Guide,
}

/// Reading.
impl<E: IndexEntry<N>, const N: usize> EntryIndex<E, N> {
    /// Copies the index of the segment that begins at `base_offset`.
    ///
    /// # Errors
    /// `Io` where the file cannot be read.
    pub fn open(path: &Path, base_offset: Offset) -> Result<Self> {
        let (file, length) = open_file(path)?;
        Self::over(Slots::copy(&*file, length, E::is_tail)?, base_offset)
    }

    /// As [`EntryIndex::open`], of a file in any storage.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(folder: &dyn ReadFolder, name: &str, base_offset: Offset) -> Result<Self> {
        let (file, length) = folder.open_with_length(name)?;
        Self::over(Slots::copy(&*file, length, E::is_tail)?, base_offset)
    }

    /// The last entry of the index of the segment that begins at `base_offset`, if it has any; nothing else is read.
    ///
    /// # Errors
    /// As [`EntryIndex::open`].
    pub(crate) fn last_of(
        folder: &dyn ReadFolder,
        name: &str,
        base_offset: Offset,
    ) -> Result<Option<E>> {
        let (file, length) = folder.open_with_length(name)?;
        let (_, last) = SlotFile::new(&*file, length).written(E::is_tail)?;
        Ok(last.map(|slot| E::decode(base_offset, &slot)))
    }

    /// Maps the index of the closed segment that begins at `base_offset`; one with a zero tail is copied, and so is one
    /// that cannot be mapped.
    ///
    /// # Errors
    /// `Io` where the file cannot be read.
    pub fn map(file: &ClosedFile, base_offset: Offset) -> Result<Self> {
        Self::over(Slots::map(file, E::is_tail)?, base_offset)
    }

    /// An index over given bytes.
    ///
    /// # Errors
    /// As [`EntryIndex::get`].
    pub fn from_bytes(bytes: Vec<u8>, base_offset: Offset) -> Result<Self> {
        Self::over(Slots::from_bytes(bytes, E::is_tail), base_offset)
    }

    /// All entries in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = E> + '_ {
        let slots = self.file.written().iter();
        slots.map(|slot| E::decode(self.base_offset, slot))
    }
}

impl<E: IndexEntry<N>, const N: usize> EntryIndex<E, N, IndexFile<N>> {
    /// Opens the index of the segment that begins at `base_offset` for writing, as [`EntryIndex::open_writable_in`].
    ///
    /// # Errors
    /// As there.
    pub fn open_writable(
        disk: &Disk,
        path: &Path,
        base_offset: Offset,
        max_index_size: usize,
    ) -> Result<Self> {
        Self::over(IndexFile::open(disk, path, max_index_size)?, base_offset)
    }
}

impl<E: IndexEntry<N>, const N: usize, F: EntryFile<N>> EntryIndex<E, N, F> {
    /// Opens the index of the segment that begins at `base_offset` for writing; a new one gets `max_index_size` bytes,
    /// rounded down to whole entries. Of an existing one every whole slot is an entry, zeros too: it is full until
    /// [`EntryIndex::resize`].
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where a new index would have no room for an entry (an empty file stays, as in Kafka);
    /// `CorruptIndex` for a file longer than an index can be.
    pub(crate) fn open_writable_in<S: Storage<IndexFile<N> = F>>(
        storage: &S,
        name: &str,
        base_offset: Offset,
        max_index_size: usize,
    ) -> Result<Self> {
        Self::over(storage.open_index::<N>(name, max_index_size)?, base_offset)
    }

    /// Takes an open file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn over(file: F, base_offset: Offset) -> Result<Self> {
        let guide = E::guide(file.in_memory().unwrap_or_default());
        let mut index = Self {
            file,
            base_offset,
            last: E::before_all(base_offset),
            guide,
        };
        index.find_last()?;
        Ok(index)
    }

    fn find_last(&mut self) -> Result<()> {
        let last = match self.entries().checked_sub(1) {
            Some(n) => self.get(n)?,
            None => None,
        };
        self.last = last.unwrap_or_else(|| E::before_all(self.base_offset));
        Ok(())
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
    #[inline]
    #[must_use]
    pub fn entries(&self) -> usize {
        self.file.entries()
    }

    /// Entries the file has room for, which Kafka, on opening it, takes for written.
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
        self.file.entries().saturating_mul(N)
    }

    /// The last entry; of an empty index `(base, 0)` or `(-1, base)`. Also after a close.
    #[must_use]
    pub const fn last_entry(&self) -> E {
        self.last
    }

    /// Entry `n`, if there is one.
    ///
    /// # Errors
    /// `InvalidArgument` after a close; `Io`.
    #[inline]
    pub fn get(&self, n: usize) -> Result<Option<E>> {
        let slot = self.file.get(n)?;
        Ok(slot.map(|slot| E::decode(self.base_offset, &slot)))
    }

    /// A value of entry `n`, by which entries are searched.
    #[inline]
    pub(super) fn value(&self, n: usize, value: impl FnOnce(E) -> i64) -> Result<i64> {
        Ok(self.get(n)?.map_or(i64::MAX, value))
    }

    /// The number of the last entry whose key is at or below `target`; outside memory as Kafka's search finds it.
    ///
    /// # Errors
    /// As [`EntryIndex::get`].
    #[inline]
    pub fn floor(&self, target: i64) -> Result<Option<usize>> {
        if let Some(slots) = self.file.in_memory() {
            return Ok(E::floor(&self.guide, self.base_offset, slots, target));
        }
        self.file.ensure_open()?;
        search::floor::<N, _>(self.entries(), target, |n| self.value(n, |it| it.key()))
    }

    /// That entry, or what stands for it: `(base, 0)` in an offset index, `(-1, base)` in a time index.
    ///
    /// # Errors
    /// As [`EntryIndex::get`].
    #[inline]
    pub fn lookup(&self, target: i64) -> Result<E> {
        let found = match self.floor(target)? {
            Some(n) => self.get(n)?,
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
    pub(super) fn full(&self) -> Error {
        let (path, entries) = (self.path().display(), self.entries());
        let text = format!(
            "{path}: full with {entries} entries of {}",
            self.max_entries()
        );
        Error::refused(Refusal::IndexFull, text)
    }

    #[cold]
    pub(super) fn out_of_order(&self, offset: Offset) -> Error {
        let (path, last) = (self.path().display(), self.last.offset());
        let text = format!("{path}: expected an offset above the last one, {last}");
        Error::refused(Refusal::OffsetsOutOfOrder, text).for_offset(offset)
    }

    #[inline]
    pub(super) fn push(&mut self, entry: E, relative_offset: i32) -> Result<()> {
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
        self.find_last()
    }

    /// Drops the entries at or above `offset`.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    pub fn truncate_to(&mut self, offset: Offset) -> Result<()> {
        let at = |n| self.value(n, |it| it.offset());
        let kept = search::below::<N, Error>(self.entries(), offset, at)?;
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
        let slots = entries_in::<N>(self.file.max_size());
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
    /// As [`EntryIndex::resize`].
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

    /// Kafka's check: whole entries only, the last not below the base, and in a time index not older than the first. A
    /// zero tail counts, as Kafka takes it for entries.
    ///
    /// # Errors
    /// `CorruptIndex` where it fails; `InvalidArgument` where a time index was closed; `Io`.
    pub fn sanity_check(&self) -> Result<()> {
        let (path, length) = (self.path(), self.length());
        if self.entries() > 0 {
            let (slots, last) = if self.file.has_zero_tail() {
                (self.max_entries(), E::decode(self.base_offset, &[0; N]))
            } else {
                (self.entries(), self.last)
            };
            let fault = |what, expected: std::fmt::Arguments<'_>, found: i64| {
                let at = bytes_of::<N>(slots.saturating_sub(1));
                Err(Error::corrupt_index(what, at, expected, found).at(path))
            };
            if let Some(what) = E::CHECKED_KEY {
                let (first, last) = (self.value(0, |it| it.key())?, last.key());
                if last < first {
                    return fault(what, format_args!("at least the first, {first}"), last);
                }
            }
            let (base, last) = (self.base_offset, last.offset());
            if last < base {
                return fault(
                    "last offset",
                    format_args!("at least the base, {base}"),
                    last,
                );
            }
        }
        if length.checked_rem(N as u64) == Some(0) {
            return Ok(());
        }
        let expected = format_args!("a multiple of {N}");
        Err(Error::corrupt_index("index length", length, expected, length).at(path))
    }
}

#[cfg(test)]
mod tests;
