//! The map of an index, its entries as atomics, and reading beside the writer.
//!
//! # What readers are promised
//! * The writer stores an entry's words before the count that makes them readable (release); readers load them after it
//!   (acquire). So no reader sees part of an entry.
//! * Entries never change while the count only grows. After a cut, later appends overwrite them, so a cut and every exchange
//!   of the map advance `sequence`. [`IndexReader::read`] loads it before and after, and repeats the read if it moved. So
//!   every answer is that of a single moment between call and return.
//! * All words are atomics, always accessed at one size: a lookup that a cut overtakes reads old or new words, never undefined
//!   ones, and discards them.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: atomics in a map"
)]

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{MmapOptions, MmapRaw};

use crate::io::entry_file::{Entries, WORD};

/// Pages are at least this large: up to the next multiple, a map may be touched after the file's end.
pub(super) const PAGE: u64 = 4096;

/// A map of a file's start.
#[derive(Debug)]
pub(super) struct View<const W: usize> {
    map: MmapRaw,
    /// Whole entries that fit into the map; the file may be shorter.
    pub(super) capacity: usize,
    pub(super) is_writable: bool,
    /// Entries that may be read. Once another map has taken this one's place it stays as it is, so that who still reads
    /// here stays inside the file that was mapped.
    pub(super) entries: AtomicUsize,
}

impl<const W: usize> View<W> {
    /// Maps the first `reserve` bytes, whether the file has them yet or not.
    pub(super) fn open(
        file: &File,
        reserve: u64,
        is_writable: bool,
        entries: usize,
    ) -> io::Result<Self> {
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
            entries: AtomicUsize::new(entries),
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

    /// Entry `n`.
    ///
    /// # Safety
    /// `n` is below `capacity`, and the file holds that entry.
    #[inline]
    unsafe fn load(&self, n: usize) -> [u32; W] {
        let mut words = [0; W];
        if let [high, low] = words.as_mut_slice() {
            // SAFETY: `n` is below the capacity, so the eight bytes are inside the map, which begins on a page: they are
            // aligned. They are accessed as this atomic alone.
            let both = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            let both = u64::from_be(both.load(Ordering::Relaxed));
            (*high, *low) = halves(both);
            return words;
        }
        for (k, word) in words.iter_mut().enumerate() {
            // SAFETY: `n` is below the capacity, so all `W` words are inside the map, which begins on a page: they are
            // aligned. They are accessed as this atomic alone.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            *word = u32::from_be(atomic.load(Ordering::Relaxed));
        }
        words
    }

    /// Writes entry `n`, the last word last; returns whether the map is writable and has room for it.
    ///
    /// # Safety
    /// The file holds entry `n`, if the map does.
    #[inline]
    pub(super) unsafe fn store(&self, n: usize, words: [u32; W]) -> bool {
        if n >= self.capacity || !self.is_writable {
            return false;
        }
        if let [high, low] = *words.as_slice() {
            let both = u64::from(high) << 32 | u64::from(low);
            // SAFETY: `n` is below the capacity; else as in `load`. The map is writable.
            let atomic = unsafe { AtomicU64::from_ptr(self.at(n, 0).cast()) };
            atomic.store(both.to_be(), Ordering::Relaxed);
            return true;
        }
        for (k, word) in words.into_iter().enumerate() {
            // SAFETY: `n` is below the capacity; else as in `load`. The map is writable.
            let atomic = unsafe { AtomicU32::from_ptr(self.at(n, k)) };
            atomic.store(word.to_be(), Ordering::Release);
        }
        true
    }

    /// Has the first `length` bytes on the device before it returns.
    pub(super) fn flush(&self, length: usize) -> io::Result<()> {
        if length == 0 || !self.is_writable {
            return Ok(());
        }
        self.map.flush_range(0, length)
    }
}

/// The upper and the lower half.
#[inline]
#[must_use]
pub(crate) fn halves(both: u64) -> (u32, u32) {
    let half = |word| u32::try_from(word).unwrap_or_default();
    (half(both >> 32), half(both & u64::from(u32::MAX)))
}

/// What the writer and its readers share.
#[derive(Debug)]
pub(super) struct Shared<const W: usize> {
    /// How often entries were taken back or the map was exchanged.
    sequence: AtomicU64,
    /// A number that helps searching and that no answer depends on.
    pub(super) hint: AtomicU64,
    /// The current map; `None` once the index was closed without readers.
    view: Mutex<Option<Arc<View<W>>>>,
}

impl<const W: usize> Shared<W> {
    pub(super) fn new(view: &Arc<View<W>>) -> Self {
        Self {
            sequence: AtomicU64::new(0),
            hint: AtomicU64::new(0),
            view: Mutex::new(Some(Arc::clone(view))),
        }
    }

    pub(super) fn view(&self) -> Option<Arc<View<W>>> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        view.as_ref().map(Arc::clone)
    }

    pub(super) fn set_view(&self, view: Option<Arc<View<W>>>) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
        self.advance();
    }

    /// Tells readers that what they hold may be old. Whatever was changed before is seen by a reader that sees the new
    /// number, and whoever sees something that is changed later sees the number too.
    pub(super) fn advance(&self) {
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

impl<'a, const W: usize> Snapshot<'a, W> {
    /// The first `entries` of a map.
    ///
    /// # Safety
    /// The file holds them, as far as the map does, and is not cut below them while the snapshot lives.
    #[inline]
    pub(super) unsafe fn new(view: &'a View<W>, entries: usize, hint: u64) -> Self {
        let entries = entries.min(view.capacity);
        Self {
            view,
            entries,
            hint,
        }
    }
}

impl<const W: usize> Entries<W> for Snapshot<'_, W> {
    type Error = Infallible;

    #[inline]
    fn entries(&self) -> usize {
        self.entries
    }

    #[inline]
    fn get(&self, n: usize) -> Result<Option<[u32; W]>, Infallible> {
        if n >= self.entries {
            return Ok(None);
        }
        // SAFETY: `new` made `entries` at most the map's capacity, and its caller promised that the file holds them.
        Ok(Some(unsafe { self.view.load(n) }))
    }

    #[inline]
    fn hint(&self) -> u64 {
        self.hint
    }
}

/// Reads beside the writer. One a thread; clone it for another.
///
/// It outlasts the writer, and then answers from what was there at the end.
#[derive(Debug)]
pub(crate) struct IndexReader<const W: usize> {
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
    pub(super) fn new(shared: Arc<Shared<W>>, view: Arc<View<W>>) -> Self {
        let sequence = shared.sequence.load(Ordering::Relaxed);
        let view = RefCell::new((sequence, view));
        Self { shared, view }
    }

    /// What `look` says of the entries of one moment; it is called again where the writer took entries back meanwhile.
    #[inline]
    pub(crate) fn read<T>(&self, look: impl Fn(Snapshot<'_, W>) -> T) -> T {
        loop {
            let sequence = self.shared.sequence.load(Ordering::Acquire);
            if self.view.borrow().0 != sequence
                && let Some(view) = self.shared.view()
            {
                *self.view.borrow_mut() = (sequence, view);
            }
            let held = self.view.borrow();
            let entries = held.1.entries.load(Ordering::Acquire);
            let hint = self.shared.hint.load(Ordering::Relaxed);
            // SAFETY: the writer stores a count after the file holds so many entries. While there is a reader it cuts no file
            // below a count that was stored in its map, but replaces it.
            let entries = unsafe { Snapshot::new(&held.1, entries, hint) };
            let found = look(entries);
            fence(Ordering::Acquire);
            if self.shared.sequence.load(Ordering::Relaxed) == sequence {
                return found;
            }
        }
    }
}
