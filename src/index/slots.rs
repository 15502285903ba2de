//! Index files that are only read: their slots in memory, mapped or copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::entry_file::{EntryFile, entries_in};
use crate::io::mapping::ClosedFile;
use crate::io::region::Region;
use crate::io::storage::ReadFile;

/// The most that is copied of an index. Kafka's default index is 10 MiB; what lies after is not used, which an index,
/// being a hint, can bear.
const MAX_COPIED: usize = 64 << 20;

/// True if slot `n` was never written, given that all before it were.
pub(super) type IsTail<const N: usize> = fn(n: usize, slot: &[u8; N]) -> bool;

/// A file of `N`-byte slots that is about to be mapped or copied.
pub(super) struct SlotFile<'a, const N: usize> {
    file: &'a dyn ReadFile,
    length: u64,
}

impl<'a, const N: usize> SlotFile<'a, N> {
    pub(super) const fn new(file: &'a dyn ReadFile, length: u64) -> Self {
        Self { file, length }
    }

    fn read(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        let read = self.file.read_at(buffer, position);
        read.map_err(Error::io(self.file.path()))
    }

    /// The number of the last slot.
    fn last(&self) -> Option<usize> {
        entries_in::<N>(self.length).checked_sub(1)
    }

    /// Slot `n`; `None` where it was never written.
    fn written_slot(&self, n: usize, is_tail: IsTail<N>) -> Result<Option<[u8; N]>> {
        let mut slot = [0; N];
        let at = (n as u64).saturating_mul(N as u64);
        let read = self.read(&mut slot, at)?;
        Ok(Some(slot).filter(|slot| read == N && !is_tail(n, slot)))
    }

    /// Counts the slots that were written, and returns the last of them.
    pub(super) fn written(&self, is_tail: IsTail<N>) -> Result<(usize, Option<[u8; N]>)> {
        let (mut written, mut end, mut last) = (0usize, entries_in::<N>(self.length), None);
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

/// The slots of a file that hold entries, in memory.
#[derive(Clone, Debug)]
pub struct Slots<const N: usize> {
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
    pub(super) fn copy(file: &dyn ReadFile, length: u64, is_tail: IsTail<N>) -> Result<Self> {
        Self::copied(&SlotFile::new(file, length), is_tail)
    }

    /// Maps a file, unless a zero tail says that a broker may still trim it; what cannot be mapped, as under a limit of
    /// address space, is copied.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn map(closed: &ClosedFile, is_tail: IsTail<N>) -> Result<Self> {
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
    pub(super) fn from_bytes(bytes: Vec<u8>, is_tail: IsTail<N>) -> Self {
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

    #[inline]
    pub(super) fn written(&self) -> &[[u8; N]] {
        let all = self.region.as_slice().as_chunks::<N>().0;
        all.get(..self.entries).unwrap_or(all)
    }

    #[cfg(test)]
    pub(super) const fn region(&self) -> &Region {
        &self.region
    }
}

impl<const N: usize> EntryFile<N> for Slots<N> {
    fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    fn entries(&self) -> usize {
        self.entries
    }

    fn length(&self) -> u64 {
        self.length
    }

    #[inline]
    fn get(&self, n: usize) -> Result<Option<[u8; N]>> {
        Ok(self.written().get(n).copied())
    }

    #[inline]
    fn in_memory(&self) -> Option<&[[u8; N]]> {
        Some(self.written())
    }

    fn has_zero_tail(&self) -> bool {
        self.max_entries() > self.entries
    }
}
