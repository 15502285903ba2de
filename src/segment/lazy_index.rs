//! Index files that are opened, or made, when somebody first looks at them (`LazyIndex`).

use std::path::PathBuf;

use crate::error::Result;
use crate::index::writable::{Entry, WritableIndex};
use crate::io::disk::Disk;
use crate::types::Offset;

/// An index, or where it would be.
#[derive(Debug)]
pub(super) struct LazyIndex<E, const W: usize> {
    disk: Disk,
    path: PathBuf,
    base_offset: Offset,
    max_size: usize,
    index: Option<WritableIndex<E, W>>,
}

impl<E: Entry<W>, const W: usize> LazyIndex<E, W> {
    pub(super) fn new(disk: &Disk, path: PathBuf, base_offset: Offset, max_size: usize) -> Self {
        Self {
            disk: disk.clone(),
            path,
            base_offset,
            max_size,
            index: None,
        }
    }

    /// The index, opened or made now if it was not before.
    #[inline]
    pub(super) fn get(&mut self) -> Result<&mut WritableIndex<E, W>> {
        match &mut self.index {
            Some(index) => Ok(index),
            none => {
                let (path, base, size) = (&self.path, self.base_offset, self.max_size);
                Ok(none.insert(WritableIndex::open(&self.disk, path, base, size)?))
            }
        }
    }

    /// Cuts it to its entries and lets go of it; nothing if nobody looked at it.
    pub(super) fn close(&mut self) -> Result<()> {
        self.index.take().map_or(Ok(()), |mut index| index.close())
    }

    /// Lets go of it as it is.
    pub(super) fn close_handler(&mut self) {
        if let Some(mut index) = self.index.take() {
            index.close_handler();
        }
    }
}
