//! The indexes of a segment under plan: Kafka's `AbstractIndex`, `OffsetIndex` and `TimeIndex` as loading uses them.
//!
//! The same rules as `index::writable`'s over a map, here over bytes that may still be planned. Every slot of a file counts
//! as an entry, sorted or not, and searches probe the slots Kafka probes, so a broken index misleads us as it does Kafka.

use std::cmp::Ordering;

use crate::error::{Error, Result};
use crate::format::cursor::{get_i32, get_i64};
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition, TIME_ENTRY_SIZE, TimestampOffset};
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

use super::Trouble;
use super::content::{Content, Rebuild, Source};
use super::folder::Folder;

/// `AbstractIndex.warmEntries`: the bytes at the end that lookups are confined to if they can.
const WARM_BYTES: u64 = 8192;
/// A map reaches no further in Java.
const MAX_INDEX_SIZE: u64 = i32::MAX as u64;

/// Slots of `N` bytes, opened.
#[derive(Debug)]
struct Slots<const N: usize> {
    name: String,
    base_offset: Offset,
    max_index_size: i32,
    /// Slots that count as entries.
    entries: usize,
    /// The file's length.
    length: u64,
    /// The bytes written since they were reset; before, they are the file's.
    built: Option<Vec<u8>>,
    /// What the file held when they were reset: it still lies behind the bytes written.
    old: Content,
}

/// The largest multiple of `N` that is not larger.
fn rounded_down<const N: usize>(size: i32) -> u64 {
    let size = u64::try_from(size).unwrap_or_default();
    size.saturating_sub(size.checked_rem(N as u64).unwrap_or_default())
}

/// Whole slots in so many bytes.
fn slots_in<const N: usize>(length: u64) -> usize {
    let slots = length.checked_div(N as u64).unwrap_or_default();
    usize::try_from(slots).unwrap_or(usize::MAX)
}

impl<const N: usize> Slots<N> {
    fn open(folder: &mut Folder, name: &str, base_offset: Offset, max: i32) -> Result<Self> {
        let is_new = !folder.contains(name);
        if is_new {
            // The file is there before its size is looked at.
            folder.write(name, Content::empty())?;
            if usize::try_from(max).unwrap_or_default() < N {
                let what = format!("segment.index.bytes {max} is below an entry's {N} bytes");
                return Err(Error::InvalidArgument(what));
            }
            folder.set_length(name, rounded_down::<N>(max));
        }
        let length = folder.length(name);
        if length > MAX_INDEX_SIZE {
            let expected = format!("at most {MAX_INDEX_SIZE} bytes");
            return Err(
                Error::corrupt_index("index length", 0, expected, length).at(&folder.path_of(name))
            );
        }
        let found = slots_in::<N>(length);
        let mut slots = Self {
            name: name.to_owned(),
            base_offset,
            max_index_size: max,
            entries: if is_new { 0 } else { found },
            length,
            built: None,
            old: Content::empty(),
        };
        slots.load(folder)?;
        Ok(slots)
    }

    fn max_entries(&self) -> usize {
        slots_in::<N>(self.length)
    }

    /// Bytes that are made again are made once.
    fn load(&mut self, folder: &Folder) -> Result<()> {
        if let (None, Some(content)) = (&self.built, folder.get(&self.name))
            && let Source::Rebuilt(how) = content.source()
        {
            self.built = Some(how.bytes(folder.places())?);
        }
        Ok(())
    }

    fn slot(&self, folder: &Folder, n: usize) -> Result<[u8; N]> {
        let at = n.saturating_mul(N);
        if let Some(built) = &self.built {
            let slot = built.get(at..).and_then(|rest| rest.first_chunk::<N>());
            return Ok(slot.copied().unwrap_or([0; N]));
        }
        let bytes = match folder.get(&self.name) {
            Some(content) => content.read(folder.places(), at as u64, N)?,
            None => Vec::new(),
        };
        Ok(bytes.first_chunk::<N>().copied().unwrap_or([0; N]))
    }

    /// The slot of the largest entry not above the target by `compare` (entry against target).
    fn floor(
        &mut self,
        folder: &Folder,
        compare: impl Fn([u8; N]) -> Ordering,
    ) -> Result<Option<usize>> {
        self.load(folder)?;
        let Some(last) = self.entries.checked_sub(1) else {
            return Ok(None);
        };
        let first_hot = last.saturating_sub(slots_in::<N>(WARM_BYTES));
        let (mut low, mut high) = (0, first_hot);
        if compare(self.slot(folder, first_hot)?).is_lt() {
            (low, high) = (first_hot, last);
        } else if compare(self.slot(folder, 0)?).is_gt() {
            return Ok(None);
        }
        while low < high {
            let middle = low.saturating_add(high).saturating_add(1) / 2;
            match compare(self.slot(folder, middle)?) {
                Ordering::Greater => high = middle.saturating_sub(1),
                Ordering::Less => low = middle,
                Ordering::Equal => return Ok(Some(middle)),
            }
        }
        Ok(Some(low))
    }

    /// Sets the file's length; entries beyond it leave the object broken in Kafka, so they are an error here too.
    fn resize(&mut self, folder: &mut Folder, size: i32) -> Result<()> {
        let length = rounded_down::<N>(size);
        if length == self.length {
            return Ok(());
        }
        let used = self.entries.saturating_mul(N) as u64;
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

    /// No entries, and the full length (`AbstractIndex.reset`).
    fn reset(&mut self, folder: &mut Folder) -> Result<()> {
        self.entries = 0;
        self.resize(folder, self.max_index_size)?;
        self.store(folder)?;
        self.old = folder
            .get(&self.name)
            .cloned()
            .unwrap_or_else(Content::empty);
        self.built = Some(Vec::new());
        Ok(())
    }

    fn push(&mut self, slot: [u8; N]) {
        let built = self.built.get_or_insert_default();
        let at = self.entries.saturating_mul(N);
        if built.len() < at.saturating_add(N) {
            built.resize(at.saturating_add(N), 0);
        }
        for (to, byte) in built.iter_mut().skip(at).zip(slot) {
            *to = byte;
        }
        self.entries = self.entries.saturating_add(1);
    }

    fn trim(&mut self, folder: &mut Folder) -> Result<()> {
        let used = self.entries.saturating_mul(N);
        self.resize(folder, i32::try_from(used).unwrap_or(i32::MAX))
    }

    #[cold]
    fn full(&self, folder: &Folder) -> Error {
        let expected = format!("room for more than {} entries", self.entries);
        let found = format!("{} bytes (segment.index.bytes)", self.max_index_size);
        Error::corrupt_index("index", self.length, expected, found).at(&folder.path_of(&self.name))
    }

    #[cold]
    fn backwards(&self, folder: &Folder, last: Offset, offset: Offset) -> Trouble {
        let at = self.entries.saturating_mul(N) as u64;
        let expected = format!("above {last}, as offsets rise");
        let error = Error::corrupt_index("index entry offset", at, expected, offset);
        Trouble::InvalidOffset(error.at(&folder.path_of(&self.name)))
    }

    /// Puts what was built into the folder.
    fn store(&mut self, folder: &mut Folder) -> Result<()> {
        let Some(built) = &self.built else {
            return Ok(());
        };
        let mut bytes = built.clone();
        let behind = self.old.kept().saturating_sub(bytes.len() as u64);
        if let Ok(wanted @ 1..) = usize::try_from(behind) {
            let old = self.old.read(folder.places(), bytes.len() as u64, wanted)?;
            bytes.extend_from_slice(&old);
        }
        let mut content = Content::bytes(bytes);
        if content.length() != self.length {
            content = content.resized(self.length);
        }
        folder.write(&self.name, content)
    }
}

fn offset_entry(base_offset: Offset, slot: [u8; OFFSET_ENTRY_SIZE]) -> OffsetPosition {
    let relative = get_i32(&slot, 0).unwrap_or_default();
    OffsetPosition {
        offset: base_offset.wrapping_add(i64::from(relative)),
        position: get_i32(&slot, 4).unwrap_or_default(),
    }
}

fn time_entry(base_offset: Offset, slot: [u8; TIME_ENTRY_SIZE]) -> TimestampOffset {
    let relative = get_i32(&slot, 8).unwrap_or_default();
    TimestampOffset {
        timestamp: get_i64(&slot, 0).unwrap_or_default(),
        offset: base_offset.wrapping_add(i64::from(relative)),
    }
}

/// An offset index under plan.
#[derive(Debug)]
pub(super) struct OffsetIndex {
    slots: Slots<OFFSET_ENTRY_SIZE>,
    last_offset: Offset,
}

/// Whether `offset` can stand in an index that begins at `base_offset` (`AbstractIndex.canAppendOffset`).
pub(super) fn can_append_offset(base_offset: Offset, offset: Offset) -> bool {
    let relative = offset.wrapping_sub(base_offset);
    (0..=i64::from(i32::MAX)).contains(&relative)
}

fn relative_offset(base_offset: Offset, offset: Offset) -> Result<i32> {
    i32::try_from(offset.wrapping_sub(base_offset))
        .ok()
        .filter(|&relative| relative >= 0)
        .ok_or_else(|| {
            let expected = format!("{base_offset} to {} behind it", i32::MAX);
            Error::corrupt_index("index entry offset", 0, expected, offset)
        })
}

impl OffsetIndex {
    pub(super) fn open(
        folder: &mut Folder,
        name: &str,
        base_offset: Offset,
        max: i32,
    ) -> Result<Self> {
        let slots = Slots::open(folder, name, base_offset, max)?;
        let mut index = Self {
            slots,
            last_offset: base_offset,
        };
        index.read_last(folder)?;
        Ok(index)
    }

    fn read_last(&mut self, folder: &Folder) -> Result<()> {
        self.last_offset = match self.slots.entries.checked_sub(1) {
            None => self.slots.base_offset,
            Some(last) => {
                offset_entry(self.slots.base_offset, self.slots.slot(folder, last)?).offset
            }
        };
        Ok(())
    }

    pub(super) const fn last_offset(&self) -> Offset {
        self.last_offset
    }

    pub(super) fn lookup(&mut self, folder: &Folder, target: Offset) -> Result<OffsetPosition> {
        let base = self.slots.base_offset;
        let compare = |slot| offset_entry(base, slot).offset.cmp(&target);
        Ok(match self.slots.floor(folder, compare)? {
            None => OffsetPosition {
                offset: self.slots.base_offset,
                position: 0,
            },
            Some(n) => offset_entry(self.slots.base_offset, self.slots.slot(folder, n)?),
        })
    }

    pub(super) fn append(
        &mut self,
        folder: &Folder,
        offset: Offset,
        position: u64,
    ) -> Result<(), Trouble> {
        if self.slots.entries >= self.slots.max_entries() {
            return Err(self.slots.full(folder).into());
        }
        if self.slots.entries > 0 && offset <= self.last_offset {
            return Err(self.slots.backwards(folder, self.last_offset, offset));
        }
        let relative = relative_offset(self.slots.base_offset, offset)?;
        let position = i32::try_from(position).unwrap_or(i32::MAX);
        let mut slot = [0; OFFSET_ENTRY_SIZE];
        let bytes = relative.to_be_bytes().into_iter();
        for (to, byte) in slot.iter_mut().zip(bytes.chain(position.to_be_bytes())) {
            *to = byte;
        }
        self.slots.push(slot);
        self.last_offset = offset;
        Ok(())
    }

    pub(super) fn reset(&mut self, folder: &mut Folder) -> Result<()> {
        self.slots.reset(folder)?;
        self.read_last(folder)
    }

    pub(super) fn truncate_to(&mut self, folder: &Folder, offset: Offset) -> Result<()> {
        let base = self.slots.base_offset;
        let compare = |slot| offset_entry(base, slot).offset.cmp(&offset);
        self.slots.entries = match self.slots.floor(folder, compare)? {
            None => 0,
            Some(n)
                if offset_entry(self.slots.base_offset, self.slots.slot(folder, n)?).offset
                    == offset =>
            {
                n
            }
            Some(n) => n.saturating_add(1),
        };
        self.read_last(folder)
    }

    pub(super) fn resize_to_max(&mut self, folder: &mut Folder) -> Result<()> {
        self.slots.resize(folder, self.slots.max_index_size)
    }

    pub(super) fn trim(&mut self, folder: &mut Folder) -> Result<()> {
        self.slots.trim(folder)
    }

    /// Puts what was built into the folder.
    pub(super) fn store(&mut self, folder: &mut Folder) -> Result<()> {
        self.slots.store(folder)
    }

    /// Replaces what is kept of it by how it is made.
    pub(super) fn forget(&mut self, folder: &mut Folder, how: std::sync::Arc<dyn Rebuild>) {
        self.slots.built = None;
        folder.replace(&self.slots.name, Content::rebuilt(how, self.slots.length));
    }
}

/// A time index under plan.
#[derive(Debug)]
pub(super) struct TimeIndex {
    slots: Slots<TIME_ENTRY_SIZE>,
    last: TimestampOffset,
}

impl TimeIndex {
    pub(super) fn open(
        folder: &mut Folder,
        name: &str,
        base_offset: Offset,
        max: i32,
    ) -> Result<Self> {
        let slots = Slots::open(folder, name, base_offset, max)?;
        let mut index = Self {
            slots,
            last: TimestampOffset {
                timestamp: NO_TIMESTAMP,
                offset: base_offset,
            },
        };
        index.read_last(folder)?;
        Ok(index)
    }

    fn read_last(&mut self, folder: &Folder) -> Result<()> {
        self.last = match self.slots.entries.checked_sub(1) {
            None => TimestampOffset {
                timestamp: NO_TIMESTAMP,
                offset: self.slots.base_offset,
            },
            Some(last) => time_entry(self.slots.base_offset, self.slots.slot(folder, last)?),
        };
        Ok(())
    }

    pub(super) const fn last_entry(&self) -> TimestampOffset {
        self.last
    }

    pub(super) fn maybe_append(
        &mut self,
        folder: &Folder,
        timestamp: TimestampMs,
        offset: Offset,
        skip_full_check: bool,
    ) -> Result<(), Trouble> {
        let entries = self.slots.entries;
        // The last slot is kept for the roll.
        if !skip_full_check && entries.saturating_add(1) >= self.slots.max_entries() {
            return Err(self.slots.full(folder).into());
        }
        if entries > 0 && offset < self.last.offset {
            return Err(self.slots.backwards(folder, self.last.offset, offset));
        }
        if entries > 0 && timestamp < self.last.timestamp {
            let expected = format!("at least {}, as before", self.last.timestamp);
            let error = Error::corrupt_index("index entry timestamp", 0, expected, timestamp);
            return Err(error.at(&folder.path_of(&self.slots.name)).into());
        }
        if timestamp <= self.last.timestamp {
            return Ok(());
        }
        if entries >= self.slots.max_entries() {
            return Err(self.slots.full(folder).into());
        }
        let relative = relative_offset(self.slots.base_offset, offset)?;
        let mut slot = [0; TIME_ENTRY_SIZE];
        let bytes = timestamp.to_be_bytes().into_iter();
        for (to, byte) in slot.iter_mut().zip(bytes.chain(relative.to_be_bytes())) {
            *to = byte;
        }
        self.slots.push(slot);
        self.last = TimestampOffset { timestamp, offset };
        Ok(())
    }

    pub(super) fn reset(&mut self, folder: &mut Folder) -> Result<()> {
        self.slots.reset(folder)?;
        self.read_last(folder)
    }

    pub(super) fn truncate_to(&mut self, folder: &Folder, offset: Offset) -> Result<()> {
        let base = self.slots.base_offset;
        let compare = |slot| time_entry(base, slot).offset.cmp(&offset);
        self.slots.entries = match self.slots.floor(folder, compare)? {
            None => 0,
            Some(n)
                if time_entry(self.slots.base_offset, self.slots.slot(folder, n)?).offset
                    == offset =>
            {
                n
            }
            Some(n) => n.saturating_add(1),
        };
        self.read_last(folder)
    }

    pub(super) fn resize(&mut self, folder: &mut Folder, size: i32) -> Result<()> {
        let length = self.slots.length;
        self.slots.resize(folder, size)?;
        if self.slots.length != length {
            self.read_last(folder)?;
        }
        Ok(())
    }

    pub(super) fn resize_to_max(&mut self, folder: &mut Folder) -> Result<()> {
        self.resize(folder, self.slots.max_index_size)
    }

    pub(super) fn trim(&mut self, folder: &mut Folder) -> Result<()> {
        self.slots.trim(folder)?;
        self.read_last(folder)
    }

    /// Puts what was built into the folder.
    pub(super) fn store(&mut self, folder: &mut Folder) -> Result<()> {
        self.slots.store(folder)
    }

    /// Replaces what is kept of it by how it is made.
    pub(super) fn forget(&mut self, folder: &mut Folder, how: std::sync::Arc<dyn Rebuild>) {
        self.slots.built = None;
        folder.replace(&self.slots.name, Content::rebuilt(how, self.slots.length));
    }
}
