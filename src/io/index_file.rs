//! Index files that are written: preallocated, mapped for writing, read by other threads meanwhile (`AbstractIndex`).
//!
//! An [`IndexFile`] has one writer; [`IndexReader`]s, one a thread, read beside it without locks. An entry is `W` words of
//! four bytes, big-endian on disk: two in an offset index, three in a time index.
//!
//! # What readers are promised
//! * An entry's words are stored before the count that makes them readable (release), and read after it (acquire): no
//!   reader sees a part of an entry.
//! * Entries that are read never change while the count only grows. A cut ([`IndexFile::truncate`]) lets later appends
//!   write over them, so it and every exchange of the map advance `sequence`; [`IndexReader::read`] asks for it before
//!   and after, and reads anew when it moved. An answer is therefore always one of a single moment between call and
//!   return.
//! * All words are atomics, always accessed at one size: a lookup that is overtaken reads old or new words, never
//!   undefined ones, and throws them away.
//!
//! # Contract of the maps
//! Touching a page behind a file's end is a SIGBUS that no check can catch, so:
//! * A map covers at least `max_size` bytes from the start, the file's end notwithstanding, and lasts: trimming and
//!   growing under it move the file's end only. What lies behind the end is never touched: both sides stay below the
//!   count, the writer also below `slots`, and neither is ever more than the file holds.
//! * A file is cut below what a reader may have been about to read only while there is no reader. While there is one, it
//!   is given another file by the same name ([`IndexFile::resize`]); old maps keep the old one alive, at its length.
//! * A hole in a file is filled by ordinary writes before the map touches it (`back`), which is where a full disk is an
//!   error and no signal. (A file system that copies on write may still run full later.)
//! * Nobody else shortens the file: that is what the log dir's `.lock` is for.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: atomics in a map"
)]

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapOptions, MmapRaw};

use super::disk::Disk;
use super::file::read_at;
use crate::error::{Error, Result};

/// Bytes of a word.
const WORD: usize = 4;
/// Pages are at least this large: up to the next multiple, a map may be touched behind the file's end.
const PAGE: u64 = 4096;
/// How much of a hole is filled at once.
const STRIDE: u64 = 16 * PAGE;
/// No index is longer: Kafka maps it with a Java `int`.
const MAX_SIZE: u64 = i32::MAX as u64;
/// Ends the name of a file that is about to replace a trimmed one; a broker that finds it removes it.
const REPLACEMENT: &str = ".trimmed.deleted";

/// A map of a file's start.
#[derive(Debug)]
struct View<const W: usize> {
    map: MmapRaw,
    /// Whole entries that fit into the map; the file may be shorter.
    capacity: usize,
    is_writable: bool,
}

impl<const W: usize> View<W> {
    /// Maps the first `reserve` bytes, whether the file has them yet or not.
    fn open(file: &File, reserve: u64, is_writable: bool) -> io::Result<Self> {
        let reserve = usize::try_from(reserve.max(PAGE)).map_err(io::Error::other)?;
        let mut options = MmapOptions::new();
        options.len(reserve);
        let map = if is_writable {
            options.map_raw(file)
        } else {
            options.map_raw_read_only(file)
        }?;
        let capacity = map.len().checked_div(W.saturating_mul(WORD));
        Ok(Self {
            map,
            capacity: capacity.unwrap_or_default(),
            is_writable,
        })
    }

    /// Where word `k` of entry `n` is, for `n` below `capacity`.
    #[inline]
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a map begins on a page, and an entry is a number of words"
    )]
    fn at(&self, n: usize, k: usize) -> *mut u32 {
        let word = n.wrapping_mul(W).wrapping_add(k);
        self.map.as_mut_ptr().cast::<u32>().wrapping_add(word)
    }

    /// Entry `n`; `None` where the map ends before it.
    #[inline]
    fn load(&self, n: usize) -> Option<[u32; W]> {
        if n >= self.capacity {
            return None;
        }
        let mut words = [0; W];
        if let [high, low] = words.as_mut_slice() {
            // SAFETY: `n` is below the capacity, so the eight bytes are inside the map, which begins on a page: they are
            // aligned. Nobody accesses them other than as this atomic.
            let both = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            let both = u64::from_be(both.load(Ordering::Relaxed));
            *high = (both >> 32) as u32;
            *low = (both & u64::from(u32::MAX)) as u32;
            return Some(words);
        }
        for (k, word) in words.iter_mut().enumerate() {
            // SAFETY: `n` is below the capacity, so all `W` words are inside the map, which begins on a page: they are
            // aligned. Nobody accesses them other than as this atomic.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            *word = u32::from_be(atomic.load(Ordering::Relaxed));
        }
        Some(words)
    }

    /// Writes entry `n`, the last word last; returns whether the map has room for it.
    #[inline]
    fn store(&self, n: usize, words: [u32; W]) -> bool {
        if n >= self.capacity || !self.is_writable {
            return false;
        }
        if let [high, low] = *words.as_slice() {
            let both = u64::from(high) << 32 | u64::from(low);
            // SAFETY: as in `load`; the map is writable.
            let atomic = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            atomic.store(both.to_be(), Ordering::Relaxed);
            return true;
        }
        for (k, word) in words.into_iter().enumerate() {
            // SAFETY: as in `load`; the map is writable.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            atomic.store(word.to_be(), Ordering::Release);
        }
        true
    }
}

/// What the writer and its readers share.
#[derive(Debug)]
struct Shared<const W: usize> {
    /// Entries that may be read.
    entries: AtomicUsize,
    /// How often entries were taken back or the map was exchanged.
    sequence: AtomicU64,
    /// A number that helps searching and that no answer depends on.
    hint: AtomicU64,
    /// The current map; `None` once the index was closed without readers.
    view: Mutex<Option<Arc<View<W>>>>,
}

impl<const W: usize> Shared<W> {
    fn view(&self) -> Option<Arc<View<W>>> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.as_ref().map(Arc::clone)
    }

    fn set_view(&self, view: Option<Arc<View<W>>>) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        self.advance();
    }

    /// Tells readers that what they hold may be old. Whatever was changed before is seen by a reader that sees the new
    /// number, and whoever sees something that is changed later sees the number too.
    fn advance(&self) {
        let now = self.sequence.load(Ordering::Relaxed).wrapping_add(1);
        self.sequence.store(now, Ordering::Release);
        fence(Ordering::Release);
    }
}

/// The entries of one moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a, const W: usize> {
    view: &'a View<W>,
    entries: usize,
    hint: u64,
}

impl<const W: usize> Snapshot<'_, W> {
    /// How many there are.
    #[inline]
    #[must_use]
    pub const fn entries(self) -> usize {
        self.entries
    }

    /// Entry `n`, if there is one.
    #[inline]
    #[must_use]
    pub fn get(self, n: usize) -> Option<[u32; W]> {
        if n >= self.entries {
            return None;
        }
        self.view.load(n)
    }

    /// What the writer left with [`IndexFile::set_hint`].
    #[inline]
    #[must_use]
    pub const fn hint(self) -> u64 {
        self.hint
    }
}

/// Reads beside the writer. One a thread; clone it for another.
///
/// It outlasts the writer, and then answers from what was there at the end.
#[derive(Debug)]
pub struct IndexReader<const W: usize> {
    shared: Arc<Shared<W>>,
    /// The map, and the sequence at which it was the current one.
    view: RefCell<(u64, Arc<View<W>>)>,
}

impl<const W: usize> Clone for IndexReader<W> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            view: RefCell::new(self.view.borrow().clone()),
        }
    }
}

impl<const W: usize> IndexReader<W> {
    /// What `look` says of the entries of one moment; it is called again where the writer took entries back meanwhile.
    #[inline]
    pub fn read<T>(&self, look: impl Fn(Snapshot<'_, W>) -> T) -> T {
        loop {
            let sequence = self.shared.sequence.load(Ordering::Acquire);
            if self.view.borrow().0 != sequence
                && let Some(view) = self.shared.view()
            {
                *self.view.borrow_mut() = (sequence, view);
            }
            let held = self.view.borrow();
            let found = look(Snapshot {
                view: &held.1,
                entries: self.shared.entries.load(Ordering::Acquire),
                hint: self.shared.hint.load(Ordering::Relaxed),
            });
            fence(Ordering::Acquire);
            if self.shared.sequence.load(Ordering::Relaxed) == sequence {
                return found;
            }
        }
    }
}

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
    /// Bytes of an entry.
    pub const ENTRY_SIZE: usize = W * WORD;

    /// Opens the index at `path`; a new one gets `max_size` bytes, rounded down to whole entries. Of one that is there
    /// every whole slot is an entry, whatever is in it: a broker's recovery sees to the rest.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where a new index would have no room for an entry, which leaves an empty file (as Kafka
    /// does), or where the file is longer than an index can be.
    pub fn open(disk: &Disk, path: &Path, max_size: usize) -> Result<Self> {
        let max_size = max_size as u64;
        if max_size > MAX_SIZE {
            return Err(invalid(
                path,
                format_args!("an index of {max_size} bytes is above {MAX_SIZE}"),
            ));
        }
        let is_new = !path.try_exists().map_err(Error::io(path))?;
        let file = disk.open_or_create(path)?;
        if is_new {
            if max_size < Self::size_of(1) {
                let least = Self::ENTRY_SIZE;
                return Err(invalid(
                    path,
                    format_args!(
                        "an index of {max_size} bytes has no room for an entry of {least}"
                    ),
                ));
            }
            disk.set_length(&file, path, Self::whole(max_size))?;
        }
        Self::over(disk, path, max_size, file, is_new, true)
    }

    /// Opens an index that is there, for reading; [`IndexFile::resize`] makes it writable, as in Kafka.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where the file is longer than an index can be.
    pub fn open_read_only(path: &Path, max_size: usize) -> Result<Self> {
        let file = File::open(path).map_err(Error::io(path))?;
        Self::over(&Disk::default(), path, max_size as u64, file, false, false)
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
        if length > MAX_SIZE {
            return Err(invalid(
                path,
                format_args!("an index of {length} bytes is above {MAX_SIZE}"),
            ));
        }
        let slots = Self::entries_in(length);
        let entries = if is_new { 0 } else { slots };
        let view = View::open(&file, length.max(max_size.min(MAX_SIZE)), is_writable);
        let view = Arc::new(view.map_err(Error::io(path))?);
        let shared = Shared {
            entries: AtomicUsize::new(entries),
            sequence: AtomicU64::new(0),
            hint: AtomicU64::new(0),
            view: Mutex::new(Some(Arc::clone(&view))),
        };
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

    /// Bytes of `entries` entries.
    const fn size_of(entries: usize) -> u64 {
        (entries as u64).saturating_mul(Self::ENTRY_SIZE as u64)
    }

    fn entries_in(length: u64) -> usize {
        let whole = length.checked_div(Self::ENTRY_SIZE as u64);
        usize::try_from(whole.unwrap_or_default()).unwrap_or(usize::MAX)
    }

    /// `length` rounded down to whole entries.
    fn whole(length: u64) -> u64 {
        Self::size_of(Self::entries_in(length))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says that the file was renamed, or its folder: it stays open.
    pub fn set_path(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Entries written.
    #[inline]
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// Entries the file has room for.
    #[inline]
    #[must_use]
    pub const fn max_entries(&self) -> usize {
        self.slots
    }

    /// The file's length.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The length of a file that is as long as it may be, before rounding.
    #[must_use]
    pub const fn max_size(&self) -> u64 {
        self.max_size
    }

    /// Whether it was not closed yet.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    #[cold]
    fn closed(&self) -> Error {
        invalid(&self.path, "the index is closed")
    }

    /// The entries as they are.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    #[inline]
    pub fn snapshot(&self) -> Result<Snapshot<'_, W>> {
        let open = self.open.as_ref().ok_or_else(|| self.closed())?;
        Ok(Snapshot {
            view: &open.view,
            entries: self.entries,
            hint: self.shared.hint.load(Ordering::Relaxed),
        })
    }

    /// A handle for another thread.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    pub fn reader(&self) -> Result<IndexReader<W>> {
        let open = self.open.as_ref().ok_or_else(|| self.closed())?;
        let sequence = self.shared.sequence.load(Ordering::Relaxed);
        Ok(IndexReader {
            shared: Arc::clone(&self.shared),
            view: RefCell::new((sequence, Arc::clone(&open.view))),
        })
    }

    /// Leaves a number for [`Snapshot::hint`].
    #[inline]
    pub fn set_hint(&self, hint: u64) {
        self.shared.hint.store(hint, Ordering::Relaxed);
    }

    /// Writes an entry behind the others and shows it to the readers.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no room, after a close, or in a file that was opened for reading; `Io` where the
    /// disk has no room.
    #[inline]
    pub fn push(&mut self, words: [u32; W]) -> Result<()> {
        let end = Self::size_of(self.entries.saturating_add(1));
        if end > self.backed {
            self.back(end)?;
        }
        let Some(open) = &self.open else {
            return Err(self.closed());
        };
        if self.entries >= self.slots || !open.view.store(self.entries, words) {
            return Err(self.no_room(open.view.is_writable));
        }
        self.entries = self.entries.saturating_add(1);
        self.shared.entries.store(self.entries, Ordering::Release);
        Ok(())
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
        // What lies before the new entry is in use, so it has been written; only what lies behind is touched here.
        let from = self.backed.max(Self::size_of(self.entries));
        let to = end.next_multiple_of(STRIDE).min(self.length);
        let len = usize::try_from(to.saturating_sub(from)).unwrap_or_default();
        let mut bytes = vec![0; len];
        read_at(&open.file, &mut bytes, from).map_err(Error::io(&self.path))?;
        self.disk.write_at(&open.file, &self.path, &bytes, from)?;
        self.backed = to;
        Ok(())
    }

    /// Takes back all but the first `entries` entries; their bytes stay in the file.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    pub fn truncate(&mut self, entries: usize) -> Result<()> {
        if self.open.is_none() {
            return Err(self.closed());
        }
        if entries >= self.entries {
            return Ok(());
        }
        self.promised = self.promised.max(self.entries);
        self.entries = entries;
        self.shared.entries.store(entries, Ordering::Relaxed);
        self.shared.advance();
        Ok(())
    }

    /// Sets the file's length to `size` rounded down to whole entries; returns whether that changed it. Entries stay.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close, or where entries would be lost: cut them first. (Kafka shortens the file,
    /// then throws, and the index is unusable from then on.)
    pub fn resize(&mut self, size: usize) -> Result<bool> {
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
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).open(&self.path);
            let file = file.map_err(Error::io(&self.path))?;
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
        let reserve = size.max(self.max_size.min(MAX_SIZE));
        let view = View::open(&file, reserve, true).map_err(Error::io(&self.path))?;
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

    /// Cuts the file behind the last entry; nothing after a close.
    ///
    /// # Errors
    /// `Io`.
    pub fn trim_to_valid_size(&mut self) -> Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        let size = self.entries.saturating_mul(Self::ENTRY_SIZE);
        self.resize(size).map(|_| ())
    }

    /// Has the entries on the device before it returns.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` after a close.
    pub fn flush(&self) -> Result<()> {
        let open = self.open.as_ref().ok_or_else(|| self.closed())?;
        self.disk.before(super::disk::Step::Sync, &self.path)?;
        let used = usize::try_from(self.length).unwrap_or_default();
        if used == 0 || !open.view.is_writable {
            return Ok(());
        }
        open.view
            .map
            .flush_range(0, used)
            .map_err(Error::io(&self.path))
    }

    /// Trims and closes. Closing again does nothing.
    ///
    /// # Errors
    /// `Io`; it is closed even so.
    pub fn close(&mut self) -> Result<()> {
        let trimmed = self.trim_to_valid_size();
        self.close_handler();
        trimmed
    }

    /// Closes and leaves the file as long as it is (`closeHandler`): as after a crash.
    pub fn close_handler(&mut self) {
        self.open = None;
        if Arc::get_mut(&mut self.shared).is_some() {
            self.shared.set_view(None);
        }
    }

    /// Closes and removes the file; returns whether there was one.
    ///
    /// # Errors
    /// `Io`.
    pub fn delete_if_exists(&mut self) -> Result<bool> {
        self.close_handler();
        self.disk.remove(&self.path)
    }

    /// Renames the file, in place of one that has the name.
    ///
    /// # Errors
    /// `Io`.
    pub fn rename_to(&mut self, path: &Path) -> Result<()> {
        self.disk.rename(&self.path, path)?;
        self.path = path.to_path_buf();
        Ok(())
    }
}

#[cold]
fn invalid(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::InvalidArgument(format!("{}: {what}", path.display()))
}
