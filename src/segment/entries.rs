//! Selection of the batches that get index entries (`LogSegment.append`, `LogSegment.recover`).
//!
//! A batch gets an entry if more than `index.interval.bytes` precede it since the last entry. So the first batch of a
//! segment has none, nor has the first one after the segment was reopened or truncated: the count begins at 0.

use crate::format::batch::BatchHeader;
use crate::format::entry::TimestampOffset;

/// Counts the bytes between index entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryInterval {
    /// `index.interval.bytes`.
    interval: u64,
    since: u64,
}

impl EntryInterval {
    /// Begins to count.
    #[must_use]
    pub(crate) const fn new(interval: u64) -> Self {
        Self { interval, since: 0 }
    }

    /// Returns whether the next batch gets an entry.
    #[inline]
    #[must_use]
    pub(crate) const fn is_due(&self) -> bool {
        self.since > self.interval
    }

    /// Begins to count again: an entry was made, or the segment was cut.
    #[inline]
    pub(crate) const fn restart(&mut self) {
        self.since = 0;
    }

    /// Counts a batch.
    #[inline]
    pub(crate) const fn count(&mut self, batch: &BatchHeader) {
        self.since = self.since.saturating_add(batch.size as u64);
    }
}

/// The offset of its batch that an entry of the offset index names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryOffset {
    /// The last, since 2.0.
    #[default]
    Last,
    /// The first, up to 1.1.
    First,
}

/// The largest timestamp once `batch` is there too, and the last offset of the batch that reached it.
#[inline]
#[must_use]
pub(crate) fn largest_timestamp(so_far: TimestampOffset, batch: &BatchHeader) -> TimestampOffset {
    if batch.max_timestamp > so_far.timestamp {
        TimestampOffset {
            timestamp: batch.max_timestamp,
            offset: batch.last_offset(),
        }
    } else {
        so_far
    }
}
