//! From timestamps to offsets (`TimeIndex`, KIP-33).
//!
//! An entry (T, O) says: up to and with offset O the largest timestamp is T. Timestamps rise strictly, offsets never
//! fall, and one slot is kept for the entry that ends a segment. Files written before 3.8 may name the record, later ones the last offset of its batch.

use super::entry_index::{EntryIndex, IndexEntry};
use super::slots::Slots;
use crate::error::{Error, Refusal, Result};
use crate::format::cursor::{get_i32, get_i64};
use crate::format::entry::{TIME_ENTRY_SIZE, TimestampOffset};
use crate::io::entry_file::EntryFile;
use crate::io::index_file::IndexFile;
use crate::types::{Offset, TimestampMs};

const OFFSET_AT: usize = 8;

/// A time index; one that is only read, unless said otherwise.
pub type TimeIndex<F = Slots<TIME_ENTRY_SIZE>> = EntryIndex<TimestampOffset, TIME_ENTRY_SIZE, F>;

/// A time index on a disk that is written.
pub type WritableTimeIndex = TimeIndex<IndexFile<TIME_ENTRY_SIZE>>;

#[inline]
fn timestamp(slot: &[u8; TIME_ENTRY_SIZE]) -> TimestampMs {
    get_i64(slot, 0).unwrap_or_default()
}

#[inline]
fn relative_offset(slot: &[u8; TIME_ENTRY_SIZE]) -> i32 {
    get_i32(slot, OFFSET_AT).unwrap_or_default()
}

impl IndexEntry<TIME_ENTRY_SIZE> for TimestampOffset {
    /// Timestamps come in bursts: halving is as good as any guess.
    type Guide = ();

    const KEPT_FREE: usize = 1;
    const CHECKED_KEY: Option<&'static str> = Some("last timestamp");

    fn guide(_slots: &[[u8; TIME_ENTRY_SIZE]]) {}

    /// Only the first entry can have relative offset 0; with timestamp 0 too it is taken for tail.
    fn is_tail(n: usize, slot: &[u8; TIME_ENTRY_SIZE]) -> bool {
        relative_offset(slot) == 0 && (n > 0 || timestamp(slot) == 0)
    }

    #[inline]
    fn decode(base_offset: Offset, slot: &[u8; TIME_ENTRY_SIZE]) -> Self {
        Self::relative(base_offset, timestamp(slot), relative_offset(slot))
    }

    #[inline]
    fn encode(&self, relative_offset: i32) -> [u8; TIME_ENTRY_SIZE] {
        let mut slot = [0; TIME_ENTRY_SIZE];
        let (timestamp, offset) = slot.split_at_mut(OFFSET_AT);
        timestamp.copy_from_slice(&self.timestamp.to_be_bytes());
        offset.copy_from_slice(&relative_offset.to_be_bytes());
        slot
    }

    fn before_all(base_offset: Offset) -> Self {
        Self::none(base_offset)
    }

    #[inline]
    fn offset(&self) -> Offset {
        self.offset
    }

    #[inline]
    fn key(&self) -> i64 {
        self.timestamp
    }

    #[inline]
    fn floor(
        (): &(),
        _base_offset: Offset,
        slots: &[[u8; TIME_ENTRY_SIZE]],
        target: TimestampMs,
    ) -> Option<usize> {
        let above = slots.partition_point(|slot| timestamp(slot) <= target);
        above.checked_sub(1)
    }
}

impl<F: EntryFile<TIME_ENTRY_SIZE>> TimeIndex<F> {
    /// Writes an entry after the others, if its timestamp is above the last one; an equal one is skipped. An index
    /// that keeps its last slot counts as full unless `skip_full_check` says that the segment ends here.
    ///
    /// # Errors
    /// `Refused`, in Kafka's order of checks: `IndexFull`; `OffsetsOutOfOrder` for an offset below the last one;
    /// `TimestampsOutOfOrder` likewise; `SegmentOffsetOverflow` for an offset below the base or too far above.
    /// `InvalidArgument` after a close; `Io` where the disk has no room.
    #[inline]
    pub fn maybe_append(
        &mut self,
        timestamp: TimestampMs,
        offset: Offset,
        skip_full_check: bool,
    ) -> Result<()> {
        if !skip_full_check && self.is_full() {
            return Err(self.full());
        }
        if self.entries() > 0 {
            if offset < self.last.offset {
                return Err(self.out_of_order(offset));
            }
            if timestamp < self.last.timestamp {
                return Err(self.older(timestamp, offset));
            }
        }
        if timestamp <= self.last.timestamp {
            return Ok(());
        }
        if self.entries() >= self.max_entries() {
            return Err(self.full());
        }
        let relative = self.relative_offset(offset)?;
        self.push(TimestampOffset { timestamp, offset }, relative)
    }

    #[cold]
    fn older(&self, timestamp: TimestampMs, offset: Offset) -> Error {
        let (path, last) = (self.path().display(), self.last.timestamp);
        let text = format!(
            "{path}: expected a timestamp at or above the last one, {last}, found {timestamp}"
        );
        Error::refused(Refusal::TimestampsOutOfOrder, text).for_offset(offset)
    }
}
