//! Summary of the batches of a segment.

use crate::format::batch::BatchHeader;
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

/// Result of a segment's walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    /// Base offset, from the file's name.
    pub base_offset: Offset,
    /// The offset after the last batch; the base without any.
    pub next_offset: Offset,
    /// Position after that batch.
    pub end: Position,
    /// The largest timestamp of the headers.
    pub max_timestamp: TimestampMs,
    /// Batches with bytes that could not be read, or were not found.
    pub is_damaged: bool,
}

impl Summary {
    /// Creates an empty one.
    #[must_use]
    pub(super) const fn new(base_offset: Offset) -> Self {
        Self {
            base_offset,
            next_offset: base_offset,
            end: 0,
            max_timestamp: NO_TIMESTAMP,
            is_damaged: false,
        }
    }

    /// Of a file that could not be read at all.
    #[must_use]
    pub(super) const fn unknown(base_offset: Offset) -> Self {
        Self {
            is_damaged: true,
            ..Self::new(base_offset)
        }
    }

    /// Takes the next batch in.
    pub(super) fn add(&mut self, position: Position, header: &BatchHeader) {
        self.next_offset = header.next_offset();
        self.end = position.saturating_add(header.size as u64);
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
    }
}
