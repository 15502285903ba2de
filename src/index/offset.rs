//! From offsets to positions in the `.log` (`OffsetIndex`).
//!
//! Entries rise in their offset; positions, which rise too, are taken as they come. The answer to a lookup is where to begin scanning, so it is enough that the entry does
//! not lie after the target; and as the file has no checksum, callers verify a position against the log.

use super::entry_index::{EntryIndex, IndexEntry};
use super::search;
use super::slots::Slots;
use super::spacing::EntrySpacing;
use crate::error::{Error, Result};
use crate::format::cursor::get_i32;
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition};
use crate::io::entry_file::EntryFile;
use crate::io::index_file::IndexFile;
use crate::types::Offset;

const POSITION_AT: usize = 4;

/// An offset index; one that is only read, unless said otherwise.
///
/// ```
/// use kafkalog::internal::index::offset::OffsetIndex;
/// let bytes = [[0, 0, 0, 5], [0, 0, 16, 0], [0, 0, 0, 9], [0, 0, 32, 0]].concat();
/// let index = OffsetIndex::from_bytes(bytes, 100)?;
/// assert_eq!(index.lookup(107)?.position, 4096);
/// assert_eq!((index.lookup(104)?.offset, index.lookup(104)?.position), (100, 0));
/// # Ok::<(), kafkalog::internal::error::Error>(())
/// ```
pub type OffsetIndex<F = Slots<OFFSET_ENTRY_SIZE>> =
    EntryIndex<OffsetPosition, OFFSET_ENTRY_SIZE, F>;

/// An offset index on a disk that is written.
pub type WritableOffsetIndex = OffsetIndex<IndexFile<OFFSET_ENTRY_SIZE>>;

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

    const KEPT_FREE: usize = 0;
    const CHECKED_KEY: Option<&'static str> = None;

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

    #[inline]
    fn encode(&self, relative_offset: i32) -> [u8; OFFSET_ENTRY_SIZE] {
        let both = u64::from(relative_offset.cast_unsigned()) << 32;
        (both | u64::from(self.position.cast_unsigned())).to_be_bytes()
    }

    fn before_all(base_offset: Offset) -> Self {
        Self::relative(base_offset, 0, 0)
    }

    #[inline]
    fn offset(&self) -> Offset {
        self.offset
    }

    #[inline]
    fn key(&self) -> i64 {
        self.offset
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
    /// The entries whose positions are not below `position`.
    pub fn entries_from(&self, position: u64) -> impl Iterator<Item = OffsetPosition> + use<'_> {
        let slots = self.file.written();
        let below = |slot: &[u8; OFFSET_ENTRY_SIZE]| {
            i64::from(self::position(*slot)) < i64::try_from(position).unwrap_or(i64::MAX)
        };
        let first = slots.partition_point(below);
        let rest = slots.iter().skip(first);
        rest.map(|slot| OffsetPosition::decode(self.base_offset, slot))
    }
}

impl<F: EntryFile<OFFSET_ENTRY_SIZE>> OffsetIndex<F> {
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
        let key = |n| self.value(n, |it| it.position.into());
        match search::ceiling::<OFFSET_ENTRY_SIZE, Error>(self.entries(), target, key)? {
            Some(n) => self.get(n),
            None => Ok(None),
        }
    }
}
