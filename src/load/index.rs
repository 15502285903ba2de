//! The indexes of a segment under plan: Kafka's `AbstractIndex`, `OffsetIndex` and `TimeIndex` as loading uses them.
//!
//! Entries and searches are those of `index::writable`, here over bytes that may still be planned. Every slot of a file
//! counts as an entry, sorted or not, and searches probe the slots Kafka probes, so a broken index misleads us as it does
//! Kafka.

use std::sync::Arc;

use super::failure::LoadFailure;
use crate::error::{Error, Result};
use crate::format::entry::{
    OFFSET_ENTRY_SIZE, OffsetPosition, TIME_ENTRY_SIZE, TimestampOffset, relative_offset,
};
use crate::index::search;
use crate::index::writable::Entry;
use crate::io::overlay::Overlay;
use crate::io::overlay::content::{Content, Rebuild, Source};
use crate::io::storage::ReadFolder as _;
use crate::types::{Offset, TimestampMs};

/// Bytes of a word of an entry.
const WORD: usize = 4;
/// A map reaches no further in Java.
const MAX_INDEX_SIZE: u64 = i32::MAX as u64;

/// An offset index under plan.
pub(super) type OffsetIndex = Index<OffsetPosition, { OFFSET_ENTRY_SIZE / WORD }>;
/// A time index under plan.
pub(super) type TimeIndex = Index<TimestampOffset, { TIME_ENTRY_SIZE / WORD }>;

/// An index under plan, opened: entries of `W` words.
#[derive(Debug)]
pub(super) struct Index<E, const W: usize> {
    name: String,
    base_offset: Offset,
    max_index_size: i32,
    /// Slots that count as entries.
    entries: usize,
    /// The last of them, or what stands for it.
    last: E,
    /// The file's length.
    length: u64,
    /// The bytes written since they were reset; before, they are the file's.
    built: Option<Vec<u8>>,
    /// What the file held when they were reset: it still lies after the bytes written.
    old: Content,
}

impl<E: Entry<W>, const W: usize> Index<E, W> {
    /// Bytes of an entry.
    const ENTRY_SIZE: usize = W * WORD;

    /// Opens it; a new one gets the largest length that is a number of whole entries.
    pub(super) fn open(
        folder: &Overlay,
        name: &str,
        base_offset: Offset,
        max: i32,
    ) -> Result<Self> {
        let is_new = !folder.contains(name);
        if is_new {
            // The file is there before its size is looked at.
            folder.write(name, Content::empty())?;
            if usize::try_from(max).unwrap_or_default() < Self::ENTRY_SIZE {
                let least = Self::ENTRY_SIZE;
                let what = format!("segment.index.bytes {max} is below an entry's {least} bytes");
                return Err(Error::InvalidArgument(what));
            }
            folder.set_length(name, Self::whole(max));
        }
        let length = folder.length(name);
        if length > MAX_INDEX_SIZE {
            let expected = format!("at most {MAX_INDEX_SIZE} bytes");
            return Err(
                Error::corrupt_index("index length", 0, expected, length).at(&folder.path_of(name))
            );
        }
        let mut index = Self {
            name: name.to_owned(),
            base_offset,
            max_index_size: max,
            entries: if is_new { 0 } else { Self::slots_in(length) },
            last: E::before_all(base_offset),
            length,
            built: None,
            old: Content::empty(),
        };
        index.load(folder)?;
        index.read_last(folder)?;
        Ok(index)
    }

    /// The largest number of bytes of whole entries that is not larger.
    fn whole(size: i32) -> u64 {
        let size = u64::try_from(size).unwrap_or_default();
        let rest = size.checked_rem(Self::ENTRY_SIZE as u64);
        size.saturating_sub(rest.unwrap_or_default())
    }

    /// Whole slots in so many bytes.
    fn slots_in(length: u64) -> usize {
        let slots = length.checked_div(Self::ENTRY_SIZE as u64);
        usize::try_from(slots.unwrap_or_default()).unwrap_or(usize::MAX)
    }

    /// Where entry `n` begins.
    const fn position(n: usize) -> usize {
        n.saturating_mul(Self::ENTRY_SIZE)
    }

    fn max_entries(&self) -> usize {
        Self::slots_in(self.length)
    }

    /// Bytes that are made again are made once.
    fn load(&mut self, folder: &Overlay) -> Result<()> {
        if let (None, Some(content)) = (&self.built, folder.get(&self.name))
            && let Source::Rebuilt(how) = content.source()
        {
            self.built = Some(how.bytes(&folder.origins())?);
        }
        Ok(())
    }

    fn entry(&self, folder: &Overlay, n: usize) -> Result<E> {
        let at = Self::position(n);
        let read;
        let bytes = match (&self.built, folder.get(&self.name)) {
            (Some(built), _) => {
                let end = at.saturating_add(Self::ENTRY_SIZE);
                built.get(at..end).unwrap_or_default()
            }
            (None, Some(content)) => {
                read = content.read(&folder.origins(), at as u64, Self::ENTRY_SIZE)?;
                &read
            }
            (None, None) => &[],
        };
        let mut words = [0; W];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<WORD>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        Ok(E::decode(self.base_offset, words))
    }

    fn read_last(&mut self, folder: &Overlay) -> Result<()> {
        self.last = match self.entries.checked_sub(1) {
            None => E::before_all(self.base_offset),
            Some(last) => self.entry(folder, last)?,
        };
        Ok(())
    }

    pub(super) const fn last_entry(&self) -> E {
        self.last
    }

    /// The last entry whose key is at or below `target`, or what stands for it.
    pub(super) fn lookup(&mut self, folder: &Overlay, target: i64) -> Result<E> {
        self.load(folder)?;
        let key = |n| self.entry(folder, n).map(|entry| entry.key());
        match search::try_floor::<W, _>(self.entries, target, key)? {
            None => Ok(E::before_all(self.base_offset)),
            Some(n) => self.entry(folder, n),
        }
    }

    /// Drops the entries at or above `offset`.
    pub(super) fn truncate_to(&mut self, folder: &Overlay, offset: Offset) -> Result<()> {
        self.load(folder)?;
        let key = |n| self.entry(folder, n).map(|entry| entry.offset());
        self.entries = search::try_below::<W, _>(self.entries, offset, key)?;
        self.read_last(folder)
    }

    /// Sets the file's length; entries beyond it leave the object broken in Kafka, so they are an error here too.
    pub(super) fn resize(&mut self, folder: &Overlay, size: i32) -> Result<()> {
        let length = Self::whole(size);
        if length == self.length {
            return Ok(());
        }
        let used = Self::position(self.entries) as u64;
        self.length = length;
        if let Some(built) = &mut self.built {
            built.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            self.old = self.old.resized(length);
            self.store(folder)?;
        } else {
            folder.set_length(&self.name, length);
        }
        if used > length {
            let expected = format!("at most {length} bytes (segment.index.bytes {size})");
            return Err(Error::corrupt_index("index length", length, expected, used)
                .at(&folder.path_of(&self.name)));
        }
        Ok(())
    }

    pub(super) fn resize_to_max(&mut self, folder: &Overlay) -> Result<()> {
        self.resize(folder, self.max_index_size)
    }

    /// Cuts the file after its entries.
    pub(super) fn trim(&mut self, folder: &Overlay) -> Result<()> {
        let used = Self::position(self.entries);
        self.resize(folder, i32::try_from(used).unwrap_or(i32::MAX))
    }

    /// No entries, and the full length (`AbstractIndex.reset`).
    pub(super) fn reset(&mut self, folder: &Overlay) -> Result<()> {
        self.entries = 0;
        self.last = E::before_all(self.base_offset);
        self.resize_to_max(folder)?;
        self.store(folder)?;
        self.old = folder.get(&self.name).unwrap_or_else(Content::empty);
        self.built = Some(Vec::new());
        Ok(())
    }

    /// Writes an entry after the others, in an index that is new or was reset.
    fn push(&mut self, entry: E) -> Result<()> {
        let offset = entry.offset();
        let relative = relative_offset(self.base_offset, offset).ok_or_else(|| {
            let expected = format!("{} to {} behind it", self.base_offset, i32::MAX);
            Error::corrupt_index("index entry offset", 0, expected, offset)
        })?;
        let built = self.built.get_or_insert_default();
        let at = Self::position(self.entries);
        let end = at.saturating_add(Self::ENTRY_SIZE);
        if built.len() < end {
            built.resize(end, 0);
        }
        let words = entry.encode(relative).into_iter();
        for (to, byte) in built
            .iter_mut()
            .skip(at)
            .zip(words.flat_map(u32::to_be_bytes))
        {
            *to = byte;
        }
        self.entries = self.entries.saturating_add(1);
        self.last = entry;
        Ok(())
    }

    #[cold]
    fn full(&self, folder: &Overlay) -> LoadFailure {
        let expected = format!("room for more than {} entries", self.entries);
        let found = format!("{} bytes (segment.index.bytes)", self.max_index_size);
        let error = Error::corrupt_index("index", self.length, expected, found);
        error.at(&folder.path_of(&self.name)).into()
    }

    #[cold]
    fn backwards(&self, folder: &Overlay, offset: Offset) -> LoadFailure {
        let at = Self::position(self.entries) as u64;
        let expected = format!("above {}, as offsets rise", self.last.offset());
        let error = Error::corrupt_index("index entry offset", at, expected, offset);
        LoadFailure::InvalidOffset(error.at(&folder.path_of(&self.name)))
    }

    /// Puts what was built into the folder.
    pub(super) fn store(&self, folder: &Overlay) -> Result<()> {
        let Some(built) = &self.built else {
            return Ok(());
        };
        let mut bytes = built.clone();
        let behind = self.old.kept().saturating_sub(bytes.len() as u64);
        if let Ok(wanted @ 1..) = usize::try_from(behind) {
            let old = self
                .old
                .read(&folder.origins(), bytes.len() as u64, wanted)?;
            bytes.extend_from_slice(&old);
        }
        let mut content = Content::bytes(bytes);
        if content.length() != self.length {
            content = content.resized(self.length);
        }
        folder.write(&self.name, content)
    }

    /// Replaces what is kept of it by how it is made.
    pub(super) fn forget(&mut self, folder: &Overlay, how: Arc<dyn Rebuild>) {
        self.built = None;
        folder.replace(&self.name, Content::rebuilt(how, self.length));
    }
}

impl OffsetIndex {
    /// `OffsetIndex.append`.
    pub(super) fn append(
        &mut self,
        folder: &Overlay,
        offset: Offset,
        position: u64,
    ) -> Result<(), LoadFailure> {
        if self.entries >= self.max_entries() {
            return Err(self.full(folder));
        }
        if self.entries > 0 && offset <= self.last.offset {
            return Err(self.backwards(folder, offset));
        }
        let position = i32::try_from(position).unwrap_or(i32::MAX);
        Ok(self.push(OffsetPosition { offset, position })?)
    }
}

impl TimeIndex {
    /// `TimeIndex.maybeAppend`: an entry whose timestamp is not above the last one is skipped.
    pub(super) fn maybe_append(
        &mut self,
        folder: &Overlay,
        timestamp: TimestampMs,
        offset: Offset,
        skip_full_check: bool,
    ) -> Result<(), LoadFailure> {
        // The last slot is kept for the roll.
        if !skip_full_check && self.entries.saturating_add(1) >= self.max_entries() {
            return Err(self.full(folder));
        }
        if self.entries > 0 && offset < self.last.offset {
            return Err(self.backwards(folder, offset));
        }
        if self.entries > 0 && timestamp < self.last.timestamp {
            let expected = format!("at least {}, as before", self.last.timestamp);
            let error = Error::corrupt_index("index entry timestamp", 0, expected, timestamp);
            return Err(error.at(&folder.path_of(&self.name)).into());
        }
        if timestamp <= self.last.timestamp {
            return Ok(());
        }
        if self.entries >= self.max_entries() {
            return Err(self.full(folder));
        }
        Ok(self.push(TimestampOffset { timestamp, offset })?)
    }
}
