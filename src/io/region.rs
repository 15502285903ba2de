//! Shared immutable bytes: a mapped file or a heap block. Columns that point into one keep it alive.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::mapping::Mapping;

/// What the bytes live in.
#[derive(Clone)]
enum Owner {
    Mapped(Arc<Mapping>),
    Heap(Arc<Vec<u8>>),
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

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Owner::Mapped(mapping) => mapping.as_slice(),
            Owner::Heap(bytes) => bytes,
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

    /// True for a heap block that nothing else points into.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        matches!(&self.0, Owner::Heap(bytes) if Arc::strong_count(bytes) == 1)
    }

    /// Gives the heap block back for reuse, if nothing else points into it.
    #[must_use]
    pub fn into_unique_vec(self) -> Option<Vec<u8>> {
        match self.0 {
            Owner::Heap(bytes) => Arc::try_unwrap(bytes).ok(),
            Owner::Mapped(_) => None,
        }
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
