//! Shared immutable bytes: a mapped file or a heap block. Columns that point into one keep it alive.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::mapping::Mapping;
use super::pool::Pool;

/// Memory of file windows and decompressed blocks that nothing points into any more.
static SPARE: Pool<u8> = Pool::new(12 << 20);

/// What the bytes live in.
#[derive(Clone)]
enum Owner {
    Mapped(Arc<Mapping>),
    Heap(Arc<Vec<u8>>),
    Spare(Arc<Spare>),
}

/// A block that is reused.
struct Spare(Vec<u8>);

impl Drop for Spare {
    fn drop(&mut self) {
        SPARE.give(std::mem::take(&mut self.0));
    }
}

/// Used memory with room for `len` bytes and arbitrary content, if there is some: for [`Region::spare`].
#[must_use]
pub(crate) fn spare(len: usize) -> Vec<u8> {
    SPARE.take(len).unwrap_or_default()
}

/// Cheaply cloned bytes.
#[derive(Clone)]
pub struct Region(Owner);

impl Region {
    /// Bytes of a mapped file.
    #[must_use]
    pub fn mapped(mapping: Arc<Mapping>) -> Self {
        Self(Owner::Mapped(mapping))
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap(bytes: Vec<u8>) -> Self {
        Self(Owner::Heap(Arc::new(bytes)))
    }

    /// Bytes on the heap, whose memory is reused when nothing points into them any more.
    #[must_use]
    pub fn spare(bytes: Vec<u8>) -> Self {
        Self(Owner::Spare(Arc::new(Spare(bytes))))
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Owner::Mapped(mapping) => mapping.as_slice(),
            Owner::Heap(bytes) => bytes,
            Owner::Spare(spare) => &spare.0,
        }
    }

    /// True for a mapped file: its memory is the page cache's, not ours.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        matches!(self.0, Owner::Mapped(_))
    }

    /// True where both are the same bytes in memory, not merely equal ones.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self.as_slice(), other.as_slice())
    }
}

impl Deref for Region {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("len", &self.len())
            .field("mapped", &self.is_mapped())
            .finish()
    }
}
