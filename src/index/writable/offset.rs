//! `OffsetIndex`: entries rise in their offset; positions are taken as they come.

use super::super::{pace::Pace, search};
use super::{Entry, WritableIndex, entry_at};
use crate::error::{Error, Result};
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition};
use crate::io::entry_file::{Entries, EntryFile};
use crate::io::index_file::IndexFile;
use crate::types::Offset;

/// Words of an entry: offset less base, position.
const WORDS: usize = OFFSET_ENTRY_SIZE / 4;

/// The hint of an index whose entries do not rise, or are few.
const NO_PACE: u64 = 0;
/// The pace is computed again every 2^10 entries; before the first of them, halving is as quick.
const PACE_BITS: u32 = 10;

/// An offset index that is written.
pub type WritableOffsetIndex<F = IndexFile<WORDS>> = WritableIndex<OffsetPosition, WORDS, F>;

impl Entry<WORDS> for OffsetPosition {
    const KEPT_FREE: usize = 0;

    fn opened<F: EntryFile<WORDS>>(index: &mut WritableOffsetIndex<F>) {
        index.note_pace();
    }

    #[inline]
    fn decode(base_offset: Offset, [relative, position]: [u32; WORDS]) -> Self {
        Self::relative(base_offset, relative.cast_signed(), position.cast_signed())
    }

    #[inline]
    fn encode(&self, relative_offset: i32) -> [u32; WORDS] {
        [
            relative_offset.cast_unsigned(),
            self.position.cast_unsigned(),
        ]
    }

    fn before_all(base_offset: Offset) -> Self {
        Self::relative(base_offset, 0, 0)
    }

    #[inline]
    fn key(&self) -> i64 {
        self.offset
    }

    #[inline]
    fn offset(&self) -> Offset {
        self.offset
    }

    #[inline]
    fn floor<T: Entries<WORDS>>(
        base_offset: Offset,
        entries: &T,
        target: i64,
    ) -> Result<Option<usize>, T::Error> {
        let pace = entries.hint();
        if pace == NO_PACE {
            let key = |n| {
                let words = entries.get(n)?;
                Ok(words.map_or(i64::MAX, |words| Self::decode(base_offset, words).offset))
            };
            return search::floor::<WORDS, _>(entries.entries(), target, key);
        }
        let relative = target.saturating_sub(base_offset);
        let relative = relative.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
        let key = |n| {
            let words = entries.get(n)?;
            Ok(words.map_or(i32::MAX, |[relative, _]| relative.cast_signed()))
        };
        let Ok(target) = i32::try_from(relative) else {
            return Ok(None);
        };
        Pace::from_bits(pace).floor(key(0)?, entries.entries(), target, key)
    }
}

impl<F: EntryFile<WORDS>> WritableOffsetIndex<F> {
    /// The last entry's offset; the base offset of an empty index.
    #[must_use]
    pub const fn last_offset(&self) -> Offset {
        self.last.offset
    }

    /// Writes an entry after the others.
    ///
    /// # Errors
    /// `Refused`, in Kafka's order of checks: `IndexFull`; `OffsetsOutOfOrder` for an offset that is not above the last
    /// one; `SegmentOffsetOverflow` for one that lies below the base or too far above. `InvalidArgument` after a close
    /// or in an index opened for reading; `Io` where the disk has no room.
    #[inline]
    pub fn append(&mut self, offset: Offset, position: i32) -> Result<()> {
        if self.is_full() {
            return Err(self.full());
        }
        if self.entries() > 0 && offset <= self.last.offset {
            return Err(self.out_of_order(offset));
        }
        let relative = self.relative_offset(offset)?;
        self.push(OffsetPosition { offset, position }, relative)?;
        if self.entries().trailing_zeros() >= PACE_BITS {
            self.note_pace();
        }
        Ok(())
    }

    /// Says at what pace offsets rise, if all do and none wraps: then guessing finds what Kafka's search does.
    #[cold]
    fn note_pace(&self) {
        let (base, entries) = (self.base_offset, self.entries());
        let first = self
            .entry(0)
            .ok()
            .map(|entry| entry.offset.wrapping_sub(base));
        let first = first.and_then(|first| i32::try_from(first).ok());
        let last = i32::try_from(self.last.offset.wrapping_sub(base)).ok();
        let is_steady = self.is_sorted && base.checked_add(i64::from(i32::MAX)).is_some();
        if let (true, Some(first), Some(last)) = (is_steady, first, last) {
            self.file.set_hint(Pace::of(first, last, entries).to_bits());
        }
    }

    /// An entry that lies after a fetch of `fetch_size` bytes from `from`; not in general the first such.
    ///
    /// Kafka adds position and size as Java `int`s, and so do we: a sum above 2^31 - 1 turns negative.
    ///
    /// # Errors
    /// `InvalidArgument` after a close.
    pub fn fetch_upper_bound(
        &self,
        from: OffsetPosition,
        fetch_size: i32,
    ) -> Result<Option<OffsetPosition>> {
        let entries = self.file.snapshot()?;
        let target = i64::from(from.position.wrapping_add(fetch_size));
        let at = |n| entry_at::<OffsetPosition, WORDS, _>(self.base_offset, &entries, n);
        let at = |n| at(n).map_err(Into::<Error>::into);
        let key = |n| Ok(at(n)?.map_or(i64::MAX, |entry| entry.position.into()));
        match search::ceiling::<WORDS, Error>(entries.entries(), target, key)? {
            Some(n) => at(n),
            None => Ok(None),
        }
    }

    /// Kafka's check: whole entries only, and the last not below the base.
    ///
    /// # Errors
    /// `CorruptIndex` where it fails.
    pub fn sanity_check(&self) -> Result<()> {
        if self.entries() > 0 && self.last.offset < self.base_offset {
            let expected = format_args!("at least the base, {}", self.base_offset);
            let at = self.last_position();
            let error = Error::corrupt_index("last offset", at, expected, self.last.offset);
            return Err(error.at(self.path()));
        }
        self.check_length()
    }
}
