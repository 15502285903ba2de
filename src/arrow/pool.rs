//! 64-byte aligned memory that is used again once a consumer has dropped the arrays in it.
//!
//! Fresh memory costs more than decoding small records into it does (page faults), so a scan that hands out batches and
//! sees them dropped should run in the same few blocks.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: handing memory to Arrow buffers"
)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::Buffer;
use bytemuck::{Pod, Zeroable};

use crate::io::region::Region;

/// One cache line; its alignment is the block's.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

const LINE: usize = 64;
/// Memory kept for reuse is bounded by this.
const MAX_KEPT: usize = 24 << 20;

type Lines = Vec<Line>;

/// Blocks that may be used again.
#[derive(Clone, Default)]
pub struct Pool(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    blocks: Vec<Lines>,
    bytes: usize,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

impl Pool {
    /// A block of at least `bytes` bytes of arbitrary content.
    #[must_use]
    pub fn block(&self, bytes: usize) -> Block {
        let wanted = bytes.div_ceil(LINE).max(1);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The smallest that fits, unless it is so large that a small array would pin much.
        let found = kept
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, lines)| lines.len() >= wanted && lines.len() / 4 <= wanted)
            .min_by_key(|(_, lines)| lines.len())
            .map(|(at, _)| at);
        let lines = match found {
            Some(at) => {
                let lines = kept.blocks.swap_remove(at);
                kept.bytes = kept.bytes.saturating_sub(lines.len().saturating_mul(LINE));
                lines
            }
            None => Vec::new(),
        };
        drop(kept);
        let lines = if lines.is_empty() {
            vec![Line([0; LINE]); wanted]
        } else {
            lines
        };
        Block {
            lines,
            pool: self.clone(),
        }
    }

    fn give_back(&self, lines: Lines) {
        let bytes = lines.len().saturating_mul(LINE);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.bytes.saturating_add(bytes) <= MAX_KEPT && !lines.is_empty() {
            kept.bytes = kept.bytes.saturating_add(bytes);
            kept.blocks.push(lines);
        }
    }
}

/// Memory being written to.
#[derive(Debug)]
pub struct Block {
    lines: Lines,
    pool: Pool,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl Block {
    /// The whole block as values of a plain type.
    #[inline]
    #[must_use]
    pub fn values<T: Pod>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.lines)
    }

    /// Bytes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len().saturating_mul(LINE)
    }

    /// Never: a block has at least one line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Moves to a block of at least `bytes` bytes, keeping the content.
    pub fn grow(&mut self, bytes: usize) {
        if bytes > self.len() {
            let mut larger = self.pool.block(bytes.max(self.len().saturating_mul(2)));
            for (to, from) in larger.lines.iter_mut().zip(&self.lines) {
                *to = *from;
            }
            *self = larger;
        }
    }

    /// The first `len` bytes as an Arrow buffer; the memory comes back to the pool when the last user drops it.
    #[must_use]
    pub fn freeze(mut self, len: usize) -> Buffer {
        let owner = Arc::new(Owned {
            lines: std::mem::take(&mut self.lines),
            pool: self.pool.clone(),
        });
        let bytes: &[u8] = bytemuck::cast_slice(&owner.lines);
        let len = len.min(bytes.len());
        let start = NonNull::from(bytes).cast::<u8>();
        // SAFETY: `start` begins at least `len` initialised bytes of a vector that `owner` holds and nobody changes any
        // more; moving the Arc does not move them, and the buffer keeps the Arc.
        unsafe { Buffer::from_custom_allocation(start, len, owner) }
    }
}

struct Owned {
    lines: Lines,
    pool: Pool,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.lines));
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.lines));
    }
}

/// A region's bytes as an Arrow buffer that keeps the region.
#[must_use]
pub fn region_buffer(region: &Region) -> Buffer {
    let owner = Arc::new(RegionOwner(region.clone()));
    let bytes = owner.0.as_slice();
    let (start, len) = (NonNull::from(bytes).cast::<u8>(), bytes.len());
    // SAFETY: a region's bytes never move or change, and stay while the owner, which the buffer keeps, does.
    unsafe { Buffer::from_custom_allocation(start, len, owner) }
}

/// Unwinding leaves a region as it was: it is never changed.
struct RegionOwner(Region);

impl std::panic::RefUnwindSafe for RegionOwner {}
impl std::panic::RefUnwindSafe for Owned {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_and_used_again() {
        let pool = Pool::default();
        let mut block = pool.block(1000);
        block.values::<i64>()[..3].copy_from_slice(&[1, 2, 3]);
        let buffer = block.freeze(24);
        assert_eq!(buffer.as_ptr().align_offset(64), 0);
        assert_eq!(buffer.typed_data::<i64>(), [1, 2, 3]);
        let address = buffer.as_ptr();
        let shared = buffer.clone();
        drop(buffer);
        assert_ne!(pool.block(1000).freeze(8).as_ptr(), address);
        drop(shared);
        let again: Vec<_> = (0..2).map(|_| pool.block(1000).freeze(8)).collect();
        assert!(again.iter().any(|b| b.as_ptr() == address));
    }

    #[test]
    fn growing_keeps_the_content() {
        let pool = Pool::default();
        let mut block = pool.block(64);
        block.values::<u8>().copy_from_slice(&[7; 64]);
        block.grow(65);
        assert!(block.len() >= 128);
        assert_eq!(block.values::<u8>()[..64], [7; 64]);
    }

    #[test]
    fn kept_memory_is_bounded() {
        let pool = Pool::default();
        let blocks: Vec<_> = (0..40).map(|_| pool.block(1 << 20)).collect();
        drop(blocks);
        assert!(pool.0.lock().unwrap().bytes <= MAX_KEPT);
    }

    #[test]
    fn a_region_outlives_its_name() {
        let region = Region::heap(vec![1, 2, 3]);
        let buffer = region_buffer(&region);
        drop(region);
        assert_eq!(buffer.as_slice(), [1, 2, 3]);
    }
}
