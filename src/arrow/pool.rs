//! 64-byte aligned memory that is reused once a consumer has dropped the arrays in it. A scan whose batches are dropped
//! soon runs in the same few blocks.

use std::fmt;

use arrow_buffer::Buffer;
use bytemuck::{Pod, Zeroable};
use bytes::Bytes;

use crate::error::{Error, Result};
use crate::io::pool::BlockPool;
use crate::io::region::Region;

/// One cache line; its alignment is the block's.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; LINE]);

const LINE: usize = 64;
/// Memory of earlier batches' columns.
static SPARE: BlockPool<CacheLine> = BlockPool::new(24 << 20);

/// Memory being written to; none before it is requested.
#[derive(Debug)]
pub(crate) struct PooledBlock {
    lines: Vec<CacheLine>,
    /// Lines it will have at least when it has any.
    first: usize,
}

impl fmt::Debug for CacheLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheLine")
    }
}

impl PooledBlock {
    /// Creates a block with room for at least `bytes` bytes of arbitrary content at the first [`PooledBlock::grow`].
    #[must_use]
    pub(crate) const fn new(bytes: usize) -> Self {
        Self {
            lines: Vec::new(),
            first: bytes.div_ceil(LINE),
        }
    }

    /// For the next batch of a column whose last one, in this block, took `used` bytes. Batches vary, and the last one
    /// of a range is small, so the size falls slowly.
    #[must_use]
    pub(crate) fn next(&self, used: usize) -> Self {
        Self::new(
            used.saturating_add(used / 8)
                .max((self.len() / 8).saturating_mul(7)),
        )
    }

    /// The whole block as values of a plain type.
    #[inline]
    #[must_use]
    pub(crate) fn values<T: Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }

    /// Its size in bytes.
    #[must_use]
    pub(crate) const fn len(&self) -> usize {
        self.lines.len().saturating_mul(LINE)
    }

    /// Grows to at least `bytes` bytes and keeps the content: for sizes that the number of rows bounds.
    #[inline]
    pub(crate) fn grow(&mut self, bytes: usize) {
        if bytes > self.len() {
            let wanted = self.lines_for(bytes);
            let larger = SPARE.take(wanted).unwrap_or_default();
            self.move_to(if larger.len() < wanted {
                vec![CacheLine([0; LINE]); wanted]
            } else {
                larger
            });
        }
    }

    /// As [`PooledBlock::grow`], for payloads: a single record may be as large as a batch can be.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub(crate) fn try_grow(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.len() {
            self.try_move(bytes)?;
        }
        Ok(())
    }

    #[cold]
    fn try_move(&mut self, bytes: usize) -> Result<()> {
        // Twice as much is for rows to come; without memory for that, this one may still fit.
        for wanted in [self.lines_for(bytes), bytes.div_ceil(LINE)] {
            let mut larger = SPARE.take(wanted).unwrap_or_default();
            let missing = wanted.saturating_sub(larger.len());
            if larger.try_reserve_exact(missing).is_ok() {
                if missing > 0 {
                    larger.resize(wanted, CacheLine([0; LINE]));
                }
                self.move_to(larger);
                return Ok(());
            }
        }
        Err(Error::no_memory(bytes))
    }

    fn lines_for(&self, bytes: usize) -> usize {
        bytes
            .div_ceil(LINE)
            .max(self.lines.len().saturating_mul(2))
            .max(self.first)
    }

    #[cold]
    fn move_to(&mut self, mut larger: Vec<CacheLine>) {
        for (to, from) in larger.iter_mut().zip(&self.lines) {
            *to = *from;
        }
        SPARE.give(std::mem::replace(&mut self.lines, larger));
    }

    /// The first `len` bytes as an Arrow buffer; the memory comes back to the pool when the last user drops it.
    #[must_use]
    pub(crate) fn freeze(mut self, len: usize) -> Buffer {
        let owner = SharedBlock(std::mem::take(&mut self.lines));
        let mut bytes = Bytes::from_owner(owner);
        bytes.truncate(len);
        Buffer::from(bytes)
    }
}

/// A full block, read by its users and given back to the pool when the last one drops it.
struct SharedBlock(Vec<CacheLine>);

impl AsRef<[u8]> for SharedBlock {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        SPARE.give(std::mem::take(&mut self.0));
    }
}

impl Drop for PooledBlock {
    fn drop(&mut self) {
        SPARE.give(std::mem::take(&mut self.lines));
    }
}

/// A region's bytes as an Arrow buffer that keeps the region.
#[must_use]
pub(crate) fn region_buffer(region: &Region) -> Buffer {
    Buffer::from(region.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a size no other test has, as the memory is everybody's.
    #[test]
    fn aligned_and_used_again() {
        const SIZE: usize = 5 << 20;
        let mut block = PooledBlock::new(SIZE);
        assert!(block.lines.is_empty() && block.values::<i64>().is_empty());
        block.grow(24);
        assert_eq!(block.len(), SIZE);
        block.values::<i64>()[..3].copy_from_slice(&[1, 2, 3]);
        let buffer = block.freeze(24);
        assert_eq!(buffer.as_ptr().align_offset(64), 0);
        assert_eq!(buffer.typed_data::<i64>(), [1, 2, 3]);
        let address = buffer.as_ptr();
        let shared = buffer.clone();
        drop(buffer);
        let other = || {
            let mut block = PooledBlock::new(SIZE);
            block.grow(1);
            block.freeze(8)
        };
        assert_ne!(other().as_ptr(), address);
        drop(shared);
        let again: Vec<_> = (0..2).map(|_| other()).collect();
        assert!(again.iter().any(|b| b.as_ptr() == address));
    }

    #[test]
    fn growing_keeps_the_content() {
        let mut block = PooledBlock::new(1);
        block.grow(64);
        block.values::<u8>()[..64].copy_from_slice(&[7; 64]);
        block.grow(65);
        assert!(block.len() >= 128);
        assert_eq!(block.values::<u8>()[..64], [7; 64]);
        assert_eq!(PooledBlock::new(64_000).next(0).first, 0);
        block.grow(64_000);
        assert_eq!(block.next(640).first, 64_000 / 8 * 7 / 64);
        assert_eq!(block.next(64_000).first, 72_000 / 64);
    }

    #[test]
    fn a_region_outlives_its_name() {
        let region = Region::heap(vec![1, 2, 3]);
        let buffer = region_buffer(&region);
        drop(region);
        assert_eq!(buffer.as_slice(), [1, 2, 3]);
    }
}
