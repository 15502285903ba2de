//! From offsets to positions in the `.log` (`OffsetIndex`).
//!
//! Entries rise in both fields. The answer to a lookup is where to begin scanning, so it is enough that the entry does
//! not lie after the target; and as the file has no checksum, callers verify a position against the log.

use super::read::{IndexEntry, ReadIndex};
use super::spacing::EntrySpacing;
use crate::error::{Error, Result};
use crate::format::cursor::get_i32;
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition};
use crate::types::Offset;

const POSITION_AT: usize = 4;

/// A read-only offset index.
///
/// ```
/// use kafkalog::internal::index::offset::OffsetIndex;
/// let bytes = [[0, 0, 0, 5], [0, 0, 16, 0], [0, 0, 0, 9], [0, 0, 32, 0]].concat();
/// let index = OffsetIndex::from_bytes(bytes, 100);
/// assert_eq!(index.lookup(107).position, 4096);
/// assert_eq!((index.lookup(104).offset, index.lookup(104).position), (100, 0));
/// ```
pub type OffsetIndex = ReadIndex<OffsetPosition, OFFSET_ENTRY_SIZE>;

/// Hint where a search begins.
#[derive(Clone, Debug)]
pub struct Guide {
    spacing: EntrySpacing,
    first: i32,
}

#[inline]
fn relative_offset(slot: [u8; OFFSET_ENTRY_SIZE]) -> i32 {
    get_i32(&slot, 0).unwrap_or_default()
}

#[inline]
fn position(slot: [u8; OFFSET_ENTRY_SIZE]) -> i32 {
    get_i32(&slot, POSITION_AT).unwrap_or_default()
}

impl IndexEntry<OFFSET_ENTRY_SIZE> for OffsetPosition {
    type Guide = Guide;

    fn guide(slots: &[[u8; OFFSET_ENTRY_SIZE]]) -> Guide {
        let first = slots
            .first()
            .copied()
            .map(relative_offset)
            .unwrap_or_default();
        let last = slots
            .last()
            .copied()
            .map(relative_offset)
            .unwrap_or_default();
        let spacing = EntrySpacing::of(first, last, slots.len());
        Guide { spacing, first }
    }

    /// The first batch of a segment is never indexed: no entry has position 0, none but the first relative offset 0.
    fn is_tail(n: usize, slot: &[u8; OFFSET_ENTRY_SIZE]) -> bool {
        if n == 0 {
            position(*slot) == 0
        } else {
            relative_offset(*slot) == 0
        }
    }

    #[inline]
    fn decode(base_offset: Offset, slot: &[u8; OFFSET_ENTRY_SIZE]) -> Self {
        Self::relative(base_offset, relative_offset(*slot), position(*slot))
    }

    fn before_all(base_offset: Offset) -> Self {
        Self::relative(base_offset, 0, 0)
    }

    #[inline]
    fn floor(
        guide: &Guide,
        base_offset: Offset,
        slots: &[[u8; OFFSET_ENTRY_SIZE]],
        target: Offset,
    ) -> Option<usize> {
        let target = target.saturating_sub(base_offset);
        let target = i32::try_from(target.clamp(i64::from(i32::MIN), i64::from(i32::MAX))).ok()?;
        let key = |n: usize| slots.get(n).map_or(i32::MAX, |&slot| relative_offset(slot));
        guide.spacing.floor(guide.first, slots.len(), target, key)
    }
}

impl OffsetIndex {
    /// The last entry's offset; the base offset of an empty index.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.last_entry().offset
    }

    /// The entries whose positions are not below `position`.
    pub fn entries_from(&self, position: u64) -> impl Iterator<Item = OffsetPosition> + use<'_> {
        let slots = self.slots.written();
        let below = |slot: &[u8; OFFSET_ENTRY_SIZE]| {
            i64::from(self::position(*slot)) < i64::try_from(position).unwrap_or(i64::MAX)
        };
        let first = slots.partition_point(below);
        let rest = slots.iter().skip(first);
        rest.map(|slot| OffsetPosition::decode(self.base_offset, slot))
    }

    /// Kafka's check: whole entries only, and the last not below the base.
    ///
    /// # Errors
    /// `CorruptIndex` where it fails.
    pub fn sanity_check(&self) -> Result<()> {
        let last = self.slots.last_slot();
        if let Some(last) = last.map(relative_offset)
            && last < 0
        {
            let at = self.slots.length.saturating_sub(OFFSET_ENTRY_SIZE as u64);
            let expected = "an offset at or above the base";
            let error = Error::corrupt_index("last offset", at, expected, last);
            return Err(error.at(&self.slots.path));
        }
        self.slots.check_length()
    }
}
