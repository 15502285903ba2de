//! Reasons for which an append goes to the next segment (`LogSegment.shouldRoll`).

use super::WritableSegment;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::io::storage::Storage;
use crate::segment::source::Access;
use crate::types::{Offset, TimestampMs};

/// Base offset for a segment that begins with this batch, when all before `next_offset` went into others. It is that
/// offset, as in `UnifiedLog.roll`: nothing then seems to be missing between them, and the first message of a wrapper,
/// which names its last offset alone, is not below it. It is the batch's own offset if the segment would not reach from
/// there.
#[must_use]
pub(crate) fn base_of(first: &BatchHeader, next_offset: Offset) -> Offset {
    let reach = first.last_offset().saturating_sub(next_offset);
    if !first.is_wrapper() && i32::try_from(reach).is_err() {
        first.base_offset
    } else {
        next_offset
    }
}

/// Parameters of an append that decide about rolling the active segment (`RollParams`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollParams {
    /// `segment.ms`, or less on compacted topics.
    pub max_segment_ms: i64,
    /// `segment.bytes`.
    pub max_segment_bytes: u64,
    /// The largest timestamp in the append.
    pub max_timestamp: TimestampMs,
    /// Its last offset.
    pub last_offset: Offset,
    /// Its bytes.
    pub size: u64,
    /// The clock.
    pub now_ms: TimestampMs,
}

/// Reasons for which a segment must be rolled; any number of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "five independent facts")]
pub struct RollReasons {
    /// The append does not fit.
    pub size: bool,
    /// The segment is old enough, by the append's largest timestamp against the first batch's.
    pub time: bool,
    /// No room for another entry.
    pub offset_index_full: bool,
    /// No room for another entry but the last one.
    pub time_index_full: bool,
    /// The append's last offset is too far from the base.
    pub offset_overflow: bool,
}

impl RollReasons {
    /// Returns whether there is one.
    #[must_use]
    pub const fn any(self) -> bool {
        self.size
            || self.time
            || self.offset_index_full
            || self.time_index_full
            || self.offset_overflow
    }
}

impl<S: Storage> WritableSegment<S> {
    /// Finds the reasons for which this append must go to another segment.
    ///
    /// # Errors
    /// `Io`, `CorruptRecord` where the first batch cannot be read.
    pub fn roll_reasons(&mut self, params: &RollParams) -> Result<RollReasons> {
        let first = self.first_batch_timestamp()?;
        let size = self.size();
        Ok(RollReasons {
            size: size.saturating_add(params.size) > params.max_segment_bytes,
            time: size > 0 && self.is_old(first, params.max_timestamp, params),
            offset_index_full: self.offset_index.get()?.is_full(),
            time_index_full: self.time_index.get()?.is_full(),
            offset_overflow: !self.holds(params.last_offset),
        })
    }

    /// Counts how many of these batches, from the first one on, would certainly find no reason to roll if each were
    /// appended alone. Only settings and clock of the parameters are used.
    ///
    /// # Errors
    /// As [`WritableSegment::roll_reasons`].
    pub fn takes(&mut self, batches: &[BatchHeader], params: &RollParams) -> Result<usize> {
        // Each of them may make an entry.
        let room = self.offset_index.get()?.room();
        let room = room.min(self.time_index.get()?.room());
        let mut first = self.first_batch_timestamp()?;
        let mut size = self.size();
        let fits = |batch: &&BatchHeader| {
            let is_old = size > 0 && self.is_old(first, batch.max_timestamp, params);
            first = first.or(Some(batch.max_timestamp));
            size = size.saturating_add(batch.size as u64);
            !is_old && size <= params.max_segment_bytes && self.holds(batch.last_offset())
        };
        Ok(batches.iter().take(room).take_while(fits).count())
    }

    /// The largest timestamp of the first batch, `None` of an empty segment.
    ///
    /// # Errors
    /// `Io`, `CorruptRecord` where the first batch cannot be read.
    pub(crate) fn first_batch_timestamp(&mut self) -> Result<Option<TimestampMs>> {
        if self.first_batch_timestamp.is_none() && self.size() > 0 {
            let first = self.walk(0, self.size(), Access::Headers)?.next()?;
            self.first_batch_timestamp = first.map(|(_, header)| header.max_timestamp);
        }
        Ok(self.first_batch_timestamp)
    }

    /// Returns whether this segment has waited long enough: by timestamps if its first batch has one, else by the
    /// clock.
    const fn is_old(
        &self,
        first: Option<TimestampMs>,
        max_timestamp: TimestampMs,
        params: &RollParams,
    ) -> bool {
        let waited = match first {
            Some(first) if first >= 0 => max_timestamp.wrapping_sub(first),
            _ => params.now_ms.wrapping_sub(self.created_ms),
        };
        let jitter = self.settings.roll_jitter_ms;
        waited > params.max_segment_ms.saturating_sub(jitter)
    }
}
