//! Retention of an open log (`UnifiedLog.deleteOldSegments`).

use super::WritableLog;
use crate::error::Result;
use crate::io::storage::Storage;
use crate::log::retention::{RetainedLog, SegmentAge, expired};
use crate::segment::writer::WritableSegment;
use crate::types::{Offset, TimestampMs};

impl<S: Storage> WritableLog<S> {
    /// Deletes the segments that retention deletes at this time; returns how many. The log begins with the first that is left;
    /// where none is, an empty one is begun at the log end.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` where a segment's time index cannot be read; `Refused` for a log that has failed.
    pub fn delete_old_segments(&mut self, now_ms: TimestampMs) -> Result<usize> {
        let ages = self.ages()?;
        let ends = RetainedLog {
            log_start_offset: self.log_start_offset,
            high_watermark: self.high_watermark,
            log_end_offset: self.log_end_offset,
        };
        let gone = expired(&ages, self.config(), &ends, now_ms).len();
        let going: Vec<Offset> = ages.iter().take(gone).map(|age| age.base_offset).collect();
        let Some(&last) = going.last() else {
            return Ok(0);
        };
        if last == self.active_base_offset() {
            self.roll(None, now_ms)?;
        }
        let first_left = self.segments_between(last.saturating_add(1), Offset::MAX);
        let start = first_left
            .iter()
            .map(|segment| segment.base_offset)
            .find(|&base| base > last);
        self.increment_log_start(start.unwrap_or(self.log_end_offset))?;
        self.guarded(|log| {
            for &base_offset in &going {
                log.rename_to_deleted(base_offset, now_ms)?;
                log.segments.closed.remove(&base_offset);
                log.delete_snapshot(base_offset, now_ms)?;
            }
            log.storage.sync_names()
        })?;
        Ok(gone)
    }

    /// Ages of the segments, for retention.
    fn ages(&mut self) -> Result<Vec<SegmentAge>> {
        let mut ages = Vec::new();
        for info in self.segments.infos() {
            let largest = self.largest_timestamp(info.base_offset)?;
            ages.push(SegmentAge {
                base_offset: info.base_offset,
                size: info.size,
                largest_timestamp: match largest {
                    Some(largest) => largest,
                    None => self.segment_modified_ms(info.base_offset)?,
                },
                is_from_mtime: largest.is_none(),
            });
        }
        Ok(ages)
    }

    /// The largest timestamp of a segment; `None` where no record has one.
    pub(super) fn largest_timestamp(&mut self, base_offset: Offset) -> Result<Option<TimestampMs>> {
        let largest = if base_offset == self.active_base_offset() {
            self.segments.active.max_timestamp()?.timestamp
        } else {
            let mut segment: WritableSegment<S> = self.open_closed(base_offset)?;
            let largest = segment.max_timestamp()?.timestamp;
            // Kafka remembers it.
            let known = segment.known();
            self.segments.closed.insert(base_offset, known);
            segment.close_handlers();
            largest
        };
        Ok((largest >= 0).then_some(largest))
    }

    /// The largest timestamp of a segment that is not the active one, or when it was modified where no record has one
    /// (`LogSegment.largestTimestamp`).
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` where the time index cannot be read.
    pub(crate) fn largest_or_modified_ms(&mut self, base_offset: Offset) -> Result<TimestampMs> {
        match self.largest_timestamp(base_offset)? {
            Some(largest) => Ok(largest),
            None => self.segment_modified_ms(base_offset),
        }
    }
}
