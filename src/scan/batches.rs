//! The batches of a planned segment, header by header.

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::scan::planned::OpenSegment;
use crate::segment::batches::BatchCursor;
use crate::types::{Offset, Position};

/// An open segment, and how far its batches were read.
#[derive(Debug)]
pub(crate) struct OpenBatches {
    /// The segment.
    pub opened: Box<OpenSegment>,
    pub(super) cursor: BatchCursor,
}

impl OpenBatches {
    /// Before the first one.
    #[must_use]
    pub(crate) fn new(opened: Box<OpenSegment>) -> Self {
        let segment = &opened.segment;
        Self {
            cursor: BatchCursor::new(segment.bounds(), segment.start_position),
            opened,
        }
    }

    /// The offset after the last batch that was read, or the segment's base.
    #[must_use]
    pub(crate) const fn next_offset(&self) -> Offset {
        self.cursor.next_offset()
    }

    /// The next one's position and header; `None` if all that follow lie after the wanted offsets. Batches before them are
    /// returned.
    ///
    /// # Errors
    /// As [`BatchCursor::next`].
    pub(crate) fn next_batch(&mut self) -> Result<Option<(Position, BatchHeader)>> {
        let (_, end) = self.opened.wanted;
        let next = self.cursor.next(&mut self.opened.source)?;
        Ok(next.filter(|(_, header)| self.cursor.least_offset(header) < end))
    }
}
