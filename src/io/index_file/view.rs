//! The map of an index and the access to its entries.
//!
//! Entries are stored as atomics, of one size each: another process that copies the file ([`index`](crate::index)) sees
//! no part of an offset index's entry, and of a time index's the offset last.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: atomics in a map"
)]

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// Pages are at least this large: up to the next multiple, a map may be touched after the file's end.
pub(super) const PAGE: u64 = 4096;

/// Bytes of the smaller atomic; entries are whole numbers of it.
const WORD: usize = 4;

/// A map of a file's start.
#[derive(Debug)]
pub(super) struct View<const N: usize> {
    map: MmapRaw,
    /// Whole entries that fit into the map; the file may be shorter.
    pub(super) capacity: usize,
}

impl<const N: usize> View<N> {
    /// Maps the first `reserve` bytes, whether the file has them yet or not.
    pub(super) fn open(file: &File, reserve: u64) -> io::Result<Self> {
        const { assert!(N.is_multiple_of(WORD)) };
        let reserve = usize::try_from(reserve.max(PAGE)).map_err(io::Error::other)?;
        let map = MmapOptions::new().len(reserve).map_raw(file)?;
        let capacity = map.len().checked_div(N);
        Ok(Self {
            map,
            capacity: capacity.unwrap_or_default(),
        })
    }

    /// Address of word `k` of entry `n`, for `n` below `capacity`.
    #[inline]
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a map begins on a page, and an entry is a number of words"
    )]
    fn at(&self, n: usize, k: usize) -> *mut u32 {
        let word = n.wrapping_mul(N / WORD).wrapping_add(k);
        self.map.as_mut_ptr().cast::<u32>().wrapping_add(word)
    }

    /// Entry `n`.
    ///
    /// # Safety
    /// `n` is below `capacity`, and the file holds that entry.
    #[inline]
    pub(super) unsafe fn load(&self, n: usize) -> [u8; N] {
        let mut slot = [0; N];
        if let Ok(both) = <&mut [u8; 8]>::try_from(slot.as_mut_slice()) {
            // SAFETY: `n` is below the capacity, so the eight bytes are inside the map, which begins on a page: they
            // are aligned. They are accessed as this atomic alone.
            let atomic = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            *both = u64::from_be(atomic.load(Ordering::Relaxed)).to_be_bytes();
            return slot;
        }
        for (k, word) in slot.as_chunks_mut().0.iter_mut().enumerate() {
            // SAFETY: `n` is below the capacity, so all `N` bytes are inside the map, which begins on a page: they are
            // aligned. They are accessed as this atomic alone.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            *word = u32::from_be(atomic.load(Ordering::Relaxed)).to_be_bytes();
        }
        slot
    }

    /// Writes entry `n`, the last word last.
    ///
    /// # Safety
    /// As [`View::load`].
    #[inline]
    pub(super) unsafe fn store(&mut self, n: usize, slot: [u8; N]) {
        if let Ok(both) = <[u8; 8]>::try_from(slot.as_slice()) {
            // SAFETY: as in `load`; the map is writable.
            let atomic = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            atomic.store(u64::from_be_bytes(both).to_be(), Ordering::Relaxed);
            return;
        }
        for (k, word) in slot.as_chunks().0.iter().enumerate() {
            // SAFETY: as in `load`; the map is writable.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            atomic.store(u32::from_be_bytes(*word).to_be(), Ordering::Release);
        }
    }

    /// Syncs the first `length` bytes to the device before it returns.
    pub(super) fn flush(&self, length: usize) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.map.flush_range(0, length)
    }
}
