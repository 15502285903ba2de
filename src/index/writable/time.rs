//! `TimeIndex`: timestamps rise, offsets do not fall, and one slot is kept for the entry that ends a segment.

use super::super::search;
use super::{Entry, WritableIndex};
use crate::error::{Error, Refusal, Result};
use crate::format::entry::{TIME_ENTRY_SIZE, TimestampOffset};
use crate::io::entry_file::EntryFile;
use crate::io::index_file::{IndexFile, halves};
use crate::types::{Offset, TimestampMs};

/// Words of an entry: the timestamp's upper and lower half, offset less base.
const WORDS: usize = TIME_ENTRY_SIZE / 4;

/// A time index that is written.
pub type WritableTimeIndex<F = IndexFile<WORDS>> = WritableIndex<TimestampOffset, WORDS, F>;

#[inline]
fn timestamp(high: u32, low: u32) -> TimestampMs {
    (u64::from(high) << 32 | u64::from(low)).cast_signed()
}

impl Entry<WORDS> for TimestampOffset {
    const KEPT_FREE: usize = 1;

    #[inline]
    fn decode(base_offset: Offset, [high, low, relative]: [u32; WORDS]) -> Self {
        Self::relative(base_offset, timestamp(high, low), relative.cast_signed())
    }

    #[inline]
    fn encode(&self, relative_offset: i32) -> [u32; WORDS] {
        let (high, low) = halves(self.timestamp.cast_unsigned());
        [high, low, relative_offset.cast_unsigned()]
    }

    fn before_all(base_offset: Offset) -> Self {
        Self::none(base_offset)
    }

    #[inline]
    fn offset(&self) -> Offset {
        self.offset
    }

    #[inline]
    fn floor<F: EntryFile<WORDS>>(
        _base_offset: Offset,
        file: &F,
        target: i64,
    ) -> Result<Option<usize>> {
        let key = |n| {
            let words = file.get(n)?;
            Ok(words.map_or(i64::MAX, |[high, low, _]| timestamp(high, low)))
        };
        search::floor::<WORDS, _>(file.entries(), target, key)
    }
}

impl<F: EntryFile<WORDS>> WritableTimeIndex<F> {
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

    /// Kafka's check: whole entries only, the last neither older than the first nor below the base.
    ///
    /// # Errors
    /// `CorruptIndex` where it fails; `InvalidArgument` after a close.
    pub fn sanity_check(&self) -> Result<()> {
        if self.entries() > 0 {
            let (at, first) = (self.last_position(), self.entry(0)?);
            let fault = if self.last.timestamp < first.timestamp {
                let expected = format_args!("at least the first, {}", first.timestamp);
                Error::corrupt_index("last timestamp", at, expected, self.last.timestamp)
            } else if self.last.offset < self.base_offset {
                let expected = format_args!("at least the base, {}", self.base_offset);
                Error::corrupt_index("last offset", at, expected, self.last.offset)
            } else {
                return self.check_length();
            };
            return Err(fault.at(self.path()));
        }
        self.check_length()
    }
}
