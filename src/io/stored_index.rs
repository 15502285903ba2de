//! Index files that are read and written like any file of a storage: for folders in a plan, where nothing can be
//! mapped.
//!
//! Unlike a mapped file, this one can be shortened below its entries, as Kafka's can: the file is cut, and the call
//! fails.

use std::path::Path;

use super::entry_file::{EntryFile, bytes_of, check_length, check_new, entries_in, invalid, whole};
use super::storage::{StoredFile, read_exact_at};
use crate::error::{Error, Result};

/// An index in a file of a storage.
#[derive(Debug)]
pub(crate) struct StoredIndex<const N: usize, F> {
    file: F,
    max_size: u64,
    entries: usize,
    length: u64,
    /// The last entries, which the file does not have yet: they are written after it is trimmed, so that the zeros of a
    /// preallocated file are not read into memory first.
    unwritten: Vec<u8>,
}

impl<const N: usize, F: StoredFile> StoredIndex<N, F> {
    /// Takes an open file. A new one gets `max_size` bytes, rounded down to whole entries; of an existing one every
    /// whole slot is an entry, whatever it holds.
    ///
    /// # Errors
    /// `InvalidArgument` where a new index would have no room for an entry, which leaves an empty file (as Kafka does);
    /// `CorruptIndex` for a file longer than an index can be; `Io`.
    pub(crate) fn open(file: F, max_size: usize, is_new: bool) -> Result<Self> {
        let max_size = max_size as u64;
        if is_new {
            check_new::<N>(file.path(), max_size)?;
            file.set_length(whole::<N>(max_size))?;
        }
        let length = file.length()?;
        check_length(file.path(), length)?;
        Ok(Self {
            file,
            max_size,
            entries: if is_new { 0 } else { entries_in::<N>(length) },
            length,
            unwritten: Vec::new(),
        })
    }

    /// Position of the first byte that the file does not have yet.
    fn written(&self) -> u64 {
        bytes_of::<N>(self.entries).saturating_sub(self.unwritten.len() as u64)
    }

    fn write(&mut self) -> Result<()> {
        if !self.unwritten.is_empty() {
            self.file.write_at(&self.unwritten, self.written())?;
            self.unwritten.clear();
        }
        Ok(())
    }
}

impl<const N: usize, F: StoredFile> EntryFile<N> for StoredIndex<N, F> {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn entries(&self) -> usize {
        self.entries
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn max_size(&self) -> u64 {
        self.max_size
    }

    fn get(&self, n: usize) -> Result<Option<[u8; N]>> {
        if n >= self.entries {
            return Ok(None);
        }
        let at = bytes_of::<N>(n);
        if let Some(at) = at.checked_sub(self.written()) {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let rest = self.unwritten.get(at..).unwrap_or_default();
            return Ok(rest.first_chunk().copied());
        }
        let mut slot = [0; N];
        read_exact_at(&self.file, &mut slot, at)?;
        Ok(Some(slot))
    }

    fn push(&mut self, slot: [u8; N]) -> Result<()> {
        if self.entries >= self.max_entries() {
            let what = format_args!("the index is full with {} entries", self.entries);
            return Err(invalid(self.path(), what));
        }
        self.entries = self.entries.saturating_add(1);
        self.unwritten.extend(slot);
        Ok(())
    }

    fn truncate(&mut self, entries: usize) -> Result<()> {
        if entries < self.entries {
            self.write()?;
            self.entries = entries;
        }
        Ok(())
    }

    fn resize(&mut self, size: usize) -> Result<bool> {
        let size = whole::<N>(size as u64);
        if size == self.length {
            return Ok(false);
        }
        let used = bytes_of::<N>(self.entries);
        if used > size {
            self.write()?;
        }
        self.file.set_length(size)?;
        self.length = size;
        if used > size {
            let expected = format!("at least {used} bytes for {} entries", self.entries);
            let error = Error::corrupt_index("index length", size, expected, size);
            return Err(error.at(self.path()));
        }
        Ok(true)
    }

    fn trim_to_valid_size(&mut self) -> Result<()> {
        self.resize(self.entries.saturating_mul(N)).map(drop)
    }

    fn flush(&mut self) -> Result<()> {
        self.write()?;
        self.file.sync()
    }

    fn close(&mut self) -> Result<()> {
        self.trim_to_valid_size()?;
        self.flush()
    }

    fn close_handler(&mut self) {
        // What a crash loses are entries that recovery makes of the batches.
        let _ = self.write();
    }
}
