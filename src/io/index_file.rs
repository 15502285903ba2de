//! Index files under a writer: preallocated and mapped for writing (`AbstractIndex`).
//!
//! An entry is `N` bytes: 8 in an offset index, 12 in a time index. `view` holds the map and the unsafe access to entries.
//!
//! # Contract of the maps
//! Touching a page after the end of a file is a SIGBUS that no check can catch, so:
//! * A map covers at least `max_size` bytes from the start, even beyond the end of the file, and lasts: trimming and
//!   growing move only the end of the file. Nothing after that end is touched: reads stay below the count of entries,
//!   writes below `slots`, and the file always holds both.
//! * Ordinary writes fill a hole in a file before the map touches it, so that a full disk is an error and not a signal.
//!   (A file system that copies on write may still run full later.)
//! * No one else shortens the file or writes to it. The caller of [`IndexFile::open`] promises that: the log dir's
//!   `.lock` keeps other writers away. Other processes copy the indexes of an active segment ([`index`](crate::index)).
//!
//! The first two are invariants of this module, whose fields are private.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: entries of a map, below a file's length"
)]

use std::fs::File;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::entry_file::{
    EntryFile, MAX_SIZE, bytes_of, check_length, check_new, entries_in, invalid, whole,
};
use super::file::read_at;
use super::links::detach;
use crate::error::{Error, Result};

mod view;

use view::{PAGE, View};

/// Bytes of a hole that are filled at once.
const STRIDE: u64 = 16 * PAGE;

/// A file and its map, while they are open.
#[derive(Debug)]
struct MappedFile<const N: usize> {
    file: File,
    view: View<N>,
}

/// An index file and its only writer.
#[derive(Debug)]
pub struct IndexFile<const N: usize> {
    disk: Disk,
    path: PathBuf,
    max_size: u64,
    open: Option<MappedFile<N>>,
    entries: usize,
    /// Whole entries the file has room for.
    slots: usize,
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
    ///
    /// # Safety
    /// Until this is dropped, no other code writes to the file or shortens it.
    pub(crate) unsafe fn open(disk: &Disk, path: &Path, max_size: usize) -> Result<Self> {
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
        let slots = entries_in::<N>(length);
        let view = View::open(&file, length.max(max_size)).map_err(Error::io(path))?;
        Ok(Self {
            disk: disk.clone(),
            path: path.to_path_buf(),
            max_size,
            open: Some(MappedFile { file, view }),
            entries: if is_new { 0 } else { slots },
            slots,
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
        read_at(&open.file, &mut bytes, from).map_err(Error::io(&self.path))?;
        self.disk.write_at(&open.file, &self.path, &bytes, from)?;
        self.backed = to;
        Ok(())
    }

    fn set_length(&mut self, size: u64) -> Result<()> {
        let Some(open) = &mut self.open else {
            return Err(self.closed());
        };
        self.disk.set_length(&open.file, &self.path, size)?;
        if entries_in::<N>(size) > open.view.capacity {
            let view = View::open(&open.file, size.max(self.max_size));
            open.view = view.map_err(Error::io(&self.path))?;
        }
        self.length = size;
        self.slots = entries_in::<N>(size);
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
        self.slots
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
            // SAFETY: the file and its map hold `slots` entries, `entries` is at most that, and only `&mut self` cuts
            // the file.
            Some(open) if n < self.entries => Ok(Some(unsafe { open.view.load(n) })),
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
        let is_full = self.entries >= self.slots;
        match &mut self.open {
            Some(_) if is_full => return Err(self.full()),
            Some(open) => {
                // SAFETY: an entry below `slots` lies within the file and its map.
                unsafe { open.view.store(self.entries, slot) };
            }
            None => return Err(self.closed()),
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
        let flush = || open.view.flush(length);
        self.disk.sync_mapped(&open.file, &self.path, flush)
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
