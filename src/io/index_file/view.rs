//! An open index file, its map, and the access to its entries.
//!
//! # Contract
//! Touching a page after the end of a file is a SIGBUS that no check can catch. Entries below `slots` are all that is
//! touched, and the file holds those: `slots` follows every change of its length, all of which are made here. No one else
//! shortens the file or writes to it: the log dir's `.lock` keeps other writers away. Other processes copy the indexes of
//! an active segment ([`index`](crate::index)).
//!
//! Entries are stored as atomics, of one size each: another process that copies the file ([`index`](crate::index)) sees
//! no part of an offset index's entry, and of a time index's the offset last.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: atomics in a map"
)]

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::error::{Error, Result};
use crate::io::disk::Disk;
use crate::io::entry_file::entries_in;

/// Pages are at least this large: up to the next multiple, a map may be touched after the file's end.
pub(super) const PAGE: u64 = 4096;

/// Bytes of the smaller atomic; entries are whole numbers of it.
const WORD: usize = 4;

/// A file and a map of its start.
#[derive(Debug)]
pub(super) struct MappedFile<const N: usize> {
    file: File,
    map: MmapRaw,
    /// Whole entries that the file holds, all of them within the map.
    slots: usize,
}

impl<const N: usize> MappedFile<N> {
    /// Maps the first `reserve` bytes of a file of `length` bytes, whether it has them yet or not.
    pub(super) fn open(file: File, length: u64, reserve: u64) -> io::Result<Self> {
        const { assert!(N.is_multiple_of(WORD)) };
        let map = map(&file, length.max(reserve))?;
        let slots = entries_in::<N>(length);
        Ok(Self { file, map, slots })
    }

    /// The file, to be read, and written below its end.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Sets the file's length; one beyond the map gets another map.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn set_length(&mut self, disk: &Disk, path: &Path, length: u64) -> Result<()> {
        disk.set_length(&self.file, path, length)?;
        if length > self.map.len() as u64 {
            self.map = map(&self.file, length).map_err(Error::io(path))?;
        }
        self.slots = entries_in::<N>(length);
        Ok(())
    }

    /// Address of word `k` of entry `n`, for `n` below `slots`.
    #[inline]
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a map begins on a page, and an entry is a number of words"
    )]
    fn at(&self, n: usize, k: usize) -> *mut u32 {
        let word = n.wrapping_mul(N / WORD).wrapping_add(k);
        self.map.as_mut_ptr().cast::<u32>().wrapping_add(word)
    }

    /// Entry `n`, if the file has room for so many.
    #[inline]
    pub(super) fn load(&self, n: usize) -> Option<[u8; N]> {
        if n >= self.slots {
            return None;
        }
        let mut slot = [0; N];
        if let Ok(both) = <&mut [u8; 8]>::try_from(slot.as_mut_slice()) {
            // SAFETY: `n` is below `slots`, so the file holds the eight bytes, inside the map, which begins on a page:
            // they are aligned. They are accessed as this atomic alone.
            let atomic = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            *both = u64::from_be(atomic.load(Ordering::Relaxed)).to_be_bytes();
            return Some(slot);
        }
        for (k, word) in slot.as_chunks_mut().0.iter_mut().enumerate() {
            // SAFETY: as above, of all `N` bytes.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            *word = u32::from_be(atomic.load(Ordering::Relaxed)).to_be_bytes();
        }
        Some(slot)
    }

    /// Writes entry `n`, the last word last; returns whether the file has room for it.
    #[inline]
    pub(super) fn store(&mut self, n: usize, slot: [u8; N]) -> bool {
        if n >= self.slots {
            return false;
        }
        if let Ok(both) = <[u8; 8]>::try_from(slot.as_slice()) {
            // SAFETY: as in `load`; the map is writable.
            let atomic = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            atomic.store(u64::from_be_bytes(both).to_be(), Ordering::Relaxed);
            return true;
        }
        for (k, word) in slot.as_chunks().0.iter().enumerate() {
            // SAFETY: as in `load`; the map is writable.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            atomic.store(u32::from_be_bytes(*word).to_be(), Ordering::Release);
        }
        true
    }

    /// Syncs the first `length` bytes to the device before it returns.
    pub(super) fn flush(&self, length: usize) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        self.map.flush_range(0, length)
    }
}

/// Maps the first `length` bytes of a file, and a page at least.
fn map(file: &File, length: u64) -> io::Result<MmapRaw> {
    let length = usize::try_from(length.max(PAGE)).map_err(io::Error::other)?;
    MmapOptions::new().len(length).map_raw(file)
}
