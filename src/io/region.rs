//! Shared immutable bytes: a mapped file or a heap block. Columns that point into one keep it alive.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

use super::mapping::Mapping;
use super::pool::BlockPool;

/// Memory of file windows and decompressed blocks that nothing points into any more.
static SPARE: BlockPool<u8> = BlockPool::new(12 << 20);

/// A map that a region keeps.
struct Mapped(Arc<Mapping>);

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// A block that is reused.
struct Spare(Vec<u8>);

impl AsRef<[u8]> for Spare {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

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

/// Cheaply cloned bytes. Where they lie is kept beside their owner: readers ask several times a batch.
#[derive(Clone)]
pub struct Region {
    bytes: Bytes,
    is_mapped: bool,
}

impl Region {
    /// No bytes.
    #[must_use]
    pub(crate) const fn empty() -> Self {
        Self {
            bytes: Bytes::new(),
            is_mapped: false,
        }
    }

    /// Bytes of a mapped file.
    #[must_use]
    pub fn mapped(mapping: Arc<Mapping>) -> Self {
        Self {
            bytes: Bytes::from_owner(Mapped(mapping)),
            is_mapped: true,
        }
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn heap(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Bytes::from(bytes),
            is_mapped: false,
        }
    }

    /// Bytes on the heap, whose memory is reused when nothing points into them any more.
    #[must_use]
    pub fn spare(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Bytes::from_owner(Spare(bytes)),
            is_mapped: false,
        }
    }

    /// Bytes that others hold too.
    #[must_use]
    pub(crate) const fn shared(bytes: Bytes) -> Self {
        Self {
            bytes,
            is_mapped: false,
        }
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes and their owner, for other holders.
    #[must_use]
    pub(crate) fn to_bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// True for a mapped file: its memory is the page cache's, not ours.
    #[must_use]
    pub const fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// True where both are the same bytes in memory, not merely equal ones.
    #[inline]
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
