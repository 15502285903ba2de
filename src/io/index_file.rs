//! Index files under a writer: preallocated and mapped for writing (`AbstractIndex`).
//!
//! An entry is `N` bytes: 8 in an offset index, 12 in a time index. `view` holds the map and the unsafe access to entries.
//!
//! A map covers at least `max_size` bytes from the start, even beyond the end of the file, and lasts: trimming and growing
//! move only the end of the file. Ordinary writes fill a hole in a file before the map touches it, so that a full disk is
//! an error and not a signal. (A file system that copies on write may still run full later.)

use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::entry_file::{
    EntryFile, MAX_SIZE, bytes_of, check_length, check_new, entries_in, invalid, whole,
};
use super::file::read_at;
use super::links::detach;
use crate::error::{Error, Result};

mod view;

use view::{MappedFile, PAGE};

/// Bytes of a hole that are filled at once.
const STRIDE: u64 = 16 * PAGE;

/// An index file and its only writer.
#[derive(Debug)]
pub struct IndexFile<const N: usize> {
    disk: Disk,
    path: PathBuf,
    max_size: u64,
    open: Option<MappedFile<N>>,
    entries: usize,
    length: u64,
    /// Position up to which the file is known to have no hole.
    backed: u64,
}

impl<const N: usize> IndexFile<N> {
    /// Opens the index at `path`; a new one gets `max_size` bytes, rounded down to whole entries. Of an
    /// existing one every whole slot is an entry, whatever it holds: a broker's recovery does the rest.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where a new index would have no room for an entry, which leaves an empty file (as Kafka
    /// does), or where the file is longer than an index can be.
    pub(crate) fn open(disk: &Disk, path: &Path, max_size: usize) -> Result<Self> {
        let max_size = max_size as u64;
        if max_size > MAX_SIZE {
            return Err(invalid(
                path,
                format_args!("an index of {max_size} bytes is above {MAX_SIZE}"),
            ));
        }
        let is_new = !path.try_exists().map_err(Error::io(path))?;
        let file = disk.open_or_create(path)?;
        let file = detach(disk, &file, path)?.unwrap_or(file);
        if is_new {
            check_new::<N>(path, max_size)?;
            disk.set_length(&file, path, whole::<N>(max_size))?;
        }
        let length = file.metadata().map_err(Error::io(path))?.len();
        check_length(path, length)?;
        let open = MappedFile::open(file, length, max_size).map_err(Error::io(path))?;
        Ok(Self {
            disk: disk.clone(),
            path: path.to_path_buf(),
            max_size,
            open: Some(open),
            entries: if is_new { 0 } else { entries_in::<N>(length) },
            length,
            backed: 0,
        })
    }

    #[cold]
    fn closed(&self) -> Error {
        invalid(&self.path, "the index is closed")
    }

    #[cold]
    fn full(&self) -> Error {
        let entries = self.entries;
        invalid(
            &self.path,
            format_args!("the index is full with {entries} entries"),
        )
    }

    /// Fills the hole from `backed` up to at least `end`, as far as the file goes, by writing back the bytes that are
    /// read there: bytes that were cut from the index are kept, as in Kafka.
    #[cold]
    #[inline(never)]
    fn back(&mut self, end: u64) -> Result<()> {
        let Some(open) = &self.open else {
            return Err(self.closed());
        };
        if end > self.length {
            return Err(self.full());
        }
        // What lies before the new entry is in use, so it has been written; only what lies after is touched here.
        let from = self.backed.max(bytes_of::<N>(self.entries));
        let to = end.next_multiple_of(STRIDE).min(self.length);
        let len = usize::try_from(to.saturating_sub(from)).unwrap_or_default();
        let mut bytes = vec![0; len];
        read_at(open.file(), &mut bytes, from).map_err(Error::io(&self.path))?;
        self.disk.write_at(open.file(), &self.path, &bytes, from)?;
        self.backed = to;
        Ok(())
    }

    fn set_length(&mut self, size: u64) -> Result<()> {
        let Some(open) = &mut self.open else {
            return Err(self.closed());
        };
        open.set_length(&self.disk, &self.path, size)?;
        self.length = size;
        self.backed = self.backed.min(size);
        Ok(())
    }
}

impl<const N: usize> EntryFile<N> for IndexFile<N> {
    fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    fn entries(&self) -> usize {
        self.entries
    }

    #[inline]
    fn max_entries(&self) -> usize {
        entries_in::<N>(self.length)
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn max_size(&self) -> u64 {
        self.max_size
    }

    #[inline]
    fn ensure_open(&self) -> Result<()> {
        self.open.as_ref().map(drop).ok_or_else(|| self.closed())
    }

    #[inline]
    fn get(&self, n: usize) -> Result<Option<[u8; N]>> {
        match &self.open {
            Some(open) if n < self.entries => Ok(open.load(n)),
            Some(_) => Ok(None),
            None => Err(self.closed()),
        }
    }

    #[inline]
    fn push(&mut self, slot: [u8; N]) -> Result<()> {
        let end = bytes_of::<N>(self.entries.saturating_add(1));
        if end > self.backed {
            self.back(end)?;
        }
        let Some(open) = &mut self.open else {
            return Err(self.closed());
        };
        if !open.store(self.entries, slot) {
            return Err(self.full());
        }
        self.entries = self.entries.saturating_add(1);
        Ok(())
    }

    fn truncate(&mut self, entries: usize) -> Result<()> {
        self.ensure_open()?;
        self.entries = self.entries.min(entries);
        Ok(())
    }

    /// `InvalidArgument` where entries would be lost: cut them first. (Kafka shortens the file, then throws, and the
    /// index is unusable from then on.)
    fn resize(&mut self, size: usize) -> Result<bool> {
        let size = whole::<N>(size as u64);
        if size == self.length {
            return Ok(false);
        }
        self.ensure_open()?;
        if size > MAX_SIZE {
            return Err(invalid(
                &self.path,
                format_args!("an index of {size} bytes is above {MAX_SIZE}"),
            ));
        }
        if size < bytes_of::<N>(self.entries) {
            let entries = self.entries;
            return Err(invalid(
                &self.path,
                format_args!("{size} bytes are too few for {entries} entries"),
            ));
        }
        self.set_length(size)?;
        Ok(true)
    }

    fn trim_to_valid_size(&mut self) -> Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        let size = self.entries.saturating_mul(N);
        self.resize(size).map(|_| ())
    }

    fn flush(&mut self) -> Result<()> {
        let open = self.open.as_ref().ok_or_else(|| self.closed())?;
        let length = usize::try_from(self.length).unwrap_or_default();
        let flush = || open.flush(length);
        self.disk.sync_mapped(open.file(), &self.path, flush)
    }

    fn close(&mut self) -> Result<()> {
        let trimmed = self.trim_to_valid_size();
        self.close_handler();
        trimmed
    }

    fn close_handler(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests;
