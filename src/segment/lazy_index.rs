//! Index files that are opened, or created, when first used (`LazyIndex`).

use crate::error::Result;
use crate::index::entry_index::{EntryIndex, IndexEntry};
use crate::io::storage::Storage;
use crate::types::Offset;

/// An index, or where it would be.
#[derive(Debug)]
pub(super) struct LazyIndex<S: Storage, E: IndexEntry<N>, const N: usize> {
    storage: S,
    name: String,
    base_offset: Offset,
    max_size: usize,
    index: Option<EntryIndex<E, N, S::IndexFile<N>>>,
}

impl<S: Storage, E: IndexEntry<N>, const N: usize> LazyIndex<S, E, N> {
    pub(super) fn new(storage: &S, name: String, base_offset: Offset, max_size: usize) -> Self {
        Self {
            storage: storage.clone(),
            name,
            base_offset,
            max_size,
            index: None,
        }
    }

    /// The index, opened or created now if it was not before.
    #[inline]
    pub(super) fn get(&mut self) -> Result<&mut EntryIndex<E, N, S::IndexFile<N>>> {
        match &mut self.index {
            Some(index) => Ok(index),
            none => {
                let (storage, name) = (&self.storage, &self.name);
                let index =
                    EntryIndex::open_writable_in(storage, name, self.base_offset, self.max_size)?;
                Ok(none.insert(index))
            }
        }
    }

    /// Cuts it to its entries and closes it; nothing if it was never used.
    pub(super) fn close(&mut self) -> Result<()> {
        self.index.take().map_or(Ok(()), |mut index| index.close())
    }

    /// Closes it and leaves the file as long as it is.
    pub(super) fn close_handler(&mut self) {
        if let Some(mut index) = self.index.take() {
            index.close_handler();
        }
    }

    /// Has what was written in the file, if anybody examined it; then closes it, as long as it is, as the file is about
    /// to take this name.
    pub(super) fn rename(&mut self, name: String) -> Result<()> {
        if let Some(mut index) = self.index.take() {
            index.flush()?;
            index.close_handler();
        }
        self.name = name;
        Ok(())
    }
}
