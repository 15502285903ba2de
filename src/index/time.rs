//! From timestamps to offsets (`TimeIndex`, KIP-33).
//!
//! An entry (T, O) says: up to and with offset O the largest timestamp is T. Timestamps rise strictly, offsets never
//! fall. Files written before 3.8 may name the record, later ones the last offset of its batch.

use std::path::Path;

use super::{Access, Slots};
use crate::error::{Error, Result};
use crate::format::cursor::{get_i32, get_i64};
use crate::format::entry::{TIME_ENTRY_SIZE, TimestampOffset};
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

const OFFSET_AT: usize = 8;

/// A read-only time index.
#[derive(Clone, Debug)]
pub struct TimeIndex {
    slots: Slots<TIME_ENTRY_SIZE>,
    base_offset: Offset,
}

#[inline]
fn timestamp(slot: &[u8; TIME_ENTRY_SIZE]) -> TimestampMs {
    get_i64(slot, 0).unwrap_or_default()
}

#[inline]
fn relative_offset(slot: &[u8; TIME_ENTRY_SIZE]) -> i32 {
    get_i32(slot, OFFSET_AT).unwrap_or_default()
}

/// Only the first entry can have relative offset 0; with timestamp 0 too it is taken for tail.
fn is_tail(n: usize, slot: &[u8; TIME_ENTRY_SIZE]) -> bool {
    relative_offset(slot) == 0 && (n > 0 || timestamp(slot) == 0)
}

impl TimeIndex {
    /// Opens the index of the segment that begins at `base_offset`.
    ///
    /// # Errors
    /// `Io` where the file cannot be opened or mapped.
    pub fn open(path: &Path, base_offset: Offset, access: Access) -> Result<Self> {
        let slots = Slots::open(path, access, is_tail)?;
        Ok(Self { slots, base_offset })
    }

    /// An index over bytes at hand.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>, base_offset: Offset) -> Self {
        let slots = Slots::from_bytes(bytes, is_tail);
        Self { slots, base_offset }
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

    /// The last entry; `(-1, base)` of an empty index.
    #[must_use]
    pub fn last_entry(&self) -> TimestampOffset {
        self.entries()
            .checked_sub(1)
            .and_then(|n| self.entry(n))
            .unwrap_or_else(|| self.before_all())
    }

    /// Entry `n`, if there is one.
    #[must_use]
    pub fn entry(&self, n: usize) -> Option<TimestampOffset> {
        self.slots.written().get(n).map(|slot| self.decode(slot))
    }

    /// All entries in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TimestampOffset> + '_ {
        self.slots.written().iter().map(|slot| self.decode(slot))
    }

    const fn before_all(&self) -> TimestampOffset {
        TimestampOffset {
            timestamp: NO_TIMESTAMP,
            offset: self.base_offset,
        }
    }

    #[inline]
    fn decode(&self, slot: &[u8; TIME_ENTRY_SIZE]) -> TimestampOffset {
        TimestampOffset {
            timestamp: timestamp(slot),
            offset: self
                .base_offset
                .wrapping_add(i64::from(relative_offset(slot))),
        }
    }

    /// The greatest entry at or below `target`, else `(-1, base)`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, target: TimestampMs) -> TimestampOffset {
        let slots = self.slots.written();
        slots
            .partition_point(|slot| timestamp(slot) <= target)
            .checked_sub(1)
            .and_then(|n| self.entry(n))
            .unwrap_or_else(|| self.before_all())
    }

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
                return Err(
                    Error::corrupt_index("last timestamp", at, expected, timestamp(&last))
                        .at(&self.slots.path),
                );
            }
            if relative_offset(&last) < 0 {
                let expected = "an offset at or above the base";
                let found = relative_offset(&last);
                return Err(
                    Error::corrupt_index("last offset", at, expected, found).at(&self.slots.path)
                );
            }
        }
        self.slots.check_length()
    }
}
