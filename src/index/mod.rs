//! The indexes beside a `.log`: hints that save work, never the truth.
//!
//! | module | what |
//! |---|---|
//! | [`offset`] | from offsets to positions |
//! | [`time`] | from timestamps to offsets |
//! | [`read`] | what the two have in common |
//! | [`search`] | Kafka's search, which entries in any order do not mislead otherwise than Kafka |
//! | [`txn`] | aborted transactions |
//! | [`writable`] | the first two while they are written, as Kafka's classes |
//!
//! # Zero tails
//! While a segment is active, a broker keeps its offset and time index at full length, zeros after the entries; after a
//! crash they stay so. Kafka's classes count every slot as an entry and rely on recovery. Here `slots` is Kafka's count
//! and `entries` what was really written.
//!
//! # Mapped or copied
//! A file without a zero tail belongs to a closed segment and is mapped. One with a tail may be under a running broker,
//! which will trim it, so its entries are copied; so is every index of the active segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::file::{open, read_at};
use crate::io::mapping::Mapping;
use crate::io::region::Region;

pub(crate) mod offset;
mod pace;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod time;
pub(crate) mod txn;
pub(crate) mod writable;

/// The most that is copied of an index. Kafka's default index is 10 MiB; what lies after is not used, which an index,
/// being a hint, can bear.
const MAX_COPIED: usize = 64 << 20;

/// How an index is brought into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Mapped if that is possible, unless a zero tail says that a broker may still trim it.
    Closed,
    /// Always by copy.
    Active,
}

/// A file of `N`-byte slots.
#[derive(Clone, Debug)]
struct Slots<const N: usize> {
    path: PathBuf,
    region: Region,
    /// The file's length.
    length: u64,
    /// Slots that hold entries; the region may end there.
    entries: usize,
}

impl<const N: usize> Slots<N> {
    /// Opens `path`; `is_tail` says whether slot `n` was never written, given that all before it were.
    fn open(path: &Path, access: Access, is_tail: fn(usize, &[u8; N]) -> bool) -> Result<Self> {
        let file = open(path).map_err(Error::io(path))?;
        let length = file.metadata().map_err(Error::io(path))?.len();
        let slots = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .checked_div(N)
            .unwrap_or_default();
        let unwritten = |n: usize| -> Result<bool> {
            let mut slot = [0; N];
            let at = (n as u64).saturating_mul(N as u64);
            let read = read_at(&file, &mut slot, at).map_err(Error::io(path))?;
            Ok(read < N || is_tail(n, &slot))
        };
        let Some(last) = slots.checked_sub(1) else {
            return Ok(Self::empty(path, length));
        };
        let map = if access == Access::Closed && !unwritten(last)? {
            #[expect(unsafe_code, reason = "the one place that maps an index for reading")]
            // SAFETY: a closed segment's index without a zero tail: `io::mapping` says why it keeps its length and bytes.
            unsafe { Mapping::open(&file, path, length) }.ok()
        } else {
            None
        };
        // A file that cannot be mapped, as under a limit of address space, is copied.
        if let Some(map) = map {
            map.advise_random();
            let entries = map.as_slice().as_chunks::<N>().0.len();
            let region = Region::mapped(Arc::new(map));
            return Ok(Self {
                path: path.to_path_buf(),
                region,
                length,
                entries,
            });
        }
        let (mut written, mut end) = (0usize, slots);
        if !unwritten(last)? {
            written = slots;
        }
        while written < end {
            let middle = written.midpoint(end);
            if unwritten(middle)? {
                end = middle;
            } else {
                written = middle.saturating_add(1);
            }
        }
        let mut copy = vec![0; written.saturating_mul(N).min(MAX_COPIED)];
        let read = read_at(&file, &mut copy, 0).map_err(Error::io(path))?;
        copy.truncate(read);
        let entries = copy.as_chunks::<N>().0.len();
        Ok(Self {
            path: path.to_path_buf(),
            region: Region::heap(copy),
            length,
            entries,
        })
    }

    fn empty(path: &Path, length: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            region: Region::heap(Vec::new()),
            length,
            entries: 0,
        }
    }

    /// The file's bytes on the heap, for tests and fuzzing.
    fn from_bytes(bytes: Vec<u8>, is_tail: fn(usize, &[u8; N]) -> bool) -> Self {
        let length = bytes.len() as u64;
        let all = bytes.as_chunks::<N>().0;
        let has_tail = all
            .last()
            .is_some_and(|slot| is_tail(all.len().saturating_sub(1), slot));
        let mut entries = all.len();
        if has_tail {
            let (mut from, mut end) = (0usize, entries);
            while from < end {
                let middle = from.midpoint(end);
                if all.get(middle).is_none_or(|slot| is_tail(middle, slot)) {
                    end = middle;
                } else {
                    from = middle.saturating_add(1);
                }
            }
            entries = from;
        }
        Self {
            path: PathBuf::new(),
            region: Region::heap(bytes),
            length,
            entries,
        }
    }

    /// Kafka's count: every complete slot of the file.
    fn slots(&self) -> usize {
        usize::try_from(self.length)
            .unwrap_or(usize::MAX)
            .checked_div(N)
            .unwrap_or_default()
    }

    #[inline]
    fn written(&self) -> &[[u8; N]] {
        let all = self.region.as_slice().as_chunks::<N>().0;
        all.get(..self.entries).unwrap_or(all)
    }

    /// What Kafka takes for the last entry: the file's last slot, zeros where it was never written.
    fn last_slot(&self) -> Option<[u8; N]> {
        let slots = self.slots();
        if slots > self.entries {
            return Some([0; N]);
        }
        self.written().last().copied()
    }

    fn check_length(&self) -> Result<()> {
        if self.length.checked_rem(N as u64) == Some(0) {
            return Ok(());
        }
        let expected = format!("a multiple of {N}");
        Err(Error::corrupt_index("index length", self.length, expected, self.length).at(&self.path))
    }
}

#[cfg(test)]
mod tests;
