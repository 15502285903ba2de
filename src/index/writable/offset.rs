//! `OffsetIndex`: entries rise in their offset; positions are taken as they come.

use super::super::search;
use super::{Entry, WritableIndex, entry_at};
use crate::error::{Error, Result};
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition};
use crate::io::entry_file::EntryFile;
use crate::io::index_file::IndexFile;
use crate::types::Offset;

/// Words of an entry: offset less base, position.
const WORDS: usize = OFFSET_ENTRY_SIZE / 4;

/// An offset index that is written.
pub type WritableOffsetIndex<F = IndexFile<WORDS>> = WritableIndex<OffsetPosition, WORDS, F>;

impl Entry<WORDS> for OffsetPosition {
    const KEPT_FREE: usize = 0;

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
    fn offset(&self) -> Offset {
        self.offset
    }

    #[inline]
    fn floor<F: EntryFile<WORDS>>(
        base_offset: Offset,
        file: &F,
        target: i64,
    ) -> Result<Option<usize>> {
        let key = |n| {
            let words = file.get(n)?;
            Ok(words.map_or(i64::MAX, |words| Self::decode(base_offset, words).offset))
        };
        search::floor::<WORDS, _>(file.entries(), target, key)
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
    /// one; `SegmentOffsetOverflow` for one that lies below the base or too far above. `InvalidArgument` after a close;
    /// `Io` where the disk has no room.
    #[inline]
    pub fn append(&mut self, offset: Offset, position: i32) -> Result<()> {
        if self.is_full() {
            return Err(self.full());
        }
        if self.entries() > 0 && offset <= self.last.offset {
            return Err(self.out_of_order(offset));
        }
        let relative = self.relative_offset(offset)?;
        self.push(OffsetPosition { offset, position }, relative)
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
        self.file.ensure_open()?;
        let target = i64::from(from.position.wrapping_add(fetch_size));
        let at = |n| entry_at::<OffsetPosition, WORDS, _>(self.base_offset, &self.file, n);
        let key = |n| Ok(at(n)?.map_or(i64::MAX, |entry| entry.position.into()));
        match search::ceiling::<WORDS, Error>(self.entries(), target, key)? {
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
