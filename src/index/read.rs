//! Reading, shared by offset and time index.

use std::fmt::Debug;
use std::path::Path;

use super::{SlotFile, Slots};
use crate::error::Result;
use crate::io::folder::DiskReader;
use crate::io::mapping::ClosedFile;
use crate::io::storage::ReadFolder;
use crate::types::Offset;

/// An entry that is read from `N` bytes.
pub trait IndexEntry<const N: usize>: Copy + Debug + PartialEq {
    /// Value that is computed once when an index is opened and makes lookups quick.
    type Guide: Clone + Debug + Send + Sync;

    /// The guide to these entries.
    fn guide(slots: &[[u8; N]]) -> Self::Guide;

    /// Returns whether slot `n` was never written, given that all before it were.
    fn is_tail(n: usize, slot: &[u8; N]) -> bool;

    /// From the bytes on disk.
    fn decode(base_offset: Offset, slot: &[u8; N]) -> Self;

    /// Substitute for the last entry of an empty index, and for the entry before the first.
    fn before_all(base_offset: Offset) -> Self;

    /// The number of the greatest entry at or below `target`.
    fn floor(
        guide: &Self::Guide,
        base_offset: Offset,
        slots: &[[u8; N]],
        target: i64,
    ) -> Option<usize>;
}

/// A read-only index.
#[derive(Clone, Debug)]
pub struct ReadIndex<E: IndexEntry<N>, const N: usize> {
    pub(super) slots: Slots<N>,
    pub(super) base_offset: Offset,
    pub(super) guide: E::Guide,
}

impl<E: IndexEntry<N>, const N: usize> ReadIndex<E, N> {
    /// Copies the index of the segment that begins at `base_offset`.
    ///
    /// # Errors
    /// `Io` where the file cannot be read.
    pub fn open(path: &Path, base_offset: Offset) -> Result<Self> {
        let (file, length) = DiskReader::open_with_length(path)?;
        let slots = Slots::copy(&file, length, E::is_tail)?;
        Ok(Self::over(slots, base_offset))
    }

    /// As [`ReadIndex::open`], of a file in any storage.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(folder: &dyn ReadFolder, name: &str, base_offset: Offset) -> Result<Self> {
        let (file, length) = folder.open_with_length(name)?;
        let slots = Slots::copy(&*file, length, E::is_tail)?;
        Ok(Self::over(slots, base_offset))
    }

    /// The last entry of the index of the segment that begins at `base_offset`, if it has any; nothing else is read.
    ///
    /// # Errors
    /// As [`ReadIndex::open`].
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
        Ok(Self::over(Slots::map(file, E::is_tail)?, base_offset))
    }

    /// An index over given bytes.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>, base_offset: Offset) -> Self {
        Self::over(Slots::from_bytes(bytes, E::is_tail), base_offset)
    }

    fn over(slots: Slots<N>, base_offset: Offset) -> Self {
        let guide = E::guide(slots.written());
        Self {
            slots,
            base_offset,
            guide,
        }
    }

    /// The segment's base offset.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Entries written.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.slots.entries
    }

    /// Entries the file has room for, which Kafka, on opening it, takes for written.
    #[must_use]
    pub fn max_entries(&self) -> usize {
        self.slots.slots()
    }

    /// The file's length.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.slots.length
    }

    /// The last entry; of an empty index `(base, 0)` or `(-1, base)`.
    #[must_use]
    pub fn last_entry(&self) -> E {
        let last = self.entries().checked_sub(1);
        let last = last.and_then(|n| self.entry(n));
        last.unwrap_or_else(|| E::before_all(self.base_offset))
    }

    /// Entry `n`, if there is one.
    #[must_use]
    pub fn entry(&self, n: usize) -> Option<E> {
        let slot = self.slots.written().get(n);
        slot.map(|slot| E::decode(self.base_offset, slot))
    }

    /// All entries in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = E> + '_ {
        let slots = self.slots.written().iter();
        slots.map(|slot| E::decode(self.base_offset, slot))
    }

    /// The number of the greatest entry at or below `target`.
    #[inline]
    #[must_use]
    pub fn floor(&self, target: i64) -> Option<usize> {
        E::floor(&self.guide, self.base_offset, self.slots.written(), target)
    }

    /// The greatest entry at or below `target`, else `(base, 0)` or `(-1, base)`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, target: i64) -> E {
        self.floor(target)
            .and_then(|n| self.entry(n))
            .unwrap_or_else(|| E::before_all(self.base_offset))
    }
}
