//! The chain of headers from the first byte to the last, by the lengths in them.
//!
//! If it is in order up to the end, a reader returns its batches one by one without reading ahead. The walk past damage
//! then follows it as well, so that both return the same.

use std::sync::Arc;

use crate::error::Result;
use crate::io::storage::ReadFile;
use crate::segment::batches::{BatchCursor, Batches, Bounds};
use crate::segment::source::{Access, SegmentSource};
use crate::types::Position;

/// The headers of a segment, each of them well-formed and after the one before, up to the end.
#[derive(Debug)]
pub(crate) struct HeaderChain {
    batches: Batches<BatchCursor>,
    /// Position of the header that was read last.
    last: Option<Position>,
}

impl HeaderChain {
    /// `None` for headers that are not in order up to the end.
    ///
    /// # Errors
    /// `Io`, `Interrupted`, `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(crate) fn of(file: Arc<dyn ReadFile>, size: u64, bounds: Bounds) -> Result<Option<Self>> {
        let source = SegmentSource::over(file, size, Access::Headers)?;
        let bounds = Bounds {
            end: None,
            ..bounds
        };
        let begin = BatchCursor::new(bounds, 0);
        let mut batches = Batches::new(source, begin.clone());
        loop {
            match batches.next() {
                Ok(Some(_)) => {}
                Ok(None) if batches.position() >= batches.source.len() => break,
                Ok(None) => return Ok(None),
                Err(error) if error.as_fault().is_some() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        batches.policy = begin;
        Ok(Some(Self {
            batches,
            last: None,
        }))
    }

    /// Returns whether a header begins at `position`, which must rise from call to call.
    ///
    /// # Errors
    /// `Io`, `Interrupted`.
    pub(super) fn has(&mut self, position: Position) -> Result<bool> {
        while self.last.is_none_or(|last| last < position) {
            match self.batches.next() {
                Ok(Some((last, _))) => self.last = Some(last),
                Ok(None) => return Ok(false),
                // The file has changed.
                Err(error) if error.as_fault().is_some() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(self.last == Some(position))
    }
}
