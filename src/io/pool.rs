//! Memory that is reused by any reader of the process.
//!
//! Fresh memory costs more than decoding small records into it (page faults). Blocks that a reader, or the consumer of
//! its batches, has finished with are therefore kept here, up to a limit; beyond it the oldest are freed.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Number of attempts at a pool that another thread has locked. It is limited because in a forked process the lock is
/// never released.
const PATIENCE: usize = 1000;
/// Smaller blocks the allocator itself keeps.
const MIN_BLOCK: usize = 16 << 10;
/// Blocks kept at most, as a search looks at each.
const MAX_BLOCKS: usize = 256;

/// Blocks that may be used again.
#[derive(Debug)]
pub(crate) struct BlockPool<T> {
    most: usize,
    kept: Mutex<PooledBuffers<T>>,
}

#[derive(Debug)]
struct PooledBuffers<T> {
    /// The oldest first.
    blocks: Vec<Vec<T>>,
    bytes: usize,
}

impl<T> BlockPool<T> {
    /// Creates a pool that keeps at most so many bytes.
    #[must_use]
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            most,
            kept: Mutex::new(PooledBuffers {
                blocks: Vec::new(),
                bytes: 0,
            }),
        }
    }

    /// A block with room for `wanted` values, with what it held; `None` where there is none that fits.
    #[must_use]
    pub(crate) fn take(&self, wanted: usize) -> Option<Vec<T>> {
        let mut kept = self.enter()?;
        // The smallest that fits, unless it is so large that a small array would pin much; of several the last one
        // used, which is still near.
        let found = kept
            .blocks
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, block)| block.capacity() >= wanted && block.capacity() / 4 <= wanted)
            .min_by_key(|(_, block)| block.capacity())
            .map(|(at, _)| at)?;
        let block = kept.blocks.remove(found);
        kept.bytes = kept.bytes.saturating_sub(bytes(&block));
        Some(block)
    }

    /// Keeps a block for the next one who wants it.
    pub(crate) fn give(&self, block: Vec<T>) {
        let size = bytes(&block);
        // One of unusual size would push out all others.
        if size < MIN_BLOCK || size > self.most / 4 {
            return;
        }
        let Some(mut kept) = self.enter() else {
            return;
        };
        kept.bytes = kept.bytes.saturating_add(size);
        kept.blocks.push(block);
        let mut gone = 0usize;
        let (mut left, mut count) = (kept.bytes, kept.blocks.len());
        for oldest in &kept.blocks {
            if left <= self.most && count <= MAX_BLOCKS {
                break;
            }
            left = left.saturating_sub(bytes(oldest));
            count = count.saturating_sub(1);
            gone = gone.saturating_add(1);
        }
        kept.bytes = left;
        let gone: Vec<_> = kept.blocks.drain(..gone).collect();
        // Given back to the system when no thread waits for us any more.
        drop(kept);
        drop(gone);
    }

    fn enter(&self) -> Option<MutexGuard<'_, PooledBuffers<T>>> {
        for _ in 0..PATIENCE {
            match self.kept.try_lock() {
                Ok(kept) => return Some(kept),
                Err(TryLockError::Poisoned(kept)) => return Some(kept.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }
}

const fn bytes<T>(block: &Vec<T>) -> usize {
    block.capacity().saturating_mul(size_of::<T>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(pool: &BlockPool<u8>) -> (usize, usize) {
        let kept = pool.kept.lock().unwrap();
        assert_eq!(kept.bytes, kept.blocks.iter().map(bytes).sum::<usize>());
        (kept.blocks.len(), kept.bytes)
    }

    fn block(size: usize, mark: u8) -> Vec<u8> {
        let mut block = Vec::with_capacity(size);
        block.push(mark);
        block
    }

    #[test]
    fn the_smallest_that_fits_and_of_those_the_last() {
        let pool = BlockPool::new(1 << 20);
        for (size, mark) in [(80_000, 1), (20_000, 2), (20_000, 3), (40_000, 4)] {
            pool.give(block(size, mark));
        }
        assert_eq!(pool.take(18_000), Some(vec![3]));
        assert_eq!(pool.take(18_000), Some(vec![2]));
        assert_eq!(pool.take(18_000), Some(vec![4]));
        assert_eq!(
            pool.take(19_999),
            None,
            "80,000 is more than four times that"
        );
        assert_eq!(pool.take(80_001), None);
        assert_eq!(pool.take(20_000), Some(vec![1]));
        assert_eq!(held(&pool), (0, 0));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes() {
        let pool = BlockPool::new(100_000);
        for mark in 0..9 {
            pool.give(block(20_000, mark));
        }
        assert_eq!(held(&pool), (5, 100_000));
        pool.give(block(25_001, 9));
        pool.give(block(MIN_BLOCK - 1, 9));
        pool.give(Vec::new());
        let marks: Vec<_> = std::iter::from_fn(|| pool.take(20_000)).flatten().collect();
        assert_eq!(marks, [8, 7, 6, 5, 4]);
        let pool = BlockPool::new(1 << 30);
        for _ in 0..=MAX_BLOCKS {
            pool.give(block(MIN_BLOCK, 0));
        }
        assert_eq!(held(&pool), (MAX_BLOCKS, MAX_BLOCKS * MIN_BLOCK));
    }

    #[test]
    fn nobody_waits_for_ever() {
        let pool = BlockPool::new(1 << 20);
        pool.give(block(MIN_BLOCK, 1));
        let inside = pool.kept.lock().unwrap();
        assert_eq!(pool.take(MIN_BLOCK), None);
        pool.give(block(MIN_BLOCK, 1));
        drop(inside);
        assert_eq!(held(&pool), (1, MIN_BLOCK));
    }
}
