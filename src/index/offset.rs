//! From offsets to positions in the `.log` (`OffsetIndex`).
//!
//! Entries rise in both fields. The answer to a lookup is where to begin scanning, so it is enough that the entry does
//! not lie behind the target; and as the file has no checksum, whoever uses a position verifies it against the log.

use std::path::Path;

use super::pace::Pace;
use super::{Access, Slots};
use crate::error::{Error, Result};
use crate::format::cursor::get_i32;
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition};
use crate::types::Offset;

const POSITION_AT: usize = 4;

/// A read-only offset index.
///
/// ```
/// use kafkalog::index::offset::OffsetIndex;
/// let bytes = [[0, 0, 0, 5], [0, 0, 16, 0], [0, 0, 0, 9], [0, 0, 32, 0]].concat();
/// let index = OffsetIndex::from_bytes(bytes, 100);
/// assert_eq!(index.lookup(107).position, 4096);
/// assert_eq!((index.lookup(104).offset, index.lookup(104).position), (100, 0));
/// ```
#[derive(Clone, Debug)]
pub struct OffsetIndex {
    pub(super) slots: Slots<OFFSET_ENTRY_SIZE>,
    base_offset: Offset,
    pace: Pace,
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

/// The first batch of a segment is never indexed: no entry has position 0, none but the first relative offset 0.
fn is_tail(n: usize, slot: [u8; OFFSET_ENTRY_SIZE]) -> bool {
    if n == 0 {
        position(slot) == 0
    } else {
        relative_offset(slot) == 0
    }
}

impl OffsetIndex {
    /// Opens the index of the segment that begins at `base_offset`.
    ///
    /// # Errors
    /// `Io` where the file cannot be opened or mapped.
    pub fn open(path: &Path, base_offset: Offset, access: Access) -> Result<Self> {
        Ok(Self::over(
            Slots::open(path, access, |n, &slot| is_tail(n, slot))?,
            base_offset,
        ))
    }

    /// An index over bytes at hand.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>, base_offset: Offset) -> Self {
        Self::over(
            Slots::from_bytes(bytes, |n, &slot| is_tail(n, slot)),
            base_offset,
        )
    }

    fn over(slots: Slots<OFFSET_ENTRY_SIZE>, base_offset: Offset) -> Self {
        let written = slots.written();
        let first = written
            .first()
            .copied()
            .map(relative_offset)
            .unwrap_or_default();
        let last = written
            .last()
            .copied()
            .map(relative_offset)
            .unwrap_or_default();
        let pace = Pace::of(first, last, written.len());
        Self {
            slots,
            base_offset,
            pace,
            first,
        }
    }

    /// The segment's base offset.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Entries written.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.slots.entries
    }

    /// Entries the file has room for, which Kafka, on opening it, takes for written.
    #[must_use]
    pub fn max_entries(&self) -> usize {
        self.slots.slots()
    }

    /// The file's length.
    #[must_use]
    pub const fn file_length(&self) -> u64 {
        self.slots.length
    }

    /// The last entry's offset; the base offset of an empty index.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.last_entry().offset
    }

    /// The last entry; `(base, 0)` of an empty index.
    #[must_use]
    pub fn last_entry(&self) -> OffsetPosition {
        self.entries()
            .checked_sub(1)
            .and_then(|n| self.entry(n))
            .unwrap_or_else(|| self.before_all())
    }

    /// Entry `n`, if there is one.
    #[must_use]
    pub fn entry(&self, n: usize) -> Option<OffsetPosition> {
        self.slots.written().get(n).map(|&slot| self.decode(slot))
    }

    /// All entries in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = OffsetPosition> + '_ {
        self.slots.written().iter().map(|&slot| self.decode(slot))
    }

    /// The entries whose positions are not below `position`.
    pub fn from_position(&self, position: u64) -> impl Iterator<Item = OffsetPosition> + use<'_> {
        let slots = self.slots.written();
        let below = |slot: &[u8; OFFSET_ENTRY_SIZE]| {
            i64::from(self::position(*slot)) < i64::try_from(position).unwrap_or(i64::MAX)
        };
        let first = slots.partition_point(below);
        slots.iter().skip(first).map(|&slot| self.decode(slot))
    }

    const fn before_all(&self) -> OffsetPosition {
        OffsetPosition {
            offset: self.base_offset,
            position: 0,
        }
    }

    #[inline]
    fn decode(&self, slot: [u8; OFFSET_ENTRY_SIZE]) -> OffsetPosition {
        OffsetPosition {
            offset: self
                .base_offset
                .wrapping_add(i64::from(relative_offset(slot))),
            position: position(slot),
        }
    }

    /// The greatest entry at or below `target`, else `(base, 0)`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, target: Offset) -> OffsetPosition {
        self.floor(target)
            .and_then(|n| self.entry(n))
            .unwrap_or_else(|| self.before_all())
    }

    /// The number of the greatest entry at or below `target`.
    #[inline]
    #[must_use]
    pub fn floor(&self, target: Offset) -> Option<usize> {
        let slots = self.slots.written();
        let target = target.saturating_sub(self.base_offset);
        let target = i32::try_from(target.clamp(i64::from(i32::MIN), i64::from(i32::MAX))).ok()?;
        let key = |n: usize| slots.get(n).map_or(i32::MAX, |&slot| relative_offset(slot));
        self.pace.floor(self.first, slots.len(), target, key)
    }

    /// Kafka's check: whole entries only, and the last not below the base.
    ///
    /// # Errors
    /// `CorruptIndex` where it fails.
    pub fn sanity_check(&self) -> Result<()> {
        if let Some(slot) = self.slots.last_slot() {
            let last = relative_offset(slot);
            if last < 0 {
                let at = self.slots.length.saturating_sub(OFFSET_ENTRY_SIZE as u64);
                let expected = "an offset at or above the base";
                return Err(
                    Error::corrupt_index("last offset", at, expected, last).at(&self.slots.path)
                );
            }
        }
        self.slots.check_length()
    }
}
