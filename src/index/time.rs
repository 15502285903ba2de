//! From timestamps to offsets (`TimeIndex`, KIP-33).
//!
//! An entry (T, O) says: up to and with offset O the largest timestamp is T. Timestamps rise strictly, offsets never
//! fall. Files written before 3.8 may name the record, later ones the last offset of its batch.

use super::read::{IndexEntry, ReadIndex};
use crate::error::{Error, Result};
use crate::format::cursor::{get_i32, get_i64};
use crate::format::entry::{TIME_ENTRY_SIZE, TimestampOffset};
use crate::types::{Offset, TimestampMs};

const OFFSET_AT: usize = 8;

/// A read-only time index.
pub type TimeIndex = ReadIndex<TimestampOffset, TIME_ENTRY_SIZE>;

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

    fn guide(_slots: &[[u8; TIME_ENTRY_SIZE]]) {}

    /// Only the first entry can have relative offset 0; with timestamp 0 too it is taken for tail.
    fn is_tail(n: usize, slot: &[u8; TIME_ENTRY_SIZE]) -> bool {
        relative_offset(slot) == 0 && (n > 0 || timestamp(slot) == 0)
    }

    #[inline]
    fn decode(base_offset: Offset, slot: &[u8; TIME_ENTRY_SIZE]) -> Self {
        Self::relative(base_offset, timestamp(slot), relative_offset(slot))
    }

    fn before_all(base_offset: Offset) -> Self {
        Self::none(base_offset)
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

impl TimeIndex {
    /// Kafka's check: whole entries only, the last neither older than the first nor below the base.
    ///
    /// # Errors
    /// `CorruptIndex` where it fails.
    pub fn sanity_check(&self) -> Result<()> {
        let at = self.slots.length.saturating_sub(TIME_ENTRY_SIZE as u64);
        if let Some(last) = self.slots.last_slot() {
            let first = self.slots.written().first().copied().unwrap_or_default();
            if timestamp(&last) < timestamp(&first) {
                let expected = format!("at least the first, {}", timestamp(&first));
                let error = Error::corrupt_index("last timestamp", at, expected, timestamp(&last));
                return Err(error.at(&self.slots.path));
            }
            if relative_offset(&last) < 0 {
                let expected = "an offset at or above the base";
                let found = relative_offset(&last);
                let error = Error::corrupt_index("last offset", at, expected, found);
                return Err(error.at(&self.slots.path));
            }
        }
        self.slots.check_length()
    }
}
