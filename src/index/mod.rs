//! The indexes of a `.log`: hints that save work; the log decides.
//!
//! | module | what |
//! |---|---|
//! | [`offset`] | from offsets to positions |
//! | [`time`] | from timestamps to offsets |
//! | [`read`] | reading, shared by the two |
//! | [`search`] | Kafka's binary search; on unsorted entries it gives Kafka's answer |
//! | [`txn`] | aborted transactions |
//! | [`writable`] | the first two while they are written, as Kafka's classes |
//!
//! # Zero tails
//! While a segment is active, a broker keeps its offset and time index at full length, zeros after the entries; after a
//! crash they stay so. Kafka's classes count every slot as an entry and rely on recovery. Here `slots` is Kafka's
//! count, and `entries` the number actually written.
//!
//! # Mapped or copied
//! Opening an index copies its entries. If the segment is known to be closed, its index may be mapped instead, unless
//! it has a zero tail: a running broker will trim such a file.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::mapping::ClosedFile;
use crate::io::region::Region;
use crate::io::storage::ReadFile;

pub(crate) mod offset;
pub(crate) mod read;
pub(crate) mod search;
mod spacing;
pub(crate) mod time;
pub(crate) mod txn;
pub(crate) mod writable;

/// The most that is copied of an index. Kafka's default index is 10 MiB; what lies after is not used, which an index,
/// being a hint, can bear.
const MAX_COPIED: usize = 64 << 20;

/// True if slot `n` was never written, given that all before it were.
type IsTail<const N: usize> = fn(n: usize, slot: &[u8; N]) -> bool;

/// A file of `N`-byte slots that is about to be mapped or copied.
struct SlotFile<'a, const N: usize> {
    file: &'a dyn ReadFile,
    length: u64,
}

impl<'a, const N: usize> SlotFile<'a, N> {
    const fn new(file: &'a dyn ReadFile, length: u64) -> Self {
        Self { file, length }
    }

    fn read(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        let read = self.file.read_at(buffer, position);
        read.map_err(Error::io(self.file.path()))
    }

    fn slots(&self) -> usize {
        whole_slots::<N>(self.length)
    }

    /// The number of the last slot.
    fn last(&self) -> Option<usize> {
        self.slots().checked_sub(1)
    }

    /// Slot `n`; `None` where it was never written.
    fn written_slot(&self, n: usize, is_tail: IsTail<N>) -> Result<Option<[u8; N]>> {
        let mut slot = [0; N];
        let at = (n as u64).saturating_mul(N as u64);
        let read = self.read(&mut slot, at)?;
        Ok(Some(slot).filter(|slot| read == N && !is_tail(n, slot)))
    }

    /// Counts the slots that were written, and returns the last of them.
    fn written(&self, is_tail: IsTail<N>) -> Result<(usize, Option<[u8; N]>)> {
        let (mut written, mut end, mut last) = (0usize, self.slots(), None);
        // Only the index of an active segment, or what a crash left of one, has a tail.
        let mut middle = end.saturating_sub(1);
        while written < end {
            match self.written_slot(middle, is_tail)? {
                None => end = middle,
                slot => (written, last) = (middle.saturating_add(1), slot),
            }
            middle = written.midpoint(end);
        }
        Ok((written, last))
    }
}

/// Number of slots of `N` bytes in a file of this length.
fn whole_slots<const N: usize>(length: u64) -> usize {
    usize::try_from(length)
        .unwrap_or(usize::MAX)
        .checked_div(N)
        .unwrap_or_default()
}

/// The slots of a file that hold entries, in memory.
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
    /// Copies the entries of a file; `is_tail` says whether slot `n` was never written, given that all before it were.
    ///
    /// # Errors
    /// `Io`.
    fn copy(file: &dyn ReadFile, length: u64, is_tail: IsTail<N>) -> Result<Self> {
        Self::copied(&SlotFile::new(file, length), is_tail)
    }

    /// Maps a file, unless a zero tail says that a broker may still trim it; what cannot be mapped, as under a limit of
    /// address space, is copied.
    ///
    /// # Errors
    /// `Io`.
    fn map(closed: &ClosedFile, is_tail: IsTail<N>) -> Result<Self> {
        let file = SlotFile::new(&**closed.file(), closed.length());
        let map = match file.last() {
            Some(last) if file.written_slot(last, is_tail)?.is_some() => closed.map(file.length),
            _ => None,
        };
        let Some(map) = map else {
            return Self::copied(&file, is_tail);
        };
        map.advise_random();
        let entries = map.as_slice().as_chunks::<N>().0.len();
        Ok(Self {
            path: file.file.path().to_path_buf(),
            region: Region::mapped(Arc::new(map)),
            length: file.length,
            entries,
        })
    }

    fn copied(file: &SlotFile<'_, N>, is_tail: IsTail<N>) -> Result<Self> {
        let (written, _) = file.written(is_tail)?;
        let mut copy = vec![0; written.saturating_mul(N).min(MAX_COPIED)];
        let read = file.read(&mut copy, 0)?;
        copy.truncate(read);
        let entries = copy.as_chunks::<N>().0.len();
        Ok(Self {
            path: file.file.path().to_path_buf(),
            region: Region::heap(copy),
            length: file.length,
            entries,
        })
    }

    /// The file's bytes on the heap, for tests and fuzzing.
    fn from_bytes(bytes: Vec<u8>, is_tail: IsTail<N>) -> Self {
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
        whole_slots::<N>(self.length)
    }

    #[inline]
    fn written(&self) -> &[[u8; N]] {
        let all = self.region.as_slice().as_chunks::<N>().0;
        all.get(..self.entries).unwrap_or(all)
    }

    /// Returns what Kafka takes for the last entry: the file's last slot, zeros if it was never written.
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
