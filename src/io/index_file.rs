//! Index files under a writer: preallocated, mapped for writing, read by other threads at the same time (`AbstractIndex`).
//!
//! An [`IndexFile`] has one writer. [`IndexReader`]s, one for each thread, read beside it without locks. An entry is `W`
//! words of four bytes, big-endian on disk: two in an offset index, three in a time index. `view` holds the map, what
//! readers are promised, and the unsafe access to entries.
//!
//! # Contract of the maps
//! Touching a page after the end of a file is a SIGBUS that no check can catch, so:
//! * A map covers at least `max_size` bytes from the start, even beyond the end of the file, and lasts: trimming and growing
//!   move only the end of the file. Nothing after that end is touched: readers stay below the count, the writer below
//!   `slots`, and the file always holds both.
//! * A file is cut below what a reader may be about to read only while there is no reader. While there is one, the path gets
//!   another file ([`IndexFile::resize`]); old maps keep the old file alive, at its length.
//! * Ordinary writes fill a hole in a file before the map touches it, so that a full disk is an error and not a signal. (A
//!   file system that copies on write may still run full later.)
//! * No one else shortens the file or writes to it. The caller of [`IndexFile::open`] promises that: the log dir's `.lock`
//!   keeps other writers away. Other processes copy the indexes of an active segment ([`index`](crate::index)).
//!
//! The first three are invariants of this module, whose fields are private.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: entries of a map, below a file's length"
)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::disk::Disk;
use super::entry_file::{EntryFile, MAX_SIZE, check_length, invalid};
use super::file::{open, open_as, read_at};
use super::links::detach;
use crate::error::{Error, Result};

mod view;

pub(crate) use view::IndexReader;
pub(crate) use view::Snapshot;
pub(crate) use view::halves;
use view::{PAGE, Shared, View};

/// How much of a hole is filled at once.
const STRIDE: u64 = 16 * PAGE;
/// Ends the name of a file that is about to replace a trimmed one; a broker that finds it removes it.
const REPLACEMENT: &str = ".trimmed.deleted";

/// A file and its map, while they are open.
#[derive(Debug)]
struct Open<const W: usize> {
    file: File,
    view: Arc<View<W>>,
}

/// An index file and its only writer.
#[derive(Debug)]
pub struct IndexFile<const W: usize> {
    disk: Disk,
    path: PathBuf,
    max_size: u64,
    open: Option<Open<W>>,
    shared: Arc<Shared<W>>,
    entries: usize,
    /// Whole entries the file has room for.
    slots: usize,
    length: u64,
    /// Up to where the file is known to have no hole.
    backed: u64,
    /// The most entries a reader may have been promised.
    promised: usize,
}

impl<const W: usize> IndexFile<W> {
    /// Opens the index at `path`; a new one gets `max_size` bytes, rounded down to whole entries. Of an
    /// existing one every whole slot is an entry, whatever it holds: a broker's recovery does the rest.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where a new index would have no room for an entry, which leaves an empty file (as Kafka
    /// does), or where the file is longer than an index can be.
    ///
    /// # Safety
    /// Until this and its readers are dropped, no other code writes to the file or shortens it.
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
            Self::check_new(path, max_size)?;
            disk.set_length(&file, path, Self::whole(max_size))?;
        }
        Self::over(disk, path, max_size, file, is_new, true)
    }

    /// Opens an existing index for reading; [`IndexFile::resize`] makes it writable, as in Kafka.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where the file is longer than an index can be.
    ///
    /// # Safety
    /// As [`IndexFile::open`].
    pub(crate) unsafe fn open_read_only(path: &Path, max_size: usize) -> Result<Self> {
        let (file, _) = open(path).map_err(Error::io(path))?;
        let max_size = (max_size as u64).min(MAX_SIZE);
        Self::over(&Disk::default(), path, max_size, file, false, false)
    }

    fn over(
        disk: &Disk,
        path: &Path,
        max_size: u64,
        file: File,
        is_new: bool,
        is_writable: bool,
    ) -> Result<Self> {
        let length = file.metadata().map_err(Error::io(path))?.len();
        check_length(path, length)?;
        let slots = Self::entries_in(length);
        let entries = if is_new { 0 } else { slots };
        // Without writing there is no growing either.
        let room = if is_writable { max_size } else { 0 };
        let reserve = length.max(room);
        let view = View::open(&file, reserve, is_writable, entries);
        let view = Arc::new(view.map_err(Error::io(path))?);
        let shared = Shared::new(&view);
        Ok(Self {
            disk: disk.clone(),
            path: path.to_path_buf(),
            max_size,
            open: Some(Open { file, view }),
            shared: Arc::new(shared),
            entries,
            slots,
            length,
            backed: 0,
            promised: entries,
        })
    }

    /// Sets the path after the file or its folder was renamed; the file stays open.
    pub(crate) fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    #[cold]
    fn closed(&self) -> Error {
        invalid(&self.path, "the index is closed")
    }

    /// A handle for another thread.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    pub(crate) fn reader(&self) -> Result<IndexReader<W>> {
        let open = self.open.as_ref().ok_or_else(|| self.closed())?;
        Ok(IndexReader::new(
            Arc::clone(&self.shared),
            Arc::clone(&open.view),
        ))
    }

    #[cold]
    fn no_room(&self, is_writable: bool) -> Error {
        if is_writable {
            invalid(
                &self.path,
                format_args!("the index is full with {} entries", self.entries),
            )
        } else {
            invalid(&self.path, "the index was opened for reading")
        }
    }

    /// Fills the hole from `backed` up to at least `end`, as far as the file goes, by writing what is read there: bytes
    /// that were cut from the index stay as they are, as they do in Kafka.
    #[cold]
    #[inline(never)]
    fn back(&mut self, end: u64) -> Result<()> {
        let Some(open) = &self.open else {
            return Err(self.closed());
        };
        if end > self.length || !open.view.is_writable {
            return Err(self.no_room(open.view.is_writable));
        }
        // What lies before the new entry is in use, so it has been written; only what lies after is touched here.
        let from = self.backed.max(Self::size_of(self.entries));
        let to = end.next_multiple_of(STRIDE).min(self.length);
        let len = usize::try_from(to.saturating_sub(from)).unwrap_or_default();
        let mut bytes = vec![0; len];
        read_at(&open.file, &mut bytes, from).map_err(Error::io(&self.path))?;
        self.disk.write_at(&open.file, &self.path, &bytes, from)?;
        self.backed = to;
        Ok(())
    }

    fn set_length(&mut self, size: u64) -> Result<()> {
        let Some(open) = &self.open else {
            return Err(self.closed());
        };
        let promised = Self::size_of(self.promised.max(self.entries));
        let is_readable_cut = size.next_multiple_of(PAGE) < promised.min(self.length);
        if is_readable_cut && Arc::get_mut(&mut self.shared).is_none() {
            self.replace(size)?;
        } else if open.view.is_writable {
            self.disk.set_length(&open.file, &self.path, size)?;
            if Self::entries_in(size) > open.view.capacity {
                let file = open.file.try_clone().map_err(Error::io(&self.path))?;
                self.exchange(file, size)?;
            }
        } else {
            let file = open_as(&self.path, File::options().read(true).write(true));
            let (file, _) = file.map_err(Error::io(&self.path))?;
            let file = detach(&self.disk, &file, &self.path)?.unwrap_or(file);
            self.disk.set_length(&file, &self.path, size)?;
            self.exchange(file, size)?;
        }
        self.length = size;
        self.slots = Self::entries_in(size);
        self.backed = self.backed.min(size);
        Ok(())
    }

    /// Maps `file`, whose length is `size`, in place of what is mapped.
    fn exchange(&mut self, file: File, size: u64) -> Result<()> {
        let reserve = size.max(self.max_size);
        let view = View::open(&file, reserve, true, self.entries).map_err(Error::io(&self.path))?;
        let view = Arc::new(view);
        self.shared.set_view(Some(Arc::clone(&view)));
        self.open = Some(Open { file, view });
        Ok(())
    }

    /// Puts a file of `size` bytes with the same entries in the place of this one, which readers still have mapped.
    fn replace(&mut self, size: u64) -> Result<()> {
        let Some(open) = &self.open else {
            return Err(self.closed());
        };
        let mut name = self.path.clone().into_os_string();
        name.push(REPLACEMENT);
        let beside = PathBuf::from(name);
        let used = usize::try_from(Self::size_of(self.entries)).unwrap_or_default();
        let mut bytes = vec![0; used];
        read_at(&open.file, &mut bytes, 0).map_err(Error::io(&self.path))?;
        let made = || -> Result<File> {
            self.disk.create(&beside)?;
            let file = self.disk.open_or_create(&beside)?;
            self.disk.write_at(&file, &beside, &bytes, 0)?;
            self.disk.set_length(&file, &beside, size)?;
            self.disk.sync(&file, &beside)?;
            self.disk.rename(&beside, &self.path)?;
            Ok(file)
        };
        let file = match made() {
            Ok(file) => file,
            Err(error) => {
                // Nothing was changed; what is left beside is of no use, and the error that counts is the first one.
                let _ = self.disk.remove(&beside);
                return Err(error);
            }
        };
        self.promised = self.entries;
        self.backed = 0;
        self.exchange(file, size)
    }

    /// Closes and removes the file; returns whether there was one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn delete_if_exists(&mut self) -> Result<bool> {
        self.close_handler();
        self.disk.remove(&self.path)
    }

    /// Renames the file, in place of one that has the name.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn rename_to(&mut self, path: &Path) -> Result<()> {
        self.disk.rename(&self.path, path)?;
        self.path = path.to_path_buf();
        Ok(())
    }
}

impl<const W: usize> EntryFile<W> for IndexFile<W> {
    const TAKES_HINTS: bool = true;

    type Entries<'a> = Snapshot<'a, W>;

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
    fn snapshot(&self) -> Result<Snapshot<'_, W>> {
        let open = self.open.as_ref().ok_or_else(|| self.closed())?;
        let hint = self.shared.hint.load(Ordering::Relaxed);
        // SAFETY: the file holds `slots` entries, of which `entries` are written, and only `&mut self` cuts it.
        Ok(unsafe { Snapshot::new(&open.view, self.entries, hint) })
    }

    #[inline]
    fn set_hint(&self, hint: u64) {
        self.shared.hint.store(hint, Ordering::Relaxed);
    }

    /// Also shows the entry to the readers.
    #[inline]
    fn push(&mut self, words: [u32; W]) -> Result<()> {
        let end = Self::size_of(self.entries.saturating_add(1));
        if end > self.backed {
            self.back(end)?;
        }
        let Some(open) = &self.open else {
            return Err(self.closed());
        };
        // SAFETY: an entry below `slots` lies within the file.
        if self.entries >= self.slots || !unsafe { open.view.store(self.entries, words) } {
            return Err(self.no_room(open.view.is_writable));
        }
        self.entries = self.entries.saturating_add(1);
        open.view.entries.store(self.entries, Ordering::Release);
        Ok(())
    }

    fn truncate(&mut self, entries: usize) -> Result<()> {
        let Some(open) = &self.open else {
            return Err(self.closed());
        };
        if entries >= self.entries {
            return Ok(());
        }
        self.promised = self.promised.max(self.entries);
        self.entries = entries;
        open.view.entries.store(entries, Ordering::Relaxed);
        self.shared.advance();
        Ok(())
    }

    /// `InvalidArgument` where entries would be lost: cut them first. (Kafka shortens the file, then throws, and the index
    /// is unusable from then on.)
    fn resize(&mut self, size: usize) -> Result<bool> {
        let size = Self::whole(size as u64);
        if size == self.length {
            return Ok(false);
        }
        if self.open.is_none() {
            return Err(self.closed());
        }
        if size > MAX_SIZE {
            return Err(invalid(
                &self.path,
                format_args!("an index of {size} bytes is above {MAX_SIZE}"),
            ));
        }
        if size < Self::size_of(self.entries) {
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
        let size = self.entries.saturating_mul(Self::ENTRY_SIZE);
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
        if Arc::get_mut(&mut self.shared).is_some() {
            self.shared.set_view(None);
        }
    }
}

#[cfg(test)]
mod tests;
